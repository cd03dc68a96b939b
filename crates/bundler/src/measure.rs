//! What the boxes' counters say of the path between them.
//!
//! The sendbox notes when a packet that ends an epoch leaves, and how much left up to it; the
//! receivebox acknowledges the same packet with when it came, and how much came up to it. Each
//! matched pair is a point on two cumulative curves, that of what was sent over the sender's time
//! and that of what was received over the receiver's. Rates are slopes between points, losses are
//! differences, and the horizontal distance, less its least, is the time spent in queues. Only
//! differences of one clock are ever used, so the clocks need not agree.

mod base_delay;
mod flow_base;
mod noise;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use base::{Bandwidth, Bytes, Span, Time};

use base_delay::BaseDelay;
use flow_base::FlowBase;
use noise::Noise;

/// Packets noted and not yet acknowledged, at most.
const MOST_MARKS: usize = 8192;
/// Points of the curves that are kept, at most.
const MOST_POINTS: usize = 8192;
/// A mark is given up this long after the packet left.
const FORGET: Span = Span::from_secs(5);
/// Rates are taken over one round trip, but no less than this.
pub const SHORTEST_WINDOW: Span = Span::from_millis(40);
/// How long a rate counts for the capacity.
const CAPACITY_WINDOW: Span = Span::from_secs(10);
/// How long it is remembered at all.
const LONGEST: Span = Span::from_secs(60);
/// How long it counts in full.
const LATELY: Span = Span::from_secs(1);

/// Jitter of less standard deviation than this is not regarded, in seconds; from the second on the
/// least delay tells nothing.
const JITTER: [f64; 2] = [0.0003, 0.001];

/// A packet that ended an epoch has left the sendbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its digest.
    pub digest: u64,
    /// When it left.
    pub sent_at: Time,
    /// Bytes sent so far, itself included.
    pub bytes: u64,
    /// Packets sent so far, itself included.
    pub packets: u64,
    /// Hash of what tells flows apart.
    pub flow: u32,
    /// Whether it had waited for its turn under the rate.
    pub limited: bool,
}

/// What the receivebox says of a packet that ended an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its digest.
    pub digest: u64,
    /// When it came, by the receivebox's clock.
    pub received_at: Time,
    /// Bytes received so far, itself included.
    pub bytes: u64,
    /// Packets received so far, itself included.
    pub packets: u64,
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It extends the curves.
    InOrder {
        /// When the packet left the sendbox.
        sent_at: Time,
    },
    /// A later packet had been acknowledged before.
    Late {
        /// When the packet left the sendbox.
        sent_at: Time,
    },
    /// No packet is known by it: it ended no epoch here, or two packets have the digest.
    Unknown,
}

/// A point on both curves.
#[derive(Clone, Copy, Debug)]
struct Point {
    sent_at: Time,
    received_at: Time,
    heard_at: Time,
    sent: u64,
    received: u64,
    /// One-way delay by two clocks that do not agree, in ns.
    one_way: i64,
    /// What of it is the longer way of its flow, in ns.
    longer: i64,
    limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    mark: Mark,
    /// Another packet has the same digest.
    ambiguous: bool,
}

/// Send and receive rate of the same packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// When the last of them left the sendbox.
    pub sent_at: Time,
    /// The rate at which they left.
    pub send: Bandwidth,
    /// The rate at which they came.
    pub receive: Bandwidth,
    /// Bytes of them that did not come.
    pub lost: Bytes,
    /// Whether most of them had waited for their turn.
    pub limited: bool,
}

/// Delays of the newest epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Round trip.
    pub rtt: Span,
    /// The least round trip of the recent past.
    pub min_rtt: Span,
    /// One-way delay beyond the least of the recent past, averaged.
    pub queueing: Span,
    /// The least of it.
    pub standing: Span,
    /// Standard deviation of the delay from packet to packet that no queue explains: jitter.
    pub noise: Span,
}

/// The measurements of one bundle.
#[derive(Debug, Default)]
pub struct Measure {
    /// Numbered from `first_mark` on.
    marks: VecDeque<Option<Outstanding>>,
    first_mark: u64,
    /// The number of the mark with a digest.
    by_digest: HashMap<u64, u64>,
    points: VecDeque<Point>,
    base: BaseDelay,
    flows: FlowBase,
    noise: Noise,
    /// [`Self::mean_delay`] at the newest point.
    mean: Option<i64>,
    /// What the mean one-way delay of the path is above the least without any queue: packets may
    /// take ways of different length.
    spread: Span,
    /// Receive rates, falling, with their times: the first is the maximum of the window.
    capacity: VecDeque<(Time, u64)>,
}

