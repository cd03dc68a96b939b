//! Network configuration of a namespace by rtnetlink, in batches: a thousand hosts need only a few
//! thousand system calls.

mod bridge;
mod message;
pub mod mptcp;
mod nftables;
mod routing;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{Error, Result, check};
use message::{Message, attributes, header};

pub use message::Counters;
pub use routing::{Action, LocalAddress, Rule, Way};

/// The index of the loopback device in every network namespace.
pub const LOOPBACK: u32 = 1;

pub const MAIN_TABLE: u32 = 254;

/// Maximum size of the requests in one send call in bytes, well below a socket's send buffer.
const CHUNK: usize = 32 * 1024;

/// Properties to set on a device. `None` keeps the current value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSettings {
    /// Bring the device up, or down.
    pub up: Option<bool>,
    /// Maximum layer-3 packet in bytes.
    pub mtu: Option<u32>,
    /// Length of the device's queue in packets.
    pub queue: Option<u32>,
    /// Disable IPv6 addresses that the kernel generates.
    pub no_own_addresses: bool,
    /// No neighbour resolution.
    pub no_arp: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// Destination and prefix length; 0 is the default route.
    pub to: (IpAddr, u8),
    /// Routing table (`RTA_TABLE`).
    pub table: u32,
    /// Device indices; several ones are used for load balancing by flow.
    pub devices: &'a [u32],
    /// Source address of packets without one.
    pub source: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug)]
pub struct Veth<'a> {
    /// Name of the end in this namespace.
    pub name: &'a str,
    /// Its hardware address.
    pub address: [u8; 6],
    /// Name of the other end.
    pub peer_name: &'a str,
    /// Its hardware address.
    pub peer_address: [u8; 6],
    /// The namespace of the other end.
    pub peer_net: BorrowedFd<'a>,
    /// Maximum layer-3 packet at both ends in bytes.
    pub mtu: u32,
}

/// Requests that are sent together and executed in order.
#[derive(Debug, Default)]
pub struct Batch {
    messages: Vec<u8>,
    /// Start of each request, and its description.
    requests: Vec<(usize, &'static str)>,
}

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn add(&mut self, what: &'static str, kind: u16, flags: i32) -> Message<'_> {
        self.requests.push((self.messages.len(), what));
        Message::new(&mut self.messages, kind, flags)
    }

    /// Changes the settings of the device `index`.
    pub fn set_link(&mut self, index: u32, settings: &LinkSettings) {
        self.set_device(index, None, settings);
    }

    /// Changes the settings of the device `name`, which an earlier request may have created.
    pub fn set_link_named(&mut self, name: &str, settings: &LinkSettings) {
        self.set_device(0, Some(name), settings);
    }

    fn set_device(&mut self, index: u32, name: Option<&str>, settings: &LinkSettings) {
        if settings.no_own_addresses {
            // A separate request: the kernel would bring the device up first.
            let mut message = self.add("stop own addresses", libc::RTM_NEWLINK, 0);
            message.push(&header::link(index, 0, 0));
            if let Some(name) = name {
                message.text(libc::IFLA_IFNAME, name);
            }
            message.nest(libc::IFLA_AF_SPEC, |spec| {
                spec.nest(libc::AF_INET6 as u16, |inet6| {
                    inet6.attribute(attributes::INET6_ADDR_GEN_MODE, &[attributes::GEN_NONE]);
                });
            });
            message.finish();
        }
        let mut message = self.add("configure a device", libc::RTM_NEWLINK, 0);
        let (mut flags, mut mask) = (0, 0);
        if let Some(up) = settings.up {
            mask |= libc::IFF_UP;
            flags |= if up { libc::IFF_UP } else { 0 };
        }
        if settings.no_arp {
            mask |= libc::IFF_NOARP;
            flags |= libc::IFF_NOARP;
        }
        message.push(&header::link(index, flags as u32, mask as u32));
        if let Some(name) = name {
            message.text(libc::IFLA_IFNAME, name);
        }
        if let Some(mtu) = settings.mtu {
            message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        }
        if let Some(queue) = settings.queue {
            message.attribute(libc::IFLA_TXQLEN, &queue.to_ne_bytes());
        }
        message.finish();
    }

    /// Sets or clears the carrier of the device `index`. TUN supports this, other devices may not.
    pub fn set_carrier(&mut self, index: u32, carrier: bool) {
        let mut message = self.add("set a carrier", libc::RTM_NEWLINK, 0);
        message.push(&header::link(index, 0, 0));
        message.attribute(libc::IFLA_CARRIER, &[u8::from(carrier)]);
        // The kernel reports lost carriers at most once a second, for all devices of the machine
        // together. It reports a change of the operational state (RFC 2863) at once.
        let state = if carrier { attributes::OPER_UP } else { attributes::OPER_DORMANT };
        message.attribute(libc::IFLA_OPERSTATE, &[state]);
        message.finish();
    }

    /// Removes the queue discipline of the device `index`: packets go directly to the device's own
    /// queue. Saves three arrays of the queue's length, and a lock per packet.
    pub fn drop_queue_discipline(&mut self, index: u32) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut message = self.add("set a queue discipline", libc::RTM_NEWQDISC, flags);
        message.push(&header::root_discipline(index));
        message.text(libc::TCA_KIND, "noqueue");
        message.finish();
    }

