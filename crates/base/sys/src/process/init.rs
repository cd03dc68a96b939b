//! The first process of a program's process namespace: it starts the program and reaps orphans.
//! When it ends, the kernel kills all descendants of the program.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::FromRawFd;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Exit, fork};
use crate::confine::user::Ids;
use crate::confine::{self, view};
use crate::namespace::{self, Mode};
use crate::{Result, check};

/// The descriptor for reports of init to its supervisor.
const REPORT: libc::c_int = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSetup {
    pub host: OsString,
    pub dir: PathBuf,
    /// Descendants may outlive a program that exits with status 0, because it has started a daemon.
    pub daemon: bool,
    /// The program keeps all capabilities of the lab's user namespace, without a filter
    /// of system calls, and may change all files that its user may change outside of the lab.
    pub privileged: bool,
    /// Its files are a private view, whose read-only parts stay so even if it is privileged.
    pub private_files: bool,
    /// The user of the program; `None`: the lab's.
    pub user: Option<Ids>,
    pub command: Vec<OsString>,
}

impl ProgramSetup {
    /// Encodes it as arguments of a process.
    pub fn to_arguments(&self) -> Vec<OsString> {
        let kind = if self.daemon { "daemon" } else { "plain" };
        let rights = if self.privileged { "privileged" } else { "confined" };
        let files = if self.private_files { "private" } else { "shared" };
        let user = self.user.as_ref().map(Ids::to_text).unwrap_or_default();
        let mut list = vec![self.host.clone(), self.dir.clone().into()];
        list.extend([kind.into(), rights.into(), files.into(), user.into()]);
        list.extend(self.command.iter().cloned());
        list
    }

    /// Decodes it from arguments of a process.
    pub fn from_arguments(mut list: impl Iterator<Item = OsString>) -> Option<Self> {
        let (host, dir) = (list.next()?, PathBuf::from(list.next()?));
        let (kind, rights) = (list.next()?, list.next()?);
        let (files, user) = (list.next()?, list.next()?);
        let user = user.to_str()?;
        let user = if user.is_empty() { None } else { Some(Ids::parse(user)?) };
        let command: Vec<OsString> = list.collect();
        let daemon = kind == OsStr::new("daemon");
        let privileged = rights == OsStr::new("privileged");
        let private_files = files == OsStr::new("private");
        let setup = Self { host, dir, daemon, privileged, private_files, user, command };
        (!setup.command.is_empty()).then_some(setup)
    }
}

/// Reports of init to its supervisor, five bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitReport {
    /// The program could not be executed; contains the error number.
    NotExecuted(i32),
    /// The working directory could not be entered; contains the error number.
    NoDirectory(i32),
    /// The program could not be confined; contains the error number.
    NotConfined(i32),
    /// The user could not be changed; contains the error number.
    NoUser(i32),
    Ended(Exit),
}

