//! Configuration of queues.

use base::{Bandwidth, Bytes, Ratio, Span};

/// An invalid configuration of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Deficit round robin has no classes.
    #[error("its queue has no classes")]
    NoClasses,
    /// RED's thresholds are in the wrong order.
    #[error("RED needs min below max")]
    Thresholds,
    /// Fair queueing has no flows, too many flows, or no quantum.
    #[error("its queue needs 1 to 65536 flows and a quantum")]
    Flows,
    /// A priority queue has no bands, or more bands than class selectors.
    #[error("a priority queue has 1 to 8 bands")]
    Bands,
}

/// A queue discipline and its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    /// The rule that orders and drops packets.
    pub discipline: Discipline,
    /// Maximum length of the queue. The packet in transmission does not count.
    pub limit: QueueLimit,
    /// Mark ECN-capable packets instead of dropping them, if the discipline signals early.
    pub ecn: bool,
}

/// Maximum length of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// A number of packets.
    Packets(u32),
    /// A number of wire bytes.
    Bytes(Bytes),
}

impl QueueLimit {
    /// No queue of a run reaches this length.
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
        /// Average queue, in wire bytes, up to which no packet is dropped or marked.
        min: Bytes,
        /// Average queue at which `probability` is reached.
        max: Bytes,
        /// Marking probability at `max`.
        probability: Ratio,
        /// Weight of a sample in the moving average.
        weight: Ratio,
        /// Drop ECN-capable packets too where the average is above `max` (RFC 3168 §7).
        harddrop: bool,
    },
    /// Controlled delay (RFC 8289).
    CoDel {
        /// Acceptable persistent queueing delay.
        target: Span,
        /// Time over which the delay must stay above the target.
        interval: Span,
    },
    /// Fair flow queues, a new flow first until it has sent a quantum (RFC 8290 §4).
    Fq {
        /// Number of flow queues.
        flows: u32,
        /// Bytes that a queue may send per round.
        quantum: Bytes,
    },
    /// Flow queue `CoDel` (RFC 8290).
    FqCoDel {
        /// Acceptable persistent queueing delay.
        target: Span,
        /// Time over which the delay must stay above the target.
        interval: Span,
        /// Number of flow queues.
        flows: u32,
        /// Bytes that a queue may send per round.
        quantum: Bytes,
    },
    /// Proportional integral controller enhanced (PIE, RFC 8033).
    Pie {
        /// Target of the queueing delay.
        target: Span,
        /// Interval at which the drop probability changes.
        update: Span,
        /// Time after an idle period for which nothing is dropped.
        burst: Span,
    },
    /// PIE on fair flow queues.
    FqPie {
        /// Target of the queueing delay.
        target: Span,
        /// Interval at which the drop probability changes.
        update: Span,
        /// Time after an idle period for which nothing is dropped.
        burst: Span,
        /// Number of flow queues.
        flows: u32,
        /// Bytes that a queue may send per round.
        quantum: Bytes,
    },
    /// Dual queue with coupled marking for L4S and classic traffic (`DualPI2`, RFC 9332).
    DualPi2 {
        /// Target delay of the queue for classic traffic.
        target: Span,
        /// Delay from which each packet of the L4S queue is marked.
        step: Span,
    },
    /// Stochastic fair queueing (`McKenney` 1990): hashed flows, round robin, longest queue drops.
    Sfq {
        /// Number of flow queues.
        flows: u32,
        /// Bytes that a queue may send per round.
        quantum: Bytes,
        /// Interval at which the hash changes; `None`: never.
        perturb: Option<Span>,
    },
    /// Strict priority over bands by DSCP class selector: band 0 first.
    Priority {
        /// Number of bands, at least 1.
        bands: u32,
    },
    /// Deficit round robin (Shreedhar and Varghese 1995) over traffic classes by DSCP.
    Drr {
        /// Bytes that each class may send per round; class *i* uses entry *i*, further
        /// classes the last entry.
        quanta: Vec<Bytes>,
    },
    /// A token-bucket policer without a queue: it drops packets that exceed the bucket.
    Policer {
        /// Sustained rate of the token bucket.
        rate: Bandwidth,
        /// Bucket size in wire bytes.
        burst: Bytes,
    },
}

impl Discipline {
    /// The kind of the discipline in the lab file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::DropTail => "droptail",
            Self::DropHead => "drophead",
            Self::Red { .. } => "red",
            Self::CoDel { .. } => "codel",
            Self::Fq { .. } => "fq",
            Self::FqCoDel { .. } => "fq-codel",
            Self::Pie { .. } => "pie",
            Self::FqPie { .. } => "fq-pie",
            Self::DualPi2 { .. } => "dualpi2",
            Self::Sfq { .. } => "sfq",
            Self::Priority { .. } => "priority",
            Self::Drr { .. } => "drr",
            Self::Policer { .. } => "policer",
        }
    }
}

impl QueueConfig {
    /// Checks that the configuration is valid.
    ///
    /// # Errors
    /// If parameters of the discipline are out of range.
    pub fn check(&self) -> Result<(), Error> {
        match &self.discipline {
            Discipline::Drr { quanta } if quanta.is_empty() => Err(Error::NoClasses),
            Discipline::Red { min, max, .. } if min >= max => Err(Error::Thresholds),
            Discipline::Fq { flows, quantum }
            | Discipline::FqCoDel { flows, quantum, .. }
            | Discipline::FqPie { flows, quantum, .. }
            | Discipline::Sfq { flows, quantum, .. }
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
