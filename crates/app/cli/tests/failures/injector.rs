//! Makes the n-th write, system call or allocation of a command fail.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::bench::{Bench, NETARIUM, installed, skip};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Type of the failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A call that writes to a file, with `ENOSPC`.
    Write,
    /// Another system call, with `ENOMEM`.
    Call,
    /// `malloc`, `calloc` or `realloc`.
    Allocation,
}

pub(crate) struct Injector {
    dir: TempDir,
}

/// Result of a command with one failure.
pub(crate) struct Injected {
    /// The exit code, or 128 plus the signal that ended it; `None`: it hung and was killed.
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    /// Number of writes, calls or allocations.
    pub(crate) count: u64,
}

impl Injector {
    /// Compiles the helpers; `None` if they do not work on this host.
    pub(crate) fn new(test: &str) -> Option<Self> {
        if !installed(test, &["cc", "timeout"]) {
            return None;
        }
        let injector = Self { dir: tempfile::tempdir().unwrap() };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failures");
        for (source, output, more) in [
            ("syscalls.c", "syscalls", &[][..]),
            ("allocations.c", "allocations.so", &["-shared", "-fPIC"]),
        ] {
            let mut cc = Command::new("cc");
            cc.args(["-O1", "-Wall", "-Werror", "-o"]).arg(injector.path(output)).args(more);
            assert!(cc.arg(sources.join(source)).status().unwrap().success(), "{source}");
        }
        let count = injector.path("count");
        let output = Command::new(injector.path("syscalls"))
            .args(["writes", "0", "28"])
            .arg(count)
            .arg("true")
            .output()
            .unwrap();
        if output.status.success() {
            return Some(injector);
        }
        skip(test, &format!("no seccomp notifications: {}", output.status));
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the binary with one failure, for at most [`TIMEOUT`].
    pub(crate) fn run(&self, bench: &Bench, (target, n): (Target, u64), args: &[&str]) -> Injected {
        let counted = self.path("count");
        fs::write(&counted, 0_u64.to_ne_bytes()).unwrap();
        let seconds = TIMEOUT.as_secs().to_string();
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", &seconds]);
        let class = match target {
            Target::Write => Some(("writes", "28")),
            Target::Call => Some(("others", "12")),
            Target::Allocation => None,
        };
        if let Some((class, errno)) = class {
            command.arg(self.path("syscalls")).args([class, &n.to_string(), errno]).arg(&counted);
        } else {
            command.arg("env");
            command.arg(format!("LD_PRELOAD={}", self.path("allocations.so").display()));
            command.arg(format!("NETARIUM_FAIL_AT={n}"));
            command.arg(format!("NETARIUM_FAIL_COUNT={}", counted.display()));
        }
        command.arg(NETARIUM).args(args);
        bench.prepare(&mut command);
        let output = command.stdout(Stdio::null()).output().unwrap();
        let bytes = fs::read(&counted).unwrap();
        let count = match target {
            Target::Allocation => u64::from_ne_bytes(bytes.try_into().unwrap()),
            _ => String::from_utf8(bytes).unwrap().trim().parse().unwrap_or(0),
        };
        let code = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        // Exit codes of `timeout` for a command that it ended by SIGTERM or SIGKILL.
        let code = code.filter(|code| ![124, 137].contains(code));
        Injected { code, stderr: String::from_utf8_lossy(&output.stderr).into_owned(), count }
    }
}
