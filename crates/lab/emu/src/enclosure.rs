//! The enclosure of real programs: a network namespace for every node with its own kernel network
//! stack, with one port per interface that connects it to the fabric.
//!
//! `error` and this module depend on each other: errors name the [`Engine`] that failed. `builder`
//! builds the parts that this module holds.

mod builder;
mod changes;
mod files;
mod names;
mod routes;
mod sysctls;

use std::net::Ipv6Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::{fmt, fs};

use base::{IfaceId, NodeId};
use fabric::{Forwarding, NodeKind};
use lab::plan::{Node, Plan};
use sys::netlink::Socket;
use sys::{limits, namespace};

use crate::{Error, Result};
use builder::Builder;
pub(crate) use changes::KernelChanges;
pub use files::install_private_files;
pub(crate) use names::attached_hosts_text;
pub use names::{PrivateMounts, hosts_text, install_names};

/// Descriptors of a lab beyond those of its nodes.
const RESERVED_FILES: usize = 64;

/// The mechanism that moves packets between namespaces and the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// TUN devices: the fabric holds the other end of each host's interface.
    Tun,
    /// Virtual Ethernet and packet sockets, for systems without access to `/dev/net/tun`.
    Packet,
}

impl Engine {
    /// Its name in records and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tun => "tun",
            Self::Packet => "packet",
        }
    }
}

/// The bytes between the virtio header and the packet on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Bare,
    /// An Ethernet header. Writers send these 12 bytes and the packet's `EtherType`.
    Ethernet([u8; 12]),
}

impl Framing {
    pub const fn len(self) -> usize {
        match self {
            Self::Bare => 0,
            Self::Ethernet(_) => sys::packet::LINK_HEADER,
        }
    }

    /// Whether the framing has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The fabric's access to one interface.
#[derive(Debug)]
pub struct Port {
    pub iface: IfaceId,
    /// The index of the interface in its namespace.
    pub device: u32,
    /// Non-blocking. Each call reads or writes a packet with its virtio header
    /// ([`sys::tun::HEADER`] bytes) and framing.
    pub fd: OwnedFd,
    pub framing: Framing,
}

/// A node with a network namespace.
#[derive(Debug)]
pub struct HostNet {
    pub node: NodeId,
    /// The namespace, which exists while this descriptor is open or a process is in it.
    pub netns: OwnedFd,
    /// The mount namespace of a node with private files, see [`install_private_files`].
    pub mounts: Option<OwnedFd>,
    pub ports: Vec<Port>,
}

/// All namespaces of a lab. Dropping it removes them.
#[derive(Debug)]
pub struct Enclosure {
    pub engine: Engine,
    pub hosts: Vec<HostNet>,
    /// Whether the kernel has IPv6.
    pub ipv6: bool,
    /// Limitations of this lab on this host.
    pub notices: Vec<Notice>,
}

impl Enclosure {
    pub fn host(&self, node: NodeId) -> Option<&HostNet> {
        let at = self.hosts.binary_search_by_key(&node, |host| host.node).ok()?;
        Some(&self.hosts[at])
    }
}

/// The link-local address of an interface (RFC 4291 §2.1), unique in the lab because switches join
/// links. Its interface identifier begins with the letters `net`, so that addresses that programs
/// add, such as `fe80::1`, differ.
pub(crate) fn link_local(iface: IfaceId) -> Ipv6Addr {
    let [high, low] = [(iface.0 >> 16) as u16, iface.0 as u16];
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0x6e65, 0x7400, high, low)
}

/// A limitation that does not prevent the lab, but that the user should see.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The kernel has no IPv6 support: nodes have IPv4 addresses only.
    NoIpv6,
    /// A kernel parameter of the nodes could not be set.
    Parameter(sys::Error),
    /// The interface's MTU is below the IPv6 minimum (1280, RFC 8200), so it has no IPv6 address.
    MtuWithoutIpv6(IfaceId),
    /// A file of the name resolution could not be installed.
    Names(sys::Error),
    /// Programs see the host's processes in `/proc` instead of the lab's.
    Processes(sys::Error),
    /// The lab has no user namespace: capabilities of its programs apply to the host.
    NoUserNamespace(sys::Error),
    /// Programs see devices, services or kernel parameters of the host, or can change its files.
    Exposed(sys::Error),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIpv6 => f.write_str("this kernel has no IPv6; nodes have IPv4 only"),
            Self::Parameter(cause) => write!(f, "kernel parameter not set: {cause}"),
            Self::MtuWithoutIpv6(iface) => {
                write!(f, "interface {} has an MTU below 1280: no IPv6", iface.index())
            }
            Self::Processes(cause) => write!(f, "/proc shows the machine's processes: {cause}"),
            Self::NoUserNamespace(cause) => write!(
                f,
                "no user namespace ({cause}): the capabilities of programs hold on this machine"
            ),
            Self::Exposed(cause) => write!(
                f,
                "programs see devices, services or kernel parameters of this machine, or can \
                 change its files: {cause}"
            ),
            Self::Names(cause) => write!(f, "name resolution: {cause}"),
        }
    }
}

