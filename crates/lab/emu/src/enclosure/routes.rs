//! Kernel routes of nodes with their own kernel.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{IfaceId, NodeId};
use fabric::Forwarding;
use lab::plan::{Iface, Plan, Role, Routing, Uplink};
use sys::netlink::{Batch, MAIN_TABLE, Route};

/// First table number and priority of the source-address rules, one for each interface of a host.
pub(super) const FIRST_TABLE: u32 = 1000;

/// The address blocks of all labs.
const LAB_V4: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8);
const LAB_V6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::new(0xfd6e, 0x6574, 0, 0, 0, 0, 0, 0)), 32);

const ANY_V4: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
const ANY_V6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

pub(super) fn network(address: IpAddr, prefix: u8) -> (IpAddr, u8) {
    let masked = match address {
        IpAddr::V4(address) => {
            let shift = 32 - u32::from(prefix.min(32));
            Ipv4Addr::from_bits(mask_u32(address.to_bits(), shift)).into()
        }
        IpAddr::V6(address) => {
            let shift = 128 - u32::from(prefix.min(128));
            let bits = address.to_bits();
            Ipv6Addr::from_bits(bits.checked_shr(shift).map_or(0, |b| b << shift)).into()
        }
    };
    (masked, prefix)
}

fn mask_u32(bits: u32, shift: u32) -> u32 {
    bits.checked_shr(shift).map_or(0, |bits| bits << shift)
}

pub(super) fn contains((block, prefix): (IpAddr, u8), address: IpAddr) -> bool {
    block.is_ipv4() == address.is_ipv4() && network(address, prefix).0 == block
}

/// The addresses of an interface with their prefix lengths.
pub(super) fn addresses(iface: &Iface) -> impl Iterator<Item = (IpAddr, u8)> {
    let v4 = iface.v4.map(|(address, prefix)| (IpAddr::V4(address), prefix));
    let v6 = iface.v6.map(|(address, prefix)| (IpAddr::V6(address), prefix));
    v4.into_iter().chain(v6)
}

/// The lab's address blocks, which a host reaches through its first interface even if its
/// default route leads elsewhere.
#[derive(Debug)]
pub(super) struct Subnets {
    blocks: Vec<(IpAddr, u8)>,
}

impl Subnets {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut blocks = vec![LAB_V4, LAB_V6];
        if plan.uplink != Uplink::None {
            for (address, prefix) in plan.ifaces.iter().flat_map(addresses) {
                if !blocks.iter().any(|block| contains(*block, address)) {
                    blocks.push(network(address, prefix));
                }
            }
        }
        Self { blocks }
    }
}

/// A destination in a routing table: the table's number, network address and prefix length.
pub(super) type Destination = (u32, IpAddr, u8);

/// The routes of a node, with the devices of each.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Routes(pub(super) BTreeMap<Destination, Vec<u32>>);

impl Routes {
    /// Adds the requests that change `before` to these routes.
    pub(super) fn replace(&self, before: &Self, batch: &mut Batch) {
        for (&(table, address, prefix), devices) in &self.0 {
            if before.0.get(&(table, address, prefix)) != Some(devices) {
                batch.add_route(&Route { to: (address, prefix), table, devices, source: None });
            }
        }
        for &(table, address, prefix) in before.0.keys() {
            if !self.0.contains_key(&(table, address, prefix)) {
                batch.remove_route((address, prefix), table);
            }
        }
    }
}

/// A node with a kernel.
pub(super) struct Node<'a> {
    pub(super) plan: &'a Plan,
    pub(super) id: NodeId,
    /// Device indices, in the order of the node's interfaces.
    pub(super) devices: &'a [u32],
    pub(super) ipv6: bool,
}

