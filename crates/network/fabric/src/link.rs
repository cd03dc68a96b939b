//! One direction of a link: queue discipline → serialisation → loss → propagation with jitter →
//! duplication and corruption, always in this order.
//!
//! The transmitter is lazy: no event marks the end of a transmission unless it is watched. Before a
//! link is read, it [settles](Link::settle) the transmissions that have ended, each at its own
//! time, so that a packet needs one event per link: its arrival.

use std::collections::VecDeque;

use base::{Histogram, IfaceId, RandomStream, Span, Time};
use queue::{DropReason, Ecn, Queued, Slab, Slot, Verdicts, Waiting};

use crate::config::{Discipline, LinkConfig, QueueLimit, Rate};
use crate::jitter::JitterProcess;
use crate::loss::LossProcess;
use crate::pace::Pacer;
use crate::packet::Packet;
use crate::stats::{LinkStats, QueueLevel};

/// A packet in flight to the far end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub(crate) arrives: Time,
    pub(crate) slot: Slot,
    /// Wire bytes of all its segments.
    size: u32,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    ends: Time,
    slot: Slot,
    size: u32,
}

/// Random effects on packets, on links that have any.
struct Impairments {
    loss: LossProcess,
    jitter: JitterProcess,
    reorder: RandomStream,
    duplicate: RandomStream,
    corrupt: RandomStream,
}

pub(crate) struct Link {
    pub(crate) up: bool,
    /// Whether the transmitter's actions are reported at once, for a watched interface or a mirror.
    /// The transmitter is not lazy then.
    pub(crate) observed: bool,
    /// Whether packets at its sending end are copied.
    pub(crate) watched: bool,
    /// Whether drops of watched packets are reported at once.
    pub(crate) is_prompt: bool,
    /// Whether the link treats all segments of a super-packet equally.
    uniform: bool,
    /// MTU in layer-3 bytes; 0 means unlimited.
    pub(crate) mtu: u32,
    /// Bytes that a packet adds to layer 3: those of the network, or of a trace.
    overhead: u32,
    network_overhead: u32,
    delay: Span,
    /// Lead time: packets are delivered this long before their arrival, or as soon as
    /// they are in flight.
    pub(crate) lead: Span,
    /// The valid event in the event queue for this link; others are obsolete.
    pub(crate) scheduled: Option<Time>,
    transmission: Option<Transmission>,
    flight: VecDeque<InFlight>,
    /// Latest arrival of a packet that was not reordered.
    last_arrival: Time,
    pacer: Pacer,
    queue: Waiting,
    impairments: Option<Box<Impairments>>,
    pub(crate) stats: LinkStats,
    peak: QueueLevel,
    /// Queueing delays of sent packets (ns); allocated with the first packet, since most links of a
    /// large network carry none.
    pub(crate) waits: Option<Box<Histogram>>,
    pub(crate) verdicts: Verdicts,
    /// Copies of packets that left the transmitter and match a mirror.
    pub(crate) mirrored: Vec<Slot>,
    /// Mirror sessions on this direction, as a bit mask.
    pub(crate) mirrors: u64,
    /// The interface that sends into it.
    pub(crate) from: IfaceId,
    pub(crate) config: Box<LinkConfig>,
    name: Box<str>,
    seed: u64,
}

impl Link {
    /// `name` (such as `a-b/up`) is the key of the random streams.
    pub(crate) fn new(
        from: IfaceId,
        name: &str,
        config: LinkConfig,
        overhead: u32,
        seed: u64,
    ) -> Self {
        let mut link = Self {
            up: true,
            observed: false,
            watched: false,
            is_prompt: false,
            uniform: is_uniform(&config),
            mtu: config.mtu.count() as u32,
            overhead: config.rate.overhead(overhead),
            network_overhead: overhead,
            delay: config.delay,
            lead: Span::ZERO,
            scheduled: None,
            transmission: None,
            flight: VecDeque::new(),
            last_arrival: Time::ZERO,
            pacer: Pacer::new(&config.rate),
            queue: Waiting::new(&config.queue, constant(&config.rate), || queue_rng(seed, name)),
            impairments: None,
            stats: LinkStats::default(),
            peak: QueueLevel::default(),
            waits: None,
            verdicts: Verdicts::default(),
            mirrored: Vec::new(),
            mirrors: 0,
            from,
            config: Box::new(config),
            name: name.into(),
            seed,
        };
        link.prepare_impairments();
        link
    }

