//! One type for all disciplines.

use base::{Bandwidth, RandomStream, Time};

use crate::{Discipline, Fifo, Queue, QueueConfig, QueueLimit, Queued, Verdicts};
use crate::{codel, drr, fifo, fq_codel, red, sfq};

/// A queue under any discipline. Plain lists, which most links have, are reached without
/// indirection.
#[derive(Debug)]
pub enum Waiting {
    /// First in, first out.
    Fifo(Fifo),
    /// Any other discipline.
    Other(Box<dyn Queue>),
}

impl Waiting {
    /// The discipline that `config` asks for in front of a transmitter of `rate` (`None`: not
    /// constant, or not known). Disciplines that draw lots, which RED does, take `random`.
    ///
    /// What [`QueueConfig::check`] objects to is taken as the nearest that works.
    pub fn new(
        config: &QueueConfig,
        rate: Option<Bandwidth>,
        random: impl FnOnce() -> RandomStream,
    ) -> Self {
        let (limit, ecn) = (config.limit, config.ecn);
        Self::Other(match &config.discipline {
            Discipline::DropTail => {
                return Self::Fifo(Fifo::new(limit, fifo::Full::DropTail));
            }
            Discipline::DropHead => {
                return Self::Fifo(Fifo::new(limit, fifo::Full::DropHead));
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
                    idle_packet: rate.map(|rate| rate.time_for(red::SMALL)),
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
    #[inline]
    pub fn is_empty_list(&self) -> bool {
        matches!(self, Self::Fifo(list) if list.packets() == 0)
    }

    fn queue(&mut self) -> &mut dyn Queue {
        match self {
            Self::Fifo(list) => list,
            Self::Other(queue) => &mut **queue,
        }
    }

    /// See [`Queue::enqueue`].
    #[inline]
    pub fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts) {
        match self {
            Self::Fifo(list) => list.enqueue(now, entry, verdicts),
            Self::Other(queue) => queue.enqueue(now, entry, verdicts),
        }
    }

    /// See [`Queue::dequeue`].
    #[inline]
    pub fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued> {
        match self {
            Self::Fifo(list) => list.dequeue(now, verdicts),
            Self::Other(queue) => queue.dequeue(now, verdicts),
        }
    }

    /// Packets that wait.
    #[inline]
    pub fn packets(&self) -> usize {
        match self {
            Self::Fifo(list) => list.packets(),
            Self::Other(queue) => queue.packets(),
        }
    }

    /// Wire bytes that wait.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Fifo(list) => Queue::bytes(list),
            Self::Other(queue) => queue.bytes(),
        }
    }

    /// Takes everything out, in an order that keeps each flow's.
    pub fn drain(&mut self) -> Vec<Queued> {
        self.queue().drain()
    }

    /// Changes the limit. What waits beyond the new limit keeps waiting until the next arrival.
    pub fn set_limit(&mut self, limit: QueueLimit) {
        self.queue().set_limit(limit);
    }

    /// Puts back what `drain` of a predecessor gave, whatever the limit.
    pub fn restore(&mut self, entries: Vec<Queued>) {
        self.queue().restore(entries);
    }
}
