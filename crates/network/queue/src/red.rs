//! Random early detection, gentle variant.
//!
//! Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", `ToN` 1(4), 1993;
//! the gentle slope above `max` is Floyd's later recommendation.

use base::{Bytes, RandomStream, Ratio, Span, Time};

use crate::backlog::{Backlog, Load, mark};
use crate::{DropReason, Queue, Queued, Verdicts};

/// RED's parameters.
#[derive(Debug)]
pub(crate) struct Parameters {
    pub(crate) min: Bytes,
    pub(crate) max: Bytes,
    pub(crate) probability: Ratio,
    pub(crate) weight: Ratio,
    pub(crate) harddrop: bool,
    pub(crate) ecn: bool,
    /// Transmission time of a typical small packet, by which the average decays while idle. If it
    /// is unknown, it is measured.
    pub(crate) idle_packet: Option<Span>,
}

/// Bytes of a typical small packet.
pub(crate) const SMALL: Bytes = Bytes::new(500);

/// Measures the transmission time of [`SMALL`] for an unknown rate, from departures while
/// further packets are queued.
#[derive(Debug)]
struct Pace {
    small: Option<Span>,
    /// The last departure, if further packets were queued behind it.
    left: Option<(Time, u32)>,
}

impl Pace {
    fn departure(&mut self, now: Time, size: u32, more: bool) {
        if let Some((before, bytes)) = self.left {
            let taken = now.since(before).as_nanos();
            let sample = taken.saturating_mul(SMALL.count()) / u64::from(bytes.max(1));
            // An average over about 16 packets, since opportunities to send may come in groups.
            let mean = self.small.map_or(sample, |mean| {
                let mean = mean.as_nanos();
                mean - mean / 16 + sample / 16
            });
            self.small = Some(Span::from_nanos(mean));
        }
        self.left = more.then_some((now, size));
    }
}

/// Fixed point of the average: 2⁻²⁰ bytes.
const POINT: u32 = 20;
const BILLION: u64 = 1_000_000_000;

/// A FIFO queue that drops or marks at random as its average length grows.
#[derive(Debug)]
pub(crate) struct Red {
    parameters: Parameters,
    random: RandomStream,
    backlog: Backlog,
    average: u64,
    /// Packets accepted since the last early drop or mark.
    since_drop: u64,
    idle_since: Option<Time>,
    pace: Pace,
}

impl Red {
    pub(crate) fn new(parameters: Parameters, random: RandomStream) -> Self {
        Self {
            parameters,
            random,
            backlog: Backlog::default(),
            average: 0,
            since_drop: 0,
            idle_since: Some(Time::ZERO),
            pace: Pace { small: None, left: None },
        }
    }

    fn update_average(&mut self, now: Time) {
        let weight = self.parameters.weight;
        let small = self.parameters.idle_packet.or(self.pace.small);
        if let (Some(idle), Some(packet)) = (self.idle_since.take(), small) {
            // (1 − w)^m: as if m small packets had arrived at an empty queue.
            let missed = now.since(idle).as_nanos() / packet.as_nanos().max(1);
            for _ in 0..missed.min(100_000) {
                if self.average == 0 {
                    break;
                }
                self.average -= weight.of(self.average).max(1);
            }
        }
        let sample = self.backlog.bytes << POINT;
        if sample >= self.average {
            self.average += weight.of(sample - self.average);
        } else {
            self.average -= weight.of(self.average - sample);
        }
    }

    /// The probability `p_b` for the current average, in parts per billion; `None` above 2 × max.
    fn base_probability(&self) -> Option<u64> {
        let (min, max) =
            (self.parameters.min.count() << POINT, self.parameters.max.count() << POINT);
        let top = self.parameters.probability.parts_per_billion();
        let part = |x: u64, of: u64, scale: u64| {
            (u128::from(x) * u128::from(scale) / u128::from(of.max(1))) as u64
        };
        if self.average < min {
            Some(0)
        } else if self.average < max {
            Some(part(self.average - min, max - min, top))
        } else if self.average < 2 * max {
            Some(top + part(self.average - max, max, BILLION - top))
        } else {
            None
        }
    }

    fn early(&mut self) -> bool {
        let Some(base) = self.base_probability() else { return true };
        if base == 0 {
            self.since_drop = 0;
            return false;
        }
        // p_a = p_b / (1 − count · p_b) spaces the drops evenly.
        let spent = u128::from(self.since_drop) * u128::from(base);
        let spaced = if spent >= u128::from(BILLION) {
            BILLION
        } else {
            let rest = u128::from(BILLION) - spent;
            (u128::from(base) * u128::from(BILLION) / rest).min(u128::from(BILLION)) as u64
        };
        self.random.chance(Ratio::from_parts_per_billion(spaced))
    }
}

impl Queue for Red {
    fn enqueue(&mut self, now: Time, mut entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        self.update_average(now);
        if load.is_full(entry.size) {
            self.since_drop = 0;
            return verdicts.drop(entry, DropReason::QueueFull);
        }
        if self.early() {
            self.since_drop = 0;
            let may_mark =
                !self.parameters.harddrop || self.average < self.parameters.max.count() << POINT;
            if may_mark && mark(&mut entry, self.parameters.ecn) {
                verdicts.marked += 1;
            } else {
                return verdicts.drop(entry, DropReason::Early);
            }
        } else {
            self.since_drop += 1;
        }
        self.backlog.push(entry, load);
    }

    fn dequeue(&mut self, now: Time, load: &mut Load, _: &mut Verdicts) -> Option<Queued> {
        let entry = self.backlog.pop(load);
        let more = !self.backlog.is_empty();
        if !more {
            self.idle_since = Some(now);
        }
        if let Some(entry) = &entry
            && self.parameters.idle_packet.is_none()
        {
            self.pace.departure(now, entry.size, more);
        }
        entry
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        self.backlog.push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.pace.left = None;
        self.backlog.drain()
    }
}
