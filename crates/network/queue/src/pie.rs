//! Proportional integral controller enhanced (PIE, RFC 8033).
//!
//! The queueing delay is that of the last packet that left, as in Linux, not estimated from the
//! departure rate (RFC 8033 §4.3 allows both). PIE is always active (§5.3 is optional).

use base::{RandomStream, Ratio, Span, Time};

use crate::aqm::Aqm;
use crate::backlog::{Backlog, Load, mark};
use crate::{DropReason, Queued, Verdicts};

/// PIE's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// `QDELAY_REF`.
    pub(crate) target: Span,
    /// `T_UPDATE`, not 0.
    pub(crate) update: Span,
    /// `MAX_BURST`.
    pub(crate) burst: Span,
    pub(crate) ecn: bool,
}

/// Gains of the controller in Hz (RFC 8033 §4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Bytes of two packets of mean size: a shorter queue is not touched (§4.1, `MEAN_PKTSIZE`).
const SHORT_QUEUE: u64 = 2 * 1500;
/// Bounds of the accumulated probability within which a decision is random (§5.4).
const DERANDOMIZED: (f64, f64) = (0.85, 8.5);
/// Probability above which packets are dropped even if they are ECN-capable (§5.1).
const MAX_MARK_PROBABILITY: f64 = 0.1;
/// Largest step of the probability where it is above 10 % (§5.5).
const MAX_STEP: f64 = 0.02;
/// Factor of the probability in each interval without a queue (§4.2).
const DECAY: f64 = 0.98;
/// Upper bound of the probability, and the divisor of its steps below that bound (§4.2).
const SCALES: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
/// Idle intervals after which a probability of 1 is below 10⁻⁹: 0.98ⁿ.
const IDLE_INTERVALS: u64 = 1_026;

/// The state of RFC 8033 §4.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Pie {
    probability: f64,
    /// Sum of the probabilities since the last drop.
    accumulated: f64,
    /// Delays in seconds: of the last packet that left, and at the last update.
    delay: f64,
    last_delay: f64,
    burst_left: Span,
    /// Time of the next update; `None` before the first arrival.
    next_update: Option<Time>,
}

impl Pie {
    /// Makes up for the updates since the last packet: the queue has not changed since.
    fn catch_up(&mut self, now: Time, parameters: &Parameters) {
        let Some(mut next) = self.next_update else {
            self.burst_left = parameters.burst;
            self.next_update = Some(now + parameters.update);
            return;
        };
        let interval = parameters.update.as_nanos().max(1);
        if now < next {
            return;
        }
        let missed = now.since(next).as_nanos() / interval + 1;
        for _ in 0..missed.min(IDLE_INTERVALS) {
            self.update(parameters);
        }
        next += Span::from_nanos(missed.saturating_mul(interval));
        self.next_update = Some(next);
    }

    /// `calculate_drop_prob` (§4.2), with the burst allowance (§4.4).
    fn update(&mut self, parameters: &Parameters) {
        let target = parameters.target.as_secs_f64();
        let error = self.delay - target;
        let mut step = ALPHA * error + BETA * (self.delay - self.last_delay);
        let scale = SCALES.iter().find(|(bound, _)| self.probability < *bound);
        step /= scale.map_or(1.0, |(_, divisor)| *divisor);
        if self.probability >= 0.1 {
            step = step.min(MAX_STEP);
        }
        self.probability += step;
        if self.delay == 0.0 && self.last_delay == 0.0 {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let calm = self.delay < target / 2.0 && self.last_delay < target / 2.0;
        self.burst_left = if self.probability == 0.0 && calm {
            parameters.burst
        } else {
            self.burst_left.saturating_sub(parameters.update)
        };
        self.last_delay = self.delay;
    }

    /// `drop_early` (§4.1), with derandomization (§5.4).
    fn drops(&mut self, parameters: &Parameters, queued: u64, random: &mut RandomStream) -> bool {
        let calm = self.last_delay < parameters.target.as_secs_f64() / 2.0;
        if self.burst_left > Span::ZERO || calm && self.probability < 0.2 || queued <= SHORT_QUEUE {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        let (least, most) = DERANDOMIZED;
        let chance = Ratio::from_parts_per_billion((self.probability * 1e9) as u64);
        let drops =
            self.accumulated >= least && (self.accumulated >= most || random.chance(chance));
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }
}

impl Aqm for Pie {
    type Parameters = Parameters;

    fn arrive(
        &mut self,
        now: Time,
        parameters: &Parameters,
        mut entry: Queued,
        backlog: &Backlog,
        random: &mut RandomStream,
        verdicts: &mut Verdicts,
    ) -> Option<Queued> {
        self.catch_up(now, parameters);
        if self.drops(parameters, backlog.bytes, random) {
            let may_mark = self.probability <= MAX_MARK_PROBABILITY;
            if !(may_mark && mark(&mut entry, parameters.ecn)) {
                verdicts.drop(entry, DropReason::Early);
                return None;
            }
            verdicts.marked += 1;
        }
        Some(entry)
    }

    fn dequeue(
        &mut self,
        now: Time,
        parameters: &Parameters,
        backlog: &mut Backlog,
        load: &mut Load,
        _verdicts: &mut Verdicts,
    ) -> Option<Queued> {
        self.catch_up(now, parameters);
        let entry = backlog.pop(load);
        let left = entry.as_ref().filter(|_| !backlog.is_empty());
        self.delay = left.map_or(0.0, |entry| now.since(entry.since).as_secs_f64());
        entry
    }
}
