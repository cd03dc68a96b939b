//! The queue of elastic traffic at a link: its sawtooth, its overflows, and the resulting losses.
//!
//! The shares of links do not include windows. The part of the streams' windows that exceeds the
//! capacity of the path is queued at the link, and it grows: by a window per RTT for a stream in
//! slow start, and by a segment per RTT for a stream in congestion avoidance. When the queue
//! reaches its limit it overflows: for one RTT the excess is lost, in equal proportion from all
//! arrivals, and then the windows are smaller. This is the sawtooth of a drop-tail queue; with
//! other disciplines the queue stays constant.

use base::Time;

use super::stream::span;

/// The sawtooth of a link's queue, caused by the streams that the link limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Swing {
    /// Queue in bits after an overflow, and at the limit.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Growth in bit/s; 0 if the queue stays at `low`.
    pub(super) growth: f64,
    /// RTT in seconds with a full queue, and the bits that the link transmits in it.
    pub(super) round: f64,
    pub(super) passes: f64,
}

/// The queue of elastic traffic at one direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Queue length in bits, at `since`.
    level: f64,
    since: Time,
    /// End of the current or last overflow, and its excess bits.
    until: Time,
    excess: f64,
    /// `None` while the link limits no stream.
    swing: Option<Swing>,
    /// Drain rate in bit/s without a sawtooth.
    spare: f64,
}

/// A period in which a queue length changes linearly, in bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QueueSegment {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) seconds: f64,
    /// Number of repetitions.
    pub(super) times: f64,
}

impl Backlog {
    /// Queue length in bits at the last update.
    pub(super) fn level(&self) -> f64 {
        self.level
    }

    /// Time of the last update.
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// Loss rate of arrivals at the last update.
    pub(super) fn loss(&self) -> f64 {
        match self.swing {
            Some(swing) if self.since < self.until => self.excess / (self.excess + swing.passes),
            _ => 0.0,
        }
    }

    /// Sets the future behaviour of the queue; the caller has updated it to the present.
    pub(super) fn set(&mut self, swing: Option<Swing>, spare: f64) {
        self.swing = swing;
        self.spare = spare;
        if let Some(swing) = swing {
            self.level = self.level.min(swing.high);
        }
    }

    /// Adds the bits by which a window has grown; the caller has updated the queue to the present.
    pub(super) fn press(&mut self, bits: f64) {
        let Some(swing) = self.swing else { return };
        if self.since < self.until {
            self.excess += bits;
            return;
        }
        self.level += bits;
        if self.level > swing.high {
            self.excess = self.level - swing.high;
            self.level = swing.high;
            self.until = self.since + span(swing.round);
        }
    }

    /// Updates the queue to `now` and reports its linear pieces up to then.
    pub(super) fn settle(&mut self, now: Time, mut emit: impl FnMut(QueueSegment)) {
        let mut left = now.since(self.since).as_secs_f64();
        if left <= 0.0 {
            return;
        }
        let mut segment = |from: f64, to: f64, seconds: f64| {
            if seconds > 0.0 {
                emit(QueueSegment { from, to, seconds, times: 1.0 });
            }
        };
        let before = self.since;
        self.since = now;
        let Some(swing) = self.swing else {
            let drain = left.min(if self.level > 0.0 { self.level / self.spare } else { 0.0 });
            let to = (self.level - self.spare * drain).max(0.0);
            segment(self.level, to, drain);
            segment(0.0, 0.0, left - drain);
            self.level = if drain < left { 0.0 } else { to };
            return;
        };
        if before < self.until {
            let over = self.until.since(before).as_secs_f64().min(left);
            segment(self.level, self.level, over);
            if now < self.until {
                return;
            }
            left -= over;
            self.level = swing.low;
        }
        if swing.growth <= 0.0 {
            self.level = swing.low;
            segment(swing.low, swing.low, left);
            return;
        }
        let rise = (swing.high - self.level) / swing.growth;
        if left < rise {
            let to = self.level + swing.growth * left;
            segment(self.level, to, left);
            self.level = to;
            return;
        }
        segment(self.level, swing.high, rise);
        self.swing_on(now, left - rise, swing, emit);
    }

