//! Runs of labs as child processes of the same program.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};

use report::format::shell_word;
use serde_json::Value;
use sys::process::Signal;

use crate::{Error, Result};

/// What a child says on standard output at most: one run's record.
const SAID_LIMIT: u64 = 256 << 20;
/// What is kept of a child's standard error.
const ERRORS_LIMIT: u64 = 1 << 20;
/// Lines of it that are told.
const LAST_LINES: usize = 12;

/// A run that goes on. Dropped, it is asked to stop and waited for.
pub(crate) struct Child {
    process: process::Child,
    ended: Option<ExitStatus>,
    /// Where it says that its lab stands, and is told to begin.
    starter: Option<UnixStream>,
    /// The command as a shell reads it.
    command: String,
    /// Where its two streams go: this path with `.out` and `.err`.
    streams: PathBuf,
}

impl Child {
    /// Starts `program` with `words`. It leads a process group, so that the terminal's interrupt
    /// reaches it through us alone, and once.
    pub(crate) fn start(program: &Path, words: &[String], streams: PathBuf) -> Result<Self> {
        Self::start_with(program, words, streams, Stdio::null())
    }

    /// The same with a `run` that begins only when it is told to: see [`Self::stands`].
    pub(crate) fn hold(program: &Path, words: &[String], streams: PathBuf) -> Result<Self> {
        let failed = |e| Error::io("start", program, e);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let mut words = words.to_owned();
        words.push("--await-start".to_owned());
        let stdin = Stdio::from(OwnedFd::from(theirs));
        let mut child = Self::start_with(program, &words, streams, stdin)?;
        child.starter = Some(ours);
        Ok(child)
    }

    fn start_with(
        program: &Path,
        words: &[String],
        streams: PathBuf,
        stdin: Stdio,
    ) -> Result<Self> {
        let create = |extension| {
            let path = streams.with_extension(extension);
            File::create(&path).map_err(|e| Error::io("create", &path, e))
        };
        let (out, err) = (create("out")?, create("err")?);
        let mut command = Command::new(program);
        // What would change the lab behind the figure's back.
        for name in ["NETARIUM_SEED", "NETARIUM_DURATION", "NETARIUM_NAME"] {
            command.env_remove(name);
        }
        command.args(words).stdin(stdin).stdout(out).stderr(err).process_group(0);
        let process = command.spawn().map_err(|e| Error::io("start", program, e))?;
        // Whoever repeats it has nothing to wait for.
        let words =
            words.iter().filter(|word| *word != "--await-start").map(|word| shell_word(word));
        let command = std::iter::once("netarium".to_owned()).chain(words);
        let command = command.collect::<Vec<_>>().join(" ");
        Ok(Self { process, ended: None, starter: None, command, streams })
    }

    /// Whether it is over.
    pub(crate) fn over(&mut self) -> Result<bool> {
        if self.ended.is_none() {
            let ended = self.process.try_wait();
            self.ended = ended.map_err(|e| Error::io("wait for", Path::new(&self.command), e))?;
        }
        Ok(self.ended.is_some())
    }

    /// Whether its lab stands and waits for the word to begin.
    pub(crate) fn stands(&self) -> bool {
        let waiting = self.starter.as_ref().map(|mut starter| starter.read(&mut [0]));
        matches!(waiting, Some(Ok(1)))
    }

    /// Lets its lab begin.
    pub(crate) fn begin(&self) {
        if let Some(mut starter) = self.starter.as_ref() {
            // One that is gone has ended, or will be found to have.
            let _ = starter.write(&[1]);
        }
    }

    /// Asks it to stop; asked again, it insists.
    pub(crate) fn stop(&self) {
        if self.ended.is_none() {
            // It has not been waited for, so the number is still its own; one that has just ended
            // needs no signal.
            let _ = sys::process::signal_pid(self.process.id(), Signal::TERM);
        }
    }

