//! Pulses: asymmetric sinusoids of zero mean on top of a bundle's rate.

use std::f64::consts::PI;

use base::{RandomStream, Time};

use super::Regime;
use super::spectrum::{SLOT, WINDOW};

/// The frequencies, in cycles per window of the spectrum: 5.9 to 9.4 Hz. Two apart, the main lobe
/// of the window keeps them separate; none is near the double of another.
pub(super) const CYCLES: [usize; 10] = [30, 32, 34, 36, 38, 40, 42, 44, 46, 48];

/// The amplitude under delay control, as a share of the capacity. The first quarter of a period
/// adds amplitude x period / 2π to the network's queue: 2.1 to 3.4 ms.
const DELAY_AMPLITUDE: f64 = 0.125;

/// As a share of the rate, at most: a third of it is what the rate loses in the rest of a period.
const DELAY_AMPLITUDE_OF_RATE: f64 = 0.75;

/// The amplitude in pass-through, where the network's queue is full anyway.
const PASS_THROUGH_AMPLITUDE: f64 = 0.25;

/// As a share of the rate, at most: what a standing queue of 10 ms can feed.
const PASS_THROUGH_AMPLITUDE_OF_RATE: f64 = 0.375;

/// A train of pulses at one frequency.
#[derive(Debug)]
pub(super) struct Pulse {
    regime: Regime,
    cycles: usize,
    started: Time,
}

impl Pulse {
    /// Starts a train at one of the four frequencies at which `heard` is least.
    pub(super) fn start(
        now: Time,
        regime: Regime,
        dice: &mut RandomStream,
        heard: impl Fn(usize) -> f64,
    ) -> Self {
        let mut quietest = CYCLES;
        quietest.sort_by(|a, b| heard(*a).total_cmp(&heard(*b)));
        let quiet = if CYCLES.iter().any(|&cycles| heard(cycles) > 0.0) { 4 } else { 10 };
        Self { regime, cycles: quietest[dice.below(quiet) as usize], started: now }
    }

    /// For which regime.
    pub(super) fn regime(&self) -> Regime {
        self.regime
    }

    /// Cycles per window of the spectrum.
    pub(super) fn cycles(&self) -> usize {
        self.cycles
    }

    /// What to add to `rate`; both are shares of the capacity.
    pub(super) fn share(&self, now: Time, rate: f64) -> f64 {
        let period = SLOT.as_secs_f64() * WINDOW as f64 / self.cycles as f64;
        let phase = (now.since(self.started).as_secs_f64() / period).fract();
        let (most, of_rate) = match self.regime {
            Regime::Delay => (DELAY_AMPLITUDE, DELAY_AMPLITUDE_OF_RATE),
            Regime::PassThrough => (PASS_THROUGH_AMPLITUDE, PASS_THROUGH_AMPLITUDE_OF_RATE),
        };
        let amplitude = most.min(of_rate * rate);
        if phase < 0.25 {
            amplitude * (4.0 * PI * phase).sin()
        } else {
            -amplitude / 3.0 * (PI * (phase - 0.25) / 0.75).sin()
        }
    }
}