impl Measure {
    /// A packet that ends an epoch leaves.
    pub fn sent(&mut self, mark: Mark) {
        let expired = |old: &Option<Outstanding>| {
            old.is_none_or(|old| mark.sent_at.since(old.mark.sent_at) > FORGET)
        };
        while self.marks.front().is_some_and(expired) || self.marks.len() >= MOST_MARKS {
            self.forget_first_mark();
        }
        let number = self.first_mark + self.marks.len() as u64;
        let twin = self.by_digest.insert(mark.digest, number);
        let twin = twin.and_then(|number| self.marks.get_mut((number - self.first_mark) as usize));
        let ambiguous = twin.is_some();
        if let Some(Some(twin)) = twin {
            twin.ambiguous = true;
        }
        self.marks.push_back(Some(Outstanding { mark, ambiguous }));
    }

    fn forget_first_mark(&mut self) {
        if let Some(Some(old)) = self.marks.pop_front()
            && self.by_digest.get(&old.mark.digest) == Some(&self.first_mark)
        {
            self.by_digest.remove(&old.mark.digest);
        }
        self.first_mark += 1;
    }

    /// Marks that left after `since`, up to `until`, and have not been acknowledged.
    pub fn outstanding(&self, since: Time, until: Time) -> usize {
        let within = |at: Time| at > since && at <= until;
        self.marks.iter().flatten().filter(|entry| within(entry.mark.sent_at)).count()
    }

    /// An acknowledgement has come.
    pub fn acknowledged(&mut self, now: Time, arrived: &Arrived) -> Match {
        let Some(number) = self.by_digest.get(&arrived.digest) else { return Match::Unknown };
        let at = (number - self.first_mark) as usize;
        let entry = self.marks.get_mut(at).and_then(|entry| entry.take_if(|mark| !mark.ambiguous));
        let Some(Outstanding { mark, .. }) = entry else { return Match::Unknown };
        self.by_digest.remove(&arrived.digest);
        let sent_at = mark.sent_at;
        let mut point = Point {
            sent_at,
            received_at: arrived.received_at,
            heard_at: now,
            sent: mark.bytes,
            received: arrived.bytes,
            one_way: arrived.received_at.as_nanos().wrapping_sub(sent_at.as_nanos()) as i64,
            longer: 0,
            limited: mark.limited,
        };
        let (received_at, received) = (point.received_at, point.received);
        let after = |last: &Point| {
            sent_at > last.sent_at && received_at > last.received_at && received > last.received
        };
        let in_order = self.points.back().is_none_or(after);
        if in_order {
            self.base.observe(now, now.since(sent_at), point.one_way);
            self.noise.observe(point.one_way);
        }
        if let Some(least) = self.base.one_way() {
            point.longer = self.flows.observe(now, mark.flow, point.one_way, least);
        }
        if !in_order {
            return Match::Late { sent_at };
        }
        self.points.push_back(point);
        if self.points.len() > MOST_POINTS {
            self.points.pop_front();
        }
        self.forget_points(now);
        self.mean = self.mean_delay();
        if let Some(mean) = self.mean {
            self.base.observe_mean(mean);
        }
        self.learn_capacity(now);
        Match::InOrder { sent_at }
    }

    /// The receivebox counts from zero again.
    pub fn restart(&mut self) {
        while !self.marks.is_empty() {
            self.forget_first_mark();
        }
        self.points.clear();
        self.base.forget_one_way();
        self.flows.forget();
        self.noise.forget_last();
        self.mean = None;
    }

    /// The delays of the past were those of another path: only the newest epochs count.
    pub fn rebase(&mut self, now: Time) {
        let since = self.points.back().map_or(now, |last| last.heard_at);
        let window = self.window();
        let newest = self.points.iter().rev();
        let newest = newest.take_while(|point| since.since(point.heard_at) <= window);
        let seen: Vec<_> = newest
            .map(|point| (point.heard_at, point.heard_at.since(point.sent_at), point.one_way))
            .collect();
        self.base.forget();
        self.flows.forget();
        for (at, rtt, one_way) in seen.into_iter().rev() {
            self.base.observe(at, rtt, one_way);
        }
        self.spread = Span::ZERO;
        self.spread = self.delays().map_or(Span::ZERO, |delays| delays.queueing);
    }

