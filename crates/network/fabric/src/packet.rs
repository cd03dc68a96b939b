//! The packet: a descriptor of a run of segments of one body.

use base::{IfaceId, Time};
use queue::Ecn;

/// A packet, or a run of equal segments of a super-packet that no link has had to split yet.
///
/// The fabric accesses this descriptor only; the bytes stay in `body`, whose clones share them.
/// Changes by the fabric (`ttl`, `ecn`, `corrupt`) are written into the bytes on delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet<B> {
    /// The driver's reference to the bytes.
    pub body: B,
    /// Index in the body of the first segment of this descriptor.
    pub first: u16,
    /// Number of segments, at least 1.
    pub count: u16,
    /// The interface of the destination address; `None` for multicast and unknown addresses.
    pub to: Option<IfaceId>,
    /// Whether it stays on its link, so that no router forwards it: multicast, broadcast, and
    /// packets from or to a link-local address (RFC 4291 §2.5.6, RFC 3927 §2.7).
    pub link_scope: bool,
    /// Hash of addresses, protocol and ports, by which ECMP and fair queueing distinguish flows.
    pub flow: u32,
    /// Layer-3 bytes of each segment except the last.
    pub segment: u32,
    /// Layer-3 bytes of the last segment.
    pub last: u32,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Differentiated services code point, 0–63.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// If set, the seed that selects the bit to flip on delivery.
    pub corrupt: Option<u32>,
    /// Mirror sessions with a matching filter, bit *i* for session *i*.
    pub mirrors: u64,
    /// Its role in its flow.
    pub part: Part,
    /// A mark of the driver, which stays with the packet; 0 for none.
    pub tag: u32,
    /// Time at which it entered the fabric.
    pub entered: Time,
}

/// The role of a packet in its flow. A super-packet has the role of its most significant segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Not TCP: its flow has no explicit start and end.
    Datagram,
    /// A segment with SYN and without ACK, which opens a connection.
    Opening,
    /// A segment with payload.
    Data,
    /// Any other segment: most of them are acknowledgements.
    Bare,
    /// A segment with FIN, after which no new data follows in this direction.
    Closing,
    /// A segment with RST, after which no data follows in either direction.
    Reset,
}

impl Part {
    /// All roles of packets.
    pub const ALL: [Self; 6] =
        [Self::Datagram, Self::Opening, Self::Data, Self::Bare, Self::Closing, Self::Reset];
}

impl<B: Clone> Packet<B> {
    /// Layer-3 bytes of all segments.
    pub fn bytes(&self) -> u64 {
        u64::from(self.segment) * u64::from(self.count - 1) + u64::from(self.last)
    }

    /// Layer-3 bytes of the largest segment.
    pub fn largest(&self) -> u32 {
        if self.count > 1 { self.segment.max(self.last) } else { self.last }
    }

    /// The destination to which routers forward it.
    pub(crate) fn routed_to(&self) -> Option<IfaceId> {
        self.to.filter(|_| !self.link_scope)
    }

    /// Splits off the first segment; `None` if it is the only one, which then stays in `self`.
    pub fn split_first(&mut self) -> Option<Self> {
        if self.count == 1 {
            return None;
        }
        let head = Self { count: 1, last: self.segment, ..self.clone() };
        self.first += 1;
        self.count -= 1;
        Some(head)
    }
}
