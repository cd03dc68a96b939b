//! What flows are given: their places, paths and transports.

use std::sync::Arc;

use base::{FlowId, IfaceId, NodeId};
use lab::plan::{Family, Flow, Plan, Role, Tcp, Traffic};
use lab::routes::Routes;
use transport::tcp::Config;
use transport::tcp::control::Control;

use crate::app::Given;
use crate::canonical::Canonical;
use crate::net::{Leg, UDP_HEADER};
use crate::path::{self, Ideal};
use crate::{Error, Result};

/// Connections of one bulk flow at most, as on the wall clock.
const MAX_STREAMS: u32 = 1024;

/// TCP's header with the time-stamps option, which every segment carries.
const TCP_HEADER: u32 = 32;

/// An IP packet is never longer.
const LARGEST_PACKET: u32 = 65_535;

/// What a flow is given, and both of its sides.
pub(crate) type Placed = (Given, [Leg; 2]);

/// What the flows of a sorted plan are given, and its routes as the run begins.
///
/// # Errors
/// If a flow has no route or is otherwise impossible.
pub(crate) fn flows(sorted: &Canonical) -> Result<(Routes, Vec<Placed>)> {
    let plan = &sorted.plan;
    let now: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    // Links that are down now may come up: places hold for the whole run.
    let ever = ever_up(plan);
    let ways = Routes::compute(plan, &ever);
    let mtus = path::smallest_mtus(plan);
    let mut placed: Vec<Placed> = Vec::with_capacity(sorted.specs.len());
    for (flow, id) in sorted.specs.iter().zip(&sorted.flows) {
        let place = Place { plan, ways: &ways, mtus: &mtus, flow };
        let like = placed.last().map(|(given, _)| &given.config);
        placed.push(place.given(placed.len() as u32, *id, like)?);
    }
    let routes = if now == ever { ways } else { Routes::compute(plan, &now) };
    Ok((routes, placed))
}

/// Whether each link is in service at any time.
fn ever_up(plan: &Plan) -> Vec<bool> {
    let mut up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    for event in &plan.events {
        match event.action {
            lab::plan::Action::LinkUp(link) => up[link.index()] = true,
            lab::plan::Action::NodeUp(node) => {
                for iface in &plan.nodes[node.index()].ifaces {
                    up[plan.ifaces[iface.index()].link.index()] = true;
                }
            }
            _ => {}
        }
    }
    up
}

/// A flow and the network around it.
struct Place<'a> {
    plan: &'a Plan,
    ways: &'a Routes,
    mtus: &'a [Option<u32>],
    flow: &'a Arc<Flow>,
}

