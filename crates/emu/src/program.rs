//! The real programs of a lab: started in their node's namespace once what they wait for is
//! ready, started again when they fail, and ended with all their descendants.
//!
//! Each program runs under a small init in a process namespace of its own, so that nothing it
//! forks can outlive it. The init is this executable, started again: `main` must call
//! [`init_main`] before anything else.

mod instance;
mod outcome;
mod output;
mod readiness;

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::{NodeId, ProgramId, Span, Time};
use cluster::control::ProgramChange;
use lab::plan::{Plan, Program, Restart};
use record::RunFolder;
use record::run::ProgramEnd;
use sys::process::{self, ProgramSetup, Signal};

use crate::enclosure::Enclosure;
use crate::oom::OomKills;
use crate::{Error, Result};
use instance::Instance;
pub use outcome::ProgramOutcome;
use output::Collector;
use readiness::Watch;

/// The argument that makes this executable a program's init.
const INIT: &str = "lab-init";

/// Back-off of a program that fails again and again.
const FIRST_BACKOFF: Span = Span::from_millis(100);
const LONGEST_BACKOFF: Span = Span::from_secs(10);

/// The status of a program that SIGKILL ended, or of a shell whose command it ended.
const KILLED: i32 = 137;

/// Becomes a program's init where this process was started as one, and then does not return.
pub fn init_main() {
    let mut arguments = std::env::args_os().skip(1);
    if std::process::id() != 1 || arguments.next().as_deref() != Some(OsStr::new(INIT)) {
        return;
    }
    let code =
        ProgramSetup::from_arguments(arguments).map_or(64, |setup| process::run_init(&setup));
    std::process::exit(code)
}

/// Something that a program did.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProgramEvent {
    /// It started.
    Started(ProgramId),
    /// It is ready.
    Ready(ProgramId),
    /// It ended, by itself or because it was told to.
    Ended {
        /// Which.
        program: ProgramId,
        /// How.
        end: ProgramEnd,
        /// Whether the lab expects such an end.
        as_expected: bool,
        /// When it will be started again, if it will.
        again: Option<Time>,
    },
    /// It has reached the limit of its output: the rest is discarded.
    OutputLimit(ProgramId),
    /// It could not be started, did not become ready, or its output could not be written: the lab
    /// cannot go on as planned.
    Failed(ProgramId, Error),
}

/// What a program is doing.
#[derive(Debug)]
enum State {
    /// Its time, or what it waits for, has not come.
    Waiting,
    /// It runs.
    Running(Box<Running>),
    /// It will be started again then.
    Resting(Time),
    /// It ran, or is not to run.
    Over,
    /// Another member of the lab runs it.
    Elsewhere,
}

#[derive(Debug)]
struct Running {
    instance: Instance,
    since: Time,
    /// `None` when it is ready, or need not become so.
    watch: Option<Watch>,
    stop: Option<Stop>,
}

/// A program was told to end.
#[derive(Clone, Copy, Debug)]
struct Stop {
    kill_at: Time,
    killed: bool,
    /// It was told to start again meanwhile.
    then_start: bool,
}

#[derive(Debug)]
struct Slot {
    program: Program,
    host: String,
    /// The namespace of its node; `None` where that is elsewhere.
    net: Option<Rc<OwnedFd>>,
    dir: PathBuf,
    output: PathBuf,
    state: State,
    backoff: Span,
    outcome: ProgramOutcome,
    /// Its output has reached the limit.
    limited: bool,
}

/// All programs of a lab. Sans timer: whoever owns it calls [`Supervisor::step`] when a
/// descriptor of [`Supervisor::files`] is readable or [`Supervisor::next_wake`] has come.
#[derive(Debug)]
pub struct Supervisor {
    slots: Vec<Slot>,
    events: Vec<ProgramEvent>,
    collector: Collector,
    oom_kills: OomKills,
    /// Programs that ended by one of these kills.
    oom_ends: u64,
}

