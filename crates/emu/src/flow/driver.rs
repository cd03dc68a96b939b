//! The thread of all flows: waits for sockets and deadlines, hands out turns, cuts samples.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use base::{FlowId, Span, Time};
use lab::plan::{MultipathKind, Traffic};
use outcome::{Course, FlowResult, Outcome, Tally};
use sys::clock;
use sys::socket::{Interest, Ready, ReadyQueue};

use super::bulk::Bulk;
use super::mctcp::{self, Sessions};
use super::mptcp::PathManagers;
use super::paced::Paced;
use super::queries::Queries;
use super::requests::Requests;
use super::rpc::Rpc;
use super::traffic::{CHUNK, Endpoints, Progress, Scope};
use super::transfers::Transfers;
use super::{FlowOptions, FlowSink, Observation, Placed};

/// What the lab asks of the flows' thread.
#[derive(Debug)]
pub(super) enum Command {
    Start(FlowId),
    Stop(FlowId),
    Finish,
}

/// Token of the descriptor that announces commands.
const COMMANDS: u64 = u64::MAX;

enum Phase {
    /// Its start is ahead.
    Waiting,
    Running(Box<dyn Endpoints>),
    Ended,
}

/// A flow and all that is known of it.
struct Slot {
    placed: Placed,
    phase: Phase,
    tally: Tally,
    outcome: Outcome,
    /// Counts its runs, so that an old socket's events are not taken for a new one's.
    generation: u16,
    started: Option<Time>,
    /// Start of the present or last run.
    run_started: Time,
    expires: Option<Time>,
    ended: Option<Time>,
    active: Span,
    completion: Option<Span>,
    /// Its deadline in the heap.
    scheduled: Option<Time>,
    /// It ran at some time since the last sample.
    touched: bool,
}

impl Slot {
    fn new(placed: Placed) -> Self {
        Self {
            placed,
            phase: Phase::Waiting,
            tally: Tally::default(),
            outcome: Outcome::NotStarted,
            generation: 0,
            started: None,
            run_started: Time::ZERO,
            expires: None,
            ended: None,
            active: Span::ZERO,
            completion: None,
            scheduled: None,
            touched: false,
        }
    }

    /// Whether it has an end of its own that has not come.
    fn is_pending(&self) -> bool {
        !matches!(self.phase, Phase::Ended) && self.placed.flow.is_finite()
    }

    fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Waiting => Some(self.placed.flow.start),
            Phase::Running(endpoints) => {
                [endpoints.deadline(), self.expires].into_iter().flatten().min()
            }
            Phase::Ended => None,
        }
    }
}

/// What all flows use.
struct Shared {
    queue: ReadyQueue,
    options: FlowOptions,
    sink: FlowSink,
    payload: Vec<u8>,
    scratch: Vec<u8>,
    paths: PathManagers,
    sessions: Sessions,
}

impl Shared {
    fn scope<'a>(&'a mut self, base: u64, tally: &'a mut Tally) -> Scope<'a> {
        Scope {
            queue: &self.queue,
            base,
            tally,
            payload: &self.payload,
            scratch: &mut self.scratch,
            paths: &mut self.paths,
            sessions: &mut self.sessions,
            origin: self.options.origin,
            seed: self.options.seed,
            sink: &mut self.sink,
        }
    }
}

/// All flows, and what drives them.
pub(super) struct Driver {
    slots: Vec<Slot>,
    shared: Shared,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    inbox: Receiver<Command>,
    waker: Arc<OwnedFd>,
    pending: Arc<AtomicUsize>,
    last_sample: Time,
    next_sample: Time,
}

impl Driver {
    pub(super) fn try_new(
        flows: Vec<Placed>,
        options: FlowOptions,
        sink: FlowSink,
        inbox: Receiver<Command>,
        waker: Arc<OwnedFd>,
        pending: Arc<AtomicUsize>,
    ) -> sys::Result<Self> {
        let queue = ReadyQueue::try_new()?;
        queue.add(waker.as_fd(), COMMANDS, Interest::Read)?;
        let mut this = Self {
            slots: flows.into_iter().map(Slot::new).collect(),
            shared: Shared {
                queue,
                options,
                sink,
                payload: vec![0; CHUNK],
                scratch: vec![0; CHUNK],
                paths: PathManagers::default(),
                sessions: Sessions::default(),
            },
            timers: BinaryHeap::new(),
            inbox,
            waker,
            pending,
            last_sample: Time::ZERO,
            next_sample: Time::ZERO + options.interval,
        };
        this.count_pending();
        for index in 0..this.slots.len() {
            this.schedule(index);
        }
        Ok(this)
    }

