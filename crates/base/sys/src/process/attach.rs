//! Runs a command inside a running lab.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::event::{PollFd, PollFlags};

use super::init::{block_signals, remount_views};
use super::terminal::Terminal;
use super::{Child, Exit, Signal, Signals, execute, fork_one_thread, set_parent_death_signal};
use crate::confine::user::{Ids, threads};
use crate::confine::{self, environment};
use crate::namespace::{self, Kinds};
use crate::{Error, Result};

/// Namespaces and host of the command.
#[derive(Debug)]
pub struct Attachment {
    process: OwnedFd,
    net: OwnedFd,
    /// The mount namespace of a host with private files.
    mounts: Option<OwnedFd>,
    user: bool,
    host: String,
    /// The user of the command, and the variables for it.
    ids: Option<Ids>,
    variables: Vec<(OsString, OsString)>,
}

impl Attachment {
    /// The namespaces of process `pid` (user, mount, process), and the network namespace behind its
    /// descriptor `net`. `host` is the host name.
    pub fn open(pid: u32, net: i32, host: &str) -> Result<Self> {
        let inode = |path: PathBuf| {
            fs::metadata(&path).map(|m| m.ino()).map_err(|e| Error::file("examine", &path, e))
        };
        let theirs = inode(format!("/proc/{pid}/ns/user").into())?;
        let user = theirs != inode("/proc/self/ns/user".into())?;
        let net = namespace::open(format!("/proc/{pid}/fd/{net}"))?;
        let process = Child::of(pid)?.fd;
        let (mounts, ids, variables) = (None, None, Vec::new());
        Ok(Self { process, net, mounts, user, host: host.to_owned(), ids, variables })
    }

    /// Uses the mount namespace behind descriptor `mounts` of process `pid`.
    pub fn with_mounts(mut self, pid: u32, mounts: i32) -> Result<Self> {
        self.mounts = Some(namespace::open(format!("/proc/{pid}/fd/{mounts}"))?);
        Ok(self)
    }

    /// Runs the command as this user, with these variables.
    #[must_use]
    pub fn with_user(mut self, ids: Option<Ids>, variables: Vec<(OsString, OsString)>) -> Self {
        (self.ids, self.variables) = (ids, variables);
        self
    }

    fn enter(&self) -> Result<()> {
        self.enter_kinds(Kinds::MOUNT | Kinds::PID | Kinds::IPC | Kinds::UTS)
    }

    /// Enters the namespaces of these kinds, and those of users and networks.
    fn enter_kinds(&self, mut kinds: Kinds) -> Result<()> {
        if self.user {
            kinds = kinds | Kinds::USER;
        }
        namespace::enter(self.process.as_fd(), kinds)?;
        if let Some(mounts) = &self.mounts {
            namespace::enter(mounts.as_fd(), Kinds::MOUNT)?;
        }
        namespace::enter(self.net.as_fd(), Kinds::NET)
    }
}

/// Confines this process like a program on `host`.
fn confine_to(host: &str) -> Result<()> {
    namespace::unshare(Kinds::MOUNT | Kinds::UTS)?;
    namespace::set_host_name(host)?;
    remount_views(false, false)?;
    confine::program()
}

