//! A lab of rate-controlled sessions under one protocol.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Bandwidth, Bytes, LinkId, NodeId, Span, Time};
use fabric::fifo::{FifoLink, FifoNetwork};
use fabric::{LinkStats, QueueLevel};
use lab::plan::{Event, Plan};
use lab::routes::{Pair, Paths, flow_hash};
use outcome::{FlowResult, Outcome};
use ratecontrol::RateController;
use record::FlowSample;
use record::control::{ControlSample, SessionRow};
use record::run::RateControl;

use super::cast::{Cast, NEVER, NONE, State};
use super::driver::{Driver, News};
use super::levels::Levels;
use super::meter::Meter;
use super::oracle::Oracle;
use super::{Cue, Engine};
use crate::Result;

mod change;

/// Mean errors below this count as converged.
const CONVERGED: f64 = 0.01;

/// The driver and what it is driven with.
pub(super) struct Play<R: RateController> {
    driver: Driver<R>,
    cast: Cast,
    oracle: Oracle,
    levels: Levels,
    meters: Vec<Meter>,
    /// By directed link, as they are now.
    wires: Vec<FifoLink>,
    /// The canonical plan, if events change its network.
    plan: Option<Arc<Plan>>,
    events: VecDeque<Event>,
    happened: Vec<Event>,
    up: Vec<bool>,
    node_up: Vec<bool>,
    /// Members that have not come to their end.
    unfinished: u64,
    changes: u64,
    protocol: &'static str,
    /// Whether links forget by themselves what no packet tells them of any more.
    forgets: bool,
    tally: Counts,
    last_sample: Time,
}

/// What [`RateControl`] tells.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    joined: u64,
    completed: u64,
    rerouted: u64,
    last_change: Time,
    /// The first sample since which errors have been small.
    settled: Option<Time>,
    error: Option<f64>,
    queue_packets: u64,
    queue_bytes: u64,
}

