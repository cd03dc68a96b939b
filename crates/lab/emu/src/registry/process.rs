//! Identity of the processes in registry entries.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};

use super::RegistryError;

/// A process; the start time distinguishes it from later processes with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid in the PID namespace of the command that registered it.
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub started_ticks: u64,
}

impl Process {
    /// The process that has this pid now.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        start_ticks(&stat).map(|started_ticks| Self { pid, started_ticks })
    }

    /// A descriptor of the process, or `None` if it has ended.
    pub(super) fn open(self) -> Result<Option<OwnedFd>, RegistryError> {
        let Some(pid) = Pid::from_raw(self.pid as i32) else { return Ok(None) };
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            // Only this check proves that the descriptor refers to the right process.
            Ok(fd) => Ok(self.is_alive().then_some(fd)),
            Err(Errno::SRCH) => Ok(None),
            Err(e) => Err(RegistryError::Signal { pid: self.pid, source: e.into() }),
        }
    }

    /// Whether it still runs (a zombie does not).
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Its properties; `None` if it has ended.
    fn facts(self) -> Option<Facts> {
        let facts = Facts::read(self.pid);
        self.is_alive().then_some(facts)
    }
}

/// Why running processes are not the command and the first process of a lab; `None` if they are,
/// or if none of them runs. Processes of a lab cannot imitate all of these properties.
pub(super) fn problem(supervisor: Process, init: Process) -> Option<String> {
    let command = supervisor.facts();
    if let Some(problem) = command.as_ref().and_then(Facts::foreign_reason) {
        return Some(problem);
    }
    let first = init.facts()?;
    if let Some(problem) = first.foreign_reason() {
        return Some(problem);
    }
    let pid = first.pid;
    if !first.is_namespace_init || first.shares_namespaces {
        return Some(format!("process {pid} is not the first process of a lab"));
    }
    // A lab without its command is about to end.
    let command = command?;
    let is_child = first.parent == Some(supervisor.pid);
    if !is_child || (first.program.is_some() && first.program != command.program) {
        let supervisor = supervisor.pid;
        return Some(format!("process {pid} was not started by process {supervisor}"));
    }
    None
}

struct Facts {
    pid: u32,
    /// The effective user ID.
    user: Option<u32>,
    parent: Option<u32>,
    /// Whether it is process 1 of a PID namespace below that of this process.
    is_namespace_init: bool,
    /// Whether it has the mount or the network namespace of this process.
    shares_namespaces: bool,
    /// Device, inode and name of its executable; `None` if this user may not read it.
    program: Option<(u64, u64, PathBuf)>,
}

impl Facts {
    fn read(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = |field: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let words = line.unwrap_or_default().split_ascii_whitespace();
            words.filter_map(|word| word.parse().ok()).collect()
        };
        let pids = numbers("NSpid:");
        let shares = |kind: &str| {
            let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
            namespace("self") == namespace(&pid.to_string())
        };
        Self {
            pid,
            user: numbers("Uid:").get(1).copied(),
            parent: numbers("PPid:").first().copied(),
            is_namespace_init: pids.len() > 1 && pids.last() == Some(&1),
            shares_namespaces: shares("mnt") || shares("net"),
            program: program(&pid.to_string()),
        }
    }

    /// Why this cannot be a process of this program and user.
    fn foreign_reason(&self) -> Option<String> {
        let pid = self.pid;
        let name = |program: &Option<(u64, u64, PathBuf)>| {
            program.as_ref().map(|(_, _, path)| path.file_name().map(ToOwned::to_owned))
        };
        if self.user != Some(rustix::process::geteuid().as_raw()) {
            Some(format!("process {pid} belongs to another user"))
        } else if self.program.is_some() && name(&self.program) != name(&program("self")) {
            Some(format!("process {pid} is another program"))
        } else {
            None
        }
    }
}

/// Device, inode and path of the executable of a process.
fn program(pid: &str) -> Option<(u64, u64, PathBuf)> {
    let link = format!("/proc/{pid}/exe");
    let (path, facts) = (fs::read_link(&link).ok()?, fs::metadata(&link).ok()?);
    // An update has replaced the file.
    let path = path
        .to_str()
        .and_then(|text| text.strip_suffix(" (deleted)"))
        .map_or(path.clone(), |text| Path::new(text).to_owned());
    Some((facts.dev(), facts.ino(), path))
}

/// Field 22 of a `stat` file, unless the process is a zombie or dead.
fn start_ticks(stat: &[u8]) -> Option<u64> {
    // The command's name is in parentheses and may contain any byte except NUL.
    let end = stat.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper(words: &[&str]) -> Child {
        Command::new(words[0]).args(&words[1..]).arg("sleep").arg("600").spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn own() -> Process {
        Process::of(std::process::id()).unwrap()
    }

    #[test]
    fn reports_processes_outside_of_labs() {
        let child = sleeper(&["env"]);
        let pid = child.id();
        // Waits until `env` has executed `sleep`.
        while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() != "sleep" {}
        let other = Process::of(pid).unwrap();
        let problems = [
            problem(other, own()),
            problem(own(), other),
            problem(own(), own()),
            problem(other, Process { started_ticks: 1, ..other }),
        ];
        let other = format!("process {pid} is another program");
        let none = format!("process {} is not the first process of a lab", own().pid);
        assert_eq!(problems, [&other, &other, &none, &other].map(|text| Some(text.clone())));
        end(child);
    }

    #[test]
    fn reports_init_processes_of_other_namespaces() {
        let child = sleeper(&[
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
        ]);
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let first = (0..100).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::read_to_string(&children).ok()?.trim().parse().ok()
        });
        if let Some(first) = first {
            let (command, first) = (Process::of(child.id()).unwrap(), Process::of(first).unwrap());
            assert!(Facts::read(first.pid).is_namespace_init);
            for supervisor in [command, own(), Process { started_ticks: 1, ..own() }] {
                assert!(problem(supervisor, first).is_some());
            }
        } else {
            eprintln!("SKIPPED reports_init_processes_of_other_namespaces: no namespaces");
        }
        end(child);
    }

    #[test]
    fn parses_start_time_after_any_name_and_rejects_zombies() {
        let line = |name: &str, state: &str| {
            format!("7 ({name}) {state} 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 10")
        };
        assert_eq!(start_ticks(line("a) R (b", "S").as_bytes()), Some(4242));
        assert_eq!(start_ticks(line("sh", "Z").as_bytes()), None);
        assert_eq!(start_ticks(b"7 (sh"), None);
        assert_eq!(start_ticks(b"7 (sh) S 1"), None);
    }
}
