//! Pulses: asymmetric sinusoids with zero mean, added to a bundle's rate.

use std::f64::consts::PI;

use base::{RandomStream, Time};

use super::spectrum::{SLOT, WINDOW};

/// The frequencies in cycles per window of the spectrum: 5.9 to 9.4 Hz. At a distance of two the
/// main lobe of the window separates them; none is near twice another one.
pub(super) const CYCLES: [usize; 10] = [30, 32, 34, 36, 38, 40, 42, 44, 46, 48];

/// A train of pulses at one frequency.
#[derive(Debug)]
pub(super) struct Pulse {
    cycles: usize,
    started: Time,
}

impl Pulse {
    /// Starts a train at one of the four frequencies with the weakest other signals.
    pub(super) fn start(
        now: Time,
        stream: &mut RandomStream,
        strength: impl Fn(usize) -> f64,
    ) -> Self {
        let mut quietest = CYCLES;
        quietest.sort_by(|a, b| strength(*a).total_cmp(&strength(*b)));
        let quiet = if CYCLES.iter().any(|&cycles| strength(cycles) > 0.0) { 4 } else { 10 };
        Self { cycles: quietest[stream.below(quiet) as usize], started: now }
    }

    /// Cycles per window of the spectrum.
    pub(super) fn cycles(&self) -> usize {
        self.cycles
    }

    /// Share to add to the rate. The first quarter of a period adds amplitude x period / 2π to the
    /// queue in the network: 2.1 to 3.4 ms at an eighth of the capacity.
    pub(super) fn share(&self, now: Time, amplitude: f64) -> f64 {
        let period = SLOT.as_secs_f64() * WINDOW as f64 / self.cycles as f64;
        let phase = (now.since(self.started).as_secs_f64() / period).fract();
        if phase < 0.25 {
            amplitude * (4.0 * PI * phase).sin()
        } else {
            -amplitude / 3.0 * (PI * (phase - 0.25) / 0.75).sin()
        }
    }
}
