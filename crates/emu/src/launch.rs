//! From the command that runs a lab to the lab's own process.
//!
//! ```text
//! P  the command          forks C, waits for L, holds one end of the channel
//! C  a moment only        leaves P's namespaces, maps its users, forks L, ends
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
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use sys::confine::{Capabilities, view};
use sys::limits;
use sys::namespace::{self, Kinds, Mode, UserNamespace};
use sys::process::{self, Attachment, Child, Exit, Signal};

use crate::enclosure::{Notice, PrivateMounts};
use crate::uplink::{self, Uplink};
use crate::{Error, Result};

/// Highest real-time priority in a lab that root started; the data path uses a lower one.
const MAX_REALTIME: u64 = 20;

/// How a lab is launched.
#[derive(Clone, Debug)]
pub struct Options {
    /// Host name of the lab's own process, for whoever looks at it from inside.
    pub name: String,
    /// Hosts are going to be connected with the machine's own network.
    pub uplink: bool,
}

impl Options {
    /// The ordinary launch of a lab called `name`.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), uplink: false }
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
    /// The way to the machine's own network, where [`Options::uplink`] asks for it.
    pub uplink: Option<Uplink>,
    /// What is not as it should be, though the lab can run.
    pub notices: Vec<Notice>,
}

/// The lab as seen from the command. Dropping it asks the lab to end.
#[derive(Debug)]
pub struct LabHandle {
    child: Child,
    /// Ends when the lab has.
    broker: Option<Child>,
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
        let exit = self.child.wait()?;
        if let Some(mut broker) = self.broker.take() {
            broker.wait()?;
        }
        Ok(exit)
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
/// [`Error::Namespaces`] where the machine does not permit them, [`Error::NoPasta`] where an
/// uplink is asked for without it.
pub fn fork_lab(options: &Options, lab: impl FnOnce(LabSide) -> i32) -> Result<LabHandle> {
    let pasta = options.uplink.then(uplink::find_pasta).transpose()?;
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed("make a channel", &e))?;
    let (mut answer, report) = std::io::pipe().map_err(|e| failed("make a pipe", &e))?;
    let report = Report(File::from(OwnedFd::from(report)));
    let mut ours = Some(ours);
    let copy = &mut ours;
    let intermediate = move || {
        // The command's end, of which this process has a copy.
        drop(copy.take());
        between(options, pasta, report, theirs, lab)
    };
    // The lab becomes our child when the process between has ended.
    process::set_subreaper(true)?;
    let mut between = Child::of(process::fork(intermediate)?)?;
    let mut text = String::new();
    let read = answer.read_to_string(&mut text);
    between.wait()?;
    process::set_subreaper(false)?;
    read.map_err(|e| failed("read the lab's report", &e))?;
    let said = Said::parse(&text);
    let child = said.lab.map(Child::of).transpose()?;
    let broker = said.broker.map(Child::of).transpose()?;
    match (said.outcome, child, ours) {
        (Ok(()), Some(child), Some(channel)) => Ok(LabHandle { child, broker, channel }),
        (outcome, child, _) => {
            // The broker ends when the lab's end of its socket is closed.
            for mut child in child.into_iter().chain(broker) {
                child.signal(Signal::KILL)?;
                child.wait()?;
            }
            Err(outcome.err().unwrap_or(Error::LostLab))
        }
    }
}

/// The work of the process between the command and the lab.
fn between(
    options: &Options,
    pasta: Option<PathBuf>,
    report: Report,
    channel: UnixStream,
    lab: impl FnOnce(LabSide) -> i32,
) -> i32 {
    let (mut report, mut channel) = (Some(report), Some(channel));
    let mut uplink = None;
    if let Some(pasta) = pasta {
        match fork_broker(&pasta, &mut report, &mut channel) {
            Ok(stream) => uplink = Some(Uplink::new(stream)),
            Err(error) => return report.map_or(70, |report| report.error(&error)),
        }
    }
    let (Some(report), Some(channel)) = (report, channel) else { return 70 };
    // Those of the network namespace that is left now.
    let services = view::services();
    match leave_home(options) {
        Ok((outer_net, notices)) => {
            let side = LabSide { channel, mounts: PrivateMounts(()), outer_net, uplink, notices };
            fork_inside(report, side, services, lab)
        }
        Err(error) => report.error(&error),
    }
}

