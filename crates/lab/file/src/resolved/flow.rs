//! Writes `[[flow]]`.

use base::{Bytes, Ratio};
use ratecontrol::Protocol;
use workload::{Arrivals, DatagramTrace, Lengths, OnOff, Pattern, Sizes, Think};

use super::{Pair, list, node_name, quantity, table, text};
use crate::fields::{ARRIVALS, DATAGRAMS, FLOW, PATTERN, SIZES, THINK};
use crate::plan::{Flow, Multipath, MultipathKind, Path, Pause, Plan, Tcp, Traffic};

/// A flow's keys and values.
pub(super) fn pairs(plan: &Plan, flow: &Flow) -> Vec<Pair> {
    let mut pairs = vec![
        ("name", text(&flow.name)),
        ("from", text(node_name(plan, flow.from))),
        ("to", text(node_name(plan, flow.to))),
    ];
    pairs.extend(traffic(&flow.traffic, plan.control.as_ref().map(|control| control.protocol)));
    pairs.extend(flow.multipath().into_iter().flat_map(|multipath| paths(plan, multipath)));
    pairs.push(FLOW.family.pair(flow.family));
    pairs.push(("start", quantity(flow.start)));
    pairs.extend(flow.duration.map(|duration| FLOW.duration.pair(duration)));
    pairs.push(FLOW.dscp.pair(flow.dscp));
    pairs
}

