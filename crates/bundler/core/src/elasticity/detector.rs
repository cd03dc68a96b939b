//! The detector: converts samples to a verdict.

use std::collections::VecDeque;

use base::{Bandwidth, RandomStream, Span, Time};
use realfft::num_complex::Complex;

use super::CrossSample;
use super::pulse::{CYCLES, Pulse};
use super::spectrum::{SLOT, Spectrum, WINDOW, room};
use crate::constants::{Elasticity, Stuck, span};

/// Interval of the evaluation of the spectra.
const LOOK_INTERVAL: Span = Span::from_millis(100);

#[derive(Clone, Copy, Debug)]
struct Slot {
    send: f64,
    /// Send rate divided by receive rate.
    ratio: f64,
    /// Queueing delay in seconds.
    queueing: f64,
    /// Target queueing delay in seconds.
    target: f64,
    busy: bool,
    limited: bool,
}

/// Detects whether cross traffic is elastic.
#[derive(Debug)]
pub struct Detector {
    constants: Elasticity,
    stuck: Stuck,
    stream: RandomStream,
    spectrum: Spectrum,
    pulse: Option<Pulse>,
    /// Start of the slots in which only the current pulses were used.
    since: Time,
    slots: VecDeque<Slot>,
    /// The slot after the newest, counted from time zero.
    next: u64,
    looked: Time,
    /// Capacity of the newest sample in bit/s.
    capacity: f64,
    /// Averages over several 100 ms: the queueing delay in seconds, and the share of the time in
    /// which the rate limited packets.
    queueing: f64,
    limited: f64,
    /// Time since which the queue is far above its target.
    stuck_since: Option<Time>,
    send_lines: Vec<Complex<f64>>,
    ratio_lines: Vec<Complex<f64>>,
    eta: Option<f64>,
    /// Average of `eta`.
    steady: f64,
    /// Number of consecutive evaluations that detected each of the frequencies.
    peer_looks: [u32; CYCLES.len()],
    /// Time of the last detection of another bundle's pulses.
    peer: Option<Time>,
    is_elastic: bool,
    confirmed: Time,
}

impl Detector {
    /// A detector that samples its frequencies from `seed`.
    pub fn new(seed: u64, constants: &Elasticity, stuck: &Stuck) -> Self {
        Self {
            constants: *constants,
            stuck: *stuck,
            stream: RandomStream::new(seed, "bundle/pulses"),
            spectrum: Spectrum::new(),
            pulse: None,
            since: Time::ZERO,
            slots: VecDeque::with_capacity(WINDOW),
            next: 0,
            looked: Time::ZERO,
            capacity: 0.0,
            queueing: 0.0,
            limited: 0.0,
            stuck_since: None,
            send_lines: room(),
            ratio_lines: room(),
            eta: None,
            steady: 0.0,
            peer_looks: [0; CYCLES.len()],
            peer: None,
            is_elastic: false,
            confirmed: Time::ZERO,
        }
    }

    /// Starts without evidence on the cross traffic, at the start of control.
    pub fn begin(&mut self, now: Time) {
        let lines = &self.ratio_lines;
        let own = self.pulse.as_ref().map(Pulse::cycles);
        let strength = |cycles: usize| {
            let own = own.is_some_and(|own| own.abs_diff(cycles) < 2);
            if own { f64::MAX } else { lines[cycles].norm() }
        };
        self.pulse = Some(Pulse::start(now, &mut self.stream, strength));
        self.path_changed(now + span(self.constants.settling));
        (self.eta, self.steady, self.is_elastic) = (None, 0.0, false);
    }

    /// Share of `capacity` to add to `rate` now. Its mean over a period is zero; the
    /// sum stays positive.
    pub fn pulse(&mut self, now: Time, rate: Bandwidth, capacity: Bandwidth) -> f64 {
        let Some(pulse) = &self.pulse else { return 0.0 };
        let capacity = capacity.bits_per_sec().max(1) as f64;
        let rate = rate.bits_per_sec() as f64 / capacity;
        let amplitude = self.constants.amplitude.min(self.constants.rate_share * rate);
        pulse.share(now, amplitude)
    }

    /// Adds the sample of the newest acknowledgements; once per tick.
    pub fn observe(&mut self, now: Time, sample: &CrossSample) {
        let slot = sample.at.as_nanos() / SLOT.as_nanos();
        if slot >= self.next {
            self.fill(slot, sample);
        }
        self.watch_queue(now, sample);
        if now.since(self.looked) >= LOOK_INTERVAL {
            self.looked = now;
            self.look(now);
        }
    }

    /// Whether elastic cross traffic was detected since control started.
    pub fn is_elastic(&self) -> bool {
        self.is_elastic
    }

    /// Discards earlier samples after a change of the path.
    pub fn path_changed(&mut self, now: Time) {
        self.slots.clear();
        self.since = now;
        self.stuck_since = None;
    }

    /// Ratio of the response to the pulses to the other variation near their frequencies, in the
    /// newest window with visible pulses.
    pub fn eta(&self) -> Option<f64> {
        self.eta
    }

