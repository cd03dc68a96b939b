//! The detector: samples in, a verdict out.

use std::collections::VecDeque;

use base::{Bandwidth, RandomStream, Span, Time};
use realfft::num_complex::Complex;

use super::pulse::Pulse;
use super::spectrum::{SLOT, Spectrum, WINDOW, room};
use super::{CrossSample, Regime, Verdict};

/// Spectra are looked at this often.
const LOOK: Span = Span::from_millis(100);

/// Above this, cross traffic is elastic (Nimbus: 2.25) ...
const ENTER: f64 = 3.0;

/// ... and below this it no longer is (Nimbus: 2).
const LEAVE: f64 = 2.0;

/// An answer this strong, as a share of the bundle's own pulses, counts in full.
const ANSWER: f64 = 0.3;

/// How many looks in a row must agree.
const AGREE: u32 = 5;

/// How long a verdict holds at least.
const HOLD: Span = Span::from_secs(3);

/// A verdict that nothing has confirmed for this long is none.
const FORGET: Span = Span::from_secs(15);

/// How far the capacity may be off, upwards and downwards.
const CAPACITY_ERROR: f64 = 2.2;

/// The queue that is taken for one: less may be noise.
const QUEUE: Span = Span::from_millis(1);

#[derive(Clone, Copy, Debug)]
struct Slot {
    send: f64,
    /// Send rate by receive rate.
    ratio: f64,
    queueing: f64,
    busy: bool,
    limited: bool,
}

/// Finds out whether cross traffic is elastic.
#[derive(Debug)]
pub struct Detector {
    dice: RandomStream,
    spectrum: Spectrum,
    pulse: Option<(Regime, Pulse)>,
    /// Where the slots begin that have seen nothing but the present pulses.
    since: Time,
    slots: VecDeque<Slot>,
    /// The slot after the newest, counted from time zero.
    next: u64,
    looked: Time,
    /// The newest sample's.
    capacity: f64,
    target: f64,
    send_lines: Vec<Complex<f64>>,
    ratio_lines: Vec<Complex<f64>>,
    eta: Option<f64>,
    verdict: Verdict,
    changed: Time,
    confirmed: Time,
    agreed: u32,
}

