//! The real programs of a lab: started in their node's namespace when their start conditions hold,
//! restarted after failures, and ended with all their descendants.
//!
//! Each program runs under a small init in its own PID namespace, so that none of its child
//! processes can outlive it. The init is this executable: `main` must call [`init_main`] first.
//!
//! `instance` and `readiness` depend on this module: a program, its attempts and its ready
//! condition are one state machine.

mod instance;
mod outcome;
mod output;
mod readiness;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::{NodeId, ProgramId, Span, Time};
use cluster::control::ProgramChange;
use lab::plan::{Action, Plan, Program, Restart};
use run::RunFolder;
use run::record::ProgramEnd;
use rustix::fs::{Mode, OFlags};
use sys::confine::user::Ids;
use sys::process::{self, ProgramSetup, Signal};

use crate::enclosure::Enclosure;
use crate::oom::OomKills;
use crate::users::Users;
use crate::{Error, Result};
use instance::Instance;
pub use outcome::ProgramOutcome;
use output::Collector;
use readiness::Watch;

/// The argument that makes this executable a program's init.
const INIT: &str = "lab-init";

/// Restart delay of a program that fails repeatedly.
const MIN_BACKOFF: Span = Span::from_millis(100);
const MAX_BACKOFF: Span = Span::from_secs(10);

/// The status of a program killed by SIGKILL, or of a shell whose command was killed by it.
const KILLED_STATUS: i32 = 137;

/// Runs a program's init if this process was started as one; then it does not return.
pub fn init_main() {
    let mut arguments = std::env::args_os().skip(1);
    if std::process::id() != 1 || arguments.next().as_deref() != Some(OsStr::new(INIT)) {
        return;
    }
    let code =
        ProgramSetup::from_arguments(arguments).map_or(64, |setup| process::run_init(&setup));
    std::process::exit(code)
}

/// Opens this executable, if possible through a mount of the lab, which is read-only.
/// `/proc/self/exe` leads to a mount of the host, through which programs of a lab of root could
/// change the file's permissions.
fn own_executable() -> Result<OwnedFd> {
    const LINK: &str = "/proc/self/exe";
    let open = |path: &Path| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let file = open(Path::new(LINK))
        .map_err(|e| Error::Kernel(sys::Error::file("open", LINK, e.into())))?;
    let visible = std::env::current_exe().ok().and_then(|path| open(&path).ok());
    let identity = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    // An update may have replaced the file.
    Ok(visible.filter(|visible| identity(visible) == identity(&file)).unwrap_or(file))
}

/// The part of a lab's facts that its programs, and commands of `exec`, have in their environment.
#[derive(Clone, Copy, Debug)]
pub struct LabFacts<'a> {
    /// `[lab] name`.
    pub lab: &'a str,
    pub node: &'a str,
    /// Absolute path of the run folder.
    pub folder: &'a Path,
    pub seed: Option<u64>,
}

impl LabFacts<'_> {
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, OsString)> {
        let seed = self.seed.map(|seed| ("NETARIUM_SEED", seed.to_string().into()));
        [
            ("NETARIUM_LAB", self.lab.into()),
            ("NETARIUM_NODE", self.node.into()),
            ("NETARIUM_RUN_DIR", self.folder.into()),
        ]
        .into_iter()
        .chain(seed)
    }
}

#[derive(Debug)]
#[non_exhaustive]
pub enum ProgramEvent {
    Started(ProgramId),
    Ready(ProgramId),
    /// The program has ended, without or after a stop.
    Ended {
        program: ProgramId,
        end: ProgramEnd,
        /// Whether the lab expects this end.
        as_expected: bool,
        /// Time of the restart, if there is one.
        again: Option<Time>,
    },
    /// Its output has reached the limit: the rest is discarded.
    OutputLimit(ProgramId),
    /// It could not be started, did not become ready, or its output could not be written: the lab
    /// cannot continue as planned.
    Failed(ProgramId, Error),
}

#[derive(Debug)]
enum State {
    /// Its start time or start conditions are not reached.
    Waiting,
    Running(Box<Running>),
    /// It will be restarted at this time.
    RestartPending(Time),
    /// It has ended, or is never started.
    Ended,
    /// Another agent runs it.
    Remote,
}

#[derive(Debug)]
struct Running {
    instance: Instance,
    since: Time,
    /// `None` once it is ready, or if it has no readiness condition.
    watch: Option<Watch>,
    stop: Option<Stop>,
}

/// A program that was requested to end.
#[derive(Clone, Copy, Debug)]
struct Stop {
    kill_at: Time,
    killed: bool,
    /// A start was requested before its end.
    then_start: bool,
}