fn traffic(traffic: &Traffic, protocol: Option<Protocol>) -> Vec<Pair> {
    let datagrams = matches!(
        traffic,
        Traffic::Paced { .. } | Traffic::Controlled { .. } | Traffic::Queries { .. }
    );
    let multipath = traffic.tcp().and_then(|tcp| tcp.multipath.as_ref());
    let transport = match multipath {
        Some(multipath) => multipath.kind.name(),
        None if datagrams => "udp",
        None => "tcp",
    };
    let mut pairs = vec![("transport", text(transport))];
    let number = |count: &Option<u64>| count.map(|count| FLOW.count.pair(count));
    match traffic {
        Traffic::Bulk { size, rate, pause, tcp, streams, message } => {
            pairs.extend(size.map(|size| ("size", quantity(size))));
            pairs.extend(rate.map(|rate| FLOW.rate.pair(rate)));
            pairs.extend(pause.as_ref().map(self::pause));
            if multipath.is_none() {
                pairs.push(FLOW.streams.pair(streams));
            }
            pairs.extend(message.map(|message| FLOW.message.pair(message)));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Transfers { spec, tcp } => {
            pairs.push(("size", sizes(&spec.sizes)));
            pairs.push(arrivals(&spec.arrivals));
            pairs.extend(number(&spec.count));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Paced { rate, packet, size, pattern } => {
            // A trace contains the rate.
            if !matches!(pattern, Pattern::Trace(_)) {
                pairs.push(FLOW.rate.pair(rate));
                pairs.push(FLOW.packet.pair(packet));
            }
            pairs.extend(size.map(|size| ("size", quantity(size))));
            pairs.push(("pattern", self::pattern(pattern)));
        }
        Traffic::Controlled { demand, packet, size } => {
            pairs.extend(protocol.map(|protocol| ("control", text(protocol.name()))));
            pairs.extend(demand.map(|demand| FLOW.rate.pair(demand)));
            pairs.push(FLOW.packet.pair(packet));
            pairs.extend(size.map(|size| ("size", quantity(size))));
        }
        Traffic::Rpc { spec, tcp } => {
            pairs.push(("request", sizes(&spec.request)));
            pairs.push(("response", sizes(&spec.response)));
            pairs.extend(number(&spec.count));
            pairs.push(FLOW.interval.pair(spec.interval));
            pairs.push(("think", think(spec.think)));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Requests { spec, tcp } => {
            pairs.push(("request", sizes(&spec.request)));
            pairs.push(("response", sizes(&spec.response)));
            pairs.push(arrivals(&spec.arrivals));
            pairs.extend(number(&spec.count));
            pairs.push(FLOW.streams.pair(spec.streams));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Queries(spec) => {
            pairs.push(("request", quantity(spec.request)));
            pairs.push(("response", quantity(spec.response)));
            pairs.extend(number(&spec.count));
            pairs.push(FLOW.interval.pair(spec.interval));
            pairs.push(("think", think(spec.think)));
            pairs.push(FLOW.timeout.pair(spec.timeout));
        }
    }
    pairs
}

fn paths(plan: &Plan, multipath: &Multipath) -> Vec<Pair> {
    let name = |path: &Path| text(&plan.links[plan.path_link(path).index()].name);
    let backup = || multipath.paths.iter().filter(|path| path.backup);
    let mut pairs = vec![("via", list(multipath.paths.iter().map(name)))];
    if backup().next().is_some() {
        pairs.push(("backup", list(backup().map(name))));
    }
    pairs.push(FLOW.subflows.pair(multipath.subflows));
    if multipath.kind == MultipathKind::Mctcp {
        pairs.push(FLOW.scheduler.pair(multipath.scheduler));
    }
    pairs
}

fn arrivals(arrivals: &Arrivals) -> Pair {
    match arrivals {
        Arrivals::Poisson(gap) => ("arrivals", table(&[ARRIVALS.poisson.pair(gap)])),
        Arrivals::Every(gap) => ("arrivals", table(&[ARRIVALS.every.pair(gap)])),
        Arrivals::Closed(think) => ("think", self::think(*think)),
    }
}

fn pause(pause: &Pause) -> Pair {
    ("pause", format!("[{}, {}]", quantity(pause.from), quantity(pause.until)))
}

fn tcp(tcp: &Tcp) -> Vec<Pair> {
    let mut pairs = vec![FLOW.ecn.pair(tcp.ecn)];
    pairs.extend(tcp.control.as_ref().map(|name| ("control", text(name))));
    pairs.extend(tcp.window.map(|window| FLOW.window.pair(window)));
    pairs
}

fn think(think: Think) -> String {
    match think {
        Think::Fixed(span) => quantity(span),
        Think::Exponential(mean) => table(&[THINK.exponential.pair(mean)]),
    }
}

pub(super) fn sizes(sizes: &Sizes) -> String {
    match sizes {
        Sizes::Fixed(size) => quantity(size),
        Sizes::Exponential(mean) => table(&[SIZES.exponential.pair(mean)]),
        Sizes::Pareto { mean, shape_milli, limit } => {
            let mut pairs = vec![SIZES.pareto.pair(mean), ("shape", shape(*shape_milli))];
            pairs.extend(limit.map(|limit| SIZES.limit.pair(limit)));
            table(&pairs)
        }
        Sizes::Table(points) => {
            let point = |(size, share): &(Bytes, u32)| {
                let share = Ratio::from_parts_per_billion(u64::from(*share));
                list([quantity(size), quantity(share)])
            };
            table(&[("table", list(points.points.iter().map(point)))])
        }
    }
}

/// A tail index.
fn shape(milli: u32) -> String {
    format!("{}.{:03}", milli / 1000, milli % 1000)
}

fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Constant => text("constant"),
        Pattern::Poisson => text("poisson"),
        Pattern::OnOff(OnOff { on, off, lengths }) => {
            let lengths = match lengths {
                Lengths::Pareto { shape_milli } => ("pareto", shape(*shape_milli)),
                other => PATTERN.exponential.pair(*other == Lengths::Exponential),
            };
            table(&[PATTERN.on.pair(on), PATTERN.off.pair(off), lengths])
        }
        Pattern::Trace(trace) => table(&[("trace", self::trace(trace))]),
    }
}

fn trace(trace: &DatagramTrace) -> String {
    let datagrams = trace.datagrams.iter().map(|(at, size)| list([quantity(at), quantity(size)]));
    table(&[("datagrams", list(datagrams)), DATAGRAMS.period.pair(trace.period)])
}
