//! Nimbus' law for a path without elastic cross traffic: hold a short standing queue.

use base::{Bandwidth, Time};

use super::{CongestionControl, Observation, answered::Answered, bandwidth, bits, delay_target};

/// Share of the spare capacity that is taken at once: the paper's α.
const SPARE_GAIN: f64 = 0.8;
/// Share of the excess queue that is drained in a round trip: the paper's β.
const QUEUE_GAIN: f64 = 0.5;
/// The queue is drained when it has not been seen this short (share of the target) ...
const DRAINED: f64 = 0.2;
/// ... for this long.
const DRAIN_EVERY: f64 = 5.0;
/// Losses above this share say that the path takes no more, though no queue shows.
const LOSSY: f64 = 0.02;

/// `BasicDelay` of Goyal et al., *Elasticity Detection*, SIGCOMM 2022, §4: the rate follows the
/// spare capacity and the distance of the queue from its target.
///
/// With S the send rate, R the receive rate, x the round trip, μ the capacity and z = μS/R − S
/// what others send: rate = S + α(μ − z − S) − (βμ/x)(queueing − target).
///
/// Two bundles at one bottleneck keep whatever shares they began with: any S is an equilibrium.
#[derive(Clone, Debug, Default)]
pub struct BasicDelay {
    rate: f64,
    /// Doublings of the increase while the queue stays away.
    haste: f64,
    /// When the haste last changed.
    hastened: Time,
    /// When the queue was last seen (almost) empty.
    drained: Time,
    answered: Answered,
}

impl BasicDelay {
    /// A law that has yet to be started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Change of rate for which the queue's distance from the target asks.
    //= deviation: the queue is the one-way delay beyond its least, not x − x_min, so that a queue
    //= on the way back does not slow the bundle down; and where it stays away, the increase doubles
    //= each round trip, since 5 ms of a long round trip are next to no increase.
    fn correction(&mut self, seen: &Observation, capacity: f64, limited: bool) -> f64 {
        let target = delay_target(seen, capacity);
        let queueing = seen.queueing.as_secs_f64();
        let round_trip = seen.rtt.as_secs_f64().max(0.001);
        let sent = bits(seen.send_rate) * round_trip;
        let lossy = seen.lost.count() as f64 * 8.0 > LOSSY * sent;
        if lossy || queueing > DRAINED * target {
            self.haste = 0.0;
            self.hastened = seen.now;
        } else {
            self.drained = seen.now;
            if !limited {
                self.hastened = seen.now;
            } else if seen.now.since(self.hastened) > seen.rtt {
                self.haste = (self.haste + 1.0).min(6.0);
                self.hastened = seen.now;
            }
        }
        let waited = seen.now.since(self.drained).as_secs_f64();
        //= deviation: a base that is forgotten after a while creeps up with a queue that never
        //= leaves, so that the queue is drained now and then.
        let aim = if waited > DRAIN_EVERY { 0.0 } else { target };
        let excess = ((queueing - aim) / round_trip).clamp(-0.25, 2.0);
        let hurry = if excess < 0.0 { self.haste.exp2() } else { 1.0 };
        let correction = -QUEUE_GAIN * capacity * excess * hurry;
        if lossy { correction.min(0.0) } else { correction }
    }
}

impl CongestionControl for BasicDelay {
    fn start(&mut self, rate: Bandwidth, seen: &Observation) {
        *self = Self { rate: bits(rate), hastened: seen.now, drained: seen.now, ..Self::default() };
    }

    fn on_tick(&mut self, seen: &Observation) -> Bandwidth {
        let (sent, received) = (bits(seen.send_rate), bits(seen.receive_rate));
        if !seen.fresh {
            return bandwidth(self.rate);
        }
        //= deviation: a capacity that is no longer there would turn the gains up.
        let capacity = bits(seen.capacity).clamp(received, 2.0 * received);
        let limited = self.answered.limited(seen);
        let correction = self.correction(seen, capacity, limited);
        if limited {
            let spare = SPARE_GAIN * capacity * (1.0 - sent / received);
            // What the queue asks for within one round trip stays within a factor of two.
            self.rate = (sent + spare + correction).clamp(0.5 * received, 2.0 * received);
        } else {
            // The rates tell what the site offers. The rate it may send at is kept, except that a
            // queue, of whomever, takes from it.
            let share = (seen.elapsed.as_secs_f64() / seen.rtt.as_secs_f64().max(0.001)).min(1.0);
            let lower = self.rate + correction.min(0.0) * share;
            self.rate = lower.max(sent).min(self.rate);
        }
        self.answered.push(seen.now, self.rate);
        bandwidth(self.rate)
    }
}