#[derive(Debug)]
struct Slot {
    program: Program,
    host: String,
    /// The namespaces of its node; `None` if the node is on another agent.
    namespaces: Option<Rc<NodeNamespaces>>,
    /// The IDs of its user; `None`: the IDs of the lab's process.
    user: Option<Ids>,
    /// Variables of its user, and its own.
    env: BTreeMap<String, String>,
    dir: PathBuf,
    output: PathBuf,
    state: State,
    backoff: Span,
    outcome: ProgramOutcome,
    /// Its output has reached the limit.
    limited: bool,
}

#[derive(Debug)]
struct NodeNamespaces {
    /// This executable, for the init of programs.
    executable: Rc<OwnedFd>,
    net: OwnedFd,
    /// The mount namespace, if the node has private files.
    mounts: Option<OwnedFd>,
}

/// All programs of a lab. It has no timer: the owner calls [`Supervisor::step`] when a descriptor
/// of [`Supervisor::files`] is readable or at [`Supervisor::next_wake`].
#[derive(Debug)]
pub struct Supervisor {
    slots: Vec<Slot>,
    events: Vec<ProgramEvent>,
    collector: Collector,
    oom_kills: OomKills,
    /// Number of program ends caused by these kills.
    oom_ends: u64,
}

impl Supervisor {
    /// The programs of `plan`; none is started. Their output goes to `folder`; relative working
    /// directories are relative to `base`, which is also the default. Programs of nodes that are
    /// not `here` run on other agents.
    ///
    /// # Errors
    /// If a folder for output cannot be created, or a program's node has no namespace.
    pub fn new(
        plan: &Plan,
        enclosure: &Enclosure,
        folder: &RunFolder,
        base: &Path,
        users: &Users,
        here: impl Fn(NodeId) -> bool,
    ) -> Result<Self> {
        let executable = Rc::new(own_executable()?);
        let mut by_node: Vec<(NodeId, Rc<NodeNamespaces>)> = Vec::new();
        let mut slots = Vec::with_capacity(plan.programs.len());
        let folder_path =
            std::path::absolute(folder.path()).unwrap_or_else(|_| folder.path().to_owned());
        for program in &plan.programs {
            let node = &plan.nodes[program.node.index()];
            let known = by_node.iter().find(|(id, _)| *id == program.node);
            let is_here = here(program.node);
            let namespaces = if !is_here {
                None
            } else if let Some((_, namespaces)) = known {
                Some(Rc::clone(namespaces))
            } else {
                let without = || Error::NoNamespace { node: node.name.clone() };
                let host = enclosure.host(program.node).ok_or_else(without)?;
                let copy = |fd: &OwnedFd| {
                    fd.try_clone().map_err(|cause| Error::Node {
                        node: node.name.clone(),
                        cause: sys::Error::Call { call: "dup", cause },
                    })
                };
                let mounts = host.mounts.as_ref().map(copy).transpose()?;
                let (net, executable) = (copy(&host.netns)?, Rc::clone(&executable));
                by_node.push((program.node, Rc::new(NodeNamespaces { executable, net, mounts })));
                Some(Rc::clone(&by_node[by_node.len() - 1].1))
            };
            let facts = LabFacts {
                lab: &plan.name,
                node: &node.name,
                folder: &folder_path,
                seed: Some(plan.seed),
            };
            let output = if is_here { folder.program(&program.name)? } else { PathBuf::new() };
            let program = with_facts(program, &facts);
            let user = program.user.as_ref();
            let mut env: BTreeMap<String, String> =
                user.map(|user| users.variables(&user.name)).into_iter().flatten().collect();
            env.extend(program.env.clone());
            slots.push(Slot {
                host: node.name.clone(),
                namespaces,
                user: user.and_then(|user| users.ids(&user.name)).cloned(),
                env,
                dir: program.dir.as_ref().map_or_else(|| base.to_owned(), |dir| base.join(dir)),
                output,
                state: if is_here { State::Waiting } else { State::Remote },
                backoff: MIN_BACKOFF,
                outcome: ProgramOutcome::default(),
                limited: false,
                program,
            });
        }
        let limits = plan.programs.iter().map(|program| program.output.count());
        let (collector, oom_kills) = (Collector::start(limits)?, OomKills::watch());
        Ok(Self { slots, events: Vec::new(), collector, oom_kills, oom_ends: 0 })
    }

