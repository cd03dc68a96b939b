//! The outcome of a program.

use std::path::Path;

use base::Time;
use lab::plan::{Command, Program};
use run::record::ProgramEnd;
use sys::process::Exit;

/// Maximum lines kept from standard error, and the number of bytes that are searched for them.
const MAX_LINES: usize = 20;
const MAX_TAIL_BYTES: u64 = 8 * 1024;

/// The outcome of a program over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramOutcome {
    /// Time of the first start.
    pub started: Option<Time>,
    /// Time at which it was first ready.
    pub ready: Option<Time>,
    /// Time of its last end.
    pub ended: Option<Time>,
    /// Its last end.
    pub end: Option<ProgramEnd>,
    /// Whether the lab expected every end.
    pub as_expected: bool,
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

    /// Records that it could not be executed.
    pub(super) fn fail(&mut self, now: Time) {
        self.ended = Some(now);
        self.as_expected = false;
    }
}

/// Whether the lab expects this end of a program that was not stopped. A signal counts as a crash
/// unless its status (128 plus its number) is listed; a shell's 126 and 127 mean that the command
/// could not be run.
pub(super) fn is_expected(program: &Program, exit: Exit) -> bool {
    match (&program.exit, exit, &program.command) {
        (Some(fine), exit, _) => fine.contains(&exit.code()),
        (None, Exit::Signal(_), _) | (None, Exit::Code(126 | 127), Command::Shell(_)) => false,
        (None, Exit::Code(_), _) => true,
    }
}

/// The last lines of a file, as far as they are text; empty if it cannot be read.
pub(super) fn last_lines(path: &Path) -> Vec<String> {
    let bytes = run::files::read_end(path, MAX_TAIL_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(MAX_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_last_lines_of_long_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr");
        let text: Vec<String> = (0..5000).map(|line| format!("line {line}")).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
        let lines = last_lines(&path);
        assert_eq!((lines.len(), lines[19].as_str()), (20, "line 4999"));
        assert!(last_lines(&folder.path().join("none")).is_empty());
    }
}
