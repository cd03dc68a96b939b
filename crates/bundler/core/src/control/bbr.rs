//! BBR: a model of the path, probed periodically.

use std::collections::VecDeque;

use base::{Bandwidth, Time};

use super::{CongestionControl, Observation, PACKET_BITS, bandwidth, bits};

/// Gains of the rate, one per minimum round trip: probe, drain the queue of the probe, cruise.
const GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Number of round trips over which the maximum receive rate is taken.
const BANDWIDTH_ROUNDS: f64 = 10.0;
/// Maximum bits in flight, as a multiple of bandwidth times minimum round trip.
const WINDOW_GAIN: f64 = 2.0;
/// Maximum interval between probes of the minimum round trip, in seconds.
const PROBE_EVERY: f64 = 10.0;
/// Duration of a probe beyond a round trip, in seconds, with four packets in flight.
const PROBE_FOR: f64 = 0.2;

/// BBR of Cardwell et al., *BBR: Congestion-Based Congestion Control*, CACM 2017, without its
/// start-up: sends at the maximum receive rate of ten round trips, with 25 % more in one of eight
/// round trips and 25 % less in the next.
///
/// Its queue is in the network, so the queue at the sendbox stays short. It exists for comparison.
#[derive(Debug, Default)]
pub struct Bbr {
    /// Receive rates in descending order: (time, bit/s).
    rates: VecDeque<(Time, f64)>,
    phase: usize,
    phase_began: Time,
    /// Time of the last probe, or of the last sample, of the minimum round trip.
    probed: Time,
    probing: bool,
    rate: f64,
}

impl Bbr {
    /// A controller that must be started.
    pub fn new() -> Self {
        Self::default()
    }

    /// The maximum receive rate. The rate of a site without a backlog counts only if it is higher.
    fn bandwidth(&mut self, seen: &Observation) -> f64 {
        let received = bits(seen.receive_rate);
        let window = BANDWIDTH_ROUNDS * seen.rtt.as_secs_f64();
        let best = self.rates.front().map_or(0.0, |first| first.1);
        // During a probe of the round trip, rates are neither added nor removed.
        if self.probing || (!seen.limited && received < best) {
            for sample in &mut self.rates {
                sample.0 =
                    Time::from_nanos(sample.0.as_nanos().saturating_add(seen.elapsed.as_nanos()));
            }
            return best.max(received);
        }
        while self.rates.back().is_some_and(|last| last.1 <= received) {
            self.rates.pop_back();
        }
        self.rates.push_back((seen.now, received));
        while self.rates.len() > 1
            && self.rates.front().is_some_and(|f| seen.now.since(f.0).as_secs_f64() > window)
        {
            self.rates.pop_front();
        }
        self.rates.front().map_or(received, |first| first.1)
    }

    /// Whether this tick is part of a probe of the minimum round trip.
    fn seeks_least(&mut self, seen: &Observation) -> bool {
        let waited = seen.now.since(self.probed).as_secs_f64();
        if self.probing {
            self.probing = waited < PROBE_FOR + seen.min_rtt.as_secs_f64().min(1.0);
            if !self.probing {
                self.probed = seen.now;
            }
        } else if seen.rtt <= seen.min_rtt {
            self.probed = seen.now;
        } else if waited > PROBE_EVERY {
            self.probing = true;
            self.probed = seen.now;
        }
        self.probing
    }
}

impl CongestionControl for Bbr {
    fn start(&mut self, rate: Bandwidth, seen: &Observation) {
        *self = Self {
            rates: VecDeque::from([(seen.now, bits(rate))]),
            phase_began: seen.now,
            probed: seen.now,
            rate: bits(rate),
            ..Self::default()
        };
    }

    fn on_tick(&mut self, seen: &Observation) -> Bandwidth {
        if !seen.fresh {
            return bandwidth(self.rate);
        }
        let best = self.bandwidth(seen);
        let base = seen.min_rtt.as_secs_f64().clamp(0.001, 100.0);
        if self.seeks_least(seen) {
            return bandwidth(4.0 * PACKET_BITS / base);
        }
        if seen.now.since(self.phase_began) > seen.min_rtt {
            self.phase = (self.phase + 1) % GAINS.len();
            self.phase_began = seen.now;
        }
        let window = WINDOW_GAIN * best * base;
        let round_trip = seen.rtt.as_secs_f64().max(base);
        self.rate = (GAINS[self.phase] * best).min(window / round_trip);
        bandwidth(self.rate)
    }
}