    /// Handles everything due at `now`, and returns the events since the last call.
    pub fn step(&mut self, now: Time) -> Vec<ProgramEvent> {
        for at in 0..self.slots.len() {
            self.advance(ProgramId::at(at), now);
        }
        // A program that became ready may let others start, in any order.
        let mut before = usize::MAX;
        while before != self.events.len() {
            before = self.events.len();
            for at in 0..self.slots.len() {
                self.begin_if_due(ProgramId::at(at), now);
            }
        }
        self.check_output();
        let ours: Vec<u32> = self.slots.iter().flat_map(Slot::pids).collect();
        process::reap_orphans(|pid| ours.contains(&pid));
        std::mem::take(&mut self.events)
    }

    fn check_output(&mut self) {
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if slot.outcome.started.is_none() {
                continue;
            }
            if !slot.limited && self.collector.discarded(at) > 0 {
                slot.limited = true;
                self.events.push(ProgramEvent::OutputLimit(ProgramId::at(at)));
            }
            if let Some(error) = self.collector.take_error(at) {
                self.events.push(ProgramEvent::Failed(ProgramId::at(at), Error::Record(error)));
            }
        }
    }

    /// Bytes of a program's output beyond its limit.
    pub fn discarded_output(&self, program: ProgramId) -> u64 {
        self.collector.discarded(program.index())
    }

    /// Number of OOM kills in the lab's control group or, without one, on the host.
    pub fn oom_kills(&self) -> u64 {
        self.oom_kills.count()
    }

    /// The next deadline of [`Supervisor::step`], independent of descriptors.
    pub fn next_wake(&self) -> Option<Time> {
        let wakes = self.slots.iter().filter_map(|slot| match &slot.state {
            State::Waiting => self.are_ready(&slot.program.after).then_some(slot.program.start),
            State::RestartPending(until) => Some(*until),
            State::Ended | State::Remote => None,
            State::Running(running) => {
                let watch = running.watch.as_ref().map(Watch::next_wake);
                let kill = running.stop.filter(|stop| !stop.killed).map(|stop| stop.kill_at);
                watch.into_iter().chain(kill).min()
            }
        });
        wakes.min()
    }

    /// Descriptors that become readable when a program ends.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Running(running) => Some(running.instance.as_fd()),
            _ => None,
        })
    }

    /// Asks a program and its descendants to end, and kills them after its grace time.
    pub fn stop(&mut self, program: ProgramId, now: Time) {
        let slot = &mut self.slots[program.index()];
        let kill_at = now + slot.program.grace;
        match &mut slot.state {
            State::Running(running) if running.stop.is_none() => {
                running.stop = Some(Stop { kill_at, killed: false, then_start: false });
                running.instance.signal(Signal::TERM);
            }
            State::Running(running) => {
                // It is ending already; cancels the restart.
                running.stop = running.stop.map(|stop| Stop { then_start: false, ..stop });
            }
            State::Waiting | State::RestartPending(_) => slot.state = State::Ended,
            State::Ended | State::Remote => {}
        }
    }

    /// Kills a program and its descendants.
    pub fn kill(&mut self, program: ProgramId, now: Time) {
        let slot = &mut self.slots[program.index()];
        match &mut slot.state {
            State::Running(running) => {
                running.stop = Some(Stop { kill_at: now, killed: true, then_start: false });
                running.instance.signal(Signal::KILL);
            }
            State::Waiting | State::RestartPending(_) | State::Ended => slot.state = State::Ended,
            State::Remote => {}
        }
    }

    /// Starts a program that has not started or has ended; a program that is ending
    /// starts after its end.
    pub fn start(&mut self, program: ProgramId, now: Time) {
        match &mut self.slots[program.index()].state {
            State::Running(running) => {
                running.stop = running.stop.map(|stop| Stop { then_start: true, ..stop });
            }
            State::Waiting | State::RestartPending(_) | State::Ended => self.begin(program, now),
            State::Remote => {}
        }
    }

    /// Why a request for this action has no effect; `None` if it has one.
    pub fn refusal(&self, action: &Action) -> Option<String> {
        let (Action::Stop(id) | Action::Kill(id) | Action::Start(id)) = action else { return None };
        let slot = &self.slots[id.index()];
        let state = match (&slot.state, action) {
            (State::Running(running), Action::Start(_)) => match running.stop {
                None => "runs already",
                Some(Stop { then_start: true, .. }) => "is being restarted already",
                Some(_) => return None,
            },
            (_, Action::Start(_)) => return None,
            (State::Running(running), Action::Stop(_)) => match running.stop {
                Some(Stop { then_start: false, .. }) => "is being stopped already",
                _ => return None,
            },
            (State::Waiting, _) => "has not started yet",
            (State::Ended, _) if slot.outcome.started.is_none() => "has not started",
            (State::Ended, _) => "has ended already",
            _ => return None,
        };
        Some(format!("program {} {state}", slot.program.name))
    }

    /// Handles a state change of another agent's program, for which local programs may wait.
    pub fn on_remote_change(&mut self, program: ProgramId, change: ProgramChange, at: Time) {
        let Some(slot) = self.slots.get_mut(program.index()) else { return };
        if !matches!(slot.state, State::Remote) {
            return;
        }
        match change {
            ProgramChange::Started => slot.outcome.begin(at),
            ProgramChange::Ready => {
                slot.outcome.ready.get_or_insert(at);
            }
            ProgramChange::Ended { well } => {
                slot.outcome.ended = Some(at);
                slot.outcome.as_expected &= well;
            }
        }
    }

    /// Whether a program runs on this agent.
    pub fn is_here(&self, program: ProgramId) -> bool {
        !matches!(self.slots[program.index()].state, State::Remote)
    }

    /// Asks all programs to end; no program starts any more.
    pub fn shutdown(&mut self, now: Time) {
        for at in 0..self.slots.len() {
            self.stop(ProgramId::at(at), now);
        }
    }

    /// Whether no program here runs or will start without a request.
    pub fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.state, State::Ended | State::Remote))
    }

    /// Whether every program here that starts with the lab has started and is ready. Programs with
    /// a later start time, and those that wait for them, do not count.
    pub fn has_started(&self, now: Time) -> bool {
        (0..self.slots.len()).all(|at| match &self.slots[at].state {
            State::Waiting => self.starts_later(ProgramId::at(at), now),
            State::Running(running) => running.watch.is_none() || running.stop.is_some(),
            State::RestartPending(_) => self.are_ready(&[ProgramId::at(at)]),
            State::Ended | State::Remote => true,
        })
    }

    fn starts_later(&self, program: ProgramId, now: Time) -> bool {
        let slot = &self.slots[program.index()];
        match &slot.state {
            State::Waiting => {
                slot.program.start > now
                    || slot.program.after.iter().any(|other| self.starts_later(*other, now))
            }
            State::Ended => !self.are_ready(&[program]),
            State::Running(_) | State::RestartPending(_) | State::Remote => false,
        }
    }

    /// Whether every program here that is not a service has ended and will not restart.
    pub fn is_work_over(&self) -> bool {
        let over = |slot: &Slot| {
            slot.program.service || matches!(slot.state, State::Ended | State::Remote)
        };
        self.slots.iter().all(over)
    }

    /// Whether every program is ready, or has started if it has no readiness condition.
    pub fn is_ready(&self) -> bool {
        (0..self.slots.len()).all(|at| self.are_ready(&[ProgramId::at(at)]))
    }

    pub fn outcome(&self, program: ProgramId) -> &ProgramOutcome {
        &self.slots[program.index()].outcome
    }

    pub fn last_stderr(&self, program: ProgramId) -> Vec<String> {
        outcome::last_lines(&self.slots[program.index()].output.join("stderr"))
    }

    fn are_ready(&self, programs: &[ProgramId]) -> bool {
        programs.iter().all(|program| {
            let slot = &self.slots[program.index()];
            let outcome = &slot.outcome;
            let since = if slot.program.ready.is_some() { outcome.ready } else { outcome.started };
            since.is_some()
        })
    }

    fn begin_if_due(&mut self, id: ProgramId, now: Time) {
        let slot = &self.slots[id.index()];
        let due = match slot.state {
            State::Waiting => slot.program.start <= now && self.are_ready(&slot.program.after),
            State::RestartPending(until) => until <= now,
            State::Running(_) | State::Ended | State::Remote => false,
        };
        if due {
            self.begin(id, now);
        }
    }

    fn begin(&mut self, id: ProgramId, now: Time) {
        let slot = &mut self.slots[id.index()];
        let Some(namespaces) = &slot.namespaces else { return };
        match Instance::start(id, slot, namespaces, &self.collector) {
            Ok(instance) => {
                slot.outcome.begin(now);
                let watch = slot.program.ready.as_ref();
                let watch = watch.map(|ready| Watch::new(ready, slot, now));
                slot.state =
                    State::Running(Box::new(Running { instance, since: now, watch, stop: None }));
                self.events.push(ProgramEvent::Started(id));
            }
            Err(error) => {
                slot.state = State::Ended;
                slot.outcome.as_expected = false;
                self.events.push(ProgramEvent::Failed(id, error));
            }
        }
    }

    /// Handles the events of a running program.
    fn advance(&mut self, id: ProgramId, now: Time) {
        let slot = &mut self.slots[id.index()];
        let State::Running(running) = &mut slot.state else { return };
        if let Some(end) = running.instance.poll() {
            running.instance.streams.iter().for_each(|key| self.collector.finish(*key));
            let namespaces = slot.namespaces.as_deref();
            if let Some(watch) = &mut running.watch
                && namespaces
                    .is_some_and(|namespaces| watch.was_ready(&running.instance, namespaces))
            {
                running.watch = None;
                slot.outcome.ready.get_or_insert(now);
                self.events.push(ProgramEvent::Ready(id));
            }
            self.ended(id, end, now);
            return;
        }
        if let Some(stop) = &mut running.stop {
            if !stop.killed && stop.kill_at <= now {
                stop.killed = true;
                running.instance.signal(Signal::KILL);
            }
            return;
        }
        let Some(watch) = &mut running.watch else { return };
        let ready = slot.namespaces.as_deref().is_some_and(|namespaces| {
            watch.is_ready(now, &running.instance, namespaces, &slot.host)
        });
        if ready {
            running.watch = None;
            slot.outcome.ready.get_or_insert(now);
            self.events.push(ProgramEvent::Ready(id));
        } else if watch.deadline() <= now {
            let error = Error::NotReady {
                program: slot.program.name.clone(),
                condition: readiness::describe(slot.program.ready.as_ref()),
                waited: slot.program.ready_timeout,
                stderr: outcome::last_lines(&slot.output.join("stderr")),
            };
            running.watch = None;
            self.events.push(ProgramEvent::Failed(id, error));
        }
    }

    fn ended(&mut self, id: ProgramId, end: instance::End, now: Time) {
        let slot = &mut self.slots[id.index()];
        let before = std::mem::replace(&mut slot.state, State::Ended);
        let State::Running(running) = before else { return };
        let exit = match end {
            instance::End::Exit(exit) => exit,
            instance::End::NotExecuted(error) => {
                slot.outcome.fail(now);
                self.events.push(ProgramEvent::Failed(id, error));
                return;
            }
        };
        let stopped = running.stop.is_some();
        let as_expected = stopped || outcome::is_expected(&slot.program, exit);
        slot.outcome.end(now, exit, stopped, as_expected);
        if !stopped && exit.code() == KILLED_STATUS && self.oom_kills.count() > self.oom_ends {
            self.oom_ends += 1;
            slot.outcome.end = Some(ProgramEnd::OutOfMemory);
        }
        let never_ready = running.watch.is_some() && !stopped;
        let restart = !stopped
            && match slot.program.restart {
                Restart::Never => false,
                Restart::OnFailure => {
                    !as_expected || exit.code() != 0 && slot.program.exit.is_none()
                }
                Restart::Always => true,
            };
        if now.since(running.since) >= MAX_BACKOFF {
            slot.backoff = MIN_BACKOFF;
        }
        let again = if restart {
            let until = now + slot.backoff;
            slot.backoff = (slot.backoff * 2).min(MAX_BACKOFF);
            slot.state = State::RestartPending(until);
            Some(until)
        } else {
            running.stop.filter(|stop| stop.then_start).map(|_| now)
        };
        let end = slot.outcome.end.unwrap_or(ProgramEnd::Stopped);
        self.events.push(ProgramEvent::Ended { program: id, end, as_expected, again });
        if never_ready && !restart {
            let error = Error::EndedBeforeReady {
                program: slot.program.name.clone(),
                condition: readiness::describe(slot.program.ready.as_ref()),
                exit,
                stderr: outcome::last_lines(&slot.output.join("stderr")),
            };
            self.events.push(ProgramEvent::Failed(id, error));
        } else if running.stop.is_some_and(|stop| stop.then_start) {
            self.begin(id, now);
        }
    }
}

/// The program with the lab's environment variables; its own have priority.
fn with_facts(program: &Program, facts: &LabFacts<'_>) -> Program {
    let mut program = program.clone();
    for (name, value) in facts.variables() {
        let value = value.to_string_lossy().into_owned();
        program.env.entry(name.to_owned()).or_insert(value);
    }
    program
}

impl Slot {
    fn pids(&self) -> Vec<u32> {
        match &self.state {
            State::Running(running) => {
                let check = running.watch.as_ref().and_then(Watch::pid);
                [Some(running.instance.pid()), check].into_iter().flatten().collect()
            }
            _ => Vec::new(),
        }
    }
}
