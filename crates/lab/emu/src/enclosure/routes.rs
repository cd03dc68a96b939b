//! Kernel routes of nodes with their own kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{IfaceId, NodeId};
use fabric::Forwarding;
use lab::plan::{Iface, Plan, Role, Routing, Uplink};
use sys::netlink::{Batch, MAIN_TABLE, Route};

/// First table number and priority of the source-address rules, one for each interface of a host.
const FIRST_TABLE: u32 = 1000;

/// The address blocks of all labs.
const LAB_V4: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8);
const LAB_V6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::new(0xfd6e, 0x6574, 0, 0, 0, 0, 0, 0)), 32);

const ANY_V4: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
const ANY_V6: (IpAddr, u8) = (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// The network address of `address`.
fn network(address: IpAddr, prefix: u8) -> (IpAddr, u8) {
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

fn contains((block, prefix): (IpAddr, u8), address: IpAddr) -> bool {
    block.is_ipv4() == address.is_ipv4() && network(address, prefix).0 == block
}

/// The addresses of an interface with their prefix lengths.
fn addresses(iface: &Iface) -> impl Iterator<Item = (IpAddr, u8)> {
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

/// The node whose routes are added.
pub(super) struct Node<'a> {
    pub(super) plan: &'a Plan,
    pub(super) id: NodeId,
    /// Device indices, in the order of the node's interfaces.
    pub(super) devices: &'a [u32],
    pub(super) ipv6: bool,
}

impl Node<'_> {
    /// Adds the routes that the node needs beyond its connected subnets.
    pub(super) fn add_routes(
        &self,
        forwarding: &dyn Forwarding,
        subnets: &Subnets,
        batch: &mut Batch,
    ) {
        let Some(&first) = self.devices.first() else { return };
        let node = &self.plan.nodes[self.id.index()];
        let is_host = node.kind == Role::Host;
        if is_host {
            let everything = [ANY_V4, ANY_V6];
            let lab = &subnets.blocks;
            let is_direct = self.plan.uplink == Uplink::Hosts;
            let to = if is_direct { lab.as_slice() } else { everything.as_slice() };
            for &to in to {
                self.add(batch, to, MAIN_TABLE, &[first]);
            }
        }
        if self.devices.len() > 1 {
            if is_host {
                self.add_source_rules(batch);
            }
            if self.plan.routing != Routing::None {
                self.add_destinations(forwarding, batch);
            }
        } else if !is_host && self.plan.routing != Routing::None {
            let everything = [ANY_V4, ANY_V6];
            let is_gateway = self.plan.uplink == Uplink::Router(self.id);
            let to = if is_gateway { subnets.blocks.as_slice() } else { everything.as_slice() };
            for &to in to {
                self.add(batch, to, MAIN_TABLE, &[first]);
            }
        }
    }

    fn add(&self, batch: &mut Batch, to: (IpAddr, u8), table: u32, devices: &[u32]) {
        let has = |iface: &IfaceId| {
            let iface = &self.plan.ifaces[iface.index()];
            addresses(iface).any(|(address, _)| address.is_ipv6() == to.0.is_ipv6())
        };
        let usable = self.plan.nodes[self.id.index()].ifaces.iter().any(has);
        if usable && (self.ipv6 || to.0.is_ipv4()) {
            batch.add_route(&Route { to, table, devices, source: None });
        }
    }

    /// Routes packets from an interface's address through that interface.
    fn add_source_rules(&self, batch: &mut Batch) {
        let ifaces = &self.plan.nodes[self.id.index()].ifaces;
        for (at, (iface, device)) in ifaces.iter().zip(self.devices).enumerate() {
            let table = FIRST_TABLE + at as u32;
            for (address, _) in addresses(&self.plan.ifaces[iface.index()]) {
                if address.is_ipv6() && !self.ipv6 {
                    continue;
                }
                let any = if address.is_ipv6() { ANY_V6 } else { ANY_V4 };
                self.add(batch, any, table, &[*device]);
                batch.add_source_rule(address, table, table);
            }
        }
    }

    /// Adds a host route for each address whose path differs from the kernel's other routes.
    fn add_destinations(&self, forwarding: &dyn Forwarding, batch: &mut Batch) {
        let node = &self.plan.nodes[self.id.index()];
        let default = (node.kind == Role::Host).then(|| node.ifaces[0]);
        for (at, iface) in self.plan.ifaces.iter().enumerate() {
            if iface.node == self.id {
                continue;
            }
            let next = forwarding.next(self.id, IfaceId::at(at));
            let devices: Vec<u32> = next.iter().filter_map(|iface| self.device(*iface)).collect();
            if devices.is_empty() {
                continue;
            }
            for (address, _) in addresses(iface) {
                let usual = self.connected(address).or(default);
                if usual.is_none_or(|usual| next != [usual]) {
                    let length = if address.is_ipv6() { 128 } else { 32 };
                    self.add(batch, (address, length), MAIN_TABLE, &devices);
                }
            }
        }
    }

    fn device(&self, iface: IfaceId) -> Option<u32> {
        let ifaces = &self.plan.nodes[self.id.index()].ifaces;
        let at = ifaces.iter().position(|own| *own == iface)?;
        self.devices.get(at).copied()
    }

    /// The interface whose subnet contains `address`.
    fn connected(&self, address: IpAddr) -> Option<IfaceId> {
        let ifaces = &self.plan.nodes[self.id.index()].ifaces;
        ifaces.iter().copied().find(|iface| {
            addresses(&self.plan.ifaces[iface.index()])
                .any(|(own, prefix)| contains(network(own, prefix), address))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(network(ip("10.1.2.3"), 24), (ip("10.1.2.0"), 24));
        assert_eq!(network(ip("10.1.2.3"), 0), ANY_V4);
        assert_eq!(network(ip("10.1.2.3"), 32), (ip("10.1.2.3"), 32));
        assert_eq!(network(ip("fd6e:6574:1::5"), 32), LAB_V6);
        assert!(contains(LAB_V4, ip("10.255.0.1")) && !contains(LAB_V4, ip("11.0.0.1")));
        assert!(!contains(LAB_V4, ip("::1")) && !contains(ANY_V4, ip("::1")));
    }
}
