//! Links, and the inelastic datagram traffic on them.
//!
//! Datagram flows do not reduce their rates: a link serves them first, and elastic traffic shares
//! the remaining capacity, but at least [`ELASTIC_SHARE`] of the total, since TCP does not starve
//! completely. Datagrams above the capacity are queued until the queue is full, then lost in
//! proportion. Downstream of an overloaded link, each flow has its proportion of the capacity.
//! While a queue drains, downstream links do not see the queued datagrams. This affects no loss
//! counter, because arrivals are counted from sent and lost datagrams.

use base::{Span, Time};
use fabric::{Discipline, LinkConfig, LinkStats, QueueLevel, QueueLimit};
use sharing::{LinkKey, Solver};

use super::backlog::{Backlog, Swing};
use super::delays::Delays;
use super::route::Wire;

/// Share of elastic traffic on a link that is full of datagrams.
pub(super) const ELASTIC_SHARE: f64 = 0.01;

/// Relative rate changes below this are not propagated downstream.
const NEGLIGIBLE: f64 = 1e-9;

/// The persistent queue of elastic traffic that fills the link, by queue discipline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StandingQueue {
    /// A buffer that fills to this many bits.
    Buffer(f64),
    /// A queue that the discipline keeps near this delay, in seconds.
    Delay(f64),
    /// A queue that the discipline keeps near this many bits.
    Level(f64),
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) up: bool,
    pub(super) standing: StandingQueue,
    /// Maximum queue in bits.
    limit: f64,
    /// Wire bits of a full packet.
    pub(super) packet: f64,
    /// Datagram flows: number and hop index.
    members: Vec<(u32, u32)>,
    /// Arriving datagrams: bit/s and packets/s.
    input: f64,
    arriving: f64,
    /// Queued bits of datagrams.
    queue: f64,
    full: bool,
    /// The survival rate that was last reported to `members`.
    reported: f64,
    since: Time,
    /// Number of the valid forecast of a full or empty queue; earlier forecasts are ignored.
    forecast: u32,
    /// Queue of elastic traffic.
    pub(super) backlog: Backlog,
    pub(super) delays: Delays,
    /// Packets of elastic traffic whose delay has been counted.
    counted: f64,
    sums: Sums,
}

/// Totals of a directed link.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    datagram_bits: f64,
    datagrams: f64,
    lost_bits: f64,
    lost: f64,
    /// Elastic bits that the solver does not count: ends of bursts.
    burst_bits: f64,
    peak_bits: f64,
    peak_delay: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) links: Box<[LinkKey]>,
    /// Its index in each link's `members`.
    places: Vec<u32>,
    /// Arriving bit/s at each link.
    inputs: Vec<f64>,
    /// Wire bits of a datagram.
    packet: f64,
    /// Current survival rate.
    survival: f64,
    rate: f64,
    /// Wire bits sent.
    sent: f64,
    received: f64,
    since: Time,
    routed: bool,
}

/// A predicted time at which a queue of datagrams becomes full or empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forecast {
    pub(super) at: Time,
    pub(super) link: u32,
    pub(super) number: u32,
}

/// All directed links and datagram flows.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) table: Vec<Link>,
    pub(super) datagrams: Vec<Stream>,
    /// Links whose datagram traffic has changed.
    dirty: Vec<u32>,
    queued: Vec<bool>,
    /// Forecasts for the owner to schedule.
    pub(super) forecasts: Vec<Forecast>,
}

