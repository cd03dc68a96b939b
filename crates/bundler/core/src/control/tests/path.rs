//! One bottleneck, and the sendboxes that use it: a test bench for the congestion controllers.
//!
//! Time advances in steps of 250 µs. The bytes that a source sends in one step are a chunk of whole
//! packets, which waits in one drop-tail queue and leaves it at the exact time that the capacity
//! allows. The bottleneck is next to the sources; half of the round trip is after it, the other
//! half is the return path.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, RandomStream, Span, Time};

use super::requests::{mean_size, size};
use crate::control::{CongestionControl, Observation};

/// Length of a step in seconds.
const STEP: f64 = 250e-6;
const PACKET: f64 = 1_500.0;
/// Steps between ticks of the control loop.
const TICK: u64 = 40;
/// Minimum rate of a sendbox in bit/s.
const FLOOR: f64 = 1e6;

/// A quantity that changes at certain times: (seconds, value), the first at 0.
pub(super) type Steps = Vec<(f64, f64)>;

fn at(steps: &Steps, now: f64) -> f64 {
    steps.iter().take_while(|step| step.0 <= now).last().expect("the first is at 0").1
}

/// Traffic of a sendbox's site.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offer {
    /// The site always has packets to send.
    Backlog,
    /// This rate for `on` seconds, nothing for `off` seconds, repeatedly.
    Bursts { rate: f64, on: f64, off: f64 },
    /// Requests at random times with the sizes of the Bundler paper and this mean rate in bit/s.
    /// All bytes of a request arrive at once.
    Requests { load: f64 },
}

/// Traffic outside of any bundle.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cross {
    /// A constant rate in bits per second.
    Constant(f64),
    /// One window that grows by a packet per round trip and halves at a loss (Reno).
    Elastic,
}

/// Parameters of a sendbox.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) law: Box<dyn CongestionControl>,
    /// Rate in bit/s before the controller starts, and at its start.
    pub(super) start: f64,
    /// Start of the bundle in seconds.
    pub(super) from: f64,
    /// Additional round trip of the bundle in seconds.
    pub(super) farther: f64,
    pub(super) offer: Offer,
}

impl Bundle {
    pub(super) fn new(law: Box<dyn CongestionControl>, start: f64) -> Self {
        Self { law, start, from: 0.0, farther: 0.0, offer: Offer::Backlog }
    }
}

/// Parameters of the test bench.
#[derive(Debug)]
pub(super) struct Path {
    /// Bit/s.
    pub(super) capacity: Steps,
    /// Round trip in seconds, without queues.
    pub(super) rtt: Steps,
    /// Additional delay of feedback in seconds: a queue on the return path.
    pub(super) reverse: Steps,
    /// Maximum additional delay per packet after the bottleneck in seconds; the order is preserved.
    pub(super) jitter: f64,
    /// Capacity of the bottleneck's queue in bytes.
    pub(super) buffer: f64,
    /// (from, to, what) in seconds.
    pub(super) cross: Vec<(f64, f64, Cross)>,
    /// Whether the base of the delays follows a change of the route within a round trip. Otherwise
    /// it is always the minimum of 10 s.
    pub(super) rebased: bool,
}

impl Path {
    /// A path of `mbits` Mbit/s and `millis` ms, with a buffer of two bandwidth-delay products (at
    /// least 60 packets).
    pub(super) fn new(mbits: f64, millis: f64) -> Self {
        Self {
            capacity: vec![(0.0, mbits * 1e6)],
            rtt: vec![(0.0, millis / 1e3)],
            reverse: vec![(0.0, 0.0)],
            jitter: 0.0,
            buffer: (2.0 * mbits * millis * 125.0).max(60.0 * PACKET),
            cross: Vec::new(),
            rebased: true,
        }
    }

    /// Runs for `seconds`.
    pub(super) fn run(&self, bundles: Vec<Bundle>, seconds: f64) -> Trace {
        let mut world = World::new(self, bundles);
        let steps = (seconds / STEP) as u64;
        for step in 0..steps {
            world.step(step);
        }
        world.trace
    }
}

