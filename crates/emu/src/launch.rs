//! From the command that runs a lab to the lab's own process.
//!
//! ```text
//! P  the command          forks C, waits for L, holds one end of the channel
//! C  a moment only        leaves P's namespaces, maps its user to root, forks L, ends
//! L  process 1 of a lab   in its own user, network, mount, process, IPC and host-name namespaces
//! ```
//!
//! Nothing of a lab has a name outside: when L ends, however it ends, the kernel ends every
//! process in it and frees every namespace. When P ends, L reads end-of-file on the channel and
//! can end the lab in order.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use sys::namespace::{self, Kinds, Mode};
use sys::process::{self, Attachment, Child, Exit, Signal};

use crate::enclosure::{Notice, PrivateMounts};
use crate::{Error, Result};

/// How a lab is launched.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host name of the lab's own process, for whoever looks at it from inside.
    pub name: String,
    /// Make a user namespace even where it is not needed.
    pub rootless: bool,
}

impl Options {
    /// The ordinary launch of a lab called `name`.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), rootless: false }
    }
}

/// What the lab's process starts with.
#[derive(Debug)]
pub struct LabSide {
    /// The other end of [`LabHandle::channel`]. End-of-file means that the command is gone.
    pub channel: UnixStream,
    /// Proof that mounts made now are seen by nobody else.
    pub mounts: PrivateMounts,
    /// The network namespace that the command is in.
    pub outer_net: OwnedFd,
    /// The lab runs without privileges of the machine.
    pub rootless: bool,
    /// What is not as it should be, though the lab can run.
    pub notices: Vec<Notice>,
}

/// The lab as seen from the command. Dropping it asks the lab to end.
#[derive(Debug)]
pub struct LabHandle {
    child: Child,
    channel: UnixStream,
}

impl LabHandle {
    /// The process number of the lab's process, as the command sees it.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The way to talk with the lab.
    pub fn channel(&self) -> &UnixStream {
        &self.channel
    }

    /// Waits until the lab has ended.
    pub fn wait(&mut self) -> Result<Exit> {
        Ok(self.child.wait()?)
    }

    /// How the lab ended, if it has.
    pub fn try_wait(&mut self) -> Result<Option<Exit>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks the lab to end in order: it reads end-of-file on its channel.
    pub fn end(&self) {
        // A lab that is gone already needs no telling.
        let _ = self.channel.shutdown(Shutdown::Write);
    }

    /// Ends the lab at once, with everything in it.
    pub fn kill(&self) -> Result<()> {
        Ok(self.child.signal(Signal::KILL)?)
    }
}

impl AsFd for LabHandle {
    /// Readable when the lab has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.child.as_fd()
    }
}

impl Drop for LabHandle {
    fn drop(&mut self) {
        // Not by closing: a lab that was forked later holds a copy of this descriptor.
        let _ = self.channel.shutdown(Shutdown::Both);
    }
}

/// Runs `lab` as process 1 of new namespaces; its result is the process's exit status. Other
/// threads of the caller do not exist in the lab's process.
///
/// # Errors
/// [`Error::Namespaces`] where the machine does not permit them.
pub fn fork_lab(options: &Options, lab: impl FnOnce(LabSide) -> i32) -> Result<LabHandle> {
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed("make a channel", &e))?;
    let (mut answer, report) = std::io::pipe().map_err(|e| failed("make a pipe", &e))?;
    let report = Report(File::from(OwnedFd::from(report)));
    let mut ours = Some(ours);
    let copy = &mut ours;
    let intermediate = move || {
        // The command's end, of which this process has a copy.
        drop(copy.take());
        match leave_home(options) {
            Ok(home) => fork_inside(report, theirs, home, lab),
            Err(error) => report.error(&error),
        }
    };
    // The lab becomes our child when the process between has ended.
    process::set_subreaper(true)?;
    let mut between = Child::of(process::fork(intermediate)?)?;
    let mut text = String::new();
    let read = answer.read_to_string(&mut text);
    between.wait()?;
    process::set_subreaper(false)?;
    read.map_err(|e| failed("read the lab's report", &e))?;
    let (pid, outcome) = parse_report(&text);
    let mut child = pid.map(Child::of).transpose()?;
    match (outcome, child.take(), ours) {
        (Ok(()), Some(child), Some(channel)) => Ok(LabHandle { child, channel }),
        (outcome, child, _) => {
            if let Some(mut child) = child {
                child.signal(Signal::KILL)?;
                child.wait()?;
            }
            Err(outcome.err().unwrap_or(Error::LostLab))
        }
    }
}

