//! A test bench: bundles and cross traffic at one bottleneck, in steps of a millisecond.

use std::collections::VecDeque;

use base::{Bandwidth, RandomStream, Span, Time};

use super::{CrossSample, Detector};
use crate::constants::{Elasticity, Stuck};

pub(super) fn detector(seed: u64) -> Detector {
    Detector::new(seed, &Elasticity::default(), &Stuck::default())
}

const PACKET: f64 = 1500.0;

/// Traffic model of a flow.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Constant bit rate, as a share of the capacity.
    Constant(f64),
    /// Packets of a Poisson process.
    Poisson(f64),
    /// ACK-clocked with Reno's or Cubic's window.
    Window { cubic: bool },
}

/// A flow: part of a bundle or cross traffic.
#[derive(Clone, Debug)]
struct Flow {
    source: Source,
    bundle: Option<usize>,
    rtt: u64,
    remaining: f64,
    window: f64,
    threshold: f64,
    in_flight: f64,
    /// Cubic's `W_max` in packets and the start of its epoch.
    top: f64,
    epoch: u64,
    recovered: u64,
    credit: f64,
    /// (time of the feedback, received bytes, lost bytes)
    feedback: VecDeque<(u64, f64, f64)>,
}

impl Flow {
    fn new(source: Source, rtt: u64, bundle: Option<usize>) -> Self {
        Self {
            source,
            bundle,
            rtt,
            remaining: f64::MAX,
            window: 10.0 * PACKET,
            threshold: f64::MAX,
            in_flight: 0.0,
            top: 0.0,
            epoch: 0,
            recovered: 0,
            credit: 0.0,
            feedback: VecDeque::new(),
        }
    }

    fn learn(&mut self, now: u64, queueing: u64) {
        while let Some(&(_, acked, lost)) = self.feedback.front().filter(|(at, ..)| *at <= now) {
            self.feedback.pop_front();
            self.in_flight -= acked + lost;
            if lost > 0.0 && now >= self.recovered {
                let cubic = matches!(self.source, Source::Window { cubic: true });
                self.top = self.window / PACKET;
                self.window = (self.window * if cubic { 0.7 } else { 0.5 }).max(2.0 * PACKET);
                self.threshold = self.window;
                self.epoch = now;
                self.recovered = now + self.rtt + queueing;
            } else if self.window < self.threshold {
                self.window += acked;
            } else if matches!(self.source, Source::Window { cubic: true }) {
                let k = (self.top * 0.3 / 0.4).cbrt();
                let t = (now - self.epoch) as f64 / 1e3;
                let cubic = PACKET * (0.4 * (t - k).powi(3) + self.top);
                let reno = PACKET * (0.7 * self.top + 0.53 * t / (self.rtt as f64 / 1e3));
                let aim = cubic.max(reno).min(1.5 * self.window);
                self.window += ((aim - self.window) * acked / self.window).max(0.0);
            } else {
                self.window += PACKET * acked / self.window;
            }
        }
    }

    /// Bytes that the flow sends in this millisecond; `capacity` in bytes per millisecond.
    fn send(&mut self, capacity: f64, random: &mut RandomStream) -> f64 {
        match self.source {
            Source::Constant(share) => self.credit += share * capacity,
            Source::Poisson(share) => {
                let (mut left, mean) = (1.0, share * capacity / PACKET);
                loop {
                    left += (1.0 - random.unit()).ln() / mean;
                    if left < 0.0 {
                        break;
                    }
                    self.credit += PACKET;
                }
            }
            Source::Window { .. } => {
                self.credit = (self.window - self.in_flight).max(0.0).min(self.remaining);
            }
        }
        let bytes = (self.credit / PACKET).floor() * PACKET;
        self.credit -= bytes;
        self.remaining -= bytes;
        self.in_flight += bytes;
        bytes
    }
}

/// A sample of a bundle's counters.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    sent_at: f64,
    sent: f64,
    received_at: f64,
    received: f64,
    queueing: f64,
    limited: bool,
}

