//! Links, and the datagrams that fill them whatever happens.
//!
//! Datagrams do not give way: a link serves them first, and elastic traffic shares what they
//! leave, [`ELASTIC_SHARE`] of the capacity at least (TCP never quite starves). What exceeds the
//! capacity waits until the queue is full, then is lost in proportion. Downstream, an overloaded
//! link passes each flow its proportion of the capacity. While a queue drains, what it still
//! holds is not seen downstream; nothing is lost by that, for arrivals are counted from what was
//! sent and what was lost.

use base::{Span, Time};
use fabric::{Discipline, LinkConfig, LinkStats, QueueLevel, QueueLimit};
use sharing::{LinkKey, Solver};

use super::backlog::{Backlog, Swing};
use super::delays::Delays;
use super::route::Wire;

/// Of a link full of datagrams, elastic traffic gets this part.
pub(super) const ELASTIC_SHARE: f64 = 0.01;

/// Relative change of a rate below which nothing downstream is told.
const NEGLIGIBLE: f64 = 1e-9;

/// What a queue does to elastic traffic that fills its link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Standing {
    /// It fills to the limit, in bits.
    Buffer(f64),
    /// The discipline keeps it near this many seconds of the link.
    Delay(f64),
    /// Or near this many bits.
    Level(f64),
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) wire: Wire,
    pub(super) up: bool,
    pub(super) standing: Standing,
    /// Bits that may wait.
    limit: f64,
    /// Wire bits of a full packet.
    pub(super) packet: f64,
    /// Datagram flows: number and hop.
    members: Vec<(u32, u32)>,
    /// bit/s of datagrams that arrive, and their number a second.
    input: f64,
    arriving: f64,
    /// Bits of datagrams that wait.
    queue: f64,
    full: bool,
    /// The survival that the members know of.
    told: f64,
    since: Time,
    /// Tells the present forecast of a full or empty queue from earlier ones.
    forecast: u32,
    /// Of elastic traffic.
    pub(super) backlog: Backlog,
    pub(super) delays: Delays,
    /// Packets of elastic traffic whose delay was counted.
    counted: f64,
    sums: Sums,
}

/// What a link direction has done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    datagram_bits: f64,
    datagrams: f64,
    lost_bits: f64,
    lost: f64,
    /// Elastic bits that the solver does not know: ends of bursts.
    burst_bits: f64,
    peak_bits: f64,
    peak_delay: f64,
}

/// A flow of datagrams.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) links: Box<[LinkKey]>,
    /// Its position in each link's list.
    places: Vec<u32>,
    /// bit/s that arrive at each link.
    inputs: Vec<f64>,
    /// Wire bits of a datagram.
    packet: f64,
    /// The part that survives, now.
    survival: f64,
    rate: f64,
    /// Wire bits so far.
    sent: f64,
    received: f64,
    since: Time,
    routed: bool,
}

/// A queue of datagrams that will be full or empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forecast {
    pub(super) at: Time,
    pub(super) link: u32,
    pub(super) number: u32,
}

