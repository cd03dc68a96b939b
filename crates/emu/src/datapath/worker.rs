//! The data path's loop.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use base::{IfaceId, Moment, Rank, Span, Time, Timeline};
use cluster::AgentId;
use fabric::{Fabric, Output, Packet};
use lab::plan::Plan;
use middlebox::Middleboxes;
use outcome::{Change, What};
use record::calls::CallWriter;
use wire::{Offload, VIRTIO_HEADER};

use super::boxes::Host;
use super::buffer::{Body, Pool};
use super::council::Council;
use super::egress::{Egress, Exits};
use super::ingress::Ingress;
use super::ports::{Arrived, Ports};
use super::routers::Routers;
use super::tap::Taps;
use super::trunk::Trunks;
use super::wait::{self, Pace, WakeUp};
use super::{Batch, Command, Report, Setup};
use crate::clock::LabClock;
use crate::piece::Sockets;
use crate::{Error, Result};

/// Packets read from one port before the next has its turn.
const BUDGET: usize = 32;

/// Max time from the stamp of a packet to its read, unless it arrived before the poll: about the
/// duration of reading a burst.
const READ_AHEAD: Span = Span::from_micros(20);

/// A port that would not take a write is tried again after this.
const RETRY: Span = Span::from_micros(50);

/// Real-time priority; anything above ordinary threads will do.
const PRIORITY: i32 = 10;

/// How often the share is looked at.
const REALTIME_WINDOW: Span = Span::from_millis(100);

/// The state of the loop.
pub(super) struct Worker {
    plan: Arc<Plan>,
    fabric: Fabric<Body>,
    ports: Ports,
    pool: Pool,
    ingress: Ingress,
    egress: Egress,
    taps: Taps,
    boxes: Option<Box<Middleboxes<Body>>>,
    trunks: Option<Box<Trunks>>,
    council: Option<Box<Council>>,
    /// Shares are another member's doing too.
    together: bool,
    pace: Pace,
    inbox: Receiver<Command>,
    outbox: Sender<Batch>,
    bell: Arc<OwnedFd>,
    changes: VecDeque<Change>,
    next_sample: Time,
    /// The time of the last turn.
    met: Time,
    calls: Option<CallWriter>,
    clock: LabClock,
    wake_up: WakeUp,
    /// When the ports were last looked at.
    polled: Time,
    /// The last stamp of a packet from a port.
    stamped: Time,
    realtime: Realtime,
    finished: bool,
    report: Report,
}

/// Real-time scheduling, in force or suspended.
#[derive(Debug, Default)]
struct Realtime {
    wanted: bool,
    in_force: bool,
    /// Share of a CPU from which on it is suspended.
    share: f64,
    window_start: Time,
    cpu: u64,
}

impl Worker {
    pub(super) fn try_new(
        setup: Setup,
        inbox: Receiver<Command>,
        outbox: Sender<Batch>,
        bell: Arc<OwnedFd>,
    ) -> Result<Self> {
        let Setup { plan, enclosure, recorder, captures, mirror_captures, .. } = setup;
        let mut fabric = outcome::fabric(&plan, setup.forwarding)?;
        let taps = Taps::new(&plan, recorder, captures, &mirror_captures);
        taps.watched().for_each(|iface| fabric.watch(iface));
        let ports = Ports::try_new(enclosure, plan.ifaces.len(), Arc::clone(&bell))?;
        let (piece, sockets) = setup.piece.unzip();
        let (trunk, notices) = sockets.map(|Sockets { trunk, notices }| (trunk, notices)).unzip();
        let council = Council::join(&plan, piece.as_deref(), notices, &mut fabric).map(Box::new);
        let trunks = piece.as_deref().zip(trunk).map(|(piece, trunk)| {
            let mut trunks = Trunks::new(piece, trunk, setup.clock.clone());
            for (at, lead) in piece.leads.iter().enumerate() {
                trunks.lead(Time::ZERO, &mut fabric, AgentId::at(at), *lead);
            }
            Box::new(trunks)
        });
        let notices = council.as_ref().and_then(|council| council.notices());
        ports.listen(trunks.as_ref().map(|trunks| trunks.socket()), notices)?;
        Ok(Self {
            fabric,
            ports,
            together: trunks.is_some(),
            trunks,
            council,
            pool: Pool::default(),
            ingress: Ingress::new(&plan),
            egress: Egress::default(),
            taps,
            boxes: Middleboxes::try_new(&plan)?.map(Box::new),
            pace: Pace::new(plan.precision, plan.tick),
            inbox,
            outbox,
            bell,
            changes: VecDeque::new(),
            next_sample: Time::ZERO,
            met: Time::ZERO,
            clock: setup.clock,
            calls: setup.calls,
            wake_up: WakeUp::default(),
            polled: Time::ZERO,
            stamped: Time::ZERO,
            realtime: Realtime {
                wanted: plan.realtime,
                share: super::REALTIME_SHARE,
                ..Realtime::default()
            },
            finished: false,
            report: Report::default(),
            plan,
        })
    }

