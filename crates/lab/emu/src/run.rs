//! A run, from plan to record, in the command's process: creates the folder, launches the lab's
//! process, forwards signals and progress, reads the record.
//!
//! The modules of this folder depend on each other: they are the two processes of a run. `run`,
//! `run/supervisor`, `run/attached` and `run/shard` belong to the command's side, `run/lab` and its
//! callees to the lab's side, and both use `run/message`.

mod attached;
mod finish;
mod flow_ends;
mod lab;
mod lines;
mod live;
mod load;
mod message;
mod outbox;
mod recording;
mod requests;
mod shard;
mod summary;
mod supervisor;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use ::lab::plan::{Model, Plan, Uplink};
use base::{Span, Time};
use cluster::control::ShardProgress;
use run::RunFolder;
use run::Start;
use run::record::{Clock, Failure, FailureKind, RunRecord};
use signal_hook::consts::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGSEGV, SIGSYS};
use sys::process::Exit;

use crate::doctor::{self, Choice, Facts};
use crate::enclosure::Engine;
use crate::launch;
use crate::oom::OomKills;
use crate::registry::Registry;
use crate::shard::{Shard, Sockets};
use crate::users::Users;
use crate::{Error, Result};
pub use attached::{AttachedRun, run_attached};
use message::ToLab;
pub use shard::run_shard;
use supervisor::{Controller, End, Supervisor};

#[derive(Clone, Debug)]
pub struct Options {
    /// The folder in which run folders are created.
    pub runs_dir: PathBuf,
    /// Base of relative directories in the lab file.
    pub lab_dir: PathBuf,
    /// The command line that repeats the run.
    pub repeat: String,
    /// The engine to use; `None`: the best one that works.
    pub engine: Option<Engine>,
    /// Whether to keep the lab until its duration is over, even if all programs
    /// and flows have ended.
    pub stay: bool,
    /// The control socket that starts the lab; `None`: the lab starts as soon as it is ready.
    pub starter: Option<Arc<Starter>>,
    /// For a lab that stays up: its properties.
    pub up: Option<Up>,
}

/// A lab that stays up until it is asked to end, which is then its planned end.
#[derive(Clone, Debug)]
pub struct Up {
    /// The control socket of `netarium up`, which receives a byte when all programs that start with
    /// the lab are ready. If it closes before, the lab ends.
    pub parent: Arc<Starter>,
    /// Whether the lab ends after its duration.
    pub ends: bool,
}

/// Synchronises the start of several labs: the child's end of the control socket of
/// [`run::supervisor`]. The child writes a byte when its lab is ready, and starts the lab when it
/// receives a byte; at end-of-file it ends in an orderly way, because its parent has ended.
#[derive(Debug)]
pub struct Starter(UnixStream);

impl Starter {
    /// The other end of `stream` starts the lab.
    pub fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    fn notify(&self) {
        // An error is detected at the next read: the parent has ended.
        let _ = (&self.0).write(&[1]);
    }

    /// Whether the lab may start; `None` if the parent has ended.
    fn receive(&self) -> Option<bool> {
        match (&self.0).read(&mut [0]) {
            Ok(0) => None,
            Ok(_) => Some(true),
            Err(e) if e.kind() == ErrorKind::Interrupted => Some(false),
            Err(_) => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub now: Time,
    /// Maximum duration of the run.
    pub duration: Span,
    /// What it waits for, as text; empty if nothing.
    pub waiting_for: String,
    pub packets: u64,
    /// The name by which other commands find it.
    pub name: String,
}

/// Runs `plan` and returns its record; the folder is `runs_dir/<name>-<id>`.
///
/// Ctrl-C ends the lab in an orderly way; results so far are kept and the record says
/// `interrupted`.
///
/// # Errors
/// If the lab could not start, with the exit code of [`Error::exit_code`]. A lab that started
/// always gives a record.
pub fn run(
    plan: &Plan,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<RunRecord> {
    let up = options.up.as_ref().map(|up| Arc::clone(&up.parent));
    let mut command = Command {
        waits_for_start: up.is_none() && options.starter.is_some(),
        starter: up.or_else(|| options.starter.clone()),
        starter_is_gone: false,
        duration: plan.duration,
        progress,
    };
    Ok(supervise(&Arc::new(plan.clone()), options, None, &mut command)?.record)
}

/// The command as the controller of its lab.
struct Command<'a> {
    starter: Option<Arc<Starter>>,
    /// The starter has ended, or is not needed any more.
    starter_is_gone: bool,
    waits_for_start: bool,
    duration: Span,
    progress: &'a mut dyn FnMut(Progress),
}

impl Controller for Command<'_> {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.starter.as_deref().filter(|_| !self.starter_is_gone).map(|starter| starter.0.as_fd())
    }

    fn read(&mut self) -> Result<Vec<ToLab>> {
        match self.starter.as_ref().and_then(|starter| starter.receive()) {
            Some(true) => Ok(vec![ToLab::Start { common: None }]),
            Some(false) => Ok(Vec::new()),
            None => {
                self.starter_is_gone = true;
                Ok(vec![ToLab::Stop])
            }
        }
    }

    fn on_ready(&mut self) -> Option<ToLab> {
        match &self.starter {
            Some(starter) if self.waits_for_start => {
                starter.notify();
                None
            }
            _ => Some(ToLab::Start { common: None }),
        }
    }

    fn on_up(&mut self) {
        if let Some(starter) = self.starter.as_ref().filter(|_| !self.waits_for_start) {
            starter.notify();
            self.starter_is_gone = true;
        }
    }

