//! What a queue can be told to do.

use base::{Bandwidth, Bytes, Ratio, Span};

use crate::Error;

/// A queue discipline and its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    /// The discipline.
    pub discipline: Discipline,
    /// Where the queue is full. The packet in transmission does not count.
    pub limit: QueueLimit,
    /// Mark ECN-capable packets instead of dropping them, where the discipline signals early.
    pub ecn: bool,
}

/// Where a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// A number of packets.
    Packets(u32),
    /// A number of wire bytes.
    Bytes(Bytes),
}

impl QueueLimit {
    /// No queue of a run gets this long.
    pub const UNLIMITED: Self = Self::Bytes(Bytes::new(u64::MAX));
}

/// A queue discipline.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// First in, first out; arrivals at a full queue are dropped.
    DropTail,
    /// First in, first out; at a full queue the oldest packet is dropped.
    DropHead,
    /// Random early detection (Floyd and Jacobson 1993), gentle.
    Red {
        /// Average queue, in wire bytes, below which nothing happens.
        min: Bytes,
        /// Average queue at which `probability` is reached.
        max: Bytes,
        /// Marking probability at `max`.
        probability: Ratio,
        /// Weight of a sample in the moving average.
        weight: Ratio,
    },
    /// Controlled delay (RFC 8289).
    CoDel {
        /// Acceptable standing delay.
        target: Span,
        /// Time over which the delay must stay above the target.
        interval: Span,
    },
    /// Flow queue `CoDel` (RFC 8290).
    FqCoDel {
        /// Acceptable standing delay.
        target: Span,
        /// Time over which the delay must stay above the target.
        interval: Span,
        /// Number of flow queues.
        flows: u32,
        /// Bytes a queue may send a round.
        quantum: Bytes,
    },
    /// Stochastic fair queueing (`McKenney` 1990): hashed flows, round robin, longest queue drops.
    Sfq {
        /// Number of flow queues.
        flows: u32,
        /// Bytes a queue may send a round.
        quantum: Bytes,
        /// How often the hash is changed; `None` never.
        perturb: Option<Span>,
    },
    /// Strict priority over bands by DSCP class selector: band 0 first.
    Priority {
        /// Number of bands, at least 1.
        bands: u32,
    },
    /// Deficit round robin (Shreedhar and Varghese 1995) over traffic classes by DSCP.
    Drr {
        /// Bytes each class may send a round; class *i* takes entry *i*, the last takes the rest.
        quanta: Vec<Bytes>,
    },
    /// A token-bucket policer: no queue, what exceeds the bucket is dropped.
    Policer {
        /// Sustained rate.
        rate: Bandwidth,
        /// Bucket size in wire bytes.
        burst: Bytes,
    },
}

impl QueueConfig {
    /// Whether a queue can be like this.
    ///
    /// # Errors
    /// Parameters of the discipline that are out of range.
    pub fn check(&self) -> Result<(), Error> {
        match &self.discipline {
            Discipline::Drr { quanta } if quanta.is_empty() => Err(Error::NoClasses),
            Discipline::Red { min, max, .. } if min >= max => Err(Error::Thresholds),
            Discipline::FqCoDel { flows, quantum, .. } | Discipline::Sfq { flows, quantum, .. }
                if *flows == 0 || *flows > 65_536 || *quantum == Bytes::ZERO =>
            {
                Err(Error::Flows)
            }
            Discipline::Priority { bands } if *bands == 0 || *bands > 8 => Err(Error::Bands),
            _ => Ok(()),
        }
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { discipline: Discipline::DropTail, limit: QueueLimit::Packets(1000), ecn: false }
    }
}
