//! Resources that hosts need, and the maximum traffic that they send.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bandwidth, Bytes, IfaceId, NodeId, Span};
use fabric::{LinkConfig, Rate, Sharing};
use lab::plan::{Action, Command, Family, Flow, Model, Plan, Traffic};
use lab::routes::Routes;

use super::atoms::is_placed;

/// No limit, in bit/s; larger sums of rates are capped to this.
pub(super) const NO_LIMIT: u64 = 1 << 60;
/// A TCP receiver acknowledges every other segment with a packet of about 90 bytes.
const ACK_SHARE: u64 = 20;
/// IPv4 and UDP, or IPv6 and UDP.
const UDP_HEADERS: [Bytes; 2] = [Bytes::new(28), Bytes::new(48)];
/// IPv4 and TCP with time stamps.
const TCP_HEADERS: Bytes = Bytes::new(52);

#[derive(Clone, Debug, Default)]
pub(super) struct HostDemand {
    pub(super) cpus: f64,
    pub(super) memory: Bytes,
    pub(super) programs: u32,
    /// Maximum rate out of the host and into it, bit/s; [`NO_LIMIT`] if only links bound it.
    pub(super) send: u64,
    pub(super) receive: u64,
    /// Packets/s of declared flows, above the number of full-size packets of the same rate.
    pub(super) small_packets: f64,
}

/// Maximum rates of a declared flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowDemand {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// Maximum rates on the wire in both directions, bit/s; [`NO_LIMIT`] if unbounded.
    pub(super) there: u64,
    pub(super) back: u64,
    /// Expected rate of both directions together, bit/s.
    pub(super) expected: u64,
    /// Emulated one-way delay.
    pub(super) delay: Option<Span>,
}

#[derive(Debug)]
pub(super) struct Demand {
    /// By node; empty for nodes that every machine emulates.
    pub(super) hosts: Vec<HostDemand>,
    /// By [`base::FlowId`].
    pub(super) flows: Vec<FlowDemand>,
    /// Highest rate of each link direction during the run.
    pub(super) links: Vec<[u64; 2]>,
    /// Whether the lab has declared flows only and no programs.
    pub(super) is_declared: bool,
    /// Pairs of a program's host and a host that its command names, with the emulated delay.
    pub(super) named: Vec<(NodeId, NodeId, Option<Span>)>,
}

impl Demand {
    pub(super) fn of(plan: &Plan) -> Self {
        let links = link_rates(plan);
        let routes = Routes::compute(plan, &vec![true; plan.links.len()]);
        let paths = Paths { plan, routes: &routes, links: &links, fixed: has_fixed_routes(plan) };
        let flows: Vec<FlowDemand> = plan.flows.iter().map(|flow| paths.flow(flow)).collect();
        let mut hosts = vec![HostDemand::default(); plan.nodes.len()];
        for (node, wishes) in &plan.cluster.nodes {
            let host = &mut hosts[node.index()];
            host.cpus = wishes.cpus.unwrap_or_default();
            host.memory = wishes.memory.unwrap_or_default();
        }
        for (flow, demand) in plan.flows.iter().zip(&flows) {
            let extra = small_packets(plan, flow);
            for (node, send, receive) in
                [(demand.from, demand.there, demand.back), (demand.to, demand.back, demand.there)]
            {
                let host = &mut hosts[node.index()];
                host.send = host.send.saturating_add(send).min(NO_LIMIT);
                host.receive = host.receive.saturating_add(receive).min(NO_LIMIT);
                host.small_packets += extra;
            }
        }
        for program in &plan.programs {
            let host = &mut hosts[program.node.index()];
            host.programs += 1;
            host.send = NO_LIMIT;
        }
        let is_declared = plan.programs.is_empty();
        if !is_declared {
            // A program may send to any host.
            for (index, host) in hosts.iter_mut().enumerate() {
                if is_placed(plan, NodeId::at(index)) {
                    host.receive = NO_LIMIT;
                }
            }
        }
        let named = named(plan, &paths);
        Self { hosts, flows, links, is_declared, named }
    }
}

