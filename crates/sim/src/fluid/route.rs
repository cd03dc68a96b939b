//! The way of a flow's packets, and what they meet on it.

use base::{IfaceId, NodeId};
use fabric::{LinkConfig, Rate};
use lab::routes::Routes;
use sharing::LinkKey;

use crate::net::mix;

/// One way through the network. Directions of links are numbered like the interfaces that send
/// into them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Route {
    pub(super) links: Box<[LinkKey]>,
}

/// What a link direction is, in the units of this model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wire {
    /// bit/s; infinite without a limit.
    pub(super) capacity: f64,
    /// Seconds.
    pub(super) delay: f64,
    /// Share of packets lost at random.
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

/// The long-run rate, bit/s.
fn capacity(rate: &Rate) -> f64 {
    match rate {
        Rate::Unlimited => f64::INFINITY,
        Rate::Constant(rate) => rate.bits_per_sec() as f64,
        Rate::Trace(trace) => trace.mean().bits_per_sec() as f64,
    }
}

/// The way of packets with this hash; `None` where there is none. Where several next hops are
/// equal, the choice is that of packets: a host's, then the fabric's.
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
