//! Launch of a lab: from the command to the lab's own process.
//!
//! ```text
//! P  the command          forks C, waits for L, holds one end of the channel
//! C  short-lived          leaves P's namespaces, maps its users, forks L, ends
//! L  process 1 of a lab   in its own user, network, mount, process, IPC and host-name namespaces
//! ```
//!
//! All resources of a lab belong to its namespaces: when L ends, for any reason, the kernel ends
//! every process in it and frees every namespace. When P ends, L reads end-of-file on the channel
//! and ends the lab in an orderly way.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use sys::confine::{Capabilities, view};
use sys::limits;
use sys::namespace::{self, Kinds, Mode, Subordinates, UserNamespace};
use sys::process::{self, Attachment, Child, Exit, Signal};

use crate::enclosure::{Notice, PrivateMounts};
use crate::registry::HostEntry;
use crate::uplink::{self, Uplink};
use crate::{Error, Result, users};

/// Maximum real-time priority in a lab started by root; the data path uses a lower one.
const MAX_REALTIME_PRIORITY: u64 = 20;

#[derive(Clone, Debug)]
pub struct Options {
    /// Host name of the lab's own process.
    pub name: String,
    /// Whether hosts will be connected to the host system's network.
    pub uplink: bool,
    /// A command of the user runs in the lab, with the devices, services and files of the host.
    pub attached: bool,
    /// Subordinate IDs for programs of other users, if a user without root starts the lab.
    pub subordinates: Option<Subordinates>,
    /// Folders that programs may change, beside those for temporary files.
    pub writable: Vec<PathBuf>,
    /// Folders that programs see empty.
    pub hidden: Vec<PathBuf>,
}

impl Options {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            uplink: false,
            attached: false,
            subordinates: None,
            writable: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

/// The resources of the lab's process at its start.
#[derive(Debug)]
pub struct LabSide {
    /// The other end of [`LabHandle::channel`]. End-of-file means that the command has ended.
    pub channel: UnixStream,
    /// Proof that mounts made now are private to the lab.
    pub mounts: PrivateMounts,
    /// The command's network namespace.
    pub outer_net: OwnedFd,
    /// The connection to the uplink broker, if [`Options::uplink`] is set.
    pub uplink: Option<Uplink>,
    /// Limitations of this lab on this host.
    pub notices: Vec<Notice>,
}

/// The command's handle of a lab. Dropping it asks the lab to end.
#[derive(Debug)]
pub struct LabHandle {
    child: Child,
    /// Ends after the lab.
    broker: Option<Child>,
    channel: UnixStream,
}

impl LabHandle {
    /// The lab process's pid in the command's namespace.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The control connection to the lab.
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

    /// The lab's exit status, if it has ended.
    pub fn try_wait(&mut self) -> Result<Option<Exit>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks the lab to end in an orderly way: it reads end-of-file on its channel.
    pub fn end(&self) {
        // An error means that the lab has already ended.
        let _ = self.channel.shutdown(Shutdown::Write);
    }

    /// Kills the lab, with all its processes.
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
        // Closing is not sufficient: a lab that was forked later has a copy of this descriptor.
        let _ = self.channel.shutdown(Shutdown::Both);
    }
}