    /// Continues the sawtooth from the start of an overflow, for `left` seconds until `now`.
    fn swing_on(&mut self, now: Time, left: f64, swing: Swing, mut emit: impl FnMut(QueueSegment)) {
        let rise = (swing.high - swing.low) / swing.growth;
        let teeth = (left / (swing.round + rise)).floor();
        let left = left - teeth * (swing.round + rise);
        let over = left.min(swing.round);
        let Swing { low, high, growth, round, .. } = swing;
        let level = low + growth * (left - over);
        let pieces = [
            QueueSegment { from: high, to: high, seconds: round, times: teeth },
            QueueSegment { from: low, to: high, seconds: rise, times: teeth },
            QueueSegment { from: high, to: high, seconds: over, times: 1.0 },
            QueueSegment { from: low, to: level, seconds: left - over, times: 1.0 },
        ];
        pieces
            .into_iter()
            .filter(|segment| segment.times * segment.seconds > 0.0)
            .for_each(&mut emit);
        self.excess = growth * round;
        self.level = if over < round { high } else { level };
        if over < round {
            self.until = now + span(round - over);
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Span;

    use super::*;

    const SWING: Swing = Swing { low: 50.0, high: 100.0, growth: 10.0, round: 2.0, passes: 200.0 };

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn swinging() -> Backlog {
        let mut backlog = Backlog::default();
        backlog.set(Some(SWING), 0.0);
        backlog
    }

    #[test]
    fn steps_and_a_leap_come_to_the_same() {
        let (mut leap, mut steps) = (swinging(), swinging());
        let mut sums = [[0.0; 2]; 2];
        let add = |sums: &mut [f64; 2], segment: QueueSegment| {
            let seconds = segment.seconds * segment.times;
            sums[0] += seconds;
            sums[1] += seconds * f64::midpoint(segment.from, segment.to);
        };
        for second in 1..=64 {
            steps.settle(at(second), |segment| add(&mut sums[0], segment));
        }
        leap.settle(at(64), |segment| add(&mut sums[1], segment));
        assert!((steps.level() - leap.level()).abs() < 1e-6, "{steps:?} {leap:?}");
        assert!((steps.loss() - leap.loss()).abs() < 1e-9);
        for (one, other) in sums[0].iter().zip(&sums[1]) {
            assert!((one - other).abs() < 1e-6, "{sums:?}");
        }
        // 10 s up to the limit, then periods of 2 s at the limit and 5 s of growth.
        assert!((sums[1][0] - 64.0).abs() < 1e-9);
        let teeth = 7.0 * (2.0 * 100.0 + 5.0 * 75.0);
        let rest = 2.0 * 100.0 + 3.0 * 65.0;
        assert!((sums[1][1] - (10.0 * 50.0 + teeth + rest)).abs() < 1e-6, "{sums:?}");
    }

    #[test]
    fn overload_is_lost_for_a_round() {
        let mut backlog = swinging();
        backlog.settle(at(5), |_| {});
        backlog.press(40.0);
        assert!((backlog.loss(), backlog.level()) == (0.0, 90.0), "{backlog:?}");
        backlog.press(30.0);
        assert!((backlog.loss() - 20.0 / 220.0).abs() < 1e-9);
        backlog.settle(at(6), |_| {});
        backlog.press(20.0);
        assert!((backlog.loss() - 40.0 / 240.0).abs() < 1e-9);
        backlog.settle(at(8), |_| {});
        assert!((backlog.loss(), backlog.level()) == (0.0, 60.0), "{backlog:?}");
    }

    #[test]
    fn it_drains_where_nobody_is_limited() {
        let mut backlog = swinging();
        backlog.settle(at(8), |_| {});
        backlog.set(None, 20.0);
        let mut pieces = Vec::new();
        backlog.settle(at(18), |segment| pieces.push((segment.from, segment.to, segment.seconds)));
        assert_eq!(pieces, [(80.0, 0.0, 4.0), (0.0, 0.0, 6.0)]);
        backlog.press(40.0);
        assert!((backlog.loss(), backlog.level()) == (0.0, 0.0));
    }
}
