//! Measurements of the path between the gateways, computed from their counters.
//!
//! The sendbox records the send time of each packet that ends an epoch, and its counters then; the
//! receivebox acknowledges the same packet with its receive time and counters. Each matched pair is
//! a point on two cumulative curves: sent bytes over the sender's time, and received bytes over the
//! receiver's time. Rates are slopes between points, losses are differences, and the horizontal
//! distance minus its minimum is the queueing delay. Only differences of the same clock are used,
//! so the clocks need not agree.

mod base_delay;
mod flow_base;
mod noise;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use base::{Bandwidth, Bytes, Span, Time};

use crate::constants::{Constants, Measurement, span};
use base_delay::BaseDelay;
use flow_base::FlowBase;
use noise::Noise;

/// Limits of unacknowledged marks and of points on the curves.
const MAX_MARKS: usize = 8192;
const MAX_POINTS: usize = 8192;
/// Timeout of a mark without acknowledgement.
const MARK_TIMEOUT: Span = Span::from_secs(5);
/// Time window of the maximum capacity.
const MAX_CAPACITY_MEMORY: Span = Span::from_secs(60);

/// A sent packet that ended an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Digest of the packet.
    pub digest: u64,
    /// Send time, by the sendbox's clock.
    pub sent_at: Time,
    /// Bytes sent so far, including this packet.
    pub bytes: u64,
    /// Packets sent so far, including this packet.
    pub packets: u64,
    /// Hash of the flow's header fields.
    pub flow: u32,
    /// Whether it was delayed by the rate.
    pub limited: bool,
}

/// The receivebox's record of a packet that ended an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Digest of the packet.
    pub digest: u64,
    /// Receive time, by the receivebox's clock.
    pub received_at: Time,
    /// Bytes received so far, including this packet.
    pub bytes: u64,
    /// Packets received so far, including this packet.
    pub packets: u64,
}

/// How an acknowledgement relates to earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The newest acknowledged packet: it extends the send and receive curves.
    InOrder {
        /// Send time of the packet.
        sent_at: Time,
    },
    /// A later packet was acknowledged before.
    Late {
        /// Send time of the packet.
        sent_at: Time,
    },
    /// No matching packet: it ended no epoch here, or two packets have the digest.
    Unknown,
}

/// A point on the send curve and the receive curve (bytes over time).
#[derive(Clone, Copy, Debug)]
struct Point {
    sent_at: Time,
    received_at: Time,
    acked_at: Time,
    sent: u64,
    received: u64,
    /// One-way delay between two unsynchronised clocks, in ns.
    one_way: i64,
    /// Part of `one_way` caused by a longer path of this flow, in ns.
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
    /// Send time of the last packet.
    pub sent_at: Time,
    /// Rate at which the sendbox sent them.
    pub send: Bandwidth,
    /// Rate at which the receivebox received them.
    pub receive: Bandwidth,
    /// Bytes that were not received.
    pub lost: Bytes,
    /// Whether most packets were delayed by the rate.
    pub limited: bool,
}

/// Delays of the newest epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Mean round trip.
    pub rtt: Span,
    /// Minimum round trip of the recent past.
    pub min_rtt: Span,
    /// Mean one-way delay minus the recent minimum.
    pub queueing: Span,
    /// Minimum of it: the persistent queue.
    pub standing: Span,
    /// Standard deviation of the per-packet delay without queues: jitter.
    pub noise: Span,
}

/// The measurements of one bundle.
#[derive(Debug, Default)]
pub struct Measure {
    constants: Measurement,
    /// Numbered from `first_mark` on.
    marks: VecDeque<Option<Outstanding>>,
    first_mark: u64,
    /// Number of the mark with a digest.
    by_digest: HashMap<u64, u64>,
    points: VecDeque<Point>,
    base: BaseDelay,
    flows: FlowBase,
    noise: Noise,
    /// [`Self::mean_delay`] at the newest point.
    mean: Option<i64>,
    /// Difference between the mean and the minimum one-way delay of the path without queues:
    /// packets may take paths of different length.
    spread: Span,
    /// Receive rates in descending order, with their times: the first is the maximum of the window.
    capacity: VecDeque<(Time, u64)>,
}

impl Measure {
    /// The state before any measurement.
    pub fn new(constants: &Constants) -> Self {
        Self {
            constants: constants.measure,
            flows: FlowBase::new(&constants.paths),
            ..Self::default()
        }
    }