/// Runs `lab` as process 1 of new namespaces; its result is the process's exit status. The lab's
/// process has only the calling thread.
///
/// # Errors
/// [`Error::Namespaces`] if the system does not permit them, [`Error::NoPasta`] if an uplink is
/// requested and pasta is missing.
pub fn fork_lab(options: &Options, lab: impl FnOnce(LabSide) -> i32) -> Result<LabHandle> {
    let pasta = options.uplink.then(uplink::find_pasta).transpose()?;
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed("make a channel", &e))?;
    let (mut answer, report) = std::io::pipe().map_err(|e| failed("make a pipe", &e))?;
    let report = Report(File::from(OwnedFd::from(report)));
    let mut ours = Some(ours);
    let copy = &mut ours;
    let intermediate = move || {
        // This process's copy of the command's end.
        drop(copy.take());
        run_intermediate(options, pasta, report, theirs, lab)
    };
    // The lab becomes a child of the command when the intermediate process has ended.
    process::set_subreaper(true)?;
    let mut intermediate_process = Child::of(process::fork(intermediate)?)?;
    let mut text = String::new();
    let read = answer.read_to_string(&mut text);
    intermediate_process.wait()?;
    process::set_subreaper(false)?;
    read.map_err(|e| failed("read the lab's report", &e))?;
    let report = LaunchReport::parse(&text);
    let child = report.lab.map(Child::of).transpose()?;
    let broker = report.broker.map(Child::of).transpose()?;
    match (report.outcome, child, ours) {
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

/// The intermediate process between the command and the lab.
fn run_intermediate(
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
    match leave_namespaces(options) {
        Ok((outer_net, notices)) => {
            let side = LabSide { channel, mounts: PrivateMounts(()), outer_net, uplink, notices };
            fork_inside(report, side, options, lab)
        }
        Err(error) => report.error(&error),
    }
}

/// Forks the uplink's broker, which stays outside; returns the lab's end of its socket.
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
        // While these copies are open, other processes do not read end-of-file.
        drop((copy.take(), report_copy.take(), channel.take()));
        let _ = process::start_session();
        uplink::serve(pasta, theirs)
    })?;
    if let Some(report) = report {
        report.line(&format!("broker {pid}\n"));
    }
    ours.ok_or(sys::Error::Malformed("fork"))
}

/// Runs `command` on a host of a running lab, with this process's terminal and files. `pid` is
/// the lab's process, which has the descriptors of `entry`. Returns an exit status in the
/// convention of shells. The calling process must have one thread, and is inside the lab
/// afterwards. `variables` are added to its environment.
///
/// # Errors
/// [`Error::NotALab`] if the process or the descriptor does not exist; [`Error::UnknownUser`] and
/// [`Error::NoUsers`].
pub fn exec_in(
    pid: u32,
    entry: &HostEntry,
    host: &str,
    command: &[OsString],
    variables: &[(&str, OsString)],
) -> Result<i32> {
    let not_a_lab = |error: sys::Error| match error.errno().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::SRCH) => Error::NotALab(pid),
        _ => Error::Kernel(error),
    };
    let mut attachment = Attachment::open(pid, entry.net, host).map_err(not_a_lab)?;
    if let Some(mounts) = entry.mounts {
        attachment = attachment.with_mounts(pid, mounts).map_err(not_a_lab)?;
    }
    if let Some(user) = &entry.user {
        let (ids, own) = users::in_lab(user, pid)?;
        let own = own.into_iter().map(|(name, value)| (name.into(), value.into()));
        attachment = attachment.with_user(ids, own.collect());
    }
    Ok(process::attach(&attachment, command, variables)?.code())
}

/// An unconfined command of the user on a host of a lab that the calling process has launched. It
/// is attached to the terminal and has the environment, the user and the files of this process.
#[derive(Debug)]
pub(crate) struct Foreground(Child);

impl Foreground {
    /// Starts `command`; arguments as for [`exec_in`].
    pub(crate) fn start(pid: u32, net: i32, command: &[OsString]) -> Result<Self> {
        let attachment = Attachment::open(pid, net, "")?;
        let child = process::fork(move || process::attach_own(&attachment, command))?;
        Ok(Self(Child::of(child)?))
    }

    /// Passes a signal on to the command.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(self.0.signal(signal)?)
    }

    /// Waits for its end; returns its exit status in the convention of shells.
    pub(crate) fn wait(&mut self) -> Result<i32> {
        Ok(self.0.wait()?.code())
    }

    /// Its exit status in the convention of shells, if it has ended.
    pub(crate) fn exit_status(&mut self) -> Result<Option<i32>> {
        Ok(self.0.try_wait()?.map(Exit::code))
    }
}

impl AsFd for Foreground {
    /// Readable when the command has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn failed(step: &str, cause: &std::io::Error) -> Error {
    let cause = std::io::Error::from_raw_os_error(cause.raw_os_error().unwrap_or(0));
    Error::Namespaces { step: step.to_owned(), cause }
}

/// The pipe for the report of the processes that set up the lab to the command.
struct Report(File);

impl Report {
    fn line(&self, line: &str) {
        // Without the report the command assumes that the lab has failed.
        let _ = (&self.0).write_all(line.as_bytes());
    }

    /// Reports an error; returns the exit status for it.
    fn error(&self, error: &sys::Error) -> i32 {
        let errno = error.errno().unwrap_or(0);
        let text = error.to_string();
        let step = text.split(": ").next().unwrap_or_default();
        self.line(&format!("error {errno} {step}\n"));
        70
    }
}