impl InitReport {
    fn to_bytes(self) -> [u8; 5] {
        let (tag, value) = match self {
            Self::NotExecuted(errno) => (b'E', errno),
            Self::NoDirectory(errno) => (b'D', errno),
            Self::NotConfined(errno) => (b'P', errno),
            Self::NoUser(errno) => (b'U', errno),
            Self::Ended(Exit::Code(code)) => (b'C', code),
            Self::Ended(Exit::Signal(signal)) => (b'S', signal),
        };
        let mut bytes = [tag, 0, 0, 0, 0];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// Parses all complete reports in `bytes`.
    pub fn parse(bytes: &[u8]) -> impl Iterator<Item = Self> {
        bytes.chunks_exact(5).filter_map(|chunk| {
            let value = i32::from_le_bytes(chunk[1..].try_into().ok()?);
            match chunk[0] {
                b'E' => Some(Self::NotExecuted(value)),
                b'D' => Some(Self::NoDirectory(value)),
                b'P' => Some(Self::NotConfined(value)),
                b'U' => Some(Self::NoUser(value)),
                b'C' => Some(Self::Ended(Exit::Code(value))),
                b'S' => Some(Self::Ended(Exit::Signal(value))),
                _ => None,
            }
        })
    }
}

/// Mounts `/proc` and `/sys` for the process and network namespaces of the calling
/// process. If these mounts are not permitted (some containers), the lab's `/proc`, and a
/// read-only `/sys`, remain.
pub(super) fn remount_views(processes: bool, privileged: bool) -> Result<()> {
    let has_proc =
        processes && namespace::mount_new("proc", Path::new("/proc"), Mode::Plain).is_ok();
    if has_proc && !privileged {
        view::protect_parameters()?;
    }
    let sys = Path::new("/sys");
    namespace::mount_new("sysfs", sys, Mode::ReadOnly).or_else(|_| view::protect(sys))
}

/// Blocks all signals (`true`) or none.
pub(super) fn block_signals(all: bool) {
    // SAFETY: the set is plain data.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        if all {
            libc::sigfillset(&raw mut set);
        } else {
            libc::sigemptyset(&raw mut set);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Executes the program; returns only an error.
fn execute(setup: &ProgramSetup) -> InitReport {
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    if let Err(error) = std::env::set_current_dir(&setup.dir) {
        return InitReport::NoDirectory(errno(error));
    }
    if let Some(user) = &setup.user {
        // So that the program can open `/dev/stdout` and `/dev/stderr`, which are pipes.
        let _ = fchown(std::io::stdout(), Some(user.uid), Some(user.gid));
        let _ = fchown(std::io::stderr(), Some(user.uid), Some(user.gid));
        // After the change of the folder, whose parents may be closed to this user.
        if let Err(error) = user.assume() {
            return InitReport::NoUser(error.errno().unwrap_or(libc::EIO));
        }
    }
    let error = super::execute(Command::new(&setup.command[0]).args(&setup.command[1..]));
    InitReport::NotExecuted(errno(error))
}

/// Duplicates the descriptor for reports, so that the program inherits neither of them.
fn open_report() -> Result<File> {
    // SAFETY: if the descriptor is not open, both calls fail without effect.
    let copy = unsafe {
        libc::fcntl(REPORT, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(REPORT, libc::F_DUPFD_CLOEXEC, REPORT + 1)
    };
    let copy = check("fcntl(F_DUPFD_CLOEXEC)", copy)?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { File::from_raw_fd(copy) })
}

/// Runs a program as process 1 of its namespace until it ends; returns this process's exit status.
/// SIGTERM is forwarded to all descendants; then init waits for all of them.
pub fn run_init(setup: &ProgramSetup) -> i32 {
    let Ok(mut report) = open_report() else { return 126 };
    block_signals(true);
    // Instead of the number of the descriptor from which it was executed.
    let _ = rustix::thread::set_name(c"netarium");
    let host = setup.host.to_string_lossy();
    let _ = namespace::set_host_name(&host);
    let is_lifted = setup.privileged && !setup.private_files;
    let lifted = if is_lifted { view::unprotect_files() } else { Ok(()) };
    let confined = lifted
        .and_then(|()| remount_views(true, setup.privileged))
        .and_then(|()| if setup.privileged { Ok(()) } else { confine::program() });
    if let Err(error) = confined {
        let errno = error.errno().unwrap_or(libc::EIO);
        let _ = report.write_all(&InitReport::NotConfined(errno).to_bytes());
        return 126;
    }
    let started = fork(|| {
        let failure = execute(setup);
        // The duplicate is still open because nothing was executed.
        let _ = report.try_clone().and_then(|mut report| report.write_all(&failure.to_bytes()));
        127
    });
    let main = match started {
        Ok(pid) => pid as i32,
        Err(error) => {
            let errno = error.errno().unwrap_or(libc::EIO);
            let _ = report.write_all(&InitReport::NotExecuted(errno).to_bytes());
            return 126;
        }
    };
    let exit = wait_for_all(setup, main, &mut report);
    exit.code()
}

fn wait_for_all(setup: &ProgramSetup, main: i32, report: &mut File) -> Exit {
    let mut ended = None;
    let mut stopping = false;
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the answer.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid == main {
            let exit = Exit::from_status(status);
            let _ = report.write_all(&InitReport::Ended(exit).to_bytes());
            ended = Some(exit);
            let is_daemon = setup.daemon && exit == Exit::Code(0);
            if !stopping && !is_daemon {
                return exit;
            }
        }
        if pid > 0 {
            continue;
        }
        if pid == -1 {
            // There are no children, and every process here descends from this one.
            return ended.unwrap_or(Exit::Code(0));
        }
        // SAFETY: the set is plain data; a null pointer requests no information on the signal.
        let signal = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            libc::sigwaitinfo(&raw const set, std::ptr::null_mut())
        };
        if signal == libc::SIGTERM {
            stopping = true;
            // SAFETY: -1 means every process of this namespace but this one.
            unsafe { libc::kill(-1, libc::SIGTERM) };
        } else if [libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2].contains(&signal) {
            // SAFETY: `main` is a child that has not been waited for, or the call fails.
            unsafe { libc::kill(main, signal) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_survive_being_arguments() {
        let setup = ProgramSetup {
            host: "alice".into(),
            dir: "/tmp".into(),
            daemon: true,
            privileged: true,
            private_files: true,
            user: Some(Ids { uid: 104, gid: 105, groups: vec![105, 106] }),
            command: vec!["sh".into(), "-c".into(), "exit".into()],
        };
        let back = ProgramSetup::from_arguments(setup.to_arguments().into_iter());
        assert_eq!(back.as_ref(), Some(&setup));
        let setup = ProgramSetup {
            daemon: false,
            privileged: false,
            private_files: false,
            user: None,
            ..setup
        };
        let back = ProgramSetup::from_arguments(setup.to_arguments().into_iter());
        assert_eq!(back.as_ref(), Some(&setup));
        assert_eq!(ProgramSetup::from_arguments(["a".into(), "b".into()].into_iter()), None);
    }

    #[test]
    fn reports_survive_a_pipe() {
        let sent = [
            InitReport::NotExecuted(2),
            InitReport::NoDirectory(13),
            InitReport::NotConfined(1),
            InitReport::NoUser(22),
            InitReport::Ended(Exit::Code(-1)),
            InitReport::Ended(Exit::Signal(9)),
        ];
        let mut bytes: Vec<u8> = sent.iter().flat_map(|report| report.to_bytes()).collect();
        bytes.extend_from_slice(b"E12");
        assert_eq!(InitReport::parse(&bytes).collect::<Vec<_>>(), sent);
    }
}