/// State of the test bench at one tick of the control loop.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Time in seconds since the start.
    pub(super) at: f64,
    /// Queueing delay at the bottleneck in ms.
    pub(super) queue: f64,
    pub(super) capacity: f64,
    /// The rate set by each bundle, in bits per second.
    pub(super) rates: Vec<f64>,
    /// Total dropped bytes.
    pub(super) dropped: f64,
    /// Total delivered bytes of each source (bundles first).
    pub(super) delivered: Vec<f64>,
}

/// The samples of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace(pub(super) Vec<Sample>);

impl Trace {
    fn between(&self, from: f64, to: f64) -> &[Sample] {
        let start = self.0.partition_point(|sample| sample.at < from);
        let end = self.0.partition_point(|sample| sample.at < to);
        &self.0[start..end]
    }

    /// Share of the capacity that all sources together used.
    pub(super) fn utilisation(&self, from: f64, to: f64) -> f64 {
        let samples = self.between(from, to);
        let sum = |sample: &Sample| sample.delivered.iter().sum::<f64>();
        let got = sum(samples.last().unwrap()) - sum(&samples[0]);
        let could: f64 = samples[1..].iter().map(|sample| sample.capacity * 0.01 / 8.0).sum();
        got / could
    }

    /// Rate of one source in bit/s.
    pub(super) fn rate(&self, source: usize, from: f64, to: f64) -> f64 {
        let samples = self.between(from, to);
        let (first, last) = (&samples[0], samples.last().unwrap());
        (last.delivered[source] - first.delivered[source]) * 8.0 / (last.at - first.at)
    }

    /// Share of the sent bytes that were dropped.
    pub(super) fn loss(&self, from: f64, to: f64) -> f64 {
        let samples = self.between(from, to);
        let (first, last) = (&samples[0], samples.last().unwrap());
        let delivered = |sample: &Sample| sample.delivered.iter().sum::<f64>();
        let dropped = last.dropped - first.dropped;
        dropped / (dropped + delivered(last) - delivered(first))
    }

    /// Minimum and maximum rate set by the first bundle.
    pub(super) fn rates(&self, from: f64, to: f64) -> (f64, f64) {
        let rates = self.between(from, to).iter().map(|sample| sample.rates[0]);
        rates.fold((f64::INFINITY, 0.0), |(least, most), rate| (rate.min(least), rate.max(most)))
    }

    /// Mean queue in ms.
    pub(super) fn queue(&self, from: f64, to: f64) -> f64 {
        let samples = self.between(from, to);
        samples.iter().map(|sample| sample.queue).sum::<f64>() / samples.len() as f64
    }

    /// Maximum queue in ms.
    pub(super) fn longest(&self, from: f64, to: f64) -> f64 {
        self.between(from, to).iter().map(|sample| sample.queue).fold(0.0, f64::max)
    }

    /// Seconds after `from` until `holds` is true for 250 ms (start and end) for the first time.
    pub(super) fn first(&self, from: f64, holds: impl Fn(&Self, f64, f64) -> bool) -> f64 {
        let end = self.0.last().unwrap().at;
        let mut time = from + 0.25;
        while time <= end {
            if holds(self, time - 0.25, time) {
                return time - from;
            }
            time += 0.01;
        }
        f64::INFINITY
    }
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    source: usize,
    bytes: f64,
    sent: f64,
    arrived: f64,
    /// Total bytes of the source including this chunk.
    total: f64,
    held_back: bool,
}

/// A report of the receivebox about one epoch.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sent: f64,
    received: f64,
    bytes_sent: f64,
    bytes_received: f64,
    held_back: bool,
    /// Time at which the sendbox receives the report.
    reported_at: f64,
}

/// Minimum over the last 10 s.
#[derive(Debug, Default)]
struct WindowedMin(VecDeque<(f64, f64)>);

impl WindowedMin {
    fn push(&mut self, now: f64, value: f64) {
        while self.0.back().is_some_and(|last| last.1 >= value) {
            self.0.pop_back();
        }
        self.0.push_back((now, value));
        while self.0.front().is_some_and(|first| first.0 < now - 10.0) {
            self.0.pop_front();
        }
    }

