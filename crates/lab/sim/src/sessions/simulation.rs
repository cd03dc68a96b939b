//! A lab of rate-controlled sessions under one protocol.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Bandwidth, Bytes, FlowId, LinkId, NodeId, Span, Time};
use fabric::fifo::{FifoLink, FifoNetwork};
use fabric::{LinkStats, QueueLevel};
use lab::plan::{Control, Event, Flow, Plan};
use lab::routes::{Pair, Paths, flow_hash};
use ratecontrol::{RateController, Visitor};
use run::FlowSample;
use run::record::RateControl;
use run::sample::control::{ControlSample, SessionRow};
use run::{FlowResult, Outcome};
use timeline::{Components, NextWakes};

use super::driver::{Driver, Handled};
use super::levels::Levels;
use super::meter::Meter;
use super::oracle::Oracle;
use super::table::{NEVER, NONE, SessionTable, State};
use crate::Result;
use crate::engine::Engine;

mod change;

/// Mean errors below this count as converged.
const CONVERGED: f64 = 0.01;

/// Input of a simulation.
pub(super) struct Setup {
    /// In canonical order, without flows.
    pub(super) plan: Plan,
    pub(super) flows: Vec<Flow>,
    /// Identifiers of the flows, and of links, in the original plan.
    pub(super) flow_ids: Vec<FlowId>,
    pub(super) link_ids: Vec<LinkId>,
    pub(super) control: Control,
}

impl Visitor for Setup {
    type Output = Result<Box<dyn Engine>>;

    fn visit<R: RateController>(self) -> Self::Output {
        Ok(Box::new(Simulation::<R>::try_new(self)?))
    }
}

/// The sessions of a lab, and the driver of their protocol.
pub(super) struct Simulation<R: RateController> {
    driver: Driver<R>,
    table: SessionTable,
    oracle: Oracle,
    levels: Levels,
    meters: Vec<Meter>,
    /// The present state of each directed link.
    wires: Vec<FifoLink>,
    /// The canonical plan, if lab events change its network.
    plan: Option<Arc<Plan>>,
    events: VecDeque<Event>,
    happened: Vec<Event>,
    up: Vec<bool>,
    node_up: Vec<bool>,
    /// Number of members that have not ended.
    unfinished: u64,
    changes: u64,
    protocol: &'static str,
    /// Whether links expire the state of sessions without control packets.
    forgets: bool,
    tally: Counts,
    last_sample: Time,
}

/// Counters for [`RateControl`].
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    joined: u64,
    completed: u64,
    rerouted: u64,
    last_change: Time,
    /// Time of the first sample from which on errors have stayed small.
    settled: Option<Time>,
    error: Option<f64>,
    queue_packets: u64,
    queue_bytes: u64,
}

impl<R: RateController> Simulation<R> {
    pub(super) fn try_new(setup: Setup) -> Result<Self> {
        let Setup { plan, flows, flow_ids, link_ids, control } = setup;
        let wires = super::wires::wires(&plan)?;
        let table = SessionTable::new(&plan, &flows);
        let (packet, data) = super::wires::data(&plan, &table)?;
        let net = FifoNetwork::try_new(&wires, data)?;
        let settings = &control.settings;
        let mut driver = Driver::try_new(settings, net, wires.len(), (plan.seed, control.loss))?;
        driver.watch(table.flows as u32);
        let meters = flows
            .iter()
            .zip(flow_ids)
            .map(|(flow, id)| Meter::new(id, flow, plan.overhead))
            .collect();
        let mut simulation = Self {
            driver,
            oracle: Oracle::new(),
            levels: Levels::new(&plan, link_ids, packet),
            meters,
            up: plan.links.iter().map(|link| link.up).collect(),
            node_up: vec![true; plan.nodes.len()],
            unfinished: table.members.len() as u64,
            table,
            wires,
            plan: None,
            events: plan.events.iter().cloned().collect(),
            happened: Vec::new(),
            changes: 0,
            protocol: control.protocol.name(),
            forgets: crate::control::forgets(control.protocol),
            tally: Counts::default(),
            last_sample: Time::ZERO,
        };
        for (link, up) in simulation.up.iter().enumerate() {
            if !up {
                simulation.driver.net.set_up(base::LinkId::at(link), false);
            }
        }
        simulation.place(&plan)?;
        if !simulation.events.is_empty() {
            simulation.plan = Some(Arc::new(plan));
        }
        simulation.driver.start();
        if let Some(at) = simulation.table.next_wake() {
            simulation.driver.wake_for_agenda(at);
        }
        Ok(simulation)
    }

