//! Readiness conditions of programs.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{PipeReader, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use base::{Span, Time};
use lab::plan::{Command, Ready};
use sys::confine::user::Ids;
use sys::namespace;
use sys::process::{Child, Exit, ProgramSetup, Signal};

use super::instance::{Instance, argument_vector, start_init};
use super::{NodeNamespaces, Slot};

/// First and maximum interval between checks.
const MIN_POLL_INTERVAL: Span = Span::from_millis(2);
const MAX_POLL_INTERVAL: Span = Span::from_millis(50);

/// Maximum bytes of output searched at a time, and maximum length of a stored line.
const MAX_SEARCH_BYTES: u64 = 64 * 1024;

/// The check of a readiness condition.
#[derive(Debug)]
pub(super) struct Watch {
    ready: Ready,
    dir: PathBuf,
    since: Time,
    deadline: Time,
    next: Time,
    pause: Span,
    /// Positions in standard output and error, and the incomplete line of each.
    read: [(u64, Vec<u8>); 2],
    check: Option<(Child, PipeReader)>,
    env: BTreeMap<String, String>,
    user: Option<Ids>,
    privileged: bool,
}

impl Watch {
    pub(super) fn new(ready: &Ready, slot: &Slot, now: Time) -> Self {
        Self {
            ready: ready.clone(),
            dir: slot.dir.clone(),
            since: now,
            deadline: now + slot.program.ready_timeout,
            next: now,
            pause: MIN_POLL_INTERVAL,
            read: [(0, Vec::new()), (0, Vec::new())],
            check: None,
            env: slot.env.clone(),
            user: slot.user.clone(),
            privileged: slot.program.privileged,
        }
    }

    pub(super) fn next_wake(&self) -> Time {
        self.next.min(self.deadline)
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// The pid of the check command, if it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.check.as_ref().map(|(child, _)| child.pid())
    }

    /// Checks the condition, if a check is due.
    pub(super) fn is_ready(
        &mut self,
        now: Time,
        instance: &Instance,
        namespaces: &NodeNamespaces,
        host: &str,
    ) -> bool {
        if now < self.next && now < self.deadline {
            return false;
        }
        let ready = match self.ready.clone() {
            Ready::Port(port) => has_socket(&namespaces.net, ["tcp", "tcp6"], Some("0A"), port),
            Ready::UdpPort(port) => has_socket(&namespaces.net, ["udp", "udp6"], None, port),
            Ready::Output(text) => self.has_written(instance, text.as_bytes()),
            Ready::File(path) => exists(&self.dir.join(path), namespaces),
            Ready::After(span) => now.since(self.since) >= span,
            Ready::Command(line) => self.has_succeeded(line, namespaces, host),
        };
        self.next = now + self.pause;
        if let Ready::After(span) = self.ready {
            self.next = self.since + span;
        }
        self.pause = (self.pause * 2).min(MAX_POLL_INTERVAL);
        ready
    }

    /// Whether a program that has ended had become ready, judged by its output and files only.
    pub(super) fn was_ready(&mut self, instance: &Instance, namespaces: &NodeNamespaces) -> bool {
        match self.ready.clone() {
            Ready::Output(text) => self.has_written(instance, text.as_bytes()),
            Ready::File(path) => exists(&self.dir.join(path), namespaces),
            _ => false,
        }
    }

    fn has_written(&mut self, instance: &Instance, text: &[u8]) -> bool {
        let mut found = false;
        for ((path, start), (read, line)) in instance.output.iter().zip(&mut self.read) {
            let piece = read_piece(path, *start + *read).unwrap_or_default();
            *read += piece.len() as u64;
            line.extend_from_slice(&piece);
            found |= line.split(|byte| *byte == b'\n').any(|line| contains(line, text));
            let complete = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            line.drain(..complete);
            let excess = line.len().saturating_sub(MAX_SEARCH_BYTES as usize);
            line.drain(..excess);
        }
        found
    }

