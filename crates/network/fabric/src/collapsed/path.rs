//! The route of a flow, and the one link that replaces it.

use base::{Bandwidth, Bytes, IfaceId, LinkId, NodeId, Ratio, Span};

use crate::config::{
    Jitter, JitterShape, LinkConfig, Loss, QueueConfig, QueueLimit, Rate, Reorder,
};
use crate::link::Link;
use crate::network::{Refusal, ecmp};
use crate::{Forwarding, NodeKind};

/// Maximum number of links of a path: the maximum TTL of a packet.
const MAX_HOPS: usize = 255;

/// The network of the paths.
pub(super) struct Topology<'a> {
    pub(super) nodes: &'a [NodeKind],
    pub(super) at: &'a [NodeId],
    /// Link directions, by egress interface.
    pub(super) links: &'a [Link],
    pub(super) forwarding: &'a dyn Forwarding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The first egress interface.
    pub(super) from: IfaceId,
    pub(super) to: Option<IfaceId>,
    pub(super) hash: u32,
    pub(super) reach: Reach,
}

/// The part of a route that packets cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reach {
    /// To the end of the route.
    Whole,
    /// To the router of this number, where their TTL expires.
    Router(u8),
    /// To the router before the first link whose MTU is this small, in bytes.
    Mtu(u32),
}

/// The receiver of a packet at the end of its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A node with its own kernel.
    Edge,
    /// The router to which it is addressed.
    Local,
    /// A router that cannot forward it.
    Refused(Refusal),
}

/// A route through the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// The egress interfaces of the route, in order; at least one.
    pub(super) hops: Box<[IfaceId]>,
    /// Number of routers that forward on it.
    pub(super) routers: u8,
    pub(super) end: End,
}

/// The properties of a whole route.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Joined {
    /// The link that stands for it, at its full capacity.
    pub(super) config: LinkConfig,
    /// The hop that counts undelivered packets: the first one that is down, or else the one
    /// with the lowest rate.
    pub(super) narrowest: usize,
    pub(super) up: bool,
    /// Mirror sessions on it, as a bit mask.
    pub(super) mirrors: u64,
}