impl Link {
    pub(super) fn new(config: &LinkConfig, up: bool, overhead: u64) -> Self {
        let mtu = match config.mtu.count() {
            0 => 1500,
            mtu => mtu,
        };
        let packet = (mtu + overhead) as f64 * 8.0;
        let limit = match config.queue.limit {
            QueueLimit::Packets(packets) => f64::from(packets) * packet,
            QueueLimit::Bytes(bytes) => bytes.count() as f64 * 8.0,
        };
        let standing = match &config.queue.discipline {
            Discipline::CoDel { target, .. }
            | Discipline::FqCoDel { target, .. }
            | Discipline::Pie { target, .. }
            | Discipline::FqPie { target, .. }
            | Discipline::DualPi2 { target, .. } => StandingQueue::Delay(target.as_secs_f64()),
            Discipline::Red { min, max, .. } => {
                StandingQueue::Level((min.count() + max.count()) as f64 * 4.0)
            }
            Discipline::Policer { .. } => StandingQueue::Level(0.0),
            _ => StandingQueue::Buffer(limit),
        };
        let mut wire = Wire::new(config);
        if let Discipline::Policer { rate, .. } = &config.queue.discipline {
            wire.capacity = wire.capacity.min(rate.bits_per_sec() as f64);
        }
        let unbuffered = matches!(config.queue.discipline, Discipline::Policer { .. });
        Self {
            wire,
            up,
            standing,
            limit: if unbuffered { 0.0 } else { limit },
            packet,
            members: Vec::new(),
            input: 0.0,
            arriving: 0.0,
            queue: 0.0,
            full: false,
            reported: -1.0,
            since: Time::ZERO,
            forecast: 0,
            backlog: Backlog::default(),
            delays: Delays::default(),
            counted: 0.0,
            sums: Sums::default(),
        }
    }

    /// Takes over the properties of `new` and keeps its own queues.
    pub(super) fn adopt(&mut self, new: &Self) {
        self.wire = new.wire;
        self.standing = new.standing;
        self.limit = new.limit;
        self.packet = new.packet;
    }

    /// Capacity in bit/s; 0 while the link is down.
    pub(super) fn capacity(&self) -> f64 {
        if self.up { self.wire.capacity } else { 0.0 }
    }

    /// Egress rate of datagrams, bit/s.
    fn left(&self) -> f64 {
        let capacity = self.capacity();
        if capacity.is_finite() {
            (capacity - self.input).max(capacity * ELASTIC_SHARE)
        } else {
            capacity
        }
    }

    /// Current loss rate of arriving datagrams.
    fn loss(&self) -> f64 {
        if !self.up {
            return 1.0;
        }
        if self.full && self.input > self.capacity() {
            1.0 - self.capacity() / self.input
        } else {
            0.0
        }
    }

    /// Current survival rate of arriving datagrams.
    fn survival(&self) -> f64 {
        (1.0 - self.loss()) * (1.0 - self.wire.loss)
    }

    /// The part of arriving datagrams that leaves immediately.
    fn passes(&self) -> f64 {
        if self.input > self.capacity() { self.capacity() / self.input } else { 1.0 }
    }

    /// Current queueing delay of a datagram, in seconds.
    pub(super) fn wait(&self) -> f64 {
        if self.queue > 0.0 && self.up { self.queue / self.wire.capacity } else { 0.0 }
    }

    /// Updates queue and counters to `now`.
    fn settle(&mut self, now: Time) {
        let seconds = now.since(self.since).as_secs_f64();
        self.since = now;
        if seconds <= 0.0 || (self.input <= 0.0 && self.queue <= 0.0) {
            return;
        }
        let (capacity, arrived) = (self.capacity(), self.input * seconds);
        if capacity.is_infinite() {
            self.sums.datagram_bits += arrived;
            self.sums.datagrams += self.arriving * seconds;
            self.delays.add([0.0; 2], self.arriving * seconds);
            return;
        }
        let before = self.queue;
        let backlog = before + arrived - capacity * seconds;
        let limit = if self.up { self.limit } else { 0.0 };
        self.queue = backlog.clamp(0.0, limit);
        let lost = (backlog - limit).max(0.0).min(arrived);
        let sent = (before + arrived - lost - self.queue).max(0.0);
        self.sums.datagram_bits += sent;
        let size = match self.input {
            0.0 => self.packet,
            input => input / self.arriving.max(1e-12),
        };
        self.sums.datagrams += sent / size;
        self.sums.lost += lost / size;
        if sent > 0.0 {
            let waits = [before, self.queue].map(|bits| (bits + self.backlog.level()) / capacity);
            self.delays.add(waits, sent / size);
        }
        self.sums.lost_bits += lost;
        self.sums.peak_bits = self.sums.peak_bits.max(self.queue).max(before);
        self.sums.peak_delay = self.sums.peak_delay.max(self.wait());
    }

