//! A TCP connection on the virtual clock, one direction: segments through a bottleneck with a
//! queue, loss, retransmission, CUBIC's window. Bytes come out in order or not at all.

use std::collections::VecDeque;

use base::{Bandwidth, Bytes, RandomStream, Ratio, Span, Time};
use bytes::Bytes as Payload;
use mctcp::{Frame, PathInfo};

const MSS: u64 = 1448;
const LEAST_RTO: Span = Span::from_millis(200);
const MOST_BACKOFF: u32 = 9;

/// One direction of a path.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) rate: Bandwidth,
    pub(crate) delay: Span,
    pub(crate) queue: Bytes,
    pub(crate) loss: Ratio,
    pub(crate) alive: bool,
    pub(crate) free_at: Time,
}

impl Link {
    /// When a segment arrives; `None`: it is lost.
    fn carry(&mut self, now: Time, length: u64, dice: &mut RandomStream) -> Option<Time> {
        let begin = self.free_at.max(now);
        let queued = self.rate.bytes_in(begin.since(now)).count();
        if !self.alive || queued + length > self.queue.count() || dice.chance(self.loss) {
            return None;
        }
        self.free_at = begin + self.rate.time_for(Bytes::new(length));
        Some(self.free_at + self.delay)
    }
}

/// What is to happen to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Arrive(u64),
    Acknowledge { segment: u64, in_order: u64 },
    Retry(u64),
}

/// What a pipe delivers.
#[derive(Debug)]
pub(crate) enum Delivery {
    Frame(u32, Frame<Payload>),
    End,
}

#[derive(Debug)]
struct Segment {
    length: u64,
    last: Option<Delivery>,
    sent: Time,
    tries: u32,
    arrived: bool,
    acked: bool,
    /// As in Linux's rate samples: what had been delivered when it was sent, and when.
    delivered: (u64, Time),
    short: bool,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// From the oldest that is not acknowledged; number of the first.
    segments: VecDeque<Segment>,
    first: u64,
    /// Number of the next to send and of the next to deliver.
    next: u64,
    expected: u64,
    in_flight: u64,
    notsent: u64,
    window: f64,
    threshold: f64,
    before_loss: f64,
    lost_at: Time,
    recovers_until: Time,
    srtt: Option<f64>,
    rtt_var: f64,
    min_rtt: f64,
    acked: u64,
    delivered: (u64, Time),
    rate: Option<f64>,
    retransmits: u64,
}

