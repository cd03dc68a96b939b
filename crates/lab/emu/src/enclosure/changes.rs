//! Carriers that events of the lab change in the kernels of its nodes.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;

use base::{IfaceId, Time};
use lab::plan::Plan;
use run::{Change, ChangeKind};
use sys::namespace;
use sys::netlink::{Batch, LinkSettings, Socket};

use super::builder::fabric_end;
use super::{Enclosure, Framing, node_error};
use crate::Error;

/// Applies the events that take links down or bring them up to the nodes' kernels.
pub(crate) struct KernelChanges {
    plan: Arc<Plan>,
    enclosure: Arc<Enclosure>,
    /// The links after the last prepared change.
    link_up: Vec<bool>,
    prepared: VecDeque<Prepared>,
    /// Interfaces whose links are or have been down.
    outages: BTreeMap<IfaceId, Outage>,
}

/// The requests of a change.
struct Prepared {
    at: Time,
    up: bool,
    /// For the fabric's ends of virtual Ethernet pairs: a pair has a carrier while both are up.
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
    pub(crate) fn new(plan: Arc<Plan>, enclosure: Arc<Enclosure>) -> Self {
        let is_down = |iface: &IfaceId| !plan.links[plan.ifaces[iface.index()].link.index()].up;
        let down = (0..plan.ifaces.len()).map(IfaceId::at).filter(is_down);
        Self {
            outages: down.map(|id| (id, Outage { since: Some(0), dropped: 0 })).collect(),
            link_up: plan.links.iter().map(|link| link.up).collect(),
            prepared: VecDeque::new(),
            plan,
            enclosure,
        }
    }

    /// Computes the requests of a change before it is due. Changes are prepared in the order of
    /// their times.
    pub(crate) fn prepare(&mut self, change: &Change) {
        let ChangeKind::LinkState { links, up, .. } = &change.kind else { return };
        let before = self.link_up.clone();
        for link in links {
            self.link_up[link.index()] = *up;
        }
        let (mut fabric_ends, mut nodes) = (Batch::new(), Vec::new());
        for (index, host) in self.enclosure.hosts.iter().enumerate() {
            let (mut batch, mut carriers) = (Batch::new(), Vec::new());
            for (at, port) in host.ports.iter().enumerate() {
                let link = self.plan.ifaces[port.iface.index()].link.index();
                if before[link] == self.link_up[link] {
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
            if !carriers.is_empty() {
                nodes.push(NodeRequests { host: index, batch, carriers });
            }
        }
        self.prepared.push_back(Prepared { at: change.at, up: *up, fabric_ends, nodes });
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
                    socket.submit(requests.batch)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_in_outages_are_separate_from_others() {
        let mut outage = Outage::default();
        outage.change(false, 5);
        assert_eq!(outage.dropped(9), 4, "those since the loss of the carrier");
        outage.change(true, 12);
        assert_eq!(outage.dropped(20), 7, "with a carrier, drops are the machine's");
        outage.change(false, 20);
        assert_eq!(outage.dropped(21), 8);
    }
}