/// Creates the namespaces of all nodes of `plan` with their own kernel, with interfaces, addresses
/// and routes. `forwarding` defines the routes of multi-homed nodes.
///
/// # Errors
/// The kernel's error, with the node's name. Namespaces created before the error are removed.
pub fn build(
    plan: &Plan,
    forwarding: &(dyn Forwarding + Sync),
    engine: Engine,
) -> Result<Enclosure> {
    build_part(plan, forwarding, engine, |_| true)
}

/// Like [`build`], but only for the nodes that are `here`; other agents build the others.
///
/// # Errors
/// The errors of [`build`].
pub fn build_part(
    plan: &Plan,
    forwarding: &(dyn Forwarding + Sync),
    engine: Engine,
    here: impl Fn(NodeId) -> bool,
) -> Result<Enclosure> {
    let is_edge = |node: &Node| node.fabric == NodeKind::Edge;
    let nodes = (0..plan.nodes.len()).filter(|at| is_edge(&plan.nodes[*at])).map(NodeId::at);
    let edges: Vec<NodeId> = nodes.filter(|node| here(*node)).collect();
    let ports: usize = edges.iter().map(|node| plan.nodes[node.index()].ifaces.len()).sum();
    let needed = (edges.len() + ports + RESERVED_FILES) as u64;
    let limit = limits::raise_open_files()?;
    if needed > limit {
        return Err(Error::TooManyFiles { needed, limit });
    }
    let mut notices = Vec::new();
    let ipv6 = Path::new("/proc/thread-self/net/if_inet6").exists();
    if !ipv6 {
        notices.push(Notice::NoIpv6);
    }
    let builder = Builder::new(plan, forwarding, engine, ipv6)?;
    // In a separate thread, because it leaves this network namespace for each new one.
    let built = std::thread::scope(|scope| scope.spawn(move || builder.build(&edges)).join());
    let (raw, more) = built.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    notices.extend(more);
    let hosts = builder::open_ports(plan, raw)?;
    Ok(Enclosure { engine, hosts, ipv6, notices })
}

/// Closes namespaces and ports in many threads: the kernel waits for an RCU grace period for each
/// closed packet socket, and the grace periods of different threads overlap.
pub fn close(hosts: Vec<HostNet>) {
    const CLOSING_THREADS: usize = 64;
    let (sockets, rest): (Vec<Port>, Vec<Port>) =
        hosts.into_iter().flat_map(|host| host.ports).partition(|port| !port.framing.is_empty());
    drop(rest);
    let share = sockets.len().div_ceil(CLOSING_THREADS).max(1);
    let mut sockets = sockets.into_iter();
    std::thread::scope(|scope| {
        while sockets.len() > 0 {
            let some: Vec<Port> = sockets.by_ref().take(share).collect();
            scope.spawn(move || drop(some));
        }
    });
}

/// Packets that the devices of a host dropped because the fabric did not read them in time. These
/// losses are not part of the lab. `expected` returns how many of the packets that an interface has
/// dropped belong to the lab.
pub fn device_drops(
    host: &HostNet,
    plan: &Plan,
    expected: impl Fn(IfaceId, u64) -> u64,
) -> Result<u64> {
    let named = |cause| node_error(plan, host.node, cause);
    let in_devices = || {
        let mut socket = Socket::open()?;
        let mut sum = 0;
        for port in &host.ports {
            let counters = socket.counters(port.device)?;
            let dropped = counters.sent_dropped;
            sum += dropped.saturating_sub(expected(port.iface, dropped));
            sum += counters.received_dropped;
        }
        Ok(sum)
    };
    let mut sum =
        namespace::in_net(host.netns.as_fd(), in_devices).and_then(|sum| sum).map_err(named)?;
    for port in host.ports.iter().filter(|port| !port.framing.is_empty()) {
        sum += sys::packet::drops(port.fd.as_fd()).map_err(named)?;
    }
    Ok(sum)
}

/// Datagrams that a host's kernel dropped because of their checksum.
pub fn damaged_datagrams(host: &HostNet, plan: &Plan) -> Result<u64> {
    let read =
        || ["snmp", "snmp6"].map(|name| fs::read_to_string(Path::new(COUNTERS_FOLDER).join(name)));
    let texts = namespace::in_net(host.netns.as_fd(), read)
        .map_err(|cause| node_error(plan, host.node, cause))?;
    // The second file does not exist without IPv6.
    Ok(texts.into_iter().flatten().map(|text| checksum_failures(&text)).sum())
}

/// The counters of the calling thread's network namespace.
const COUNTERS_FOLDER: &str = "/proc/thread-self/net";

/// UDP's `InCsumErrors` in `snmp` (a line of names, a line of values) or `snmp6`
/// (one counter per line).
fn checksum_failures(text: &str) -> u64 {
    let mut udp = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (udp.next().unwrap_or_default(), udp.next().unwrap_or_default());
    let v4 = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "InCsumErrors");
    let v6 = text.lines().find_map(|line| line.strip_prefix("Udp6InCsumErrors"));
    let counts = v4.map(|(_, value)| value).into_iter().chain(v6);
    counts.filter_map(|value| value.trim().parse::<u64>().ok()).sum()
}

fn node_error(plan: &Plan, node: NodeId, cause: sys::Error) -> Error {
    Error::Node { node: plan.nodes[node.index()].name.clone(), cause }
}

#[cfg(test)]
mod failures;
#[cfg(test)]
mod tests;
