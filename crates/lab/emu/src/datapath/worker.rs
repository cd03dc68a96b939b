//! The data path's loop.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use base::{IfaceId, Span, Time};
use bundler_lab::GatewayNodes;
use cluster::AgentId;
use fabric::{Fabric, Output, Packet};
use lab::plan::Plan;
use run::calls::CallWriter;
use run::live::MIN_FRAME_SPAN;
use run::waits::WaitRecorder;
use run::{Change, ChangeKind};
use timeline::{Components, Moment, NextWakes, Rank};
use wire::{Offload, VIRTIO_HEADER};

use super::agreement::AgreementSocket;
use super::buffer::{Body, Pool};
use super::egress::{Destinations, Egress};
use super::gateways::Host;
use super::ingress::Ingress;
use super::messages::{self, Batch, Command, Report, Setup, Shared};
use super::ports::{Poller, Ports, ReadySockets};
use super::routers::Routers;
use super::tap::Taps;
use super::trunk::Trunks;
use super::wait::{self, Pace, WakeUp};
use crate::clock::LabClock;
use crate::shard::Sockets;
use crate::{Error, Result};

/// Maximum packets read from one port before other ports get their turn.
const MAX_READS_PER_PORT: usize = 32;

/// Maximum time from the stamp of a packet to its read, unless it arrived before the poll: about
/// the time to read a burst.
const MAX_STAMP_LEAD: Span = Span::from_micros(20);

/// Lateness from which the data path counts as stalled. Shorter ones only delay single packets.
pub(crate) const MIN_STALL: Span = Span::from_millis(1);

/// Interval at which a write is retried on a full port.
const WRITE_RETRY_INTERVAL: Span = Span::from_micros(50);

/// Real-time priority; any real-time priority is above ordinary threads.
pub(crate) const REALTIME_PRIORITY: i32 = 10;

/// Time slice under the ordinary scheduler, in nanoseconds.
pub(super) const TIME_SLICE_NANOS: u64 = 100_000;

/// Interval at which the CPU time is read.
const REALTIME_INTERVAL: Span = Span::from_millis(100);

/// Time over which the share of a CPU is measured: the period of the kernel's own throttle
/// (`kernel.sched_rt_period_us`). After a stall the thread may use a whole CPU for a shorter time.
const REALTIME_PERIOD: Span = Span::from_secs(1);

/// The state of the loop.
pub(super) struct Worker {
    plan: Arc<Plan>,
    fabric: Fabric<Body>,
    ports: Ports,
    pool: Pool,
    ingress: Ingress,
    egress: Egress,
    taps: Taps,
    gateways: Option<Box<GatewayNodes<Body>>>,
    trunks: Option<Box<Trunks>>,
    agreement: Option<Box<AgreementSocket>>,
    /// Whether other agents take part in the agreement on shares.
    is_shared: bool,
    pace: Pace,
    inbox: Receiver<Command>,
    outbox: Sender<Batch>,
    changes: VecDeque<Change>,
    next_sample: Time,
    /// Whether batches contain the lateness, and the time of the last batch with it.
    is_watched: Arc<AtomicBool>,
    last_watched_batch: Time,
    /// All events up to this time have been handled.
    handled: Time,
    calls: Option<CallWriter>,
    clock: LabClock,
    wake_up: WakeUp,
    /// Latency of the last wake-up by a timer, a sample of that of wake-ups by packets.
    wake_latency: Span,
    /// The earliest deadline at the last sleep.
    deadline: Time,
    /// Time of the last poll of the ports.
    polled: Time,
    /// Last time stamp of a packet from a port.
    stamped: Time,
    realtime: Realtime,
    finished: bool,
    report: Report,
}

/// A sleep of the first thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub(super) start: Time,
    pub(super) deadline: Time,
    /// Zero if the deadline is so near that the thread polls instead.
    pub(super) timeout: Span,
}

/// State of real-time scheduling.
#[derive(Debug, Default)]
struct Realtime {
    wanted: bool,
    is_active: bool,
    /// See [`Datapath::requests_realtime`].
    ///
    /// [`Datapath::requests_realtime`]: super::Datapath::requests_realtime
    requested: Arc<AtomicBool>,
    /// Share of a CPU above which it is suspended.
    share: f64,
    /// When the thread's CPU time was read, and its value in nanoseconds, the oldest first.
    readings: VecDeque<(Time, u64)>,
}