    pub fn add_veth(&mut self, pair: &Veth<'_>) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut message = self.add("make a veth pair", libc::RTM_NEWLINK, flags);
        message.push(&header::link(0, 0, 0));
        message.text(libc::IFLA_IFNAME, pair.name);
        message.attribute(libc::IFLA_ADDRESS, &pair.address);
        message.attribute(libc::IFLA_MTU, &pair.mtu.to_ne_bytes());
        message.nest(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth");
            info.nest(libc::IFLA_INFO_DATA, |data| {
                data.nest(attributes::VETH_INFO_PEER, |peer| {
                    peer.push(&header::link(0, 0, 0));
                    peer.text(libc::IFLA_IFNAME, pair.peer_name);
                    peer.attribute(libc::IFLA_ADDRESS, &pair.peer_address);
                    peer.attribute(libc::IFLA_MTU, &pair.mtu.to_ne_bytes());
                    let net = pair.peer_net.as_raw_fd() as u32;
                    peer.attribute(libc::IFLA_NET_NS_FD, &net.to_ne_bytes());
                });
            });
        });
        message.finish();
    }

    /// Adds an address to the device `index`; IPv6 addresses are usable at once.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut message = self.add("add an address", libc::RTM_NEWADDR, flags);
        let no_detection = if address.is_ipv6() { libc::IFA_F_NODAD as u8 } else { 0 };
        message.push(&header::address(family(address), prefix, no_detection, index));
        message.address(libc::IFA_LOCAL, address);
        message.address(libc::IFA_ADDRESS, address);
        message.finish();
    }

    /// Adds a route, or replaces the one to the same destination.
    pub fn add_route(&mut self, route: &Route<'_>) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut message = self.add("add a route", libc::RTM_NEWROUTE, flags);
        let (to, prefix) = route.to;
        message.push(&header::route(family(to), prefix, libc::RT_SCOPE_LINK));
        if prefix > 0 {
            message.address(libc::RTA_DST, to);
        }
        message.attribute(libc::RTA_TABLE, &route.table.to_ne_bytes());
        if let Some(source) = route.source {
            message.address(libc::RTA_PREFSRC, source);
        }
        match route.devices {
            [device] => message.attribute(libc::RTA_OIF, &device.to_ne_bytes()),
            devices => message.nest(libc::RTA_MULTIPATH, |hops| {
                for device in devices {
                    hops.next_hop(*device, to.is_ipv6());
                }
            }),
        }
        message.finish();
    }

    pub fn remove_route(&mut self, to: (IpAddr, u8), table: u32) {
        let mut message = self.add("remove a route", libc::RTM_DELROUTE, 0);
        message.push(&header::route(family(to.0), to.1, libc::RT_SCOPE_NOWHERE));
        if to.1 > 0 {
            message.address(libc::RTA_DST, to.0);
        }
        message.attribute(libc::RTA_TABLE, &table.to_ne_bytes());
        message.finish();
    }

    /// Adds a rule: `table` routes packets from `source`; rules with a lower `priority` come first.
    pub fn add_source_rule(&mut self, source: IpAddr, table: u32, priority: u32) {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut message = self.add("add a routing rule", libc::RTM_NEWRULE, flags);
        let length = if source.is_ipv6() { 128 } else { 32 };
        message.push(&header::rule(family(source), length));
        message.address(attributes::RULE_SOURCE, source);
        message.attribute(attributes::RULE_TABLE, &table.to_ne_bytes());
        message.attribute(attributes::RULE_PRIORITY, &priority.to_ne_bytes());
        message.finish();
    }
}

fn family(address: IpAddr) -> u8 {
    (if address.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET }) as u8
}