impl Topology<'_> {
    /// The route of a flow that a node sends through `first`: to the next node with a kernel, or as
    /// far as there are routes.
    pub(super) fn route(&self, first: IfaceId, to: Option<IfaceId>, hash: u32) -> Route {
        let mut hops = vec![first];
        let mut routers = 0;
        let mut last = first;
        let end = loop {
            let node = self.at[last.index() ^ 1];
            let kind = self.nodes[node.index()];
            if kind == NodeKind::Edge {
                break End::Edge;
            }
            let Some(to) = to else { break End::Refused(Refusal::NoRoute) };
            if kind == NodeKind::Router {
                if self.at[to.index()] == node {
                    break End::Local;
                }
                routers += 1;
            }
            if hops.len() == MAX_HOPS {
                break End::Refused(Refusal::TtlExceeded);
            }
            last = match self.forwarding.next(node, to) {
                [] => {
                    routers -= u8::from(kind == NodeKind::Router);
                    break End::Refused(Refusal::NoRoute);
                }
                [only] => *only,
                several => several[ecmp(hash, node, several.len())],
            };
            hops.push(last);
        };
        Route { hops: hops.into(), routers, end }
    }

    /// The route of a tunnel's packets.
    pub(super) fn route_of(&self, key: &Key) -> Route {
        let route = self.route(key.from, key.to, key.hash);
        match key.reach {
            Reach::Router(count) if count <= route.routers => self.until_router(&route, count),
            Reach::Mtu(mtu) => self.until_mtu(&route, mtu).unwrap_or(route),
            Reach::Whole | Reach::Router(_) => route,
        }
    }

    /// The part of `route` that a packet crosses whose TTL expires at the `count`th router.
    pub(super) fn until_router(&self, route: &Route, count: u8) -> Route {
        let routers = (0..route.hops.len()).filter(|hop| self.leads_to_router(route, *hop));
        let last = routers.take(usize::from(count)).last().unwrap_or(0);
        let end = End::Refused(Refusal::TtlExceeded);
        Route { hops: route.hops[..=last].into(), routers: count - 1, end }
    }

    /// The first hop that does not accept packets of `size` bytes.
    pub(super) fn blocked(&self, route: &Route, size: u32) -> Option<usize> {
        let mtu = |hop: &IfaceId| self.links[hop.index()].mtu;
        route.hops.iter().position(|hop| mtu(hop) > 0 && size > mtu(hop))
    }

    /// The part of `route` that packets larger than `mtu` cross: up to the router before the first
    /// link with at most this MTU. `None` without such a link, or if no router is before it.
    fn until_mtu(&self, route: &Route, mtu: u32) -> Option<Route> {
        let blocked = self.blocked(route, mtu.saturating_add(1))?;
        let before = blocked.checked_sub(1).filter(|hop| self.leads_to_router(route, *hop))?;
        let routers = (0..before).filter(|hop| self.leads_to_router(route, *hop)).count();
        let mtu = self.links[route.hops[blocked].index()].mtu;
        let end = End::Refused(Refusal::TooBig { mtu });
        Some(Route { hops: route.hops[..blocked].into(), routers: routers as u8, end })
    }

    pub(super) fn leads_to_router(&self, route: &Route, hop: usize) -> bool {
        let node = self.at[route.hops[hop].index() ^ 1];
        self.nodes[node.index()] == NodeKind::Router
    }

    /// RTT between the ends of a route, without queueing.
    pub(super) fn round_trip(&self, route: &Route, hash: u32) -> Span {
        let there = self.delay(&route.hops);
        let last = IfaceId::at(route.hops[route.hops.len() - 1].index() ^ 1);
        let home = self.at[route.hops[0].index()];
        let next = self.forwarding.next(self.at[last.index()], route.hops[0]);
        let first = match next {
            [] => last,
            [only] => *only,
            several => several[ecmp(hash, self.at[last.index()], several.len())],
        };
        let back = self.route(first, Some(route.hops[0]), hash);
        let end = back.hops[back.hops.len() - 1].index() ^ 1;
        // Without a return route, the same delay as the route is assumed.
        let back = if self.at[end] == home { self.delay(&back.hops) } else { there };
        sharing::tcp::round_trip(there, back)
    }

    fn delay(&self, hops: &[IfaceId]) -> Span {
        let delay = |hop: &IfaceId| self.links[hop.index()].config.delay;
        hops.iter().map(delay).fold(Span::ZERO, Span::saturating_add)
    }

    /// The properties of a route: delays and variances add up, survival rates multiply, and the
    /// lowest rate is the rate.
    pub(super) fn join(&self, route: &Route) -> Joined {
        let links = || route.hops.iter().map(|hop| &self.links[hop.index()]);
        let configs = || links().map(|link| &*link.config);
        let narrowest = (0..route.hops.len())
            .min_by_key(|hop| {
                let config = &self.links[route.hops[*hop].index()].config;
                constant(config).map_or(u64::MAX, Bandwidth::bits_per_sec)
            })
            .unwrap_or(0);
        let narrow = &self.links[route.hops[narrowest].index()].config;
        let down = links().position(|link| !link.up);
        let (jitter, mean_jitter) = jitter(configs());
        let mtus = configs().map(|config| config.mtu).filter(|mtu| mtu.is_positive());
        let config = LinkConfig {
            rate: narrow.rate.clone(),
            delay: self.delay(&route.hops).saturating_add(Span::from_nanos(mean_jitter as u64)),
            jitter,
            loss: loss(configs().map(|config| &config.loss)),
            reorder: reorder(configs().filter_map(|config| config.reorder.as_ref())),
            duplicate: ratio(any(configs().map(|config| config.duplicate.as_f64()))),
            corrupt: ratio(any(configs().map(|config| config.corrupt.as_f64()))),
            queue: QueueConfig::default(),
            mtu: mtus.min().unwrap_or(Bytes::ZERO),
        };
        let mirrors = links().fold(0, |mask, link| mask | link.mirrors);
        Joined { config, narrowest: down.unwrap_or(narrowest), up: down.is_none(), mirrors }
    }

    /// The drain time of the queue of a route's narrowest link.
    pub(super) fn queue_time(&self, route: &Route, narrowest: usize, overhead: u32) -> Span {
        let link = &self.links[route.hops[narrowest].index()];
        let Some(rate) = constant(&link.config) else { return Span::ZERO };
        let bytes = match link.config.queue.limit {
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Packets(packets) => {
                let full = u64::from(if link.mtu > 0 { link.mtu } else { 1500 } + overhead);
                Bytes::new(full.saturating_mul(u64::from(packets)))
            }
        };
        rate.time_for(bytes)
    }

    /// The capacity of a link direction; zero while it is down.
    pub(super) fn capacity(&self, iface: IfaceId) -> Option<Bandwidth> {
        let link = &self.links[iface.index()];
        if link.up { constant(&link.config) } else { Some(Bandwidth::from_bits_per_sec(0)) }
    }

    pub(super) fn crosses(route: &Route, link: LinkId) -> bool {
        route.hops.iter().any(|hop| hop.index() / 2 == link.index())
    }
}