    /// Records a sent packet that ends an epoch.
    pub fn sent(&mut self, mark: Mark) {
        let expired = |old: &Option<Outstanding>| {
            old.is_none_or(|old| mark.sent_at.since(old.mark.sent_at) > MARK_TIMEOUT)
        };
        while self.marks.front().is_some_and(expired) || self.marks.len() >= MAX_MARKS {
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

    /// Number of unacknowledged marks that were sent after `since` and no later than `until`.
    pub fn outstanding(&self, since: Time, until: Time) -> usize {
        let within = |at: Time| at > since && at <= until;
        self.marks.iter().flatten().filter(|entry| within(entry.mark.sent_at)).count()
    }

    /// Processes an acknowledgement.
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
            acked_at: now,
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
            self.noise.observe(point.one_way, self.constants.jitter_weight);
        }
        if let Some(least) = self.base.one_way() {
            point.longer = self.flows.observe(now, mark.flow, point.one_way, least);
        }
        if !in_order {
            return Match::Late { sent_at };
        }
        self.points.push_back(point);
        if self.points.len() > MAX_POINTS {
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

    /// Resets the counters after a restart of the receivebox.
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

    /// Discards earlier delays, which were those of another path; the newest epochs count.
    pub fn rebase(&mut self, now: Time) {
        let since = self.points.back().map_or(now, |last| last.acked_at);
        let window = self.window();
        let newest = self.points.iter().rev();
        let newest = newest.take_while(|point| since.since(point.acked_at) <= window);
        let seen: Vec<_> = newest
            .map(|point| (point.acked_at, point.acked_at.since(point.sent_at), point.one_way))
            .collect();
        self.base.forget();
        self.flows.forget();
        for (at, rtt, one_way) in seen.into_iter().rev() {
            self.base.observe(at, rtt, one_way);
        }
        self.spread = Span::ZERO;
        self.spread = self.delays().map_or(Span::ZERO, |delays| delays.queueing);
    }

    /// Discards the spread of delays, because the paths of packets may have changed.
    pub fn forget_spread(&mut self) {
        self.spread = Span::ZERO;
    }

    /// Limits the round trip without queues to at most `base`.
    pub fn assume_base(&mut self, now: Time, base: Span) {
        // Acknowledgements may be late: the sample with the shortest round trip relative to its
        // one-way delay is the most accurate.
        let window = self.window();
        let newest = self.points.iter().rev();
        let newest = newest.take_while(|point| now.since(point.acked_at) <= window);
        let rtt = |point: &Point| point.acked_at.since(point.sent_at).as_nanos() as i64;
        let Some(point) = newest.min_by_key(|point| rtt(point) - point.one_way) else { return };
        self.base.assume(now, base, Span::from_nanos(rtt(point) as u64), point.one_way);
    }

    /// Sets the time for which minimum delays are remembered.
    pub fn remember(&mut self, now: Time, window: Span) {
        self.base.remember(now, window);
    }

    /// Time of the newest acknowledgement.
    pub fn acked_at(&self) -> Option<Time> {
        self.points.back().map(|point| point.acked_at)
    }

    /// Time span over which rates and delays are computed.
    pub fn window(&self) -> Span {
        let min = span(self.constants.min_window);
        self.base.min_rtt().map_or(min, |rtt| rtt.max(min))
    }

    /// Minimum round trip of the recent past.
    pub fn min_rtt(&self) -> Option<Span> {
        self.base.min_rtt()
    }

    /// Rates of the newest packets sent within about `span`; `None` without two points.
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

    /// Share of lost bytes over some round trips. If packets are reordered, the difference of the
    /// curves varies around the loss, so means are compared.
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

    /// Receive rate of the packets of the last `span`, independent of their send times: the rate at
    /// which a burst arrives is that of the bottleneck.
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
            if last.acked_at.since(point.acked_at) > span {
                break;
            }
            rtt += u128::from(point.acked_at.since(point.sent_at).as_nanos());
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

    /// The persistent queue, where the minimum delay of the newest packets is `least` above the
    /// recent minimum. With jitter, means are compared.
    fn persistent(&self, least: Span, noise: Span) -> Span {
        let Measurement { min_jitter, max_jitter, .. } = self.constants;
        let share = (noise.as_secs_f64() - min_jitter) / (max_jitter - min_jitter).max(1e-9);
        let share = share.clamp(0.0, 1.0);
        let (Some(mean), Some(base)) = (self.mean, self.base.mean()) else { return least };
        let mean = mean.saturating_sub(base).max(0) as f64;
        Span::from_nanos(((1.0 - share) * least.as_nanos() as f64 + share * mean) as u64)
    }

    /// Mean one-way delay of the packets acknowledged in the last round trip, without the
    /// differences between their paths.
    fn mean_delay(&self) -> Option<i64> {
        let last = self.points.back()?;
        let span = self.window();
        let newest = self.points.iter().rev();
        let newest = newest.take_while(|point| last.acked_at.since(point.acked_at) <= span);
        let (mut sum, mut count) = (0_i128, 0_i128);
        for point in newest {
            sum += i128::from(point.one_way.saturating_sub(point.longer));
            count += 1;
        }
        Some((sum / count) as i64)
    }

    /// Maximum rate over one round trip of the recent past. Older rates count at most as twice the
    /// newer maximum, so that the capacity follows a path that has become slower, and a share
    /// beside cross traffic.
    pub fn capacity(&self) -> Option<Bandwidth> {
        let (newest, _) = *self.capacity.back()?;
        let since = |span: Span| self.capacity.iter().find(|(at, _)| newest.since(*at) <= span);
        let ((_, most), (_, lately)) = (
            since(span(self.constants.capacity_memory))?,
            since(span(self.constants.capacity_recent))?,
        );
        Some(Bandwidth::from_bits_per_sec(*most.min(&lately.saturating_mul(2))))
    }

    /// Maximum rate over one round trip of the last minute.
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
        while self.capacity.front().is_some_and(|(at, _)| now.since(*at) > MAX_CAPACITY_MEMORY) {
            self.capacity.pop_front();
        }
    }

    fn forget_points(&mut self, now: Time) {
        let kept = self.window() * 4;
        while self.points.len() > 2
            && self.points.front().is_some_and(|point| now.since(point.acked_at) > kept)
        {
            self.points.pop_front();
        }
    }
}

fn rate(bytes: u64, span: Span) -> Bandwidth {
    let bits = u128::from(bytes) * 8_000_000_000 / u128::from(span.as_nanos().max(1));
    Bandwidth::from_bits_per_sec(u64::try_from(bits).unwrap_or(u64::MAX))
}
