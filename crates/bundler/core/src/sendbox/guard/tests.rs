//! A bundle with noisy rates, beside traffic that takes or does not take the capacity
//! that control leaves.

use base::{Bandwidth, Bytes, RandomStream};

use super::*;

const TICK: Span = Span::from_millis(10);
const ROUND_TRIP: Span = Span::from_millis(60);
const QUEUE: Span = Span::from_millis(40);
/// Decrease of the queueing delay per tick of a test.
const DRAINED: Span = Span::from_millis(1);
const LOST: f64 = 0.05;
/// Usual rate of the bundle in bit/s.
const USED: f64 = 30e6;

/// A guard with measured rates that vary by `noise`. `gets` is the rate of the bundle at a
/// time in seconds, with or without control. Packets are queued for [`QUEUE`]; during a test
/// the queue drains unless control lowers the bundle's rate. Then other traffic takes [`LOST`]
/// of a trial's rate.
struct Bench<F> {
    guard: Guard,
    stream: RandomStream,
    noise: f64,
    now: Time,
    gets: F,
    rate: f64,
    queue: Span,
}

impl<F: Fn(f64, bool) -> f64> Bench<F> {
    fn new(seed: u64, noise: f64, gets: F) -> Self {
        Self::with(&Constants::default(), seed, noise, gets)
    }

    fn with(constants: &Constants, seed: u64, noise: f64, gets: F) -> Self {
        let mut guard = Guard::new(constants);
        guard.begin_control(Time::ZERO, USED);
        let stream = RandomStream::new(seed, "guard");
        Self { guard, stream, noise, now: Time::ZERO, gets, rate: USED, queue: QUEUE }
    }

    /// `trial`: send rate of the trial.
    fn seen(&mut self, open: bool, trial: Option<f64>) -> Observation {
        self.now += TICK;
        let at = self.now.as_nanos() as f64 / 1e9;
        let held = (self.gets)(at, false);
        let most = trial.map_or(f64::INFINITY, |rate| held.max((1.0 - LOST) * rate));
        let mean = (self.gets)(at, open).min(most);
        // Rates are over one round trip, and vary with it.
        let newest = mean * (1.0 + self.noise * self.stream.normal());
        self.rate += (newest - self.rate) * 0.3;
        let rate = Bandwidth::from_bits_per_sec(self.rate.max(1.0) as u64);
        Observation {
            now: self.now,
            elapsed: TICK,
            rtt: ROUND_TRIP,
            min_rtt: ROUND_TRIP,
            queueing: self.queue,
            standing: Span::ZERO,
            noise: Span::ZERO,
            send_rate: rate,
            receive_rate: rate,
            lost: Bytes::ZERO,
            capacity: rate,
            backlog: Bytes::new(100_000),
            weight: 1,
            limited: true,
            fresh: true,
        }
    }

    /// Runs for this many seconds. Returns the times of releases of the bundle and the
    /// number of trials.
    fn run(&mut self, seconds: f64) -> (Vec<f64>, usize) {
        let (mut releases, mut trials, mut trial) = (Vec::new(), 0, None);
        let end = self.now + span(seconds);
        while self.now < end {
            let released = self.guard.is_released();
            let seen = self.seen(trial.is_some() || released, trial);
            if released {
                let at = self.now.as_nanos() as f64 / 1e9;
                let elastic = (self.gets)(at, true) > (self.gets)(at, false);
                match self.guard.released(&seen, 0.003) {
                    Released::Open => self.queue = QUEUE,
                    Released::Test(_) if elastic => {}
                    Released::Test(_) => self.queue = self.queue.saturating_sub(DRAINED),
                    Released::Control(_) => {
                        self.queue = QUEUE;
                        self.guard.begin_control(self.now, self.rate);
                    }
                }
                continue;
            }
            let rates = |_| {
                Some(Rates {
                    sent_at: seen.now,
                    send: seen.send_rate,
                    receive: seen.receive_rate,
                    lost: Bytes::ZERO,
                    limited: true,
                })
            };
            let action = self.guard.control(&seen, 0.003, rates);
            let before = trial;
            trial = match action {
                Action::Trial(rate) => Some(rate),
                _ => None,
            };
            trials += usize::from(trial.is_some() && before.is_none());
            if action == Action::Release {
                self.guard.release(self.now);
                releases.push(self.now.as_nanos() as f64 / 1e9);
            }
        }
        (releases, trials)
    }
}

#[test]
fn no_false_alarm_in_an_hour_of_noise() {
    for noise in [0.05, 0.1] {
        let (releases, trials) = Bench::new(1, noise, |_, _| USED).run(3600.0);
        assert!(releases.is_empty(), "noise {noise}: {releases:?}, {trials} trials");
    }
}