/// Forks the uplink's broker, which stays outside; the result is the lab's end of its socket.
fn fork_broker(
    pasta: &Path,
    report: &mut Option<Report>,
    channel: &mut Option<UnixStream>,
) -> sys::Result<UnixStream> {
    let pair = UnixStream::pair();
    let (ours, theirs) = pair.map_err(|cause| sys::Error::Call { call: "socketpair", cause })?;
    let mut ours = Some(ours);
    let (copy, report_copy) = (&mut ours, &mut *report);
    let pid = process::fork(move || {
        // Nobody is to wait for the broker's copies.
        drop((copy.take(), report_copy.take(), channel.take()));
        let _ = process::start_session();
        uplink::serve(pasta, theirs)
    })?;
    if let Some(report) = report {
        report.line(&format!("broker {pid}\n"));
    }
    ours.ok_or(sys::Error::Malformed("fork"))
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

/// A whole report.
struct Said {
    lab: Option<u32>,
    broker: Option<u32>,
    outcome: Result<()>,
}

impl Said {
    fn parse(text: &str) -> Self {
        let mut said = Self { lab: None, broker: None, outcome: Err(Error::LostLab) };
        let mut error = None;
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("lab", number)) => said.lab = number.parse().ok(),
                Some(("broker", number)) => said.broker = number.parse().ok(),
                Some(("error", rest)) => {
                    let (errno, step) = rest.split_once(' ').unwrap_or(("0", rest));
                    let cause = std::io::Error::from_raw_os_error(errno.parse().unwrap_or(0));
                    error.get_or_insert(Error::Namespaces { step: step.to_owned(), cause });
                }
                _ if line == "ready" => said.outcome = Ok(()),
                _ => {}
            }
        }
        if let Some(error) = error {
            said.outcome = Err(error);
        }
        said
    }
}

/// Moves the calling process, which must have one thread, out of all namespaces of its parent;
/// the result is the network namespace that it was in.
fn leave_home(options: &Options) -> sys::Result<(OwnedFd, Vec<Notice>)> {
    let net = namespace::current_net()?;
    let mut notices = Vec::new();
    if Capabilities::SYS_RESOURCE.are_effective() {
        // Inside a user namespace no capability permits it. Without, the data path reports how
        // late it was.
        let _ = limits::permit_realtime(MAX_REALTIME);
    }
    // The terminal's keyboard signals are for the command, which then ends the lab.
    process::start_session()?;
    let kinds = Kinds::NET | Kinds::MOUNT | Kinds::PID | Kinds::IPC | Kinds::UTS;
    if let UserNamespace::Unchanged(refusal) = namespace::unshare_with_user(kinds)? {
        notices.push(Notice::NoUserNamespace(refusal));
    }
    namespace::set_host_name(&options.name)?;
    Ok((net, notices))
}

/// Forks the lab's process, tells its number and ends.
fn fork_inside(
    report: Report,
    mut side: LabSide,
    services: sys::Result<Vec<PathBuf>>,
    lab: impl FnOnce(LabSide) -> i32,
) -> i32 {
    let mut report = Some(report);
    let copy = &mut report;
    let first = move || {
        // Closed before the lab runs: the command waits until nobody can report any more.
        let Some(report) = copy.take() else { return 70 };
        match settle(services) {
            Ok(notices) => {
                report.line("ready\n");
                drop(report);
                side.notices.extend(notices);
                lab(side)
            }
            Err(error) => report.error(&error),
        }
    };
    let forked = process::fork(first);
    let Some(report) = report else { return 70 };
    match forked {
        Ok(pid) => {
            report.line(&format!("lab {pid}\n"));
            0
        }
        Err(error) => report.error(&error),
    }
}

/// Gives process 1 of a lab mounts, devices and a view of processes of its own, and nothing to
/// read. What programs see of the machine is limited here as far as it is the same for all.
fn settle(services: sys::Result<Vec<PathBuf>>) -> sys::Result<Vec<Notice>> {
    namespace::make_mounts_private()?;
    let hidden = services.and_then(|services| view::hide(&services));
    let steps = [
        // Refused in containers that hide parts of /proc; then programs see the machine's
        // processes.
        namespace::mount_new("proc", Path::new("/proc"), Mode::Plain).map_err(Notice::Processes),
        hidden.map_err(Notice::Exposed),
        view::replace_devices().map_err(Notice::Exposed),
        view::protect_parameters().map_err(Notice::Exposed),
        protect_files().map_err(Notice::Exposed),
    ];
    let notices = steps.into_iter().filter_map(std::result::Result::err).collect();
    let null = File::open("/dev/null").map_err(|e| sys::Error::file("open", "/dev/null", e))?;
    process::set_standard_input(null.as_fd())?;
    Ok(notices)
}

/// Programs of a lab that root started have root's rights to files: they may read those of the
/// system, but not change them.
fn protect_files() -> sys::Result<()> {
    // Where root is not mapped, its files belong to another number.
    let is_root_mapped = std::fs::metadata("/etc").is_ok_and(|data| data.uid() == 0);
    if is_root_mapped { view::protect_system() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_in_any_order() {
        let said = Said::parse("broker 4\nready\nlab 17\n");
        assert!(said.lab == Some(17) && said.broker == Some(4) && said.outcome.is_ok());
        assert!(matches!(Said::parse("lab 17\n").outcome, Err(Error::LostLab)));
        let said = Said::parse("error 1 unshare\nready\n");
        let text = said.outcome.unwrap_err().to_string();
        assert!(said.lab.is_none() && text.contains("unshare"), "{text}");
        assert!(text.contains("not permitted"), "{text}");
    }
}