    /// Drives all flows until told to finish.
    pub(super) fn run(mut self) -> Vec<FlowResult> {
        // Without it deadlines come 50 µs late; where it is denied they do.
        let _ = sys::sched::set_timer_slack(1);
        let mut ready = Vec::new();
        loop {
            // Before the origin, only commands are waited for.
            let ahead = self.shared.options.origin.saturating_sub(clock::monotonic());
            let wait = if ahead > 0 { ahead } else { self.until_next() };
            self.shared
                .queue
                .wait(Some(wait), &mut ready)
                .expect("the queue and its event buffer are valid as long as we are");
            let mut finish = false;
            for Ready { token, readiness } in ready.drain(..) {
                if token == COMMANDS {
                    finish |= self.obey();
                    continue;
                }
                if self.shared.paths.obey(token) {
                    continue;
                }
                let index = (token >> 32) as usize;
                if self.slots[index].generation == (token >> 16) as u16 {
                    self.call(index, |endpoints, scope| {
                        endpoints.on_ready(scope, (token & 0xffff) as u32, readiness)
                    });
                }
            }
            if finish {
                return self.finish();
            }
            if clock::monotonic() >= self.shared.options.origin {
                self.fire_timers();
                self.sample_if_due();
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_nanos(clock::monotonic().saturating_sub(self.shared.options.origin))
    }

    fn until_next(&self) -> u64 {
        let timer = self.timers.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
        timer.min(self.next_sample).since(self.now()).as_nanos()
    }

    /// Carries out commands; whether the last of them was to finish.
    fn obey(&mut self) -> bool {
        let mut counter = [0; 8];
        // Nothing to read means that the announcement was taken together with an earlier one.
        let _ = rustix::io::read(&*self.waker, &mut counter);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Start(flow) => {
                    for index in self.positions(flow) {
                        if !matches!(self.slots[index].phase, Phase::Running(_)) {
                            self.open(index);
                        }
                    }
                }
                Command::Stop(flow) => {
                    for index in self.positions(flow) {
                        let now = self.now();
                        self.end(index, now, Outcome::Stopped);
                    }
                }
                Command::Finish => return true,
            }
        }
        false
    }

    fn positions(&self, flow: FlowId) -> Vec<usize> {
        (0..self.slots.len()).filter(|index| self.slots[*index].placed.id == flow).collect()
    }

    fn fire_timers(&mut self) {
        let now = self.now();
        let mut due = Vec::new();
        while let Some(Reverse((at, index))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            // Only the entry that was made last counts.
            if self.slots[index].scheduled == Some(at) {
                self.slots[index].scheduled = None;
                due.push(index);
            }
        }
        for index in due {
            self.wake(index, now);
        }
    }

    fn wake(&mut self, index: usize, now: Time) {
        match &self.slots[index].phase {
            Phase::Waiting => self.open(index),
            Phase::Running(_) => {
                if self.slots[index].expires.is_some_and(|at| at <= now) {
                    self.slots[index].expires = None;
                    self.call(index, |endpoints, scope| Ok(endpoints.expire(scope)));
                } else {
                    self.call(index, |endpoints, scope| endpoints.on_wake(scope));
                }
            }
            Phase::Ended => {}
        }
    }

    /// Puts the flow's deadline into the heap.
    fn schedule(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let deadline = slot.deadline();
        if slot.scheduled != deadline {
            slot.scheduled = deadline;
            if let Some(at) = deadline {
                self.timers.push(Reverse((at, index)));
            }
        }
    }

    /// Makes the sockets of a flow.
    fn open(&mut self, index: usize) {
        let now = self.now();
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.started = slot.started.or(Some(now));
        slot.run_started = now;
        slot.expires = slot.placed.flow.duration.map(|duration| now + duration);
        slot.completion = None;
        slot.touched = true;
        let mut scope = self.shared.scope(base(index, slot.generation), &mut slot.tally);
        let multipath = slot.placed.flow.multipath().map(|multipath| multipath.kind);
        let is_mctcp = multipath == Some(MultipathKind::Mctcp);
        let placed = &slot.placed;
        let opened: sys::Result<Box<dyn Endpoints>> = match &placed.flow.traffic {
            Traffic::Bulk { .. } if is_mctcp => boxed(mctcp::Bulk::open(placed, &mut scope)),
            Traffic::Transfers { .. } if is_mctcp => {
                boxed(mctcp::Transfers::open(placed, &mut scope))
            }
            Traffic::Rpc { .. } if is_mctcp => boxed(mctcp::Rpc::open(placed, &mut scope)),
            Traffic::Bulk { .. } => boxed(Bulk::open(placed, &mut scope)),
            Traffic::Paced { .. } => boxed(Paced::open(placed, &scope)),
            Traffic::Transfers { .. } => boxed(Transfers::open(placed, &mut scope)),
            Traffic::Controlled { .. } => unreachable!("refused before the engine starts"),
            Traffic::Requests { .. } => boxed(Requests::open(placed, &scope)),
            Traffic::Queries { .. } => boxed(Queries::open(placed, &scope)),
            Traffic::Rpc { .. } => boxed(Rpc::open(placed, &mut scope)),
        };
        match opened {
            Ok(endpoints) => slot.phase = Phase::Running(endpoints),
            Err(error) => {
                slot.phase = Phase::Ended;
                slot.ended = Some(now);
                slot.outcome = Outcome::Failed(error.to_string());
            }
        }
        self.count_pending();
        self.schedule(index);
    }

