//! The control loop of one bundle: state, rate, pulses.

use std::ops::ControlFlow;

use base::{Bandwidth, Bytes, Ratio, Span, Time};

use super::guard::{Action, Guard, Limits, Released};
use super::standing::{Finding, Standing};
use super::state::{Cause, Reason, State};
use super::status::Counters;
use crate::control::{CongestionControl, Observation, bandwidth, delay_target};
use crate::elasticity::{CrossSample, Detector, Regime, Verdict};
use crate::measure::{Arrived, Match, Measure, Rates};
use crate::multipath::Multipath;
use crate::pass_through::PassThrough;
use crate::settings::{Mode, Settings};

/// From one look at the measurements to the next, as in the paper's prototype.
pub(super) const TICK: Span = Span::from_millis(10);
/// Cross traffic is watched over so much time's packets.
const CROSS_WINDOW: Span = Span::from_millis(20);
/// Silence of the receivebox is borne for so long, or so many round trips: an answer may be on its
/// way, and all is to be open after 1 s.
const SILENCE: Span = Span::from_millis(900);
const SILENCE_ROUND_TRIPS: u64 = 6;
/// The receivebox is asked again when it has been silent for so long, or for two round trips.
const QUIET: Span = Span::from_millis(200);
/// Silence means nothing unless so many answers are missing.
const MISSING: usize = 8;
/// A queue of the bundle's own is one this many times as long as is aimed at, ...
const OWN_QUEUE: f64 = 1.5;
/// ... and after a restart of control, what waited at the sendbox leaves this many times as fast
/// as the path took before.
const FLUSH: f64 = 2.0;
/// How long the round trip of a heartbeat counts.
const REPORTS: Span = Span::from_secs(30);
const FULL_PACKET_BITS: f64 = 12_000.0;
/// How long the least delays are remembered while the rate makes them show, and otherwise.
const MEMORY: Span = Span::from_secs(10);
const LONG_MEMORY: Span = Span::from_secs(60);
/// The bundle's first queue is tested after so long: slow starts that meet it are over then.
const FIRST_QUEUE: Span = Span::from_millis(500);
/// Time constant of what arrives while the bundle's first queue shows, in seconds.
const OPENED: f64 = 0.5;
/// The sendbox may hold no less than this.
const SHORTEST_ROOM: Span = Span::from_millis(200);
const LEAST_ROOM: Bytes = Bytes::new(200 * 1538);
/// While nothing is held back, a queue that never changes looks like a long path. A dip of the rate
/// this often, ...
const DIP_EVERY: Span = Span::from_secs(10);
/// ... this deep, for a round trip, tells the two apart.
const DIP: f64 = 0.75;
/// Only a bundle that sends about as much as it ever does can have such a queue.
const DIP_LOAD: f64 = 0.8;
/// A path that has become slower to this share is another, as far as cross traffic is concerned.
const CHANGED: f64 = 0.7;
/// Control begins a little below what was found, so that the queue drains meanwhile.
const DRAIN: f64 = 0.9;
/// In delay control the rate never falls below this share of what the path has carried: less would
/// not be seen beside others (the paper's prototype has the same floor).
const FLOOR: f64 = 0.05;

/// Whether the guard against harm can do something.
fn is_guarded(settings: &Settings) -> bool {
    settings.mode == Mode::Enforce && settings.elasticity
}

/// See the module.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) state: State,
    pub(super) since: Time,
    pub(super) measure: Measure,
    pub(super) rebases: u64,
    law: Box<dyn CongestionControl>,
    pass_through: PassThrough,
    detector: Option<Detector>,
    multipath: Option<Multipath>,
    /// The rate in force, pulses included, while there is one.
    rate: Option<Bandwidth>,
    ticked: Time,
    heard_at: Time,
    /// Heartbeats sent since the receivebox was last heard.
    asked: usize,
    /// The least round trip of a heartbeat lately, and when it was.
    least_report: Option<(Time, Span)>,
    /// The capacity that pulses were last sized by, or more.
    pulsed_at: Bandwidth,
    /// For how long the bundle's own queue has shown, and the most that arrived meanwhile.
    pressure: Span,
    found: Bandwidth,
    /// What has arrived on average, in bit/s.
    opened: f64,
    /// Until then acknowledgements tell of packets that left before the rate was in force.
    settled_at: Time,
    standing: Standing,
    guard: Guard,
    /// When the rate last dipped while nothing was held back, and until when.
    dipped: (Time, Time),
}

