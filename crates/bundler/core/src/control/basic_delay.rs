//! Controller of Nimbus for a path without elastic cross traffic: maintains a
//! short persistent queue.

use base::{Bandwidth, Time};

use super::{CongestionControl, Observation, answered::Answered, bandwidth, bits};
use crate::constants::Target;

/// Share of the spare capacity that is used at once: the paper's α.
const SPARE_GAIN: f64 = 0.8;
/// Share of the excess queue that is drained per round trip: the paper's β.
const QUEUE_GAIN: f64 = 0.5;
/// Share of the target below which the queue counts as drained.
const DRAINED: f64 = 0.2;
/// Seconds without a drained queue after which the controller drains it.
const DRAIN_EVERY: f64 = 5.0;
/// Loss share above which the rate does not grow.
const LOSSY: f64 = 0.02;
/// Share of the rate from which on a site counts as limited by the rate.
const LIMITED_SHARE: f64 = 0.8;

/// `BasicDelay` of Goyal et al., *Elasticity Detection*, SIGCOMM 2022, §4: the rate follows the
/// spare capacity and the deviation of the queue from its target.
///
/// With S the send rate, R the receive rate, x the round trip, μ the capacity and z = μS/R − S the
/// rate of the cross traffic: rate = S + α(μ − z − S) − (βμ/x)(queueing − target).
///
/// Two bundles at one bottleneck keep their initial shares: any S is an equilibrium.
#[derive(Clone, Debug, Default)]
pub struct BasicDelay {
    target: Target,
    rate: f64,
    /// Number of times that the increase has doubled while the queue was empty.
    growth: f64,
    /// Time of their last change.
    grown_at: Time,
    /// Time at which the queue was last (almost) empty.
    drained: Time,
    answered: Answered,
}

impl BasicDelay {
    /// A controller that must be started.
    pub fn new(target: Target) -> Self {
        Self { target, ..Self::default() }
    }

    /// Change of the rate because of the deviation of the queue from the target.
    //= deviation: the queue is the one-way delay minus its minimum, not x − x_min, so that a queue
    //= on the return path does not slow the bundle down; and while there is no queue, the increase
    //= doubles per round trip, since 5 ms of a long round trip are almost no increase.
    fn correction(&mut self, seen: &Observation, capacity: f64, limited: bool) -> f64 {
        let target = self.target.delay(seen, capacity);
        let queueing = seen.queueing.as_secs_f64();
        let round_trip = seen.rtt.as_secs_f64().max(0.001);
        let sent = bits(seen.send_rate) * round_trip;
        let lossy = seen.lost.count() as f64 * 8.0 > LOSSY * sent;
        if lossy || queueing > DRAINED * target {
            self.growth = 0.0;
            self.grown_at = seen.now;
        } else {
            self.drained = seen.now;
            if !limited {
                self.grown_at = seen.now;
            } else if seen.now.since(self.grown_at) > seen.rtt {
                self.growth = (self.growth + 1.0).min(6.0);
                self.grown_at = seen.now;
            }
        }
        let waited = seen.now.since(self.drained).as_secs_f64();
        //= deviation: a minimum that is forgotten after a while grows with a persistent queue, so
        //= the queue is drained periodically.
        let aim = if waited > DRAIN_EVERY { 0.0 } else { target };
        let excess = ((queueing - aim) / round_trip).clamp(-0.25, 2.0);
        let factor = if excess < 0.0 { self.growth.exp2() } else { 1.0 };
        let correction = -QUEUE_GAIN * capacity * excess * factor;
        if lossy { correction.min(0.0) } else { correction }
    }
}

impl CongestionControl for BasicDelay {
    fn start(&mut self, rate: Bandwidth, seen: &Observation) {
        *self = Self {
            target: self.target,
            rate: bits(rate),
            grown_at: seen.now,
            drained: seen.now,
            ..Self::default()
        };
    }

    fn on_tick(&mut self, seen: &Observation) -> Bandwidth {
        let (sent, received) = (bits(seen.send_rate), bits(seen.receive_rate));
        if !seen.fresh {
            return bandwidth(self.rate);
        }
        //= deviation: an outdated capacity would increase the gains.
        let capacity = bits(seen.capacity).clamp(received, 2.0 * received);
        let limited = self.answered.limited(seen, LIMITED_SHARE);
        let correction = self.correction(seen, capacity, limited);
        if limited {
            let spare = SPARE_GAIN * capacity * (1.0 - sent / received);
            // The correction for the queue changes the rate by at most a factor of two
            // per round trip.
            self.rate = (sent + spare + correction).clamp(0.5 * received, 2.0 * received);
        } else {
            // The measured rates are those of the site's traffic, not of the path: keep the rate,
            // or reduce it if there is a queue.
            let share = (seen.elapsed.as_secs_f64() / seen.rtt.as_secs_f64().max(0.001)).min(1.0);
            let lower = self.rate + correction.min(0.0) * share;
            self.rate = lower.max(sent).min(self.rate);
        }
        self.answered.push(seen.now, self.rate);
        bandwidth(self.rate)
    }
}
