//! The path of a flow's packets, and its properties.

use base::{IfaceId, NodeId};
use fabric::{LinkConfig, Rate};
use lab::routes::Routes;
use sharing::LinkKey;

use crate::net::mix;

/// A path through the network. Directed links have the numbers of their egress interfaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Route {
    pub(super) links: Box<[LinkKey]>,
}

/// The properties of a directed link, in the units of this model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wire {
    /// bit/s; infinite without a rate limit.
    pub(super) capacity: f64,
    /// Propagation delay in seconds.
    pub(super) delay: f64,
    /// Random loss rate.
    pub(super) loss: f64,
}

impl Wire {
    pub(super) fn new(config: &LinkConfig) -> Self {
        Self {
            capacity: capacity(&config.rate),
            delay: config.delay.as_secs_f64(),
            loss: config.loss.mean(),
        }
    }
}

/// Long-term mean rate, bit/s.
fn capacity(rate: &Rate) -> f64 {
    match rate {
        Rate::Unlimited => f64::INFINITY,
        Rate::Constant(rate) => rate.bits_per_sec() as f64,
        Rate::Trace(trace) => trace.mean().bits_per_sec() as f64,
    }
}

/// The path of packets with this hash; `None` without a route. Among equal next hops the choice is
/// that of packets: the host's rule at the first node, then the fabric's.
pub(super) fn route(routes: &Routes, from: NodeId, to: IfaceId, hash: u32) -> Option<Route> {
    let pick = |node, ways: &[IfaceId]| {
        let at = if node == from {
            ((u64::from(mix(hash, from.0)) * ways.len() as u64) >> 32) as usize
        } else {
            fabric::ecmp(hash, node, ways.len())
        };
        ways[at]
    };
    let path = routes.path(from, to, pick)?;
    Some(Route { links: path.into_iter().map(|iface| LinkKey(iface.0)).collect() })
}
