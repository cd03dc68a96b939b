//! What lies between the ends of a flow.

use base::{Bytes, IfaceId, NodeId, Span};
use fabric::{LinkConfig, Rate, Trace};
use lab::plan::{Action, Plan};
use lab::routes::Routes;

/// An otherwise empty path, one way, as the lab begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Path {
    /// The sum of propagation delays.
    pub(crate) delay: Span,
    /// The lowest rate in bit/s; `None` while no link has one.
    pub(crate) rate: Option<f64>,
}

/// The first path of several equal ones; `None` where there is none.
pub(crate) fn walk(plan: &Plan, routes: &Routes, from: NodeId, to: IfaceId) -> Option<Path> {
    let dest = plan.ifaces[to.index()].node;
    let (mut node, mut path) = (from, Path::default());
    // No shortest path visits a node twice.
    for _ in 0..=plan.nodes.len() {
        if node == dest {
            return Some(path);
        }
        let iface = &plan.ifaces[routes.next(node, to).first()?.index()];
        let link = &plan.links[iface.link.index()];
        let config = &link.directions[iface.sends.index()];
        path.delay = path.delay.saturating_add(config.delay);
        let rate = bits_per_second(config);
        path.rate = [path.rate, rate].into_iter().flatten().min_by(f64::total_cmp);
        node = link.ends[1 - iface.sends.index()];
    }
    None
}

/// The long-run rate of a link direction; `None` while unlimited.
fn bits_per_second(config: &LinkConfig) -> Option<f64> {
    match &config.rate {
        Rate::Unlimited => None,
        Rate::Constant(rate) => Some(rate.bits_per_sec() as f64),
        Rate::Trace(trace) => {
            let bytes = Trace::OPPORTUNITY.count() * trace.opportunities.len() as u64;
            Some(bytes as f64 * 8.0 / trace.period.as_secs_f64())
        }
    }
}

/// The smallest MTU that each interface's link has during the run; `None` without a limit.
pub(crate) fn smallest_mtus(plan: &Plan) -> Vec<Option<u32>> {
    let limit = |config: &LinkConfig| {
        let bytes = config.mtu.count();
        (bytes > 0).then(|| u32::try_from(bytes).unwrap_or(u32::MAX))
    };
    let mut mtus: Vec<Option<u32>> = plan
        .links
        .iter()
        .flat_map(|link| [0, 1].map(|side| limit(&link.directions[side])))
        .collect();
    for event in &plan.events {
        if let Action::Set { link, direction, config } = &event.action {
            let entry = &mut mtus[link.index() * 2 + direction.index()];
            *entry = [*entry, limit(config)].into_iter().flatten().min();
        }
    }
    mtus
}

/// The smallest MTU on any of the equally short paths between two places.
pub(crate) fn mtu(
    plan: &Plan,
    routes: &Routes,
    mtus: &[Option<u32>],
    from: NodeId,
    to: IfaceId,
) -> Option<u32> {
    let (mut seen, mut next) = (vec![from], 0);
    let mut smallest: Option<u32> = None;
    while let Some(node) = seen.get(next).copied() {
        next += 1;
        for id in routes.next(node, to) {
            let iface = &plan.ifaces[id.index()];
            smallest = [smallest, mtus[id.index()]].into_iter().flatten().min();
            let peer = plan.links[iface.link.index()].ends[1 - iface.sends.index()];
            if !seen.contains(&peer) {
                seen.push(peer);
            }
        }
    }
    smallest
}

/// How long a transfer takes at least: see [`Ideal::completion`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ideal {
    /// There and back.
    pub(crate) round_trip: Span,
    /// There.
    pub(crate) one_way: Span,
    /// The lowest rate on the way there, in bit/s.
    pub(crate) rate: Option<f64>,
    /// Payload of a full segment.
    pub(crate) mss: u32,
    /// Wire bytes of a segment beyond its payload.
    pub(crate) header: u32,
}

impl Ideal {
    /// The completion time on an otherwise empty path: one round trip for the handshake, the
    /// payload with all headers at the lowest rate on the way, and the propagation delay. It
    /// knows no slow start and no store-and-forward, so no transfer is faster.
    pub(crate) fn completion(&self, size: Bytes) -> Span {
        let segments = size.count().div_ceil(u64::from(self.mss.max(1))).max(1);
        let bits = (size.count() as f64 + segments as f64 * f64::from(self.header)) * 8.0;
        let sending = self.rate.map_or(0.0, |rate| bits / rate * 1e9);
        self.round_trip + self.one_way + Span::from_nanos(sending as u64)
    }
}
