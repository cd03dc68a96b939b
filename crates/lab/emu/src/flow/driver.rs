//! The flow thread: waits for sockets and deadlines, calls flows, takes samples.

mod cpu;
mod slot;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use base::{FlowId, Span, Time};
use cpu::CpuWaits;
use lab::plan::{MultipathKind, Traffic};
use run::{FlowCounters, FlowEnds, FlowLifetime, FlowResult, Outcome};
use slot::{Phase, Slot};
use sys::socket::{Interest, Ready, ReadyQueue};
use workload::{BulkFlow, RequestsFlow, RpcFlow, TransfersFlow};

use super::bulk::Bulk;
use super::mctcp::{self, Sessions};
use super::mptcp::PathManagers;
use super::paced::Paced;
use super::queries::Queries;
use super::rendezvous::{RECEIVER_SLOT, Rendezvous};
use super::streams::Streams;
use super::traffic::{CHUNK_BYTES, Endpoints, Progress, Scope};
use super::{FlowOptions, FlowResults, FlowSink, Observation, Placed};

/// Commands to the flow thread.
#[derive(Debug)]
pub(super) enum Command {
    Start(FlowId),
    Stop(FlowId),
    AgentLost(FlowId),
    AgentRestored(FlowId),
    Finish,
}

/// Token of the descriptor that signals commands.
const COMMAND_TOKEN: u64 = u64::MAX;

/// Time between the failure of a flow's end on another agent and the failure of the flow, since the
/// lab's schedule may end the flow here a little later.
const SPLIT_FAILURE_DELAY: Span = Span::from_secs(2);

/// Shortest time between two readings of a flow's RTT. A percentile of a hundred readings is one of
/// the two largest, which one stall of the host changes.
const RTT_INTERVAL: Span = Span::from_millis(10);

/// Maximum delay with which a flow is opened and still begins its schedule at its planned start.
const MAX_LATE_START: Span = Span::from_millis(100);

/// Minimum pause between readings of RTTs, as a multiple of a reading's duration: 2 % of a CPU.
const RTT_PAUSE_FACTOR: u64 = 50;

/// Time after which a flow fails if the agent of its other end is lost.
const LOST_AGENT_TIMEOUT: Span = Span::from_secs(10);

/// State shared by all flows.
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
    fn scope<'a>(&'a mut self, base: u64, counters: &'a mut FlowCounters) -> Scope<'a> {
        Scope {
            queue: &self.queue,
            base,
            counters,
            payload: &self.payload,
            scratch: &mut self.scratch,
            paths: &mut self.paths,
            sessions: &mut self.sessions,
            opening: None,
            clock: &self.options.clock,
            seed: self.options.seed,
            sink: &mut self.sink,
        }
    }
}

