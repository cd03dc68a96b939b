//! One direction of a link: queue discipline → serialisation → loss → propagation with jitter →
//! duplication and corruption, always in this order.

use std::collections::VecDeque;

use base::{IfaceId, RandomStream, Time};

use crate::config::{Discipline, LinkConfig, Rate};
use crate::jitter::JitterProcess;
use crate::loss::LossProcess;
use crate::pace::Pacer;
use crate::packet::{Ecn, Packet};
use crate::queue::{self, Queue, Queued, Verdicts};
use crate::stats::{DropReason, LinkStats, QueueDelays, QueueLevel};

/// A packet on its way to the far end.
#[derive(Debug)]
pub(crate) struct InFlight<B> {
    pub(crate) arrives: Time,
    pub(crate) packet: Packet<B>,
}

/// The packet in transmission.
struct Transmission<B> {
    packet: Packet<B>,
    size: u32,
    ends: Time,
}

/// Moments at which a link needs its fabric's attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    pub(crate) transmitted: Option<Time>,
    pub(crate) arrival: Option<Time>,
}

/// One direction of a link.
pub(crate) struct Link<B> {
    /// The interface that sends into it.
    pub(crate) from: IfaceId,
    pub(crate) config: LinkConfig,
    pub(crate) up: bool,
    pub(crate) stats: LinkStats,
    /// Mirror sessions on this direction, as a mask.
    pub(crate) mirrors: u64,
    overhead: u32,
    name: String,
    seed: u64,
    pacer: Pacer,
    /// Whether nothing on the link treats segments one by one.
    uniform: bool,
    queue: Box<dyn Queue<B>>,
    transmission: Option<Transmission<B>>,
    flight: VecDeque<InFlight<B>>,
    /// Arrival of the last packet in order.
    last_arrival: Time,
    loss: LossProcess,
    jitter: JitterProcess,
    reorder: RandomStream,
    duplicate: RandomStream,
    corrupt: RandomStream,
    peak: QueueLevel,
    /// How long sent packets had waited.
    pub(crate) delays: QueueDelays,
    /// What the event queue holds for this link; events at other times are stale.
    pub(crate) scheduled: Deadlines,
    pub(crate) verdicts: Verdicts<B>,
    /// Packets that left the transmitter and match a mirror.
    pub(crate) mirrored: Vec<Packet<B>>,
}

