//! Copa: a rate that is inversely proportional to the queue it makes.

use std::collections::VecDeque;

use base::{Bandwidth, Time};

use super::{
    CongestionControl, Observation, PACKET_BITS, answered::Answered, bandwidth, bits,
    random_loss::RandomLoss,
};

/// The queue that one packet of Copa's 1/δ stands for at [`AT_RATE`], in seconds.
const QUEUE: f64 = 0.0019;
const AT_RATE: f64 = 100e6;
/// Seconds that it approaches at the lowest rates.
const LONGEST: f64 = 0.005;
/// How the queue falls with the rate: as this power of it.
const STEEPNESS: f64 = 0.4;
/// The queue's largest share of the least round trip.
const SHARE: f64 = 0.25;
/// Of 1/δ, what the window changes in a round trip.
const STEP: f64 = 0.5;
/// Round trips in one direction before the velocity doubles (the paper's three).
const PATIENCE: u32 = 3;
const MOST_VELOCITY: f64 = 64.0;
/// An aim reached to this share takes the velocity away.
const SHOWN: f64 = 0.5;
/// Rates are not known any sooner, in seconds, however short the round trip.
const REACTION: f64 = 0.03;
/// A queue of so many aims is there beyond doubt: the window then fits the receive rate at once.
const LONG: f64 = 4.0;
/// The window changes by no more than this share of itself in a round trip.
const MOST_CHANGE: f64 = 0.5;
/// With jitter the queue aimed at is longer by this multiple of its standard deviation.
const NOISE_AIM: f64 = 1.5;
/// The standing queue is the least of no more than so many nanoseconds.
const LONGEST_HALF: u64 = 1_000_000_000;
/// Losses above this share say that the path takes no more, though no queue shows.
const LOSSY: f64 = 0.02;
/// Beyond random losses the rate still grows to this multiple of what the path has delivered.
const PROVEN: f64 = 1.02;

/// Copa of Arun and Balakrishnan, NSDI 2018, §2: a target rate of 1/(δ d), d the standing queue's
/// delay, and a window that moves towards it by v/δ packets a round trip, where the velocity v
/// doubles while the direction holds.
///
/// Like the original it lets the queue run empty every five round trips or so, which shows the
/// least delay anew, and bundles at one bottleneck come to equal shares. There is no mode for
/// competition with elastic traffic: the sendbox steps aside then.
//= deviation: 1/δ is not a number of packets but what waits in an aim of so many milliseconds,
//= which falls with the rate to the power 0.4. Eight packets of a bundle of 1 Gbit/s are 0.1 ms,
//= which nobody can measure; equal milliseconds would make any division of a link an equilibrium.
#[derive(Debug, Default)]
pub struct Copa {
    /// Bits in flight without any queue on the way back.
    window: f64,
    /// The least round trip that the window is for, in seconds.
    base: f64,
    velocity: f64,
    up: bool,
    /// Round trips for which the direction has held.
    held: u32,
    /// When the current round trip began, and the window then.
    began: Time,
    window_then: f64,
    /// Recent queueing delays: (when, seconds).
    recent: VecDeque<(Time, f64)>,
    /// Seconds since the last acknowledgement that was acted upon.
    unheard: f64,
    answered: Answered,
    random_loss: RandomLoss,
    rate: f64,
}

/// The least round trip in seconds, something sensible at least.
fn base_of(seen: &Observation) -> f64 {
    seen.min_rtt.as_secs_f64().clamp(0.001, 100.0)
}

impl Copa {
    /// A law that has yet to be started.
    pub fn new() -> Self {
        Self::default()
    }

