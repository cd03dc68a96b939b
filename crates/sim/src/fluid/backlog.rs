//! The windows that wait at a link: how its queue swings, overflows, and who loses by that.
//!
//! Shares of links say nothing of windows. What streams keep under way beyond what a link holds
//! waits there, and grows: by a window in each round trip of a stream in slow start, and by a
//! segment in each of one that avoids congestion. At the limit it overflows: for a round trip the
//! excess is lost, an equal part of all that comes, and after that the windows are smaller. This
//! is the sawtooth of a drop-tail queue; other disciplines keep the queue where it is.

use base::Time;

use super::stream::span;

/// How the queue of a link swings, as those have it whom the link limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Swing {
    /// Bits that wait after an overflow, and at the limit.
    pub(super) low: f64,
    pub(super) high: f64,
    /// bit/s that it grows by; none if it stays at `low`.
    pub(super) growth: f64,
    /// Seconds of a round trip with a full queue, and the bits that pass in it.
    pub(super) round: f64,
    pub(super) passes: f64,
}

/// What waits at one direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Bits.
    level: f64,
    since: Time,
    /// When the present or last overflow ends, and its bits too many.
    until: Time,
    excess: f64,
    /// While the link limits somebody.
    swing: Option<Swing>,
    /// bit/s that it drains at otherwise.
    spare: f64,
}

/// Some seconds in which a queue goes evenly from one number of bits to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) seconds: f64,
    /// How often that happened.
    pub(super) times: f64,
}

impl Backlog {
    /// Bits that wait, as of when it was last settled.
    pub(super) fn level(&self) -> f64 {
        self.level
    }

    /// When it was last settled.
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// The part of what arrives that is lost, as of when it was last settled.
    pub(super) fn loss(&self) -> f64 {
        match self.swing {
            Some(swing) if self.since < self.until => self.excess / (self.excess + swing.passes),
            _ => 0.0,
        }
    }

    /// What it does from now on; it has to be settled.
    pub(super) fn set(&mut self, swing: Option<Swing>, spare: f64) {
        self.swing = swing;
        self.spare = spare;
        if let Some(swing) = swing {
            self.level = self.level.min(swing.high);
        }
    }

    /// A window grows by so many bits; it has to be settled.
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

    /// Brings it to `now`, and tells what it was until then.
    pub(super) fn settle(&mut self, now: Time, mut tell: impl FnMut(Piece)) {
        let mut left = now.since(self.since).as_secs_f64();
        if left <= 0.0 {
            return;
        }
        let mut piece = |from: f64, to: f64, seconds: f64| {
            if seconds > 0.0 {
                tell(Piece { from, to, seconds, times: 1.0 });
            }
        };
        let before = self.since;
        self.since = now;
        let Some(swing) = self.swing else {
            let drain = left.min(if self.level > 0.0 { self.level / self.spare } else { 0.0 });
            let to = (self.level - self.spare * drain).max(0.0);
            piece(self.level, to, drain);
            piece(0.0, 0.0, left - drain);
            self.level = if drain < left { 0.0 } else { to };
            return;
        };
        if before < self.until {
            let over = self.until.since(before).as_secs_f64().min(left);
            piece(self.level, self.level, over);
            if now < self.until {
                return;
            }
            left -= over;
            self.level = swing.low;
        }
        if swing.growth <= 0.0 {
            self.level = swing.low;
            piece(swing.low, swing.low, left);
            return;
        }
        let rise = (swing.high - self.level) / swing.growth;
        if left < rise {
            let to = self.level + swing.growth * left;
            piece(self.level, to, left);
            self.level = to;
            return;
        }
        piece(self.level, swing.high, rise);
        self.swing_on(now, left - rise, swing, tell);
    }

    /// Goes on from the beginning of an overflow, for `left` seconds until `now`.
    fn swing_on(&mut self, now: Time, left: f64, swing: Swing, mut tell: impl FnMut(Piece)) {
        let rise = (swing.high - swing.low) / swing.growth;
        let teeth = (left / (swing.round + rise)).floor();
        let left = left - teeth * (swing.round + rise);
        let over = left.min(swing.round);
        let Swing { low, high, growth, round, .. } = swing;
        let level = low + growth * (left - over);
        let pieces = [
            Piece { from: high, to: high, seconds: round, times: teeth },
            Piece { from: low, to: high, seconds: rise, times: teeth },
            Piece { from: high, to: high, seconds: over, times: 1.0 },
            Piece { from: low, to: level, seconds: left - over, times: 1.0 },
        ];
        pieces.into_iter().filter(|piece| piece.times * piece.seconds > 0.0).for_each(&mut tell);
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
        let add = |sums: &mut [f64; 2], piece: Piece| {
            let seconds = piece.seconds * piece.times;
            sums[0] += seconds;
            sums[1] += seconds * f64::midpoint(piece.from, piece.to);
        };
        for second in 1..=64 {
            steps.settle(at(second), |piece| add(&mut sums[0], piece));
        }
        leap.settle(at(64), |piece| add(&mut sums[1], piece));
        assert!((steps.level() - leap.level()).abs() < 1e-6, "{steps:?} {leap:?}");
        assert!((steps.loss() - leap.loss()).abs() < 1e-9);
        for (one, other) in sums[0].iter().zip(&sums[1]) {
            assert!((one - other).abs() < 1e-6, "{sums:?}");
        }
        // 10 s to the limit, then teeth of 2 s at the limit and 5 s of rise.
        assert!((sums[1][0] - 64.0).abs() < 1e-9);
        let teeth = 7.0 * (2.0 * 100.0 + 5.0 * 75.0);
        let rest = 2.0 * 100.0 + 3.0 * 65.0;
        assert!((sums[1][1] - (10.0 * 50.0 + teeth + rest)).abs() < 1e-6, "{sums:?}");
    }

    #[test]
    fn what_is_too_much_is_lost_for_a_round() {
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
        backlog.settle(at(18), |piece| pieces.push((piece.from, piece.to, piece.seconds)));
        assert_eq!(pieces, [(80.0, 0.0, 4.0), (0.0, 0.0, 6.0)]);
        backlog.press(40.0);
        assert!((backlog.loss(), backlog.level()) == (0.0, 0.0));
    }
}
