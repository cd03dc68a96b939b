//! A working folder with the binary.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use super::bench::{Bench, until};

pub(crate) struct Cell(Bench);

pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Cell {
    pub(crate) fn new() -> Self {
        Self(Bench::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }

    pub(crate) fn netarium(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::from(self.0.netarium(args))
    }

    /// Starts a command without waiting for its end.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.0.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The only JSON object in the output of a command.
    pub(crate) fn json(&self, args: &[&str]) -> (Option<i32>, Value) {
        let printed = self.netarium(args);
        let value = serde_json::from_str(&printed.out);
        (printed.code, value.unwrap_or_else(|e| panic!("{e}: {} {}", printed.out, printed.err)))
    }

    pub(crate) fn runs(&self, folder: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.join("run.json").is_file()).collect()
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// CPU time of a process in ticks, usually of 10 ms (proc(5), `stat`).
pub(crate) fn cpu_ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[track_caller]
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    until(what, || is_so().then_some(()));
}