impl Place<'_> {
    fn given(&self, at: u32, id: FlowId, like: Option<&Arc<Config>>) -> Result<Placed> {
        let Flow { from, to, .. } = &**self.flow;
        if from == to {
            return self.refuse("it begins and ends at the same node");
        }
        let there = self.reached(*to, *from)?;
        let back = self.reached(*from, *to)?;
        let leg = |node: NodeId, own: IfaceId, to: IfaceId| Leg {
            node,
            own,
            to,
            router: self.plan.nodes[node.index()].kind == Role::Router,
            dscp: self.flow.dscp,
            header: self.ip_header() as u8,
        };
        let legs = [leg(*from, back, there), leg(*to, there, back)];
        let mtu = |from: NodeId, to: IfaceId| {
            path::mtu(self.plan, self.ways, self.mtus, from, to).unwrap_or(LARGEST_PACKET)
        };
        let mtus = [mtu(*from, there), mtu(*to, back)];
        self.check(mtus[0])?;
        let config = self.config(mtus[0].min(mtus[1]))?;
        let given = Given {
            flow: at,
            id,
            spec: Arc::clone(self.flow),
            seed: self.plan.seed,
            hash: self.hash(),
            ideal: self.ideal(there, back, config.mss),
            config: match like {
                Some(like) if **like == config => Arc::clone(like),
                _ => Arc::new(config),
            },
        };
        Ok((given, legs))
    }

    fn refuse<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::ImpossibleFlow { flow: self.flow.name.clone(), why: why.into() })
    }

    fn ip_header(&self) -> u32 {
        match self.flow.family {
            Family::V4 => 20,
            Family::V6 => 40,
        }
    }

    /// The first interface of a node that the other can reach.
    fn reached(&self, of: NodeId, seen_from: NodeId) -> Result<IfaceId> {
        let ifaces = &self.plan.nodes[of.index()].ifaces;
        let mut reached =
            ifaces.iter().filter(|iface| self.ways.path_delay(seen_from, **iface).is_some());
        let name = |node: NodeId| self.plan.nodes[node.index()].name.clone();
        reached.next().copied().ok_or_else(|| Error::NoRoute {
            flow: self.flow.name.clone(),
            from: name(seen_from),
            to: name(of),
        })
    }

    /// Whether the flow can be what it asks to be.
    fn check(&self, mtu: u32) -> Result<()> {
        match &self.flow.traffic {
            Traffic::Bulk { streams, .. } if !(1..=MAX_STREAMS).contains(streams) => {
                self.refuse(format!("it must have 1 to {MAX_STREAMS} streams"))
            }
            Traffic::Paced { packet, pattern, .. } => {
                let largest = match pattern {
                    transport::workload::Pattern::Trace(trace) => {
                        trace.datagrams.iter().map(|(_, bytes)| bytes.count()).max().unwrap_or(0)
                    }
                    _ => packet.count(),
                };
                let most = mtu.saturating_sub(self.ip_header() + UDP_HEADER);
                if largest > u64::from(most) {
                    return self.refuse(format!(
                        "datagrams of {largest} B do not fit its path, which takes {most} B of \
                         payload; fragments are for the wall clock (`netarium run`)"
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn config(&self, mtu: u32) -> Result<Config> {
        let (tcp, nodelay) = match &self.flow.traffic {
            Traffic::Bulk { tcp, message, .. } => (tcp.clone(), message.is_some()),
            Traffic::Transfers { tcp, .. } => (tcp.clone(), false),
            Traffic::Rpc { tcp, .. } => (tcp.clone(), true),
            Traffic::Paced { .. } => (Tcp::default(), false),
        };
        let control = match &tcp.control {
            None => Control::Cubic,
            Some(name) => name
                .parse()
                .map_err(|cause| Error::UnknownControl { flow: self.flow.name.clone(), cause })?,
        };
        let mss = mtu.min(LARGEST_PACKET).saturating_sub(self.ip_header() + TCP_HEADER);
        if mss == 0 {
            return self.refuse(format!("an MTU of {mtu} B leaves no room for payload"));
        }
        let mut config = Config { mss, control, ecn: tcp.ecn, nodelay, ..Config::default() };
        if let Some(window) = tcp.window {
            config.receive_window = window;
        }
        Ok(config)
    }

    fn ideal(&self, there: IfaceId, back: IfaceId, mss: u32) -> Ideal {
        let way = |from, to| path::walk(self.plan, self.ways, from, to).unwrap_or_default();
        let (out, home) = (way(self.flow.from, there), way(self.flow.to, back));
        Ideal {
            round_trip: out.delay + home.delay,
            one_way: out.delay,
            rate: out.rate,
            mss,
            header: self.ip_header() + TCP_HEADER + self.plan.overhead.count() as u32,
        }
    }

    /// From names, so that neither addresses nor the order of the lab file matter (FNV-1a).
    fn hash(&self) -> u32 {
        let node = |id: NodeId| self.plan.nodes[id.index()].name.as_bytes();
        let parts = [node(self.flow.from), node(self.flow.to), self.flow.name.as_bytes()];
        let mut hash = 0x811c_9dc5_u32;
        for byte in parts.into_iter().flat_map(|part| part.iter().chain(&[0])) {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
        hash
    }
}