    /// Creates the random processes that the configuration needs. Existing ones stay, so that their
    /// streams continue when a lab disables and enables loss.
    fn prepare_impairments(&mut self) {
        let config = &self.config;
        if let Some(impairments) = &mut self.impairments {
            impairments.loss.set_law(config.loss.clone());
            impairments.jitter.set_law(config.jitter.clone());
        } else if is_impaired(config) {
            let stream = |part| RandomStream::new(self.seed, &format!("link/{}/{part}", self.name));
            self.impairments = Some(Box::new(Impairments {
                loss: LossProcess::new(config.loss.clone(), stream("loss")),
                jitter: JitterProcess::new(config.jitter.clone(), stream("jitter")),
                reorder: stream("reorder"),
                duplicate: stream("duplicate"),
                corrupt: stream("corrupt"),
            }));
        }
    }

    /// Whether its watchers or mirrors need each of its actions at once.
    pub(crate) const fn reports_at_once(&self) -> bool {
        self.watched && self.is_prompt || self.mirrors != 0
    }

    /// Whether a super-packet may cross without being split. A link that has just become unlimited
    /// first completes its transmission.
    fn passes_whole(&self) -> bool {
        self.uniform && self.transmission.is_none()
    }

    /// Whether packets cross this link at once and unchanged, so that they need no event.
    pub(crate) fn is_transparent(&self) -> bool {
        self.passes_whole() && !self.delay.is_positive() && self.flight.is_empty()
    }

    fn wire_bytes<B: Clone>(&self, packet: &Packet<B>) -> u64 {
        packet.bytes() + u64::from(self.overhead) * u64::from(packet.count)
    }

    /// Counts a packet that crosses a transparent link.
    pub(crate) fn pass<B: Clone>(&mut self, packet: &Packet<B>) {
        let (count, bytes) = (u64::from(packet.count), self.wire_bytes(packet));
        self.count_offered(count, bytes);
        self.count_sent(count, bytes);
        self.count_delivered(count, bytes);
    }

    /// Accepts a packet at the sending end.
    pub(crate) fn enqueue<B: Clone>(&mut self, now: Time, slot: Slot, slab: &mut Slab<Packet<B>>) {
        self.settle(now, slab);
        let packet = slab.get(slot);
        if packet.count > 1 || self.uniform || !self.up {
            return self.enqueue_large(now, slot, slab);
        }
        let entry = self.entry(now, slot, packet);
        self.enqueue_segment(now, entry, slab);
    }

    fn entry<B>(&self, since: Time, slot: Slot, packet: &Packet<B>) -> Queued {
        let size = packet.last + self.overhead;
        Queued { since, slot, size, flow: packet.flow, dscp: packet.dscp, ecn: packet.ecn }
    }

    /// Accepts super-packets, and single packets on links that treat them equally.
    fn enqueue_large<B: Clone>(&mut self, now: Time, slot: Slot, slab: &mut Slab<Packet<B>>) {
        let packet = slab.get(slot);
        let (count, bytes) = (u64::from(packet.count), self.wire_bytes(packet));
        if !self.up {
            self.count_offered(count, bytes);
            self.verdicts.dropped.push((slot, DropReason::LinkDown));
            return;
        }
        if self.passes_whole() {
            self.count_offered(count, bytes);
            self.count_sent(count, bytes);
            self.copy_to_mirrors(slot, slab);
            let arrives = (now + self.delay).max(self.last_arrival);
            self.last_arrival = arrives;
            self.fly(InFlight { arrives, slot, size: bytes as u32 });
            return;
        }
        while let Some(head) = slab.get_mut(slot).split_first() {
            let head = slab.put(head);
            let entry = self.entry(now, head, slab.get(head));
            self.enqueue_segment(now, entry, slab);
        }
        let entry = self.entry(now, slot, slab.get(slot));
        self.enqueue_segment(now, entry, slab);
    }