    /// Assigns each member its first path.
    fn place(&mut self, plan: &Plan) -> Result<()> {
        let everyone: Vec<u32> = (0..self.table.members.len() as u32).collect();
        let found = self.paths(plan, &self.up, &everyone);
        self.driver.reserve(everyone.len(), found.iter().map(<[u32]>::len).sum());
        let mut unrouted = Vec::new();
        for (member, path) in everyone.iter().zip(found.iter()) {
            if path.is_empty() {
                unrouted.push(*member);
            } else {
                self.give_path(*member, path)?;
            }
        }
        if unrouted.is_empty() {
            return Ok(());
        }
        // A path may open when a link comes up; without any path the lab is invalid.
        let all = vec![true; plan.links.len()];
        let ways = self.paths(plan, &all, &unrouted);
        let lost = unrouted.iter().zip(ways.iter()).find(|(_, way)| way.is_empty());
        lost.map_or(Ok(()), |(member, _)| {
            let member = &self.table.members[*member as usize];
            let name = |node: NodeId| plan.nodes[node.index()].name.clone();
            Err(crate::Error::NoRoute {
                flow: self.table.names[member.group as usize].clone(),
                from: name(member.from),
                to: name(member.to),
            })
        })
    }

    /// The paths of members if link *l* is up iff `up[l]`; empty where there is none.
    fn paths(&self, plan: &Plan, up: &[bool], members: &[u32]) -> Paths {
        let pair = |member: &u32| {
            let member = &self.table.members[*member as usize];
            let [from, to] = [member.from, member.to].map(|node| &plan.nodes[node.index()].name);
            let hash = flow_hash(from, to, &self.table.names[member.group as usize]);
            Pair { from: member.from, to: member.to, hash }
        };
        let pairs: Vec<Pair> = members.iter().map(pair).collect();
        Paths::compute(plan, up, &pairs)
    }

    /// Adds a run for a member over a path.
    fn give_path(&mut self, member: u32, path: &[u32]) -> Result<u32> {
        for link in path {
            let rate = self.wires[*link as usize].rate;
            if self.driver.machine(*link, rate)? {
                self.oracle.add_link(oracle_capacity(rate));
                self.levels.cross(*link);
            }
        }
        let run = self.driver.add_run(member, path)?;
        let entry = &mut self.table.members[member as usize];
        if entry.size != NEVER {
            self.driver.net.set_amount(run, Bytes::new(entry.size));
        }
        entry.run = run;
        Ok(run)
    }

    /// Handles joins and leaves that are due.
    fn agenda(&mut self) {
        let now = self.driver.net.now();
        while self.table.next_wake().is_some_and(|at| at <= now) {
            let code = self.table.agenda[self.table.next];
            self.table.next += 1;
            if code.is_multiple_of(2) {
                self.join(code / 2);
            } else {
                self.leave(code / 2, Outcome::Expired);
            }
        }
        if let Some(at) = self.table.next_wake() {
            self.driver.wake_for_agenda(at);
        }
    }

    fn join(&mut self, member: u32) {
        let entry = &mut self.table.members[member as usize];
        if entry.state != State::Waiting {
            return;
        }
        entry.state = State::Present;
        self.tally.joined += 1;
        self.enter(member);
    }

    /// Joins a present member over its present path, if it has one.
    fn enter(&mut self, member: u32) {
        let entry = &mut self.table.members[member as usize];
        let now = self.driver.net.now();
        self.tally.last_change = now;
        if entry.run == NONE {
            return;
        }
        let path = self.driver.net.path(entry.run);
        let delay = path.iter().map(|link| self.wires[*link as usize].delay).sum();
        let places = path.iter().map(|link| self.driver.place(*link));
        entry.fair = self.oracle.add(places, entry.cap());
        let (run, demand) = (entry.run, entry.demand());
        if let Some(meter) = self.meter(member) {
            meter.start(now, delay);
        }
        self.driver.join(run, demand);
    }

    /// Removes a present member from its path.
    fn exit(&mut self, member: u32) {
        let entry = &mut self.table.members[member as usize];
        self.tally.last_change = self.driver.net.now();
        if entry.fair != NONE {
            self.oracle.remove(entry.fair);
            entry.fair = NONE;
        }
        if entry.run != NONE {
            self.driver.leave(entry.run);
        }
    }

    fn leave(&mut self, member: u32, outcome: Outcome) {
        let now = self.driver.net.now();
        let entry = &mut self.table.members[member as usize];
        let state = std::mem::replace(&mut entry.state, State::Left);
        if state == State::Left {
            return;
        }
        entry.leave = now.as_nanos();
        if outcome != Outcome::Completed {
            self.unfinished -= 1;
        }
        if state == State::Present {
            self.exit(member);
        }
        if outcome != Outcome::Completed
            && let Some(meter) = self.meter(member)
        {
            meter.end(now, outcome);
        }
    }