impl Supervisor {
    /// The programs of `plan`, none of them started. Their output goes to `folder`; relative
    /// working directories start at `base`, which is also the default one. Programs of nodes that
    /// are not `here` are another member's.
    ///
    /// # Errors
    /// When a folder for output cannot be made, or a program's node has no namespace.
    pub fn new(
        plan: &Plan,
        enclosure: &Enclosure,
        folder: &RunFolder,
        base: &Path,
        here: impl Fn(NodeId) -> bool,
    ) -> Result<Self> {
        let mut nets: Vec<(NodeId, Rc<OwnedFd>)> = Vec::new();
        let mut slots = Vec::with_capacity(plan.programs.len());
        for program in &plan.programs {
            let node = &plan.nodes[program.node.index()];
            let known = nets.iter().find(|(id, _)| *id == program.node);
            let is_here = here(program.node);
            let net = if !is_here {
                None
            } else if let Some((_, net)) = known {
                Some(Rc::clone(net))
            } else {
                let without = || Error::NoNamespace { node: node.name.clone() };
                let host = enclosure.host(program.node).ok_or_else(without)?;
                let copy = host.netns.try_clone().map_err(|cause| Error::Node {
                    node: node.name.clone(),
                    cause: sys::Error::Call { call: "dup", cause },
                })?;
                nets.push((program.node, Rc::new(copy)));
                Some(Rc::clone(&nets[nets.len() - 1].1))
            };
            let output = if is_here { folder.program(&program.name)? } else { PathBuf::new() };
            slots.push(Slot {
                host: node.name.clone(),
                net,
                dir: program.dir.as_ref().map_or_else(|| base.to_owned(), |dir| base.join(dir)),
                output,
                state: if is_here { State::Waiting } else { State::Elsewhere },
                backoff: FIRST_BACKOFF,
                outcome: ProgramOutcome::default(),
                limited: false,
                program: program.clone(),
            });
        }
        let limits = plan.programs.iter().map(|program| program.output.count());
        let (collector, oom_kills) = (Collector::start(limits)?, OomKills::watch());
        Ok(Self { slots, events: Vec::new(), collector, oom_kills, oom_ends: 0 })
    }

