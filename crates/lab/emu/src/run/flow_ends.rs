//! The ends of built-in flows: namespaces, and addresses that can reach each other.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;

use base::{FlowId, IfaceId, NodeId};
use lab::plan::{Family, Flow, Plan, Ready, Routing, Traffic};
use lab::routes::Routes;
use run::{Ideal, Paths};

use crate::enclosure::Enclosure;
use crate::flow::{FlowPath, FlowSpec};
use crate::{Error, Result};

/// Ports of flows with ends on different agents: two for each flow of a host. They are outside the
/// kernel's ephemeral range (`net.ipv4.ip_local_port_range`), and programs rarely use them.
const PORT_RANGES: [RangeInclusive<u16>; 2] = [61_000..=65_535, 20_000..=32_767];

/// The plan's flows that have an end here, with their ends.
pub(super) fn flow_specs<'a>(
    plan: &Plan,
    enclosure: &'a Enclosure,
    is_here: impl Fn(NodeId) -> bool,
) -> Result<Vec<FlowSpec<'a>>> {
    // Links that are down now may come up later: the addresses are for the whole run.
    let paths = Paths::new(plan);
    let spec = |(at, flow, port): (usize, &Flow, Option<u16>)| {
        let netns = |node: NodeId| {
            let name = || plan.nodes[node.index()].name.clone();
            let host = enclosure.host(node).ok_or_else(|| Error::NoNamespace { node: name() });
            is_here(node).then(|| Ok::<_, Error>(host?.netns.as_fd())).transpose()
        };
        let refuse = |why| Error::ImpossibleFlow { flow: flow.name.clone(), why };
        let address = |of: NodeId, seen_from: NodeId| {
            let address = address(plan, paths.routes(), of, seen_from, flow.family);
            address.ok_or_else(|| refuse("one of its ends has no address of the flow's family"))
        };
        let (back, from_addr) = address(flow.from, flow.to)?;
        let (there, to_addr) = address(flow.to, flow.from)?;
        let (from_netns, to_netns) = (netns(flow.from)?, netns(flow.to)?);
        let is_whole = from_netns.is_some() && to_netns.is_some();
        let port = port.or(is_whole.then_some(0));
        Ok(FlowSpec {
            id: FlowId::at(at),
            flow: flow.clone(),
            from_netns,
            to_netns,
            from_addr,
            to_addr,
            port: port.ok_or_else(|| refuse("its hosts have too many flows for their ports"))?,
            ideal: ideal(plan, &paths, flow, there, back),
            paths: flow_paths(plan, flow),
        })
    };
    let flows = plan.flows.iter().enumerate().zip(ports(plan));
    let flows = flows.map(|((at, flow), port)| (at, flow, port));
    flows.filter(|(_, flow, _)| is_here(flow.from) || is_here(flow.to)).map(spec).collect()
}

/// The first of the two ports of each flow, unique among the flows of both hosts and not used by a
/// program's readiness condition; the same on all agents. `None`: no port is left.
fn ports(plan: &Plan) -> impl Iterator<Item = Option<u16>> {
    let waited_for = |program: &lab::plan::Program| match program.ready {
        Some(Ready::Port(port) | Ready::UdpPort(port)) => Some(port),
        _ => None,
    };
    let taken: BTreeSet<u16> = plan.programs.iter().filter_map(waited_for).collect();
    let pairs = PORT_RANGES.into_iter().flat_map(|range| range.step_by(2));
    let is_free = |first: &u16| !taken.contains(first) && !taken.contains(&(*first + 1));
    let free: Vec<u16> = pairs.filter(is_free).collect();
    let mut used = vec![0; plan.nodes.len()];
    let choose = move |(from, to): (usize, usize)| {
        let next = used[from].max(used[to]);
        (used[from], used[to]) = (next + 1, next + 1);
        free.get(next).copied()
    };
    let ends = plan.flows.iter().map(|flow| (flow.from.index(), flow.to.index()));
    ends.collect::<Vec<_>>().into_iter().map(choose)
}

/// The paths of a multipath flow; empty for others.
fn flow_paths(plan: &Plan, flow: &Flow) -> Vec<FlowPath> {
    let address = |iface: IfaceId| own_address(plan, iface, flow.family);
    let paths = flow.multipath().into_iter().flat_map(|multipath| &multipath.paths);
    let path = |path: &lab::plan::Path| {
        let (from, to) = (address(path.from)?, address(path.to)?);
        let device = plan.ifaces[path.from.index()].name.as_str().into();
        Some(FlowPath { link: plan.path_link(path), device, from, to, backup: path.backup })
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

/// The path of a flow of transfers or datagrams without other traffic. Unknown if programs of the
/// lab compute the routes.
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
        Traffic::Transfers { .. } | Traffic::Paced { .. } => paths.ideal(flow, there, back, mss),
        Traffic::Requests { .. } => paths.ideal_answer(flow, there, back, mss),
        _ => None,
    }
}

/// The first address of a node that the other can reach, and its interface. If programs of the lab
/// compute the routes, reachability is unknown and the first address is used.
fn address(
    plan: &Plan,
    routes: &Routes,
    of: NodeId,
    seen_from: NodeId,
    family: Family,
) -> Option<(IfaceId, IpAddr)> {
    let own = |id: IfaceId| -> Option<(IfaceId, IpAddr)> {
        own_address(plan, id, family).map(|address| (id, address))
    };
    let ifaces = &plan.nodes[of.index()].ifaces;
    let mut reached = ifaces.iter().filter(|iface| routes.path_delay(seen_from, **iface).is_some());
    reached.find_map(|iface| own(*iface)).or_else(|| ifaces.iter().find_map(|iface| own(*iface)))
}
