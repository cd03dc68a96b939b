//! Running a command inside a lab from outside.

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::init::remount_views;
use super::{Child, Exit, Signal, execute, fork_one_thread, set_parent_death_signal};
use crate::confine::user::threads;
use crate::confine::{self, environment};
use crate::namespace::{self, Kinds};
use crate::{Error, Result};

/// Where a command is to run.
#[derive(Debug)]
pub struct Attachment {
    process: OwnedFd,
    net: OwnedFd,
    user: bool,
    host: String,
}

impl Attachment {
    /// The namespaces of process `pid` (user, mount, process numbers), and the network namespace
    /// that it holds open as descriptor `net`. `host` is the host name to show.
    pub fn open(pid: u32, net: i32, host: &str) -> Result<Self> {
        let inode = |path: PathBuf| {
            fs::metadata(&path).map(|m| m.ino()).map_err(|e| Error::file("examine", &path, e))
        };
        let theirs = inode(format!("/proc/{pid}/ns/user").into())?;
        let user = theirs != inode("/proc/self/ns/user".into())?;
        let net = namespace::open(format!("/proc/{pid}/fd/{net}"))?;
        let process = Child::of(pid)?.fd;
        Ok(Self { process, net, user, host: host.to_owned() })
    }

    fn enter(&self) -> Result<()> {
        let mut kinds = Kinds::MOUNT | Kinds::PID | Kinds::IPC | Kinds::UTS;
        if self.user {
            kinds = kinds | Kinds::USER;
        }
        namespace::enter(self.process.as_fd(), kinds)?;
        namespace::enter(self.net.as_fd(), Kinds::NET)
    }
}

/// Gives this process the view and the rights of a program on `host`.
fn confine_to(host: &str) -> Result<()> {
    namespace::unshare(Kinds::MOUNT | Kinds::UTS)?;
    namespace::set_host_name(host)?;
    remount_views(false, false)?;
    confine::program()
}

/// Runs `command` in the lab with this process's terminal and files, and waits for it. The
/// calling process must have one thread; it is inside the lab's namespaces afterwards. The command
/// is confined as the lab's programs are.
///
/// # Errors
/// When the namespaces cannot be entered. A command that cannot be executed is told on standard
/// error and gives 127 (not found) or 126, as in a shell.
pub fn attach(to: &Attachment, command: &[OsString]) -> Result<Exit> {
    let dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if threads()? != 1 {
        return Err(Error::Threads("enter a lab"));
    }
    to.enter()?;
    let run = || {
        // When whoever asked for the command goes, so does the command.
        let _ = set_parent_death_signal(Signal::KILL);
        if let Err(error) = confine_to(&to.host) {
            eprintln!("cannot confine the command: {error}");
            return 126;
        }
        if std::env::set_current_dir(&dir).is_err() {
            let _ = std::env::set_current_dir(Path::new("/"));
        }
        let Some((program, arguments)) = command.split_first() else { return 0 };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(environment::inherited());
        let error = execute(&mut command);
        eprintln!("{}: {error}", program.to_string_lossy());
        if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
    };
    // `/proc` is the lab's now, and does not show this process.
    // SAFETY: the process had one thread, and has started none since.
    let child = unsafe { fork_one_thread(run) }?;
    Child::of(child)?.wait_in_foreground()
}