    fn delivered(&mut self, member: u32) {
        let now = self.driver.net.now();
        let entry = &mut self.table.members[member as usize];
        if entry.completed == NEVER && entry.size != NEVER && entry.state == State::Left {
            entry.completed = now.as_nanos();
            self.tally.completed += 1;
            self.unfinished = self.unfinished.saturating_sub(1);
            if let Some(meter) = self.meter(member) {
                meter.end(now, Outcome::Completed);
            }
        }
    }

    fn meter(&mut self, member: u32) -> Option<&mut Meter> {
        let at = (member as usize).checked_sub(self.table.flows)?;
        self.meters.get_mut(at)
    }

    /// Passes new rates of flows to their meters.
    fn meter_rates(&mut self) {
        let mut rated = std::mem::take(&mut self.driver.rated);
        for (at, member, rate) in rated.drain(..) {
            if let Some(meter) = self.meter(member) {
                meter.set_rate(at, rate);
            }
        }
        self.driver.rated = rated;
    }

    /// Memory of sessions: state machines, paths, control packets and table entries, without links
    /// and data in flight.
    fn session_bytes(&self) -> u64 {
        self.driver.session_memory() + self.table.memory()
    }
}

impl<R: RateController> Simulation<R> {
    /// The results of rate control so far.
    fn summary(&self) -> RateControl {
        let tally = &self.tally;
        let links = self.driver.links() as u64;
        let ([numbers, bytes], [numbers_max, bytes_max]) = self.driver.state();
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        let [control, data] = self.levels.totals();
        let present = self.table.members.iter().filter(|m| m.state == State::Present);
        RateControl {
            protocol: self.protocol.to_owned(),
            joined: tally.joined,
            completed: tally.completed,
            present: present.count() as u64,
            rerouted: tally.rerouted,
            error: tally.error,
            last_change_s: tally.last_change.as_secs_f64(),
            convergence_s: tally
                .settled
                .map(|since| since.max(tally.last_change).since(tally.last_change).as_secs_f64()),
            queue_max_packets: tally.queue_packets,
            queue_max_bytes: tally.queue_bytes,
            control_share: mean(control, control + data),
            lost: self.driver.lost,
            links,
            link_numbers_mean: mean(numbers, links),
            link_numbers_max: numbers_max,
            link_bytes_mean: mean(bytes, links),
            link_bytes_max: bytes_max,
            packet_bytes: size_of::<R::Packet>() as u64,
            session_bytes: mean(self.session_bytes(), self.table.members.len() as u64),
            oracle_s: self.oracle.spent().as_secs_f64(),
        }
    }

    fn rows(&self) -> Vec<SessionRow> {
        let now = self.driver.net.now().as_nanos();
        let past = |at: u64| (at <= now).then(|| Time::from_nanos(at));
        let row = |member: &super::table::Member| {
            let path = if member.run == NONE { &[] } else { self.driver.net.path(member.run) };
            let both = |link: &u32| {
                let [there, back] = [*link, *link ^ 1].map(|link| self.wires[link as usize].delay);
                there + back
            };
            let rate = (member.run != NONE).then(|| self.driver.rate(member.run)).flatten();
            SessionRow {
                population: member.group,
                start: past(member.start).filter(|_| member.state != State::Waiting),
                left: past(member.leave).filter(|_| member.state == State::Left),
                size: (member.size != NEVER).then(|| Bytes::new(member.size)),
                completed: past(member.completed),
                rate: rate.map(Bandwidth::from_bits_per_sec),
                fair: (member.fair != NONE).then(|| {
                    Bandwidth::from_bits_per_sec(self.oracle.rate(member.fair).round() as u64)
                }),
                hops: path.len() as u8,
                rtt: path.iter().map(both).sum::<Span>(),
            }
        };
        self.table.members.iter().map(row).collect()
    }
}

impl<R: RateController> Components for Simulation<R> {
    /// The network orders wake-ups of sources after arrivals at the same time.
    #[inline]
    fn next_wakes(&self) -> NextWakes {
        let lab_event = self.events.front().map(|event| event.at);
        NextWakes { lab_event, ..NextWakes::default() }
    }

    #[inline]
    fn on_arrivals(&mut self, until: Time) -> bool {
        match self.driver.on_arrival(until) {
            None => return false,
            Some(Handled::Completely) => {}
            Some(Handled::Agenda) => self.agenda(),
            Some(Handled::Sent(member)) => self.leave(member, Outcome::Completed),
            Some(Handled::Delivered(member)) => self.delivered(member),
        }
        true
    }

