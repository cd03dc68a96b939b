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
use crate::packet::{Ecn, Packet};
use crate::stats::DropReason;

/// A packet that waits.
#[derive(Clone, Debug)]
pub(crate) struct Queued<B> {
    pub(crate) packet: Packet<B>,
    /// Bytes on the wire, overhead included.
    pub(crate) size: u32,
    /// When it joined the queue.
    pub(crate) since: Time,
}

/// What a discipline did beside queueing.
#[derive(Debug)]
pub(crate) struct Verdicts<B> {
    pub(crate) dropped: Vec<(Packet<B>, DropReason)>,
    pub(crate) marked: u64,
}

impl<B> Default for Verdicts<B> {
    fn default() -> Self {
        Self { dropped: Vec::new(), marked: 0 }
    }
}

impl<B> Verdicts<B> {
    fn drop(&mut self, entry: Queued<B>, reason: DropReason) {
        self.dropped.push((entry.packet, reason));
    }
}

/// A discipline. Packets are single segments.
pub(crate) trait Queue<B> {
    /// Takes an arrival; it, or others, may be dropped.
    fn enqueue(&mut self, now: Time, entry: Queued<B>, verdicts: &mut Verdicts<B>);
    /// The next packet to transmit.
    fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts<B>) -> Option<Queued<B>>;
    /// Packets that wait.
    fn packets(&self) -> usize;
    /// Wire bytes that wait.
    fn bytes(&self) -> u64;
    /// Takes everything out, in an order that keeps each flow's.
    fn drain(&mut self) -> Vec<Queued<B>>;
    /// Puts back what `drain` of a predecessor gave, whatever the limit.
    fn restore(&mut self, entries: Vec<Queued<B>>);
}

/// Builds the discipline that `config` asks for on a link of `rate` (`None`: not constant).
pub(crate) fn build<B: 'static>(
    config: &QueueConfig,
    rate: Option<Bandwidth>,
    random: RandomStream,
) -> Box<dyn Queue<B>> {
    let limit = config.limit;
    let ecn = config.ecn;
    match &config.discipline {
        Discipline::DropTail => Box::new(fifo::Fifo::new(limit, fifo::Full::DropTail)),
        Discipline::DropHead => Box::new(fifo::Fifo::new(limit, fifo::Full::DropHead)),
        Discipline::Policer { rate, burst } => Box::new(fifo::Policer::new(*rate, *burst, limit)),
        Discipline::Red { min, max, probability, weight } => {
            let law = red::Law {
                min: *min,
                max: *max,
                probability: *probability,
                weight: *weight,
                ecn,
                idle_packet: rate.map(|rate| rate.time_for(Bytes::new(500))),
            };
            Box::new(red::Red::new(law, limit, random))
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
fn mark<B>(packet: &mut Packet<B>, enabled: bool) -> bool {
    if !enabled || packet.ecn == Ecn::NotCapable {
        return false;
    }
    packet.ecn = Ecn::Marked;
    true
}

/// A plain list of packets that knows its bytes.
#[derive(Debug)]
struct Backlog<B> {
    entries: VecDeque<Queued<B>>,
    bytes: u64,
}

impl<B> Backlog<B> {
    const fn new() -> Self {
        Self { entries: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, entry: Queued<B>) {
        self.bytes += u64::from(entry.size);
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Queued<B>> {
        let entry = self.entries.pop_front()?;
        self.bytes -= u64::from(entry.size);
        Some(entry)
    }

    fn pop_last(&mut self) -> Option<Queued<B>> {
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

    fn drain(&mut self) -> Vec<Queued<B>> {
        self.bytes = 0;
        self.entries.drain(..).collect()
    }
}