/// A connection to the kernel's network configuration of one namespace: that of the thread
/// that opened it.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    pub fn open() -> Result<Self> {
        Self::of(libc::NETLINK_ROUTE)
    }

    fn of(protocol: libc::c_int) -> Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes integers only.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        let fd = check("socket(AF_NETLINK)", fd)?;
        // SAFETY: the kernel has just given us this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let on: libc::c_int = 1;
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // Errors need not contain the request. Kernels without this option still include it.
        // SAFETY: the pointer and the length describe `on`.
        unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_NETLINK,
                attributes::CAP_ACK,
                (&raw const on).cast(),
                length,
            )
        };
        Ok(Self { fd, sequence: 0 })
    }

    /// Sends all requests of `batch` and waits until the kernel has executed them.
    ///
    /// # Errors
    /// The first error; the requests after the failed one are executed nevertheless.
    pub fn submit(&mut self, mut batch: Batch) -> Result<()> {
        let mut first = 0;
        let mut refusal = None;
        while first < batch.requests.len() {
            let start = batch.requests[first].0;
            let fits = |&(at, _): &(usize, &str)| at < start + CHUNK;
            let count = batch.requests[first..].iter().take_while(|r| fits(r)).count();
            let last = first + count - 1;
            let end = batch.requests.get(last + 1).map_or(batch.messages.len(), |r| r.0);
            let base = self.sequence.wrapping_add(1);
            for (offset, (at, _)) in batch.requests[first..=last].iter().enumerate() {
                // Only the last one is acknowledged; errors are always reported.
                let acknowledge = offset == count - 1;
                let sequence = base.wrapping_add(offset as u32);
                message::address_request(&mut batch.messages[*at..], sequence, acknowledge);
            }
            self.sequence = base.wrapping_add(count as u32 - 1);
            self.send(&batch.messages[start..end])?;
            if let Some((sequence, errno)) = self.await_acknowledgement()? {
                let index = first + sequence.wrapping_sub(base) as usize;
                let request = batch.requests.get(index).map_or("answer", |r| r.1);
                let cause = io::Error::from_raw_os_error(errno);
                refusal.get_or_insert(Error::Netlink { request, cause });
            }
            first = last + 1;
        }
        refusal.map_or(Ok(()), Err)
    }

    fn send(&self, bytes: &[u8]) -> Result<()> {
        let (data, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the pointer and the length describe `bytes`.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), data, length, 0) };
        if sent < 0 { Err(Error::last("send(AF_NETLINK)")) } else { Ok(()) }
    }

    fn receive<'a>(&self, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
        loop {
            let (data, length) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: the pointer and the length describe `buffer`.
            let received = unsafe { libc::recv(self.fd.as_raw_fd(), data, length, 0) };
            if received >= 0 {
                return Ok(&buffer[..received as usize]);
            }
            let error = Error::last("recv(AF_NETLINK)");
            if error.errno() != Some(libc::EINTR) {
                return Err(error);
            }
        }
    }

    /// Reads until the last request is acknowledged; returns the first error as (sequence, errno).
    fn await_acknowledgement(&self) -> Result<Option<(u32, i32)>> {
        let mut buffer = vec![0; 16 * 1024];
        let mut refusal = None;
        loop {
            for answer in message::answers(self.receive(&mut buffer)?) {
                let answer = answer.ok_or(Error::Malformed("a netlink request"))?;
                let Some(errno) = answer.error() else { continue };
                if errno != 0 {
                    refusal.get_or_insert((answer.sequence, errno));
                }
                if answer.sequence == self.sequence {
                    return Ok(refusal);
                }
            }
        }
    }

    /// Counters of the device `index`.
    pub fn counters(&mut self, index: u32) -> Result<Counters> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        let mut request = Message::new(&mut bytes, libc::RTM_GETLINK, 0);
        request.push(&header::link(index, 0, 0));
        request.finish();
        message::address_request(&mut bytes, self.sequence, false);
        self.send(&bytes)?;
        let mut buffer = vec![0; 16 * 1024];
        let answer = message::answers(self.receive(&mut buffer)?).next().flatten();
        let answer = answer.ok_or(Error::Malformed("RTM_GETLINK"))?;
        if let Some(errno) = answer.error() {
            let cause = io::Error::from_raw_os_error(errno);
            return Err(Error::Netlink { request: "tell a device's counters", cause });
        }
        let value = answer.attribute(header::LINK, libc::IFLA_STATS64);
        value.and_then(message::counters).ok_or(Error::Malformed("RTM_GETLINK"))
    }
}

/// The index of the device `name` in the calling thread's network namespace.
pub fn index_of(name: &str) -> Result<u32> {
    let name = crate::namespace::c_bytes(name.as_bytes())?;
    // SAFETY: the string ends in NUL and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(Error::last("if_nametoindex")) } else { Ok(index) }
}

/// The name of the device `index` in the calling thread's network namespace.
pub fn name_of(index: u32) -> Result<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the call writes at most `IF_NAMESIZE` bytes, the last of which is NUL.
    let result = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if result.is_null() {
        return Err(Error::last("if_indextoname"));
    }
    let bytes: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
