//! Network namespaces without a lab, and the processes in them.
#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::bench::{self, NETARIUM, installed, search_path, skip};

/// Waits until the condition is true.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    bench::until(what, || condition().then_some(()));
}

/// The object that a command of the binary prints.
#[track_caller]
pub(crate) fn json(words: &[&str]) -> Value {
    let output = Command::new(NETARIUM).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts a command with `--json` and waits until it reports that it is ready.
    #[track_caller]
    pub(crate) fn ready(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("\"ready\"") {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "{command:?} ends");
        }
        // Without a reader, the process would write to a closed pipe.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self(child)
    }

    /// Runs a script, which is written to the folder, in Python in that folder.
    pub(crate) fn python(
        at: &Space,
        folder: &Path,
        (name, script): (&str, &str),
        words: &[&str],
    ) -> Self {
        fs::write(folder.join(name), script).unwrap();
        let mut command = at.command(&[&["python3", name], words].concat());
        Self(command.current_dir(folder).stdout(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the end; returns the exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        bench::until("the end of a process", || self.0.try_wait().unwrap()).code()
    }

    /// Output of the process, which must end with success and fit in a pipe.
    pub(crate) fn output(mut self) -> String {
        let status = bench::until("the end of a program", || self.0.try_wait().unwrap());
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(status.success(), "{text}");
        text
    }
}

/// A network namespace in a separate user namespace, kept alive by a process.
pub(crate) struct Space(Running);

impl Space {
    /// The first namespace of a test; `None` if `programs` or the host's namespaces are missing.
    pub(crate) fn first(test: &str, programs: &[&str]) -> Option<Self> {
        if !installed(test, &["nsenter", "unshare", "ip", "tc", "python3"])
            || !installed(test, programs)
        {
            return None;
        }
        let space = Self::new(None);
        if space.is_none() {
            skip(test, "no namespaces");
        }
        space
    }

    /// Another namespace of the same user namespace.
    pub(crate) fn another(&self) -> Option<Self> {
        Self::new(Some(self))
    }

    fn new(owner: Option<&Self>) -> Option<Self> {
        let mut command = Command::new(if owner.is_some() { "nsenter" } else { "unshare" });
        if let Some(owner) = owner {
            command.args(["--target", &owner.pid(), "--user", "--preserve-credentials"]);
            command.args(["--", "unshare"]);
        } else {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--", "sh", "-c", "echo; exec sleep infinity"]);
        let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
        let mut byte = [0];
        child.stdout.as_mut()?.read_exact(&mut byte).ok()?;
        Some(Self(Running(child)))
    }

    /// Connects devices of two namespaces; `None` if the host has no veth pairs.
    pub(crate) fn connect(
        test: &str,
        (left, name): (&Self, &str),
        (right, peer): (&Self, &str),
    ) -> Option<()> {
        let end = right.pid();
        let made =
            left.try_run(&format!("ip link add {name} type veth peer name {peer} netns {end}"));
        if made.is_none() {
            skip(test, "no veth pairs");
        }
        made.map(drop)
    }

    fn pid(&self) -> String {
        self.0.0.id().to_string()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid(), "--user", "--net", "--preserve-credentials", "--"]);
        command.args(words).env("PATH", search_path());
        command
    }

    pub(crate) fn try_run(&self, line: &str) -> Option<String> {
        let output = self.command(&["sh", "-ec", line]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.command(&["sh", "-ec", line]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
