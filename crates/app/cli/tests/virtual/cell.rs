//! A working folder with the binary.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The folder of one test.
pub(crate) struct Cell(TempDir);

/// Output and exit code of a command.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Cell {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETARIUM_")) {
            command.env_remove(name);
        }
        command.env("XDG_RUNTIME_DIR", self.0.path()).env("NO_COLOR", "1").env_remove("COLUMNS");
        command.current_dir(self.0.path()).args(args);
        command
    }

    pub(crate) fn netarium(&self, args: &[&str]) -> Said {
        Said::from(self.command(args).output().unwrap())
    }

    /// Starts a command without waiting for its end.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The only JSON object in the output of a command.
    pub(crate) fn json(&self, args: &[&str]) -> (Option<i32>, Value) {
        let said = self.netarium(args);
        let value = serde_json::from_str(&said.out);
        (said.code, value.unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err)))
    }

    /// Run folders in a folder.
    pub(crate) fn runs(&self, folder: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.join("run.json").is_file()).collect()
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Interrupts a process.
pub(crate) fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// CPU time of a process in ticks, usually of 10 ms (proc(5), `stat`).
pub(crate) fn cpu_ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} is missing after 60 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}