    fn get(&self) -> f64 {
        self.0.front().map_or(0.0, |first| first.1)
    }
}

#[derive(Debug)]
struct Sender {
    bundle: Bundle,
    rate: f64,
    started: bool,
    credit: f64,
    backlog: f64,
    sent: f64,
    received: f64,
    /// Reports in flight.
    in_flight: VecDeque<Mark>,
    /// Reports received in the last few RTTs.
    reports: VecDeque<Mark>,
    least_rtt: WindowedMin,
    least_one_way: WindowedMin,
    /// Negated receive rates: the maximum rate is the capacity.
    capacity: WindowedMin,
    fresh: bool,
    next_request: f64,
    random: RandomStream,
}

#[derive(Debug, Default)]
struct Window {
    bytes: f64,
    /// Times of detected losses, oldest first.
    losses: VecDeque<f64>,
    /// ACKs in flight: (arrival time, bytes).
    acks: VecDeque<(f64, f64)>,
    credit: f64,
    deaf_until: f64,
}

#[derive(Debug)]
struct World<'a> {
    path: &'a Path,
    now: f64,
    senders: Vec<Sender>,
    windows: Vec<Window>,
    queue: VecDeque<Chunk>,
    queued: f64,
    dropped: f64,
    /// Time at which the bottleneck finishes its last transmission.
    free: f64,
    delivered: Vec<f64>,
    random: RandomStream,
    trace: Trace,
}

impl<'a> World<'a> {
    fn new(path: &'a Path, bundles: Vec<Bundle>) -> Self {
        let senders: Vec<_> = bundles.into_iter().map(Sender::new).collect();
        let windows = path.cross.iter().map(|_| Window::default()).collect();
        Self {
            path,
            now: 0.0,
            delivered: vec![0.0; senders.len() + path.cross.len()],
            senders,
            windows,
            queue: VecDeque::new(),
            queued: 0.0,
            dropped: 0.0,
            free: 0.0,
            random: RandomStream::new(1, "jitter"),
            trace: Trace::default(),
        }
    }

    fn step(&mut self, step: u64) {
        self.now = step as f64 * STEP;
        self.serve();
        for index in 0..self.senders.len() {
            if let Some(chunk) = self.senders[index].send(index, self.now) {
                self.enqueue(chunk);
            }
        }
        for index in 0..self.windows.len() {
            self.cross(index);
        }
        if step.is_multiple_of(TICK) {
            for sender in &mut self.senders {
                sender.tick(self.now, self.path);
            }
            let capacity = at(&self.path.capacity, self.now);
            self.trace.0.push(Sample {
                at: self.now,
                queue: self.queued * 8e3 / capacity,
                capacity,
                dropped: self.dropped,
                rates: self.senders.iter().map(|sender| sender.rate).collect(),
                delivered: self.delivered.clone(),
            });
        }
    }

    /// Serves all chunks that were sent by now.
    fn serve(&mut self) {
        let capacity = at(&self.path.capacity, self.now);
        let after = at(&self.path.rtt, self.now) / 2.0;
        let back = after + at(&self.path.reverse, self.now);
        while let Some(&chunk) = self.queue.front() {
            let done = self.free.max(chunk.arrived) + chunk.bytes * 8.0 / capacity;
            if done > self.now {
                break;
            }
            self.queue.pop_front();
            self.queued -= chunk.bytes;
            self.free = done;
            self.delivered[chunk.source] += chunk.bytes;
            let after = after + self.path.jitter * self.random.unit();
            match self.senders.get_mut(chunk.source) {
                Some(sender) => {
                    let far = sender.bundle.farther / 2.0;
                    sender.delivered(&chunk, done + after + far, back + far);
                }
                None => self.windows[chunk.source - self.senders.len()]
                    .acks
                    .push_back((done + after + back, chunk.bytes)),
            }
        }
    }