/// Runs `command` on a host of a running lab, with this process's terminal and files: the lab's
/// process is `pid`, and it holds the host's network namespace open as descriptor `net`. The
/// result is an exit status as a shell tells it. The calling process must have one thread, and is
/// inside the lab afterwards.
///
/// # Errors
/// [`Error::NotALab`] when there is no such process or descriptor.
pub fn exec_in(pid: u32, net: i32, host: &str, command: &[OsString]) -> Result<i32> {
    let attachment = Attachment::open(pid, net, host).map_err(|error| match error.errno() {
        Some(NO_FILE | NO_PROCESS) => Error::NotALab(pid),
        _ => Error::Kernel(error),
    })?;
    Ok(process::attach(&attachment, command)?.code())
}

/// `ENOENT` and `ESRCH`.
const NO_FILE: i32 = 2;
const NO_PROCESS: i32 = 3;

fn failed(step: &str, cause: &std::io::Error) -> Error {
    let cause = std::io::Error::from_raw_os_error(cause.raw_os_error().unwrap_or(0));
    Error::Namespaces { step: step.to_owned(), cause }
}

/// What the command hears of the processes that set up the lab, a line each.
struct Report(File);

impl Report {
    fn line(&self, line: &str) {
        // Whoever does not hear it takes the lab for lost.
        let _ = (&self.0).write_all(line.as_bytes());
    }

    /// Tells what went wrong; the result is the exit status for it.
    fn error(&self, error: &sys::Error) -> i32 {
        let errno = error.errno().unwrap_or(0);
        let text = error.to_string();
        let step = text.split(": ").next().unwrap_or_default();
        self.line(&format!("error {errno} {step}\n"));
        70
    }
}

fn parse_report(text: &str) -> (Option<u32>, Result<()>) {
    let (mut pid, mut outcome) = (None, Err(Error::LostLab));
    for line in text.lines() {
        match line.split_once(' ') {
            Some(("pid", number)) => pid = number.parse().ok(),
            Some(("error", rest)) => {
                let (errno, step) = rest.split_once(' ').unwrap_or(("0", rest));
                let cause = std::io::Error::from_raw_os_error(errno.parse().unwrap_or(0));
                let step = step.to_owned();
                return (pid, Err(Error::Namespaces { step, cause }));
            }
            _ if line == "ready" => outcome = Ok(()),
            _ => {}
        }
    }
    (pid, outcome)
}

/// What the lab keeps of where it came from.
struct Home {
    net: OwnedFd,
    rootless: bool,
}

/// Moves the calling process, which must have one thread, out of all namespaces of its parent.
fn leave_home(options: &Options) -> sys::Result<Home> {
    let net = namespace::current_net()?;
    let (uid, gid) = namespace::identity();
    let rootless = options.rootless || !namespace::is_privileged();
    let mut kinds = Kinds::NET | Kinds::MOUNT | Kinds::PID | Kinds::IPC | Kinds::UTS;
    if rootless {
        kinds = kinds | Kinds::USER;
    }
    // The terminal's keyboard signals are for the command, which then ends the lab.
    process::start_session()?;
    namespace::unshare(kinds)?;
    if rootless {
        namespace::map_to_root(uid, gid)?;
    }
    namespace::set_host_name(&options.name)?;
    Ok(Home { net, rootless })
}

/// Forks the lab's process, tells its number and ends.
fn fork_inside(
    report: Report,
    channel: UnixStream,
    home: Home,
    lab: impl FnOnce(LabSide) -> i32,
) -> i32 {
    let mut report = Some(report);
    let copy = &mut report;
    let first = move || {
        // Closed before the lab runs: the command waits until nobody can report any more.
        let Some(report) = copy.take() else { return 70 };
        match settle() {
            Ok(notices) => {
                report.line("ready\n");
                drop(report);
                let (outer_net, rootless) = (home.net, home.rootless);
                lab(LabSide { channel, mounts: PrivateMounts(()), outer_net, rootless, notices })
            }
            Err(error) => report.error(&error),
        }
    };
    let forked = process::fork(first);
    let Some(report) = report else { return 70 };
    match forked {
        Ok(pid) => {
            report.line(&format!("pid {pid}\n"));
            0
        }
        Err(error) => report.error(&error),
    }
}

/// Makes process 1 of a lab at home: its own mounts, its own view of processes, nothing to read.
fn settle() -> sys::Result<Vec<Notice>> {
    namespace::make_mounts_private()?;
    let mut notices = Vec::new();
    // Refused in containers that hide parts of /proc; then programs see the machine's processes.
    notices.extend(
        namespace::mount_new("proc", Path::new("/proc"), Mode::Plain).err().map(Notice::Processes),
    );
    let null = File::open("/dev/null").map_err(|e| sys::Error::file("open", "/dev/null", e))?;
    process::set_standard_input(null.as_fd())?;
    Ok(notices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_in_any_order() {
        let (pid, outcome) = parse_report("ready\npid 17\n");
        assert!(pid == Some(17) && outcome.is_ok());
        assert!(matches!(parse_report("pid 17\n"), (Some(17), Err(Error::LostLab))));
        let (pid, outcome) = parse_report("error 1 unshare\n");
        assert_eq!(pid, None);
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("unshare") && text.contains("not permitted"), "{text}");
    }
}