    fn has_succeeded(&mut self, line: String, namespaces: &NodeNamespaces, host: &str) -> bool {
        if let Some((child, _)) = &mut self.check {
            match child.try_wait() {
                Ok(None) => return false,
                Ok(Some(exit)) => {
                    self.check = None;
                    return exit == Exit::Code(0);
                }
                Err(_) => self.check = None,
            }
        }
        let setup = ProgramSetup {
            host: host.into(),
            dir: self.dir.clone(),
            daemon: false,
            privileged: self.privileged,
            private_files: namespaces.mounts.is_some(),
            user: self.user.clone(),
            command: argument_vector(&Command::Shell(line)),
        };
        // A command that cannot be started is retried until the timeout.
        let null = OpenOptions::new().write(true).open("/dev/null");
        self.check = null.ok().and_then(|null| {
            start_init(&setup, &self.env, namespaces, [null.as_fd(), null.as_fd()]).ok()
        });
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.check
            && child.signal(Signal::KILL).is_ok()
        {
            let _ = child.wait();
        }
    }
}

/// Whether a file exists, as programs of this node see it.
fn exists(path: &Path, namespaces: &NodeNamespaces) -> bool {
    match &namespaces.mounts {
        None => path.exists(),
        Some(mounts) => namespace::in_mounts(mounts.as_fd(), || path.exists()).unwrap_or(false),
    }
}

/// A part of a program's output, which programs can replace by a pipe or a link.
fn read_piece(path: &Path, from: u64) -> std::io::Result<Vec<u8>> {
    let mut file = run::files::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MAX_SEARCH_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    text.is_empty() || line.windows(text.len()).any(|window| window == text)
}

/// Whether a socket in one of these `/proc/net` tables is bound to `port`, in this state.
fn has_socket(net: &OwnedFd, tables: [&str; 2], state: Option<&str>, port: u16) -> bool {
    let search = || {
        tables.iter().any(|table| {
            let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
            text.is_ok_and(|text| text.lines().skip(1).any(|line| is_bound(line, state, port)))
        })
    };
    namespace::in_net(net.as_fd(), search).unwrap_or(false)
}

/// Whether a line of `/proc/net/tcp` and similar files (proc(5)) is for `port`.
fn is_bound(line: &str, state: Option<&str>, port: u16) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = fields.next().and_then(|address| address.rsplit_once(':'));
    let is_port = local.is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
    is_port && state.is_none_or(|state| fields.nth(1) == Some(state))
}

pub(super) fn describe(ready: Option<&Ready>) -> String {
    match ready {
        None => "nothing".to_owned(),
        Some(Ready::Port(port)) => format!("TCP port {port}"),
        Some(Ready::UdpPort(port)) => format!("UDP port {port}"),
        Some(Ready::Output(text)) => format!("output {text:?}"),
        Some(Ready::File(path)) => format!("file {}", path.display()),
        Some(Ready::After(span)) => format!("{span} of running"),
        Some(Ready::Command(line)) => format!("command {line:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_socket_tables() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert!(is_bound(line, Some("0A"), 8080) && is_bound(line, None, 8080));
        assert!(!is_bound(line, Some("01"), 8080) && !is_bound(line, Some("0A"), 80));
        assert!(!is_bound("", None, 0) && !is_bound("x y", None, 0));
    }

    #[test]
    fn finds_text_in_line() {
        assert!(contains(b"listening on 80", b"listening") && contains(b"", b""));
        assert!(!contains(b"listen", b"listening"));
    }

    #[test]
    fn does_not_follow_links_to_read_output() {
        let folder = tempfile::tempdir().unwrap();
        let [output, link] = ["output", "link"].map(|name| folder.path().join(name));
        fs::write(&output, "ready\n").unwrap();
        std::os::unix::fs::symlink(&output, &link).unwrap();
        assert_eq!(read_piece(&output, 2).unwrap(), b"ady\n");
        assert!(read_piece(&link, 0).is_err());
    }
}
