//! The wire form of rtnetlink (RFC 3549, `linux/netlink.h`, `linux/rtnetlink.h`): host byte
//! order, everything aligned to four bytes.

use std::net::{IpAddr, Ipv6Addr};

/// Counters of a device since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that the kernel received from the device (for a host: arrived).
    pub received_packets: u64,
    pub received_bytes: u64,
    /// Packets that the kernel sent through the device.
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// Packets that arrived and were dropped.
    pub received_dropped: u64,
    /// Packets that were dropped because the device's queue was full.
    pub sent_dropped: u64,
}

const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// Attribute types and values that `libc` does not name.
pub(super) mod attributes {
    /// `IFLA_INET6_ADDR_GEN_MODE` of `linux/if_link.h`.
    pub(crate) const INET6_ADDR_GEN_MODE: u16 = 8;
    /// `IN6_ADDR_GEN_MODE_NONE`.
    pub(crate) const GEN_NONE: u8 = 1;
    /// `IF_OPER_DORMANT` and `IF_OPER_UP` of `linux/if.h`.
    pub(crate) const OPER_DORMANT: u8 = 5;
    pub(crate) const OPER_UP: u8 = 6;
    /// `VETH_INFO_PEER` of `linux/veth.h`.
    pub(crate) const VETH_INFO_PEER: u16 = 1;
    /// `FRA_SRC` of `linux/fib_rules.h`.
    pub(crate) const RULE_SOURCE: u16 = 2;
    /// `FRA_IIFNAME`.
    pub(crate) const RULE_INPUT: u16 = 3;
    /// `FRA_GOTO`.
    pub(crate) const RULE_GOTO: u16 = 4;
    /// `FRA_PROTOCOL`.
    pub(crate) const RULE_PROTOCOL: u16 = 21;
    /// `FRA_PRIORITY`.
    pub(crate) const RULE_PRIORITY: u16 = 6;
    /// `FRA_TABLE`.
    pub(crate) const RULE_TABLE: u16 = 15;
    /// `TCA_TBF_PARMS` of `linux/pkt_sched.h`.
    pub(crate) const TBF_PARAMETERS: u16 = 1;
    /// `TCA_TBF_RATE64`: bytes a second.
    pub(crate) const TBF_RATE64: u16 = 4;
    /// `TCA_TBF_BURST`: bytes.
    pub(crate) const TBF_BURST: u16 = 6;
    /// `TC_LINKLAYER_ETHERNET`.
    pub(crate) const LINKLAYER_ETHERNET: u8 = 1;
    /// `NETLINK_CAP_ACK` of `linux/netlink.h`.
    pub(crate) const CAP_ACK: i32 = 10;
}

/// Fixed headers after the netlink header.
pub(super) mod header {
    /// Length of a [`link`] header.
    pub(crate) const LINK: usize = 16;

    /// `struct ifinfomsg`.
    pub(crate) fn link(index: u32, flags: u32, mask: u32) -> [u8; LINK] {
        let mut bytes = [0; LINK];
        bytes[4..8].copy_from_slice(&index.to_ne_bytes());
        bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
        bytes[12..].copy_from_slice(&mask.to_ne_bytes());
        bytes
    }

    /// `struct ifaddrmsg`, global scope.
    pub(crate) fn address(family: u8, prefix: u8, flags: u8, index: u32) -> [u8; 8] {
        let mut bytes = [family, prefix, flags, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&index.to_ne_bytes());
        bytes
    }

    /// `struct rtmsg`: a configured unicast route.
    pub(crate) fn route(family: u8, prefix: u8, scope: u8) -> [u8; 12] {
        [family, prefix, 0, 0, 0, libc::RTPROT_BOOT, scope, libc::RTN_UNICAST, 0, 0, 0, 0]
    }

    /// `struct tcmsg` for the root of a device.
    pub(crate) fn root_discipline(device: u32) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[4..8].copy_from_slice(&device.to_ne_bytes());
        bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        bytes
    }

    /// `struct fib_rule_hdr` for a rule on all addresses, where `action` is one of `FR_ACT_*`.
    pub(crate) fn rule_of(family: u8, action: u8) -> [u8; 12] {
        [family, 0, 0, 0, 0, 0, 0, action, 0, 0, 0, 0]
    }

    /// `struct fib_rule_hdr` for a rule on the source address.
    pub(crate) fn rule(family: u8, source_length: u8) -> [u8; 12] {
        const TO_TABLE: u8 = 1;
        [family, 0, source_length, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0]
    }
}

