//! Where built-in flows begin and end: namespaces, and addresses that reach each other.

use std::net::IpAddr;
use std::os::fd::AsFd;

use base::{FlowId, IfaceId, NodeId};
use lab::plan::{Family, Flow, Plan};
use lab::routes::Routes;

use crate::enclosure::Enclosure;
use crate::flow::FlowSpec;
use crate::{Error, Result};

/// The plan's flows with their ends.
pub(super) fn flow_specs<'a>(plan: &Plan, enclosure: &'a Enclosure) -> Result<Vec<FlowSpec<'a>>> {
    // Links that are down now may come up: the addresses hold for the whole run.
    let ways = Routes::compute(plan, &vec![true; plan.links.len()]);
    let spec = |(at, flow): (usize, &Flow)| {
        let netns = |node: NodeId| {
            let name = || plan.nodes[node.index()].name.clone();
            let host = enclosure.host(node).ok_or_else(|| Error::NoNamespace { node: name() })?;
            Ok::<_, Error>(host.netns.as_fd())
        };
        let address = |of: NodeId, seen_from: NodeId| {
            address(plan, &ways, of, seen_from, flow.family).ok_or(Error::ImpossibleFlow {
                flow: flow.name.clone(),
                why: "one of its ends has no address of its family",
            })
        };
        Ok(FlowSpec {
            id: FlowId::at(at),
            flow: flow.clone(),
            from_netns: netns(flow.from)?,
            to_netns: netns(flow.to)?,
            from_addr: address(flow.from, flow.to)?,
            to_addr: address(flow.to, flow.from)?,
        })
    };
    plan.flows.iter().enumerate().map(spec).collect()
}

/// The first address of a node that the other can reach. With routes by programs of the lab
/// nobody knows that beforehand, and the first of all must do.
fn address(
    plan: &Plan,
    ways: &Routes,
    of: NodeId,
    seen_from: NodeId,
    family: Family,
) -> Option<IpAddr> {
    let own = |iface: IfaceId| -> Option<IpAddr> {
        let iface = &plan.ifaces[iface.index()];
        match family {
            Family::V4 => iface.v4.map(|(v4, _)| v4.into()),
            Family::V6 => iface.v6.map(|(v6, _)| v6.into()),
        }
    };
    let ifaces = &plan.nodes[of.index()].ifaces;
    let mut reached = ifaces.iter().filter(|iface| ways.path_delay(seen_from, **iface).is_some());
    reached.find_map(|iface| own(*iface)).or_else(|| ifaces.iter().find_map(|iface| own(*iface)))
}