/// A simplified sendbox with its controller.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) detector: Detector,
    /// If false, packets are forwarded at once: the status quo.
    pub(super) paced: bool,
    /// Estimated capacity as a share of the real one.
    pub(super) misjudged: f64,
    rtt: u64,
    /// Bytes per millisecond.
    rate: f64,
    pulsed: f64,
    credit: f64,
    backlog: VecDeque<(usize, f64)>,
    waiting: f64,
    sent: f64,
    received: f64,
    until_mark: f64,
    /// (time of the acknowledgement, sample)
    acks: VecDeque<(u64, Point)>,
    points: VecDeque<Point>,
}

impl Bundle {
    fn tick(&mut self, now: u64, capacity: f64, random: &mut RandomStream) {
        while self.acks.front().is_some_and(|(at, _)| *at <= now) {
            let (_, point) = self.acks.pop_front().unwrap();
            self.points.push_back(point);
        }
        let Some(last) = self.points.back().copied() else { return };
        let back = |span: f64| {
            let mut points = self.points.iter().rev();
            points.find(|point| point.sent_at <= last.sent_at - span).copied()
        };
        let Some(near) = back(25.0) else { return };
        let lag = (self.rtt as f64).max(40.0);
        let far = back(lag).unwrap_or(near);
        while self.points.len() > 400 {
            self.points.pop_front();
        }
        let noise = |random: &mut RandomStream| 0.1 * random.normal();
        let bits = |rate: f64| Bandwidth::from_bits_per_sec((rate * 8e3).max(0.0) as u64);
        let send = (last.sent - near.sent) / (last.sent_at - near.sent_at);
        let arrived = (last.received_at - near.received_at + noise(random)).max(0.1);
        let receive = (last.received - near.received) / arrived;
        let queueing = (last.queueing + noise(random)).max(0.0) / 1e3;
        let rate_bits = self.rate * 8e3;
        let target = (0.004 * (100e6 / rate_bits).sqrt()).min(self.rtt as f64 * 2e-4);
        let target = target.clamp(0.001f64.max(2.0 * PACKET / capacity / 1e3), 0.008);
        let sample = CrossSample {
            at: Time::from_nanos((last.sent_at * 1e6) as u64),
            send_rate: bits(send),
            receive_rate: bits(receive),
            queueing: Span::from_nanos((queueing * 1e9) as u64),
            target: Span::from_nanos((target * 1e9) as u64),
            capacity: bits(capacity * self.misjudged),
            limited: last.limited,
        };
        let time = Time::from_nanos(now * 1_000_000);
        self.detector.observe(time, &sample);
        if self.detector.is_elastic() {
            self.paced = false;
        }
        if queueing < 0.0005 {
            self.rate *= 1.0 + 0.25 * 10.0 / lag;
        } else {
            let share =
                (last.received - far.received) / (last.received_at - far.received_at).max(1.0);
            let pull = (queueing - target) * 1e3 / (3.0 * lag);
            self.rate = share * (1.0 - pull).clamp(0.5, 1.25);
        }
        self.rate = self.rate.clamp(0.02 * capacity, 1.2 * capacity);
        let known = capacity * self.misjudged;
        let share = self.detector.pulse(time, bits(self.rate), bits(known));
        self.pulsed = self.rate + share * known;
    }

    /// Packets sent in this millisecond: (flow, bytes).
    fn send(&mut self) -> Vec<(usize, f64)> {
        if self.paced {
            self.credit = (self.credit + self.pulsed).min(self.pulsed.max(2.0 * PACKET));
        } else {
            self.credit = f64::MAX;
        }
        let mut out = Vec::new();
        while let Some(&(flow, bytes)) = self.backlog.front() {
            if self.credit < PACKET {
                break;
            }
            let part = bytes.min(PACKET);
            self.credit -= part;
            self.waiting -= part;
            out.push((flow, part));
            self.backlog.pop_front();
            if bytes > part {
                self.backlog.push_back((flow, bytes - part));
            }
        }
        out
    }
}

/// Bytes that entered the network queue in one millisecond.
#[derive(Debug)]
struct Batch {
    at: u64,
    parts: Vec<(usize, f64)>,
    bytes: f64,
    marks: Vec<(usize, Point)>,
}