impl Detector {
    /// A detector that draws its frequencies from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            dice: RandomStream::new(seed, "bundle/pulses"),
            spectrum: Spectrum::new(),
            pulse: None,
            since: Time::ZERO,
            slots: VecDeque::with_capacity(WINDOW),
            next: 0,
            looked: Time::ZERO,
            capacity: 0.0,
            target: 0.0,
            send_lines: room(),
            ratio_lines: room(),
            eta: None,
            verdict: Verdict::Unknown,
            changed: Time::ZERO,
            confirmed: Time::ZERO,
            agreed: 0,
        }
    }

    /// What to add to `rate` now, as a share of `capacity`. The mean over a period is zero; the
    /// sum stays positive.
    pub fn pulse(
        &mut self,
        now: Time,
        regime: Regime,
        rate: Bandwidth,
        capacity: Bandwidth,
    ) -> f64 {
        if self.pulse.as_ref().is_none_or(|(before, _)| *before != regime) {
            let lines = &self.ratio_lines;
            let own = self.pulse.as_ref().map(|(_, pulse)| pulse.cycles());
            let heard = |cycles: usize| {
                let own = own.is_some_and(|own| own.abs_diff(cycles) < 2);
                if own { f64::MAX } else { lines[cycles].norm() }
            };
            self.pulse = Some((regime, Pulse::start(now, &mut self.dice, heard)));
            self.since = now;
            self.agreed = 0;
        }
        let Some((_, pulse)) = &self.pulse else { return 0.0 };
        let capacity = capacity.bits_per_sec().max(1) as f64;
        pulse.share(now, rate.bits_per_sec() as f64 / capacity)
    }

    /// Takes what the newest acknowledgements tell; once a tick.
    pub fn observe(&mut self, now: Time, sample: &CrossSample) {
        let slot = sample.at.as_nanos() / SLOT.as_nanos();
        if slot >= self.next {
            self.fill(slot, sample);
        }
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            self.look(now);
        }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// How much stronger the answer to the pulses is than whatever else goes on near their
    /// frequencies, of the newest window in which the pulses were seen.
    pub fn eta(&self) -> Option<f64> {
        self.eta
    }

    /// Puts the sample into its slot and those left out before it.
    fn fill(&mut self, slot: u64, sample: &CrossSample) {
        let rate = |rate: Bandwidth| rate.bits_per_sec().max(1) as f64;
        let (send, receive) = (rate(sample.send_rate), rate(sample.receive_rate));
        self.capacity = rate(sample.capacity);
        self.target = sample.target.as_secs_f64();
        let packets = 2.0 * 1500.0 * 8.0 / self.capacity;
        let queueing = sample.queueing.as_secs_f64();
        let new = Slot {
            send,
            ratio: (send / receive).clamp(0.2, 5.0),
            queueing,
            busy: queueing > QUEUE.as_secs_f64().max(packets),
            limited: sample.limited,
        };
        if slot - self.next >= WINDOW as u64 {
            self.slots.clear();
            self.next = slot;
        }
        while self.next <= slot {
            if self.slots.len() == WINDOW {
                self.slots.pop_front();
            }
            self.slots.push_back(new);
            self.next += 1;
        }
    }

    /// Looks at the newest window and draws conclusions.
    fn look(&mut self, now: Time) {
        if now.since(self.confirmed) > FORGET {
            self.verdict = Verdict::Unknown;
            self.eta = None;
        }
        let Some(eta) = self.measure() else { return };
        self.eta = Some(eta);
        self.confirmed = now;
        let found = match self.verdict {
            Verdict::Elastic if eta > LEAVE => Verdict::Elastic,
            _ if eta > ENTER => Verdict::Elastic,
            _ => Verdict::Inelastic,
        };
        self.agreed = if found == self.verdict { 0 } else { self.agreed + 1 };
        let held = self.verdict == Verdict::Unknown || now.since(self.changed) >= HOLD;
        if self.agreed >= AGREE && held {
            self.verdict = found;
            self.changed = now;
            self.agreed = 0;
        }
    }

    /// The strength of the answer in the newest window; `None` if the pulses were not to be seen.
    fn measure(&mut self) -> Option<f64> {
        let cycles = self.pulse.as_ref()?.1.cycles();
        let seen = Time::from_nanos(self.next * SLOT.as_nanos()).since(self.since);
        if self.slots.len() < WINDOW {
            return None;
        }
        let count = |what: fn(&Slot) -> bool| self.slots.iter().filter(|slot| what(slot)).count();
        let (limited, busy) = (count(|slot| slot.limited), count(|slot| slot.busy));
        let capacity = self.capacity;
        let sends = self.slots.iter().map(|slot| slot.send / capacity);
        self.spectrum.lines(sends, &mut self.send_lines);
        let ratios = self.slots.iter().map(|slot| slot.ratio);
        self.spectrum.lines(ratios, &mut self.ratio_lines);
        if seen.as_secs_f64() < SLOT.as_secs_f64() * WINDOW as f64 || limited * 10 < WINDOW * 7 {
            return None;
        }
        // A flow that fills queues fills this one.
        if busy * 2 < WINDOW {
            return Some(0.0);
        }
        let pulses = [cycles, 2 * cycles];
        let mut factor = 0.0;
        for _ in 0..4 {
            factor = self.fit(pulses);
            self.impute(factor);
        }
        Some(self.answer(pulses, factor))
    }

    /// The real factor between the pulses in the send rate and those in the ratio.
    fn fit(&self, pulses: [usize; 2]) -> f64 {
        let (mut along, mut square) = (0.0, 1e-12);
        for bin in pulses {
            along += (self.ratio_lines[bin] * self.send_lines[bin].conj()).re;
            square += self.send_lines[bin].norm_sqr();
        }
        (along / square).clamp(1.0 / CAPACITY_ERROR, CAPACITY_ERROR)
    }

    /// Without a queue the ratio is one, whatever the cross traffic does: supposes that it did
    /// nothing there.
    fn impute(&mut self, factor: f64) {
        let capacity = self.capacity;
        let rest = |slot: &Slot| slot.ratio - factor * slot.send / capacity;
        let busy = self.slots.iter().filter(|slot| slot.busy);
        let (sum, count) = busy.fold((0.0, 0.0), |(sum, n), slot| (sum + rest(slot), n + 1.0));
        let mean = sum / f64::max(count, 1.0);
        let ratios = self
            .slots
            .iter()
            .map(|slot| if slot.busy { slot.ratio } else { mean + factor * slot.send / capacity });
        self.spectrum.lines(ratios, &mut self.ratio_lines);
    }

    /// What the fit leaves over at the pulses' frequencies, by what there is beside them.
    fn answer(&self, pulses: [usize; 2], factor: f64) -> f64 {
        let rest = |bin: usize| (self.ratio_lines[bin] - self.send_lines[bin] * factor).norm_sqr();
        let (mut answer, mut noise, mut own) = (0.0, 0.0, 1e-12);
        for bin in pulses {
            answer += rest(bin);
            own += (self.send_lines[bin] * factor).norm_sqr();
            let mut beside: Vec<f64> = (3..=9).flat_map(|d| [bin - d, bin + d]).map(rest).collect();
            beside.sort_by(f64::total_cmp);
            // The median of an exponential distribution is ln 2 of its mean.
            noise += beside[beside.len() / 2] / std::f64::consts::LN_2;
        }
        let strength = (answer / own).sqrt() / ANSWER;
        (answer / noise.max(1e-12)).sqrt() * strength.min(1.0)
    }
}
