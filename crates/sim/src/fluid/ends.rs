//! Where a flow begins and ends, and how it behaves.

use base::{IfaceId, NodeId};
use lab::plan::{Plan, Traffic};

use super::tcp::Manner;
use crate::app::Given;
use crate::net::Leg;

/// Both ends of a flow of the plan, and how it behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) nodes: [NodeId; 2],
    /// The interfaces by which they are addressed.
    pub(super) addresses: [IfaceId; 2],
    /// Wire bytes of a datagram beside UDP's header and its payload.
    pub(super) datagram_header: f64,
    pub(super) manner: Manner,
}

impl Ends {
    /// The ends of a flow.
    pub(super) fn new(plan: &Plan, given: &Given, legs: &[Leg; 2]) -> Self {
        let config = &given.config;
        let header = f64::from(given.ideal.header());
        let mut mss = f64::from(config.mss.max(1));
        if let Traffic::Bulk { message: Some(message), .. } = &given.spec.traffic {
            // Each message leaves as it is written.
            mss = mss.min(message.count().max(1) as f64);
        }
        let manner = Manner {
            control: config.control,
            mss,
            header,
            receive_window: config.receive_window.count() as f64,
            initial_window: f64::from(config.initial_window),
            ecn: config.ecn,
        };
        Self {
            nodes: legs.map(|leg| leg.node),
            addresses: legs.map(|leg| leg.own),
            datagram_header: f64::from(legs[0].header) + plan.overhead.count() as f64,
            manner,
        }
    }
}