    /// The folder of a run that came to its end, trusted or not.
    pub(crate) fn finish(mut self) -> Result<PathBuf> {
        let code = match self.ended {
            Some(status) => code(status),
            None => self.process.wait().map_or(70, code),
        };
        self.ended = Some(ExitStatus::from_raw(0));
        let read = |extension, limit| read(&self.streams.with_extension(extension), limit);
        let said: Option<Value> = serde_json::from_str(&read("out", SAID_LIMIT)).ok();
        let folder = said.as_ref().and_then(|said| said["folder"].as_str()).map(PathBuf::from);
        match (code, folder) {
            (0 | 1 | 3, Some(folder)) => {
                for extension in ["out", "err"] {
                    // What was said is in the run folder too.
                    let _ = fs::remove_file(self.streams.with_extension(extension));
                }
                Ok(folder)
            }
            (130, _) => Err(Error::Interrupted),
            (code, _) => {
                let said = complaint(said.as_ref(), &read("err", ERRORS_LIMIT), code);
                Err(Error::Child { said, command: self.command.clone(), code: code.max(1) })
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.stop();
            let _ = self.process.wait();
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(70)
}

fn read(path: &Path, limit: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // Whatever can be read is better than nothing.
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Why a child failed, from what it printed.
fn complaint(said: Option<&Value>, errors: &str, code: u8) -> String {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().into_iter().flatten();
        list.filter_map(|item| item["message"].as_str().map(str::to_owned)).collect()
    };
    let mut parts = Vec::new();
    if let Some(said) = said {
        parts.extend(said["message"].as_str().map(str::to_owned));
        parts.extend(texts(&said["errors"]));
        for program in said["programs"].as_array().into_iter().flatten() {
            if program["as_expected"] == false {
                let name = program["name"].as_str().unwrap_or_default();
                let node = program["node"].as_str().unwrap_or_default();
                let lines = program["last_stderr"].as_array().into_iter().flatten();
                let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
                parts.push(format!("program {name} on {node} failed\n{}", lines.join("\n")));
            }
        }
    }
    if parts.is_empty() {
        let lines: Vec<&str> = errors.lines().filter(|line| !line.trim().is_empty()).collect();
        parts.extend(lines[lines.len().saturating_sub(LAST_LINES)..].iter().map(|&l| l.to_owned()));
    }
    if parts.is_empty() {
        parts.push(format!("the run ended with code {code}"));
    }
    parts.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::{Duration, Instant};

    use super::*;

    fn shell(dir: &Path, script: &str) -> Child {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let streams = dir.join(format!("child{}", NUMBER.fetch_add(1, Relaxed)));
        let words = ["-c".to_owned(), script.to_owned()];
        Child::start(Path::new("/bin/sh"), &words, streams).unwrap()
    }

    #[test]
    fn a_failed_run_tells_why_and_how_to_repeat_it() {
        let dir = tempfile::tempdir().unwrap();
        let cases = [
            ("echo '{\"message\":\"no engine\"}'; exit 4", "no engine", 4),
            ("echo '{\"errors\":[{\"message\":\"no link\"}]}'; exit 2", "no link", 2),
            ("echo broken >&2; exit 70", "broken", 70),
            ("exit 9", "ended with code 9", 9),
            ("exit 0", "ended with code 0", 1),
            ("kill -KILL $$", "ended with code 70", 70),
        ];
        for (script, text, code) in cases {
            let error = shell(dir.path(), script).finish().err().unwrap();
            let told = error.text();
            assert!(told.contains(text) && told.contains("repeat: netarium -c"), "{told}");
            assert_eq!(error.exit_code(), code);
        }
    }

    #[test]
    fn a_run_without_trust_has_its_results() {
        let dir = tempfile::tempdir().unwrap();
        let child = shell(dir.path(), "echo '{\"folder\":\"/x/y-1\"}'; exit 3");
        assert_eq!(child.finish().unwrap(), PathBuf::from("/x/y-1"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "streams are left");
    }

    #[test]
    fn a_child_that_is_held_begins_when_told() {
        let dir = tempfile::tempdir().unwrap();
        let script = "printf x >&0; dd bs=1 count=1 <&0 2>/dev/null >/dev/null; exit 9";
        let words = ["-c".to_owned(), script.to_owned()];
        let streams = dir.path().join("child");
        let mut child = Child::hold(Path::new("/bin/sh"), &words, streams).unwrap();
        let begun = Instant::now();
        while !child.stands() {
            assert!(begun.elapsed() < Duration::from_secs(50));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!child.over().unwrap());
        child.begin();
        let told = child.finish().unwrap_err().text();
        assert!(told.contains("code 9") && !told.contains("await"), "{told}");
    }

    #[test]
    fn a_child_that_is_dropped_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let child = shell(dir.path(), "exec sleep 60");
        let id = child.process.id();
        drop(child);
        assert!(begun.elapsed() < Duration::from_secs(50));
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