    /// Returns false if (part of) the chunk was dropped.
    fn enqueue(&mut self, mut chunk: Chunk) -> bool {
        let room = ((self.path.buffer - self.queued) / PACKET).floor() * PACKET;
        let whole = chunk.bytes <= room;
        self.dropped += (chunk.bytes - room).max(0.0);
        chunk.bytes = chunk.bytes.min(room);
        if chunk.bytes > 0.0 {
            self.queued += chunk.bytes;
            self.queue.push_back(chunk);
        }
        whole
    }

    fn cross(&mut self, index: usize) {
        let (from, to, kind) = self.path.cross[index];
        if self.now < from || self.now >= to {
            return;
        }
        let rtt = at(&self.path.rtt, self.now)
            + at(&self.path.reverse, self.now)
            + self.queued * 8.0 / at(&self.path.capacity, self.now);
        let window = &mut self.windows[index];
        let rate = match kind {
            Cross::Constant(rate) => rate / 8.0,
            Cross::Elastic => window.rate(self.now, rtt),
        };
        window.credit += rate * STEP;
        let bytes = (window.credit / PACKET).floor() * PACKET;
        window.credit -= bytes;
        let chunk = Chunk {
            source: self.senders.len() + index,
            bytes,
            sent: self.now,
            arrived: self.now,
            total: 0.0,
            held_back: false,
        };
        if bytes > 0.0 && !self.enqueue(chunk) {
            self.windows[index].losses.push_back(self.now + rtt);
        }
    }
}

impl Window {
    /// Rate in bytes per second, paced over a round trip.
    fn rate(&mut self, now: f64, rtt: f64) -> f64 {
        self.bytes = self.bytes.max(2.0 * PACKET);
        while let Some(&(_, bytes)) = self.acks.front().filter(|ack| ack.0 <= now) {
            self.acks.pop_front();
            self.bytes += PACKET * bytes / self.bytes;
        }
        while self.losses.front().is_some_and(|at| *at <= now) {
            self.losses.pop_front();
            if now >= self.deaf_until {
                self.bytes /= 2.0;
                self.deaf_until = now + rtt;
            }
        }
        self.bytes / rtt
    }
}

impl Sender {
    fn new(bundle: Bundle) -> Self {
        Self {
            rate: bundle.start,
            bundle,
            started: false,
            credit: 0.0,
            backlog: 0.0,
            sent: 0.0,
            received: 0.0,
            in_flight: VecDeque::new(),
            reports: VecDeque::new(),
            least_rtt: WindowedMin::default(),
            least_one_way: WindowedMin::default(),
            capacity: WindowedMin::default(),
            fresh: false,
            next_request: 0.0,
            random: RandomStream::new(1, "requests"),
        }
    }

    fn send(&mut self, source: usize, now: f64) -> Option<Chunk> {
        if now < self.bundle.from {
            return None;
        }
        match self.bundle.offer {
            Offer::Backlog => self.backlog = 1e9,
            Offer::Bursts { rate, on, off } => {
                if (now - self.bundle.from) % (on + off) < on {
                    // At most 0.5 s of the bundle's traffic queues at the sendbox.
                    self.backlog = (self.backlog + rate / 8.0 * STEP).min(self.rate / 16.0);
                }
            }
            Offer::Requests { load } => {
                while self.next_request <= now {
                    self.backlog += size(self.random.unit());
                    let gap = -(1.0 - self.random.unit()).ln();
                    self.next_request += gap * mean_size() * 8.0 / load;
                }
            }
        }
        let burst = (self.rate / 8.0 * 1e-3).max(2.0 * PACKET);
        self.credit = (self.credit + self.rate / 8.0 * STEP).min(burst);
        let bytes = (self.credit.min(self.backlog) / PACKET).floor() * PACKET;
        if bytes <= 0.0 {
            return None;
        }
        self.credit -= bytes;
        self.backlog -= bytes;
        self.sent += bytes;
        let held_back = self.backlog >= PACKET;
        Some(Chunk { source, bytes, sent: now, arrived: now, total: self.sent, held_back })
    }

