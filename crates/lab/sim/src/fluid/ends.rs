//! The endpoints and transport parameters of a flow.

use base::{IfaceId, NodeId};
use lab::plan::{Plan, Traffic};

use super::tcp::Manner;
use crate::app::FlowParameters;
use crate::net::Leg;

/// Both endpoints of a flow of the plan, and its transport parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) nodes: [NodeId; 2],
    /// The interfaces that packets are addressed to.
    pub(super) addresses: [IfaceId; 2],
    /// Wire bytes of a datagram beside the UDP header and the payload.
    pub(super) datagram_header: f64,
    pub(super) manner: Manner,
}

impl Ends {
    pub(super) fn new(plan: &Plan, parameters: &FlowParameters, legs: &[Leg; 2]) -> Self {
        let config = &parameters.config;
        let header = f64::from(parameters.ideal.header());
        let mut mss = f64::from(config.mss.max(1));
        if let Traffic::Bulk { message: Some(message), .. } = &parameters.spec.traffic {
            // Each message is sent in its own segment.
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