    fn on_lab_event(&mut self, now: Time) {
        self.driver.net.advance_before(now);
        self.change();
    }
}

impl<R: RateController> Engine for Simulation<R> {
    fn now(&self) -> Time {
        self.driver.net.now()
    }

    fn is_done(&self) -> bool {
        self.unfinished == 0 && self.events.is_empty()
    }

    /// The network has already advanced: it handles events up to a time and stays there.
    fn reach(&mut self, _until: Time) {}

    fn events(&self) -> u64 {
        self.driver.net.events() + self.changes
    }

    fn packet_hops(&self) -> u64 {
        self.driver.net.packet_hops()
    }

    fn trace_hash(&self) -> u64 {
        self.driver.trace.hash()
    }

    fn memory(&self) -> u64 {
        let fair = self.table.members.len() as u64 * Oracle::SESSION;
        let network = self.driver.net.memory() - self.driver.net.session_memory();
        network + self.session_bytes() + self.driver.link_memory() + self.levels.memory() + fair
    }

    fn link_counters(&mut self, reported: &[bool]) -> Vec<(usize, LinkStats, QueueLevel)> {
        let mut links = Vec::new();
        self.levels.read(&mut self.driver.net, &self.wires, reported, &mut |at, stats, level| {
            links.push((at, stats, level));
        });
        links
    }

    fn sample(&mut self, sink: &mut dyn FnMut(FlowSample)) {
        self.meter_rates();
        let now = self.driver.net.now();
        for meter in &mut self.meters {
            meter.sample(now, self.last_sample).into_iter().for_each(&mut *sink);
        }
    }

    fn judge(&mut self) -> Option<ControlSample> {
        let now = self.driver.net.now();
        let interval = now.since(std::mem::replace(&mut self.last_sample, now));
        if !interval.is_positive() {
            return None;
        }
        let members = self.table.members.iter().filter(|member| member.fair != NONE);
        let driver = &self.driver;
        let judged =
            self.oracle.judge(members.map(|member| (member.fair, driver.rate(member.run))));
        if let Some(errors) = judged.source {
            self.tally.error = Some(errors.mean_abs);
            if errors.mean_abs < CONVERGED {
                self.tally.settled.get_or_insert(now);
            } else {
                self.tally.settled = None;
            }
        }
        let carried = self.levels.take();
        let packets = carried.queue_bytes.div_ceil(self.levels.packet());
        self.tally.queue_packets = self.tally.queue_packets.max(packets);
        self.tally.queue_bytes = self.tally.queue_bytes.max(carried.queue_bytes);
        Some(ControlSample {
            at: now,
            interval,
            sessions: judged.sessions,
            assigned: judged.assigned,
            source: judged.source,
            bottlenecks: judged.bottlenecks,
            bottleneck: judged.bottleneck,
            over: judged.over,
            queue_max_packets: packets,
            queue_max_bytes: Bytes::new(carried.queue_bytes),
            queue_max_time: carried.queue_time,
            control_bytes: Bytes::new(carried.control),
            data_bytes: Bytes::new(carried.data),
        })
    }

    fn happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }

    fn stop(&mut self) {
        let now = self.driver.net.now();
        for meter in &mut self.meters {
            meter.end(now, Outcome::Stopped);
        }
    }

    fn control(&self) -> Option<(RateControl, Vec<String>, Vec<SessionRow>)> {
        Some((self.summary(), self.table.names.clone(), self.rows()))
    }

    fn warnings(&self, plan: &Plan) -> Vec<String> {
        let warn = |(link, by): (LinkId, u64)| {
            let (name, by) = (&plan.links[link.index()].name, Bytes::new(by));
            format!(
                "queues are unlimited under rate control: the queue of link `{name}` exceeded \
                 the lab's limit by {by}"
            )
        };
        self.levels.exceeded().map(warn).into_iter().collect()
    }

    fn results(&mut self) -> Vec<FlowResult> {
        self.meter_rates();
        let now = self.driver.net.now();
        let meters = std::mem::take(&mut self.meters).into_iter();
        let mut results: Vec<FlowResult> = meters.map(|meter| meter.into_result(now)).collect();
        results.sort_by_key(|result| result.id);
        results
    }
}

/// A link's rate for the oracle, bit/s.
fn oracle_capacity(rate: Bandwidth) -> f64 {
    if rate.is_positive() { rate.bits_per_sec() as f64 } else { f64::INFINITY }
}