impl Realtime {
    /// Enters real-time scheduling, or requests it from the command.
    fn enter(&mut self) {
        self.is_active = sys::sched::set_fifo(REALTIME_PRIORITY).is_ok();
        self.requested.store(!self.is_active, Ordering::Relaxed);
    }

    /// Enters a reading of the CPU time; returns the share of a CPU in the last period.
    fn used_share(&mut self, now: Time, cpu: u64) -> f64 {
        self.readings.push_back((now, cpu));
        while self.readings.get(1).is_some_and(|(at, _)| now.since(*at) >= REALTIME_PERIOD) {
            self.readings.pop_front();
        }
        let (from, before) = self.readings.front().copied().unwrap_or((now, cpu));
        let period = now.since(from).max(REALTIME_PERIOD);
        (cpu - before) as f64 / period.as_nanos() as f64
    }
}

impl Worker {
    pub(super) fn try_new(
        setup: Setup,
        inbox: Receiver<Command>,
        outbox: Sender<Batch>,
        poller: &Poller,
    ) -> Result<Self> {
        let Setup { plan, enclosure, recorder, captures, mirror_captures, .. } = setup;
        let mut fabric = run::fabric(&plan, setup.forwarding)?;
        let taps = Taps::new(&plan, recorder, captures, &mirror_captures);
        taps.captured_ifaces().for_each(|iface| fabric.watch(iface));
        let ports = Ports::new(enclosure, plan.ifaces.len());
        let (shard, sockets) = setup.shard.unzip();
        let (trunk, notices) = sockets.map(|Sockets { trunk, notices }| (trunk, notices)).unzip();
        let agreement =
            AgreementSocket::join(&plan, shard.as_deref(), notices, &mut fabric).map(Box::new);
        let trunks = shard.as_deref().zip(trunk).map(|(shard, trunk)| {
            let mut trunks = Trunks::new(shard, trunk, setup.clock.clone());
            for (at, lead) in shard.leads.iter().enumerate() {
                trunks.set_lead(Time::ZERO, &mut fabric, AgentId::at(at), *lead);
            }
            Box::new(trunks)
        });
        let notices = agreement.as_ref().and_then(|agreement| agreement.notices());
        poller.listen(trunks.as_ref().map(|trunks| trunks.socket()), notices)?;
        Ok(Self {
            fabric,
            ports,
            is_shared: trunks.is_some(),
            trunks,
            agreement,
            pool: Pool::default(),
            ingress: Ingress::new(&plan),
            egress: Egress::default(),
            taps,
            gateways: GatewayNodes::try_new(&plan)?.map(Box::new),
            pace: Pace::new(plan.precision, plan.tick),
            inbox,
            outbox,
            changes: VecDeque::new(),
            next_sample: Time::ZERO,
            is_watched: Arc::default(),
            last_watched_batch: Time::ZERO,
            handled: Time::ZERO,
            clock: setup.clock,
            calls: setup.calls,
            wake_up: WakeUp::default(),
            wake_latency: Span::ZERO,
            deadline: Time::MAX,
            polled: Time::ZERO,
            stamped: Time::ZERO,
            realtime: Realtime {
                wanted: plan.realtime,
                share: messages::REALTIME_SHARE,
                ..Realtime::default()
            },
            finished: false,
            report: Report::default(),
            plan,
        })
    }

    /// Connects the worker to the state that other threads use.
    pub(super) fn share(&mut self, shared: Shared) {
        self.report.waits = WaitRecorder::new(shared.waits);
        self.realtime.requested = shared.requests_realtime;
        self.is_watched = shared.is_watched;
    }

