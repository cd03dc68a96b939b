//! One type for all disciplines.

use base::{Bandwidth, RandomStream, Span, Time};

use crate::aqm::{Managed, Unmanaged};
use crate::backlog::Load;
use crate::codel::{self, CoDel};
use crate::dual_pi2::{self, DualPi2};
use crate::fair::Fair;
use crate::fifo::Fifo;
use crate::pie::{self, Pie};
use crate::{Discipline, Queue, QueueConfig, QueueLimit, Queued, Verdicts};
use crate::{drr, fifo, red, sfq};

/// A queue of any discipline.
#[derive(Debug)]
pub struct Waiting {
    load: Load,
    order: Order,
}

/// FIFO queues, which most links have, need no indirection.
#[derive(Debug)]
enum Order {
    Fifo(Fifo),
    Other(Box<dyn Queue>),
}

impl Order {
    fn queue(&mut self) -> &mut dyn Queue {
        match self {
            Self::Fifo(list) => list,
            Self::Other(queue) => &mut **queue,
        }
    }
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
        let ecn = config.ecn;
        let queue: Box<dyn Queue> = match &config.discipline {
            Discipline::DropTail => return Self::fifo(config.limit, fifo::Full::DropTail),
            Discipline::DropHead => return Self::fifo(config.limit, fifo::Full::DropHead),
            Discipline::Policer { rate, burst } => Box::new(fifo::Policer::new(*rate, *burst)),
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
                Box::new(red::Red::new(parameters, random()))
            }
            Discipline::CoDel { target, interval } => {
                let parameters = codel::Parameters { target: *target, interval: *interval, ecn };
                Box::new(Managed::<CoDel>::new(parameters, random()))
            }
            Discipline::Fq { flows, quantum } => {
                Box::new(Fair::<Unmanaged>::new((), random(), *flows, *quantum))
            }
            Discipline::FqCoDel { target, interval, flows, quantum } => {
                let parameters = codel::Parameters { target: *target, interval: *interval, ecn };
                let (flows, quantum) = (*flows, *quantum);
                Box::new(Fair::<CoDel>::new(parameters, random(), flows, quantum))
            }
            Discipline::Pie { target, update, burst } => {
                let parameters = pie_parameters(*target, *update, *burst, ecn);
                Box::new(Managed::<Pie>::new(parameters, random()))
            }
            Discipline::FqPie { target, update, burst, flows, quantum } => {
                let parameters = pie_parameters(*target, *update, *burst, ecn);
                let (flows, quantum) = (*flows, *quantum);
                Box::new(Fair::<Pie>::new(parameters, random(), flows, quantum))
            }
            Discipline::DualPi2 { target, step } => {
                let parameters = dual_pi2::Parameters { target: *target, step: *step, ecn };
                Box::new(DualPi2::new(parameters))
            }
            Discipline::Sfq { flows, quantum, perturb } => {
                Box::new(sfq::Sfq::new(*flows, *quantum, *perturb))
            }
            Discipline::Priority { bands } => Box::new(drr::Priority::new(*bands)),
            Discipline::Drr { quanta } => Box::new(drr::Drr::new(quanta)),
        };
        Self { load: empty(config.limit), order: Order::Other(queue) }
    }

    fn fifo(limit: QueueLimit, when_full: fifo::Full) -> Self {
        Self { load: empty(limit), order: Order::Fifo(Fifo::new(when_full)) }
    }

    /// Whether an idle transmitter would get the next arrival immediately and unchanged.
    #[inline]
    pub fn is_empty_list(&self) -> bool {
        self.load.packets == 0 && matches!(self.order, Order::Fifo(_))
    }

    /// Enqueues a packet; this or other packets may be dropped.
    #[inline]
    pub fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts) {
        match &mut self.order {
            Order::Fifo(list) => list.enqueue(now, entry, &mut self.load, verdicts),
            Order::Other(queue) => queue.enqueue(now, entry, &mut self.load, verdicts),
        }
    }

    /// Dequeues the next packet to transmit; packets before it may be dropped. `None` if
    /// the queue is empty.
    #[inline]
    pub fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued> {
        match &mut self.order {
            Order::Fifo(list) => list.dequeue(now, &mut self.load, verdicts),
            Order::Other(queue) => queue.dequeue(now, &mut self.load, verdicts),
        }
    }

    /// Number of queued packets.
    #[inline]
    pub fn packets(&self) -> usize {
        self.load.packets
    }

    /// Queued wire bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.load.bytes
    }

    /// Removes all packets, in an order that keeps the order of each flow.
    pub fn drain(&mut self) -> Vec<Queued> {
        self.load.clear();
        let mut entries = self.order.queue().drain();
        entries.sort_by_key(|entry| entry.since);
        entries
    }

    /// Changes the limit. Packets beyond the new limit stay queued until the next arrival.
    pub fn set_limit(&mut self, limit: QueueLimit) {
        self.load.limit = limit;
    }

    /// Restores the result of a predecessor's `drain`, regardless of the limit.
    pub fn restore(&mut self, entries: Vec<Queued>) {
        for entry in entries {
            self.order.queue().push(entry, &mut self.load);
        }
    }
}

const fn empty(limit: QueueLimit) -> Load {
    Load { limit, packets: 0, bytes: 0 }
}

const fn pie_parameters(target: Span, update: Span, burst: Span, ecn: bool) -> pie::Parameters {
    pie::Parameters { target, update, burst, ecn }
}