impl Loop {
    pub(super) fn new(now: Time, settings: &Settings) -> Self {
        let mut measure = Measure::default();
        measure.remember(now, LONG_MEMORY);
        Self {
            state: State::Learning,
            since: now,
            measure,
            rebases: 0,
            law: settings.control.build(),
            pass_through: PassThrough::start(settings.floor),
            detector: settings.elasticity.then(|| Detector::new(settings.seed)),
            multipath: settings.multipath.then(Multipath::new),
            rate: None,
            ticked: now,
            heard_at: now,
            asked: 0,
            least_report: None,
            pulsed_at: Bandwidth::ZERO,
            pressure: Span::ZERO,
            found: Bandwidth::ZERO,
            opened: 0.0,
            settled_at: now,
            standing: Standing::default(),
            guard: Guard::new(&Limits::USUAL),
            dipped: (now, now),
        }
    }

    /// The loop goes on after a rest.
    pub(super) fn rested(&mut self, now: Time) {
        self.ticked = now;
    }

    /// A heartbeat asks for an answer.
    pub(super) fn asked(&mut self) {
        self.asked += 1;
    }

    /// Something genuine has come from the receivebox. Answers with a reason to begin anew.
    pub(super) fn heard(&mut self, now: Time) -> Option<Cause> {
        self.heard_at = now;
        self.asked = 0;
        (self.state == State::FailOpen).then_some(Cause::Heard)
    }

    /// A heartbeat was answered after a round trip.
    pub(super) fn reported(&mut self, now: Time, rtt: Span) {
        let old = |at: Time| now.since(at) > REPORTS;
        if self.least_report.is_none_or(|(at, least)| rtt <= least || old(at)) {
            self.least_report = Some((now, rtt));
        }
    }

    pub(super) fn acknowledged(&mut self, now: Time, arrived: &Arrived, counters: &mut Counters) {
        let sent_at = match self.measure.acknowledged(now, arrived) {
            Match::InOrder { sent_at } => {
                counters.acks += 1;
                sent_at
            }
            Match::Late { sent_at } => {
                counters.late_acks += 1;
                sent_at
            }
            Match::Unknown => {
                counters.unmatched_acks += 1;
                return;
            }
        };
        if let (Some(multipath), Some(min_rtt)) = (&mut self.multipath, self.measure.min_rtt()) {
            multipath.observe(now, sent_at, arrived.received_at, min_rtt);
        }
    }

    /// Takes the counters of a receivebox that began anew.
    pub(super) fn restart(&mut self) {
        self.measure.restart();
        if let Some(multipath) = &mut self.multipath {
            multipath.restart();
        }
    }

    /// One turn. Answers with the state to change to, and why.
    pub(super) fn tick(
        &mut self,
        now: Time,
        backlog: Bytes,
        settings: &Settings,
    ) -> Option<(State, Cause)> {
        let elapsed = now.since(self.ticked);
        let fresh = self.measure.heard_at().is_some_and(|heard| heard > self.ticked);
        self.ticked = now;
        if self.is_silent(now) {
            return (self.state != State::FailOpen).then_some((State::FailOpen, Cause::Silence));
        }
        let window = self.measure.window();
        let (rates, delays) = (self.measure.rates(window)?, self.measure.delays()?);
        let capacity = self.measure.capacity().unwrap_or(rates.receive);
        let seen = Observation {
            now,
            elapsed,
            rtt: delays.rtt,
            min_rtt: delays.min_rtt,
            queueing: delays.queueing,
            standing: delays.standing,
            noise: delays.noise,
            send_rate: rates.send,
            receive_rate: rates.receive,
            lost: rates.lost,
            capacity,
            backlog,
            weight: settings.weight,
            limited: rates.limited,
            fresh,
        };
        if let Some(multipath) = &self.multipath {
            let disabled = State::Disabled(Reason::ImbalancedPaths);
            if multipath.imbalanced() && self.state != disabled {
                return (settings.mode != Mode::Observe).then_some((disabled, Cause::Imbalance));
            }
            if !multipath.imbalanced() && self.state == disabled {
                return Some((State::Learning, Cause::Balance));
            }
        }
        match self.state {
            State::Learning => self.learn(&seen, &rates, settings),
            State::Delay => self.delay(&seen, &rates, settings),
            State::PassThrough => self.pass(&seen),
            State::Disabled(_) | State::FailOpen => None,
        }
    }