/// Short flows: arrivals per second, with sizes from the workload of the Bundler paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requests {
    pub(super) share: f64,
    pub(super) rtt: u64,
    /// Maximum size in bytes; longer requests are truncated.
    pub(super) longest: f64,
}

/// A bottleneck with bundles and cross traffic.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) now: u64,
    /// Bytes per millisecond.
    capacity: f64,
    buffer: f64,
    queue: VecDeque<Batch>,
    waiting: f64,
    flows: Vec<Flow>,
    pub(super) bundles: Vec<Bundle>,
    pub(super) requests: Option<Requests>,
    random: RandomStream,
    /// Sum over milliseconds of the queueing delay in ms.
    pub(super) queueing: f64,
}

impl Bench {
    /// A drop-tail bottleneck of `mbits` with a buffer of `buffer` ms.
    pub(super) fn new(mbits: u64, buffer: u64, seed: u64) -> Self {
        let capacity = mbits as f64 * 125.0;
        Self {
            now: 0,
            capacity,
            buffer: (buffer as f64 * capacity).max(10.0 * PACKET),
            queue: VecDeque::new(),
            waiting: 0.0,
            flows: Vec::new(),
            bundles: Vec::new(),
            requests: None,
            random: RandomStream::new(seed, "bench"),
            queueing: 0.0,
        }
    }

    /// Adds a bundle of Cubic flows with this initial share of the capacity.
    pub(super) fn bundle(&mut self, flows: usize, rtt: u64, share: f64) -> usize {
        let index = self.bundles.len();
        let rate = share * self.capacity;
        let mut detector = detector(self.random.bits());
        detector.begin(Time::from_nanos(self.now * 1_000_000));
        self.bundles.push(Bundle {
            detector,
            paced: true,
            misjudged: 1.0,
            rtt,
            rate,
            pulsed: rate,
            credit: 0.0,
            backlog: VecDeque::new(),
            waiting: 0.0,
            sent: 0.0,
            received: 0.0,
            until_mark: 0.0,
            acks: VecDeque::new(),
            points: VecDeque::new(),
        });
        for _ in 0..flows {
            self.offer(index, Source::Window { cubic: true }, rtt);
        }
        index
    }

    /// Adds a flow to a bundle.
    pub(super) fn offer(&mut self, bundle: usize, source: Source, rtt: u64) {
        self.flows.push(Flow::new(source, rtt, Some(bundle)));
    }

    /// Adds cross traffic; returns the flow.
    pub(super) fn cross(&mut self, source: Source, rtt: u64) -> usize {
        self.flows.push(Flow::new(source, rtt, None));
        self.flows.len() - 1
    }

    /// Bytes of a bundle that were delivered.
    pub(super) fn received(&self, bundle: usize) -> f64 {
        self.bundles[bundle].received
    }

    /// Runs until `seconds`, and calls `each` at each tick.
    pub(super) fn run(&mut self, seconds: f64, mut each: impl FnMut(f64, &[Bundle])) {
        while self.now < (seconds * 1e3) as u64 {
            self.step();
            if self.now.is_multiple_of(10) {
                each(self.now as f64 / 1e3, &self.bundles);
            }
        }
    }

    fn step(&mut self) {
        let now = self.now;
        self.request();
        let mut parts = Vec::new();
        for id in 0..self.flows.len() {
            let flow = &mut self.flows[id];
            flow.learn(now, (self.waiting / self.capacity) as u64);
            let bytes = flow.send(self.capacity, &mut self.random);
            match flow.bundle {
                _ if bytes == 0.0 => {}
                None => parts.push((id, bytes)),
                Some(bundle) => {
                    let bundle = &mut self.bundles[bundle];
                    if bundle.waiting > 150.0 * self.capacity {
                        flow.feedback.push_back((now + flow.rtt, 0.0, bytes));
                    } else {
                        bundle.waiting += bytes;
                        bundle.backlog.push_back((id, bytes));
                    }
                }
            }
        }
        let mut marks = Vec::new();
        for (index, bundle) in self.bundles.iter_mut().enumerate() {
            if now.is_multiple_of(10) {
                bundle.tick(now, self.capacity, &mut self.random);
            }
            let out = bundle.send();
            bundle.sent += out.iter().map(|(_, bytes)| bytes).sum::<f64>();
            bundle.until_mark -= 1.0;
            if !out.is_empty() && bundle.until_mark <= 0.0 {
                let mean = (bundle.rtt as f64 / 4.0).min(10.0);
                bundle.until_mark += -mean * (1.0 - self.random.unit()).ln();
                let (sent_at, limited) = (now as f64 + 1.0, bundle.waiting > PACKET);
                let sent = bundle.sent;
                marks.push((index, Point { sent_at, sent, limited, ..Point::default() }));
            }
            parts.extend(out);
        }
        self.enqueue(parts, marks);
        self.serve();
        self.queueing += self.waiting / self.capacity;
        self.now += 1;
    }