    /// The ways that packets take may have changed.
    pub fn forget_spread(&mut self) {
        self.spread = Span::ZERO;
    }

    /// Something else has shown that the round trip without queues is no more than `base`.
    pub fn assume_base(&mut self, now: Time, base: Span) {
        // Acknowledgements may be late: the least round trip for its way there tells most.
        let window = self.window();
        let newest = self.points.iter().rev();
        let newest = newest.take_while(|point| now.since(point.heard_at) <= window);
        let rtt = |point: &Point| point.heard_at.since(point.sent_at).as_nanos() as i64;
        let Some(point) = newest.min_by_key(|point| rtt(point) - point.one_way) else { return };
        self.base.assume(now, base, Span::from_nanos(rtt(point) as u64), point.one_way);
    }

    /// How long the least delays are remembered.
    pub fn remember(&mut self, now: Time, window: Span) {
        self.base.remember(now, window);
    }

    /// When the newest point was heard of.
    pub fn heard_at(&self) -> Option<Time> {
        self.points.back().map(|point| point.heard_at)
    }

    /// The span that rates and delays are taken over.
    pub fn window(&self) -> Span {
        self.base.min_rtt().map_or(SHORTEST_WINDOW, |rtt| rtt.max(SHORTEST_WINDOW))
    }

    /// The least round trip of the recent past.
    pub fn min_rtt(&self) -> Option<Span> {
        self.base.min_rtt()
    }

    /// Rates of the newest packets that left within about `span`; `None` before there are two
    /// points.
    pub fn rates(&self, span: Span) -> Option<Rates> {
        let last = self.points.back()?;
        let mut first = None;
        let (mut limited, mut all) = (0_usize, 0_usize);
        for point in self.points.iter().rev() {
            if point.sent_at < last.sent_at {
                first = Some(point);
            }
            if last.sent_at.since(point.sent_at) >= span {
                break;
            }
            all += 1;
            limited += usize::from(point.limited);
        }
        let first = first?;
        let (sent, received) = (last.sent - first.sent, last.received - first.received);
        Some(Rates {
            sent_at: last.sent_at,
            send: rate(sent, last.sent_at.since(first.sent_at)),
            receive: rate(received, last.received_at.since(first.received_at)),
            lost: Bytes::new((self.loss() * sent as f64) as u64),
            limited: limited * 4 >= all * 3,
        })
    }

    /// The share of bytes that did not come, of the packets of some round trips. Where packets
    /// overtake each other the difference of the curves swings about what is lost, so that means
    /// are compared.
    fn loss(&self) -> f64 {
        let count = self.points.len();
        let part = (count / 4).max(1);
        if count < 2 {
            return 0.0;
        }
        let mean = |points: &mut dyn Iterator<Item = &Point>| {
            let sums = points.fold((0.0, 0.0), |(lost, sent), point| {
                (lost + point.sent as f64 - point.received as f64, sent + point.sent as f64)
            });
            (sums.0 / part as f64, sums.1 / part as f64)
        };
        let (before, sent_before) = mean(&mut self.points.iter().take(part));
        let (after, sent_after) = mean(&mut self.points.iter().rev().take(part));
        ((after - before) / (sent_after - sent_before).max(1.0)).clamp(0.0, 1.0)
    }

    /// The rate at which the packets of the last `span` came, whenever they left: what came of a
    /// burst is what the bottleneck takes.
    pub fn arrival_rate(&self, span: Span) -> Option<Bandwidth> {
        let last = self.points.back()?;
        let first = self.points.iter().rev().find(|point| {
            point.received_at + span <= last.received_at && point.received < last.received
        })?;
        Some(rate(last.received - first.received, last.received_at.since(first.received_at)))
    }