/// Runs `command` in the lab with this process's files, and waits for it. The calling process must
/// have one thread; afterwards it is in the lab's namespaces. The command is confined like the
/// lab's programs; `variables` are added to its environment.
///
/// If standard input and output are a terminal, the command runs in a new session on a
/// pseudo-terminal of the lab, whose data this process forwards.
///
/// # Errors
/// If the namespaces cannot be entered. If the command cannot be executed, an error is printed to
/// standard error, and the result is 127 (not found) or 126, as in a shell.
pub fn attach(
    to: &Attachment,
    command: &[OsString],
    variables: &[(&str, OsString)],
) -> Result<Exit> {
    let dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if threads()? != 1 {
        return Err(Error::Threads("enter a lab"));
    }
    to.enter()?;
    let terminal = Terminal::open(to.ids.as_ref());
    let run = || {
        // The command ends with this process.
        let _ = set_parent_death_signal(Signal::KILL);
        if let Some(Err(error)) = terminal.as_ref().map(Terminal::enter) {
            eprintln!("cannot use a terminal of the lab: {error}");
            return 126;
        }
        if let Err(error) = confine_to(&to.host) {
            eprintln!("cannot confine the command: {error}");
            return 126;
        }
        if std::env::set_current_dir(&dir).is_err() {
            let _ = std::env::set_current_dir(Path::new("/"));
        }
        if let Some(Err(error)) = to.ids.as_ref().map(Ids::assume) {
            eprintln!("cannot change to the user of the host: {error}");
            return 126;
        }
        // A change of the user clears it.
        let _ = set_parent_death_signal(Signal::KILL);
        let Some((program, arguments)) = command.split_first() else { return 0 };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(environment::inherited());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.envs(to.variables.iter().cloned());
        fail(program, &execute(&mut command))
    };
    // `/proc` is the lab's now, and does not show this process.
    // SAFETY: the process had one thread, and has started none since.
    let child = unsafe { fork_one_thread(run) }?;
    let mut child = Child::of(child)?;
    match &terminal {
        Some(terminal) => terminal.connect(&mut child),
        None => child.wait_in_foreground(),
    }
}

/// Runs `command` in the network, process and mount namespaces of a lab that this process's parent
/// has launched, and waits for it. The command keeps the terminal, the environment, the user, the
/// working directory and the other namespaces of this process, and is not confined. Signals to
/// this process are passed on to it, except those of the terminal's keyboard, which it gets as
/// well. The calling process must have one thread.
///
/// Returns the exit status as in a shell. An error is printed to standard error, and the status is
/// 127 if the command was not found, else 126.
pub fn attach_own(to: &Attachment, command: &[OsString]) -> i32 {
    attach_with_signals(to, command).unwrap_or_else(|error| {
        eprintln!("cannot start the command: {error}");
        126
    })
}

fn attach_with_signals(to: &Attachment, command: &[OsString]) -> Result<i32> {
    set_parent_death_signal(Signal::KILL)?;
    let signals = Signals::listen()?;
    let user = namespace::identity();
    let dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let has_terminal = is_in_foreground();
    to.enter_kinds(Kinds::MOUNT | Kinds::PID)?;
    // `/proc` is the lab's now, and does not show this process.
    // SAFETY: the process has one thread.
    let child = unsafe { fork_one_thread(|| start_own(user, &dir, command)) }?;
    let mut child = Child::of(child)?;
    let exit = loop {
        while let Some(received) = signals.take() {
            if !received.from_keyboard {
                child.signal(received.signal)?;
            }
        }
        if let Some(exit) = child.try_wait()? {
            break exit;
        }
        let mut fds =
            [child.as_fd(), signals.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // An error is an interruption.
        let _ = rustix::event::poll(&mut fds, None);
    };
    if has_terminal {
        // A shell cannot return the terminal to a group outside of its process namespace.
        regain_terminal();
    }
    Ok(exit.code())
}

/// Executes `command` as the user `(uid, gid)`; returns only an error.
fn start_own(user: (u32, u32), dir: &Path, command: &[OsString]) -> i32 {
    if namespace::identity() != user
        && let Err(error) = namespace::map_user(user)
    {
        eprintln!("the command runs as root of a user namespace: {error}");
    }
    let _ = set_parent_death_signal(Signal::KILL);
    if std::env::set_current_dir(dir).is_err() {
        let _ = std::env::set_current_dir(Path::new("/"));
    }
    let Some((program, arguments)) = command.split_first() else { return 0 };
    fail(program, &execute(Command::new(program).args(arguments)))
}

/// Prints why a program could not be executed; returns its exit status.
fn fail(program: &OsStr, error: &std::io::Error) -> i32 {
    eprintln!("{}: {error}", program.to_string_lossy());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

/// Whether standard input is a terminal whose keyboard belongs to this process group.
fn is_in_foreground() -> bool {
    // SAFETY: these calls take integers only.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
}

fn regain_terminal() {
    // Otherwise a process in the background stops when it changes the foreground group.
    block_signals(true);
    // SAFETY: takes integers only.
    unsafe { libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpgrp()) };
}