    /// Does what is due at `now`, and tells what happened since the last step.
    pub fn step(&mut self, now: Time) -> Vec<ProgramEvent> {
        for at in 0..self.slots.len() {
            self.advance(ProgramId::at(at), now);
        }
        // A program that became ready lets others start at once, whatever their order.
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

    /// Bytes of a program's output that were beyond its limit.
    pub fn discarded_output(&self, program: ProgramId) -> u64 {
        self.collector.discarded(program.index())
    }

    /// How many processes the kernel has ended for want of memory, in the lab's control group or,
    /// where there is none, on the machine.
    pub fn oom_kills(&self) -> u64 {
        self.oom_kills.count()
    }

    /// When [`Supervisor::step`] has something to do though no descriptor says so.
    pub fn next_wake(&self) -> Option<Time> {
        let wakes = self.slots.iter().filter_map(|slot| match &slot.state {
            State::Waiting => self.are_ready(&slot.program.after).then_some(slot.program.start),
            State::Resting(until) => Some(*until),
            State::Over | State::Elsewhere => None,
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

    /// Tells a program and its descendants to end, and ends them after its grace time.
    pub fn stop(&mut self, program: ProgramId, now: Time) {
        let slot = &mut self.slots[program.index()];
        let kill_at = now + slot.program.grace;
        match &mut slot.state {
            State::Running(running) if running.stop.is_none() => {
                running.stop = Some(Stop { kill_at, killed: false, then_start: false });
                running.instance.signal(Signal::TERM);
            }
            State::Running(running) => {
                // It is ending already, and is not to start again.
                running.stop = running.stop.map(|stop| Stop { then_start: false, ..stop });
            }
            State::Waiting | State::Resting(_) => slot.state = State::Over,
            State::Over | State::Elsewhere => {}
        }
    }

    /// Ends a program and its descendants at once.
    pub fn kill(&mut self, program: ProgramId, now: Time) {
        let slot = &mut self.slots[program.index()];
        match &mut slot.state {
            State::Running(running) => {
                running.stop = Some(Stop { kill_at: now, killed: true, then_start: false });
                running.instance.signal(Signal::KILL);
            }
            State::Waiting | State::Resting(_) | State::Over => slot.state = State::Over,
            State::Elsewhere => {}
        }
    }

    /// Starts a program that has not started, has ended, or is ending (then: once it has).
    pub fn start(&mut self, program: ProgramId, now: Time) {
        match &mut self.slots[program.index()].state {
            State::Running(running) => {
                running.stop = running.stop.map(|stop| Stop { then_start: true, ..stop });
            }
            State::Waiting | State::Resting(_) | State::Over => self.begin(program, now),
            State::Elsewhere => {}
        }
    }

    /// Something has happened to a program of another member, which programs here may wait for.
    pub fn hear(&mut self, program: ProgramId, change: ProgramChange, at: Time) {
        let Some(slot) = self.slots.get_mut(program.index()) else { return };
        if !matches!(slot.state, State::Elsewhere) {
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

    /// Whether a program is run here, and not by another member of the lab.
    pub fn is_here(&self, program: ProgramId) -> bool {
        !matches!(self.slots[program.index()].state, State::Elsewhere)
    }

    /// Tells all programs to end; none is started any more.
    pub fn shutdown(&mut self, now: Time) {
        for at in 0..self.slots.len() {
            self.stop(ProgramId::at(at), now);
        }
    }

    /// Whether nothing runs here and nothing will by itself.
    pub fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.state, State::Over | State::Elsewhere))
    }

    /// Whether every program here that is not a service has ended for good.
    pub fn is_work_over(&self) -> bool {
        let over = |slot: &Slot| {
            slot.program.service || matches!(slot.state, State::Over | State::Elsewhere)
        };
        self.slots.iter().all(over)
    }

    /// How a program fared so far.
    pub fn outcome(&self, program: ProgramId) -> &ProgramOutcome {
        &self.slots[program.index()].outcome
    }

    /// The last lines that a program wrote to standard error.
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
            State::Resting(until) => until <= now,
            State::Running(_) | State::Over | State::Elsewhere => false,
        };
        if due {
            self.begin(id, now);
        }
    }

    fn begin(&mut self, id: ProgramId, now: Time) {
        let slot = &mut self.slots[id.index()];
        let Some(net) = &slot.net else { return };
        match Instance::start(id, slot, net, &self.collector) {
            Ok(instance) => {
                slot.outcome.begin(now);
                let watch = slot.program.ready.as_ref();
                let watch = watch.map(|ready| Watch::new(ready, &slot.program, now, &slot.dir));
                slot.state =
                    State::Running(Box::new(Running { instance, since: now, watch, stop: None }));
                self.events.push(ProgramEvent::Started(id));
            }
            Err(error) => {
                slot.state = State::Over;
                slot.outcome.as_expected = false;
                self.events.push(ProgramEvent::Failed(id, error));
            }
        }
    }

    /// Moves one running program on.
    fn advance(&mut self, id: ProgramId, now: Time) {
        let slot = &mut self.slots[id.index()];
        let State::Running(running) = &mut slot.state else { return };
        if let Some(end) = running.instance.poll() {
            running.instance.streams.iter().for_each(|key| self.collector.finish(*key));
            if running.watch.as_mut().is_some_and(|watch| watch.was_ready(&running.instance)) {
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
        let ready = slot
            .net
            .as_deref()
            .is_some_and(|net| watch.is_ready(now, &running.instance, net, &slot.host));
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
        let before = std::mem::replace(&mut slot.state, State::Over);
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
        if !stopped && exit.code() == KILLED && self.oom_kills.count() > self.oom_ends {
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
        if now.since(running.since) >= LONGEST_BACKOFF {
            slot.backoff = FIRST_BACKOFF;
        }
        let again = if restart {
            let until = now + slot.backoff;
            slot.backoff = (slot.backoff * 2).min(LONGEST_BACKOFF);
            slot.state = State::Resting(until);
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
