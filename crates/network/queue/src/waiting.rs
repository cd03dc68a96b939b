//! One type for all disciplines.

use base::{Bandwidth, RandomStream, Span, Time};

use crate::aqm::Managed;
use crate::codel::{self, CoDel};
use crate::dual_pi2::{self, DualPi2};
use crate::fair::Fair;
use crate::pie::{self, Pie};
use crate::{Discipline, Fifo, Queue, QueueConfig, QueueLimit, Queued, Verdicts};
use crate::{drr, fifo, red, sfq};

/// A queue of any discipline. FIFO queues, which most links have, need no indirection.
#[derive(Debug)]
pub enum Waiting {
    /// First in, first out.
    Fifo(Fifo),
    /// Any other discipline.
    Other(Box<dyn Queue>),
}

impl Waiting {
    /// The queue that `config` describes in front of a transmitter of `rate` (`None`: not constant,
    /// or unknown). Disciplines with random decisions, such as RED, use `random`.
    ///
    /// Values that [`QueueConfig::check`] rejects are replaced by the nearest valid ones.
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
            Discipline::Red { min, max, probability, weight, harddrop } => {
                let parameters = red::Parameters {
                    min: *min,
                    max: *max,
                    probability: *probability,
                    weight: *weight,
                    harddrop: *harddrop,
                    ecn,
                    idle_packet: rate.map(|rate| rate.time_for(red::SMALL)),
                };
                Box::new(red::Red::new(parameters, limit, random()))
            }
            Discipline::CoDel { target, interval } => {
                let parameters = codel::Parameters { target: *target, interval: *interval, ecn };
                Box::new(Managed::<CoDel>::new(parameters, limit, random()))
            }
            Discipline::FqCoDel { target, interval, flows, quantum } => {
                let parameters = codel::Parameters { target: *target, interval: *interval, ecn };
                let (flows, quantum) = (*flows, *quantum);
                Box::new(Fair::<CoDel>::new(parameters, (limit, random()), flows, quantum))
            }
            Discipline::Pie { target, update, burst } => {
                let parameters = pie_parameters(*target, *update, *burst, ecn);
                Box::new(Managed::<Pie>::new(parameters, limit, random()))
            }
            Discipline::FqPie { target, update, burst, flows, quantum } => {
                let parameters = pie_parameters(*target, *update, *burst, ecn);
                let (flows, quantum) = (*flows, *quantum);
                Box::new(Fair::<Pie>::new(parameters, (limit, random()), flows, quantum))
            }
            Discipline::DualPi2 { target, step } => {
                let parameters = dual_pi2::Parameters { target: *target, step: *step, ecn };
                Box::new(DualPi2::new(parameters, limit))
            }
            Discipline::Sfq { flows, quantum, perturb } => {
                Box::new(sfq::Sfq::new(limit, *flows, *quantum, *perturb))
            }
            Discipline::Priority { bands } => Box::new(drr::Priority::new(*bands, limit)),
            Discipline::Drr { quanta } => Box::new(drr::Drr::new(quanta, limit)),
        })
    }

    /// Whether an idle transmitter would get the next arrival immediately and unchanged.
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

    /// Number of queued packets.
    #[inline]
    pub fn packets(&self) -> usize {
        match self {
            Self::Fifo(list) => list.packets(),
            Self::Other(queue) => queue.packets(),
        }
    }

    /// Queued wire bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Fifo(list) => Queue::bytes(list),
            Self::Other(queue) => queue.bytes(),
        }
    }

    /// Removes all packets, in an order that keeps the order of each flow.
    pub fn drain(&mut self) -> Vec<Queued> {
        self.queue().drain()
    }

    /// Changes the limit. Packets beyond the new limit stay queued until the next arrival.
    pub fn set_limit(&mut self, limit: QueueLimit) {
        self.queue().set_limit(limit);
    }

    /// Restores the result of a predecessor's `drain`, regardless of the limit.
    pub fn restore(&mut self, entries: Vec<Queued>) {
        self.queue().restore(entries);
    }
}

const fn pie_parameters(target: Span, update: Span, burst: Span, ecn: bool) -> pie::Parameters {
    pie::Parameters { target, update, burst, ecn }
}
