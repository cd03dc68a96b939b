//! A rate law that holds the bundle's own queue in the network at a target delay.
//!
//! While the bottleneck has a queue, what arrives at the far end *is* what the network has for the
//! bundle, whatever was sent: that rate, the share, anchors the law, and a part proportional to
//! the error of the queueing delay goes on top. After `BasicDelay` of Nimbus (Goyal et al.,
//! *Elasticity Detection*, SIGCOMM 2022, §4.2).
//!
//! //= deviation: the share is held while the queue may be empty, where the receive rate only says
//! what was sent, and grows faster the longer the queue stays empty; the target is an absolute
//! delay that falls with the square root of the rate, so that of two bundles at one bottleneck the
//! faster one yields (with equal targets any division is an equilibrium); no capacity is needed.

use base::{Bandwidth, Span};

use super::{CongestionControl, Observation, bandwidth};

/// The error is worked off in so many round trips. The loop's lag is about one and a half (a round
/// trip, and half of the window of rates): less would swing.
const HORIZON: f64 = 3.0;
/// The shortest round trip that the law reckons with: rates are taken over no less.
const SHORTEST: f64 = 0.040;
/// The target at [`AT_RATE`].
const TARGET: f64 = 0.004;
const AT_RATE: f64 = 100e6;
/// Bounds of the target, in seconds.
const LEAST_TARGET: f64 = 0.001;
const MOST_TARGET: f64 = 0.008;
/// The target's largest share of the least round trip (spec of the paper's delay control: 0.2 to
/// 0.25).
const SHARE: f64 = 0.2;
/// No target is below the time of so many packets.
const PACKETS: f64 = 2.0;
const PACKET_BITS: f64 = 12_000.0;
/// The rate grows by no more than this a round trip.
const MOST_GROWTH: f64 = 0.25;
/// A queue is drained by no more than this share of the rate.
const MOST_DRAIN: f64 = 0.5;
/// Losses above this share say that the path takes no more, though no queue shows.
const LOSSY: f64 = 0.02;
/// A queue shorter than this may be none.
const EMPTY: f64 = 0.0003;

/// See the module.
#[derive(Debug, Default)]
pub struct DelayTarget {
    /// What the network has for the bundle, bit/s.
    share: f64,
    /// Growth while the queue stays empty, as a multiple of the usual.
    boost: f64,
    /// Since `boost` last grew, in seconds.
    patience: f64,
    /// A target that began above the usual one and decays towards it, in seconds.
    initial: f64,
    /// Until the base delay is measured again, in seconds.
    until_drain: f64,
    /// What is left of a drain, in seconds.
    draining: f64,
    /// How long the last drain was, and the least round trip at its start, in seconds.
    depth: f64,
    least: f64,
    rate: f64,
}

/// The base delay is looked at again this often, in seconds, unless the queue was empty anyway.
const DRAIN_EVERY: f64 = 4.0;
/// A drain sends less by this share ...
const DRAIN: f64 = 0.2;
/// ... for no longer than this, in seconds.
const MOST_DEPTH: f64 = 0.5;

impl DelayTarget {
    /// The queueing delay that is aimed at, in seconds, for a rate in bit/s.
    pub fn target(rate: f64, min_rtt: Span) -> f64 {
        let usual = TARGET * (AT_RATE / rate.max(1.0)).sqrt();
        let most = MOST_TARGET.min(SHARE * min_rtt.as_secs_f64());
        usual.min(most).max(LEAST_TARGET).max(PACKETS * PACKET_BITS / rate.max(1.0))
    }

    fn learn_share(&mut self, seen: &Observation, target: f64, window: f64) {
        let receive = seen.receive_rate.bits_per_sec() as f64;
        let send = seen.send_rate.bits_per_sec() as f64;
        let queueing = seen.queueing.as_secs_f64();
        let queued = queueing > EMPTY.max(target / 8.0);
        let sent = send * window;
        let lossy = seen.lost.count() as f64 * 8.0 > LOSSY * sent.max(1.0);
        if receive > self.share || seen.limited && queued {
            self.share = receive;
        }
        let elapsed = seen.elapsed.as_secs_f64();
        if queueing > target / 2.0 || lossy {
            self.boost = 1.0;
            self.patience = 0.0;
        } else if seen.limited {
            self.patience += elapsed;
            if self.patience > window {
                self.patience = 0.0;
                self.boost = (self.boost * 2.0).min(1e6);
            }
        }
    }

    /// The share of the rate to send while the base delay is looked for.
    fn drain(&mut self, seen: &Observation) -> f64 {
        let elapsed = seen.elapsed.as_secs_f64();
        let queueing = seen.queueing.as_secs_f64();
        let least = seen.min_rtt.as_secs_f64();
        if self.draining > 0.0 {
            self.draining -= elapsed;
            return 1.0 - DRAIN;
        }
        if queueing < EMPTY && self.least <= least {
            self.until_drain = DRAIN_EVERY;
            self.depth = 0.0;
        }
        self.until_drain -= elapsed;
        if self.until_drain <= 0.0 && seen.limited {
            // A drain that found a lower base may not have found the lowest.
            let found = self.depth > 0.0 && self.least - least > EMPTY;
            self.depth = if found { self.depth * 2.0 } else { queueing / DRAIN };
            self.depth = self.depth.clamp(LEAST_TARGET / DRAIN, MOST_DEPTH);
            self.draining = self.depth;
            // Its effect shows a round trip after its end.
            self.until_drain = if found || self.least == 0.0 || self.least > least {
                self.depth + 2.0 * least.max(SHORTEST)
            } else {
                DRAIN_EVERY
            };
            self.least = least;
        }
        1.0
    }
}

impl CongestionControl for DelayTarget {
    fn start(&mut self, rate: Bandwidth, seen: &Observation) {
        let rate = rate.bits_per_sec() as f64;
        *self = Self {
            share: rate,
            rate,
            boost: 1.0,
            initial: seen.queueing.as_secs_f64(),
            until_drain: DRAIN_EVERY,
            ..Self::default()
        };
    }

    fn on_tick(&mut self, seen: &Observation) -> Bandwidth {
        let elapsed = seen.elapsed.as_secs_f64();
        let rtt = seen.min_rtt.as_secs_f64().max(SHORTEST);
        // A queue found at the start is drained gently: it may be others' who would take the room.
        self.initial *= 1.0 - (elapsed / (4.0 * rtt)).min(0.5);
        let target = Self::target(self.rate, seen.min_rtt).max(self.initial);
        if seen.fresh {
            self.learn_share(seen, target, rtt);
        }
        let error = target - seen.queueing.as_secs_f64();
        let step = if error > 0.0 {
            (error / (HORIZON * rtt) * self.boost).min(MOST_GROWTH)
        } else {
            (error / (HORIZON * rtt)).max(-MOST_DRAIN)
        };
        self.rate = self.share * (1.0 + step);
        let drain = self.drain(seen);
        bandwidth(self.rate * drain)
    }
}