/// Pairs of a program's host and a host that its command names.
fn named(plan: &Plan, paths: &Paths<'_>) -> Vec<(NodeId, NodeId, Option<Span>)> {
    let names: BTreeMap<&str, NodeId> = (0..plan.nodes.len())
        .map(NodeId::at)
        .filter(|node| is_placed(plan, *node))
        .map(|node| (plan.nodes[node.index()].name.as_str(), node))
        .collect();
    let mut pairs = BTreeSet::new();
    for program in &plan.programs {
        let (first, words) = match &program.command {
            Command::Shell(line) => ("", std::slice::from_ref(line)),
            Command::Exec(words) => (words.first().map_or("", String::as_str), &words[..]),
        };
        let texts = words.iter().chain(program.env.values()).filter(|word| *word != first);
        for word in texts.flat_map(|text| text.split(|c: char| !(c.is_alphanumeric() || c == '-')))
        {
            if let Some(other) = names.get(word).filter(|other| **other != program.node) {
                pairs.insert((program.node, *other));
            }
        }
    }
    pairs.into_iter().map(|(from, to)| (from, to, paths.path(from, to).1)).collect()
}

/// The highest rate of each direction, at the start or after an event.
fn link_rates(plan: &Plan) -> Vec<[u64; 2]> {
    // Without sharing, each flow has its path's rate, and links do not bound the sum.
    if matches!(plan.model, Model::Collapsed(law) if law.sharing == Sharing::None) {
        return vec![[NO_LIMIT; 2]; plan.links.len()];
    }
    let mut rates: Vec<[u64; 2]> = plan
        .links
        .iter()
        .map(|link| [rate(&link.directions[0]), rate(&link.directions[1])])
        .collect();
    for event in &plan.events {
        if let Action::Set { link, direction, config } = &event.action {
            let known = &mut rates[link.index()][direction.index()];
            *known = (*known).max(rate(config));
        }
    }
    rates
}

fn rate(config: &LinkConfig) -> u64 {
    match &config.rate {
        Rate::Unlimited => NO_LIMIT,
        Rate::Constant(rate) => rate.bits_per_sec().min(NO_LIMIT),
        Rate::Trace(trace) => trace.mean().bits_per_sec().min(NO_LIMIT),
    }
}

/// Whether no event changes a path.
fn has_fixed_routes(plan: &Plan) -> bool {
    let moves = |action: &Action| {
        matches!(
            action,
            Action::LinkDown(_) | Action::LinkUp(_) | Action::NodeDown(_) | Action::NodeUp(_)
        ) || matches!(action, Action::Set { link, config, direction }
            if plan.links[link.index()].directions[direction.index()].delay != config.delay)
    };
    plan.links.iter().all(|link| link.up) && !plan.events.iter().any(|event| moves(&event.action))
}

/// Packets/s of a flow above the number of full-size packets of the same rate, both directions.
fn small_packets(plan: &Plan, flow: &Flow) -> f64 {
    let Traffic::Paced { rate, packet, .. } = &flow.traffic else { return 0.0 };
    let packets = rate.bits_per_sec() as f64 / (packet.count().max(1) as f64 * 8.0);
    let wire = datagram(plan, flow, *packet).count() as f64;
    packets * (1.0 - wire / full_size(plan).count() as f64).max(0.0)
}

fn datagram(plan: &Plan, flow: &Flow, payload: Bytes) -> Bytes {
    let headers = UDP_HEADERS[usize::from(flow.family == Family::V6)];
    payload.saturating_add(headers).saturating_add(plan.overhead)
}

/// A packet of 1500 bytes on the wire.
pub(super) fn full_size(plan: &Plan) -> Bytes {
    Bytes::new(1500).saturating_add(plan.overhead)
}

struct Paths<'a> {
    plan: &'a Plan,
    routes: &'a Routes,
    links: &'a [[u64; 2]],
    fixed: bool,
}

