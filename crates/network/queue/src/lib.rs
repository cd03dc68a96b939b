//! Queue disciplines: the packets in front of a transmitter, their order, drops and ECN marks.
//!
//! Sans-IO: the owner of a queue passes the time. A queue contains descriptors of packets
//! ([`Queued`]); the owner stores the packets, for example in a [`Slab`].
//!
//! ```
//! use base::{Bytes, RandomStream, Time};
//! use queue::{Discipline, Ecn, QueueConfig, QueueLimit, Queued, Slab, Verdicts, Waiting};
//!
//! let limit = QueueLimit::Bytes(Bytes::new(3000));
//! let config = QueueConfig { discipline: Discipline::DropTail, limit, ecn: false };
//! let mut queue = Waiting::new(&config, None, || RandomStream::new(1, "queue"));
//! let (mut packets, mut verdicts) = (Slab::default(), Verdicts::default());
//! for packet in ["a", "b", "c"] {
//!     let slot = packets.put(packet);
//!     let ecn = Ecn::NotCapable;
//!     let entry = Queued { since: Time::ZERO, slot, size: 1500, flow: 0, dscp: 0, ecn };
//!     queue.enqueue(Time::ZERO, entry, &mut verdicts);
//! }
//! let (slot, _) = verdicts.dropped.pop().expect("three are too many");
//! assert_eq!(packets.take(slot), "c");
//! let first = queue.dequeue(Time::ZERO, &mut verdicts).expect("two wait");
//! assert_eq!(packets.take(first.slot), "a");
//! assert_eq!((queue.packets(), queue.bytes()), (1, 1500));
//! ```
#![forbid(unsafe_code)]

mod aqm;
mod backlog;
mod codel;
mod config;
mod drr;
mod dual_pi2;
mod fair;
mod fifo;
mod flows;
mod pie;
mod red;
mod sfq;
mod slab;
#[cfg(test)]
mod tests;
mod waiting;

pub use config::{Discipline, Error, QueueConfig, QueueLimit};
pub use slab::{Slab, Slot};
pub use waiting::Waiting;

use std::fmt::Debug;

use base::Time;

use backlog::Load;

/// The descriptor of a queued packet.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// Time at which it entered the queue.
    pub since: Time,
    /// Position of the packet in the owner's storage.
    pub slot: Slot,
    /// Bytes on the wire, overhead included.
    pub size: u32,
    /// Hash of addresses, protocol and ports, by which fair queueing distinguishes flows.
    pub flow: u32,
    /// Differentiated services code point, 0–63.
    pub dscp: u8,
    /// ECN field of the packet; becomes [`Ecn::Marked`] when a discipline marks it.
    pub ecn: Ecn,
}

/// The meaning of the ECN field (RFC 3168 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not support ECN.
    NotCapable,
    /// ECT(0): the transport responds to a mark as to a loss.
    Capable,
    /// ECT(1): the transport responds to the share of marks (L4S, RFC 9331).
    L4s,
    /// Congestion experienced, set by a queue.
    Marked,
}

impl Ecn {
    /// The meaning of the two bits of the IP header.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotCapable,
            1 => Self::L4s,
            2 => Self::Capable,
            _ => Self::Marked,
        }
    }

    /// The two bits of the IP header.
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::L4s => 1,
            Self::Capable => 2,
            Self::Marked => 3,
        }
    }
}

/// The reason for a packet's drop. Disciplines use the first three; links use the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue was at its limit.
    QueueFull,
    /// Active queue management signalled congestion.
    Early,
    /// It exceeded a policer's bucket.
    Policed,
    /// The link's random loss.
    Loss,
    /// The link was down, or went down during transmission.
    LinkDown,
    /// It is larger than the link's MTU and the link's sender is not a router.
    TooBig,
    /// Its destination has no route.
    NoRoute,
    /// Its TTL expired.
    TtlExceeded,
}

impl DropReason {
    /// All reasons, in the order of counters.
    pub const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::Early,
        Self::Policed,
        Self::Loss,
        Self::LinkDown,
        Self::TooBig,
        Self::NoRoute,
        Self::TtlExceeded,
    ];

    /// Position in [`Self::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word in records and captures.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue full",
            Self::Early => "aqm",
            Self::Policed => "policed",
            Self::Loss => "loss",
            Self::LinkDown => "link down",
            Self::TooBig => "too big",
            Self::NoRoute => "no route",
            Self::TtlExceeded => "ttl exceeded",
        }
    }
}

/// Drops and marks of a discipline. The owner of the queue removes dropped packets from its
/// storage, and resets the count.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Dropped packets in order. The owner may reuse their slots.
    pub dropped: Vec<(Slot, DropReason)>,
    /// Number of packets marked with congestion experienced.
    pub marked: u64,
}

impl Verdicts {
    #[inline]
    fn drop(&mut self, entry: Queued, reason: DropReason) {
        self.dropped.push((entry.slot, reason));
    }
}

/// The order and drops of a discipline. Packets are single segments. Time never decreases. `load`
/// is that of the queue; lists keep it.
trait Queue: Debug + Send {
    /// Enqueues a packet; this or other packets may be dropped.
    fn enqueue(&mut self, now: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts);
    /// Dequeues the next packet to transmit; packets before it may be dropped. `None` if
    /// the queue is empty.
    fn dequeue(&mut self, now: Time, load: &mut Load, verdicts: &mut Verdicts) -> Option<Queued>;
    /// Adds a packet regardless of the limit.
    fn push(&mut self, entry: Queued, load: &mut Load);
    /// Removes all packets, each flow's in order; the caller clears the load.
    fn drain(&mut self) -> Vec<Queued>;
}