    /// The queueing delay at which this rate is the right one, in seconds.
    fn aim(rate: f64, seen: &Observation) -> f64 {
        // Each unit of weight is like a bundle of its own.
        let unit = rate / f64::from(seen.weight.max(1));
        let usual = QUEUE * (AT_RATE / unit).powf(STEEPNESS);
        let most = (SHARE * base_of(seen)).min(LONGEST);
        // A lesser of the two that still falls with the rate, as equal shares need.
        let smooth = (usual.powi(-4) + most.powi(-4)).powf(-0.25);
        smooth.max((2.0 * PACKET_BITS / rate).min(0.1))
    }

    /// The standing queue: the least delay of the last half round trip.
    fn standing(&mut self, seen: &Observation) -> f64 {
        self.recent.push_back((seen.now, seen.standing.as_secs_f64()));
        let half = (seen.rtt.as_nanos() / 2).min(LONGEST_HALF);
        while self.recent.front().is_some_and(|first| seen.now.since(first.0).as_nanos() > half) {
            self.recent.pop_front();
        }
        let least = self.recent.iter().map(|sample| sample.1).fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { seen.standing.as_secs_f64() }
    }

    /// Once a round trip: a direction that holds makes it faster.
    fn turn(&mut self, seen: &Observation) {
        if seen.now.since(self.began) < seen.rtt {
            return;
        }
        let up = self.window > self.window_then;
        if up == self.up {
            self.held += 1;
            if self.held >= PATIENCE {
                self.velocity = (self.velocity * 2.0).min(MOST_VELOCITY);
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
        // The rate was carried with the queue that there was: the window is without it.
        let base = base_of(seen);
        let window = rate * base;
        *self = Self {
            window,
            base,
            velocity: 1.0,
            began: seen.now,
            window_then: window,
            rate,
            ..Self::default()
        };
    }

    fn on_tick(&mut self, seen: &Observation) -> Bandwidth {
        self.unheard += seen.elapsed.as_secs_f64();
        if !seen.fresh {
            return bandwidth(self.rate);
        }
        let queue = self.standing(seen);
        let base = base_of(seen);
        // Another route changes what is in flight, not what the bottleneck takes.
        self.window *= base / self.base;
        self.window_then *= base / self.base;
        self.base = base;
        let round_trip = base + queue.min(100.0);
        let received = bits(seen.receive_rate);
        let rate = self.window / round_trip;
        let usual = Self::aim(rate.max(1.0), seen);
        let aim = usual + NOISE_AIM * seen.noise.as_secs_f64();
        let sent = bits(seen.send_rate) * seen.rtt.as_secs_f64();
        let limited = self.answered.limited(seen);
        let loss = seen.lost.count() as f64 * 8.0 / sent.max(1.0);
        let capacity = bits(seen.capacity);
        if bits(seen.send_rate) <= capacity {
            self.random_loss.observe(seen.now, loss);
        }
        let proven = PROVEN * capacity / (1.0 - self.random_loss.share(seen.now));
        let up = queue < aim && (loss <= LOSSY || rate < proven);
        if up != self.up {
            self.slow(up);
        } else if up && queue > SHOWN * aim {
            self.velocity = 1.0;
        }
        // Without a backlog there is no saying whether the network takes more.
        if limited || !up {
            let step =
                self.velocity * (STEP * usual * rate).max(PACKET_BITS) / self.window.max(1.0);
            let passed = (self.unheard / round_trip.max(REACTION)).min(1.0);
            let change = step.min(MOST_CHANGE) * passed;
            let factor = if up { 1.0 + change } else { 1.0 - change };
            let drain = ((queue / 3.0).max(usual) / base.max(REACTION)).min(MOST_CHANGE);
            let floor = (received * base * (1.0 - drain)).min(self.window);
            let room = if queue > LONG * aim { base + aim } else { 2.0 * round_trip };
            let most = if limited { (received * room).max(floor) } else { self.window };
            self.window = (self.window * factor).clamp(floor, most).max(2.0 * PACKET_BITS);
        }
        self.unheard = 0.0;
        self.turn(seen);
        self.rate = self.window / round_trip;
        self.answered.push(seen.now, self.rate);
        bandwidth(self.rate)
    }
}