/// All flows, and the event queue that drives them.
pub(super) struct Driver {
    slots: Vec<Slot>,
    shared: Shared,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    inbox: Receiver<Command>,
    waker: Arc<OwnedFd>,
    pending: Arc<AtomicUsize>,
    last_sample: Time,
    next_sample: Time,
    /// The next reading of RTTs, `Time::MAX` while no flow is active.
    next_rtt: Time,
    waits: CpuWaits,
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
        let first = Time::ZERO + options.interval;
        let queue = ReadyQueue::try_new()?;
        let waits = options.waits.as_ref().map(|(waits, _)| Arc::clone(&waits.flows));
        queue.add(waker.as_fd(), COMMAND_TOKEN, Interest::Read)?;
        let mut this = Self {
            slots: flows.into_iter().map(|flow| Slot::new(flow, &options)).collect(),
            shared: Shared {
                queue,
                options,
                sink,
                payload: vec![0; CHUNK_BYTES],
                scratch: vec![0; CHUNK_BYTES],
                paths: PathManagers::default(),
                sessions: Sessions::default(),
            },
            timers: BinaryHeap::new(),
            inbox,
            waker,
            pending,
            last_sample: Time::ZERO,
            next_sample: first,
            next_rtt: Time::MAX,
            waits: CpuWaits::new(waits.unwrap_or_default()),
        };
        this.count_pending();
        for index in 0..this.slots.len() {
            this.schedule(index);
        }
        Ok(this)
    }

    /// Drives all flows until the command `Finish`.
    pub(super) fn run(mut self) -> FlowResults {
        // The default timer slack of 50 µs would delay deadlines.
        let _ = sys::sched::set_timer_slack(1);
        self.waits.start(self.now());
        for index in 0..self.slots.len() {
            self.prepare(index);
        }
        let mut ready = Vec::new();
        loop {
            // Before the origin only commands are handled.
            let ahead = self.shared.options.clock.until_start().as_nanos();
            let now = self.now();
            let wait = if ahead > 0 { ahead } else { self.until_next(now) };
            self.shared
                .queue
                .wait(Some(wait), &mut ready)
                .expect("the queue and its event buffer are valid as long as we are");
            self.waits.observe(self.now(), now + Span::from_nanos(wait), ready.len());
            let mut finish = false;
            for Ready { token, readiness } in ready.drain(..) {
                if token == COMMAND_TOKEN {
                    finish |= self.handle_commands();
                    continue;
                }
                if self.shared.paths.handle_token(token) {
                    continue;
                }
                let (index, run) = ((token >> 32) as usize, (token >> 16) as u16);
                if self.slots[index].generation.wrapping_add(1) == run {
                    // The sender has begun the next run.
                    let now = self.now();
                    self.end(index, now, Outcome::Completed);
                    self.open(index, now);
                } else if self.slots[index].generation == run {
                    self.call(index, |endpoints, scope| {
                        endpoints.on_ready(scope, (token & 0xffff) as u32, readiness)
                    });
                }
            }
            if finish {
                return self.finish();
            }
            if !self.shared.options.clock.until_start().is_positive() {
                self.fire_timers();
                self.sample_if_due();
                self.read_rtts_if_due();
            }
        }
    }

    fn now(&self) -> Time {
        self.shared.options.clock.now()
    }

    fn until_next(&self, now: Time) -> u64 {
        let timer = self.timers.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
        timer.min(self.next_sample).min(self.next_rtt).since(now).as_nanos()
    }

    /// Handles commands; returns whether the last one was `Finish`.
    fn handle_commands(&mut self) -> bool {
        let mut counter = [0; 8];
        // Not readable if the signal was read together with an earlier one.
        let _ = rustix::io::read(&*self.waker, &mut counter);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Start(flow) => {
                    for index in self.positions(flow) {
                        if !matches!(self.slots[index].phase, Phase::Running(_)) {
                            self.open(index, self.now());
                        }
                    }
                }
                Command::Stop(flow) => {
                    for index in self.positions(flow) {
                        let now = self.now();
                        self.end(index, now, Outcome::Stopped);
                    }
                }
                Command::AgentLost(flow) => {
                    for index in self.positions(flow) {
                        self.on_agent_lost(index);
                    }
                }
                Command::AgentRestored(flow) => {
                    for index in self.positions(flow) {
                        self.slots[index].fails_at = None;
                        self.schedule(index);
                    }
                }
                Command::Finish => return true,
            }
        }
        false
    }

    /// Handles the loss of the agent with the flow's other end, which may return.
    fn on_agent_lost(&mut self, index: usize) {
        let fails_at = self.now() + LOST_AGENT_TIMEOUT;
        let slot = &mut self.slots[index];
        if slot.placed.is_split() {
            slot.fails_at.get_or_insert(fails_at);
            self.schedule(index);
        }
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
            // Earlier entries of the slot are obsolete.
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
        if self.slots[index].fails_at.is_some_and(|at| at <= now) {
            return self.end(index, now, lost_agent_outcome());
        }
        match &self.slots[index].phase {
            Phase::Waiting => {
                let start = self.slots[index].placed.flow.start;
                let is_late = now.since(start) > MAX_LATE_START;
                self.open(index, if is_late { now } else { start });
            }
            Phase::Running(_) => {
                if self.slots[index].expires.is_some_and(|at| at <= now) {
                    self.slots[index].expires = None;
                    self.call(index, |endpoints, scope| endpoints.expire(scope));
                } else {
                    self.call(index, |endpoints, scope| endpoints.on_wake(scope));
                }
            }
            Phase::Failing { error, until } => {
                let expired = self.slots[index].expires.is_some_and(|at| at <= now);
                let failed = (*until <= now).then(|| Outcome::Failed(error.clone()));
                if let Some(outcome) = failed.or(expired.then_some(Outcome::Expired)) {
                    self.end(index, now, outcome);
                }
            }
            Phase::Ended(_) => {}
        }
    }

    /// Opens the receiver for the next run of a flow whose sender is on another agent.
    fn prepare(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.placed.local_ends() == FlowEnds::Accepting {
            let run = slot.generation.wrapping_add(1);
            slot.next_rendezvous =
                Some(self.shared.open_rendezvous(&slot.placed, token_base(index, run), run));
        }
    }

    /// Adds the flow's deadline to the heap.
    fn schedule(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let deadline = slot.next_wake();
        if slot.scheduled != deadline {
            slot.scheduled = deadline;
            if let Some(at) = deadline {
                self.timers.push(Reverse((at, index)));
            }
        }
    }

    /// Opens the sockets of a flow's run, which starts at `now`.
    fn open(&mut self, index: usize, now: Time) {
        let slot = &mut self.slots[index];
        // Drops the remains of an earlier run.
        slot.phase = Phase::Ended(None);
        slot.generation = slot.generation.wrapping_add(1);
        slot.started = slot.started.or(Some(now));
        slot.run_started = now;
        slot.expires = slot.placed.flow.duration.map(|duration| now + duration);
        slot.completion = None;
        slot.touched = true;
        let (base, run) = (token_base(index, slot.generation), slot.generation);
        let rendezvous = slot.next_rendezvous.take();
        let rendezvous =
            rendezvous.unwrap_or_else(|| self.shared.open_rendezvous(&slot.placed, base, run));
        let mut scope = self.shared.scope(base, &mut slot.counters);
        scope.opening = Some(now);
        let opened =
            rendezvous.and_then(|rendezvous| endpoints(&slot.placed, rendezvous, &mut scope));
        match opened {
            Ok(endpoints) => {
                slot.phase = Phase::Running(endpoints);
                self.next_rtt = self.next_rtt.min(now + RTT_INTERVAL);
            }
            Err(error) => {
                slot.ended = Some(now);
                slot.outcome = Outcome::Failed(error.to_string());
            }
        }
        self.prepare(index);
        self.count_pending();
        self.schedule(index);
    }

    /// Calls an active flow and applies the result.
    fn call(
        &mut self,
        index: usize,
        turn: impl FnOnce(&mut dyn Endpoints, &mut Scope<'_>) -> sys::Result<Progress>,
    ) {
        let slot = &mut self.slots[index];
        let (Phase::Running(endpoints) | Phase::Ended(Some(endpoints))) = &mut slot.phase else {
            return;
        };
        let mut scope = self.shared.scope(token_base(index, slot.generation), &mut slot.counters);
        let progress = turn(endpoints.as_mut(), &mut scope);
        if matches!(slot.phase, Phase::Ended(_)) {
            if progress.is_err() {
                slot.phase = Phase::Ended(None);
            }
            return;
        }
        match progress {
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
            Err(error) if self.slots[index].placed.is_split() => {
                let now = self.now();
                self.fail(index, now, error.to_string());
            }
            Err(error) => {
                let now = self.now();
                self.end(index, now, Outcome::Failed(error.to_string()));
            }
        }
    }

    /// Handles a failure of the other end on another agent.
    fn fail(&mut self, index: usize, now: Time, error: String) {
        let slot = &mut self.slots[index];
        slot.close(&mut self.shared, token_base(index, slot.generation), now);
        slot.phase = Phase::Failing { error, until: now + SPLIT_FAILURE_DELAY };
        self.schedule(index);
    }

    /// Ends a flow and closes its sockets. A flow that has not started will not start.
    fn end(&mut self, index: usize, at: Time, outcome: Outcome) {
        let slot = &mut self.slots[index];
        match &slot.phase {
            Phase::Running(_) => {
                slot.close(&mut self.shared, token_base(index, slot.generation), at);
                slot.outcome = outcome;
            }
            Phase::Failing { .. } => {
                slot.phase = Phase::Ended(None);
                slot.outcome = outcome;
            }
            Phase::Waiting => slot.phase = Phase::Ended(None),
            Phase::Ended(_) => {}
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
        // Missed samples are not repeated: the next one covers a longer interval.
        while self.next_sample <= now {
            self.next_sample += self.shared.options.interval.max(Span::from_millis(1));
        }
    }

    /// Records the RTTs of active flows, more often than samples are taken.
    fn read_rtts_if_due(&mut self) {
        let now = self.now();
        if now < self.next_rtt {
            return;
        }
        let mut active = false;
        for slot in &mut self.slots {
            if let Phase::Running(endpoints) = &mut slot.phase {
                endpoints.observe(&mut slot.counters);
                slot.counters.record_rtt();
                active = true;
            }
        }
        let after = self.now();
        let pause = (after.since(now) * RTT_PAUSE_FACTOR).max(RTT_INTERVAL);
        self.next_rtt = if active { after + pause } else { Time::MAX };
    }

    fn sample(&mut self, now: Time) {
        let interval = now.since(self.last_sample);
        if !interval.is_positive() {
            return;
        }
        for slot in &mut self.slots {
            let running = matches!(slot.phase, Phase::Running(_));
            if let Phase::Running(endpoints) = &mut slot.phase {
                endpoints.observe(&mut slot.counters);
            }
            if !running && !slot.touched {
                continue;
            }
            slot.touched = running;
            let sample =
                slot.counters.cut(now, interval, slot.placed.id, &slot.placed.flow.traffic);
            let counts = slot.placed.counts_goodput();
            if counts && running && slot.run_started <= self.last_sample {
                slot.counters.record_goodput(&sample);
            }
            (self.shared.sink)(Observation::Sample(Box::new(sample)));
            for sample in slot.counters.cut_subflows(now, interval, slot.placed.id) {
                (self.shared.sink)(Observation::Subflow(sample));
            }
        }
        self.last_sample = now;
    }

    fn finish(mut self) -> FlowResults {
        let now = self.now();
        for index in 0..self.slots.len() {
            let is_lost = self.slots[index].fails_at.is_some();
            self.end(index, now, if is_lost { lost_agent_outcome() } else { Outcome::Stopped });
        }
        self.sample(now);
        let results = self.slots.into_iter().map(result).collect();
        FlowResults { results, waits: self.waits.into_histogram() }
    }
}

impl Shared {
    /// The addresses and sockets of a flow's run; adds a receiver on this agent to the event queue.
    fn open_rendezvous(&self, placed: &Placed, base: u64, run: u16) -> sys::Result<Rendezvous> {
        let rendezvous = Rendezvous::open(placed, run)?;
        if let Some(receiver) = &rendezvous.receiver {
            self.queue.add(receiver.as_fd(), base | u64::from(RECEIVER_SLOT), Interest::Read)?;
        }
        Ok(rendezvous)
    }
}

/// The outcome of a flow without its other end.
fn lost_agent_outcome() -> Outcome {
    Outcome::Failed("the agent of its other end was lost".to_owned())
}

/// Opens the endpoints of a flow.
fn endpoints(
    placed: &Placed,
    rendezvous: Rendezvous,
    scope: &mut Scope<'_>,
) -> sys::Result<Box<dyn Endpoints>> {
    let multipath = placed.flow.multipath().map(|multipath| multipath.kind);
    let is_mctcp = multipath == Some(MultipathKind::Mctcp);
    match &placed.flow.traffic {
        Traffic::Bulk { size, rate, pause, tcp, streams, message } => {
            let streams = if is_mctcp { 1 } else { *streams };
            let flow = BulkFlow::open((*size, *rate), *pause, streams, scope.now());
            if is_mctcp {
                return boxed(mctcp::Bulk::open(placed, flow, tcp, scope));
            }
            boxed(Bulk::open(placed, rendezvous, flow, (tcp, streams, *message), scope))
        }
        Traffic::Transfers { spec, tcp } if is_mctcp => {
            boxed(mctcp::Streams::open(placed, tcp, scope, |wire| TransfersFlow::open(spec, wire)))
        }
        Traffic::Transfers { spec, tcp } => {
            let terms = (tcp, spec.count);
            boxed(Streams::receiving(placed, rendezvous, scope, terms, |wire| {
                TransfersFlow::open(spec, wire)
            }))
        }
        Traffic::Rpc { spec, tcp } if is_mctcp => {
            boxed(mctcp::Streams::open(placed, tcp, scope, |wire| RpcFlow::open(spec, wire)))
        }
        Traffic::Rpc { spec, tcp } => {
            let terms = (tcp, &spec.request, &spec.response);
            boxed(Streams::answering(placed, rendezvous, scope, terms, |wire| {
                RpcFlow::open(spec, wire)
            }))
        }
        Traffic::Requests { spec, tcp } => {
            let terms = (tcp, &spec.request, &spec.response);
            boxed(Streams::answering(placed, rendezvous, scope, terms, |wire| {
                RequestsFlow::open(spec, wire)
            }))
        }
        Traffic::Queries(spec) => boxed(Queries::open(spec, placed, rendezvous, scope)),
        Traffic::Paced { rate, packet, size, pattern } => {
            boxed(Paced::open(placed, rendezvous, (*rate, *packet, *size), pattern, scope))
        }
        Traffic::Controlled { .. } => Err(sys::Error::from_errno(
            "rate-controlled flow",
            rustix::io::Errno::OPNOTSUPP.raw_os_error(),
        )),
    }
}

fn boxed<E: Endpoints + 'static>(opened: sys::Result<E>) -> sys::Result<Box<dyn Endpoints>> {
    opened.map(|endpoints| Box::new(endpoints) as _)
}

/// Token of socket 0 of a flow: flow, generation, socket.
fn token_base(index: usize, generation: u16) -> u64 {
    (index as u64) << 32 | u64::from(generation) << 16
}

fn result(slot: Slot) -> FlowResult {
    let lifetime = FlowLifetime {
        outcome: slot.outcome,
        started: slot.started,
        ended: slot.ended,
        active: slot.active,
        completion: slot.completion,
    };
    let flow = &slot.placed.flow;
    let id = slot.placed.id;
    let mut result = slot.counters.into_result(id, flow.name.clone(), &flow.traffic, lifetime);
    (result.ends, result.edges) = (slot.placed.local_ends(), slot.edges);
    result
}
