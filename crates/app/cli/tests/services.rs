//! Daemons and the service manager that starts them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::ffi::OsStr;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// A daemon with the socket of its service manager. It is killed when the test ends.
struct Service {
    process: Child,
    socket: UnixDatagram,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Service {
    fn start(args: &[&str], socket: UnixDatagram, name: &OsStr, folder: &Path) -> Self {
        // Far above the duration of a start on a busy machine.
        socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
        command.args(args).stdout(Stdio::null());
        if geteuid().is_root() {
            // Another user could not enter the test's folder.
            command.args(["--user", "root"]);
        }
        command.env("NOTIFY_SOCKET", name).env("RUNTIME_DIRECTORY", folder);
        Self { process: command.spawn().unwrap(), socket }
    }

    fn message(&self) -> String {
        let mut buffer = [0; 1024];
        let length = self.socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// Sends SIGTERM and returns the exit code.
    fn stop(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        assert_eq!(self.message(), "STOPPING=1");
        self.process.wait().unwrap().code()
    }
}

#[test]
fn server_reports_ready_and_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let args = ["mctcp", "serve", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"];
    let mut service = Service::start(&args, socket, path.as_os_str(), folder.path());
    let message = service.message();
    let address = message.strip_prefix("READY=1\nSTATUS=ready: mctcp at ").unwrap();
    TcpStream::connect(address).unwrap();
    // `netarium status` of root finds the socket there.
    let status = folder.path().join(format!("mctcp/{}.sock", service.process.id()));
    assert!(status.exists(), "no {}", status.display());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn collector_reports_ready_after_opening_archive() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("netarium-services-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let archive = folder.path().join("archive");
    let args = ["collect", "--listen", "127.0.0.1:0", "--out", archive.to_str().unwrap()];
    let mut service = Service::start(&args, socket, OsStr::new(&format!("@{name}")), folder.path());
    assert_eq!(service.message(), "READY=1\nSTATUS=collecting");
    assert!(archive.is_dir());
    assert_eq!(service.stop(), Some(0));
}

#[test]
fn daemon_reports_stopping_without_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let args = ["collect", "--listen", "127.0.0.1:0", "--duration", "100 ms"];
    let mut service = Service::start(&args, socket, path.as_os_str(), folder.path());
    assert_eq!(service.message(), "READY=1\nSTATUS=collecting");
    assert_eq!(service.message(), "STOPPING=1");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

#[test]
fn daemon_continues_without_service_manager() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
    command.args(["collect", "--listen", "127.0.0.1:0", "--duration", "100 ms"]);
    if geteuid().is_root() {
        command.args(["--user", "root"]);
    }
    command
        .env("NOTIFY_SOCKET", folder.path().join("none"))
        .env("RUNTIME_DIRECTORY", folder.path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("warning: cannot report to the service manager at"), "{text}");
}

fn stdout_of(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_netarium")).args(args).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn long_version_includes_commit() {
    let short = format!("netarium {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(stdout_of(&["-V"]), short);
    let long = stdout_of(&["--version"]);
    assert_eq!(long, format!("netarium {}\n", env!("NETARIUM_VERSION")));
    let Some(details) = long.strip_prefix(&format!("{} (", short.trim_end())) else {
        // Neither a git checkout nor features.
        assert_eq!(long, short);
        return;
    };
    let commit = details.split(' ').next().unwrap();
    if commit != "features:" {
        assert_eq!(commit.len(), 8, "{long}");
        assert!(commit.bytes().all(|digit| digit.is_ascii_hexdigit()), "{long}");
        assert!(!stdout_of(&["man"]).contains(commit));
    }
}
