//! What travels: a descriptor that stands for a run of segments of one body.

use base::{IfaceId, Time};
use queue::Ecn;

/// A packet, or a run of equal segments of a super-packet that no element has had to split yet.
///
/// The fabric reads and writes this descriptor only; the bytes stay in `body`, whose clones share
/// them. What the fabric changes (`ttl`, `ecn`, `corrupt`) is written into the bytes on delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet<B> {
    /// The driver's handle on the bytes.
    pub body: B,
    /// Index in the body of the first segment that this descriptor stands for.
    pub first: u16,
    /// How many segments, at least 1.
    pub count: u16,
    /// The interface that the destination address belongs to; `None` for link-local multicast and
    /// unknown addresses, which cross one link only.
    pub to: Option<IfaceId>,
    /// Hash of addresses, protocol and ports: what ECMP and fair queueing tell flows apart by.
    pub flow: u32,
    /// Layer-3 bytes of each segment but the last.
    pub segment: u32,
    /// Layer-3 bytes of the last segment.
    pub last: u32,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Differentiated services code point, 0–63.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// When set, seeds the choice of the bit that is flipped on delivery.
    pub corrupt: Option<u32>,
    /// Mirror sessions whose filter matches, bit *i* for session *i*.
    pub mirrors: u64,
    /// What it is to its flow.
    pub part: Part,
    /// A mark of the driver's own, which goes where the packet goes; 0 for none.
    pub tag: u32,
    /// When it entered the fabric.
    pub entered: Time,
}

/// What a packet is to the flow that it belongs to. A super-packet counts by its gravest segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// No TCP: its flow has neither beginning nor end.
    Datagram,
    /// A segment with SYN and without ACK, which opens a connection.
    Opening,
    /// A segment with payload.
    Data,
    /// A segment that is neither of these: most of them are acknowledgements.
    Bare,
    /// A segment with FIN, after which no new data comes this way.
    Closing,
    /// A segment with RST, after which nothing comes either way.
    Reset,
}

impl Part {
    /// All of them.
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

    /// Splits off the first segment; `None` once it is the only one left, which is `self` then.
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