    fn on_progress(&mut self, progress: ShardProgress, name: &str) {
        let ShardProgress { now_ns, waiting_for, packets, .. } = progress;
        let (now, duration) = (Time::from_nanos(now_ns), self.duration);
        (self.progress)(Progress { now, duration, waiting_for, packets, name: name.to_owned() });
    }
}

/// A run whose lab has ended.
struct Ended {
    folder: RunFolder,
    record: RunRecord,
    /// The lab's process ended without a report.
    vanished: bool,
}

/// Runs a lab, or a shard of one, in its own process until it has ended.
fn supervise(
    plan: &Arc<Plan>,
    options: &Options,
    shard: Option<(Shard, Sockets)>,
    controller: &mut dyn Controller,
) -> Result<Ended> {
    let oom_kills = OomKills::watch();
    let is_here = |node| shard.as_ref().is_none_or(|(shard, _)| shard.is_here(node));
    let users = Users::of(plan, is_here)?;
    if let Some(path) = plan.writable.iter().find(|path| !path.is_dir()) {
        return Err(Error::NoWritableFolder { path: path.clone() });
    }
    let Begun { folder, record, choice } = begin(plan, options)?;
    let (shard, sockets) = shard.unzip();
    let is_shard = shard.is_some();
    let attached = controller.is_attached();
    let job = lab::Job {
        plan: Arc::clone(plan),
        folder: folder.clone(),
        record,
        engine: choice.engine,
        lab_dir: options.lab_dir.clone(),
        users: users.clone(),
        stay: options.stay || options.up.is_some(),
        up: options.up.as_ref().map(|up| lab::Up { ends: up.ends, is_ready: false }),
        attached,
        shard: shard.map(Arc::new),
        sockets,
    };
    // Programs inherit `TMPDIR`.
    let temporary = Some(std::env::temp_dir()).filter(|path| path.is_dir());
    let own = [options.lab_dir.clone(), folder.path().to_owned()].into_iter().chain(temporary);
    let launch = launch::Options {
        writable: own.chain(plan.writable.iter().cloned()).collect(),
        // Programs must not write to the registry: commands signal the processes in its entries.
        hidden: Registry::open().map(|registry| registry.dir().to_owned()).into_iter().collect(),
        uplink: plan.uplink != Uplink::None,
        attached,
        subordinates: users.subordinates,
        ..launch::Options::new(&plan.name)
    };
    let closed_by_child = &mut *controller;
    let started = launch::fork_lab(&launch, move |side| {
        closed_by_child.close();
        lab::main(job, side)
    });
    let mut handle = match started {
        Ok(handle) => handle,
        Err(error) => {
            // The folder of a run without a lab is useless.
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(error);
        }
    };
    let up = options.up.as_ref();
    let mut server = None;
    let ending = Supervisor::new(&mut handle, plan, &folder, is_shard, up, controller).and_then(
        |mut supervisor| {
            let end = supervisor.supervise();
            server = supervisor.take_server();
            end
        },
    );
    // A lab that reports its failure ends without a signal.
    if ending.as_ref().is_err_and(|error| !matches!(error, Error::Lab(_))) {
        let _ = handle.kill();
    }
    handle.end();
    let exit = handle.wait();
    let vanished = matches!(ending, Ok(End::NoReport));
    let record = final_record(&folder, ending, exit, &oom_kills)?;
    if let Some((server, end)) = server.zip(run::live::End::of(&record)) {
        server.end(end);
    }
    Ok(Ended { folder, record, vanished })
}

/// A run whose lab has not been launched yet.
struct Begun {
    folder: RunFolder,
    record: RunRecord,
    choice: Choice,
}

/// Checks whether the lab can run here, and creates its folder.
fn begin(plan: &Plan, options: &Options) -> Result<Begun> {
    if plan.model == Model::Fluid {
        return Err(Error::VirtualOnly { what: "`model = \"fluid\"`" });
    }
    if plan.is_rate_controlled() {
        return Err(Error::VirtualOnly { what: "explicit rate control" });
    }
    let facts = Facts::collect().map_err(Error::Facts)?;
    if let Some((why, fix)) = doctor::no_namespaces(&facts) {
        return Err(Error::NoNamespaces { why, fix });
    }
    let choice = doctor::choose(&facts, options.engine).map_err(|refused| {
        Error::NoEngine(refused.into_iter().map(|(e, why)| (e, why.to_string())).collect())
    })?;
    let record = |folder: &RunFolder| {
        let engine = summary::engine(&choice);
        let repeat = &options.repeat;
        run::begin(plan, Start { id: folder.id(), repeat, clock: Clock::Wall, engine })
    };
    let (folder, record) =
        RunFolder::begin(&options.runs_dir, &plan.name, &::lab::resolved(plan), record)?;
    Ok(Begun { folder, record, choice })
}

/// The record of a lab that has ended. It is always final.
fn final_record(
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
        (Ok(End::KilledByUser), _) => {
            Failure { kind: FailureKind::Killed, text: "killed by a second interrupt".to_owned() }
        }
        (Ok(_), Ok(exit)) => failure_of_exit(exit, oom_kills.count()),
        (Err(error), _) | (_, Err(error)) => {
            folder.end(error.failure())?;
            return Err(error);
        }
    };
    folder.end(failure)?;
    Ok(folder.read_record()?)
}

/// The failure of a lab's process that ended without a final record.
fn failure_of_exit(exit: Exit, oom_kills: u64) -> Failure {
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