    fn enqueue_segment<B: Clone>(&mut self, now: Time, entry: Queued, slab: &mut Slab<Packet<B>>) {
        self.count_offered(1, u64::from(entry.size));
        if self.transmission.is_none() && self.queue.is_empty_list() {
            // It would leave the list at once.
            if !self.transmit(now, entry, slab) {
                self.transmit_next(now, slab);
            }
            return;
        }
        // A packet that an idle transmitter accepts at once is never queued, but disciplines that
        // judge arrivals (RED, policers) must process it.
        self.queue.enqueue(now, entry, &mut self.verdicts);
        if self.transmission.is_none() {
            self.transmit_next(now, slab);
        }
        let (packets, bytes) = (self.queue.packets() as u64, self.queue.bytes());
        self.peak.peak_packets = self.peak.peak_packets.max(packets);
        self.peak.peak_bytes = self.peak.peak_bytes.max(bytes);
    }

    fn transmit_next<B: Clone>(&mut self, now: Time, slab: &mut Slab<Packet<B>>) {
        while let Some(entry) = self.queue.dequeue(now, &mut self.verdicts) {
            if self.transmit(now, entry, slab) {
                return;
            }
        }
    }

    /// Starts a transmission; returns whether it takes any time.
    fn transmit<B: Clone>(&mut self, now: Time, entry: Queued, slab: &mut Slab<Packet<B>>) -> bool {
        let waited = now.since(entry.since);
        self.waits.get_or_insert_default().record(waited.as_nanos());
        self.peak.peak_delay = self.peak.peak_delay.max(waited);
        if entry.ecn == Ecn::Marked {
            slab.get_mut(entry.slot).ecn = Ecn::Marked;
        }
        let ends = self.pacer.finish(now, entry.size);
        let transmission = Transmission { ends, slot: entry.slot, size: entry.size };
        if ends > now {
            self.transmission = Some(transmission);
            return true;
        }
        self.leave(transmission, slab);
        false
    }

    /// Completes the transmissions that end up to `now`, each at its own time.
    pub(crate) fn settle<B: Clone>(&mut self, now: Time, slab: &mut Slab<Packet<B>>) {
        while let Some(transmission) = self.transmission
            && transmission.ends <= now
        {
            self.transmission = None;
            self.leave(transmission, slab);
            self.transmit_next(transmission.ends, slab);
        }
    }

    /// After the transmission of a packet: loss, propagation, duplication, corruption.
    fn leave<B: Clone>(&mut self, transmission: Transmission, slab: &mut Slab<Packet<B>>) {
        let Transmission { ends, slot, size } = transmission;
        self.count_sent(1, u64::from(size));
        if self.mirrors != 0 {
            self.copy_to_mirrors(slot, slab);
        }
        if self.impairments.is_some() {
            return self.leave_impaired(transmission, slab);
        }
        let arrives = (ends + self.delay).max(self.last_arrival);
        self.last_arrival = arrives;
        self.flight.push_back(InFlight { arrives, slot, size });
    }

    fn leave_impaired<B: Clone>(&mut self, transmission: Transmission, slab: &mut Slab<Packet<B>>) {
        let Transmission { ends, slot, size } = transmission;
        let Some(impairments) = self.impairments.as_deref_mut() else { return };
        if impairments.loss.takes() {
            self.verdicts.dropped.push((slot, DropReason::Loss));
            return;
        }
        let mut arrives = ends + impairments.jitter.apply(self.delay);
        if self.config.jitter.as_ref().is_none_or(|jitter| jitter.keep_order) {
            arrives = arrives.max(self.last_arrival);
        }
        let held_back = match &self.config.reorder {
            Some(law) if impairments.reorder.chance(law.probability) => Some(law.by),
            _ => None,
        };
        match held_back {
            Some(by) => {
                self.stats.reordered += 1;
                arrives += by;
            }
            None => self.last_arrival = self.last_arrival.max(arrives),
        }
        let duplicated = impairments.duplicate.chance(self.config.duplicate);
        let flip = impairments.corrupt.chance(self.config.corrupt);
        let flip = flip.then(|| impairments.corrupt.bits() as u32);
        if duplicated {
            self.stats.duplicated += 1;
            let slot = slab.copy(slot);
            self.fly(InFlight { arrives, slot, size });
        }
        if flip.is_some() {
            self.stats.corrupted += 1;
            slab.get_mut(slot).corrupt = flip;
        }
        self.fly(InFlight { arrives, slot, size });
    }