impl<B: Clone + 'static> Link<B> {
    /// `name` (such as `a-b/up`) keys the random streams.
    pub(crate) fn new(
        from: IfaceId,
        name: &str,
        config: LinkConfig,
        overhead: u32,
        seed: u64,
    ) -> Self {
        let stream = |part: &str| RandomStream::new(seed, &format!("link/{name}/{part}"));
        Self {
            from,
            up: true,
            stats: LinkStats::default(),
            mirrors: 0,
            overhead,
            seed,
            pacer: Pacer::new(&config.rate),
            uniform: is_uniform(&config),
            queue: queue::build(&config.queue, constant(&config.rate), stream("queue")),
            transmission: None,
            flight: VecDeque::new(),
            last_arrival: Time::ZERO,
            loss: LossProcess::new(config.loss.clone(), stream("loss")),
            jitter: JitterProcess::new(config.jitter.clone(), stream("jitter")),
            reorder: stream("reorder"),
            duplicate: stream("duplicate"),
            corrupt: stream("corrupt"),
            peak: QueueLevel::default(),
            delays: QueueDelays::default(),
            scheduled: Deadlines::default(),
            verdicts: Verdicts::default(),
            mirrored: Vec::new(),
            name: name.to_owned(),
            config,
        }
    }

    /// Whether a super-packet may cross without being split. A link that has just lost its limits
    /// first finishes what it was transmitting.
    fn passes_whole(&self) -> bool {
        self.uniform && self.transmission.is_none()
    }

    /// Whether packets cross this link at once and unchanged: no event is needed for them.
    pub(crate) fn is_transparent(&self) -> bool {
        self.passes_whole() && !self.config.delay.is_positive() && self.flight.is_empty()
    }

    fn wire_bytes(&self, packet: &Packet<B>) -> u64 {
        packet.bytes() + u64::from(self.overhead) * u64::from(packet.count)
    }

    /// Counts a packet that a transparent link hands on.
    pub(crate) fn pass(&mut self, packet: &Packet<B>) {
        self.count_offered(packet);
        self.count_sent(packet);
        self.count_delivered(packet);
    }

    /// Takes a packet at the sending end.
    pub(crate) fn enqueue(&mut self, now: Time, mut packet: Packet<B>) {
        if !self.up {
            self.count_offered(&packet);
            self.verdicts.dropped.push((packet, DropReason::LinkDown));
            return;
        }
        if self.passes_whole() {
            self.count_offered(&packet);
            self.count_sent(&packet);
            self.copy_to_mirrors(&packet);
            let arrives = (now + self.config.delay).max(self.last_arrival);
            self.last_arrival = arrives;
            self.fly(arrives, packet);
            return;
        }
        while let Some(head) = packet.split_first() {
            self.enqueue_segment(now, head);
        }
        self.enqueue_segment(now, packet);
    }

    fn enqueue_segment(&mut self, now: Time, packet: Packet<B>) {
        self.count_offered(&packet);
        let size = packet.last + self.overhead;
        // The packet that an idle transmitter takes at once never waits, but disciplines that
        // judge arrivals (RED, policers) must see it.
        let entry = Queued { packet, size, since: now };
        self.queue.enqueue(now, entry, &mut self.verdicts);
        if self.transmission.is_none() {
            self.transmit_next(now);
        }
        let (packets, bytes) = (self.queue.packets() as u64, self.queue.bytes());
        self.peak.peak_packets = self.peak.peak_packets.max(packets);
        self.peak.peak_bytes = self.peak.peak_bytes.max(bytes);
    }

    fn transmit_next(&mut self, now: Time) {
        while let Some(entry) = self.queue.dequeue(now, &mut self.verdicts) {
            let waited = now.since(entry.since);
            self.delays.record(waited);
            self.peak.peak_delay = self.peak.peak_delay.max(waited);
            let ends = self.pacer.finish(now, entry.size, entry.packet.last);
            let transmission = Transmission { packet: entry.packet, size: entry.size, ends };
            if ends > now {
                self.transmission = Some(transmission);
                return;
            }
            self.leave(now, transmission);
        }
    }

    /// The end of the packet in transmission.
    pub(crate) fn on_transmitted(&mut self, now: Time) {
        if let Some(transmission) = self.transmission.take() {
            self.leave(now, transmission);
        }
        self.transmit_next(now);
    }

    /// A packet has been serialised: loss, propagation, duplication, corruption.
    fn leave(&mut self, now: Time, transmission: Transmission<B>) {
        let Transmission { mut packet, size, .. } = transmission;
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(size);
        self.copy_to_mirrors(&packet);
        if self.loss.takes() {
            self.verdicts.dropped.push((packet, DropReason::Loss));
            return;
        }
        let mut arrives = (now + self.jitter.apply(self.config.delay)).max(self.last_arrival);
        let held_back = match &self.config.reorder {
            Some(law) if self.reorder.chance(law.probability) => Some(law.by),
            _ => None,
        };
        match held_back {
            Some(by) => {
                self.stats.reordered += 1;
                arrives += by;
            }
            None => self.last_arrival = arrives,
        }
        if self.duplicate.chance(self.config.duplicate) {
            self.stats.duplicated += 1;
            self.fly(arrives, packet.clone());
        }
        if self.corrupt.chance(self.config.corrupt) {
            self.stats.corrupted += 1;
            packet.corrupt = Some(self.corrupt.bits() as u32);
        }
        self.fly(arrives, packet);
    }

    /// Keeps the flight sorted; only held-back packets are not the last.
    fn fly(&mut self, arrives: Time, packet: Packet<B>) {
        let behind = self.flight.iter().rev().take_while(|other| other.arrives > arrives).count();
        let at = self.flight.len() - behind;
        self.flight.insert(at, InFlight { arrives, packet });
    }

    fn copy_to_mirrors(&mut self, packet: &Packet<B>) {
        if self.mirrors & packet.mirrors != 0 {
            self.mirrored.push(packet.clone());
        }
    }

    /// The next packet that has arrived by `now`.
    pub(crate) fn arrive(&mut self, now: Time) -> Option<InFlight<B>> {
        if self.flight.front()?.arrives > now {
            return None;
        }
        let arrived = self.flight.pop_front()?;
        self.count_delivered(&arrived.packet);
        Some(arrived)
    }

    /// What is to be scheduled now.
    pub(crate) fn deadlines(&self) -> Deadlines {
        Deadlines {
            transmitted: self.transmission.as_ref().map(|transmission| transmission.ends),
            arrival: self.flight.front().map(|first| first.arrives),
        }
    }

    /// Changes the properties; what waits keeps waiting, in its order.
    pub(crate) fn configure(&mut self, now: Time, config: LinkConfig) {
        if config.rate != self.config.rate {
            let pacer = Pacer::new(&config.rate);
            if let Some(transmission) = &mut self.transmission {
                transmission.ends = self.pacer.resume(now, transmission.ends, &pacer);
            }
            self.pacer = pacer;
        }
        if config.queue != self.config.queue {
            let entries = self.queue.drain();
            let random = RandomStream::new(self.seed, &format!("link/{}/queue", self.name));
            self.queue = queue::build(&config.queue, constant(&config.rate), random);
            self.queue.restore(entries);
        }
        self.loss.set_law(config.loss.clone());
        self.jitter.set_law(config.jitter.clone());
        self.uniform = is_uniform(&config);
        self.config = config;
        if self.transmission.is_none() {
            self.transmit_next(now);
        }
    }

    /// Takes the link out of service: all that is on it is lost.
    pub(crate) fn take_down(&mut self) {
        self.up = false;
        let waiting = self.queue.drain().into_iter().map(|entry| entry.packet);
        let sending = self.transmission.take().map(|transmission| transmission.packet);
        let flying = self.flight.drain(..).map(|flight| flight.packet);
        let lost = sending.into_iter().chain(waiting).chain(flying);
        self.verdicts.dropped.extend(lost.map(|packet| (packet, DropReason::LinkDown)));
    }

    /// Packets inside: waiting, in transmission, in flight.
    pub(crate) fn holds(&self) -> u64 {
        let flying: u64 = self.flight.iter().map(|flight| u64::from(flight.packet.count)).sum();
        self.queue.packets() as u64 + u64::from(self.transmission.is_some()) + flying
    }

    /// The queue's length; forgets the peak.
    pub(crate) fn take_queue_level(&mut self) -> QueueLevel {
        let (packets, bytes) = (self.queue.packets() as u64, self.queue.bytes());
        let level = QueueLevel { packets, bytes, ..self.peak };
        let peak_delay = base::Span::ZERO;
        self.peak =
            QueueLevel { packets, bytes, peak_packets: packets, peak_bytes: bytes, peak_delay };
        level
    }

    fn count_offered(&mut self, packet: &Packet<B>) {
        self.stats.offered_packets += u64::from(packet.count);
        self.stats.offered_bytes += self.wire_bytes(packet);
    }

    fn count_sent(&mut self, packet: &Packet<B>) {
        self.stats.sent_packets += u64::from(packet.count);
        self.stats.sent_bytes += self.wire_bytes(packet);
    }

    fn count_delivered(&mut self, packet: &Packet<B>) {
        self.stats.delivered_packets += u64::from(packet.count);
        self.stats.delivered_bytes += self.wire_bytes(packet);
    }

    /// Moves what the queue decided into the counters; the packets stay for the caller.
    pub(crate) fn settle(&mut self) {
        for (packet, reason) in &self.verdicts.dropped {
            self.stats.drops[reason.index()] += u64::from(packet.count);
        }
        self.stats.marked += std::mem::take(&mut self.verdicts.marked);
        debug_assert!(
            self.verdicts.dropped.iter().all(|(p, _)| p.ecn != Ecn::Marked || p.count == 1)
        );
    }
}

/// Whether nothing on the link treats segments one by one.
fn is_uniform(config: &LinkConfig) -> bool {
    Pacer::new(&config.rate).is_unlimited()
        && !matches!(config.queue.discipline, Discipline::Policer { .. })
        && config.loss == crate::config::Loss::None
        && config.jitter.is_none()
        && config.reorder.is_none()
        && !config.duplicate.is_positive()
        && !config.corrupt.is_positive()
}

fn constant(rate: &Rate) -> Option<base::Bandwidth> {
    match rate {
        Rate::Constant(rate) => Some(*rate),
        Rate::Unlimited | Rate::Trace(_) => None,
    }
}