    /// Gives a running flow its turn and deals with what comes of it.
    fn call(
        &mut self,
        index: usize,
        turn: impl FnOnce(&mut dyn Endpoints, &mut Scope<'_>) -> sys::Result<Progress>,
    ) {
        let slot = &mut self.slots[index];
        let Phase::Running(endpoints) = &mut slot.phase else { return };
        let mut scope = self.shared.scope(base(index, slot.generation), &mut slot.tally);
        match turn(endpoints.as_mut(), &mut scope) {
            Ok(Progress::Going) => self.schedule(index),
            Ok(Progress::Done(at)) => {
                slot.completion = Some(at.since(slot.run_started));
                self.end(index, at, Outcome::Completed);
            }
            Ok(Progress::Cut(at)) => self.end(index, at, Outcome::Expired),
            Ok(Progress::Damaged(damage)) => {
                let now = self.now();
                self.end(index, now, Outcome::Failed(damage.to_string()));
            }
            Err(error) => {
                let now = self.now();
                self.end(index, now, Outcome::Failed(error.to_string()));
            }
        }
    }

    /// Closes a flow's sockets. A flow that has not started yet will not.
    fn end(&mut self, index: usize, at: Time, outcome: Outcome) {
        let slot = &mut self.slots[index];
        match std::mem::replace(&mut slot.phase, Phase::Ended) {
            Phase::Running(mut endpoints) => {
                let base = base(index, slot.generation);
                endpoints.close(&mut self.shared.scope(base, &mut slot.tally));
                endpoints.observe(&mut slot.tally);
                slot.tally.end_waiting(at);
                slot.tally.record_rtt();
                slot.tally.close_run();
                slot.active += at.since(slot.run_started);
                slot.ended = Some(at);
                slot.outcome = outcome;
            }
            Phase::Waiting | Phase::Ended => {}
        }
        slot.expires = None;
        self.count_pending();
        self.schedule(index);
    }

    fn count_pending(&self) {
        let count = self.slots.iter().filter(|slot| slot.is_pending()).count();
        self.pending.store(count, Ordering::Release);
    }

    fn sample_if_due(&mut self) {
        let now = self.now();
        if now < self.next_sample {
            return;
        }
        self.sample(now);
        // Samples that were missed altogether are not made up for: the next one is longer.
        while self.next_sample <= now {
            self.next_sample += self.shared.options.interval.max(Span::from_millis(1));
        }
    }

    fn sample(&mut self, now: Time) {
        let interval = now.since(self.last_sample);
        if !interval.is_positive() {
            return;
        }
        for slot in &mut self.slots {
            let running = matches!(slot.phase, Phase::Running(_));
            if let Phase::Running(endpoints) = &mut slot.phase {
                endpoints.observe(&mut slot.tally);
            }
            if !running && !slot.touched {
                continue;
            }
            slot.touched = running;
            let flow = &slot.placed.flow;
            let sample = slot.tally.cut(now, interval, slot.placed.id, &flow.traffic);
            if running && slot.run_started <= self.last_sample {
                slot.tally.record_goodput(&sample);
            }
            (self.shared.sink)(Observation::Sample(Box::new(sample)));
            for sample in slot.tally.cut_subflows(now, interval, slot.placed.id) {
                (self.shared.sink)(Observation::Subflow(sample));
            }
        }
        self.last_sample = now;
    }

    fn finish(mut self) -> Vec<FlowResult> {
        let now = self.now();
        for index in 0..self.slots.len() {
            self.end(index, now, Outcome::Stopped);
        }
        self.sample(now);
        self.slots.into_iter().map(result).collect()
    }
}

fn boxed<E: Endpoints + 'static>(opened: sys::Result<E>) -> sys::Result<Box<dyn Endpoints>> {
    opened.map(|endpoints| Box::new(endpoints) as _)
}

/// Token of socket 0 of a flow: flow, generation, socket.
fn base(index: usize, generation: u16) -> u64 {
    (index as u64) << 32 | u64::from(generation) << 16
}

fn result(slot: Slot) -> FlowResult {
    let course = Course {
        outcome: slot.outcome,
        started: slot.started,
        ended: slot.ended,
        active: slot.active,
        completion: slot.completion,
    };
    let flow = &slot.placed.flow;
    slot.tally.into_result(slot.placed.id, flow.name.clone(), &flow.traffic, course)
}