impl<R: RateController> Play<R> {
    pub(super) fn try_new(cue: Cue) -> Result<Self> {
        let Cue { plan, flows, flow_ids, link_ids, control } = cue;
        let wires = super::wires::wires(&plan)?;
        let cast = Cast::new(&plan, &flows);
        let (packet, data) = super::wires::data(&plan, &cast)?;
        let net = FifoNetwork::try_new(&wires, data)?;
        let settings = &control.settings;
        let mut driver = Driver::try_new(settings, net, wires.len(), (plan.seed, control.loss))?;
        driver.watch(cast.flows as u32);
        let meters = flows
            .iter()
            .zip(flow_ids)
            .map(|(flow, id)| Meter::new(id, flow, plan.overhead))
            .collect();
        let mut play = Self {
            driver,
            oracle: Oracle::new(),
            levels: Levels::new(&plan, link_ids, packet),
            meters,
            up: plan.links.iter().map(|link| link.up).collect(),
            node_up: vec![true; plan.nodes.len()],
            unfinished: cast.members.len() as u64,
            cast,
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
        for (link, up) in play.up.iter().enumerate() {
            if !up {
                play.driver.net.set_up(base::LinkId::at(link), false);
            }
        }
        play.place(&plan)?;
        if !play.events.is_empty() {
            play.plan = Some(Arc::new(plan));
        }
        play.driver.start();
        if let Some(at) = play.cast.due() {
            play.driver.wake_for_agenda(at);
        }
        Ok(play)
    }

    /// Gives every member its first path.
    fn place(&mut self, plan: &Plan) -> Result<()> {
        let everyone: Vec<u32> = (0..self.cast.members.len() as u32).collect();
        let found = self.paths(plan, &self.up, &everyone);
        self.driver.reserve(everyone.len(), found.iter().map(<[u32]>::len).sum());
        let mut astray = Vec::new();
        for (member, path) in everyone.iter().zip(found.iter()) {
            if path.is_empty() {
                astray.push(*member);
            } else {
                self.give_path(*member, path)?;
            }
        }
        if astray.is_empty() {
            return Ok(());
        }
        // A way may open when a link comes up; without any there is nothing to wait for.
        let all = vec![true; plan.links.len()];
        let ways = self.paths(plan, &all, &astray);
        let lost = astray.iter().zip(ways.iter()).find(|(_, way)| way.is_empty());
        lost.map_or(Ok(()), |(member, _)| {
            let member = &self.cast.members[*member as usize];
            let name = |node: NodeId| plan.nodes[node.index()].name.clone();
            Err(crate::Error::NoRoute {
                flow: self.cast.names[member.group as usize].clone(),
                from: name(member.from),
                to: name(member.to),
            })
        })
    }

    /// The paths of members while link *l* is in service iff `up[l]`; empty where there is none.
    fn paths(&self, plan: &Plan, up: &[bool], members: &[u32]) -> Paths {
        let pair = |member: &u32| {
            let member = &self.cast.members[*member as usize];
            let [from, to] = [member.from, member.to].map(|node| &plan.nodes[node.index()].name);
            let hash = flow_hash(from, to, &self.cast.names[member.group as usize]);
            Pair { from: member.from, to: member.to, hash }
        };
        let pairs: Vec<Pair> = members.iter().map(pair).collect();
        Paths::compute(plan, up, &pairs)
    }

    /// A new run for a member over a path.
    fn give_path(&mut self, member: u32, path: &[u32]) -> Result<u32> {
        for link in path {
            let rate = self.wires[*link as usize].rate;
            if self.driver.machine(*link, rate)? {
                self.oracle.add_link(oracle_capacity(rate));
                self.levels.cross(*link);
            }
        }
        let run = self.driver.add_run(member, path)?;
        let entry = &mut self.cast.members[member as usize];
        if entry.size != NEVER {
            self.driver.net.set_amount(run, Bytes::new(entry.size));
        }
        entry.run = run;
        Ok(run)
    }

    /// Joins and leaves that are due.
    fn agenda(&mut self) {
        let now = self.driver.net.now();
        while self.cast.due().is_some_and(|at| at <= now) {
            let code = self.cast.agenda[self.cast.next];
            self.cast.next += 1;
            if code.is_multiple_of(2) {
                self.join(code / 2);
            } else {
                self.leave(code / 2, Outcome::Expired);
            }
        }
        if let Some(at) = self.cast.due() {
            self.driver.wake_for_agenda(at);
        }
    }

    fn join(&mut self, member: u32) {
        let entry = &mut self.cast.members[member as usize];
        if entry.state != State::Waiting {
            return;
        }
        entry.state = State::Present;
        self.tally.joined += 1;
        self.enter(member);
    }

    /// A member that is present joins over its present path, if it has one.
    fn enter(&mut self, member: u32) {
        let entry = &mut self.cast.members[member as usize];
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

    /// A member that is present leaves its path.
    fn exit(&mut self, member: u32) {
        let entry = &mut self.cast.members[member as usize];
        self.tally.last_change = self.driver.net.now();
        if entry.fair != NONE {
            self.oracle.remove(entry.fair);
            entry.fair = NONE;
        }
        if entry.run != NONE {
            self.driver.leave(entry.run);
        }
    }

    /// A member leaves for good.
    fn leave(&mut self, member: u32, outcome: Outcome) {
        let now = self.driver.net.now();
        let entry = &mut self.cast.members[member as usize];
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
        let entry = &mut self.cast.members[member as usize];
        if entry.completed == NEVER && entry.size != NEVER && entry.state == State::Left {
            entry.completed = now.as_nanos();
            self.tally.completed += 1;
            self.unfinished = self.unfinished.saturating_sub(1);
            if let Some(meter) = self.meter(member) {
                meter.end(now, Outcome::Completed);
            }
        }
    }

    /// The account of a member that is a flow.
    fn meter(&mut self, member: u32) -> Option<&mut Meter> {
        let at = (member as usize).checked_sub(self.cast.flows)?;
        self.meters.get_mut(at)
    }

    /// Enters the rates that flows were given into their accounts.
    fn meter_rates(&mut self) {
        let mut rated = std::mem::take(&mut self.driver.rated);
        for (at, member, rate) in rated.drain(..) {
            if let Some(meter) = self.meter(member) {
                meter.set_rate(at, rate);
            }
        }
        self.driver.rated = rated;
    }

    /// What sessions take: machines, paths, control packets, and what is known of them. Links and
    /// data under way are not counted.
    fn session_bytes(&self) -> u64 {
        self.driver.session_memory() + self.cast.memory()
    }
}

impl<R: RateController> Engine for Play<R> {
    fn now(&self) -> Time {
        self.driver.net.now()
    }

    fn is_done(&self) -> bool {
        self.unfinished == 0 && self.events.is_empty()
    }

    fn advance_at_most(&mut self, until: Time, mut turns: u64) -> bool {
        while !self.is_done() {
            let event = self.events.front().map(|event| event.at).filter(|at| *at <= until);
            // Events of the lab come before all else at their time.
            let limit = event.map_or(until, |at| Time::from_nanos(at.as_nanos().saturating_sub(1)));
            let (there, news) = match event {
                Some(Time::ZERO) => (true, None),
                _ => self.driver.advance(limit, &mut turns),
            };
            match (news, event) {
                (None, Some(at)) if there => {
                    self.driver.net.advance_before(at);
                    self.change();
                }
                (None, _) => return there,
                (Some(News::Agenda), _) => self.agenda(),
                (Some(News::Sent(member)), _) => self.leave(member, Outcome::Completed),
                (Some(News::Delivered(member)), _) => self.delivered(member),
            }
        }
        true
    }

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
        let fair = self.cast.members.len() as u64 * Oracle::SESSION;
        let network = self.driver.net.memory() - self.driver.net.session_memory();
        network + self.session_bytes() + self.driver.link_memory() + self.levels.memory() + fair
    }

    fn levels(&mut self, told: &[bool], sink: &mut dyn FnMut(usize, LinkStats, QueueLevel)) {
        self.levels.read(&mut self.driver.net, &self.wires, told, sink);
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
        let members = self.cast.members.iter().filter(|member| member.fair != NONE);
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

    fn happened(&mut self, sink: &mut dyn FnMut(Event)) {
        self.happened.drain(..).for_each(sink);
    }

    fn stop(&mut self) {
        let now = self.driver.net.now();
        for meter in &mut self.meters {
            meter.end(now, Outcome::Stopped);
        }
    }

    fn summary(&self) -> RateControl {
        let tally = &self.tally;
        let links = self.driver.links() as u64;
        let ([numbers, bytes], [numbers_max, bytes_max]) = self.driver.state();
        let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        let [control, data] = self.levels.totals();
        let present = self.cast.members.iter().filter(|m| m.state == State::Present);
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
            session_bytes: mean(self.session_bytes(), self.cast.members.len() as u64),
            oracle_s: self.oracle.spent().as_secs_f64(),
        }
    }

    fn sessions(&self) -> (Vec<String>, Vec<SessionRow>) {
        let now = self.driver.net.now().as_nanos();
        let past = |at: u64| (at <= now).then(|| Time::from_nanos(at));
        let row = |member: &super::cast::Member| {
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
        (self.cast.names.clone(), self.cast.members.iter().map(row).collect())
    }

    fn exceeded(&self) -> Option<(LinkId, Bytes)> {
        self.levels.exceeded().map(|(link, by)| (link, Bytes::new(by)))
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

/// A link's rate as the oracle takes it, bit/s.
fn oracle_capacity(rate: Bandwidth) -> f64 {
    if rate.is_positive() { rate.bits_per_sec() as f64 } else { f64::INFINITY }
}
