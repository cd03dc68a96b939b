//! Detects whether the kernel's OOM killer ended processes of a run.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Number of processes killed by the OOM killer since [`OomKills::watch`], in the control group if
/// there is one, else on the host.
#[derive(Debug)]
pub(crate) struct OomKills {
    counter: Option<File>,
    before: u64,
}

impl OomKills {
    pub(crate) fn watch() -> Self {
        let counter = counters().into_iter().find_map(|path| {
            let file = File::open(path).ok()?;
            let before = read(&file)?;
            Some((file, before))
        });
        match counter {
            Some((file, before)) => Self { counter: Some(file), before },
            None => Self { counter: None, before: 0 },
        }
    }

    /// The count since then; 0 if the kernel does not report it.
    pub(crate) fn count(&self) -> u64 {
        self.counter.as_ref().and_then(read).unwrap_or(0).saturating_sub(self.before)
    }
}

/// Files that may contain the count, best first.
fn counters() -> Vec<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut files: Vec<PathBuf> = groups.lines().filter_map(file_of_group).collect();
    files.push(PathBuf::from("/proc/vmstat"));
    files
}

/// The file for a line `4:memory:/a/b` (version 1) or `0::/a/b` (version 2).
fn file_of_group(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let path = path.trim_start_matches('/');
    if controllers.is_empty() {
        return Some(Path::new("/sys/fs/cgroup").join(path).join("memory.events"));
    }
    let is_memory = controllers.split(',').any(|controller| controller == "memory");
    is_memory.then(|| Path::new("/sys/fs/cgroup/memory").join(path).join("memory.oom_control"))
}

fn read(file: &File) -> Option<u64> {
    let mut bytes = [0; 16 << 10];
    let length = file.read_at(&mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// The value of `oom_kill`, which has this name in all three files.
fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_oom_count_from_all_kernel_files() {
        assert_eq!(parse("low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(parse("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(parse("pgfault 12\noom_kill 0\n"), Some(0));
        assert_eq!(parse("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn finds_file_for_both_cgroup_versions() {
        let file = |line| file_of_group(line).map(|path| path.display().to_string());
        let v2 = "/sys/fs/cgroup/user.slice/a/memory.events";
        assert_eq!(file("0::/user.slice/a").as_deref(), Some(v2));
        let v1 = "/sys/fs/cgroup/memory/a/memory.oom_control";
        assert_eq!(file("4:memory:/a").as_deref(), Some(v1));
        assert_eq!(file("4:cpu,cpuacct:/a"), None);
    }
}
