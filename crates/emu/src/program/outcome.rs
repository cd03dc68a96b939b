//! How a program fared.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use base::Time;
use lab::plan::{Command, Program};
use record::run::ProgramEnd;
use sys::process::Exit;

/// Lines of standard error that are kept, and bytes in which they are looked for.
const LINES: usize = 20;
const TAIL: u64 = 8 * 1024;

/// A program over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramOutcome {
    /// When it first started.
    pub started: Option<Time>,
    /// When it was first ready.
    pub ready: Option<Time>,
    /// When it ended last.
    pub ended: Option<Time>,
    /// How it ended last.
    pub end: Option<ProgramEnd>,
    /// Whether every end was one that the lab expects.
    pub as_expected: bool,
    /// How often it was started again.
    pub restarts: u32,
}

impl Default for ProgramOutcome {
    fn default() -> Self {
        let (started, ready, ended, end) = (None, None, None, None);
        Self { started, ready, ended, end, as_expected: true, restarts: 0 }
    }
}

impl ProgramOutcome {
    pub(super) fn begin(&mut self, now: Time) {
        self.restarts += u32::from(self.started.is_some());
        self.started.get_or_insert(now);
    }

    pub(super) fn end(&mut self, now: Time, exit: Exit, stopped: bool, as_expected: bool) {
        self.ended = Some(now);
        self.end = Some(match exit {
            _ if stopped => ProgramEnd::Stopped,
            Exit::Code(code) => ProgramEnd::Exit(code),
            Exit::Signal(signal) => ProgramEnd::Signal(signal),
        });
        self.as_expected = as_expected;
    }

    /// It could not be executed.
    pub(super) fn fail(&mut self, now: Time) {
        self.ended = Some(now);
        self.as_expected = false;
    }
}

/// Whether the lab expects a program to end like this by itself. A signal is a crash unless its
/// status (128 and its number) is listed; a shell's 126 and 127 say that there was nothing to run.
pub(super) fn is_expected(program: &Program, exit: Exit) -> bool {
    match (&program.exit, exit, &program.command) {
        (Some(fine), exit, _) => fine.contains(&exit.code()),
        (None, Exit::Signal(_), _) | (None, Exit::Code(126 | 127), Command::Shell(_)) => false,
        (None, Exit::Code(_), _) => true,
    }
}

/// The last lines of a file, as far as they are text; nothing if it cannot be read.
pub(super) fn last_lines(path: &Path) -> Vec<String> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_long_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr");
        let text: Vec<String> = (0..5000).map(|line| format!("line {line}")).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
        let lines = last_lines(&path);
        assert_eq!((lines.len(), lines[19].as_str()), (20, "line 4999"));
        assert!(last_lines(&folder.path().join("none")).is_empty());
    }
}