    /// Delays of the packets acknowledged last, over about a quarter of a round trip.
    pub fn delays(&self) -> Option<Delays> {
        let last = self.points.back()?;
        let span = Span::from_nanos(self.window().as_nanos() / 4);
        let (mut rtt, mut one_way, mut least, mut count) = (0_u128, 0_i128, i64::MAX, 0_u32);
        for point in self.points.iter().rev() {
            if last.heard_at.since(point.heard_at) > span {
                break;
            }
            rtt += u128::from(point.heard_at.since(point.sent_at).as_nanos());
            let own = point.one_way.saturating_sub(point.longer);
            one_way += i128::from(own);
            least = least.min(own);
            count += 1;
        }
        let noise = self.noise.deviation();
        let base = self.base.one_way()?;
        let beyond = |delay: i64| Span::from_nanos(delay.saturating_sub(base).max(0) as u64);
        Some(Delays {
            rtt: Span::from_nanos((rtt / u128::from(count)) as u64),
            min_rtt: self.base.min_rtt()?,
            queueing: beyond((one_way / i128::from(count)) as i64).saturating_sub(self.spread),
            standing: self.persistent(beyond(least), noise).saturating_sub(self.spread),
            noise,
        })
    }

    /// The persistent queue where the least delay of the newest packets is `least` above that of
    /// the recent past. With jitter means are compared with means.
    fn persistent(&self, least: Span, noise: Span) -> Span {
        let share = (noise.as_secs_f64() - JITTER[0]) / (JITTER[1] - JITTER[0]);
        let share = share.clamp(0.0, 1.0);
        let (Some(mean), Some(base)) = (self.mean, self.base.mean()) else { return least };
        let mean = mean.saturating_sub(base).max(0) as f64;
        Span::from_nanos(((1.0 - share) * least.as_nanos() as f64 + share * mean) as u64)
    }

    /// The mean one-way delay of the packets that were acknowledged in the last round trip, but
    /// for their ways.
    fn mean_delay(&self) -> Option<i64> {
        let last = self.points.back()?;
        let span = self.window();
        let newest = self.points.iter().rev();
        let newest = newest.take_while(|point| last.heard_at.since(point.heard_at) <= span);
        let (mut sum, mut count) = (0_i128, 0_i128);
        for point in newest {
            sum += i128::from(point.one_way.saturating_sub(point.longer));
            count += 1;
        }
        Some((sum / count) as i64)
    }

    /// The most that has come through in one round trip of the recent past. What it was more than
    /// `LATELY` ago counts no more than twice what it has been since: a path that has become
    /// slower is known by little more than its own rate, and so is a share beside cross traffic.
    pub fn capacity(&self) -> Option<Bandwidth> {
        let (newest, _) = *self.capacity.back()?;
        let since = |span: Span| self.capacity.iter().find(|(at, _)| newest.since(*at) <= span);
        let ((_, most), (_, lately)) = (since(CAPACITY_WINDOW)?, since(LATELY)?);
        Some(Bandwidth::from_bits_per_sec(*most.min(&lately.saturating_mul(2))))
    }

    /// The most that has come through in one round trip of the last minute.
    pub fn most_capacity(&self) -> Option<Bandwidth> {
        self.capacity.front().map(|(_, rate)| Bandwidth::from_bits_per_sec(*rate))
    }

    fn learn_capacity(&mut self, now: Time) {
        let window = self.window();
        let Some(rates) = self.rates(window) else { return };
        let span = self.points.back().zip(self.points.front());
        // A slope over less than a window may be that of a burst.
        if span.is_none_or(|(last, first)| last.sent_at.since(first.sent_at) < window) {
            return;
        }
        let rate = rates.receive.bits_per_sec();
        while self.capacity.back().is_some_and(|(_, other)| *other <= rate) {
            self.capacity.pop_back();
        }
        self.capacity.push_back((now, rate));
        while self.capacity.front().is_some_and(|(at, _)| now.since(*at) > LONGEST) {
            self.capacity.pop_front();
        }
    }

    fn forget_points(&mut self, now: Time) {
        let kept = self.window() * 4;
        while self.points.len() > 2
            && self.points.front().is_some_and(|point| now.since(point.heard_at) > kept)
        {
            self.points.pop_front();
        }
    }
}

fn rate(bytes: u64, span: Span) -> Bandwidth {
    let bits = u128::from(bytes) * 8_000_000_000 / u128::from(span.as_nanos().max(1));
    Bandwidth::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX))
}
