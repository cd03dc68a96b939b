//! The shares that were in force beside those that should have been, at the sampled moments.

use std::collections::BTreeMap;

use base::{Bytes, Direction, FlowId, NodeId, Span, Time};
use lab::plan::{Flow, Plan, Traffic};
use record::{FlowKind, ShareSample};

use super::oracle::Oracle;

/// A queue never takes longer to drain.
const LONGEST_DRAIN: Span = Span::from_secs(5);

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

/// All moments at which flows start or end, in order.
pub(super) fn changes(plan: &Plan) -> Vec<Time> {
    let lives = plan.flows.iter().map(|flow| life(flow, plan));
    let mut changes: Vec<Time> = lives.flat_map(|(start, end)| [start, end]).collect();
    changes.sort_unstable();
    changes.dedup();
    changes
}

/// The moments of a run at which the last change is at least `settled` ago, and some flow is live.
/// `None` where the oracle has no answer.
pub(super) fn moments(plan: &Plan, samples: &[ShareSample], settled: Span) -> Option<Vec<Moment>> {
    let mut oracle = Oracle::new(plan)?;
    let changes = changes(plan);
    let quiet = |at: Time| {
        let past = changes.partition_point(|change| *change <= at);
        past > 0 && at.since(changes[past - 1]) >= settled
    };
    let mut found = Vec::new();
    for group in samples.chunk_by(|a, b| a.at == b.at).filter(|group| quiet(group[0].at)) {
        let moment = moment(plan, &mut oracle, group)?;
        if moment.live > 0 {
            found.push(moment);
        }
    }
    Some(found)
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
        left.partition(|row| row.sent_bytes > 0 && has_ended(plan, row));
    shares.extend(drain.iter().map(|row| Some(row.share)));
    flows.extend(&drain);
    let fair = oracle.shares(&flows)?;
    let error = |(share, fair): (&Option<Option<u64>>, &f64)| match share {
        Some(Some(share)) => Some((*share as f64 / fair - 1.0).abs()),
        Some(None) => Some(if fair.is_finite() { f64::INFINITY } else { 0.0 }),
        None => None,
    };
    Some(Moment {
        at: at.as_nanos() as f64 / 1e9,
        live,
        missing: shares.iter().filter(|share| share.is_none()).count(),
        draining: drain.len(),
        strange: strange.len(),
        errors: shares.iter().zip(&fair).filter_map(error).collect(),
        demands,
    })
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

/// What TCP flows achieved in whole seconds, as a part of the payload that their mean share has
/// room for: seconds that begin at least one second after the flow did.
pub(super) fn achieved(
    plan: &Plan,
    samples: &[ShareSample],
    payload: f64,
    goodput: &dyn Fn(FlowId) -> Vec<(f64, f64)>,
) -> Vec<(f64, f64)> {
    let mut shares: BTreeMap<Key, Vec<(f64, f64)>> = BTreeMap::new();
    for row in samples {
        let middle = (row.at.as_nanos() as f64 - row.interval.as_nanos() as f64 / 2.0) / 1e9;
        let key = (row.from, row.to, row.kind);
        shares.entry(key).or_default().extend(row.share.map(|share| (middle, share as f64)));
    }
    let mut ratios = Vec::new();
    for (index, flow) in plan.flows.iter().enumerate() {
        let Some((FlowKind::Stream, _)) = kind(flow, plan.overhead) else { continue };
        let (start, end) = life(flow, plan);
        let (from, until) = (start.as_nanos() as f64 / 1e9 + 1.0, end.as_nanos() as f64 / 1e9);
        let Some(own) = shares.get(&(flow.from, flow.to, FlowKind::Stream)) else { continue };
        for (middle, rate) in goodput(FlowId(index as u32)) {
            let (first, last) = (middle - 0.5, middle + 0.5);
            let within: Vec<f64> =
                own.iter().filter(|(at, _)| (first..last).contains(at)).map(|s| s.1).collect();
            if first < from || last > until || within.is_empty() {
                continue;
            }
            let mean = within.iter().sum::<f64>() / within.len() as f64;
            ratios.push((middle, rate / (mean * payload)));
        }
    }
    ratios
}

/// Which part of a full segment's bytes on a link is TCP payload.
pub(super) fn tcp_payload(plan: &Plan) -> f64 {
    let headers = 20 + 20 + 12;
    let mtu = |link: &lab::plan::Link| {
        Direction::BOTH.map(|d| link.directions[d.index()].mtu.count()).into_iter().min()
    };
    let mtu = plan.links.iter().filter_map(mtu).min().unwrap_or(1500);
    mtu.saturating_sub(headers) as f64 / (mtu + plan.overhead.count()) as f64
}
