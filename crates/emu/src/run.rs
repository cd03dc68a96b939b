//! A run, from plan to record, as the command sees it: make the folder, launch the lab's process,
//! pass signals and progress on, read what came of it.

mod books;
mod ends;
mod finish;
mod lab;
mod load;
pub(crate) mod message;
pub(crate) mod piece;
mod recording;
mod summary;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use ::lab::plan::{Model, Plan};
use base::{Span, Time};
use outcome::Start;
use record::RunFolder;
use record::run::{Clock, Failure, FailureKind, RunRecord};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{
    SIGABRT, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGSEGV, SIGSYS, SIGTERM,
};
use sys::process::Exit;

use crate::doctor::{self, Choice, Facts};
use crate::enclosure::Engine;
use crate::launch::{self, LabHandle};
use crate::oom::OomKills;
use crate::registry::{Entry, Registration, Registry};
use crate::{Error, Result};
use message::{FromLab, ToLab};

/// How a run is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where run folders are made.
    pub runs_dir: PathBuf,
    /// What relative directories in the lab file start from.
    pub lab_dir: PathBuf,
    /// The command that repeats the run.
    pub repeat: String,
    /// The engine to use; `None`: the best that works.
    pub engine: Option<Engine>,
    /// Keep the lab up until its duration is over, though all programs and flows have ended.
    pub stay: bool,
    /// Who says when the lab begins; `None`: it begins as soon as it stands.
    pub starter: Option<Arc<Starter>>,
}

/// Lets labs that were set up one by one begin together. A byte is written when a lab stands, and
/// a byte that arrives lets it begin; at end-of-file it ends in order, because whoever started it
/// is gone.
#[derive(Debug)]
pub struct Starter(UnixStream);

impl Starter {
    /// The other end of `stream` says when.
    pub fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    fn wants_to_begin(&self) {
        // Whoever is gone is noticed when reading.
        let _ = (&self.0).write(&[1]);
    }

    /// Whether it has said that the lab may begin; `None` when it is gone.
    fn hear(&self) -> Option<bool> {
        match (&self.0).read(&mut [0]) {
            Ok(0) => None,
            Ok(_) => Some(true),
            Err(e) if e.kind() == ErrorKind::Interrupted => Some(false),
            Err(_) => None,
        }
    }
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time since the lab's start.
    pub now: Time,
    /// When it ends at the latest.
    pub duration: Span,
    /// What it waits for, in words; empty when nothing in particular.
    pub waiting_for: String,
    /// Packets delivered so far.
    pub packets: u64,
    /// The name under which other commands find it.
    pub name: String,
}

