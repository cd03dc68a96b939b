//! Pass-through: beside elastic traffic the end hosts' own congestion control has to compete.
//!
//! The rate is opened until the sendbox keeps no more than a short standing queue, which is there
//! only so that the pulses of [`crate::elasticity`] have something to send. A controller with
//! proportional and integral parts holds it (the Bundler paper, §5.2 and its appendix on the
//! controller): dr/dt = α·(Q - Q₀) + β·dQ/dt with α = 10 s⁻², β = 10 s⁻¹ and Q in bytes, which
//! puts the poles of s² + 10s + 10 at -1.13 and -8.87 s⁻¹.
//!
//! //= deviation: Q₀ is a time at the rate in force, not a number of bytes; each step uses the
//! time that has really passed.

use base::{Bandwidth, Bytes, Span};

/// The standing queue: more than an up-pulse takes (amplitude x period / 2π).
pub const STANDING_QUEUE: Span = Span::from_millis(10);

/// α in s⁻².
const INTEGRAL: f64 = 10.0;

/// β in s⁻¹.
const PROPORTIONAL: f64 = 10.0;

/// The rate stays below this multiple of what arrives: beyond, it is no limit any more.
const CEILING: f64 = 4.0;

/// And below this, whatever arrives: room for flows that begin.
const CEILING_AT_LEAST: f64 = 1e6;

/// The rate stays above this share of what arrives. Less than all of it, or a queue that is too
/// short could never grow.
const FLOOR: f64 = 0.95;

/// A rate above this multiple of what arrives, while the queue is too short, ...
const IDLE: f64 = 1.25;

/// ... comes back within about so many seconds; the integral part alone would take ten.
const IDLE_DECAY: f64 = 1.0;

/// Holds the standing queue.
#[derive(Clone, Copy, Debug)]
pub struct PassThrough {
    /// Bit/s.
    rate: f64,
    /// Bits at the tick before.
    backlog: Option<f64>,
}

impl PassThrough {
    /// Starts from this rate.
    pub fn start(rate: Bandwidth) -> Self {
        Self { rate: rate.bits_per_sec() as f64, backlog: None }
    }

    /// The rate from this tick on, before pulses; `elapsed` since the tick before, with `backlog`
    /// bytes at the sendbox and packets that arrive at the receivebox at `receive_rate`.
    pub fn on_tick(&mut self, elapsed: Span, backlog: Bytes, receive_rate: Bandwidth) -> Bandwidth {
        let queue = backlog.count() as f64 * 8.0;
        let grown = queue - self.backlog.replace(queue).unwrap_or(queue);
        let standing = self.rate * STANDING_QUEUE.as_secs_f64();
        // After a pause the integral part acts as for one long tick, not for all of it.
        let elapsed = elapsed.as_secs_f64().min(0.1);
        self.rate += INTEGRAL * (queue - standing) * elapsed + PROPORTIONAL * grown;
        let arriving = receive_rate.bits_per_sec() as f64;
        if queue < standing / 2.0 {
            self.rate -= (self.rate - IDLE * arriving).max(0.0) * elapsed / IDLE_DECAY;
        }
        let ceiling = (CEILING * arriving).max(CEILING_AT_LEAST);
        self.rate = self.rate.clamp(FLOOR * arriving, ceiling.max(FLOOR * arriving));
        Bandwidth::from_bits_per_sec(self.rate as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Span = Span::from_millis(10);

    /// A sendbox whose site offers `offered(t)` bit/s, over a network that takes `takes` bit/s.
    /// Gives the rate and the backlog in seconds at the rate, each tick.
    fn run(seconds: u64, start: u64, offered: impl Fn(f64) -> f64, takes: f64) -> Vec<(f64, f64)> {
        let mut control = PassThrough::start(Bandwidth::from_bits_per_sec(start));
        let (mut rate, mut backlog, mut arriving) = (start as f64, 0.0f64, 0.0);
        let step = |tick: u64| {
            let sent = (backlog + offered(tick as f64 / 100.0) * 0.01).min(rate * 0.01);
            backlog += offered(tick as f64 / 100.0) * 0.01 - sent;
            arriving += 0.2 * ((sent * 100.0).min(takes) - arriving);
            let bytes = Bytes::new((backlog / 8.0) as u64);
            let receive = Bandwidth::from_bits_per_sec(arriving as u64);
            rate = control.on_tick(TICK, bytes, receive).bits_per_sec() as f64;
            (rate, backlog / rate)
        };
        (0..seconds * 100).map(step).collect()
    }

    #[test]
    fn the_standing_queue_settles_within_seconds() {
        for offered in [12e6, 96e6, 1e9] {
            let trace = run(12, (offered * 0.8) as u64, |_| offered, f64::MAX);
            let (rate, queue) = trace[599];
            assert!((0.95..1.05).contains(&(rate / offered)), "{offered}: {rate}");
            assert!((0.008..0.012).contains(&queue), "{offered}: {queue}");
            let peak = trace.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
            assert!(peak < 1.5 * offered, "{offered}: {peak}");
        }
    }

    #[test]
    fn steps_of_the_offered_rate_are_followed_within_3_s() {
        let offered = |t: f64| if (10.0..20.0).contains(&t) { 20e6 } else { 80e6 };
        let trace = run(30, 80_000_000, offered, f64::MAX);
        for (at, want) in [(9.99, 80e6), (19.99, 20e6), (23.0, 80e6)] {
            let (rate, queue) = trace[(at * 100.0) as usize];
            assert!((0.9..1.15).contains(&(rate / want)), "{at}: {rate}");
            assert!(queue < 0.02, "{at}: {queue}");
        }
    }

    #[test]
    fn an_idle_site_and_an_overload_leave_the_rate_within_bounds() {
        let idle = run(20, 50_000_000, |t| if t < 5.0 { 50e6 } else { 0.0 }, f64::MAX);
        assert!(idle.iter().all(|(rate, _)| rate.is_finite() && *rate <= 210e6));
        // What nothing slows down cannot open the rate beyond all bounds.
        let overload = run(20, 50_000_000, |_| 200e6, 50e6);
        assert!(overload.iter().all(|(rate, _)| *rate <= 201e6));
    }

    #[test]
    fn the_rate_never_falls_much_below_what_arrives() {
        let mut control = PassThrough::start(Bandwidth::from_mbits_per_sec(50));
        for _ in 0..1000 {
            let rate = control.on_tick(TICK, Bytes::ZERO, Bandwidth::from_mbits_per_sec(40));
            assert!(rate.bits_per_sec() >= 38_000_000);
        }
    }
}
