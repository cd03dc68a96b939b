//! Parameters of flows: their placement, paths and transports.

use std::sync::Arc;

use base::{FlowId, IfaceId, LinkId, NodeId};
use lab::plan::{Flow, Model, Multipath, MultipathKind, Plan, Role, Tcp, Traffic};
use lab::routes::{Routes, flow_hash};
use run::{Ideal, Paths, ip_header};
use transport::tcp::Config;
use transport::tcp::control::Control;

use crate::app::{FlowParameters, Spec};
use crate::canonical::Canonical;
use crate::multipath::{Shape, Way};
use crate::net::{Leg, UDP_HEADER};
use crate::{Error, Result};

/// Maximum number of connections of a bulk flow, as on the wall clock.
const MAX_STREAMS: u32 = 1024;

/// The parameters of a flow, and its two sides.
pub(crate) type Placed = (FlowParameters, [Leg; 2]);

/// The initial routes, the parameters of a sorted plan's flows, and the ends of
/// the subflows' paths.
///
/// # Errors
/// If a flow has no route or its settings cannot be satisfied.
pub(crate) fn flows(sorted: &Canonical) -> Result<(Routes, Vec<Placed>, Vec<[Leg; 2]>)> {
    let plan = &sorted.plan;
    // Links that are down now may come up later; the placement is for the whole run.
    let paths = Paths::new(plan);
    let mut placed: Vec<Placed> = Vec::with_capacity(sorted.specs.len());
    let mut known = Known::default();
    let mut legs = Vec::new();
    for (flow, id) in sorted.specs.iter().zip(&sorted.flows) {
        let place = Place { plan, paths: &paths, flow, links: &sorted.links };
        let (mut parameters, ends) = place.parameters(placed.len() as u32, *id, &mut known)?;
        if let Some(multipath) = flow.multipath() {
            let first = sorted.specs.len() + legs.len();
            let shape = place.shape(multipath, first as u32, &mut legs)?;
            parameters.multipath = Some(Arc::new(shape));
        }
        placed.push((parameters, ends));
    }
    Ok((paths.into_first_routes(), placed, legs))
}

/// Values of earlier flows, so that equal values are stored once.
#[derive(Default)]
struct Known {
    specs: Vec<Arc<Spec>>,
    configs: Vec<Arc<Config>>,
    ideals: Vec<Arc<Ideal>>,
}

/// Maximum number of stored values that a new value is compared with.
const COMPARED: usize = 32;

/// An equal stored value, if a recent one exists, or else `value`.
fn share<T: PartialEq>(known: &mut Vec<Arc<T>>, value: T) -> Arc<T> {
    if let Some(same) = known.iter().rev().find(|known| ***known == value) {
        return Arc::clone(same);
    }
    if known.len() >= COMPARED {
        known.remove(0);
    }
    let shared = Arc::new(value);
    known.push(Arc::clone(&shared));
    shared
}

/// Payload of a segment if each message of `message` bytes is sent in its own segments: as many
/// segments as the kernel would send, but of equal length, so that the wire carries the same bytes.
fn segment_of(message: u64, mss: u32) -> u32 {
    let segments = message.div_ceil(u64::from(mss)).max(1);
    u32::try_from(message.div_ceil(segments)).map_or(mss, |length| length.clamp(1, mss))
}

/// A flow and its surroundings in the network.
struct Place<'a> {
    plan: &'a Plan,
    paths: &'a Paths<'a>,
    flow: &'a Flow,
    /// Identifier of each link in the original plan.
    links: &'a [LinkId],
}

/// Whether the fabric routes the packets that a node sends.
const fn forwards(kind: Role) -> bool {
    matches!(kind, Role::Router | Role::SendBox | Role::ReceiveBox)
}

