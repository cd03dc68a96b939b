//! The detector: samples in, a verdict out.

use std::collections::VecDeque;

use base::{Bandwidth, RandomStream, Span, Time};
use realfft::num_complex::Complex;

use super::pulse::{CYCLES, Pulse};
use super::spectrum::{SLOT, Spectrum, WINDOW, room};
use super::{CrossSample, Regime, Verdict};

/// Spectra are looked at this often.
const LOOK: Span = Span::from_millis(100);

/// What makes cross traffic elastic, or keeps it so.
#[derive(Debug)]
struct Threshold {
    /// The least that the answer to the pulses exceeds other variation by, ...
    eta: f64,
    /// ... averaged over about so many looks.
    looks: f64,
    /// An answer this strong, as a share of the bundle's own pulses, counts in full.
    answer: f64,
}

/// To enter (Nimbus: 2.25).
const ENTER: Threshold = Threshold { eta: 3.0, looks: 4.0, answer: 0.3 };

/// To leave (Nimbus: 2): one flow beside ten answers with a tenth of the pulses.
const LEAVE: Threshold = Threshold { eta: 1.1, looks: 50.0, answer: 0.1 };

/// What a verdict begins with, in thresholds, so that it takes time to turn.
const CONFIDENCE: f64 = 3.0;

/// After a change of regime rates swing for a while, which is no answer to pulses and hides it.
const SETTLE: Span = Span::from_secs(2);

/// How long a verdict holds at least.
const HOLD: Span = Span::from_secs(3);

/// A verdict that nothing has confirmed for this long is none.
const FORGET: Span = Span::from_secs(15);

/// A queue that stays this many times above its target ...
const STUCK_TARGETS: f64 = 3.0;

/// ... and at least so many seconds above it, though the rate follows the target, ...
const STUCK_EXCESS: f64 = 0.010;

/// ... for so many seconds ...
const STUCK: f64 = 2.5;

/// ... and round trips, which a law needs to drain what came at once, is others' doing: they take
/// whatever the bundle leaves.
const STUCK_ROUND_TRIPS: f64 = 8.0;

/// Another bundle in pass-through takes what is left, too, until it finds that nobody is left to
/// compete with: worth waiting for.
const STUCK_WITH_PEER: f64 = 5.0;

/// Delay control is tried again after this long, for two bundles in pass-through may each take the
/// other for elastic; ...
const PROBE: Span = Span::from_secs(60);

/// ... much sooner if another bundle is heard, ...
const PROBE_WITH_PEER: Span = Span::from_secs(20);

/// ... and after a failure not before twice the time, up to this.
const PROBE_AT_MOST: Span = Span::from_secs(240);

/// A line this many times above the variation beside it, and its double half as much, is another
/// bundle's pulses.
const PEER: f64 = 4.0;

/// So many looks in a row, as pulses keep their frequency and what flows do of themselves does not.
const PEER_LOOKS: u32 = 40;

/// A law that keeps the queue within so many times its target has nothing to fear: another bundle
/// answers pulses too, but keeps the queue short.
const AT_EASE: f64 = 1.5;

/// How far the capacity may be off, upwards and downwards.
const CAPACITY_ERROR: f64 = 2.2;

/// The queue that is taken for one: less may be noise.
const QUEUE: Span = Span::from_millis(1);

#[derive(Clone, Copy, Debug)]
struct Slot {
    send: f64,
    /// Send rate by receive rate.
    ratio: f64,
    /// In seconds.
    queueing: f64,
    /// The queueing aimed at, in seconds.
    target: f64,
    busy: bool,
    limited: bool,
}