    /// Begins another state.
    pub(super) fn enter(&mut self, now: Time, to: State) {
        self.state = to;
        self.since = now;
        self.pressure = Span::ZERO;
        self.standing = Standing::default();
        if matches!(to, State::Learning | State::Disabled(_) | State::FailOpen) {
            self.rate = None;
        }
        if to == State::FailOpen {
            self.measure.restart();
        }
        self.measure.forget_spread();
        self.measure.remember(
            now,
            match to {
                State::Delay => MEMORY,
                // Nothing makes the queue run empty here.
                _ => LONG_MEMORY,
            },
        );
    }

    /// What the sendbox may hold: two round trips' worth, and enough for many flows.
    pub(super) fn room(&self) -> Option<Bytes> {
        let (capacity, rtt) = (self.measure.capacity()?, self.measure.min_rtt()?);
        let worth = capacity.bytes_in(SHORTEST_ROOM.max(rtt + rtt));
        Some(worth.max(LEAST_ROOM))
    }

    /// The rate that is to be in force while there is a backlog, or none.
    pub(super) fn rate(&self, backlog: bool, settings: &Settings) -> Option<Bandwidth> {
        let within = |rate: Bandwidth| {
            let most = settings.ceiling.unwrap_or(Bandwidth::from_bits_per_sec(u64::MAX));
            rate.max(settings.floor).min(most)
        };
        match (self.rate, self.measure.capacity()) {
            (Some(rate), _) => Some(within(rate)),
            // What waited under the old rate must not fall upon the network in one burst.
            (None, Some(capacity)) if backlog => {
                let flush = if self.guard.is_released() { Limits::USUAL.flush } else { FLUSH };
                let rate = capacity.bits_per_sec() as f64 * flush;
                Some(within(Bandwidth::from_bits_per_sec(rate as u64)))
            }
            (None, _) => settings.ceiling,
        }
    }

    /// The rate and the round trip that epochs are cut by.
    pub(super) fn epochs_of(&self) -> Option<(Bandwidth, Span)> {
        let rates = self.measure.rates(self.measure.window())?;
        Some((rates.send, self.measure.min_rtt()?))
    }

    pub(super) fn out_of_order(&self) -> Option<Ratio> {
        self.multipath.as_ref().map(Multipath::fraction)
    }

    pub(super) fn elasticity(&self) -> Option<f64> {
        self.detector.as_ref().and_then(Detector::eta)
    }

    /// Whether an answer is overdue, though not yet worrying.
    pub(super) fn is_quiet(&self, now: Time) -> bool {
        let rtt = self.measure.delays().map_or(Span::ZERO, |delays| delays.rtt);
        now.since(self.heard_at) > QUIET.max(rtt + rtt)
    }