    /// Predicts when the queue will be full or empty; updates whether it is full now.
    fn foresee(&mut self, now: Time, link: u32) -> Option<Forecast> {
        self.forecast = self.forecast.wrapping_add(1);
        let capacity = self.capacity();
        if capacity.is_infinite() {
            self.full = false;
            return None;
        }
        let growth = self.input - capacity;
        let room = self.limit - self.queue;
        self.full = growth > 0.0 && room <= self.limit * NEGLIGIBLE;
        let seconds = if growth > 0.0 && !self.full {
            room / growth
        } else if growth < 0.0 && self.queue > 0.0 {
            self.queue / -growth
        } else {
            return None;
        };
        // Rounded up, so that the queue is certainly full or empty at that time.
        let at = now + Span::from_nanos((seconds * 1e9).min(1e18) as u64 + 1);
        Some(Forecast { at, link, number: self.forecast })
    }
}

/// Properties of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// Propagation delay in seconds.
    pub(super) delay: f64,
    /// Transmission time of one packet, summed over all links, in seconds.
    pub(super) transmission: f64,
    /// The lowest capacity, bit/s.
    pub(super) narrowest: f64,
    /// The first link with the lowest capacity.
    pub(super) slowest: Option<LinkKey>,
    /// Random loss rate.
    pub(super) loss: f64,
}

impl Links {
    /// Properties of a path for packets of `bits`.
    pub(super) fn measure(&self, links: &[LinkKey], bits: f64) -> Measure {
        let mut sum = Measure {
            delay: 0.0,
            transmission: 0.0,
            narrowest: f64::INFINITY,
            slowest: None,
            loss: 0.0,
        };
        let mut survival = 1.0;
        for link in links {
            let wire = &self.table[link.0 as usize].wire;
            sum.delay += wire.delay;
            sum.transmission += bits / wire.capacity;
            if wire.capacity < sum.narrowest {
                (sum.narrowest, sum.slowest) = (wire.capacity, Some(*link));
            }
            survival *= 1.0 - wire.loss;
        }
        sum.loss = 1.0 - survival;
        sum
    }

    pub(super) fn add(&mut self, link: Link) {
        self.table.push(link);
        self.queued.push(false);
    }

    fn mark(&mut self, link: u32) {
        if !std::mem::replace(&mut self.queued[link as usize], true) {
            self.dirty.push(link);
        }
    }

    /// Changes a link's properties, or its up/down state.
    pub(super) fn configure(&mut self, now: Time, link: u32, change: impl FnOnce(&mut Link)) {
        let entry = &mut self.table[link as usize];
        entry.settle(now);
        change(entry);
        entry.queue = entry.queue.min(if entry.up { entry.limit } else { 0.0 });
        self.mark(link);
    }

    /// Updates a link's queue to `now`, when it has carried `carried` elastic bits in total, and
    /// counts their queueing delays. From then on the queue follows `swing`, or drains at `spare`
    /// bit/s.
    pub(super) fn follow(
        &mut self,
        now: Time,
        link: u32,
        carried: f64,
        (swing, spare): (Option<Swing>, f64),
    ) {
        let entry = &mut self.table[link as usize];
        entry.settle(now);
        let packets = (carried + entry.sums.burst_bits).max(0.0) / entry.packet;
        let new = (packets - entry.counted).max(0.0);
        entry.counted += new;
        let seconds = now.since(entry.backlog.since()).as_secs_f64();
        let (capacity, datagrams) = (entry.wire.capacity, entry.queue);
        let mut peak = entry.sums.peak_bits;
        let Link { backlog, delays, .. } = entry;
        backlog.settle(now, |piece| {
            let part = new * piece.seconds * piece.times / seconds;
            delays.add([piece.from, piece.to].map(|bits| (bits + datagrams) / capacity), part);
            peak = peak.max(piece.from + datagrams).max(piece.to + datagrams);
        });
        backlog.set(swing, spare);
        entry.sums.peak_bits = peak;
    }

    /// Adds a datagram flow with packets of `packet` wire bits and, for now, a rate of 0.
    pub(super) fn add_stream(&mut self, packet: f64) -> u32 {
        self.datagrams.push(Stream { packet, survival: 1.0, ..Stream::default() });
        self.datagrams.len() as u32 - 1
    }

    /// Changes the path of a datagram flow; without a path all datagrams are lost.
    pub(super) fn reroute(&mut self, now: Time, id: u32, links: Option<Box<[LinkKey]>>) {
        let rate = self.datagrams[id as usize].rate;
        self.set_rate(now, id, 0.0);
        self.leave(id);
        self.datagrams[id as usize].routed = links.is_some();
        self.datagrams[id as usize].links = links.unwrap_or_default();
        self.enter(id);
        self.datagrams[id as usize].survival = self.survival(id);
        self.set_rate(now, id, rate);
    }

