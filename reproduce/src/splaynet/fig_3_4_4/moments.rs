//! The shares that were in force beside those that should have been, at the sampled moments.

use std::collections::BTreeMap;

use base::{Bytes, Direction, NodeId, Span, Time};
use lab::plan::{Flow, Plan, Traffic};
use run::{FlowKind, ShareSample};
use sharing::Solver;

use super::oracle::Oracle;

/// A queue never takes longer to drain.
const LONGEST_DRAIN: Span = Span::from_secs(5);

/// Senders of datagrams report so often what they have sent.
const PERIOD: Span = Span::from_millis(50);

/// About a full packet's bytes on a link.
const LARGEST_PACKET: f64 = 1600.0;

/// Headers of a datagram on a link without overhead: IPv4 and UDP.
const DATAGRAM_HEADERS: u64 = 28;

/// A sampled moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moment {
    /// Since the start of the run, s.
    pub(super) at: f64,
    /// Flows that are live by the lab file.
    pub(super) live: usize,
    /// How many of them had no share.
    pub(super) missing: usize,
    /// Flows that have ended but whose last packets are still in their queue: they count until
    /// FIN or RST has left.
    pub(super) draining: usize,
    /// Other flows that had a share and are not live.
    pub(super) strange: usize,
    /// Relative error of each share.
    pub(super) errors: Vec<f64>,
    /// Measured rate of each flow of datagrams, as a part of what it really sends.
    pub(super) demands: Vec<f64>,
}

impl Moment {
    pub(super) fn worst(&self) -> f64 {
        self.errors.iter().copied().fold(0.0, f64::max)
    }
}

/// When a flow starts and ends by the lab file.
pub(super) fn life(flow: &Flow, plan: &Plan) -> (Time, Time) {
    let end = flow.duration.map_or(plan.duration, |d| Span::from_nanos(flow.start.as_nanos()) + d);
    (flow.start, Time::ZERO + end.min(plan.duration))
}

/// All moments at which flows start or end, in order. That datagrams have ended shows only when a
/// period has passed without them.
pub(super) fn changes(plan: &Plan) -> Vec<Time> {
    let ends = |flow: &Flow| {
        let (start, end) = life(flow, plan);
        let paced = matches!(flow.traffic, Traffic::Paced { .. });
        [start, if paced { end + PERIOD } else { end }]
    };
    let mut changes: Vec<Time> = plan.flows.iter().flat_map(ends).collect();
    changes.sort_unstable();
    changes.dedup();
    changes
}

/// The moments of a run at which the last change is at least `settled` ago, and some flow is live.
/// That a flow of datagrams asks for another rate is a change, too: on several machines, the others
/// know of it a little later. `None` where the oracle has no answer.
pub(super) fn moments(plan: &Plan, samples: &[ShareSample], settled: Span) -> Option<Vec<Moment>> {
    let mut oracle = Oracle::new(plan)?;
    let changes = changes(plan);
    let mut wanted = BTreeMap::new();
    let mut asked = Time::ZERO;
    let mut found = Vec::new();
    for group in samples.chunk_by(|a, b| a.at == b.at) {
        let at = group[0].at;
        let now = demands(group);
        if differ(&wanted, &now) {
            // At some moment since the sample before.
            asked = at;
        }
        wanted = now;
        let past = changes.partition_point(|change| *change <= at);
        let quiet = past > 0 && at.since(changes[past - 1].max(asked)) >= settled;
        if !quiet {
            continue;
        }
        let moment = moment(plan, &mut oracle, group)?;
        if moment.live > 0 {
            found.push(moment);
        }
    }
    Some(found)
}

/// What each flow of datagrams is taken to want.
fn demands(group: &[ShareSample]) -> BTreeMap<(NodeId, NodeId, u32), u64> {
    let datagrams = group.iter().filter(|row| row.kind != FlowKind::Stream);
    let key = |row: &ShareSample| (row.from, row.to, row.flow);
    datagrams.filter_map(|row| Some((key(row), row.demand?))).collect()
}

/// Whether a flow asks for something else, by as much as others are told.
fn differ<K: Ord>(before: &BTreeMap<K, u64>, now: &BTreeMap<K, u64>) -> bool {
    let like = |a: u64, b: u64| a.abs_diff(b) as f64 <= 0.02 * a.max(b) as f64;
    let same = |(key, value): (&K, &u64)| before.get(key).is_some_and(|old| like(*old, *value));
    before.len() != now.len() || !now.iter().all(same)
}

type Key = (NodeId, NodeId, FlowKind);

