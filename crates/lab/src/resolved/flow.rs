//! `[[flow]]`, written out.

use base::{Bytes, Ratio};
use ratecontrol::Protocol;
use transport::workload::{Arrivals, DatagramTrace, Pattern, Sizes, Think};

use super::{Pair, list, node_name, quantity, table, text};
use crate::plan::{Family, Flow, Multipath, MultipathKind, Path, Pause, Plan, Tcp, Traffic};

/// A flow's keys and values.
pub(super) fn pairs(plan: &Plan, flow: &Flow) -> Vec<Pair> {
    let mut pairs = vec![
        ("name", text(&flow.name)),
        ("from", text(node_name(plan, flow.from))),
        ("to", text(node_name(plan, flow.to))),
    ];
    pairs.extend(traffic(&flow.traffic, plan.control.as_ref().map(|control| control.protocol)));
    pairs.extend(flow.multipath().into_iter().flat_map(|multipath| paths(plan, multipath)));
    let family = match flow.family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    pairs.push(("family", text(family)));
    pairs.push(("start", quantity(flow.start)));
    pairs.extend(flow.duration.map(|duration| ("duration", quantity(duration))));
    pairs.push(("dscp", flow.dscp.to_string()));
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
    let number = |count: &Option<u64>| count.map(|count| ("count", count.to_string()));
    match traffic {
        Traffic::Bulk { size, rate, pause, tcp, streams, message } => {
            pairs.extend(size.map(|size| ("size", quantity(size))));
            pairs.extend(rate.map(|rate| ("rate", quantity(rate))));
            pairs.extend(pause.as_ref().map(self::pause));
            if multipath.is_none() {
                pairs.push(("streams", streams.to_string()));
            }
            pairs.extend(message.map(|message| ("message", quantity(message))));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Transfers { sizes, arrivals, count, tcp } => {
            pairs.push(("size", self::sizes(sizes)));
            pairs.push(self::arrivals(arrivals));
            pairs.extend(number(count));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Paced { rate, packet, size, pattern } => {
            // A trace has its own.
            if !matches!(pattern, Pattern::Trace(_)) {
                pairs.push(("rate", quantity(rate)));
                pairs.push(("packet", quantity(packet)));
            }
            pairs.extend(size.map(|size| ("size", quantity(size))));
            pairs.push(("pattern", self::pattern(pattern)));
        }
        Traffic::Controlled { demand, packet, size } => {
            pairs.extend(protocol.map(|protocol| ("control", text(protocol.name()))));
            pairs.extend(demand.map(|demand| ("rate", quantity(demand))));
            pairs.push(("packet", quantity(packet)));
            pairs.extend(size.map(|size| ("size", quantity(size))));
        }
        Traffic::Rpc { request, response, count, interval, think, tcp } => {
            pairs.push(("request", sizes(request)));
            pairs.push(("response", sizes(response)));
            pairs.extend(number(count));
            pairs.push(("interval", quantity(interval)));
            pairs.push(("think", self::think(*think)));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Requests { request, response, arrivals, count, streams, tcp } => {
            pairs.push(("request", sizes(request)));
            pairs.push(("response", sizes(response)));
            pairs.push(self::arrivals(arrivals));
            pairs.extend(number(count));
            pairs.push(("streams", streams.to_string()));
            pairs.extend(self::tcp(tcp));
        }
        Traffic::Queries { request, response, count, interval, think, timeout } => {
            pairs.push(("request", quantity(request)));
            pairs.push(("response", quantity(response)));
            pairs.extend(number(count));
            pairs.push(("interval", quantity(interval)));
            pairs.push(("think", self::think(*think)));
            pairs.push(("timeout", quantity(timeout)));
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
    pairs.push(("subflows", multipath.subflows.to_string()));
    if multipath.kind == MultipathKind::Mctcp {
        pairs.push(("scheduler", text(multipath.scheduler.name())));
    }
    pairs
}

fn arrivals(arrivals: &Arrivals) -> Pair {
    match arrivals {
        Arrivals::Poisson(gap) => ("arrivals", table(&[("poisson", quantity(gap))])),
        Arrivals::Every(gap) => ("arrivals", table(&[("every", quantity(gap))])),
        Arrivals::Closed(think) => ("think", self::think(*think)),
    }
}

fn pause(pause: &Pause) -> Pair {
    ("pause", format!("[{}, {}]", quantity(pause.from), quantity(pause.until)))
}

fn tcp(tcp: &Tcp) -> Vec<Pair> {
    let mut pairs = vec![("ecn", tcp.ecn.to_string())];
    pairs.extend(tcp.control.as_ref().map(|name| ("control", text(name))));
    pairs.extend(tcp.window.map(|window| ("window", quantity(window))));
    pairs
}

fn think(think: Think) -> String {
    match think {
        Think::Fixed(span) => quantity(span),
        Think::Exponential(mean) => table(&[("exponential", quantity(mean))]),
    }
}

pub(super) fn sizes(sizes: &Sizes) -> String {
    match sizes {
        Sizes::Fixed(size) => quantity(size),
        Sizes::Exponential(mean) => table(&[("exponential", quantity(mean))]),
        Sizes::Pareto { mean, shape_milli, limit } => {
            let shape = format!("{}.{:03}", shape_milli / 1000, shape_milli % 1000);
            let mut pairs = vec![("pareto", quantity(mean)), ("shape", shape)];
            pairs.extend(limit.map(|limit| ("limit", quantity(limit))));
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

fn pattern(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Constant => text("constant"),
        Pattern::Poisson => text("poisson"),
        Pattern::OnOff { on, off, exponential } => table(&[
            ("on", quantity(on)),
            ("off", quantity(off)),
            ("exponential", exponential.to_string()),
        ]),
        Pattern::Trace(trace) => table(&[("trace", self::trace(trace))]),
    }
}

fn trace(trace: &DatagramTrace) -> String {
    let datagrams = trace.datagrams.iter().map(|(at, size)| list([quantity(at), quantity(size)]));
    table(&[("datagrams", list(datagrams)), ("period", quantity(trace.period))])
}
