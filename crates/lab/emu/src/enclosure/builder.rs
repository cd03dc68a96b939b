//! Creates the namespaces one after another, each with a few system calls.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use base::{IfaceId, NodeId};
use fabric::Forwarding;
use lab::plan::Plan;
use sys::namespace::{self, Kinds};
use sys::netlink::{self, Batch, LinkSettings, Socket, Veth};
use sys::packet;
use sys::tun::Tun;

use super::routes::{self, Routes, Subnets};
use super::sysctls::Sysctls;
use super::{Engine, Framing, HostNet, Notice, Port, link_local, node_error};
use crate::Result;

/// Queue length of a device in packets; the kernel drops and counts the excess, see
/// [`super::device_drops`].
const DEVICE_QUEUE_PACKETS: u32 = 8192;

/// Hardware address of the fabric's end of the packet engine's links, locally administered.
const FABRIC_END_MAC: [u8; 6] = [0x02, 0x6e, 0x65, 0x74, 0x00, 0x01];
const HOST_END_MAC: [u8; 6] = [0x02, 0x6e, 0x65, 0x74, 0x00, 0x02];

/// Minimum MTU for IPv6 (RFC 8200 section 5).
const MIN_IPV6_MTU: u64 = 1280;

/// Prefix length of link-local addresses (RFC 4291 §2.5.6).
const LINK_LOCAL_PREFIX: u8 = 64;

pub(super) struct Builder<'a> {
    plan: &'a Plan,
    forwarding: &'a (dyn Forwarding + Sync),
    engine: Engine,
    ipv6: bool,
    sysctls: Sysctls,
    subnets: Subnets,
    /// Whether each link is up at the start.
    link_up: Vec<bool>,
    /// A netlink socket in the namespace of the lab's own process.
    home: Socket,
    notices: Vec<Notice>,
}

/// A namespace whose ports are not all open yet.
pub(super) struct Raw {
    node: NodeId,
    netns: OwnedFd,
    ports: Vec<RawPort>,
}

