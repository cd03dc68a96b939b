//! HyStart++ (RFC 9406): leaves slow start when round-trip times grow, before losses occur.

use base::Span;

use crate::tcp::packed::packed;

/// Minimum and maximum growth of the round-trip time that counts (`MIN_RTT_THRESH` and
/// `MAX_RTT_THRESH`).
const THRESHOLD: (u64, u64) = (4_000_000, 16_000_000);
/// `MIN_RTT_DIVISOR`.
const RTT_DIVISOR: u64 = 8;
/// `N_RTT_SAMPLE`.
const SAMPLES: u8 = 8;
/// `CSS_GROWTH_DIVISOR`.
const GROWTH_DIVISOR: u32 = 4;
/// `CSS_ROUNDS`.
const ROUNDS: u8 = 5;
/// L: segments by which one acknowledgement may raise the window of an unpaced sender.
const LIMIT: u32 = 8;
const UNKNOWN: u64 = u64::MAX;

/// The action of slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Grow by this many bytes.
    Grow(u32),
    /// Continue in congestion avoidance.
    Leave,
}

/// The state machine, for the first slow start of a connection.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    /// Minimum round-trip times of this round and of the previous one, in ns.
    current: u64,
    last: u64,
    /// Baseline of conservative slow start; unknown while in plain slow start.
    baseline: u64,
    samples: u8,
    /// Rounds of conservative slow start; zero while in plain slow start.
    conservative: u8,
}

packed!(HyStart { current, last, baseline, samples, conservative });

impl HyStart {
    pub(super) const fn new() -> Self {
        Self { current: UNKNOWN, last: UNKNOWN, baseline: UNKNOWN, samples: 0, conservative: 0 }
    }

    /// Handles an acknowledgement in slow start. `round`: it starts a round.
    pub(super) fn on_ack(
        &mut self,
        round: bool,
        rtt: Option<Span>,
        delivered: u32,
        mss: u32,
    ) -> Verdict {
        if round {
            if self.conservative >= ROUNDS {
                return Verdict::Leave;
            }
            if self.conservative > 0 {
                self.conservative += 1;
            }
            (self.last, self.current, self.samples) = (self.current, UNKNOWN, 0);
        }
        if let Some(rtt) = rtt {
            self.current = self.current.min(rtt.as_nanos());
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= SAMPLES {
            self.judge();
        }
        let limited = delivered.min(LIMIT * mss);
        Verdict::Grow(if self.conservative > 0 { limited / GROWTH_DIVISOR } else { limited })
    }

    fn judge(&mut self) {
        if self.conservative > 0 {
            if self.current < self.baseline {
                (self.baseline, self.conservative) = (UNKNOWN, 0);
            }
        } else if self.current != UNKNOWN && self.last != UNKNOWN {
            let growth = (self.last / RTT_DIVISOR).clamp(THRESHOLD.0, THRESHOLD.1);
            if self.current >= self.last.saturating_add(growth) {
                (self.baseline, self.conservative) = (self.current, 1);
            }
        }
    }
}