    /// Writes the sample to its slot, and to omitted slots before it.
    fn fill(&mut self, slot: u64, sample: &CrossSample) {
        let rate = |rate: Bandwidth| rate.bits_per_sec().max(1) as f64;
        let (send, receive) = (rate(sample.send_rate), rate(sample.receive_rate));
        self.capacity = rate(sample.capacity);
        let packets = 2.0 * 1500.0 * 8.0 / self.capacity;
        let queueing = sample.queueing.as_secs_f64();
        let new = Slot {
            send,
            ratio: (send / receive).clamp(0.2, 5.0),
            queueing,
            target: sample.target.as_secs_f64(),
            busy: queueing > self.constants.min_queue.max(packets),
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

    /// Checks whether the queue persists although the bundle reduces its rate.
    fn watch_queue(&mut self, now: Time, sample: &CrossSample) {
        let target = sample.target.as_secs_f64();
        self.queueing += 0.05 * (sample.queueing.as_secs_f64() - self.queueing);
        self.limited += 0.05 * (f64::from(u8::from(sample.limited)) - self.limited);
        let much = (self.stuck.targets * target).max(target + self.stuck.excess);
        if self.limited < 0.5 || self.queueing < much {
            self.stuck_since = None;
            return;
        }
        let stuck = now.since(*self.stuck_since.get_or_insert(now)).as_secs_f64();
        let round_trip = now.since(sample.at).as_secs_f64();
        let factor = if self.has_peer(now) { self.stuck.peer_factor } else { 1.0 };
        let timeout = self.stuck.duration + self.stuck.round_trips * round_trip;
        if stuck > timeout * factor {
            self.is_elastic = true;
        }
    }

    /// Whether another bundle's pulses were recently detected.
    pub fn has_peer(&self, now: Time) -> bool {
        self.peer.is_some_and(|at| now.since(at) < span(self.constants.memory))
    }

    /// Evaluates the newest window.
    fn look(&mut self, now: Time) {
        if now.since(self.confirmed) > span(self.constants.memory) {
            self.eta = None;
        }
        let Some(eta) = self.measure(now) else { return };
        self.eta = Some(eta);
        self.confirmed = now;
        self.steady += (eta - self.steady) / self.constants.looks;
        self.is_elastic |= self.steady > self.constants.threshold && !self.is_at_ease();
    }

    /// Whether delay control keeps the queue near its target.
    fn is_at_ease(&self) -> bool {
        let sum = |what: fn(&Slot) -> f64| self.slots.iter().map(what).sum::<f64>();
        let (queueing, target) = (sum(|slot| slot.queueing), sum(|slot| slot.target));
        queueing < self.constants.short_queue * target
    }

    /// Ratio of the response in the newest window; `None` if the pulses were not visible.
    fn measure(&mut self, now: Time) -> Option<f64> {
        let cycles = self.pulse.as_ref()?.cycles();
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
        self.listen(now, cycles);
        if seen.as_secs_f64() < SLOT.as_secs_f64() * WINDOW as f64 || limited * 2 < WINDOW {
            return None;
        }
        // Elastic flows fill the queue, so they are absent if it is rarely filled.
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
        (along / square).clamp(1.0 / self.constants.capacity_error, self.constants.capacity_error)
    }

    /// Without a queue the ratio is 1, regardless of the cross traffic: such samples are replaced
    /// by those without a response.
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

    /// Detects another bundle's pulses.
    fn listen(&mut self, now: Time, own: usize) {
        let line = |bin: usize| (self.ratio_lines[bin] - self.send_lines[bin]).norm_sqr();
        let above = |bin: usize| line(bin) / beside(bin, line).max(1e-12);
        let power = self.constants.peer_threshold.powi(2);
        for (looks, &bin) in self.peer_looks.iter_mut().zip(&CYCLES) {
            let foreign = bin.abs_diff(own) >= 2;
            let shows = foreign && above(bin) > power && above(2 * bin) > power / 4.0;
            *looks = if shows { *looks + 1 } else { 0 };
        }
        if self.peer_looks.iter().any(|looks| f64::from(*looks) >= self.constants.peer_looks) {
            self.peer = Some(now);
        }
    }

    /// Ratio of the residual of the fit at the pulses' frequencies to the variation near them.
    fn answer(&self, pulses: [usize; 2], factor: f64) -> f64 {
        let rest = |bin: usize| (self.ratio_lines[bin] - self.send_lines[bin] * factor).norm_sqr();
        let (mut answer, mut noise, mut own) = (0.0, 0.0, 1e-12);
        for bin in pulses {
            answer += rest(bin);
            own += (self.send_lines[bin] * factor).norm_sqr();
            noise += beside(bin, rest);
        }
        let strength = (answer / own).sqrt() / self.constants.full_answer;
        (answer / noise.max(1e-12)).sqrt() * strength.min(1.0)
    }
}

/// The power of the variation near a line.
fn beside(bin: usize, power: impl Fn(usize) -> f64) -> f64 {
    let mut beside: Vec<f64> = (3..=9).flat_map(|d| [bin - d, bin + d]).map(power).collect();
    beside.sort_by(f64::total_cmp);
    // The median of an exponential distribution is ln 2 of its mean.
    beside[beside.len() / 2] / std::f64::consts::LN_2
}