    fn enter(&mut self, id: u32) {
        let stream = &mut self.datagrams[id as usize];
        stream.inputs = vec![0.0; stream.links.len()];
        stream.places.clear();
        for (hop, link) in stream.links.iter().enumerate() {
            let members = &mut self.table[link.0 as usize].members;
            stream.places.push(members.len() as u32);
            members.push((id, hop as u32));
        }
    }

    fn leave(&mut self, id: u32) {
        for hop in 0..self.datagrams[id as usize].links.len() {
            let stream = &self.datagrams[id as usize];
            let (link, place) = (stream.links[hop], stream.places[hop] as usize);
            let members = &mut self.table[link.0 as usize].members;
            members.swap_remove(place);
            if let Some((other, hop)) = members.get(place).copied() {
                self.datagrams[other as usize].places[hop as usize] = place as u32;
            }
        }
    }

    /// Sets the rate of a datagram flow, in wire bit/s.
    pub(super) fn set_rate(&mut self, now: Time, id: u32, rate: f64) {
        let stream = &mut self.datagrams[id as usize];
        stream.settle(now);
        stream.rate = rate;
        if let Some(first) = stream.links.first().copied() {
            let before = std::mem::replace(&mut stream.inputs[0], rate);
            let change = (rate - before, (rate - before) / stream.packet);
            self.change_input(now, first.0, change);
        }
    }

    fn change_input(&mut self, now: Time, link: u32, (bits, packets): (f64, f64)) {
        let entry = &mut self.table[link as usize];
        entry.settle(now);
        entry.input += bits;
        entry.arriving += packets;
        // The rest is a rounding error.
        if entry.input < 1e-6 {
            (entry.input, entry.arriving) = (0.0, 0.0);
        }
        self.mark(link);
    }

    /// Propagates changed rates downstream, updates the capacity left for elastic traffic in the
    /// solver, and leaves forecasts. Bounded: cyclic dependencies between paths are followed for a
    /// few rounds only.
    pub(super) fn propagate(&mut self, now: Time, solver: &mut Solver) {
        let mut steps = 64 * (self.dirty.len() + self.datagrams.len()) + 1024;
        let mut next = 0;
        while next < self.dirty.len() && steps > 0 {
            steps -= 1;
            let link = self.dirty[next];
            next += 1;
            self.queued[link as usize] = false;
            self.pass_on(now, link);
            let entry = &mut self.table[link as usize];
            entry.settle(now);
            self.forecasts.extend(entry.foresee(now, link));
            solver.set_capacity(LinkKey(link), entry.left());
            self.update_survival(now, link);
        }
        for link in self.dirty.drain(..) {
            self.queued[link as usize] = false;
        }
    }

    fn pass_on(&mut self, now: Time, link: u32) {
        let passes = self.table[link as usize].passes();
        for at in 0..self.table[link as usize].members.len() {
            let (id, hop) = self.table[link as usize].members[at];
            let hop = hop as usize;
            let stream = &mut self.datagrams[id as usize];
            if hop + 1 >= stream.links.len() {
                continue;
            }
            let out = stream.inputs[hop] * passes;
            let before = stream.inputs[hop + 1];
            if (out - before).abs() > NEGLIGIBLE * out.max(before) {
                stream.inputs[hop + 1] = out;
                let change = (out - before, (out - before) / stream.packet);
                let next = stream.links[hop + 1].0;
                self.change_input(now, next, change);
            }
        }
    }

    /// The part of a flow's datagrams that arrives.
    fn survival(&self, id: u32) -> f64 {
        let stream = &self.datagrams[id as usize];
        let links = stream.links.iter().map(|key| &self.table[key.0 as usize]);
        let all: f64 = links.map(Link::survival).product();
        if stream.routed { all } else { 0.0 }
    }