fn moment(plan: &Plan, oracle: &mut Oracle<'_>, group: &[ShareSample]) -> Option<Moment> {
    let at = group[0].at;
    let mut rows: BTreeMap<Key, Vec<ShareSample>> = BTreeMap::new();
    for row in group {
        rows.entry((row.from, row.to, row.kind)).or_default().push(*row);
    }
    let (mut flows, mut shares, mut demands) = (Vec::new(), Vec::new(), Vec::new());
    for flow in plan.flows.iter().filter(|flow| {
        let (start, end) = life(flow, plan);
        start <= at && at < end
    }) {
        let (kind, nominal) = kind(flow, plan.overhead)?;
        let row = rows.get_mut(&(flow.from, flow.to, kind)).and_then(Vec::pop);
        if let (Some(nominal), Some(measured)) = (nominal, row.and_then(|row| row.demand)) {
            demands.push(measured as f64 / nominal as f64);
        }
        shares.push(row.map(|row| row.share));
        flows.push(ShareSample {
            at,
            interval: group[0].interval,
            from: flow.from,
            to: flow.to,
            flow: 0,
            kind,
            share: None,
            // The window is part of the law; what a flow of datagrams wants is as measured.
            demand: row.map_or(nominal, |row| row.demand),
            sent_bytes: 0,
        });
    }
    let live = flows.len();
    let left = rows.into_values().flatten();
    let (drain, strange): (Vec<_>, Vec<_>) =
        left.partition(|row| may_send(row) && has_ended(plan, row));
    shares.extend(drain.iter().map(|row| Some(row.share)));
    flows.extend(&drain);
    let fair = oracle.shares(&flows)?;
    let error = |(share, fair): (&Option<Option<u64>>, &f64)| match share {
        Some(Some(share)) => Some((*share as f64 / fair - 1.0).abs()),
        Some(None) => Some(if *fair < Solver::UNLIMITED { f64::INFINITY } else { 0.0 }),
        None => None,
    };
    Some(Moment {
        at: at.as_secs_f64(),
        live,
        missing: shares.iter().filter(|share| share.is_none()).count(),
        draining: drain.len(),
        strange: strange.len(),
        errors: shares.iter().zip(&fair).filter_map(error).collect(),
        demands,
    })
}

/// Whether a flow has sent something lately, or has so small a share that its next packet takes
/// longer than a sampling interval.
fn may_send(row: &ShareSample) -> bool {
    let bytes = row.share.map(|share| share as f64 / 8.0 * row.interval.as_secs_f64());
    let slow = bytes.is_some_and(|bytes| bytes < LARGEST_PACKET);
    row.sent_bytes > 0 || (row.kind == FlowKind::Stream && slow)
}

/// Whether a flow between these nodes was to end within the seconds before.
fn has_ended(plan: &Plan, row: &ShareSample) -> bool {
    plan.flows.iter().any(|flow| {
        let (_, end) = life(flow, plan);
        (flow.from, flow.to) == (row.from, row.to)
            && end <= row.at
            && row.at.since(end) <= LONGEST_DRAIN
    })
}

/// How a flow is told to live, and the rate of a flow of datagrams on the wire, bit/s. `None` for
/// traffic whose life the lab file does not tell.
fn kind(flow: &Flow, overhead: Bytes) -> Option<(FlowKind, Option<u64>)> {
    match &flow.traffic {
        Traffic::Bulk { size: None, streams: 1, .. } => Some((FlowKind::Stream, None)),
        Traffic::Paced { rate, packet, size: None, .. } => {
            let headers = DATAGRAM_HEADERS + overhead.count();
            let bits = u128::from(rate.bits_per_sec());
            let wire = bits * u128::from(packet.count() + headers) / u128::from(packet.count());
            Some((FlowKind::Datagram, u64::try_from(wire).ok()))
        }
        _ => None,
    }
}

/// What a TCP flow achieved in a whole second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Achieved {
    /// Payload that arrived, bit/s.
    pub(super) goodput: f64,
    /// The payload that its mean share has room for, bit/s.
    pub(super) room: f64,
}

/// What TCP flows achieved in whole seconds that begin at least one second after the flow did.
pub(super) fn achieved(
    plan: &Plan,
    samples: &[ShareSample],
    goodputs: &[Vec<(f64, f64)>],
) -> Vec<Achieved> {
    let payload = tcp_payload(plan);
    let mut shares: BTreeMap<Key, Vec<(f64, f64)>> = BTreeMap::new();
    for row in samples {
        let key = (row.from, row.to, row.kind);
        let share = row.share.map(|share| (row.at.as_secs_f64(), share as f64));
        shares.entry(key).or_default().extend(share);
    }
    let mut found = Vec::new();
    for (flow, goodput) in plan.flows.iter().zip(goodputs) {
        let Some((FlowKind::Stream, _)) = kind(flow, plan.overhead) else { continue };
        let (start, end) = life(flow, plan);
        let Some(own) = shares.get(&(flow.from, flow.to, FlowKind::Stream)) else { continue };
        for (middle, goodput) in goodput {
            let (first, last) = (middle - 0.5, middle + 0.5);
            let within: Vec<f64> =
                own.iter().filter(|(at, _)| first < *at && *at <= last).map(|s| s.1).collect();
            let whole = first >= start.as_secs_f64() + 1.0 && last <= end.as_secs_f64();
            if whole && !within.is_empty() {
                let mean = within.iter().sum::<f64>() / within.len() as f64;
                found.push(Achieved { goodput: *goodput, room: mean * payload });
            }
        }
    }
    found
}