    /// Takes the last sample and returns the report, without the usage of threads.
    pub(super) fn finish(mut self) -> Report {
        self.sample(self.now());
        self.report.gathered = self.pace.aligned_share();
        self.report.wake_up = self.wake_up.min;
        self.report.events = self.fabric.events();
        let links = self.plan.links.len();
        self.report.queue_delays = run::take_queue_delays(&mut self.fabric, links);
        self.report.trace_hash = self.fabric.trace_hash();
        let (at, events, hash) = (self.fabric.now(), self.report.events, self.report.trace_hash);
        if let Some(gateways) = &self.gateways {
            self.report.warnings = gateways.warnings(&self.plan);
        }
        if let Some(trunks) = &self.trunks {
            let (dropped, overrun) = trunks.dropped();
            self.report.trunks = trunks.statistics();
            self.report.leads = trunks.leads().to_vec();
            self.report.memory_drops += dropped;
            self.report.overrun = overrun;
            self.report.misrouted = trunks.misrouted();
        }
        self.report.agreement =
            self.agreement.map(|agreement| agreement.traffic()).unwrap_or_default();
        self.report.calls = self.calls.map(|calls| calls.finish(at, events, hash));
        self.report
    }

    /// Thread properties are best effort, since they need privileges: without them the lateness
    /// statistics show the effect.
    pub(super) fn prepare(&mut self, poller: &mut Poller) {
        let _ = sys::sched::set_timer_slack(1);
        let _ = sys::sched::set_slice(TIME_SLICE_NANOS);
        if self.realtime.wanted {
            self.realtime.enter();
            self.report.realtime = self.realtime.is_active;
        }
        self.wake_up = wait::calibrate(poller);
        self.wake_latency = self.wake_up.median;
        self.pace.calibrate(poller);
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn clock(&self) -> LabClock {
        self.clock.clone()
    }

    pub(super) const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether the first thread has real-time priority.
    pub(super) const fn is_realtime(&self) -> bool {
        self.realtime.is_active
    }

    /// Handles events and writes.
    pub(super) fn handle_due(&mut self, now: Time) {
        let late = now.since(self.deadline);
        if late.is_positive() {
            self.report.waits.enter(self.deadline, now);
        }
        if late >= MIN_STALL {
            self.report.stalls.record(self.deadline, now);
        }
        self.take_commands();
        self.handle_all(now);
        self.write(now);
    }

    /// Adapts releases and scheduling to the load. Only the first thread calls this.
    pub(super) fn adapt(&mut self, now: Time) {
        self.pace.update_load(now, self.report.delivered);
        self.limit_realtime(now);
    }

    /// Updates the latency estimates after a sleep that its timer ended.
    pub(super) fn update_latency(&mut self, sleep: Sleep, woken: Time) {
        self.wake_latency = woken.since(sleep.start + sleep.timeout);
        self.pace.update_latency(sleep.deadline.since(sleep.start), self.wake_latency);
    }

    /// Reads what has arrived at a poll; after a sleep, with the time at which it ended.
    pub(super) fn receive(
        &mut self,
        arrived: ReadySockets,
        woken: Option<Time>,
        ready: &mut Vec<IfaceId>,
    ) {
        if let Some(agreement) = self.agreement.as_mut().filter(|_| arrived.notices) {
            agreement.receive(self.clock.now());
        }
        if self.egress.is_congested() {
            return;
        }
        let slept = woken.is_some();
        let woken = woken.unwrap_or_else(|| self.now());
        let waited = if slept { self.wake_latency } else { woken.since(self.polled) };
        if !ready.is_empty() {
            self.report.ingress.record(waited.as_nanos());
            let from = Time::from_nanos(woken.as_nanos().saturating_sub(waited.as_nanos()));
            self.report.waits.enter(from, woken);
            self.pool.set_waited(waited);
        }
        self.polled = woken;
        for iface in ready.drain(..) {
            self.read(iface, slept);
        }
        if let Some(trunks) = self.trunks.as_mut().filter(|_| arrived.trunk) {
            trunks.receive(self.clock.now());
        }
    }

    /// Writes due packets to ports, and packets for other agents to trunks.
    fn write(&mut self, now: Time) {
        if let Some(trunks) = &mut self.trunks {
            let egress = &mut self.egress;
            trunks.release(now, |iface, packet, due| egress.stage_assembled(iface, packet, due));
        }
        let mut destinations = Destinations {
            ports: &self.ports,
            trunks: self.trunks.as_deref_mut(),
            tolerance: self.plan.tolerance,
        };
        self.egress.flush(&mut destinations, &mut self.report, || self.clock.now());
        if let Some(trunks) = &mut self.trunks {
            trunks.send(self.clock.now());
        }
    }

    fn take_commands(&mut self) {
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Finish => self.finished = true,
                Command::AgentLost(agent) => self.on_agent_lost(agent),
                Command::AgentRestored(agent) => self.on_agent_restored(agent),
                Command::SetLead(agent, lead) => self.set_lead(agent, lead),
                Command::Realtime(share) => self.realtime.share = share,
                Command::Change(change) => {
                    let at = self.changes.partition_point(|other| other.at <= change.at);
                    self.changes.insert(at, change);
                }
            }
        }
    }

    /// Handles the loss of an agent, which ends its flows.
    fn on_agent_lost(&mut self, agent: AgentId) {
        let now = self.now();
        if let Some(trunks) = &mut self.trunks {
            trunks.on_agent_lost(agent);
        }
        if let Some(agreement) = &mut self.agreement {
            agreement.on_agent_lost(now, agent);
        }
    }

    fn on_agent_restored(&mut self, agent: AgentId) {
        let now = self.now();
        if let Some(trunks) = &mut self.trunks {
            trunks.on_agent_restored(agent);
        }
        if let Some(agreement) = &mut self.agreement {
            agreement.on_agent_restored(now, agent);
        }
    }

    /// Sets the egress lead time to an agent.
    fn set_lead(&mut self, agent: AgentId, lead: Span) {
        let now = self.fabric.now();
        if let Some(trunks) = &mut self.trunks {
            trunks.set_lead(now, &mut self.fabric, agent, lead);
        }
        self.take_outputs();
    }

    /// Handles all events up to and including `now`.
    fn handle_all(&mut self, now: Time) {
        self.run_before(Moment::after(now));
        self.fabric.advance(now);
        self.handled = now;
    }

    /// Time of the next change of the network, or of the next stop or start of a gateway.
    fn next_lab_event(&self) -> Option<Time> {
        let change = self.changes.front().map(|change| change.at);
        let gateways = self.gateways.as_ref().and_then(|gateways| gateways.next_event());
        change.into_iter().chain(gateways).min()
    }

    /// The gateways, and their interface to the data path.
    fn gateways(&mut self) -> Option<(&mut GatewayNodes<Body>, Host<'_>)> {
        let host = Host {
            fabric: &mut self.fabric,
            plan: &self.plan,
            ingress: &self.ingress,
            pool: &self.pool,
            calls: self.calls.as_mut(),
        };
        Some((self.gateways.as_mut()?, host))
    }

    /// Passes a packet to the gateway that it has reached; if the gateway does not use it,
    /// replies like a router.
    fn deliver_to_gateway(&mut self, iface: IfaceId, packet: Packet<Body>) {
        let Some((gateways, mut host)) = self.gateways() else { return };
        let at = host.fabric.now();
        if let Some(packet) = gateways.deliver(&mut host, at, iface, packet) {
            let Host { fabric, plan, ingress, pool, calls } = host;
            let node = plan.ifaces[iface.index()].node;
            Routers { plan, ingress, pool, calls }.local(fabric, node, &packet, at);
        }
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.fabric.poll() {
            let gateways = self.gateways.as_ref();
            let mut routers = Routers {
                plan: &self.plan,
                ingress: &self.ingress,
                pool: &self.pool,
                calls: self.calls.as_mut(),
            };
            match output {
                Output::Deliver { iface, packet, .. }
                    if gateways.is_some_and(|gateways| gateways.takes(iface)) =>
                {
                    self.deliver_to_gateway(iface, packet);
                }
                Output::Deliver { iface, packet, at } => self.egress.stage(iface, packet, at),
                Output::Local { node, packet, at } => {
                    routers.local(&mut self.fabric, node, &packet, at);
                }
                Output::Refused { node, iface, packet, why, at } => {
                    routers.refused(&mut self.fabric, (node, iface), &packet, why, at);
                }
                Output::Seen { iface, sent, packet, at } => {
                    self.taps.capture(iface, sent, &packet, None, at);
                }
                Output::Dropped { iface, packet, reason, at } => {
                    self.taps.capture(iface, true, &packet, Some(reason), at);
                }
                Output::Mirrored { mirror, packet, at } => {
                    let trunks = self.trunks.as_ref();
                    let lead = |iface| trunks.map_or(Span::ZERO, |trunks| trunks.lead_to(iface));
                    self.taps.mirror(mirror, packet, at, lead, &mut self.egress);
                }
            }
        }
    }

    /// The sleep until the next deadline.
    pub(super) fn next_sleep(&mut self) -> Sleep {
        let mut wakes = self.next_wakes();
        for packets in [&mut wakes.arrival, &mut wakes.gateway] {
            *packets = packets.map(|at| self.pace.release_time(at));
        }
        let start = self.now();
        let trunks = self.trunks.as_ref();
        let is_blocked = trunks.is_some_and(|trunks| trunks.is_blocked());
        let retry = (self.egress.is_stalled() || is_blocked).then(|| start + WRITE_RETRY_INTERVAL);
        let trunk =
            trunks.and_then(|trunks| trunks.next_wake()).map(|at| self.pace.release_time(at));
        let deadline = [wakes.earliest(), trunk, retry].into_iter().flatten().min();
        self.deadline = deadline.unwrap_or(Time::MAX);
        Sleep { start, deadline: self.deadline, timeout: self.pace.sleep(start, self.deadline) }
    }

    fn read(&mut self, iface: IfaceId, slept: bool) {
        let correction = if slept { self.wake_up.min } else { Span::ZERO };
        let ready = Time::from_nanos(self.polled.as_nanos().saturating_sub(correction.as_nanos()));
        for number in 0..MAX_READS_PER_PORT {
            let Some((fd, framing)) = self.ports.reader(iface) else { return };
            let Ok(bytes) = self.pool.read(fd) else { return };
            self.report.reads += 1;
            let link = framing.len();
            let Some(virtio) = bytes.first_chunk::<VIRTIO_HEADER>() else {
                self.report.malformed += 1;
                self.pool.give_back(bytes);
                continue;
            };
            let offload = Offload::read(*virtio, link as u16);
            if !self.pool.has_room() {
                self.report.memory_drops += 1;
                self.pool.give_back(bytes);
                continue;
            }
            let start = VIRTIO_HEADER + link;
            let Some(packet) = self.ingress.describe(&self.pool, bytes, start, offload) else {
                self.report.malformed += 1;
                continue;
            };
            // Only the first packet certainly arrived before the poll.
            let read = if number == 0 { ready } else { self.now() };
            self.stamped = stamp(ready, read, self.stamped);
            self.inject(self.stamped, iface, packet);
        }
    }

    /// Injects a packet of a program into the fabric, after all events that are due before it.
    fn inject(&mut self, at: Time, iface: IfaceId, packet: Packet<Body>) {
        // Events up to `handled` are complete, so the packet must come later.
        let at = at.max(self.handled + Span::from_nanos(1));
        self.run_before(Moment::new(at, Rank::Timer));
        if let Some(calls) = &mut self.calls {
            calls.inject(at, iface, &packet);
        }
        let computed = self.fabric.shares_computed();
        self.fabric.inject(at, iface, packet);
        if !self.is_shared && self.fabric.shares_computed() != computed {
            self.report.notices.record(self.now().since(at).as_nanos());
        }
    }

    fn sample(&mut self, now: Time) {
        let links = run::link_counters(&mut self.fabric, self.plan.links.len());
        let (shares, delivered) = (self.fabric.shares().collect(), self.report.delivered);
        let gateways = self.gateways.as_mut();
        let (bundles, bundle_changes) = gateways.map_or_else(Default::default, |gateways| {
            (gateways.statuses(), gateways.changes().collect())
        });
        let trunks = self.trunks.as_ref().map_or_else(Vec::new, |trunks| trunks.states());
        let is_due = now.since(self.last_watched_batch) >= MIN_FRAME_SPAN;
        let machine = if is_due && self.is_watched.load(Ordering::Relaxed) {
            self.last_watched_batch = now;
            self.report.machine()
        } else {
            None
        };
        let at = now;
        let batch =
            Batch { at, links, shares, bundles, bundle_changes, delivered, trunks, machine };
        // The receiver no longer exists during the lab's teardown.
        let _ = self.outbox.send(batch);
    }

    fn limit_realtime(&mut self, now: Time) {
        let state = &mut self.realtime;
        let passed = now.since(state.readings.back().map_or(Time::ZERO, |(at, _)| *at));
        if !state.wanted || passed < REALTIME_INTERVAL {
            return;
        }
        state.is_active = sys::sched::is_fifo();
        self.report.realtime |= state.is_active;
        let share = state.used_share(now, sys::clock::thread_cpu());
        if !self.report.realtime {
            return;
        }
        if !state.is_active {
            self.report.suspended += passed;
        }
        let allowed = share < state.share;
        if allowed != state.is_active {
            if allowed {
                state.enter();
            } else {
                state.is_active = sys::sched::set_ordinary().is_err();
            }
        }
    }
}

