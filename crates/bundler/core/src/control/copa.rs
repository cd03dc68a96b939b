//! Copa: a rate that is inversely proportional to the queue that it causes.

use std::collections::VecDeque;

use base::{Bandwidth, Time};

use super::{
    CongestionControl, Observation, PACKET_BITS, answered::Answered, bandwidth, bits,
    random_loss::RandomLoss,
};
use crate::constants::{Constants, Copa as CopaConstants, Target};

/// Rate at which the target delay is the constant `delay`.
const AT_RATE: f64 = 100e6;

/// Copa of Arun and Balakrishnan, NSDI 2018, §2: a target rate of 1/(δ d), where d is the delay of
/// the persistent queue, and a window that moves towards it by v/δ packets per round trip; the
/// velocity v doubles while the direction is constant.
///
/// Like the original it empties the queue about every five round trips, which shows the minimum
/// delay, and bundles at one bottleneck converge to equal shares. It has no mode for competition
/// with elastic traffic: the sendbox then releases the bundle.
//= deviation: 1/δ is not a number of packets but the packets queued within a target delay, which
//= decreases with the rate to the power 0.4. Eight packets at 1 Gbit/s are 0.1 ms, which is not
//= measurable; with the same delay at every rate any division of a link would be an equilibrium.
#[derive(Debug, Default)]
pub struct Copa {
    constants: CopaConstants,
    target: Target,
    /// Bits in flight without a queue on the return path.
    window: f64,
    /// Minimum round trip of the window, in seconds.
    base: f64,
    velocity: f64,
    up: bool,
    /// Number of round trips with a constant direction.
    held: u32,
    /// Start of the current round trip, and the window then.
    began: Time,
    window_then: f64,
    /// Recent queueing delays: (time, seconds).
    recent: VecDeque<(Time, f64)>,
    /// Seconds since the last acknowledgement that changed the window.
    waited: f64,
    answered: Answered,
    random_loss: RandomLoss,
    rate: f64,
}

/// The minimum round trip in seconds, with a lower bound.
fn base_of(seen: &Observation) -> f64 {
    seen.min_rtt.as_secs_f64().clamp(0.001, 100.0)
}

impl Copa {
    /// A controller that must be started.
    pub fn new(constants: &Constants) -> Self {
        Self { constants: constants.copa, target: constants.target, ..Self::default() }
    }

    /// The queueing delay at which this rate is in equilibrium, in seconds.
    fn aim(&self, rate: f64, seen: &Observation) -> f64 {
        // Each unit of weight counts as one bundle.
        let unit = rate / f64::from(seen.weight.max(1));
        let usual = self.constants.delay * (AT_RATE / unit).powf(self.constants.exponent);
        let max = (self.target.rtt_share * base_of(seen)).min(self.target.max_delay);
        // A smooth minimum still decreases with the rate, which equal shares require.
        let smooth = (usual.powi(-4) + max.powi(-4)).powf(-0.25);
        smooth.max(self.target.min_delay(rate))
    }

    /// The persistent queue: the minimum delay of the last half round trip.
    fn standing(&mut self, seen: &Observation) -> f64 {
        self.recent.push_back((seen.now, seen.standing.as_secs_f64()));
        let half = seen.rtt.as_nanos() / 2;
        while self.recent.front().is_some_and(|first| seen.now.since(first.0).as_nanos() > half) {
            self.recent.pop_front();
        }
        let least = self.recent.iter().map(|sample| sample.1).fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { seen.standing.as_secs_f64() }
    }

    /// Once per round trip: increases the velocity while the direction is constant.
    fn turn(&mut self, seen: &Observation) {
        if seen.now.since(self.began) < seen.rtt {
            return;
        }
        let up = self.window > self.window_then;
        if up == self.up {
            self.held += 1;
            if f64::from(self.held) >= self.constants.velocity_rounds {
                self.velocity = (self.velocity * 2.0).min(self.constants.max_velocity);
            }
        } else {
            self.slow(up);
        }
        self.began = seen.now;
        self.window_then = self.window;
    }

    fn slow(&mut self, up: bool) {
        self.up = up;
        self.held = 0;
        self.velocity = 1.0;
    }
}

impl CongestionControl for Copa {
    fn start(&mut self, rate: Bandwidth, seen: &Observation) {
        let rate = bits(rate);
        // The rate was carried with the existing queue: the window is the part without it.
        let base = base_of(seen);
        let window = rate * base;
        *self = Self {
            window,
            base,
            velocity: 1.0,
            began: seen.now,
            window_then: window,
            rate,
            constants: self.constants,
            target: self.target,
            ..Self::default()
        };
    }

    fn on_tick(&mut self, seen: &Observation) -> Bandwidth {
        self.waited += seen.elapsed.as_secs_f64();
        if !seen.fresh {
            return bandwidth(self.rate);
        }
        let queue = self.standing(seen);
        let base = base_of(seen);
        // A route change affects the data in flight, not the rate of the bottleneck.
        self.window *= base / self.base;
        self.window_then *= base / self.base;
        self.base = base;
        let round_trip = base + queue.min(100.0);
        let received = bits(seen.receive_rate);
        let rate = self.window / round_trip;
        let usual = self.aim(rate.max(1.0), seen);
        let aim = usual + self.constants.jitter_margin * seen.noise.as_secs_f64();
        let sent = bits(seen.send_rate) * seen.rtt.as_secs_f64();
        let limited = self.answered.limited(seen, self.constants.limited_share);
        let loss = seen.lost.count() as f64 * 8.0 / sent.max(1.0);
        let capacity = bits(seen.capacity);
        if bits(seen.send_rate) <= capacity {
            self.random_loss.observe(seen.now, loss);
        }
        let random = self.random_loss.share(seen.now, &self.constants);
        let proven = self.constants.proven * capacity / (1.0 - random);
        let up = queue < aim && (loss <= self.constants.max_loss || rate < proven);
        if up != self.up {
            self.slow(up);
        } else if up && queue > self.constants.near_aim * aim {
            self.velocity = 1.0;
        }
        // Without a backlog it is unknown whether the network could carry more.
        if limited || !up {
            let CopaConstants { max_change, min_reaction, .. } = self.constants;
            let step = self.velocity * (self.constants.step * usual * rate).max(PACKET_BITS)
                / self.window.max(1.0);
            let passed = (self.waited / round_trip.max(min_reaction)).min(1.0);
            let change = step.min(max_change) * passed;
            let factor = if up { 1.0 + change } else { 1.0 - change };
            let drain = ((self.constants.drain * queue).max(usual) / base.max(min_reaction))
                .min(max_change);
            let floor = (received * base * (1.0 - drain)).min(self.window);
            let room =
                if queue > self.constants.long_queue * aim { base + aim } else { 2.0 * round_trip };
            let most = if limited { (received * room).max(floor) } else { self.window };
            self.window = (self.window * factor).clamp(floor, most).max(2.0 * PACKET_BITS);
        }
        self.waited = 0.0;
        self.turn(seen);
        self.rate = self.window / round_trip;
        self.answered.push(seen.now, self.rate);
        bandwidth(self.rate)
    }
}
