//! The way of a flow's packets, and what they meet on it.

use base::{IfaceId, NodeId};
use fabric::{LinkConfig, Rate};
use lab::plan::Plan;
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
pub(super) fn route(
    plan: &Plan,
    routes: &Routes,
    from: NodeId,
    to: IfaceId,
    hash: u32,
) -> Option<Route> {
    let dest = plan.ifaces[to.index()].node;
    let mut node = from;
    let mut links = Vec::with_capacity(8);
    while node != dest {
        let next = match routes.next(node, to) {
            [] => return None,
            [only] => *only,
            several if node == from => {
                several[((u64::from(mix(hash, node.0)) * several.len() as u64) >> 32) as usize]
            }
            several => several[fabric::ecmp(hash, node, several.len())],
        };
        links.push(LinkKey(next.0));
        let iface = &plan.ifaces[next.index()];
        node = plan.links[iface.link.index()].ends[1 - iface.sends.index()];
        // No shortest path visits a node twice.
        if links.len() > plan.nodes.len() {
            return None;
        }
    }
    Some(Route { links: links.into() })
}