impl Pipe {
    pub(crate) fn new(rtt: Span) -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            next: 0,
            expected: 0,
            in_flight: 0,
            notsent: 0,
            window: (10 * MSS) as f64,
            threshold: f64::INFINITY,
            before_loss: 0.0,
            lost_at: Time::ZERO,
            recovers_until: Time::ZERO,
            srtt: Some(rtt.as_secs_f64()),
            rtt_var: rtt.as_secs_f64() / 2.0,
            min_rtt: rtt.as_secs_f64(),
            acked: 0,
            delivered: (0, Time::ZERO),
            rate: None,
            retransmits: 0,
        }
    }

    /// Takes a frame, or the end, into the socket.
    pub(crate) fn write(&mut self, length: u64, delivery: Delivery) {
        let mut left = length.max(1);
        let mut delivery = Some(delivery);
        while left > 0 {
            let length = left.min(MSS);
            left -= length;
            self.notsent += length;
            self.segments.push_back(Segment {
                length,
                last: if left == 0 { delivery.take() } else { None },
                sent: Time::ZERO,
                tries: 0,
                arrived: false,
                acked: false,
                delivered: (0, Time::ZERO),
                short: false,
            });
        }
    }

    pub(crate) fn notsent(&self) -> u64 {
        self.notsent
    }

    pub(crate) fn held(&self) -> u64 {
        self.notsent + self.in_flight
    }

    pub(crate) fn info(&self) -> PathInfo {
        let span = |secs: f64| Some(Span::from_nanos((secs * 1e9) as u64));
        PathInfo {
            srtt: self.srtt.and_then(span),
            rtt_var: self.srtt.and_then(|_| span(self.rtt_var)),
            min_rtt: self.srtt.and_then(|_| span(self.min_rtt)),
            cwnd: Bytes::new(self.window as u64),
            in_flight: Bytes::new(self.in_flight),
            notsent: Bytes::new(self.notsent),
            acked: Bytes::new(self.acked),
            delivery_rate: self.rate.map(|r| Bandwidth::from_bits_per_sec((r * 8.0) as u64)),
            retransmits: self.retransmits,
        }
    }

    /// Sends what the window has room for.
    pub(crate) fn send(
        &mut self,
        now: Time,
        link: &mut Link,
        dice: &mut RandomStream,
        steps: &mut Vec<(Time, Step)>,
    ) {
        while let Some(segment) = self.segments.get_mut((self.next - self.first) as usize) {
            let length = segment.length;
            if self.in_flight > 0 && (self.in_flight + length) as f64 > self.window {
                return;
            }
            if self.in_flight == 0 {
                self.delivered.1 = now;
            }
            segment.delivered = self.delivered;
            self.notsent -= length;
            self.in_flight += length;
            let idle = self.notsent == 0 && (self.in_flight + MSS) as f64 <= self.window;
            segment.short = idle;
            self.next += 1;
            self.transmit(now, self.next - 1, link, dice, steps);
        }
    }

    fn transmit(
        &mut self,
        now: Time,
        number: u64,
        link: &mut Link,
        dice: &mut RandomStream,
        steps: &mut Vec<(Time, Step)>,
    ) {
        let rto = self.rto();
        let srtt = self.srtt.unwrap_or(0.2);
        let Some(segment) = self.segments.get_mut((number - self.first) as usize) else { return };
        segment.sent = now;
        segment.tries += 1;
        let tries = segment.tries;
        if tries > 1 {
            self.retransmits += 1;
        }
        if let Some(at) = link.carry(now, segment.length + 52, dice) {
            steps.push((at, Step::Arrive(number)));
        } else if link.alive && tries == 1 {
            // Later ones tell of it.
            self.on_loss(now, srtt, 0.7);
            steps.push((now + Span::from_nanos((srtt * 1.1e9) as u64), Step::Retry(number)));
        } else {
            let backoff = 1 << (tries - 1).min(MOST_BACKOFF);
            steps.push((now + rto * backoff, Step::Retry(number)));
            self.on_loss(now, srtt, 0.0);
        }
    }

    fn rto(&self) -> Span {
        let rto = self.srtt.unwrap_or(0.5) + 4.0 * self.rtt_var;
        Span::from_nanos((rto * 1e9) as u64).max(LEAST_RTO)
    }

    fn on_loss(&mut self, now: Time, srtt: f64, keep: f64) {
        if now < self.recovers_until {
            return;
        }
        self.before_loss = self.window.max(2.0 * MSS as f64);
        self.lost_at = now;
        self.recovers_until = now + Span::from_nanos((srtt * 1e9) as u64);
        self.threshold = (self.window * 0.7).max(2.0 * MSS as f64);
        self.window = (self.window * keep).max(2.0 * MSS as f64);
    }

    /// What has come in order because of this segment; then its acknowledgement is on its way.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        number: u64,
        link: &Link,
        out: &mut Vec<Delivery>,
        steps: &mut Vec<(Time, Step)>,
    ) {
        if !link.alive {
            let rto = self.rto();
            steps.push((now + rto, Step::Retry(number)));
            return;
        }
        if let Some(at) = number.checked_sub(self.first)
            && let Some(segment) = self.segments.get_mut(at as usize)
        {
            segment.arrived = true;
        }
        while let Some(at) = self.expected.checked_sub(self.first)
            && let Some(segment) = self.segments.get_mut(at as usize)
            && segment.arrived
        {
            out.extend(segment.last.take());
            self.expected += 1;
        }
        let back = now + link.delay;
        steps.push((back, Step::Acknowledge { segment: number, in_order: self.expected }));
    }

    pub(crate) fn acknowledge(
        &mut self,
        now: Time,
        (number, in_order): (u64, u64),
        alive: bool,
        steps: &mut Vec<(Time, Step)>,
    ) {
        if !alive {
            let rto = self.rto();
            steps.push((now + rto, Step::Retry(number)));
            return;
        }
        for at in self.first..in_order.max(number + 1) {
            if at >= in_order && at != number {
                continue;
            }
            let Some(segment) = self.segments.get_mut((at - self.first) as usize) else { break };
            if segment.acked {
                continue;
            }
            segment.acked = true;
            let (length, sent, tries) = (segment.length, segment.sent, segment.tries);
            let (earlier, short) = (segment.delivered, segment.short);
            self.delivered = (self.delivered.0 + length, now);
            self.sample(now, earlier, short);
            if tries == 1 && at == number {
                self.measure(now.since(sent).as_secs_f64());
            }
            self.grow(now, length);
            self.in_flight -= length;
        }
        while self.segments.front().is_some_and(|segment| segment.acked) && self.first < in_order {
            let gone = self.segments.pop_front().map_or(0, |segment| segment.length);
            self.acked += gone;
            self.first += 1;
        }
    }

    fn sample(&mut self, now: Time, earlier: (u64, Time), short: bool) {
        let time = now.since(earlier.1).as_secs_f64();
        if time <= 0.0 {
            return;
        }
        let rate = (self.delivered.0 - earlier.0) as f64 / time;
        if !short || self.rate.is_none_or(|known| rate > known) {
            self.rate = Some(rate);
        }
    }

    fn measure(&mut self, rtt: f64) {
        self.min_rtt = self.min_rtt.min(rtt);
        let srtt = self.srtt.unwrap_or(rtt);
        self.rtt_var = 0.75 * self.rtt_var + 0.25 * (srtt - rtt).abs();
        self.srtt = Some(0.875 * srtt + 0.125 * rtt);
    }

    /// RFC 9438 §4, without its friendliness towards Reno, and slow start.
    fn grow(&mut self, now: Time, length: u64) {
        let full = self.in_flight as f64;
        if self.window < self.threshold {
            if self.window < 2.0 * full {
                self.window += length as f64;
            }
            return;
        }
        if self.window > full + 2.0 * MSS as f64 || now < self.recovers_until {
            return;
        }
        let most = self.before_loss / MSS as f64;
        let origin = (most * 0.3 / 0.4).cbrt();
        let time = now.since(self.lost_at).as_secs_f64() + self.srtt.unwrap_or(0.0);
        let target = (0.4 * (time - origin).powi(3) + most) * MSS as f64;
        let step = ((target - self.window) / self.window).clamp(0.01, 0.5);
        self.window += step * length as f64;
    }

    /// Sends a segment again unless it was acknowledged meanwhile.
    pub(crate) fn retry(
        &mut self,
        now: Time,
        number: u64,
        link: &mut Link,
        dice: &mut RandomStream,
        steps: &mut Vec<(Time, Step)>,
    ) {
        let at = number.checked_sub(self.first).map(|at| at as usize);
        if at.and_then(|at| self.segments.get(at)).is_some_and(|segment| !segment.acked) {
            self.transmit(now, number, link, dice, steps);
        }
    }
}