    fn enqueue(&mut self, mut parts: Vec<(usize, f64)>, marks: Vec<(usize, Point)>) {
        let mut bytes: f64 = parts.iter().map(|(_, bytes)| bytes).sum();
        // Excess bytes are dropped from one flow after the other.
        while self.waiting + bytes > self.buffer {
            let (flow, part) = parts.swap_remove(self.random.below(parts.len() as u64) as usize);
            let lost = part.min(self.waiting + bytes - self.buffer).max(PACKET).min(part);
            bytes -= lost;
            if part > lost {
                parts.push((flow, part - lost));
            }
            let flow = &mut self.flows[flow];
            flow.feedback.push_back((self.now + flow.rtt, 0.0, lost));
        }
        self.waiting += bytes;
        self.queue.push_back(Batch { at: self.now, parts, bytes, marks });
    }

    fn serve(&mut self) {
        let now = self.now;
        let mut left = self.capacity;
        while let Some(batch) = self.queue.front_mut() {
            let take = batch.bytes.min(left);
            let share = if batch.bytes > 0.0 { take / batch.bytes } else { 1.0 };
            for (id, bytes) in &mut batch.parts {
                let part = *bytes * share;
                *bytes -= part;
                let flow = &mut self.flows[*id];
                flow.feedback.push_back((now + flow.rtt, part, 0.0));
                if let Some(bundle) = flow.bundle {
                    self.bundles[bundle].received += part;
                }
            }
            batch.bytes -= take;
            self.waiting -= take;
            left -= take;
            if batch.bytes > 1e-6 || (left <= 0.0 && batch.at == now) {
                break;
            }
            let received_at = now as f64 + 1.0 - left / self.capacity;
            let queueing = received_at - batch.at as f64 - 1.0;
            for (index, mut point) in batch.marks.drain(..) {
                let bundle = &mut self.bundles[index];
                point.received_at = received_at;
                point.received = bundle.received;
                point.queueing = queueing.max(0.0);
                bundle.acks.push_back((now + bundle.rtt, point));
            }
            self.queue.pop_front();
        }
    }

    /// Randomly starts short flows.
    fn request(&mut self) {
        let Some(requests) = self.requests else { return };
        // The mean of the sizes below is 21 kB.
        let mean = requests.share * self.capacity / 21_000.0;
        if self.random.unit() >= mean {
            return;
        }
        let mut flow = Flow::new(Source::Window { cubic: true }, requests.rtt, None);
        flow.remaining = size(&mut self.random).min(requests.longest);
        let done = |flow: &Flow| flow.remaining <= 0.0 && flow.feedback.is_empty();
        if let Some(place) = self.flows.iter().position(done) {
            self.flows[place] = flow;
        } else {
            self.flows.push(flow);
        }
    }
}

/// Sizes from the paper's workload: (bytes, cumulative share), linear in between.
fn size(random: &mut RandomStream) -> f64 {
    let steps = [(0.0, 0.0), (1e4, 0.976), (1e5, 0.995), (1e6, 0.999), (5e6, 0.9998), (1e8, 1.0)];
    let draw = random.unit();
    let at = steps.iter().position(|(_, share)| *share > draw).unwrap_or(5);
    let ((low, from), (high, to)) = (steps[at - 1], steps[at]);
    (low + (high - low) * (draw - from) / (to - from)).max(PACKET)
}