    /// Inserts a packet by its arrival time, searching from the end: most packets are the last.
    fn fly(&mut self, new: InFlight) {
        let later = |other: &&InFlight| other.arrives > new.arrives;
        let behind = self.flight.iter().rev().take_while(later).count();
        let at = self.flight.len() - behind;
        self.flight.insert(at, new);
    }

    fn copy_to_mirrors<B: Clone>(&mut self, slot: Slot, slab: &mut Slab<Packet<B>>) {
        if self.mirrors & slab.get(slot).mirrors != 0 {
            self.mirrored.push(slab.copy(slot));
        }
    }

    /// The next packet that arrives by `now`, or within the lead time after it,
    /// and its arrival time.
    pub(crate) fn arrive<B: Clone>(
        &mut self,
        now: Time,
        slab: &Slab<Packet<B>>,
    ) -> Option<(Time, Slot)> {
        if self.flight.front()?.arrives > now + self.lead {
            return None;
        }
        let InFlight { arrives, slot, size } = self.flight.pop_front()?;
        self.count_delivered(u64::from(slab.get(slot).count), u64::from(size));
        Some((arrives.max(now), slot))
    }

    /// The link's next deadline.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let early = |arrives: Time| {
            Time::from_nanos(arrives.as_nanos().saturating_sub(self.lead.as_nanos()))
        };
        let arrival = self.flight.front().map(|first| early(first.arrives));
        let Some(transmission) = &self.transmission else { return arrival };
        let lazy = !self.observed && self.impairments.is_none();
        let end = transmission.ends;
        let end =
            if lazy { early((end + self.delay).max(self.last_arrival)).max(end) } else { end };
        Some(arrival.map_or(end, |arrival| arrival.min(end)))
    }

    /// Changes the properties; queued packets stay queued, in their order.
    pub(crate) fn configure<B: Clone>(
        &mut self,
        now: Time,
        config: LinkConfig,
        slab: &mut Slab<Packet<B>>,
    ) {
        self.settle(now, slab);
        self.pace(now, &config.rate);
        if config.queue != self.config.queue {
            let entries = self.queue.drain();
            let rng = || queue_rng(self.seed, &self.name);
            self.queue = Waiting::new(&config.queue, constant(&config.rate), rng);
            self.queue.restore(entries);
        }
        self.uniform = is_uniform(&config);
        self.mtu = config.mtu.count() as u32;
        self.delay = config.delay;
        *self.config = config;
        self.prepare_impairments();
        self.settle(now, slab);
        if self.transmission.is_none() {
            self.transmit_next(now, slab);
        }
    }

    /// Changes the rate of a drop-tail link and the limit of its queue.
    pub(crate) fn set_rate<B: Clone>(
        &mut self,
        now: Time,
        rate: Rate,
        limit: QueueLimit,
        slab: &mut Slab<Packet<B>>,
    ) {
        self.settle(now, slab);
        self.queue.set_limit(limit);
        self.config.queue.limit = limit;
        if rate != self.config.rate {
            self.pace(now, &rate);
            self.config.rate = rate;
            self.uniform = is_uniform(&self.config);
            self.settle(now, slab);
        }
    }

    /// Continues at `rate`, including the packet in transmission.
    fn pace(&mut self, now: Time, rate: &Rate) {
        if *rate == self.config.rate {
            return;
        }
        let pacer = Pacer::new(rate);
        if let Some(transmission) = &mut self.transmission {
            transmission.ends = self.pacer.resume(now, transmission.ends, &pacer);
        }
        self.pacer = pacer;
        self.overhead = rate.overhead(self.network_overhead);
    }

    /// Number of queued packets.
    pub(crate) fn backlog(&self) -> usize {
        self.queue.packets()
    }

    /// Whether no packet is queued, in transmission or in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.transmission.is_none() && self.flight.is_empty() && self.queue.packets() == 0
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.transmission.is_some()
    }

    /// Takes the link down: all packets on it are lost.
    pub(crate) fn take_down<B: Clone>(&mut self, now: Time, slab: &mut Slab<Packet<B>>) {
        self.settle(now, slab);
        self.up = false;
        let waiting = self.queue.drain().into_iter().map(|entry| entry.slot);
        let sending = self.transmission.take().map(|transmission| transmission.slot);
        let flying = self.flight.drain(..).map(|flight| flight.slot);
        let lost = sending.into_iter().chain(waiting).chain(flying);
        self.verdicts.dropped.extend(lost.map(|slot| (slot, DropReason::LinkDown)));
    }

    /// Number of packets on the link: queued, in transmission, in flight.
    pub(crate) fn holds<B: Clone>(&self, slab: &Slab<Packet<B>>) -> u64 {
        let count = |flight: &InFlight| u64::from(slab.get(flight.slot).count);
        let flying: u64 = self.flight.iter().map(count).sum();
        self.queue.packets() as u64 + u64::from(self.transmission.is_some()) + flying
    }

    /// Memory of queued packets and of those in flight in bytes, without the packets themselves.
    pub(crate) fn memory(&self) -> u64 {
        let flying = self.flight.capacity() * size_of::<InFlight>();
        (flying + self.queue.packets() * size_of::<Queued>()) as u64
    }

    /// The queue length and its peak since the last reset.
    pub(crate) fn queue_level(&self) -> QueueLevel {
        let (packets, bytes) = (self.queue.packets() as u64, self.queue.bytes());
        QueueLevel { packets, bytes, ..self.peak }
    }

    /// The queue length; resets the peak.
    pub(crate) fn take_queue_level(&mut self) -> QueueLevel {
        let level = self.queue_level();
        let QueueLevel { packets, bytes, .. } = level;
        let peak_delay = Span::ZERO;
        self.peak =
            QueueLevel { packets, bytes, peak_packets: packets, peak_bytes: bytes, peak_delay };
        level
    }

    /// Adds the verdicts' counts to the counters; the caller handles the packets.
    pub(crate) fn count_verdicts<B>(&mut self, slab: &Slab<Packet<B>>) {
        for (slot, reason) in &self.verdicts.dropped {
            self.stats.drops[reason.index()] += u64::from(slab.get(*slot).count);
        }
        self.stats.marked += std::mem::take(&mut self.verdicts.marked);
    }

    fn count_offered(&mut self, packets: u64, bytes: u64) {
        self.stats.offered_packets += packets;
        self.stats.offered_bytes += bytes;
    }

    fn count_sent(&mut self, packets: u64, bytes: u64) {
        self.stats.sent_packets += packets;
        self.stats.sent_bytes += bytes;
    }

    fn count_delivered(&mut self, packets: u64, bytes: u64) {
        self.stats.delivered_packets += packets;
        self.stats.delivered_bytes += bytes;
    }
}

/// Whether the link has random effects.
fn is_impaired(config: &LinkConfig) -> bool {
    config.loss != crate::config::Loss::None
        || config.jitter.is_some()
        || config.reorder.is_some()
        || config.duplicate.is_positive()
        || config.corrupt.is_positive()
}

/// Whether the link treats all segments of a super-packet equally.
fn is_uniform(config: &LinkConfig) -> bool {
    Pacer::new(&config.rate).is_unlimited()
        && !matches!(config.queue.discipline, Discipline::Policer { .. })
        && !is_impaired(config)
}

fn queue_rng(seed: u64, link: &str) -> RandomStream {
    RandomStream::new(seed, &format!("link/{link}/queue"))
}

fn constant(rate: &Rate) -> Option<base::Bandwidth> {
    match rate {
        Rate::Constant(rate) => Some(*rate),
        Rate::Unlimited | Rate::Trace(_) => None,
    }
}