/// A constant rate; `None` if the rate varies.
pub(super) fn constant(config: &LinkConfig) -> Option<Bandwidth> {
    match &config.rate {
        Rate::Unlimited => None,
        Rate::Constant(rate) => Some(*rate),
        Rate::Trace(trace) => Some(trace.mean()),
    }
}

/// The probability that at least one of several independent events happens.
fn any(probabilities: impl Iterator<Item = f64>) -> f64 {
    1.0 - probabilities.map(|p| 1.0 - p).product::<f64>()
}

fn ratio(p: f64) -> Ratio {
    Ratio::from_parts_per_billion((p * 1e9).round() as u64)
}

/// The mean of a link's jitter in nanoseconds.
fn mean_jitter(config: &LinkConfig) -> f64 {
    match config.jitter.as_ref().map(|jitter| &jitter.shape) {
        Some(JitterShape::Pareto { mean, .. }) => mean.as_nanos() as f64,
        Some(JitterShape::Table(delays)) => moments(delays).0,
        _ => 0.0,
    }
}

/// The standard deviation of a link's jitter in nanoseconds.
fn deviation(config: &LinkConfig) -> f64 {
    match config.jitter.as_ref().map(|jitter| &jitter.shape) {
        None => 0.0,
        Some(JitterShape::Normal { deviation }) => deviation.as_nanos() as f64,
        Some(JitterShape::Uniform { spread }) => spread.as_nanos() as f64 / 3.0f64.sqrt(),
        Some(JitterShape::Pareto { mean, shape_milli }) => {
            let alpha = f64::from(*shape_milli) / 1000.0;
            // For a tail index of at most 2 the variance is infinite: that of 2.1 is used instead.
            let alpha = alpha.max(2.1);
            mean.as_nanos() as f64 * (alpha / (alpha - 2.0)).sqrt()
        }
        Some(JitterShape::Table(delays)) => moments(delays).1,
    }
}

/// Mean and standard deviation of a distribution that is linear between equally spaced quantiles.
fn moments(quantiles: &[Span]) -> (f64, f64) {
    let parts = quantiles.len().saturating_sub(1).max(1) as f64;
    let (mut mean, mut square) = (0.0, 0.0);
    for pair in quantiles.windows(2) {
        let (a, b) = (pair[0].as_nanos() as f64, pair[1].as_nanos() as f64);
        mean += f64::midpoint(a, b) / parts;
        square += (a * a + a * b + b * b) / 3.0 / parts;
    }
    (mean, (square - mean * mean).max(0.0).sqrt())
}

/// The distribution of the only link with jitter, or a normal one with the sum of the variances;
/// and the mean jitter in nanoseconds that this normal distribution does not include.
fn jitter<'a>(configs: impl Iterator<Item = &'a LinkConfig> + Clone) -> (Option<Jitter>, f64) {
    let mut laws = configs.clone().filter_map(|config| config.jitter.as_ref());
    match (laws.next(), laws.next()) {
        (None, _) => return (None, 0.0),
        (Some(only), None) => return (Some(only.clone()), 0.0),
        _ => {}
    }
    let variance: f64 = configs.clone().map(|config| deviation(config).powi(2)).sum();
    let deviation = Span::from_nanos(variance.sqrt().round() as u64);
    let law = Jitter {
        shape: JitterShape::Normal { deviation },
        correlation: Ratio::ZERO,
        keep_order: configs.clone().filter_map(|c| c.jitter.as_ref()).all(|law| law.keep_order),
    };
    (Some(law), configs.map(mean_jitter).sum())
}

/// The distribution of the only link with loss, or independent losses.
fn loss<'a>(laws: impl Iterator<Item = &'a Loss> + Clone) -> Loss {
    let mut lossy = laws.clone().filter(|law| **law != Loss::None);
    match (lossy.next(), lossy.next()) {
        (None, _) => Loss::None,
        (Some(only), None) => only.clone(),
        _ => Loss::Bernoulli(ratio(any(laws.map(Loss::mean)))),
    }
}

/// The delay of a packet that several links may reorder is the mean of
/// theirs, weighted by probability.
fn reorder<'a>(laws: impl Iterator<Item = &'a Reorder> + Clone) -> Option<Reorder> {
    let sum: f64 = laws.clone().map(|law| law.probability.as_f64()).sum();
    if sum <= 0.0 {
        return None;
    }
    let by = |law: &Reorder| law.by.as_nanos() as f64 * law.probability.as_f64();
    let by = laws.clone().map(by).sum::<f64>() / sum;
    let probability = ratio(any(laws.map(|law| law.probability.as_f64())));
    Some(Reorder { probability, by: Span::from_nanos(by as u64) })
}