/// Runs `plan` and returns its record; the folder is `runs_dir/<name>-<id>`.
///
/// Ctrl-C ends the lab in order; results so far are kept and the record says `interrupted`.
///
/// # Errors
/// When the lab could not start, with the exit code of [`Error::exit_code`]. A lab that started
/// always gives a record.
pub fn run(
    plan: &Plan,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunRecord> {
    let oom_kills = OomKills::watch();
    let Begun { folder, record, choice } = begin(plan, options)?;
    let job = lab::Job {
        plan: Arc::new(plan.clone()),
        folder: folder.clone(),
        record,
        engine: choice.engine,
        lab_dir: options.lab_dir.clone(),
        stay: options.stay,
        piece: None,
        sockets: None,
    };
    let launch = launch::Options { uplink: plan.uplink, ..launch::Options::new(&plan.name) };
    let started = launch::fork_lab(&launch, move |side| lab::main(job, side));
    let mut handle = match started {
        Ok(handle) => handle,
        Err(error) => {
            // Nothing ran: an empty folder would only puzzle.
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(error);
        }
    };
    let mut usher = Usher { plan, folder: &folder, registration: None, entries: 0 };
    let ending = attend(&mut handle, options.starter.as_deref(), &mut usher, progress);
    drop(usher);
    handle.end();
    let exit = handle.wait();
    remains(&folder, ending, exit, &oom_kills)
}

/// A run whose lab has yet to be launched.
struct Begun {
    folder: RunFolder,
    record: RunRecord,
    choice: Choice,
}

/// Sees whether the lab can run here, and makes its folder.
fn begin(plan: &Plan, options: &Options) -> Result<Begun> {
    if plan.model == Model::Fluid {
        return Err(Error::VirtualOnly { what: "`model = \"fluid\"`" });
    }
    if plan.is_rate_controlled() {
        return Err(Error::VirtualOnly { what: "explicit rate control" });
    }
    let facts = Facts::collect().map_err(Error::Facts)?;
    if let Some(refusal) = facts.namespaces {
        return Err(Error::NoNamespaces(refusal.text));
    }
    let choice = doctor::choose(&facts, options.engine).map_err(|refused| {
        Error::NoEngine(refused.into_iter().map(|(e, why)| (e, why.to_string())).collect())
    })?;
    let record = |folder: &RunFolder| {
        let engine = summary::engine(&choice);
        let repeat = &options.repeat;
        outcome::begin(plan, Start { id: folder.id(), repeat, clock: Clock::Wall, engine })
    };
    let (folder, record) =
        RunFolder::begin(&options.runs_dir, &plan.name, &::lab::resolved(plan), record)?;
    Ok(Begun { folder, record, choice })
}

/// The record of a lab that has ended. It is final, whatever happened.
fn remains(
    folder: &RunFolder,
    ending: Result<End>,
    exit: Result<Exit>,
    oom_kills: &OomKills,
) -> Result<RunRecord> {
    let failure = match (ending, exit) {
        // Its record is final, unless it could not be written.
        (Ok(End::Finished), Ok(_)) => Failure {
            kind: FailureKind::Machine,
            text: "the lab's process could not write its record".to_owned(),
        },
        (Ok(End::Insisted), _) => {
            Failure { kind: FailureKind::Killed, text: "killed by a second interrupt".to_owned() }
        }
        (Ok(_), Ok(exit)) => ending_of(exit, oom_kills.count()),
        (Err(error), _) | (_, Err(error)) => {
            folder.end(error.failure())?;
            return Err(error);
        }
    };
    folder.end(failure)?;
    Ok(folder.read_record()?)
}

/// Why a lab's process ended that left no final record.
fn ending_of(exit: Exit, oom_kills: u64) -> Failure {
    let signals_of_crashes = [SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS];
    let (kind, text) = match exit {
        Exit::Signal(SIGKILL) if oom_kills > 0 => (
            FailureKind::OutOfMemory,
            "out of memory: the kernel's OOM killer ended the lab's process".to_owned(),
        ),
        Exit::Signal(signal) if signals_of_crashes.contains(&signal) => {
            (FailureKind::Internal, format!("internal error: the lab's process crashed ({exit})"))
        }
        Exit::Signal(_) => (FailureKind::Killed, format!("the lab's process was killed by {exit}")),
        Exit::Code(_) => {
            (FailureKind::Internal, format!("internal error: the lab's process ended with {exit}"))
        }
    };
    Failure { kind, text }
}

/// How the command lost sight of its lab.
enum End {
    /// The lab said that it has finished.
    Finished,
    /// Its user asked twice, so it was killed.
    Insisted,
    /// Its process ended without a word.
    Vanished,
}

/// Hears the lab out.
fn attend(
    handle: &mut LabHandle,
    starter: Option<&Starter>,
    usher: &mut Usher<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<End> {
    let mut signals = Signals::listen()?;
    let mut lines = BufReader::new(handle.channel().try_clone().map_err(Error::Channel)?);
    let mut starter = starter;
    let mut asked = 0;
    loop {
        let mut fds = vec![
            PollFd::new(lines.get_ref(), PollFlags::IN),
            PollFd::new(&signals.pipe, PollFlags::IN),
        ];
        fds.extend(starter.map(|starter| PollFd::new(&starter.0, PollFlags::IN)));
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::Channel(errno.into())),
        }
        let happened: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let said = match starter {
            Some(starter) if happened.get(2) == Some(&true) => starter.hear(),
            _ => Some(false),
        };
        match said {
            Some(true) => usher.begin(handle),
            Some(false) => {}
            None => starter = None,
        }
        if happened[1] || said.is_none() {
            signals.clear();
            asked += 1;
            match asked {
                1 => message::send(handle.channel(), &ToLab::Stop),
                // Whoever insists does not want to wait for the programs' grace.
                _ => handle.kill()?,
            }
        }
        if !happened[0] {
            continue;
        }
        let mut line = String::new();
        let read = match lines.read_line(&mut line) {
            // It was killed before it had heard everything.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => 0,
            read => read.map_err(Error::Channel)?,
        };
        if read == 0 {
            return Ok(if asked > 1 { End::Insisted } else { End::Vanished });
        }
        match message::parse(&line) {
            Some(FromLab::Ready { hosts }) => usher.ready(handle, hosts, starter),
            Some(FromLab::Progress { now_ns, waiting_for, packets, .. }) => {
                usher.tell_others(handle);
                let (now, duration) = (Time::from_nanos(now_ns), usher.plan.duration);
                let name = usher.name().to_owned();
                progress(Progress { now, duration, waiting_for, packets, name });
            }
            Some(FromLab::Failed(failure)) => return Err(Error::Lab(failure)),
            Some(FromLab::Finished) => return Ok(End::Finished),
            Some(FromLab::Program(_) | FromLab::Ending) | None => {}
        }
    }
}