/// All link directions and datagram flows.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub(super) table: Vec<Link>,
    pub(super) datagrams: Vec<Stream>,
    /// Links whose datagrams changed.
    dirty: Vec<u32>,
    queued: Vec<bool>,
    /// To be scheduled by the owner.
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
            Discipline::CoDel { target, .. } | Discipline::FqCoDel { target, .. } => {
                Standing::Delay(target.as_secs_f64())
            }
            Discipline::Red { min, max, .. } => {
                Standing::Level((min.count() + max.count()) as f64 * 4.0)
            }
            Discipline::Policer { .. } => Standing::Level(0.0),
            _ => Standing::Buffer(limit),
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
            told: -1.0,
            since: Time::ZERO,
            forecast: 0,
            backlog: Backlog::default(),
            delays: Delays::default(),
            counted: 0.0,
            sums: Sums::default(),
        }
    }

    /// Takes the properties of another one, and keeps what is in it.
    pub(super) fn adopt(&mut self, new: &Self) {
        self.wire = new.wire;
        self.standing = new.standing;
        self.limit = new.limit;
        self.packet = new.packet;
    }

    /// bit/s while in service.
    pub(super) fn capacity(&self) -> f64 {
        if self.up { self.wire.capacity } else { 0.0 }
    }

    /// bit/s that datagrams leave.
    fn left(&self) -> f64 {
        let capacity = self.capacity();
        if capacity.is_finite() {
            (capacity - self.input).max(capacity * ELASTIC_SHARE)
        } else {
            capacity
        }
    }

    /// The part of arriving datagrams that is lost now.
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

    /// The part of arriving datagrams that is not lost, now.
    fn survival(&self) -> f64 {
        (1.0 - self.loss()) * (1.0 - self.wire.loss)
    }

    /// The part of the input that leaves at once.
    fn passes(&self) -> f64 {
        if self.input > self.capacity() { self.capacity() / self.input } else { 1.0 }
    }

    /// Seconds that a datagram waits now.
    pub(super) fn wait(&self) -> f64 {
        if self.queue > 0.0 && self.up { self.queue / self.wire.capacity } else { 0.0 }
    }

    /// Brings queue and counters to `now`.
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

    /// When the queue will be full or empty; sets whether it is full now.
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
        // Rounded up, so that the queue is full or empty when the time has come.
        let at = now + Span::from_nanos((seconds * 1e9).min(1e18) as u64 + 1);
        Some(Forecast { at, link, number: self.forecast })
    }
}

/// What a way adds up to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// Propagation, seconds.
    pub(super) delay: f64,
    /// Transmission of one packet at all links, seconds.
    pub(super) transmission: f64,
    /// The lowest capacity, bit/s.
    pub(super) narrowest: f64,
    /// The (first) link that has it.
    pub(super) slowest: Option<LinkKey>,
    /// The part that is lost at random.
    pub(super) loss: f64,
}

impl Links {
    /// What packets of `bits` meet on a way.
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

    /// Replaces a link's properties, or takes it out of service or back.
    pub(super) fn configure(&mut self, now: Time, link: u32, change: impl FnOnce(&mut Link)) {
        let entry = &mut self.table[link as usize];
        entry.settle(now);
        change(entry);
        entry.queue = entry.queue.min(if entry.up { entry.limit } else { 0.0 });
        self.mark(link);
    }

    /// Brings what waits at a link to `now`, at which so many elastic bits have been carried, and
    /// counts how long they waited. It goes on as `swing` tells, or drains with so many bit/s.
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

    /// A flow of datagrams of `packet` wire bits, silent for now.
    pub(super) fn add_stream(&mut self, packet: f64) -> u32 {
        self.datagrams.push(Stream { packet, survival: 1.0, ..Stream::default() });
        self.datagrams.len() as u32 - 1
    }

    /// Gives a flow of datagrams another way; without one all is lost.
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

    /// bit/s on the wire that a flow of datagrams sends from now on.
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
        // What rounding leaves.
        if entry.input < 1e-6 {
            (entry.input, entry.arriving) = (0.0, 0.0);
        }
        self.mark(link);
    }

    /// Works out what changed rates mean downstream, tells the solver what is left for elastic
    /// traffic, and leaves forecasts. Bounded: routes that chase each other in a circle are
    /// followed a few times round.
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

    /// Tells those who cross a link if its loss is another one now.
    fn update_survival(&mut self, now: Time, link: u32) {
        let entry = &mut self.table[link as usize];
        let survival = entry.survival();
        if std::mem::replace(&mut entry.told, survival).to_bits() == survival.to_bits() {
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

    /// A forecast has come true, unless it was superseded: the bits that wait now.
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

    /// Adds elastic bits that the solver did not see.
    pub(super) fn add_burst(&mut self, links: &[LinkKey], bits: f64) {
        for link in links {
            self.table[link.0 as usize].sums.burst_bits += bits;
        }
    }

    /// Wire bits that a flow of datagrams has sent, and that have arrived or will.
    pub(super) fn progress(&mut self, now: Time, id: u32) -> (f64, f64) {
        let stream = &mut self.datagrams[id as usize];
        stream.settle(now);
        (stream.sent, stream.received)
    }

    /// Counters of one direction as of `now`, up to which it was followed. `elastic`: bits that
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

    /// Packets sent in one direction, as of when its datagrams last changed.
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