struct LaunchReport {
    lab: Option<u32>,
    broker: Option<u32>,
    outcome: Result<()>,
}

impl LaunchReport {
    fn parse(text: &str) -> Self {
        let mut report = Self { lab: None, broker: None, outcome: Err(Error::LostLab) };
        let mut error = None;
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("lab", number)) => report.lab = number.parse().ok(),
                Some(("broker", number)) => report.broker = number.parse().ok(),
                Some(("error", rest)) => {
                    let (errno, step) = rest.split_once(' ').unwrap_or(("0", rest));
                    let cause = std::io::Error::from_raw_os_error(errno.parse().unwrap_or(0));
                    error.get_or_insert(Error::Namespaces { step: step.to_owned(), cause });
                }
                _ if line == "ready" => report.outcome = Ok(()),
                _ => {}
            }
        }
        if let Some(error) = error {
            report.outcome = Err(error);
        }
        report
    }
}

/// Moves the calling process, which must have one thread, out of all namespaces of its parent;
/// returns its previous network namespace.
fn leave_namespaces(options: &Options) -> sys::Result<(OwnedFd, Vec<Notice>)> {
    let net = namespace::current_net()?;
    let mut notices = Vec::new();
    if Capabilities::SYS_RESOURCE.are_effective() {
        // No capability permits this inside a user namespace. Without it, the data
        // path reports its lateness.
        let _ = limits::permit_realtime(MAX_REALTIME_PRIORITY);
    }
    // The terminal's keyboard signals must only reach the command, which then ends the lab.
    process::start_session()?;
    let kinds = Kinds::NET | Kinds::MOUNT | Kinds::PID | Kinds::IPC | Kinds::UTS;
    let made = namespace::unshare_with_user(kinds, options.subordinates.as_ref())?;
    if let UserNamespace::Unchanged(refusal) = made {
        notices.push(Notice::NoUserNamespace(refusal));
    }
    namespace::set_host_name(&options.name)?;
    Ok((net, notices))
}

/// Forks the lab's process, reports its pid and ends.
fn fork_inside(
    report: Report,
    mut side: LabSide,
    options: &Options,
    lab: impl FnOnce(LabSide) -> i32,
) -> i32 {
    let mut report = Some(report);
    let copy = &mut report;
    let first = move || {
        // Closed before the lab runs: the command reads the report up to end-of-file.
        let Some(report) = copy.take() else { return 70 };
        match set_up_view(options) {
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

/// Gives process 1 of a lab its own mounts, devices and process view, and an empty standard input.
/// Also applies the restrictions of the view of the host that are the same for all programs.
fn set_up_view(options: &Options) -> sys::Result<Vec<Notice>> {
    namespace::make_mounts_private()?;
    let mut steps = Vec::new();
    if !options.attached {
        let protected = view::protect_files(&options.writable, &options.hidden);
        steps.push(protected.map_err(Notice::Exposed));
    }
    // Denied in containers that hide parts of /proc; then programs see the host's processes.
    let processes = namespace::mount_new("proc", Path::new("/proc"), Mode::Plain);
    steps.push(processes.map_err(Notice::Processes));
    if !options.attached {
        steps.extend([
            view::replace_devices().map_err(Notice::Exposed),
            view::protect_parameters().map_err(Notice::Exposed),
        ]);
    }
    let notices = steps.into_iter().filter_map(std::result::Result::err).collect();
    let null = File::open("/dev/null").map_err(|e| sys::Error::file("open", "/dev/null", e))?;
    process::set_standard_input(null.as_fd())?;
    Ok(notices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_launch_report_in_any_order() {
        let report = LaunchReport::parse("broker 4\nready\nlab 17\n");
        assert!(report.lab == Some(17) && report.broker == Some(4) && report.outcome.is_ok());
        assert!(matches!(LaunchReport::parse("lab 17\n").outcome, Err(Error::LostLab)));
        let report = LaunchReport::parse("error 1 unshare\nready\n");
        let text = report.outcome.unwrap_err().to_string();
        assert!(report.lab.is_none() && text.contains("unshare"), "{text}");
        assert!(text.contains("not permitted"), "{text}");
    }
}