    /// Updates the flows that cross a link if its loss rate has changed.
    fn update_survival(&mut self, now: Time, link: u32) {
        let entry = &mut self.table[link as usize];
        let survival = entry.survival();
        if std::mem::replace(&mut entry.reported, survival).to_bits() == survival.to_bits() {
            return;
        }
        for at in 0..self.table[link as usize].members.len() {
            let (id, _) = self.table[link as usize].members[at];
            let survival = self.survival(id);
            let stream = &mut self.datagrams[id as usize];
            stream.settle(now);
            stream.survival = survival;
        }
    }

    /// Handles a forecast unless a later one replaced it; returns the queued bits.
    pub(super) fn on_forecast(&mut self, now: Time, link: u32, number: u32) -> Option<f64> {
        let entry = &mut self.table[link as usize];
        if entry.forecast != number {
            return None;
        }
        entry.settle(now);
        entry.queue = if entry.input > entry.capacity() { entry.limit } else { 0.0 };
        let queue = entry.queue;
        self.mark(link);
        Some(queue)
    }

    /// Adds elastic bits that the solver does not count.
    pub(super) fn add_burst(&mut self, links: &[LinkKey], bits: f64) {
        for link in links {
            self.table[link.0 as usize].sums.burst_bits += bits;
        }
    }

    /// Wire bits that a datagram flow has sent, and those that have arrived or will arrive.
    pub(super) fn progress(&mut self, now: Time, id: u32) -> (f64, f64) {
        let stream = &mut self.datagrams[id as usize];
        stream.settle(now);
        (stream.sent, stream.received)
    }

    /// Counters of one direction at `now`, to which the link was updated. `elastic`: the bits that
    /// the solver counts there.
    pub(super) fn counters(
        &mut self,
        now: Time,
        link: u32,
        elastic: f64,
    ) -> (LinkStats, QueueLevel) {
        let entry = &mut self.table[link as usize];
        entry.settle(now);
        let sums = &mut entry.sums;
        let elastic = (elastic + sums.burst_bits).max(0.0);
        let packets = |datagrams: f64, bits: f64| (datagrams + bits / entry.packet).round() as u64;
        let bytes = |bits: f64| (bits / 8.0).round() as u64;
        let mut stats = LinkStats {
            sent_packets: packets(sums.datagrams, elastic),
            sent_bytes: bytes(sums.datagram_bits + elastic),
            ..LinkStats::default()
        };
        let survives = 1.0 - entry.wire.loss;
        stats.delivered_packets = (stats.sent_packets as f64 * survives).round() as u64;
        stats.delivered_bytes = (stats.sent_bytes as f64 * survives).round() as u64;
        let lost = sums.lost.round() as u64;
        let reason =
            if entry.up { fabric::DropReason::QueueFull } else { fabric::DropReason::LinkDown };
        stats.drops[reason.index()] = lost;
        stats.drops[fabric::DropReason::Loss.index()] =
            stats.sent_packets - stats.delivered_packets;
        stats.offered_packets = stats.sent_packets + lost;
        stats.offered_bytes = stats.sent_bytes + bytes(sums.lost_bits);
        let waiting = entry.queue + entry.backlog.level();
        let queue = waiting.min(entry.limit.max(entry.queue));
        let peak = sums.peak_bits.max(queue);
        let capacity = entry.wire.capacity;
        let level = QueueLevel {
            packets: (queue / entry.packet).round() as u64,
            bytes: bytes(queue),
            peak_packets: (peak / entry.packet).round() as u64,
            peak_bytes: bytes(peak),
            peak_delay: Span::from_nanos((peak / capacity * 1e9) as u64),
        };
        sums.peak_bits = queue;
        sums.peak_delay = 0.0;
        (stats, level)
    }

    /// Packets sent in one direction up to the last change of its datagram traffic.
    pub(super) fn packets(&self, link: u32, elastic: f64) -> f64 {
        let entry = &self.table[link as usize];
        entry.sums.datagrams + (elastic + entry.sums.burst_bits).max(0.0) / entry.packet
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> u64 {
        let datagrams = self.datagrams.len() * (size_of::<Stream>() + 200);
        (self.table.capacity() * size_of::<Link>() + datagrams) as u64
    }
}

impl Stream {
    /// Wire bits of a datagram.
    pub(super) fn packet(&self) -> f64 {
        self.packet
    }

    fn settle(&mut self, now: Time) {
        let bits = self.rate * now.since(self.since).as_secs_f64();
        self.sent += bits;
        self.received += bits * self.survival;
        self.since = now;
    }
}