/// Which part of a full segment's bytes on a link is TCP payload.
fn tcp_payload(plan: &Plan) -> f64 {
    let headers = 20 + 20 + 12;
    let mtu = |link: &lab::plan::Link| {
        Direction::BOTH.map(|d| link.directions[d.index()].mtu.count()).into_iter().min()
    };
    let mtu = plan.links.iter().filter_map(mtu).min().unwrap_or(1500);
    mtu.saturating_sub(headers) as f64 / (mtu + plan.overhead.count()) as f64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Two streams share 10 Mbit/s for a second; the third flow's datagrams come later.
    const LAB: &str = r#"
        [lab]
        model = "collapsed"
        window = "off"
        duration = "4 s"
        interval = "50 ms"
        [node.a]
        [node.b]
        [node.c]
        [node.r]
        kind = "router"
        [[link]]
        ends = ["a", "r"]
        rate = "10 Mbit/s"
        delay = "5 ms"
        [[link]]
        ends = ["r", "b"]
        [[link]]
        ends = ["r", "c"]
        [[flow]]
        from = "a"
        to = "b"
        [[flow]]
        from = "a"
        to = "c"
        start = "1 s"
        duration = "1 s"
        [[flow]]
        name = "udp"
        from = "a"
        to = "c"
        transport = "udp"
        rate = "1 Mbit/s"
        packet = "434 B"
        start = "3 s"
    "#;

    fn plan() -> Plan {
        lab::parse("shares", LAB, Path::new(".")).unwrap().plans.swap_remove(0)
    }

    fn row(plan: &Plan, ms: u64, flow: usize, share: u64) -> ShareSample {
        let flow = &plan.flows[flow];
        let (kind, demand) = kind(flow, plan.overhead).unwrap();
        ShareSample {
            at: Time::ZERO + Span::from_millis(ms),
            interval: plan.interval,
            from: flow.from,
            to: flow.to,
            flow: 7,
            kind,
            share: Some(share),
            demand,
            sent_bytes: 100,
        }
    }

    #[test]
    fn shares_are_held_against_those_of_the_flows_that_live() {
        let plan = plan();
        let changes: Vec<_> = changes(&plan).iter().map(|at| at.as_nanos() / 1_000_000).collect();
        assert_eq!(changes, [0, 1000, 2000, 3000, 4000, 4050]);
        let demand = row(&plan, 0, 2, 0).demand;
        // 434 B and 66 B of headers.
        assert_eq!(demand, Some(1_152_073));
        let silent = ShareSample { sent_bytes: 0, ..row(&plan, 2300, 1, 5_000_000) };
        let samples = [
            row(&plan, 50, 0, 1),
            row(&plan, 500, 0, 10_000_000),
            row(&plan, 1050, 0, 10_000_000),
            row(&plan, 1100, 0, 5_000_000),
            row(&plan, 1100, 1, 5_500_000),
            row(&plan, 2150, 0, 5_000_000),
            row(&plan, 2150, 1, 5_000_000),
            row(&plan, 2300, 0, 10_000_000),
            silent,
            row(&plan, 3500, 0, 8_847_927),
        ];
        let found = moments(&plan, &samples, Span::from_millis(100)).unwrap();
        let at: Vec<_> = found.iter().map(|m| (m.at * 1e3).round() as u64).collect();
        assert_eq!(at, [500, 1100, 2150, 2300, 3500], "the others follow a change too soon");
        let worst: Vec<_> = found.iter().map(|m| (m.worst() * 1e6).round() as u64).collect();
        assert_eq!(worst, [0, 100_000, 0, 0, 0]);
        let counts = |m: &Moment| [m.live, m.missing, m.draining, m.strange];
        let counts: Vec<_> = found.iter().map(counts).collect();
        let expected = [[1, 0, 0, 0], [2, 0, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [2, 1, 0, 0]];
        assert_eq!(counts, expected);
    }

    #[test]
    fn goodput_is_set_beside_the_mean_share_of_the_same_second() {
        let plan = plan();
        let samples: Vec<_> = (1..=40)
            .map(|step| row(&plan, step * 50, 0, if step < 30 { 10_000_000 } else { 5_000_000 }))
            .collect();
        let goodputs = [vec![(0.5, 9e6), (1.5, 7e6), (2.5, 1.0)], vec![], vec![]];
        let found = achieved(&plan, &samples, &goodputs);
        // The first second is too early, the third has no shares.
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].goodput as u64, found[0].room as u64), (7_000_000, 6_825_747));
    }
}