struct RawPort {
    iface: IfaceId,
    device: u32,
    fd: Option<OwnedFd>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        forwarding: &'a (dyn Forwarding + Sync),
        engine: Engine,
        ipv6: bool,
    ) -> Result<Self> {
        Ok(Self {
            plan,
            forwarding,
            engine,
            ipv6,
            sysctls: Sysctls::of_this_namespace(plan),
            subnets: Subnets::of(plan),
            link_up: plan.links.iter().map(|link| link.up).collect(),
            home: Socket::open()?,
            notices: Vec::new(),
        })
    }

    /// Creates the namespaces. Afterwards the calling thread is in the last node's namespace.
    pub(super) fn build(mut self, edges: &[NodeId]) -> Result<(Vec<Raw>, Vec<Notice>)> {
        let mut nodes = Vec::with_capacity(edges.len());
        for &node in edges {
            let raw = self.node(node).map_err(|cause| node_error(self.plan, node, cause))?;
            nodes.push(raw);
        }
        Ok((nodes, self.notices))
    }

    fn node(&mut self, id: NodeId) -> sys::Result<Raw> {
        namespace::unshare(Kinds::NET)?;
        let netns = namespace::current_net()?;
        let node = &self.plan.nodes[id.index()];
        if let Err(cause) = self.sysctls.apply(id, node) {
            self.notices.push(Notice::Parameter(cause));
        }
        let mut batch = Batch::new();
        let up = LinkSettings { up: Some(true), ..LinkSettings::default() };
        batch.set_link(netlink::LOOPBACK, &up);
        let mut ports = Vec::with_capacity(node.ifaces.len());
        let mut devices = Vec::with_capacity(node.ifaces.len());
        for &iface in &node.ifaces {
            let fd = self.device(iface, &netns)?;
            let device = netlink::index_of(&self.plan.ifaces[iface.index()].name)?;
            self.configure(iface, device, &mut batch);
            ports.push(RawPort { iface, device, fd });
            devices.push(device);
        }
        let node = routes::Node { plan: self.plan, id, devices: &devices, ipv6: self.ipv6 };
        node.add_source_rules(&mut batch);
        let routes = node.routes(self.forwarding, &self.link_up, &self.subnets);
        routes.replace(&Routes::default(), &mut batch);
        Socket::open()?.submit(batch)?;
        Ok(Raw { node: id, netns, ports })
    }

    /// Creates the device of an interface in the thread's namespace.
    fn device(&mut self, id: IfaceId, netns: &OwnedFd) -> sys::Result<Option<OwnedFd>> {
        let iface = &self.plan.ifaces[id.index()];
        match self.engine {
            Engine::Tun => Ok(Some(Tun::open(&iface.name)?.into_fd())),
            Engine::Packet => {
                let mut batch = Batch::new();
                batch.add_veth(&Veth {
                    name: &fabric_end(id),
                    address: FABRIC_END_MAC,
                    peer_name: &iface.name,
                    peer_address: HOST_END_MAC,
                    peer_net: netns.as_fd(),
                    mtu: self.mtu(id) as u32,
                });
                // Up before the host's end, which has no carrier while this end is down.
                let up = Some(self.link_up[iface.link.index()]);
                let settings = LinkSettings { up, no_own_addresses: true, ..Default::default() };
                batch.set_link_named(&fabric_end(id), &settings);
                self.home.submit(batch)?;
                Ok(None)
            }
        }
    }

    fn mtu(&self, id: IfaceId) -> u64 {
        let iface = &self.plan.ifaces[id.index()];
        let link = &self.plan.links[iface.link.index()];
        link.directions[iface.sends.index()].mtu.count()
    }

    /// Sets MTU, queue and addresses.
    fn configure(&mut self, id: IfaceId, device: u32, batch: &mut Batch) {
        let iface = &self.plan.ifaces[id.index()];
        let mtu = self.mtu(id);
        batch.drop_queue_discipline(device);
        batch.set_link(
            device,
            &LinkSettings {
                up: Some(true),
                mtu: Some(mtu as u32),
                queue: Some(DEVICE_QUEUE_PACKETS),
                no_own_addresses: self.ipv6 && mtu >= MIN_IPV6_MTU,
                no_arp: self.engine == Engine::Packet,
            },
        );
        if self.engine == Engine::Tun && !self.link_up[iface.link.index()] {
            batch.set_carrier(device, false);
        }
        if let Some((address, prefix)) = iface.v4 {
            batch.add_address(device, address.into(), prefix);
        }
        if !self.ipv6 {
            return;
        }
        if mtu >= MIN_IPV6_MTU {
            batch.add_address(device, link_local(id).into(), LINK_LOCAL_PREFIX);
        }
        match iface.v6 {
            Some(_) if mtu < MIN_IPV6_MTU => self.notices.push(Notice::MtuWithoutIpv6(id)),
            Some((address, prefix)) => batch.add_address(device, IpAddr::V6(address), prefix),
            None => {}
        }
    }
}

/// Name of the fabric's end of a virtual Ethernet pair, in the lab's own namespace.
pub(super) fn fabric_end(iface: IfaceId) -> String {
    format!("port{}", iface.index())
}

/// Opens the ports that the builder's thread could not open: packet sockets belong to the calling
/// thread's namespace, which has the fabric's ends of the pairs.
pub(super) fn open_ports(plan: &Plan, nodes: Vec<Raw>) -> Result<Vec<HostNet>> {
    let mut ethernet = [0; 12];
    ethernet[..6].copy_from_slice(&HOST_END_MAC);
    ethernet[6..].copy_from_slice(&FABRIC_END_MAC);
    let open = |RawPort { iface, device, fd }: RawPort| {
        if let Some(fd) = fd {
            return Ok(Port { iface, device, fd, framing: Framing::Bare });
        }
        let fd = packet::open(netlink::index_of(&fabric_end(iface))?)?;
        Ok(Port { iface, device, fd, framing: Framing::Ethernet(ethernet) })
    };
    nodes
        .into_iter()
        .map(|raw| {
            let ports: sys::Result<_> = raw.ports.into_iter().map(open).collect();
            let ports = ports.map_err(|cause| node_error(plan, raw.node, cause))?;
            Ok(HostNet { node: raw.node, netns: raw.netns, mounts: None, ports })
        })
        .collect()
}