/// Network namespaces of hosts, as descriptors of the lab's first process.
type Hosts = BTreeMap<String, i32>;

/// Brings a lab together with the other labs of its user: they do not notice each other, and use
/// one machine.
struct Usher<'a> {
    plan: &'a Plan,
    folder: &'a RunFolder,
    registration: Option<(Registry, Registration)>,
    /// Labs that were registered when the lab was told of them.
    entries: usize,
}

impl Usher<'_> {
    /// The lab stands.
    fn ready(&mut self, handle: &LabHandle, hosts: Hosts, starter: Option<&Starter>) {
        self.register(handle.pid(), hosts);
        match starter {
            Some(starter) => starter.wants_to_begin(),
            None => self.begin(handle),
        }
    }

    /// Lets other commands find the lab. A lab that cannot be registered runs all the same.
    fn register(&mut self, init: u32, hosts: Hosts) {
        let path = self.folder.path();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let entry = Entry::new(&self.plan.name, self.folder.id(), std::process::id(), init, path);
        let registered = entry.and_then(|mut entry| {
            entry.hosts = hosts;
            entry.realtime = self.plan.realtime;
            let registry = Registry::open()?;
            let registration = registry.register(entry)?;
            Ok((registry, registration))
        });
        self.registration = registered.ok();
    }

    fn name(&self) -> &str {
        self.registration.as_ref().map_or(&self.plan.name, |(_, lab)| &lab.entry().name)
    }

    fn begin(&mut self, handle: &LabHandle) {
        self.tell_others(handle);
        message::send(handle.channel(), &ToLab::Start { common: None });
    }

    /// Tells the lab how many others there are, where it does not know yet.
    fn tell_others(&mut self, handle: &LabHandle) {
        let Some((registry, own)) = &self.registration else { return };
        let count = entries(registry);
        if self.entries == count {
            return;
        }
        self.entries = count;
        // Reading them all is for when something has changed.
        let live = registry.list().map(|listing| listing.live).unwrap_or_default();
        let others = || live.iter().filter(|lab| lab.id != own.entry().id);
        let realtime = others().filter(|lab| lab.realtime).count() as u32;
        message::send(handle.channel(), &ToLab::Others { labs: others().count() as u32, realtime });
    }
}

/// How many files the registry has.
fn entries(registry: &Registry) -> usize {
    let files = std::fs::read_dir(registry.dir()).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|e| e == "json")).count()
}

/// SIGINT, SIGTERM and SIGHUP as bytes in a pipe, for as long as this lives.
struct Signals {
    pipe: UnixStream,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    fn listen() -> Result<Self> {
        let (pipe, write) = UnixStream::pair().map_err(Error::Channel)?;
        pipe.set_nonblocking(true).map_err(Error::Channel)?;
        let mut signals = Self { pipe, ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let copy = write.try_clone().map_err(Error::Channel)?;
            let id = signal_hook::low_level::pipe::register(signal, copy);
            signals.ids.push(id.map_err(Error::Channel)?);
        }
        Ok(signals)
    }

    fn clear(&mut self) {
        let mut bytes = [0; 64];
        while self.pipe.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
