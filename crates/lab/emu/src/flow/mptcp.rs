//! The kernel's Multipath TCP: assigns paths to connections and reads the counters of subflows.
//!
//! Flows of the same host may have different paths, so the kernel's own path manager, which
//! has one address list per namespace, is not used: each connection gets its paths as soon
//! as it is established.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use base::{LinkId, NodeId, Span};
use lab::plan::MultipathKind;
use run::{FlowCounters, Subflow};
use sys::netlink::mptcp::{Join, PathManager};
use sys::socket::{self, Interest, MptcpInfo, ReadyQueue, SubflowInfo};

use super::{FlowPath, Placed, enter};

/// Tokens of the path managers' descriptors, counted down from here.
const FIRST_TOKEN: u64 = u64::MAX - 1;
/// Upper bound on the number of namespaces of a lab.
const MAX_MANAGERS: u64 = 1 << 20;

/// Path managers of the namespaces that have Multipath TCP flows.
#[derive(Debug, Default)]
pub(super) struct PathManagers {
    nets: Vec<Net>,
}

#[derive(Debug)]
struct Net {
    node: NodeId,
    manager: PathManager,
    /// Paths of connections that are not established yet, by local port.
    pending_joins: BTreeMap<u16, PendingJoin>,
}

#[derive(Debug)]
struct PendingJoin {
    port: u16,
    paths: Arc<[FlowPath]>,
}

/// The paths of a flow's connections other than the first.
#[derive(Clone, Debug)]
pub(super) struct AdditionalPaths {
    node: NodeId,
    paths: Arc<[FlowPath]>,
}

impl AdditionalPaths {
    /// `None` for flows that do not use the kernel's Multipath TCP.
    pub(super) fn of(placed: &Placed) -> Option<Self> {
        let multipath = placed.flow.multipath()?;
        let most = usize::from(multipath.subflows).saturating_sub(1);
        let paths = placed.paths.iter().skip(1).take(most).cloned().collect();
        let is_kernels = multipath.kind == MultipathKind::Mptcp;
        is_kernels.then_some(Self { node: placed.flow.from, paths })
    }
}

impl PathManagers {
    /// Opens a path manager in both namespaces of a flow, unless it exists.
    pub(super) fn prepare(&mut self, placed: &Placed, queue: &ReadyQueue) -> sys::Result<()> {
        let flow = &placed.flow;
        for (node, end) in [flow.from, flow.to].into_iter().zip(0..) {
            if self.nets.iter().any(|net| net.node == node) {
                continue;
            }
            enter(placed.netns_of(end))?;
            let manager = PathManager::open()?;
            let token = FIRST_TOKEN - self.nets.len() as u64;
            queue.add(manager.events(), token, Interest::Read)?;
            self.nets.push(Net { node, manager, pending_joins: BTreeMap::new() });
        }
        Ok(())
    }

    /// Adds the flow's other paths to `client`, which connects to `port`, once it is established.
    pub(super) fn expect(
        &mut self,
        others: &AdditionalPaths,
        client: BorrowedFd<'_>,
        port: u16,
    ) -> sys::Result<()> {
        let net = self.nets.iter_mut().find(|net| net.node == others.node);
        if let (Some(net), false) = (net, others.paths.is_empty()) {
            let pending_join = PendingJoin { port, paths: Arc::clone(&others.paths) };
            net.pending_joins.insert(socket::local_port(client)?, pending_join);
        }
        Ok(())
    }

    /// Removes the connection from this port, which may have ended before it was established.
    pub(super) fn forget(&mut self, others: &AdditionalPaths, port: u16) {
        if let Some(net) = self.nets.iter_mut().find(|net| net.node == others.node) {
            net.pending_joins.remove(&port);
        }
    }

    /// Whether the token belongs to a path manager; if so, new connections get their paths.
    pub(super) fn handle_token(&mut self, token: u64) -> bool {
        let Some(index) = FIRST_TOKEN.checked_sub(token).filter(|index| *index < MAX_MANAGERS)
        else {
            return false;
        };
        if let Some(net) = self.nets.get_mut(index as usize) {
            net.join_established();
        }
        true
    }
}

