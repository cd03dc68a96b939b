//! Spectra of the newest 5.12 s.

use std::f64::consts::TAU;
use std::fmt;
use std::sync::Arc;

use base::Span;
use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

/// Number of samples in a window.
pub(super) const WINDOW: usize = 512;

/// Interval of the samples.
pub(super) const SLOT: Span = Span::from_millis(10);

/// Transforms windows of real samples.
pub(super) struct Spectrum {
    transform: Arc<dyn RealToComplex<f64>>,
    /// Hann window: limits the lines of the spectrum to two bins on either side.
    taper: Vec<f64>,
    samples: Vec<f64>,
    scratch: Vec<Complex<f64>>,
}

impl Spectrum {
    pub(super) fn new() -> Self {
        let transform = RealFftPlanner::new().plan_fft_forward(WINDOW);
        let taper = |i| (1.0 - (TAU * (i as f64 + 0.5) / WINDOW as f64).cos()) / WINDOW as f64;
        Self {
            taper: (0..WINDOW).map(taper).collect(),
            samples: transform.make_input_vec(),
            scratch: transform.make_scratch_vec(),
            transform,
        }
    }

    /// The lines of `samples`, whose number is that of the window: a wave of amplitude 1 gives a
    /// line of height 1. Mean and trend are removed.
    pub(super) fn lines(&mut self, samples: impl Iterator<Item = f64>, out: &mut [Complex<f64>]) {
        for (slot, sample) in self.samples.iter_mut().zip(samples) {
            *slot = sample;
        }
        let middle = (WINDOW - 1) as f64 / 2.0;
        let mean = self.samples.iter().sum::<f64>() / WINDOW as f64;
        let (mut along, mut square) = (0.0, 0.0);
        for (i, sample) in self.samples.iter().enumerate() {
            along += (i as f64 - middle) * sample;
            square += (i as f64 - middle).powi(2);
        }
        for (i, (sample, taper)) in self.samples.iter_mut().zip(&self.taper).enumerate() {
            *sample = (*sample - mean - along / square * (i as f64 - middle)) * taper * 2.0;
        }
        self.transform
            .process_with_scratch(&mut self.samples, out, &mut self.scratch)
            .expect("all buffers have the lengths that the plan asked for");
    }
}

/// Buffer for the lines of a window.
pub(super) fn room() -> Vec<Complex<f64>> {
    vec![Complex::new(0.0, 0.0); WINDOW / 2 + 1]
}

impl fmt::Debug for Spectrum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spectrum").finish_non_exhaustive()
    }
}
