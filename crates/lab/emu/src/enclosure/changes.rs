//! Links and routes that events of the lab change in the kernels of its nodes.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;

use base::{IfaceId, Time};
use lab::plan::Plan;
use lab::routes;
use run::{Change, ChangeKind};
use sys::namespace;
use sys::netlink::{Batch, LinkSettings, Socket};

use super::builder::fabric_end;
use super::routes::{Node, Subnets};
use super::{Enclosure, Framing, HostNet, node_error};
use crate::Error;

/// Applies the events that take links down or bring them up to the nodes' kernels: carriers, and
/// routes unless programs of the lab set them.
pub(crate) struct KernelChanges {
    plan: Arc<Plan>,
    enclosure: Arc<Enclosure>,
    subnets: Subnets,
    /// The links and routes after the last prepared change.
    link_up: Vec<bool>,
    routes: Arc<routes::Routes>,
    prepared: VecDeque<Prepared>,
    /// Interfaces whose links are or have been down.
    outages: BTreeMap<IfaceId, Outage>,
}

/// The requests of a change.
struct Prepared {
    at: Time,
    up: bool,
    /// For the fabric's ends of veth pairs: a pair has a carrier while both ends are up.
    fabric_ends: Batch,
    nodes: Vec<NodeRequests>,
}

/// The part of a change at one node.
struct NodeRequests {
    /// The node's position in the enclosure.
    host: usize,
    batch: Batch,
    /// Ports whose carriers change.
    carriers: Vec<usize>,
}

/// Packets that a device dropped because it had no carrier. They belong to the lab.
#[derive(Clone, Copy, Debug, Default)]
struct Outage {
    /// The device's count of dropped packets at the loss of its carrier, while it has none.
    since: Option<u64>,
    /// Packets dropped in earlier outages.
    dropped: u64,
}

impl Outage {
    /// Packets dropped in all outages, if the device has now dropped `count` in all.
    fn dropped(self, count: u64) -> u64 {
        self.dropped + self.since.map_or(0, |since| count.saturating_sub(since))
    }

    fn change(&mut self, up: bool, count: u64) {
        self.dropped = self.dropped(count);
        self.since = (!up).then_some(count);
    }
}

impl KernelChanges {
    /// `routes` are those with which the enclosure was built.
    pub(crate) fn new(
        plan: Arc<Plan>,
        enclosure: Arc<Enclosure>,
        routes: Arc<routes::Routes>,
    ) -> Self {
        let is_down = |iface: &IfaceId| !plan.links[plan.ifaces[iface.index()].link.index()].up;
        let down = (0..plan.ifaces.len()).map(IfaceId::at).filter(is_down);
        Self {
            outages: down.map(|id| (id, Outage { since: Some(0), dropped: 0 })).collect(),
            subnets: Subnets::of(&plan),
            link_up: plan.links.iter().map(|link| link.up).collect(),
            routes,
            prepared: VecDeque::new(),
            plan,
            enclosure,
        }
    }

    /// Computes the requests of a change before it is due. Changes must be prepared in time order.
    pub(crate) fn prepare(&mut self, change: &Change) {
        let ChangeKind::LinkState { links, up, forwarding } = &change.kind else { return };
        let before = (self.link_up.clone(), Arc::clone(&self.routes));
        for link in links {
            self.link_up[link.index()] = *up;
        }
        if let Some(forwarding) = forwarding {
            forwarding.fill(&self.plan);
            self.routes = Arc::clone(forwarding);
        }
        let (mut fabric_ends, mut nodes) = (Batch::new(), Vec::new());
        for (index, host) in self.enclosure.hosts.iter().enumerate() {
            let (mut batch, mut carriers) = (Batch::new(), Vec::new());
            for (at, port) in host.ports.iter().enumerate() {
                let link = self.plan.ifaces[port.iface.index()].link.index();
                if before.0[link] == self.link_up[link] {
                    continue;
                }
                carriers.push(at);
                match port.framing {
                    Framing::Bare => batch.set_carrier(port.device, *up),
                    Framing::Ethernet(_) => {
                        let settings = LinkSettings { up: Some(*up), ..LinkSettings::default() };
                        fabric_ends.set_link_named(&fabric_end(port.iface), &settings);
                    }
                }
            }
            // A node with one interface has the same routes in all states of the network.
            if forwarding.is_some() && host.ports.len() > 1 {
                self.change_routes(host, &before, &mut batch);
            }
            if !batch.is_empty() || !carriers.is_empty() {
                nodes.push(NodeRequests { host: index, batch, carriers });
            }
        }
        self.prepared.push_back(Prepared { at: change.at, up: *up, fabric_ends, nodes });
    }

    fn change_routes(
        &self,
        host: &HostNet,
        (link_up, routes): &(Vec<bool>, Arc<routes::Routes>),
        batch: &mut Batch,
    ) {
        let devices: Vec<u32> = host.ports.iter().map(|port| port.device).collect();
        let ipv6 = self.enclosure.ipv6;
        let node = Node { plan: &self.plan, id: host.node, devices: &devices, ipv6 };
        let before = node.routes(routes, link_up, &self.subnets);
        node.routes(&self.routes, &self.link_up, &self.subnets).replace(&before, batch);
    }

    /// Sends the requests that are due to the kernels; returns the errors.
    pub(crate) fn apply(&mut self, now: Time) -> Vec<Error> {
        let mut errors = Vec::new();
        let due = self.prepared.iter().take_while(|change| change.at <= now).count();
        for change in self.prepared.drain(..due) {
            for requests in change.nodes {
                let host = &self.enclosure.hosts[requests.host];
                let outages = &mut self.outages;
                let send = || {
                    let mut socket = Socket::open()?;
                    for port in requests.carriers.iter().map(|at| &host.ports[*at]) {
                        let count = socket.counters(port.device)?.sent_dropped;
                        outages.entry(port.iface).or_default().change(change.up, count);
                    }
                    submit(&mut socket, requests.batch)
                };
                let failed =
                    namespace::in_net(host.netns.as_fd(), send).and_then(|done| done).err();
                errors.extend(failed.map(|cause| node_error(&self.plan, host.node, cause)));
            }
            if !change.fabric_ends.is_empty() {
                let done = Socket::open().and_then(|mut socket| socket.submit(change.fabric_ends));
                errors.extend(done.err().map(Error::from));
            }
        }
        errors
    }

    /// Packets that the device of an interface dropped because it had no carrier, if it has dropped
    /// `count` in all.
    pub(crate) fn dropped_without_carrier(&self, iface: IfaceId, count: u64) -> u64 {
        self.outages.get(&iface).map_or(0, |outage| outage.dropped(count))
    }
}

fn submit(socket: &mut Socket, batch: Batch) -> sys::Result<()> {
    match socket.submit(batch) {
        // A program has removed the route already.
        Err(error) if error.errno() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_drops_without_carrier_separately() {
        let mut outage = Outage::default();
        outage.change(false, 5);
        assert_eq!(outage.dropped(9), 4, "those since the loss of the carrier");
        outage.change(true, 12);
        assert_eq!(outage.dropped(20), 7, "with a carrier, drops are the machine's");
        outage.change(false, 20);
        assert_eq!(outage.dropped(21), 8);
    }
}