impl Place<'_> {
    fn parameters(&self, at: u32, id: FlowId, known: &mut Known) -> Result<Placed> {
        let Flow { from, to, .. } = self.flow;
        if from == to {
            return self.refuse("it begins and ends at the same node");
        }
        let there = self.reached(*to, *from)?;
        let back = self.reached(*from, *to)?;
        let legs = [self.leg(*from, back, there), self.leg(*to, there, back)];
        self.check(there)?;
        let config = self.config(self.paths.segment(self.flow, there, back))?;
        let ideal = match &self.flow.traffic {
            // The responses determine the completion time.
            Traffic::Requests { .. } => self.paths.ideal_answer(self.flow, there, back, config.mss),
            _ => self.paths.ideal(self.flow, there, back, config.mss),
        };
        let name = |id: NodeId| self.plan.nodes[id.index()].name.as_str();
        let spec = Spec {
            traffic: self.flow.traffic.clone(),
            duration: self.flow.duration,
            seed: self.plan.seed,
        };
        let parameters = FlowParameters {
            flow: at,
            id,
            name: self.flow.name.as_str().into(),
            start: self.flow.start,
            spec: share(&mut known.specs, spec),
            hash: flow_hash(name(self.flow.from), name(self.flow.to), &self.flow.name),
            ideal: share(&mut known.ideals, ideal.unwrap_or_default()),
            config: share(&mut known.configs, config),
            multipath: None,
        };
        Ok((parameters, legs))
    }

    fn leg(&self, node: NodeId, own: IfaceId, to: IfaceId) -> Leg {
        Leg {
            node,
            own,
            to,
            router: forwards(self.plan.nodes[node.index()].kind),
            bound: false,
            dscp: self.flow.dscp,
            header: ip_header(self.flow.family) as u8,
        }
    }

    /// The parameters of a multipath flow; `first` is the index in `legs` at which its
    /// paths are added.
    fn shape(&self, multipath: &Multipath, first: u32, legs: &mut Vec<[Leg; 2]>) -> Result<Shape> {
        let Flow { from, to, .. } = self.flow;
        if multipath.kind == MultipathKind::Mptcp {
            return self.refuse(
                "MPTCP needs the kernel, which only the wall clock has: use `netarium run`",
            );
        }
        if !matches!(self.plan.model, Model::Hop) {
            return self.refuse("MCTCP needs every packet: use `model = \"hop\"`");
        }
        let mut ways = Vec::with_capacity(multipath.paths.len());
        for (place, path) in (first..).zip(&multipath.paths) {
            let mss = self.paths.segment(self.flow, path.to, path.from);
            let bound = |leg: Leg| Leg { bound: true, ..leg };
            legs.push([
                bound(self.leg(*from, path.from, path.to)),
                bound(self.leg(*to, path.to, path.from)),
            ]);
            let link = self.links[self.plan.path_link(path).index()];
            let config = Config { nodelay: true, paced: true, ..self.config(mss)? };
            ways.push(Way { legs: place, config, link, backup: path.backup });
        }
        let window = self.flow.traffic.tcp().and_then(|tcp| tcp.window);
        Ok(Shape::new(multipath, ways, window))
    }

    fn refuse<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::ImpossibleFlow { flow: self.flow.name.clone(), why: why.into() })
    }

    /// The first interface of node `of` that node `seen_from` can reach.
    fn reached(&self, of: NodeId, seen_from: NodeId) -> Result<IfaceId> {
        let ifaces = &self.plan.nodes[of.index()].ifaces;
        let mut reached = ifaces
            .iter()
            .filter(|iface| self.paths.routes().path_delay(seen_from, **iface).is_some());
        let name = |node: NodeId| self.plan.nodes[node.index()].name.clone();
        reached.next().copied().ok_or_else(|| Error::NoRoute {
            flow: self.flow.name.clone(),
            from: name(seen_from),
            to: name(of),
        })
    }

    /// Checks that the flow's settings can be satisfied.
    fn check(&self, there: IfaceId) -> Result<()> {
        match &self.flow.traffic {
            Traffic::Bulk { streams, .. } => self.check_streams(*streams),
            Traffic::Requests { spec, .. } => self.check_streams(spec.streams),
            Traffic::Queries(spec) => {
                self.check_datagram(there, spec.request.max(spec.response).count())
            }
            Traffic::Controlled { packet, .. } => self.check_datagram(there, packet.count()),
            Traffic::Paced { packet, pattern, .. } => {
                let largest = match pattern {
                    workload::Pattern::Trace(trace) => {
                        trace.datagrams.iter().map(|(_, bytes)| bytes.count()).max().unwrap_or(0)
                    }
                    _ => packet.count(),
                };
                self.check_datagram(there, largest)
            }
            _ => Ok(()),
        }
    }

    fn check_streams(&self, streams: u32) -> Result<()> {
        if (1..=MAX_STREAMS).contains(&streams) {
            return Ok(());
        }
        self.refuse(format!("it must have 1 to {MAX_STREAMS} streams"))
    }

    fn check_datagram(&self, there: IfaceId, largest: u64) -> Result<()> {
        let mtu = self.paths.mtu(self.flow.from, there);
        let most = mtu.saturating_sub(ip_header(self.flow.family) + UDP_HEADER);
        if largest > u64::from(most) {
            return self.refuse(format!(
                "datagrams of {largest} B do not fit its path, which takes {most} B of payload; \
                 fragments need the wall clock (`netarium run`)"
            ));
        }
        Ok(())
    }

    fn config(&self, mut mss: u32) -> Result<Config> {
        let (tcp, nodelay) = match &self.flow.traffic {
            Traffic::Bulk { tcp, message, .. } => (tcp.clone(), message.is_some()),
            Traffic::Transfers { tcp, .. } => (tcp.clone(), false),
            Traffic::Rpc { tcp, .. } | Traffic::Requests { tcp, .. } => (tcp.clone(), true),
            Traffic::Paced { .. } | Traffic::Controlled { .. } | Traffic::Queries { .. } => {
                (Tcp::default(), false)
            }
        };
        let control = match &tcp.control {
            None => Control::Cubic,
            Some(name) => name
                .parse()
                .map_err(|cause| Error::UnknownControl { flow: self.flow.name.clone(), cause })?,
        };
        if control.is_scalable() && matches!(self.plan.model, Model::Fluid) {
            return self.refuse(format!(
                "`{control}` responds to marks of packets: use `model = \"hop\"`"
            ));
        }
        if mss == 0 {
            return self.refuse("the MTU of its path leaves no room for payload");
        }
        if let Traffic::Bulk { message: Some(message), .. } = &self.flow.traffic {
            mss = segment_of(message.count(), mss);
        }
        let mut config = Config { mss, control, ecn: tcp.ecn, nodelay, ..Config::default() };
        if let Some(window) = tcp.window {
            config.receive_window = window;
        }
        Ok(config)
    }
}