impl Paths<'_> {
    fn flow(&self, flow: &Flow) -> FlowDemand {
        let (there, delay) = self.path(flow.from, flow.to);
        let (back, delay_back) = self.path(flow.to, flow.from);
        let round_trip = delay.unwrap_or_default().saturating_add(delay_back.unwrap_or_default());
        let round_trip = if self.fixed { round_trip } else { Span::ZERO };
        let (most_there, most_back) = match &flow.traffic {
            Traffic::Paced { rate, packet, .. } => {
                (scaled(*rate, datagram(self.plan, flow, *packet), *packet).min(there), 0)
            }
            Traffic::Bulk { rate, .. } => {
                let segment = Bytes::new(1500).saturating_sub(TCP_HEADERS);
                let rate = rate.map_or(NO_LIMIT, |r| scaled(r, full_size(self.plan), segment));
                let there = there.min(rate);
                (there, acknowledging(there).min(back))
            }
            Traffic::Transfers { .. } => (there, acknowledging(there).min(back)),
            Traffic::Queries(spec) => {
                // One request at a time.
                let period = spec.interval.max(round_trip);
                let most = |payload: Bytes| per_period(datagram(self.plan, flow, payload), period);
                (there.min(most(spec.request)), back.min(most(spec.response)))
            }
            Traffic::Rpc { .. } | Traffic::Requests { .. } => (there, back),
            Traffic::Controlled { demand, .. } => {
                (there.min(demand.map_or(NO_LIMIT, Bandwidth::bits_per_sec)), 0)
            }
        };
        let most = most_there.saturating_add(most_back).min(NO_LIMIT);
        FlowDemand {
            from: flow.from,
            to: flow.to,
            there: most_there,
            back: most_back,
            expected: self.expected(flow, round_trip).min(most),
            delay,
        }
    }

    /// The lowest rate of the path and its delay; `None` without a path.
    fn path(&self, from: NodeId, to: NodeId) -> (u64, Option<Span>) {
        let Some(iface) = self.plan.nodes[to.index()].ifaces.first() else { return (0, None) };
        let mut several = false;
        let path = self.routes.path(from, *iface, |_, paths| {
            several = true;
            paths[0]
        });
        let Some(path) = path else { return (self.outside(from, to), None) };
        let ends = |iface: &IfaceId| {
            let iface = &self.plan.ifaces[iface.index()];
            (iface.link.index(), iface.sends.index())
        };
        let delays = path
            .iter()
            .map(ends)
            .map(|(link, direction)| self.plan.links[link].directions[direction].delay);
        let delay = delays.fold(Span::ZERO, Span::saturating_add);
        if several || !self.fixed {
            return (self.outside(from, to), Some(delay));
        }
        let rates = path.iter().map(ends).map(|(link, direction)| self.links[link][direction]);
        (rates.min().unwrap_or(NO_LIMIT), Some(delay))
    }

    /// The sum of the rates of the links at both ends.
    fn outside(&self, from: NodeId, to: NodeId) -> u64 {
        let sum = |node: NodeId, towards: usize| {
            let ifaces = self.plan.nodes[node.index()].ifaces.iter();
            let rates = ifaces.map(|id| {
                let iface = &self.plan.ifaces[id.index()];
                self.links[iface.link.index()][iface.sends.index() ^ towards]
            });
            rates.fold(0u64, |sum, rate| sum.saturating_add(rate).min(NO_LIMIT))
        };
        sum(from, 0).min(sum(to, 1))
    }

    /// Expected rate; [`NO_LIMIT`] for a flow that uses all available capacity.
    fn expected(&self, flow: &Flow, round_trip: Span) -> u64 {
        let duration = flow.duration.unwrap_or(self.plan.duration).max(Span::from_nanos(1));
        let many = |bytes: f64, count: u64| {
            per_period(Bytes::new((bytes * count as f64) as u64), duration)
        };
        match &flow.traffic {
            Traffic::Bulk { size: Some(size), .. } => per_period(*size, duration),
            Traffic::Transfers { spec, .. } => {
                spec.count.map_or(NO_LIMIT, |count| many(spec.sizes.mean(), count))
            }
            Traffic::Rpc { spec, .. } => {
                let both = spec.request.mean() + spec.response.mean();
                let period = spec.interval.max(round_trip);
                let most = per_period(Bytes::new(both as u64), period);
                spec.count.map_or(most, |count| many(both, count).min(most))
            }
            Traffic::Requests { spec, .. } => {
                let both = spec.request.mean() + spec.response.mean();
                spec.count.map_or(NO_LIMIT, |count| many(both, count))
            }
            _ => NO_LIMIT,
        }
    }
}

/// A payload rate on the wire.
fn scaled(rate: Bandwidth, wire: Bytes, payload: Bytes) -> u64 {
    let bits = u128::from(rate.bits_per_sec()) * u128::from(wire.count());
    let bits = bits.div_ceil(u128::from(payload.count().max(1)));
    u64::try_from(bits).unwrap_or(NO_LIMIT).min(NO_LIMIT)
}

fn per_period(amount: Bytes, period: Span) -> u64 {
    let bits = u128::from(amount.count()) * 8 * 1_000_000_000;
    let rate = bits.checked_div(u128::from(period.as_nanos())).unwrap_or(u128::from(NO_LIMIT));
    u64::try_from(rate).unwrap_or(NO_LIMIT).min(NO_LIMIT)
}

fn acknowledging(rate: u64) -> u64 {
    if rate >= NO_LIMIT { NO_LIMIT } else { rate.div_ceil(ACK_SHARE) }
}