#[test]
fn slower_path_is_not_harm() {
    let slower = |at: f64, _| if at > 10.0 { 0.5 * USED } else { USED };
    let mut false_alarms = 0;
    for seed in 0..50 {
        let (releases, trials) = Bench::new(seed, 0.1, slower).run(60.0);
        assert!((1..12).contains(&trials), "seed {seed}: {trials} trials");
        false_alarms += usize::from(!releases.is_empty());
    }
    assert!(false_alarms <= 5, "{false_alarms} of 50 runs");
}

#[test]
fn harm_is_found_within_3_s() {
    // Control delivers a third of the rate without control.
    let harm = |at: f64, open: bool| if at > 10.0 && !open { USED / 3.0 } else { USED };
    let mut missed = 0;
    for seed in 0..200 {
        let (releases, _) = Bench::new(seed, 0.1, harm).run(15.0);
        missed += usize::from(releases.first().is_none_or(|at| !(10.0..13.0).contains(at)));
    }
    assert!(missed <= 4, "{missed} of 200 runs");
}

#[test]
fn tests_of_steady_harm_back_off() {
    let harm = |_, open: bool| if open { USED } else { USED / 3.0 };
    let mut bench = Bench::new(1, 0.05, harm);
    let (releases, _) = bench.run(600.0);
    // Tests find the queue of other traffic: the bundle stays released.
    assert_eq!(releases.len(), 1, "{releases:?}");
    assert!(bench.guard.is_released());
    assert!((bench.guard.wait - Constants::default().wait_max).abs() < 1e-9);
}

#[test]
fn control_returns_when_it_does_no_harm() {
    for end in [5.0, 20.0, 60.0] {
        let harm = |at: f64, open: bool| if at < end && !open { USED / 3.0 } else { USED };
        let mut bench = Bench::new(1, 0.05, harm);
        let (releases, _) = bench.run(end);
        assert_eq!(releases.len(), 1, "{releases:?}");
        let (again, _) = bench.run(end + 20.0);
        assert!(again.is_empty(), "{again:?}");
        assert!(!bench.guard.is_released(), "{end}");
        let first = Constants::default().wait;
        assert!((bench.guard.wait - first).abs() < 1e-9, "confirmed");
    }
}

#[test]
fn the_first_queue_is_tested() {
    for (elastic, controls) in [(false, true), (true, false)] {
        let gets = |_, open: bool| if elastic && !open { USED / 3.0 } else { USED };
        let mut bench = Bench::new(1, 0.05, gets);
        bench.guard = Guard::new(&Constants::default());
        let seen = bench.seen(true, None);
        assert!(matches!(bench.guard.first_test(&seen, 0.003, USED), Released::Test(_)));
        bench.run(3.0);
        assert_ne!(bench.guard.is_released(), controls);
    }
}

#[test]
fn a_bundle_joins_the_test_of_another() {
    let mut bench = Bench::new(1, 0.0, |_, _| USED);
    bench.guard.release(Time::ZERO);
    (bench.guard.next_test, bench.guard.failed.1) = (Time::MAX, USED);
    bench.now = Time::ZERO + span(Constants::default().wait);
    let seen = bench.seen(true, None);
    assert_eq!(bench.guard.released(&seen, 0.003), Released::Open);
    bench.queue = Span::from_millis(25);
    let seen = bench.seen(true, None);
    assert!(matches!(bench.guard.released(&seen, 0.003), Released::Test(_)));
}

/// False detections in 10 minutes of noise, and how many of ten cases of harm are not detected
/// within 5 s.
fn errors(constants: &Constants) -> (usize, usize) {
    let (alarms, _) = Bench::with(constants, 1, 0.1, |_, _| USED).run(600.0);
    let harm = |at: f64, open: bool| if at > 10.0 && !open { USED / 3.0 } else { USED };
    let is_missed = |seed| {
        let (releases, _) = Bench::with(constants, seed, 0.1, harm).run(15.0);
        releases.is_empty()
    };
    (alarms.len(), (0..10).filter(|seed| is_missed(*seed)).count())
}

/// Each constant of the guard halved and doubled.
#[test]
fn detection_depends_on_few_constants() {
    let mut sensitive = Vec::new();
    for constant in crate::constants::Constants::LIST {
        if !constant.name.starts_with("guard.") {
            continue;
        }
        for factor in [0.5, 2.0] {
            let [min, max] = constant.range;
            let value = (factor * constant.value).clamp(min, max);
            let mut all = crate::constants::Constants::default();
            all.set(constant.name, value).unwrap();
            let (alarms, missed) = errors(&all.guard);
            if alarms + missed > 0 {
                sensitive.push((constant.name, value, alarms, missed));
            }
        }
    }
    assert_eq!(errors(&Constants::default()), (0, 0));
    let names: Vec<&str> = sensitive.iter().map(|(name, ..)| *name).collect();
    let expected = ["guard.deficit", "guard.trial_rate", "guard.gain", "guard.carried"];
    assert_eq!(names, expected, "{sensitive:?}");
}
