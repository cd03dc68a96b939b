//! Queue disciplines: what waits in front of a transmitter.

mod codel;
mod drr;
mod fifo;
mod fq_codel;
mod red;
mod sfq;

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, RandomStream, Time};

use crate::config::{Discipline, QueueConfig, QueueLimit};
use crate::packet::Ecn;
use crate::slab::Slot;
use crate::stats::DropReason;

/// A packet that waits: what disciplines look at, and where the rest is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    /// When it joined the queue.
    pub(crate) since: Time,
    pub(crate) slot: Slot,
    /// Bytes on the wire, overhead included.
    pub(crate) size: u32,
    /// See [`crate::Packet::flow`].
    pub(crate) flow: u32,
    pub(crate) dscp: u8,
    pub(crate) ecn: Ecn,
}

/// What a discipline did beside queueing.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    pub(crate) dropped: Vec<(Slot, DropReason)>,
    pub(crate) marked: u64,
}

impl Verdicts {
    fn drop(&mut self, entry: Queued, reason: DropReason) {
        self.dropped.push((entry.slot, reason));
    }
}

/// A discipline. Packets are single segments.
pub(crate) trait Queue: Send {
    /// Takes an arrival; it, or others, may be dropped.
    fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts);
    /// The next packet to transmit.
    fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued>;
    /// Packets that wait.
    fn packets(&self) -> usize;
    /// Wire bytes that wait.
    fn bytes(&self) -> u64;
    /// Takes everything out, in an order that keeps each flow's.
    fn drain(&mut self) -> Vec<Queued>;
    /// Puts back what `drain` of a predecessor gave, whatever the limit.
    fn restore(&mut self, entries: Vec<Queued>);
}

/// A link's queue. Plain lists, which most links have, are reached without indirection.
pub(crate) enum Waiting {
    Fifo(fifo::Fifo),
    Other(Box<dyn Queue>),
}

impl Waiting {
    /// The discipline that `config` asks for on a link of `rate` (`None`: not constant).
    pub(crate) fn new(
        config: &QueueConfig,
        rate: Option<Bandwidth>,
        random: impl FnOnce() -> RandomStream,
    ) -> Self {
        let (limit, ecn) = (config.limit, config.ecn);
        Self::Other(match &config.discipline {
            Discipline::DropTail => {
                return Self::Fifo(fifo::Fifo::new(limit, fifo::Full::DropTail));
            }
            Discipline::DropHead => {
                return Self::Fifo(fifo::Fifo::new(limit, fifo::Full::DropHead));
            }
            Discipline::Policer { rate, burst } => {
                Box::new(fifo::Policer::new(*rate, *burst, limit))
            }
            Discipline::Red { min, max, probability, weight } => {
                let law = red::Law {
                    min: *min,
                    max: *max,
                    probability: *probability,
                    weight: *weight,
                    ecn,
                    idle_packet: rate.map(|rate| rate.time_for(Bytes::new(500))),
                };
                Box::new(red::Red::new(law, limit, random()))
            }
            Discipline::CoDel { target, interval } => {
                let law = codel::Law { target: *target, interval: *interval, ecn };
                Box::new(codel::CoDelQueue::new(law, limit))
            }
            Discipline::FqCoDel { target, interval, flows, quantum } => {
                let law = codel::Law { target: *target, interval: *interval, ecn };
                Box::new(fq_codel::FqCoDel::new(law, limit, *flows, *quantum))
            }
            Discipline::Sfq { flows, quantum, perturb } => {
                Box::new(sfq::Sfq::new(limit, *flows, *quantum, *perturb))
            }
            Discipline::Priority { bands } => Box::new(drr::Priority::new(*bands, limit)),
            Discipline::Drr { quanta } => Box::new(drr::Drr::new(quanta, limit)),
        })
    }

    /// Whether the next arrival would be let through at once by any idle transmitter.
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(self, Self::Fifo(list) if list.packets() == 0)
    }

    fn queue(&mut self) -> &mut dyn Queue {
        match self {
            Self::Fifo(list) => list,
            Self::Other(queue) => &mut **queue,
        }
    }

    pub(crate) fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts) {
        match self {
            Self::Fifo(list) => list.enqueue(now, entry, verdicts),
            Self::Other(queue) => queue.enqueue(now, entry, verdicts),
        }
    }

    pub(crate) fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued> {
        match self {
            Self::Fifo(list) => list.dequeue(now, verdicts),
            Self::Other(queue) => queue.dequeue(now, verdicts),
        }
    }

    pub(crate) fn packets(&self) -> usize {
        match self {
            Self::Fifo(list) => list.packets(),
            Self::Other(queue) => queue.packets(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Fifo(list) => Queue::bytes(list),
            Self::Other(queue) => queue.bytes(),
        }
    }

    pub(crate) fn drain(&mut self) -> Vec<Queued> {
        self.queue().drain()
    }

    pub(crate) fn restore(&mut self, entries: Vec<Queued>) {
        self.queue().restore(entries);
    }
}

/// Whether a queue that holds this much would exceed its limit with one more packet of `size`.
fn full(limit: QueueLimit, packets: usize, bytes: u64, size: u32) -> bool {
    match limit {
        QueueLimit::Packets(most) => packets >= most as usize,
        QueueLimit::Bytes(most) => bytes + u64::from(size) > most.count(),
    }
}

/// Whether a queue holds more than its limit.
fn over(limit: QueueLimit, packets: usize, bytes: u64) -> bool {
    match limit {
        QueueLimit::Packets(most) => packets > most as usize,
        QueueLimit::Bytes(most) => bytes > most.count(),
    }
}

/// The class of a DSCP among `classes`, 0 the most urgent: the eight class selectors (RFC 2474
/// §4.2.2) spread evenly, so that CS0 is the last class and CS7 the first.
fn class_of(dscp: u8, classes: usize) -> usize {
    (7 - usize::from(dscp >> 3).min(7)) * classes / 8
}

/// Marks an ECN-capable packet; tells whether it could.
fn mark(entry: &mut Queued, enabled: bool) -> bool {
    if !enabled || entry.ecn == Ecn::NotCapable {
        return false;
    }
    entry.ecn = Ecn::Marked;
    true
}

/// A plain list of packets that knows its bytes.
#[derive(Debug)]
struct Backlog {
    entries: VecDeque<Queued>,
    bytes: u64,
}

impl Backlog {
    const fn new() -> Self {
        Self { entries: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, entry: Queued) {
        self.bytes += u64::from(entry.size);
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Queued> {
        let entry = self.entries.pop_front()?;
        self.bytes -= u64::from(entry.size);
        Some(entry)
    }

    fn pop_last(&mut self) -> Option<Queued> {
        let entry = self.entries.pop_back()?;
        self.bytes -= u64::from(entry.size);
        Some(entry)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.bytes = 0;
        self.entries.drain(..).collect()
    }
}