    fn is_silent(&self, now: Time) -> bool {
        let rtt = self.measure.delays().map_or(Span::ZERO, |delays| delays.rtt);
        let borne = SILENCE.max(Span::from_nanos(rtt.as_nanos() * SILENCE_ROUND_TRIPS));
        if now.since(self.heard_at) < borne {
            return false;
        }
        let due = Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() * 2));
        self.measure.outstanding(self.heard_at, due) + self.asked >= MISSING
    }

    /// Unshaped, until the bundle builds a queue.
    fn learn(
        &mut self,
        seen: &Observation,
        rates: &Rates,
        settings: &Settings,
    ) -> Option<(State, Cause)> {
        if settings.mode == Mode::Observe {
            return None;
        }
        let rate = rates.receive.bits_per_sec() as f64;
        let target = delay_target(seen, rate);
        // A heartbeat may have gone before there was a queue; it was a shorter packet, too.
        let short = Span::from_nanos((1e6 + 4e9 * FULL_PACKET_BITS / rate.max(1.0)) as u64);
        let least = self.least_report.map_or(seen.min_rtt, |(_, rtt)| rtt + short);
        let least = least.min(seen.min_rtt);
        if self.guard.is_released() {
            let released = self.guard.released(seen, target);
            self.rate = match released {
                Released::Test(rate) => Some(bandwidth(rate)),
                Released::Open | Released::Control(_) => None,
            };
            return match released {
                Released::Open => Some((State::PassThrough, Cause::Others)),
                Released::Test(_) => None,
                Released::Control(_) => {
                    Some(self.begin_control(seen, self.found.max(rates.receive)))
                }
            };
        }
        let beyond = seen.rtt.saturating_sub(least).as_secs_f64();
        if seen.queueing.as_secs_f64().max(beyond) < OWN_QUEUE * target {
            self.pressure = Span::ZERO;
            self.found = Bandwidth::ZERO;
            self.dip(seen, rate);
            return None;
        }
        let first = self.pressure == Span::ZERO;
        let share = if first { 1.0 } else { seen.elapsed.as_secs_f64() / OPENED };
        self.opened += (rate - self.opened) * share.min(1.0);
        self.pressure += seen.elapsed;
        // While there is a queue, what arrives just now is what the path takes.
        let now = self.measure.arrival_rate(CROSS_WINDOW).unwrap_or(rates.receive);
        self.found = self.found.max(now);
        let guarded = is_guarded(settings);
        let half = Span::from_nanos(self.measure.window().as_nanos() / 2);
        if self.pressure < if guarded { FIRST_QUEUE } else { half } {
            return None;
        }
        if least < seen.min_rtt {
            self.measure.assume_base(seen.now, least);
        }
        let rate = self.found.max(rates.receive);
        if guarded && let Released::Test(rate) = self.guard.first_test(seen, target, self.opened) {
            self.rate = Some(bandwidth(rate));
            return None;
        }
        let beyond = Span::from_nanos((beyond * 1e9) as u64);
        let queueing = seen.queueing.max(beyond);
        Some(self.begin_control(&Observation { min_rtt: least, queueing, ..*seen }, rate))
    }

    /// Delay control begins at this rate.
    fn begin_control(&mut self, seen: &Observation, rate: Bandwidth) -> (State, Cause) {
        self.settled_at = seen.now + seen.rtt + self.measure.window();
        self.law.start(rate, seen);
        self.rate = Some(Bandwidth::from_bits_per_sec((rate.bits_per_sec() as f64 * DRAIN) as u64));
        self.guard.begin_control(seen.now, rate.bits_per_sec() as f64);
        (State::Delay, Cause::Queue)
    }

    fn dip(&mut self, seen: &Observation, rate: f64) {
        let (last, until) = self.dipped;
        if seen.now < until {
            return;
        }
        self.rate = None;
        let loaded = rate >= DIP_LOAD * seen.capacity.bits_per_sec() as f64;
        if seen.now.since(last.max(self.since)) >= DIP_EVERY && loaded {
            self.rate = Some(Bandwidth::from_bits_per_sec((rate * DIP) as u64));
            self.dipped = (seen.now, seen.now + self.measure.window());
        }
    }

    fn delay(
        &mut self,
        seen: &Observation,
        rates: &Rates,
        settings: &Settings,
    ) -> Option<(State, Cause)> {
        if seen.now < self.settled_at {
            return None;
        }
        let target = delay_target(seen, seen.send_rate.bits_per_sec().max(1) as f64);
        if is_guarded(settings)
            && let ControlFlow::Break(next) = self.guard(seen, target)
        {
            return next;
        }
        let most = self.measure.most_capacity().unwrap_or(seen.capacity);
        let window = self.measure.window();
        match self.standing.watch(seen, target, (most, window), rates) {
            Some(Finding::LongerPath) => {
                self.rebases += 1;
                self.measure.rebase(seen.now);
                self.law.start(seen.receive_rate, &Observation { queueing: Span::ZERO, ..*seen });
            }
            Some(Finding::OthersQueue) => {
                if let Some(detector) = &mut self.detector {
                    detector.alarm(seen.now);
                    self.compete(most);
                    return Some((State::PassThrough, Cause::Standing));
                }
            }
            None => {}
        }
        if let Some(rate) = self.standing.rate() {
            self.rate = Some(rate);
            return None;
        }
        let floor = Bandwidth::from_bits_per_sec((most.bits_per_sec() as f64 * FLOOR) as u64);
        let rate = self.law.on_tick(seen).max(floor);
        let target = delay_target(seen, rate.bits_per_sec() as f64);
        self.rate = Some(self.pulsed(seen, rate, Regime::Delay, target));
        if self.verdict() == Verdict::Elastic {
            self.compete(most);
            return Some((State::PassThrough, Cause::Elastic));
        }
        None
    }

    /// Whether control goes on. If not, the state to change to, if any.
    fn guard(&mut self, seen: &Observation, target: f64) -> ControlFlow<Option<(State, Cause)>> {
        let peer = self.detector.as_ref().is_some_and(|detector| detector.hears_peer(seen.now));
        let action = self.guard.control(seen, target, peer, |span| self.measure.rates(span));
        let (rate, seen) = match action {
            Action::Control => return ControlFlow::Continue(()),
            Action::Release => {
                self.rate = None;
                return ControlFlow::Break(Some((State::PassThrough, Cause::Harm)));
            }
            Action::Trial(rate) => {
                self.rate = Some(bandwidth(rate));
                return ControlFlow::Break(None);
            }
            Action::LongerPath(rate) => {
                self.rebases += 1;
                self.measure.rebase(seen.now);
                (rate, Observation { queueing: Span::ZERO, ..*seen })
            }
            Action::Resume(rate) => (rate * DRAIN, *seen),
        };
        self.law.start(bandwidth(rate), &seen);
        self.settled_at = seen.now + seen.rtt;
        self.rate = Some(bandwidth(rate));
        ControlFlow::Break(None)
    }

    /// Begins pass-through. The rate has collapsed beside the flow that was just noticed.
    fn compete(&mut self, most: Bandwidth) {
        let half = Bandwidth::from_bits_per_sec(most.bits_per_sec() / 2);
        self.pass_through = PassThrough::start(self.rate.unwrap_or(half).max(half));
    }

    fn pass(&mut self, seen: &Observation) -> Option<(State, Cause)> {
        if self.guard.is_released() {
            let received = seen.receive_rate.bits_per_sec().max(1) as f64;
            let released = self.guard.released(seen, delay_target(seen, received));
            self.rate = match released {
                Released::Open => None,
                Released::Test(rate) | Released::Control(rate) => Some(bandwidth(rate)),
            };
            let Released::Control(rate) = released else { return None };
            self.law.start(bandwidth(rate), seen);
            self.settled_at = seen.now + seen.rtt;
            self.guard.begin_control(seen.now, rate);
            if let Some(detector) = &mut self.detector {
                detector.begin_anew(seen.now);
            }
            return Some((State::Delay, Cause::Drained));
        }
        let rate = self.pass_through.on_tick(seen.elapsed, seen.backlog, seen.receive_rate);
        self.rate = Some(self.pulsed(seen, rate, Regime::PassThrough, 0.0));
        if self.verdict() == Verdict::Inelastic {
            self.law.start(seen.receive_rate, seen);
            self.guard.begin_control(seen.now, seen.receive_rate.bits_per_sec() as f64);
            return Some((State::Delay, Cause::Inelastic));
        }
        None
    }

    fn verdict(&self) -> Verdict {
        self.detector.as_ref().map_or(Verdict::Unknown, Detector::verdict)
    }

    /// Adds the pulses, and shows the detector what came of those before.
    fn pulsed(
        &mut self,
        seen: &Observation,
        rate: Bandwidth,
        regime: Regime,
        target: f64,
    ) -> Bandwidth {
        let Some(detector) = &mut self.detector else { return rate };
        let capacity = seen.capacity;
        if capacity.bits_per_sec() as f64 <= CHANGED * self.pulsed_at.bits_per_sec() as f64 {
            if regime == Regime::Delay {
                detector.begin_anew(seen.now);
            }
            self.pulsed_at = capacity;
        }
        self.pulsed_at = self.pulsed_at.max(capacity);
        if let Some(cross) = self.measure.rates(CROSS_WINDOW) {
            detector.observe(
                seen.now,
                &CrossSample {
                    at: cross.sent_at,
                    send_rate: cross.send,
                    receive_rate: cross.receive,
                    queueing: seen.queueing,
                    target: Span::from_nanos((target * 1e9) as u64),
                    capacity,
                    limited: cross.limited,
                },
            );
        }
        let share = detector.pulse(seen.now, regime, rate, capacity);
        let pulsed = rate.bits_per_sec() as f64 + share * capacity.bits_per_sec() as f64;
        Bandwidth::from_bits_per_sec(pulsed.max(0.0) as u64)
    }
}