    /// Runs until it is told to finish.
    pub(super) fn run(mut self) -> Report {
        self.prepare();
        let (wall, cpu) = (sys::clock::monotonic(), sys::clock::thread_cpu());
        let waited = sys::sched::run_queue_wait();
        let mut ready = Vec::new();
        while !self.finished {
            self.turn(&mut ready);
        }
        self.sample(self.now());
        self.report.cpu = Span::from_nanos(sys::clock::thread_cpu() - cpu);
        self.report.wall = Span::from_nanos(sys::clock::monotonic() - wall);
        let waited = sys::sched::run_queue_wait().zip(waited);
        self.report.cpu_wait =
            waited.map(|(end, start)| Span::from_nanos(end.saturating_sub(start)));
        self.report.gathered = self.pace.gathered();
        self.report.wake_up = self.wake_up.least;
        self.report.events = self.fabric.events();
        let links = self.plan.links.len();
        self.report.queue_delays = outcome::take_queue_delays(&mut self.fabric, links);
        self.report.trace_hash = self.fabric.trace_hash();
        let (at, events, hash) = (self.fabric.now(), self.report.events, self.report.trace_hash);
        if let Some(boxes) = &self.boxes {
            self.report.warnings = boxes.warnings(&self.plan);
        }
        if let Some(trunks) = &self.trunks {
            let (dropped, overrun) = trunks.dropped();
            self.report.trunks = trunks.statistics();
            self.report.leads = trunks.leads().to_vec();
            self.report.memory_drops += dropped;
            self.report.overrun = overrun;
            self.report.astray = trunks.astray();
        }
        self.report.talk = self.council.map(|council| council.talk()).unwrap_or_default();
        self.report.calls = self.calls.map(|calls| calls.finish(at, events, hash));
        self.report
    }