/// The time at which a packet enters the fabric that was read at `read` from a port that was
/// ready at `ready`, after a packet that entered at `last`. A burst gets one time; but a
/// packet's time is at most [`MAX_STAMP_LEAD`] before its read, since it may have been sent while
/// this thread was delayed.
fn stamp(ready: Time, read: Time, last: Time) -> Time {
    let earliest = Time::from_nanos(read.as_nanos().saturating_sub(MAX_STAMP_LEAD.as_nanos()));
    ready.max(earliest).max(last)
}

impl Components for Worker {
    fn next_wakes(&self) -> NextWakes {
        let agreement = self.agreement.as_ref();
        NextWakes {
            arrival: self.fabric.next_wake(),
            lab_event: self.next_lab_event(),
            // Programs send at any time: `inject` gives their packets the rank of timers.
            timer: None,
            gateway: self.gateways.as_ref().and_then(|gateways| gateways.next_wake()),
            agreement: agreement.and_then(|agreement| agreement.next_wake(&self.fabric)),
            sample: Some(self.next_sample),
        }
    }

    fn on_arrivals(&mut self, until: Time) -> bool {
        let has_arrived = self.fabric.advance_to_output(until);
        if has_arrived {
            self.take_outputs();
        }
        has_arrived
    }

    /// Applies the next change of the network, or stops and starts the gateways that are due.
    fn on_lab_event(&mut self, now: Time) {
        let is_due = self.changes.front().is_some_and(|change| change.at <= now);
        let Some(change) = is_due.then(|| self.changes.pop_front()).flatten() else {
            if let Some(gateways) = &mut self.gateways {
                gateways.on_event(now);
            }
            return;
        };
        let (event, service) = (change.event, matches!(change.kind, ChangeKind::LinkState { .. }));
        let at = change.apply(&mut self.fabric);
        if let Some(calls) = &mut self.calls {
            calls.change(at, event);
        }
        if let Some(gateways) = self.gateways.as_mut().filter(|_| service) {
            gateways.reroute();
        }
    }

    fn on_gateway_wake(&mut self, now: Time) {
        self.fabric.advance(now);
        if let Some((gateways, mut host)) = self.gateways() {
            gateways.on_wake(&mut host, now);
        }
    }

    /// Announces flows of this shard to other agents, and passes their flows to the fabric.
    fn on_agreement_wake(&mut self, now: Time) {
        let Some(agreement) = &mut self.agreement else { return };
        agreement.turn(now, &mut self.fabric);
        let spent = self.clock.now().since(now);
        for delay in agreement.delays() {
            self.report.notices.record((delay + spent).as_nanos());
        }
        self.take_outputs();
    }

    fn on_sample(&mut self, now: Time) {
        self.fabric.advance(now);
        self.sample(now);
        self.next_sample += self.plan.interval;
    }
}

impl From<fabric::Error> for Error {
    fn from(error: fabric::Error) -> Self {
        Self::Fabric(error)
    }
}

#[cfg(test)]
pub(super) mod tests;