/// Finds out whether cross traffic is elastic.
#[derive(Debug)]
pub struct Detector {
    dice: RandomStream,
    spectrum: Spectrum,
    pulse: Option<Pulse>,
    /// Where the slots begin that have seen nothing but the present pulses.
    since: Time,
    slots: VecDeque<Slot>,
    /// The slot after the newest, counted from time zero.
    next: u64,
    looked: Time,
    /// The newest sample's, in bit/s.
    capacity: f64,
    /// Averages over some tenths of a second: the queueing in seconds, the share of the time in
    /// which the rate held packets back.
    queueing: f64,
    limited: f64,
    /// Since when the queue has stayed far above its target.
    stuck_since: Option<Time>,
    send_lines: Vec<Complex<f64>>,
    ratio_lines: Vec<Complex<f64>>,
    eta: Option<f64>,
    /// `eta` averaged, as the verdict in force wants it.
    steady: f64,
    /// How many looks in a row have shown each of the frequencies.
    heard: [u32; CYCLES.len()],
    /// When another bundle's pulses were last heard.
    peer: Option<Time>,
    /// How long a verdict of elastic traffic stands.
    probe: Span,
    verdict: Verdict,
    changed: Time,
    confirmed: Time,
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
            queueing: 0.0,
            limited: 0.0,
            stuck_since: None,
            send_lines: room(),
            ratio_lines: room(),
            eta: None,
            steady: 0.0,
            heard: [0; CYCLES.len()],
            peer: None,
            probe: PROBE,
            verdict: Verdict::Unknown,
            changed: Time::ZERO,
            confirmed: Time::ZERO,
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
        if self.pulse.as_ref().is_none_or(|pulse| pulse.regime() != regime) {
            let lines = &self.ratio_lines;
            let own = self.pulse.as_ref().map(Pulse::cycles);
            let heard = |cycles: usize| {
                let own = own.is_some_and(|own| own.abs_diff(cycles) < 2);
                if own { f64::MAX } else { lines[cycles].norm() }
            };
            self.pulse = Some(Pulse::start(now, regime, &mut self.dice, heard));
            self.since = now + SETTLE;
            self.stuck_since = None;
        }
        let Some(pulse) = &self.pulse else { return 0.0 };
        let capacity = capacity.bits_per_sec().max(1) as f64;
        pulse.share(now, rate.bits_per_sec() as f64 / capacity)
    }

    /// Takes what the newest acknowledgements tell; once a tick.
    pub fn observe(&mut self, now: Time, sample: &CrossSample) {
        let slot = sample.at.as_nanos() / SLOT.as_nanos();
        if slot >= self.next {
            self.fill(slot, sample);
        }
        self.watch_queue(now, sample);
        if now.since(self.looked) >= LOOK {
            self.looked = now;
            self.look(now);
        }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The path has changed: what was seen before tells nothing of the present.
    pub fn begin_anew(&mut self, now: Time) {
        self.slots.clear();
        self.since = now;
        self.stuck_since = None;
    }

    /// Somebody else has found that a queue stays though the bundle gives way.
    pub fn alarm(&mut self, now: Time) {
        self.confirmed = now;
        self.conclude(now, Verdict::Elastic);
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
        let packets = 2.0 * 1500.0 * 8.0 / self.capacity;
        let queueing = sample.queueing.as_secs_f64();
        let new = Slot {
            send,
            ratio: (send / receive).clamp(0.2, 5.0),
            queueing,
            target: sample.target.as_secs_f64(),
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

    /// Whether the queue stays though the bundle gives way.
    fn watch_queue(&mut self, now: Time, sample: &CrossSample) {
        let target = sample.target.as_secs_f64();
        self.queueing += 0.05 * (sample.queueing.as_secs_f64() - self.queueing);
        self.limited += 0.05 * (f64::from(u8::from(sample.limited)) - self.limited);
        let controlled = self.regime() == Some(Regime::Delay) && target > 0.0;
        let much = (STUCK_TARGETS * target).max(target + STUCK_EXCESS);
        if !controlled || self.limited < 0.5 || self.queueing < much {
            self.stuck_since = None;
            return;
        }
        let stuck = now.since(*self.stuck_since.get_or_insert(now)).as_secs_f64();
        let round_trip = now.since(sample.at).as_secs_f64();
        let peer = self.hears_peer(now);
        let patience = STUCK + STUCK_ROUND_TRIPS * round_trip;
        if stuck > patience * if peer { STUCK_WITH_PEER } else { 1.0 } {
            self.confirmed = now;
            self.conclude(now, Verdict::Elastic);
        }
    }

    /// Whether another bundle's pulses were heard of late.
    pub fn hears_peer(&self, now: Time) -> bool {
        self.peer.is_some_and(|heard| now.since(heard) < FORGET)
    }

    fn regime(&self) -> Option<Regime> {
        self.pulse.as_ref().map(Pulse::regime)
    }

    /// Looks at the newest window and draws conclusions.
    fn look(&mut self, now: Time) {
        if now.since(self.confirmed) > FORGET {
            self.conclude(now, Verdict::Unknown);
            self.eta = None;
        }
        let probe = if self.hears_peer(now) { PROBE_WITH_PEER } else { self.probe };
        let stands = now.since(self.changed) < probe;
        if self.verdict == Verdict::Elastic && !stands {
            self.probe = PROBE_AT_MOST.min(self.probe + self.probe);
            self.conclude(now, Verdict::Inelastic);
        }
        let threshold = if self.verdict == Verdict::Elastic { LEAVE } else { ENTER };
        let Some(eta) = self.measure(now, threshold.answer) else { return };
        self.eta = Some(eta);
        self.confirmed = now;
        self.steady += (eta - self.steady) / threshold.looks;
        let held = self.verdict == Verdict::Unknown || now.since(self.changed) >= HOLD;
        if held {
            let elastic = self.steady > threshold.eta && !self.at_ease();
            self.conclude(now, if elastic { Verdict::Elastic } else { Verdict::Inelastic });
        }
    }

    fn conclude(&mut self, now: Time, verdict: Verdict) {
        if verdict == self.verdict {
            return;
        }
        let elastic = verdict == Verdict::Elastic;
        if elastic && now.since(self.changed) > PROBE {
            self.probe = PROBE;
        }
        self.verdict = verdict;
        self.changed = now;
        self.steady = if elastic { CONFIDENCE * LEAVE.eta } else { 0.0 };
    }

    /// Whether delay control holds the queue about where it wants it.
    fn at_ease(&self) -> bool {
        let sum = |what: fn(&Slot) -> f64| self.slots.iter().map(what).sum::<f64>();
        let (queueing, target) = (sum(|slot| slot.queueing), sum(|slot| slot.target));
        self.regime() == Some(Regime::Delay) && queueing < AT_EASE * target
    }

    /// The strength of the answer in the newest window, less if weaker than `full`; `None` if the
    /// pulses were not to be seen.
    fn measure(&mut self, now: Time, full: f64) -> Option<f64> {
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
        Some(self.answer(pulses, factor, full))
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

    /// Listens for another bundle's pulses.
    fn listen(&mut self, now: Time, own: usize) {
        let line = |bin: usize| (self.ratio_lines[bin] - self.send_lines[bin]).norm_sqr();
        let above = |bin: usize| line(bin) / beside(bin, line).max(1e-12);
        let power = PEER * PEER;
        for (looks, &bin) in self.heard.iter_mut().zip(&CYCLES) {
            let foreign = bin.abs_diff(own) >= 2;
            let shows = foreign && above(bin) > power && above(2 * bin) > power / 4.0;
            *looks = if shows { *looks + 1 } else { 0 };
        }
        if self.heard.iter().any(|looks| *looks >= PEER_LOOKS) {
            self.peer = Some(now);
        }
    }

    /// What the fit leaves over at the pulses' frequencies, by what there is beside them.
    fn answer(&self, pulses: [usize; 2], factor: f64, full: f64) -> f64 {
        let rest = |bin: usize| (self.ratio_lines[bin] - self.send_lines[bin] * factor).norm_sqr();
        let (mut answer, mut noise, mut own) = (0.0, 0.0, 1e-12);
        for bin in pulses {
            answer += rest(bin);
            own += (self.send_lines[bin] * factor).norm_sqr();
            noise += beside(bin, rest);
        }
        let strength = (answer / own).sqrt() / full;
        (answer / noise.max(1e-12)).sqrt() * strength.min(1.0)
    }
}

/// The power of the variation beside a line.
fn beside(bin: usize, power: impl Fn(usize) -> f64) -> f64 {
    let mut beside: Vec<f64> = (3..=9).flat_map(|d| [bin - d, bin + d]).map(power).collect();
    beside.sort_by(f64::total_cmp);
    // The median of an exponential distribution is ln 2 of its mean.
    beside[beside.len() / 2] / std::f64::consts::LN_2
}