    /// Thread properties that need no privilege are best effort: without them the lateness record
    /// says what became of it.
    fn prepare(&mut self) {
        let _ = sys::sched::set_timer_slack(1);
        let _ = sys::sched::set_slice(100_000);
        if self.realtime.wanted {
            self.realtime.in_force = sys::sched::set_fifo(PRIORITY).is_ok();
            self.report.realtime = self.realtime.in_force;
        }
        self.wake_up = wait::calibrate(&mut self.ports, &self.bell);
        self.pace.calibrate(&mut self.ports);
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Meet deadlines, write, sleep, read.
    fn turn(&mut self, ready: &mut Vec<IfaceId>) {
        let now = self.now();
        self.obey();
        self.meet_all(now);
        self.write(now);
        self.pace.observe(now, self.report.delivered);
        self.limit_realtime(now);
        let (slept, arrived) = self.wait(ready);
        if let Some(council) = self.council.as_mut().filter(|_| arrived.notices) {
            council.receive(self.clock.now());
        }
        if self.egress.is_congested() {
            return;
        }
        let woken = self.now();
        let waited = if slept { self.wake_up.median } else { woken.since(self.polled) };
        self.report.ingress.record_many(waited.as_nanos(), u64::from(!ready.is_empty()));
        self.polled = woken;
        for iface in ready.drain(..) {
            self.read(iface, slept);
        }
        if let Some(trunks) = self.trunks.as_mut().filter(|_| arrived.trunk) {
            trunks.receive(self.clock.now());
        }
    }

    /// Writes what is due to ports, and to trunks what will be due elsewhere.
    fn write(&mut self, now: Time) {
        if let Some(trunks) = &mut self.trunks {
            trunks.release(now, &mut self.egress);
        }
        let mut exits = Exits { ports: &self.ports, trunks: self.trunks.as_deref_mut() };
        self.egress.flush(&mut exits, &mut self.report, || self.clock.now());
        if let Some(trunks) = &mut self.trunks {
            trunks.send(self.clock.now());
        }
    }

    /// Tells other members of flows here, and the fabric of theirs.
    fn agree(&mut self, at: Time) {
        let Some(council) = &mut self.council else { return };
        council.turn(at, &mut self.fabric);
        let spent = self.clock.now().since(at);
        for delay in council.delays() {
            self.report.notices.record((delay + spent).as_nanos());
        }
        self.take_outputs();
    }

    fn obey(&mut self) {
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Finish => self.finished = true,
                Command::Lose(agent) => self.lose(agent),
                Command::Regain(agent) => self.regain(agent),
                Command::Lead(agent, lead) => self.lead(agent, lead),
                Command::Realtime(share) => self.realtime.share = share,
                Command::Change(change) => {
                    let at = self.changes.partition_point(|other| other.at <= change.at);
                    self.changes.insert(at, change);
                }
            }
        }
    }

    /// A member of the lab is gone, and its flows with it.
    fn lose(&mut self, agent: AgentId) {
        let now = self.now();
        if let Some(trunks) = &mut self.trunks {
            trunks.lose(agent);
        }
        if let Some(council) = &mut self.council {
            council.lose(now, agent);
        }
    }

    fn regain(&mut self, agent: AgentId) {
        let now = self.now();
        if let Some(trunks) = &mut self.trunks {
            trunks.regain(agent);
        }
        if let Some(council) = &mut self.council {
            council.regain(now, agent);
        }
    }

    /// The physical way to a member takes another time than it did.
    fn lead(&mut self, agent: AgentId, lead: Span) {
        let now = self.fabric.now();
        if let Some(trunks) = &mut self.trunks {
            trunks.lead(now, &mut self.fabric, agent, lead);
        }
        self.take_outputs();
    }

    /// Meets all deadlines before `until`.
    fn meet_until(&mut self, until: Moment) {
        while self.step(until) {}
    }

    /// Meets all deadlines up to and including `now`.
    fn meet_all(&mut self, now: Time) {
        self.meet_until(Moment::after(now));
        self.fabric.advance(now);
        self.met = now;
    }

    /// When the lab next changes its network or its boxes.
    fn next_event(&self) -> Time {
        let change = self.changes.front().map_or(Time::MAX, |change| change.at);
        change.min(self.boxes.as_ref().map_or(Time::MAX, |boxes| boxes.next_event()))
    }

    /// The next change of the network, or else what the lab does to boxes at `at`.
    fn on_event(&mut self, at: Time) {
        let is_due = self.changes.front().is_some_and(|change| change.at <= at);
        let Some(change) = is_due.then(|| self.changes.pop_front()).flatten() else {
            if let Some(boxes) = &mut self.boxes {
                boxes.on_event(at);
            }
            return;
        };
        let (event, service) = (change.event, matches!(change.what, What::Service { .. }));
        let at = change.apply(&mut self.fabric);
        if let Some(calls) = &mut self.calls {
            calls.change(at, event);
        }
        if let Some(boxes) = self.boxes.as_mut().filter(|_| service) {
            boxes.reroute();
        }
    }

    /// The boxes, and what they call.
    fn boxes(&mut self) -> Option<(&mut Middleboxes<Body>, Host<'_>)> {
        let host = Host {
            fabric: &mut self.fabric,
            plan: &self.plan,
            ingress: &self.ingress,
            pool: &self.pool,
            calls: self.calls.as_mut(),
        };
        Some((self.boxes.as_mut()?, host))
    }

    fn wake_boxes(&mut self, at: Time) {
        self.fabric.advance(at);
        if let Some((boxes, mut host)) = self.boxes() {
            boxes.on_wake(&mut host, at);
        }
    }

    /// Gives a packet to the box that it has reached, and answers for the box as for a router.
    fn pass_box(&mut self, iface: IfaceId, packet: Packet<Body>) {
        let Some((boxes, mut host)) = self.boxes() else { return };
        let at = host.fabric.now();
        if let Some(packet) = boxes.deliver(&mut host, at, iface, packet) {
            let Host { fabric, plan, ingress, pool, calls } = host;
            let node = plan.ifaces[iface.index()].node;
            Routers { plan, ingress, pool, calls }.local(fabric, node, &packet, at);
        }
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.fabric.poll() {
            let boxes = self.boxes.as_ref();
            let mut routers = Routers {
                plan: &self.plan,
                ingress: &self.ingress,
                pool: &self.pool,
                calls: self.calls.as_mut(),
            };
            match output {
                Output::Deliver { iface, packet, .. }
                    if boxes.is_some_and(|boxes| boxes.takes(iface)) =>
                {
                    self.pass_box(iface, packet);
                }
                Output::Deliver { iface, packet, at } => self.egress.stage(iface, packet, at),
                Output::Local { node, packet, at } => {
                    routers.local(&mut self.fabric, node, &packet, at);
                }
                Output::Refused { node, iface, packet, why, at } => {
                    routers.refused(&mut self.fabric, (node, iface), &packet, why, at);
                }
                Output::Seen { iface, sent, packet, at } => {
                    self.taps.seen(iface, sent, &packet, None, at);
                }
                Output::Dropped { iface, packet, reason, at } => {
                    self.taps.seen(iface, true, &packet, Some(reason), at);
                }
                Output::Mirrored { mirror, packet, at } => {
                    let trunks = self.trunks.as_ref();
                    let way = |iface| trunks.map_or(Span::ZERO, |trunks| trunks.lead_to(iface));
                    self.taps.mirrored(mirror, packet, at, way, &mut self.egress);
                }
            }
        }
    }

    /// Sleeps until the next deadline or arrival; tells whether it slept at all.
    fn wait(&mut self, ready: &mut Vec<IfaceId>) -> (bool, Arrived) {
        let mut wake = self.fabric.next_wake().map_or(Time::MAX, |at| self.pace.release(at));
        if let Some(boxes) = &self.boxes {
            wake = wake.min(self.pace.release(boxes.next_wake()));
        }
        wake = wake.min(self.next_sample).min(self.next_event()).min(self.next_agreement());
        if let Some(due) = self.trunks.as_ref().and_then(|trunks| trunks.next_due()) {
            wake = wake.min(self.pace.release(due));
        }
        let now = self.now();
        let is_blocked = self.trunks.as_ref().is_some_and(|trunks| trunks.is_blocked());
        if self.egress.is_stalled() || is_blocked {
            wake = wake.min(now + RETRY);
        }
        let timeout = self.pace.sleep(now, wake);
        let arrived = self.ports.wait(timeout, ready);
        if timeout.is_positive() && ready.is_empty() && arrived == Arrived::default() {
            self.pace.learn(wake.since(now), self.now().since(now + timeout));
        }
        (timeout.is_positive(), arrived)
    }

    fn read(&mut self, iface: IfaceId, slept: bool) {
        let correction = if slept { self.wake_up.least } else { Span::ZERO };
        let ready = Time::from_nanos(self.polled.as_nanos().saturating_sub(correction.as_nanos()));
        for number in 0..BUDGET {
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
            // Only the first packet is known to have arrived before the poll.
            let read = if number == 0 { ready } else { self.now() };
            self.stamped = stamp(ready, read, self.stamped);
            self.inject(self.stamped, iface, packet);
        }
    }

    /// A packet that a program has sent enters the fabric, after what is due before it.
    fn inject(&mut self, at: Time, iface: IfaceId, packet: Packet<Body>) {
        // All that is due at the time of the last turn has been done.
        let at = at.max(self.met + Span::from_nanos(1));
        self.meet_until(Moment::new(at, Rank::Timer));
        if let Some(calls) = &mut self.calls {
            calls.inject(at, iface, &packet);
        }
        let computed = self.fabric.shares_computed();
        self.fabric.inject(at, iface, packet);
        if !self.together && self.fabric.shares_computed() != computed {
            self.report.notices.record(self.now().since(at).as_nanos());
        }
    }

    /// When flows next agree on shares.
    fn next_agreement(&self) -> Time {
        let council = self.council.as_ref();
        council.and_then(|council| council.next_turn(&self.fabric)).unwrap_or(Time::MAX)
    }

    fn sample(&mut self, now: Time) {
        let links = outcome::link_counters(&mut self.fabric, self.plan.links.len());
        let (shares, delivered) = (self.fabric.shares().collect(), self.report.delivered);
        let boxes = self.boxes.as_mut();
        let (bundles, bundle_changes) = boxes
            .map_or_else(Default::default, |boxes| (boxes.statuses(), boxes.changes().collect()));
        let trunks = self.trunks.as_ref().map_or_else(Vec::new, |trunks| trunks.states());
        let batch = Batch { at: now, links, shares, bundles, bundle_changes, delivered, trunks };
        // Nobody listens any more once the lab is being taken down.
        let _ = self.outbox.send(batch);
    }

    fn limit_realtime(&mut self, now: Time) {
        let state = &mut self.realtime;
        let window = now.since(state.window_start);
        if !self.report.realtime || window < REALTIME_WINDOW {
            return;
        }
        let cpu = sys::clock::thread_cpu();
        let share = (cpu - state.cpu) as f64 / window.as_nanos() as f64;
        if !state.in_force {
            self.report.suspended += window;
        }
        (state.cpu, state.window_start) = (cpu, now);
        let allowed = share < state.share;
        if allowed != state.in_force {
            let changed =
                if allowed { sys::sched::set_fifo(PRIORITY) } else { sys::sched::set_ordinary() };
            if changed.is_ok() {
                state.in_force = allowed;
            }
        }
    }
}