impl<'a> Node<'a> {
    /// The routes that the node needs beyond its connected subnets, if link *l* is up iff
    /// `link_up[l]`.
    pub(super) fn routes(
        &self,
        forwarding: &dyn Forwarding,
        link_up: &[bool],
        subnets: &Subnets,
    ) -> Routes {
        let mut routes = Routes::default();
        let Some(&first) = self.devices.first() else { return routes };
        let node = self.node();
        let has_carrier = |iface: &IfaceId| link_up[self.plan.ifaces[iface.index()].link.index()];
        let up: Vec<(usize, IfaceId)> = node
            .ifaces
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, iface)| has_carrier(iface))
            .collect();
        let default = up.first().map_or(0, |(at, _)| *at);
        let is_host = node.kind == Role::Host;
        if is_host {
            let everything = [ANY_V4, ANY_V6];
            let lab = &subnets.blocks;
            let is_direct = self.plan.uplink == Uplink::Hosts;
            let to = if is_direct { lab.as_slice() } else { everything.as_slice() };
            for &to in to {
                self.add(&mut routes, to, MAIN_TABLE, &[self.devices[default]]);
            }
        }
        if self.devices.len() > 1 {
            if is_host {
                self.add_source_routes(&mut routes, &up, forwarding);
            }
            if self.plan.routing != Routing::None {
                let default = is_host.then(|| node.ifaces[default]);
                self.add_destinations(&mut routes, default, forwarding);
            }
        } else if !is_host && self.plan.routing != Routing::None {
            let everything = [ANY_V4, ANY_V6];
            let is_gateway = self.plan.uplink == Uplink::Router(self.id);
            let to = if is_gateway { subnets.blocks.as_slice() } else { everything.as_slice() };
            for &to in to {
                self.add(&mut routes, to, MAIN_TABLE, &[first]);
            }
        }
        routes
    }

    /// Adds the rules by which packets from an interface's address leave through that interface.
    pub(super) fn add_source_rules(&self, batch: &mut Batch) {
        if self.devices.len() < 2 || self.node().kind != Role::Host {
            return;
        }
        for (table, iface) in (FIRST_TABLE..).zip(&self.node().ifaces) {
            for (address, _) in addresses(&self.plan.ifaces[iface.index()]) {
                if self.ipv6 || address.is_ipv4() {
                    batch.add_source_rule(address, table, table);
                }
            }
        }
    }

    fn node(&self) -> &'a lab::plan::Node {
        &self.plan.nodes[self.id.index()]
    }

    fn add(&self, routes: &mut Routes, to: (IpAddr, u8), table: u32, devices: &[u32]) {
        let has = |iface: &IfaceId| {
            let iface = &self.plan.ifaces[iface.index()];
            addresses(iface).any(|(address, _)| address.is_ipv6() == to.0.is_ipv6())
        };
        if (self.ipv6 || to.0.is_ipv4()) && self.node().ifaces.iter().any(has) {
            routes.0.insert((table, to.0, to.1), devices.to_vec());
        }
    }

    /// Adds the tables of the interfaces' addresses: a default route through the interface while it
    /// has a carrier, and routes to the destinations that only other interfaces reach.
    fn add_source_routes(
        &self,
        routes: &mut Routes,
        up: &[(usize, IfaceId)],
        forwarding: &dyn Forwarding,
    ) {
        for &(at, iface) in up {
            let table = FIRST_TABLE + at as u32;
            for (address, _) in addresses(&self.plan.ifaces[iface.index()]) {
                let any = if address.is_ipv6() { ANY_V6 } else { ANY_V4 };
                self.add(routes, any, table, &[self.devices[at]]);
            }
            if self.plan.routing == Routing::None {
                continue;
            }
            for (destination, devices) in self.destinations(forwarding) {
                if !self.leads_to(iface, destination, forwarding) {
                    self.add_host_routes(routes, destination, table, &devices, |_| true);
                }
            }
        }
    }

    /// Whether packets that leave through `iface` reach interface `to`.
    fn leads_to(&self, iface: IfaceId, to: IfaceId, forwarding: &dyn Forwarding) -> bool {
        let own = &self.plan.ifaces[iface.index()];
        let peer = self.plan.links[own.link.index()].ends[1 - own.sends.index()];
        let is_transit = self.plan.nodes[peer.index()].kind != Role::Host;
        self.plan.ifaces[to.index()].node == peer
            || (is_transit && !forwarding.next(peer, to).is_empty())
    }

    /// The interfaces of other nodes to which there is a path, with the devices that lead there.
    fn destinations(
        &self,
        forwarding: &'a dyn Forwarding,
    ) -> impl Iterator<Item = (IfaceId, Vec<u32>)> {
        let others = self.plan.ifaces.iter().enumerate().filter(|(_, to)| to.node != self.id);
        others.filter_map(|(at, _)| {
            let next = forwarding.next(self.id, IfaceId::at(at));
            let devices: Vec<u32> = next.iter().filter_map(|iface| self.device(*iface)).collect();
            (!devices.is_empty()).then(|| (IfaceId::at(at), devices))
        })
    }

    /// Adds a host route for each address whose path differs from the kernel's other routes.
    fn add_destinations(
        &self,
        routes: &mut Routes,
        default: Option<IfaceId>,
        forwarding: &dyn Forwarding,
    ) {
        for (to, devices) in self.destinations(forwarding) {
            let differs = |address| {
                let usual = self.connected(address).or(default);
                usual.and_then(|usual| self.device(usual)).is_none_or(|usual| devices != [usual])
            };
            self.add_host_routes(routes, to, MAIN_TABLE, &devices, differs);
        }
    }

    /// Adds a route for each address of an interface that `is_needed`.
    fn add_host_routes(
        &self,
        routes: &mut Routes,
        to: IfaceId,
        table: u32,
        devices: &[u32],
        is_needed: impl Fn(IpAddr) -> bool,
    ) {
        for (address, _) in addresses(&self.plan.ifaces[to.index()]) {
            if is_needed(address) {
                let length = if address.is_ipv6() { 128 } else { 32 };
                self.add(routes, (address, length), table, devices);
            }
        }
    }

    fn device(&self, iface: IfaceId) -> Option<u32> {
        let at = self.node().ifaces.iter().position(|own| *own == iface)?;
        self.devices.get(at).copied()
    }

    /// The interface whose subnet contains `address`.
    fn connected(&self, address: IpAddr) -> Option<IfaceId> {
        self.node().ifaces.iter().copied().find(|iface| {
            addresses(&self.plan.ifaces[iface.index()])
                .any(|(own, prefix)| contains(network(own, prefix), address))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_contains_its_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(network(ip("10.1.2.3"), 24), (ip("10.1.2.0"), 24));
        assert_eq!(network(ip("10.1.2.3"), 0), ANY_V4);
        assert_eq!(network(ip("10.1.2.3"), 32), (ip("10.1.2.3"), 32));
        assert_eq!(network(ip("fd6e:6574:1::5"), 32), LAB_V6);
        assert!(contains(LAB_V4, ip("10.255.0.1")) && !contains(LAB_V4, ip("11.0.0.1")));
        assert!(!contains(LAB_V4, ip("::1")) && !contains(ANY_V4, ip("::1")));
    }
}
