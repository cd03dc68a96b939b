//! Where built-in flows begin and end: namespaces, and addresses that reach each other.

use std::net::IpAddr;
use std::os::fd::AsFd;

use base::{FlowId, IfaceId, NodeId};
use lab::plan::{Family, Flow, Plan, Routing, Traffic};
use lab::routes::Routes;
use outcome::{Ideal, Paths};

use crate::enclosure::Enclosure;
use crate::flow::{FlowPath, FlowSpec};
use crate::{Error, Result};

/// The plan's flows with their ends.
pub(super) fn flow_specs<'a>(plan: &Plan, enclosure: &'a Enclosure) -> Result<Vec<FlowSpec<'a>>> {
    // Links that are down now may come up: the addresses hold for the whole run.
    let paths = Paths::new(plan);
    let spec = |(at, flow): (usize, &Flow)| {
        let netns = |node: NodeId| {
            let name = || plan.nodes[node.index()].name.clone();
            let host = enclosure.host(node).ok_or_else(|| Error::NoNamespace { node: name() })?;
            Ok::<_, Error>(host.netns.as_fd())
        };
        let address = |of: NodeId, seen_from: NodeId| {
            address(plan, paths.routes(), of, seen_from, flow.family).ok_or(Error::ImpossibleFlow {
                flow: flow.name.clone(),
                why: "one of its ends has no address of its family",
            })
        };
        let (back, from_addr) = address(flow.from, flow.to)?;
        let (there, to_addr) = address(flow.to, flow.from)?;
        Ok(FlowSpec {
            id: FlowId::at(at),
            flow: flow.clone(),
            from_netns: netns(flow.from)?,
            to_netns: netns(flow.to)?,
            from_addr,
            to_addr,
            ideal: ideal(plan, &paths, flow, there, back),
            paths: flow_paths(plan, flow),
        })
    };
    plan.flows.iter().enumerate().map(spec).collect()
}

/// The paths of a flow, if it is one with several.
fn flow_paths(plan: &Plan, flow: &Flow) -> Vec<FlowPath> {
    let address = |iface: IfaceId| own_address(plan, iface, flow.family);
    let paths = flow.multipath().into_iter().flat_map(|multipath| &multipath.paths);
    let path = |path: &lab::plan::Path| {
        let (from, to) = (address(path.from)?, address(path.to)?);
        Some(FlowPath { link: plan.path_link(path), from, to, backup: path.backup })
    };
    paths.filter_map(path).collect()
}

fn own_address(plan: &Plan, iface: IfaceId, family: Family) -> Option<IpAddr> {
    let iface = &plan.ifaces[iface.index()];
    match family {
        Family::V4 => iface.v4.map(|(v4, _)| v4.into()),
        Family::V6 => iface.v6.map(|(v6, _)| v6.into()),
    }
}

/// What a flow's transfers could do alone. Where programs of the lab choose the routes, nobody
/// knows.
fn ideal(
    plan: &Plan,
    paths: &Paths<'_>,
    flow: &Flow,
    there: IfaceId,
    back: IfaceId,
) -> Option<Ideal> {
    if plan.routing == Routing::None || flow.multipath().is_some() {
        return None;
    }
    let mss = paths.segment(flow, there, back);
    match flow.traffic {
        Traffic::Transfers { .. } => paths.ideal(flow, there, back, mss),
        Traffic::Requests { .. } => paths.ideal_answer(flow, there, back, mss),
        _ => None,
    }
}

/// The first address of a node that the other can reach, and its interface. With routes by
/// programs of the lab nobody knows that beforehand, and the first of all must do.
fn address(
    plan: &Plan,
    ways: &Routes,
    of: NodeId,
    seen_from: NodeId,
    family: Family,
) -> Option<(IfaceId, IpAddr)> {
    let own = |id: IfaceId| -> Option<(IfaceId, IpAddr)> {
        own_address(plan, id, family).map(|address| (id, address))
    };
    let ifaces = &plan.nodes[of.index()].ifaces;
    let mut reached = ifaces.iter().filter(|iface| ways.path_delay(seen_from, **iface).is_some());
    reached.find_map(|iface| own(*iface)).or_else(|| ifaces.iter().find_map(|iface| own(*iface)))
}