/// When a packet entered the fabric that was read at `read` from a port that was ready at `ready`,
/// after one that entered at `last`: together with the rest of a burst, but hardly before it was
/// sent, however long this thread was held up.
fn stamp(ready: Time, read: Time, last: Time) -> Time {
    let earliest = Time::from_nanos(read.as_nanos().saturating_sub(READ_AHEAD.as_nanos()));
    ready.max(earliest).max(last)
}

impl Timeline for Worker {
    fn arrive(&mut self, until: Time) -> bool {
        let has_arrived = self.fabric.advance_to_output(until);
        if has_arrived {
            self.take_outputs();
        }
        has_arrived
    }

    fn next_moment(&self) -> Moment {
        let boxes = self.boxes.as_ref().map_or(Time::MAX, |boxes| boxes.next_wake());
        Moment::new(self.next_event(), Rank::LabEvent)
            .min(Moment::new(boxes, Rank::Gateway))
            .min(Moment::new(self.next_agreement(), Rank::Agreement))
            .min(Moment::new(self.next_sample, Rank::Sample))
    }

    fn meet(&mut self, Moment { at, rank }: Moment) {
        match rank {
            Rank::LabEvent => self.on_event(at),
            Rank::Gateway => self.wake_boxes(at),
            Rank::Agreement => self.agree(at),
            Rank::Sample => {
                self.fabric.advance(at);
                self.sample(at);
                self.next_sample += self.plan.interval;
            }
            // Programs send when they do, and the fabric takes care of arrivals.
            Rank::Timer | Rank::Arrival => {}
        }
    }
}

impl From<fabric::Error> for Error {
    fn from(error: fabric::Error) -> Self {
        Self::Fabric(error)
    }
}

#[cfg(test)]
mod tests;
