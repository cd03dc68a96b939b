//! Daemons that root starts keep only the privileges that they need.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

/// A daemon. Dropping it ends it.
struct Daemon {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0)
}

impl Daemon {
    /// Starts a daemon in a new network namespace, which is prepared by `script`.
    fn start(script: &str, args: &[&str], files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let script = format!("ip link set lo up && {script} exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-ec", &script, "sh", env!("CARGO_BIN_EXE_netarium")]);
        command.args(args).current_dir(dir.path()).env("XDG_RUNTIME_DIR", dir.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
        let errors = fs::File::create(dir.path().join("stderr")).unwrap();
        command.stdout(Stdio::null()).stderr(errors);
        Self { child: command.spawn().unwrap(), dir }
    }

    /// Waits until all threads have exactly these privileges.
    fn await_privileges(&mut self, uid: u32, capabilities: u64) {
        let path = format!("/proc/{}/task", self.child.id());
        let expected = [
            ("Uid", format!("{uid}\t{uid}\t{uid}\t{uid}")),
            ("CapPrm", format!("{capabilities:016x}")),
            ("CapEff", format!("{capabilities:016x}")),
            ("CapBnd", format!("{capabilities:016x}")),
            ("NoNewPrivs", "1".to_owned()),
        ];
        let start = Instant::now();
        loop {
            let threads: Vec<String> = fs::read_dir(&path)
                .unwrap()
                .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("status")).ok())
                .collect();
            let holds = |status: &String| {
                expected.iter().all(|(name, value)| {
                    status.lines().any(|line| line == format!("{name}:\t{value}"))
                })
            };
            // Threads other than the first exist only after the drop.
            if threads.len() > 1 && threads.iter().all(holds) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            let errors = fs::read_to_string(self.dir.path().join("stderr")).unwrap();
            let late = start.elapsed() > Duration::from_secs(60);
            assert!(ended.is_none() && !late, "{ended:?} {errors}\n{expected:?}\n{threads:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn has_filter(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        status.lines().any(|line| line == "Seccomp:\t2")
    }
}

/// The user ID of `nobody`, which exists on every system.
fn nobody() -> u32 {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("nobody:")).unwrap();
    line.split(':').nth(2).unwrap().parse().unwrap()
}

/// Leaves the test, with a message, unless root runs it: only root has privileges to drop.
macro_rules! requires_root {
    () => {
        if !is_root() {
            return eprintln!("SKIPPED: only root has privileges to drop");
        }
    };
}

#[test]
fn collector_keeps_raw_sockets_only() {
    requires_root!();
    let args = ["collect", "--interface", "lo", "--out", "archive", "--user", "nobody"];
    let mut daemon = Daemon::start("", &args, &[]);
    daemon.await_privileges(nobody(), NET_RAW | NET_BIND_SERVICE);
    assert!(daemon.has_filter());
    let archive = fs::metadata(daemon.dir.path().join("archive")).unwrap();
    assert_eq!(archive.uid(), nobody());
    let args = ["collect", "--listen", "127.0.0.1:5000", "--out", "archive", "--user", "root"];
    let mut daemon = Daemon::start("", &args, &[]);
    daemon.await_privileges(0, NET_BIND_SERVICE);
    assert!(daemon.has_filter());
}

#[test]
fn mctcp_keeps_low_ports_only() {
    requires_root!();
    let args = ["mctcp", "serve", "--listen", "127.0.0.1:443", "--user", "nobody"];
    let mut daemon = Daemon::start("", &args, &[]);
    daemon.await_privileges(nobody(), NET_BIND_SERVICE);
    assert!(daemon.has_filter());
}

#[test]
fn bundler_keeps_network_capabilities_only() {
    requires_root!();
    let config = "\
        [bundle.one]\n\
        local = [\"10.1.0.0/16\"]\n\
        peer = \"127.0.0.1\"\n\
        key = \"something that both gateways know\"\n";
    let files = [("box.toml", config)];
    let args = ["bundle", "receive", "--config", "box.toml", "--user", "nobody"];
    let mut daemon = Daemon::start("", &args, &files);
    daemon.await_privileges(nobody(), NET_ADMIN | NET_RAW | NET_BIND_SERVICE);
    assert!(daemon.has_filter());
}

/// Root of a container may lack some capabilities.
fn own_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    u64::from_str_radix(line, 16).unwrap()
}

#[test]
fn agent_keeps_lab_capabilities_only() {
    requires_root!();
    let dir = tempfile::tempdir().unwrap();
    let script = "cat /proc/$(cat $NETARIUM_LOCAL/m1/pid)/status";
    let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
    command.args(["cluster", "local", "1", "--", "sh", "-c", script]);
    command.current_dir(dir.path()).env("XDG_RUNTIME_DIR", dir.path()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (status, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // DAC_OVERRIDE, SETGID, SETUID, SYS_NICE, SYS_RESOURCE, SETFCAP.
    let labs: u64 = (1 << 1) | (1 << 6) | (1 << 7) | (1 << 23) | (1 << 24) | (1 << 31);
    let capabilities = (labs | NET_ADMIN | NET_BIND_SERVICE) & own_capabilities();
    for line in [
        format!("CapEff:\t{capabilities:016x}"),
        format!("CapBnd:\t{capabilities:016x}"),
        "NoNewPrivs:\t1".to_owned(),
    ] {
        assert!(status.lines().any(|it| it == line), "{line}\n{status}{errors}");
    }
}

#[test]
fn rejects_unknown_user() {
    requires_root!();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
    command.args(["mctcp", "serve", "--listen", &port.to_string(), "--user", "no-such-user"]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("unknown user `no-such-user`"), "{errors}");
}