/// A request under construction at the end of a buffer.
pub(super) struct Message<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Message<'a> {
    pub(super) fn new(buffer: &'a mut Vec<u8>, kind: u16, flags: i32) -> Self {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; HEADER]);
        let flags = (flags | libc::NLM_F_REQUEST) as u16;
        buffer[start + 4..start + 6].copy_from_slice(&kind.to_ne_bytes());
        buffer[start + 6..start + 8].copy_from_slice(&flags.to_ne_bytes());
        Self { buffer, start }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        let padded = self.buffer.len().next_multiple_of(4);
        self.buffer.resize(padded, 0);
    }

    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = (ATTRIBUTE + value.len()) as u16;
        self.buffer.extend_from_slice(&length.to_ne_bytes());
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        self.push(value);
    }

    pub(super) fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    pub(super) fn address(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    pub(super) fn nest(&mut self, kind: u16, content: impl FnOnce(&mut Self)) {
        let start = self.buffer.len();
        self.attribute(kind, &[]);
        content(self);
        let length = (self.buffer.len() - start) as u16;
        self.buffer[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Adds one path of a multipath route (`struct rtnexthop`, weight 1). IPv6 balances the
    /// load only between gateways; on a device without neighbour resolution any link-local
    /// address is usable.
    pub(super) fn next_hop(&mut self, device: u32, ipv6: bool) {
        const ANY_GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let start = self.buffer.len();
        self.push(&[0; 4]);
        self.push(&device.to_ne_bytes());
        if ipv6 {
            self.address(libc::RTA_GATEWAY, ANY_GATEWAY.into());
        }
        let length = (self.buffer.len() - start) as u16;
        self.buffer[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    pub(super) fn finish(self) {
        let length = (self.buffer.len() - self.start) as u32;
        self.buffer[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
    }
}

/// Sets the sequence number and the request for an answer in the request at the start of `bytes`.
pub(super) fn address_request(bytes: &mut [u8], sequence: u32, acknowledge: bool) {
    if acknowledge {
        let flags = u16::from_ne_bytes([bytes[6], bytes[7]]) | libc::NLM_F_ACK as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    }
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

/// One message from the kernel.
pub(super) struct Answer<'a> {
    pub(super) kind: u16,
    pub(super) sequence: u32,
    payload: &'a [u8],
}

impl<'a> Answer<'a> {
    /// 0 for an acknowledgement, the error number for an error, otherwise `None`.
    pub(super) fn error(&self) -> Option<i32> {
        if i32::from(self.kind) != libc::NLMSG_ERROR {
            return None;
        }
        // A truncated error is still an error.
        Some(word(self.payload, 0).map_or(libc::EIO, |code| (code as i32).wrapping_neg()))
    }

    /// Content of the answer: its fixed header and attributes.
    pub(super) fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The attribute `kind` after a fixed header of `skip` bytes.
    pub(super) fn attribute(&self, skip: usize, kind: u16) -> Option<&'a [u8]> {
        attribute_in(self.payload.get(skip..)?, kind)
    }
}

/// The attribute `kind` in a sequence of attributes.
pub(super) fn attribute_in(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes_in(bytes).find_map(|(this, value)| (this == kind).then_some(value))
}

/// The attributes in `bytes` with their types; a truncated one ends the sequence.
pub(super) fn attributes_in(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(half(bytes, 0)?), half(bytes, 2)?);
        let value = bytes.get(ATTRIBUTE..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        // The two upper bits are the flags "nested" and "network byte order".
        Some((kind & 0x3fff, value))
    })
}

/// The received messages; `None` for a truncated one, which is the last.
pub(super) fn answers(mut bytes: &[u8]) -> impl Iterator<Item = Option<Answer<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let answer = (|| {
            let length = word(bytes, 0)? as usize;
            let payload = bytes.get(HEADER..length)?;
            Some((Answer { kind: half(bytes, 4)?, sequence: word(bytes, 8)?, payload }, length))
        })();
        let Some((answer, length)) = answer else {
            bytes = &[];
            return Some(None);
        };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Some(answer))
    })
}

/// Reads `struct rtnl_link_stats64`.
pub(super) fn counters(bytes: &[u8]) -> Option<Counters> {
    let field = |index: usize| {
        let bytes = bytes.get(index * 8..index * 8 + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    Some(Counters {
        received_packets: field(0)?,
        sent_packets: field(1)?,
        received_bytes: field(2)?,
        sent_bytes: field(3)?,
        received_dropped: field(6)?,
        sent_dropped: field(7)?,
    })
}
