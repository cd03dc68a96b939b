//! Queue disciplines: what waits in front of a transmitter, in which order it leaves, and what is
//! dropped or marked meanwhile.
//!
//! Sans-IO: whoever owns a queue tells it the time. A queue holds descriptions of packets
//! ([`Queued`]); the packets are wherever the owner keeps them, such as in a [`Slab`].
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

mod backlog;
mod codel;
mod config;
mod drr;
mod fifo;
mod fq_codel;
mod red;
mod sfq;
mod slab;
#[cfg(test)]
mod tests;
mod waiting;

pub use config::{Discipline, QueueConfig, QueueLimit};
pub use fifo::Fifo;
pub use slab::{Slab, Slot};
pub use waiting::Waiting;

use std::fmt::Debug;

use base::Time;

/// A packet that waits: what disciplines look at, and where the rest is.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// When it joined the queue.
    pub since: Time,
    /// Where the packet is.
    pub slot: Slot,
    /// Bytes on the wire, overhead included.
    pub size: u32,
    /// Hash of addresses, protocol and ports: what fair queueing tells flows apart by.
    pub flow: u32,
    /// Differentiated services code point, 0–63.
    pub dscp: u8,
    /// Explicit congestion notification; becomes [`Ecn::Marked`] when a discipline marks it.
    pub ecn: Ecn,
}

/// The ECN field's meaning (RFC 3168 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not take part.
    NotCapable,
    /// ECT(0) or ECT(1).
    Capable,
    /// Congestion experienced, set by a queue.
    Marked,
}

/// Why a packet went no further. Disciplines give the first three; the others are a link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue was at its limit.
    QueueFull,
    /// Active queue management signalled congestion.
    Early,
    /// It exceeded a policer's bucket.
    Policed,
    /// The loss process took it.
    Loss,
    /// The link was, or went, out of service.
    LinkDown,
    /// It is larger than the link's MTU and its sender is no router.
    TooBig,
    /// No route leads to its destination.
    NoRoute,
    /// Its TTL ran out.
    TtlExceeded,
}

impl DropReason {
    /// All of them, in the order in which they are counted.
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

    /// The word for records and captures.
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

/// What a discipline did beside queueing. Whoever owns the queue takes the slots of dropped packets
/// back, and resets the count.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Packets that are dropped, in this order. Their slots are the owner's again.
    pub dropped: Vec<(Slot, DropReason)>,
    /// How many packets were marked with congestion experienced.
    pub marked: u64,
}

impl Verdicts {
    #[inline]
    fn drop(&mut self, entry: Queued, reason: DropReason) {
        self.dropped.push((entry.slot, reason));
    }
}

/// A discipline. Packets are single segments. Time never goes back.
pub trait Queue: Debug + Send {
    /// Takes an arrival; it, or others, may be dropped.
    fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts);
    /// The next packet to transmit; packets before it may be dropped. `None` when nothing is left.
    fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued>;
    /// Packets that wait.
    fn packets(&self) -> usize;
    /// Wire bytes that wait.
    fn bytes(&self) -> u64;
    /// Takes everything out, in an order that keeps each flow's.
    fn drain(&mut self) -> Vec<Queued>;
    /// Changes the limit. What waits beyond the new limit keeps waiting until the next arrival.
    fn set_limit(&mut self, limit: QueueLimit);
    /// Puts back what `drain` of a predecessor gave, whatever the limit.
    fn restore(&mut self, entries: Vec<Queued>);
}

/// A configuration that no queue can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Deficit round robin over nothing.
    #[error("its queue has no classes")]
    NoClasses,
    /// RED's thresholds are in the wrong order.
    #[error("RED needs min below max")]
    Thresholds,
    /// Fair queueing without flows, with very many, or without a quantum.
    #[error("its queue needs 1 to 65536 flows and a quantum")]
    Flows,
    /// More bands than class selectors, or none.
    #[error("a priority queue has 1 to 8 bands")]
    Bands,
}