impl Net {
    fn join_established(&mut self) {
        let Ok(established) = self.manager.established() else { return };
        for connection in established.into_iter().filter(|connection| !connection.accepted) {
            let Some(pending_join) = self.pending_joins.remove(&connection.local_port) else {
                continue;
            };
            if pending_join.port != connection.remote_port {
                continue;
            }
            for (path, id) in pending_join.paths.iter().zip(1..) {
                let to = SocketAddr::new(path.to, pending_join.port);
                let (token, from, backup) = (connection.token, path.from, path.backup);
                // A path that fails now is a failure of the network, which the samples show.
                let _ = self.manager.join(&Join { token, from, id, to, backup });
            }
        }
    }
}

/// Reads the counters of a connection's subflows.
#[derive(Debug)]
pub(super) struct SubflowMeter {
    /// The sender's links, by address.
    links: BTreeMap<IpAddr, LinkId>,
    /// Subflows in the order of their first appearance, each with the kernel's identifier.
    known: Vec<(u32, Subflow)>,
}

impl SubflowMeter {
    pub(super) fn new(placed: &Placed) -> Self {
        let links = placed.paths.iter().map(|path| (path.from, path.link)).collect();
        Self { links, known: Vec::new() }
    }

    /// Adds the kernel's counters of the connection between two sockets.
    pub(super) fn observe(
        &mut self,
        counters: &mut FlowCounters,
        sender: BorrowedFd<'_>,
        receiver: Option<BorrowedFd<'_>>,
    ) {
        let Ok(sent) = MptcpInfo::read(sender) else { return };
        let received = receiver.and_then(|socket| MptcpInfo::read(socket).ok()).unwrap_or_default();
        for (_, known) in &mut self.known {
            known.state = "closed";
        }
        for subflow in &sent.subflows {
            let far = received.subflows.iter().find(|far| is_other_end(subflow, far));
            self.enter(subflow, far.map(|far| far.tcp.received_bytes));
        }
        let (mut srtt, mut count, mut window) = (0, 0, 0);
        for (_, subflow) in &self.known {
            counters.observe_subflow(*subflow);
            if let (Some(one), true) = (subflow.srtt, subflow.state != "closed") {
                (srtt, count) = (srtt + one.as_nanos(), count + 1);
                window += subflow.window_bytes.unwrap_or(0);
            }
        }
        if let Some(mean) = srtt.checked_div(count) {
            counters.srtt = Some(Span::from_nanos(mean));
            counters.window_bytes = Some(window);
        }
        let retransmits: u64 = self.known.iter().map(|(_, subflow)| subflow.retransmits).sum();
        counters.retransmits = counters.retransmits.max(retransmits);
        counters.observe_reinjected(sent.reinjected_bytes);
    }

    fn enter(&mut self, seen: &SubflowInfo, received: Option<u64>) {
        let at = self.known.iter().position(|(id, _)| *id == seen.id);
        let at = at.unwrap_or_else(|| {
            let link = seen.local.and_then(|local| self.links.get(&local.ip()));
            let subflow = Subflow {
                id: self.known.len() as u32,
                path: link.copied().unwrap_or(LinkId(u32::MAX)),
                sent: 0,
                received: 0,
                retransmits: 0,
                srtt: None,
                window_bytes: None,
                state: "connecting",
            };
            self.known.push((seen.id, subflow));
            self.known.len() - 1
        });
        let (tcp, subflow) = (&seen.tcp, &mut self.known[at].1);
        subflow.sent = tcp.sent_bytes.saturating_sub(tcp.resent_bytes).max(subflow.sent);
        subflow.received = received.unwrap_or(0).max(subflow.received);
        subflow.retransmits = u64::from(tcp.retransmits);
        let measured = tcp.srtt_micros > 0;
        subflow.srtt = measured.then(|| Span::from_micros(u64::from(tcp.srtt_micros)));
        let window = u64::from(tcp.window_segments) * u64::from(tcp.segment_bytes);
        subflow.window_bytes = measured.then_some(window);
        subflow.state = match (tcp.is_established, tcp.backoff) {
            (true, 0) => "active",
            (true, _) => "stale",
            (false, _) if measured => "closing",
            (false, _) => "connecting",
        };
    }
}

fn is_other_end(near: &SubflowInfo, far: &SubflowInfo) -> bool {
    near.local.is_some() && near.local == far.remote && near.remote == far.local
}