    fn delivered(&mut self, chunk: &Chunk, received: f64, back: f64) {
        self.received += chunk.bytes;
        let spacing = (self.least_rtt.get() / 4.0).min(0.01);
        let mark = Mark {
            sent: chunk.sent,
            received,
            bytes_sent: chunk.total,
            bytes_received: self.received,
            held_back: chunk.held_back,
            reported_at: received + back,
        };
        if let Some(last) = self.in_flight.back().or(self.reports.back()) {
            if mark.sent < last.sent + spacing {
                return;
            }
            // A route that becomes shorter does not reorder feedback.
            let mark = Mark {
                received: mark.received.max(last.received),
                reported_at: mark.reported_at.max(last.reported_at),
                ..mark
            };
            self.in_flight.push_back(mark);
        } else {
            self.in_flight.push_back(mark);
        }
    }

    /// Processes received reports.
    fn listen(&mut self, now: f64, path: &Path) {
        self.fresh = false;
        if path.rebased && path.rtt.iter().any(|step| step.0 > 0.0 && step.0 <= now) {
            let changed = path.rtt.iter().rfind(|step| step.0 <= now).expect("the first is at 0");
            if now < changed.0 + changed.1 + 0.05 {
                self.least_rtt = WindowedMin::default();
                self.least_one_way = WindowedMin::default();
            }
        }
        while let Some(&mark) = self.in_flight.front().filter(|mark| mark.reported_at <= now) {
            self.in_flight.pop_front();
            self.fresh = true;
            self.least_rtt.push(now, mark.reported_at - mark.sent);
            self.least_one_way.push(now, mark.received - mark.sent);
            self.reports.push_back(mark);
        }
        while self.reports.front().is_some_and(|mark| mark.reported_at < now - 3.0) {
            self.reports.pop_front();
        }
    }

    fn observation(&mut self, now: f64) -> Option<Observation> {
        let last = *self.reports.back()?;
        let rtt = last.reported_at - last.sent;
        let start = self.reports.partition_point(|mark| mark.sent < last.sent - rtt.max(0.01));
        let start = start.min(self.reports.len().checked_sub(2)?);
        let first = self.reports[start];
        let count = (self.reports.len() - start) as f64;
        let window = || self.reports.range(start..);
        let sent = last.bytes_sent - first.bytes_sent;
        let received = last.bytes_received - first.bytes_received;
        let receive_rate = received * 8.0 / (last.received - first.received).max(1e-6);
        let held = window().filter(|mark| mark.held_back).count() as f64;
        self.capacity.push(now, -receive_rate);
        let rate = |bits: f64| Bandwidth::from_bits_per_sec(bits as u64);
        let span = |seconds: f64| Span::from_nanos((seconds.max(0.0) * 1e9) as u64);
        Some(Observation {
            now: Time::from_nanos((now * 1e9) as u64),
            elapsed: Span::from_millis(10),
            rtt: span(window().map(|mark| mark.reported_at - mark.sent).sum::<f64>() / count),
            min_rtt: span(self.least_rtt.get()),
            queueing: span(last.received - last.sent - self.least_one_way.get()),
            weight: 1,
            standing: span(last.received - last.sent - self.least_one_way.get()),
            noise: Span::ZERO,
            send_rate: rate(sent * 8.0 / (last.sent - first.sent).max(1e-6)),
            receive_rate: rate(receive_rate),
            lost: Bytes::new((sent - received).max(0.0) as u64),
            capacity: rate(-self.capacity.get()),
            backlog: Bytes::new(self.backlog as u64),
            limited: held >= count / 2.0,
            fresh: self.fresh,
        })
    }

    fn tick(&mut self, now: f64, path: &Path) {
        self.listen(now, path);
        let Some(seen) = self.observation(now) else { return };
        if !self.started {
            self.started = true;
            let start = Bandwidth::from_bits_per_sec(self.rate as u64);
            self.bundle.law.start(start, &seen);
        }
        let rate = self.bundle.law.on_tick(&seen).bits_per_sec() as f64;
        self.rate = rate.max(FLOOR);
    }
}
