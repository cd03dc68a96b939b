//! The control loop of one bundle: state and rate.

use std::ops::ControlFlow;

use base::{Bandwidth, Bytes, Ratio, Span, Time};

use super::guard::{Action, Guard, Released};
use super::state::{Cause, Reason, State};
use super::status::Counters;
use crate::constants::{Constants, span};
use crate::control::{CongestionControl, Observation, bandwidth};
use crate::measure::{Arrived, Match, Measure, Rates};
use crate::multipath::Multipath;
use crate::settings::{Mode, Settings};

/// Interval of the control loop, as in the paper's prototype.
pub(super) const TICK: Span = Span::from_millis(10);
/// Time over which the rate of a burst is measured.
const BURST_WINDOW: Span = Span::from_millis(20);
/// Time without feedback after which the sendbox fails open: at least this, or this many round
/// trips, and at least this many missing answers. All bundles must be open after 1 s.
const FEEDBACK_TIMEOUT: Span = Span::from_millis(900);
const FEEDBACK_TIMEOUT_ROUND_TRIPS: u64 = 6;
const MIN_MISSING_ANSWERS: usize = 8;
/// Time without feedback, or two round trips, after which the sendbox requests a report.
const QUIET_INTERVAL: Span = Span::from_millis(200);
/// Time for which the round trip of a heartbeat is valid.
const REPORT_MEMORY: Span = Span::from_secs(30);
const FULL_PACKET_BITS: f64 = 12_000.0;
/// Minimum capacity of the sendbox's queue.
const MIN_QUEUE_TIME: Span = Span::from_millis(200);
const MIN_QUEUE_BYTES: Bytes = Bytes::new(200 * 1538);

/// Whether the guard against harm is active.
fn is_guarded(settings: &Settings) -> bool {
    settings.mode == Mode::Enforce && settings.elasticity
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) state: State,
    pub(super) since: Time,
    pub(super) measure: Measure,
    pub(super) rebases: u64,
    constants: Constants,
    controller: Box<dyn CongestionControl>,
    multipath: Option<Multipath>,
    /// The current rate, if there is one.
    rate: Option<Bandwidth>,
    ticked: Time,
    acked_at: Time,
    /// Heartbeats sent since the last feedback.
    asked: usize,
    /// Recent minimum round trip of a heartbeat, and its time.
    least_report: Option<(Time, Span)>,
    /// Time for which the bundle's own queue was visible, and the maximum receive rate meanwhile.
    pressure: Span,
    found: Bandwidth,
    /// Time since which the bundle uses more than a small share of the capacity.
    busy_since: Time,
    /// Mean receive rate in bit/s, including idle times.
    load: f64,
    /// Mean receive rate in bit/s.
    opened: f64,
    /// Until this time acknowledged packets were sent before the current rate was set.
    settled_at: Time,
    guard: Guard,
}

impl Loop {
    pub(super) fn new(now: Time, settings: &Settings) -> Self {
        let constants = settings.constants;
        let mut measure = Measure::new(&constants);
        measure.remember(now, span(constants.measure.base_memory_open));
        Self {
            state: State::Learning,
            since: now,
            measure,
            rebases: 0,
            controller: settings.control.build(&constants),
            multipath: settings.multipath.then(|| Multipath::new(&constants.multipath)),
            rate: None,
            ticked: now,
            acked_at: now,
            asked: 0,
            least_report: None,
            pressure: Span::ZERO,
            found: Bandwidth::ZERO,
            busy_since: now,
            load: 0.0,
            opened: 0.0,
            settled_at: now,
            guard: Guard::new(&constants.guard),
            constants,
        }
    }

    /// Resumes the loop after a pause.
    pub(super) fn rested(&mut self, now: Time) {
        self.ticked = now;
    }

    /// Counts a heartbeat, which requires an answer.
    pub(super) fn asked(&mut self) {
        self.asked += 1;
    }

    /// Processes authentic feedback. Returns a cause if control must restart.
    pub(super) fn feedback_received(&mut self, now: Time) -> Option<Cause> {
        self.acked_at = now;
        self.asked = 0;
        (self.state == State::FailOpen).then_some(Cause::Feedback)
    }

    /// Processes the round trip of an answered heartbeat.
    pub(super) fn reported(&mut self, now: Time, rtt: Span) {
        let old = |at: Time| now.since(at) > REPORT_MEMORY;
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

    /// Handles a restart of the receivebox, whose counters are reset.
    pub(super) fn restart(&mut self) {
        self.measure.restart();
        if let Some(multipath) = &mut self.multipath {
            multipath.restart();
        }
    }

    /// Processes one tick. Returns the new state and its cause, if it changes.
    pub(super) fn tick(
        &mut self,
        now: Time,
        backlog: Bytes,
        settings: &Settings,
    ) -> Option<(State, Cause)> {
        let elapsed = now.since(self.ticked);
        let fresh = self.measure.acked_at().is_some_and(|at| at > self.ticked);
        self.ticked = now;
        if self.is_silent(now) {
            return (self.state != State::FailOpen).then_some((State::FailOpen, Cause::NoFeedback));
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
            State::Delay => self.delay(&seen, settings),
            State::PassThrough => self.pass(&seen),
            State::Disabled(_) | State::FailOpen => None,
        }
    }

    pub(super) fn enter(&mut self, now: Time, to: State) {
        self.state = to;
        self.since = now;
        self.pressure = Span::ZERO;
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
                State::Delay => span(self.constants.measure.base_memory),
                // Without control the queue does not drain.
                _ => span(self.constants.measure.base_memory_open),
            },
        );
    }

    /// Capacity of the sendbox's queue: two round trips, and enough for many flows.
    pub(super) fn room(&self) -> Option<Bytes> {
        let (capacity, rtt) = (self.measure.capacity()?, self.measure.min_rtt()?);
        let worth = capacity.bytes_in(MIN_QUEUE_TIME.max(rtt + rtt));
        Some(worth.max(MIN_QUEUE_BYTES))
    }

    /// The rate for the pacer while there is a backlog, or none.
    pub(super) fn rate(&self, backlog: bool, settings: &Settings) -> Option<Bandwidth> {
        let within = |rate: Bandwidth| {
            let most = settings.ceiling.unwrap_or(Bandwidth::from_bits_per_sec(u64::MAX));
            rate.max(settings.floor).min(most)
        };
        match (self.rate, self.measure.capacity()) {
            (Some(rate), _) => Some(within(rate)),
            // Packets queued at the previous rate must not be sent in one burst.
            (None, Some(capacity)) if backlog => {
                let rate = capacity.bits_per_sec() as f64 * self.constants.start.flush;
                Some(within(Bandwidth::from_bits_per_sec(rate as u64)))
            }
            (None, _) => settings.ceiling,
        }
    }

    /// The rate and the round trip that determine the length of epochs.
    pub(super) fn epochs_of(&self) -> Option<(Bandwidth, Span)> {
        let rates = self.measure.rates(self.measure.window())?;
        Some((rates.send, self.measure.min_rtt()?))
    }

    pub(super) fn out_of_order(&self) -> Option<Ratio> {
        self.multipath.as_ref().map(Multipath::fraction)
    }

    /// Whether an answer is late, but before the timeout.
    pub(super) fn is_quiet(&self, now: Time) -> bool {
        let rtt = self.measure.delays().map_or(Span::ZERO, |delays| delays.rtt);
        now.since(self.acked_at) > QUIET_INTERVAL.max(rtt + rtt)
    }

    fn is_silent(&self, now: Time) -> bool {
        let rtt = self.measure.delays().map_or(Span::ZERO, |delays| delays.rtt);
        let round_trips = Span::from_nanos(rtt.as_nanos() * FEEDBACK_TIMEOUT_ROUND_TRIPS);
        if now.since(self.acked_at) < FEEDBACK_TIMEOUT.max(round_trips) {
            return false;
        }
        let due = Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() * 2));
        self.measure.outstanding(self.acked_at, due) + self.asked >= MIN_MISSING_ANSWERS
    }

    /// Without control, until the bundle causes a queue.
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
        let target = self.constants.target.delay(seen, rate);
        // A heartbeat may have been sent before there was a queue; it is also shorter
        // than a packet.
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
                Released::Open => Some((State::PassThrough, Cause::OtherTraffic)),
                Released::Test(_) => None,
                Released::Control(_) => {
                    Some(self.begin_control(seen, self.found.max(rates.receive)))
                }
            };
        }
        let share = seen.elapsed.as_secs_f64() / self.constants.start.load_average;
        self.load += (rate - self.load) * share.min(1.0);
        if self.load < self.constants.start.idle_load * seen.capacity.bits_per_sec() as f64 {
            self.busy_since = seen.now;
        }
        let beyond = seen.rtt.saturating_sub(least).as_secs_f64();
        if seen.queueing.as_secs_f64().max(beyond) < self.constants.start.own_queue * target {
            self.pressure = Span::ZERO;
            self.found = Bandwidth::ZERO;
            return None;
        }
        let first = self.pressure == Span::ZERO;
        let share = if first {
            1.0
        } else {
            seen.elapsed.as_secs_f64() / self.constants.start.rate_average
        };
        self.opened += (rate - self.opened) * share.min(1.0);
        self.pressure += seen.elapsed;
        // While there is a queue, the current receive rate is the capacity of the path.
        let now = self.measure.arrival_rate(BURST_WINDOW).unwrap_or(rates.receive);
        self.found = self.found.max(now);
        let guarded = is_guarded(settings);
        let start = &self.constants.start;
        let settling = start.settling.max(start.settling_rounds * seen.min_rtt.as_secs_f64());
        if guarded && seen.now.since(self.busy_since) < span(settling) {
            return None;
        }
        let half = Span::from_nanos(self.measure.window().as_nanos() / 2);
        if self.pressure < if guarded { span(self.constants.start.first_queue) } else { half } {
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

    /// Starts delay control at this rate.
    fn begin_control(&mut self, seen: &Observation, rate: Bandwidth) -> (State, Cause) {
        self.settled_at = seen.now + seen.rtt + self.measure.window();
        self.controller.start(rate, seen);
        let drain = self.constants.start.drain;
        self.rate = Some(bandwidth(rate.bits_per_sec() as f64 * drain));
        self.guard.begin_control(seen.now, rate.bits_per_sec() as f64);
        (State::Delay, Cause::Queue)
    }

    fn delay(&mut self, seen: &Observation, settings: &Settings) -> Option<(State, Cause)> {
        if seen.now < self.settled_at {
            return None;
        }
        let sent = seen.send_rate.bits_per_sec().max(1) as f64;
        let target = self.constants.target.delay(seen, sent);
        if is_guarded(settings)
            && let ControlFlow::Break(next) = self.guard(seen, target)
        {
            return next;
        }
        let most = self.measure.most_capacity().unwrap_or(seen.capacity);
        let floor = bandwidth(most.bits_per_sec() as f64 * self.constants.start.min_rate);
        self.rate = Some(self.controller.on_tick(seen).max(floor));
        None
    }

    /// Whether control continues. If not, the new state, if any.
    fn guard(&mut self, seen: &Observation, target: f64) -> ControlFlow<Option<(State, Cause)>> {
        let action = self.guard.control(seen, target, |span| self.measure.rates(span));
        let (rate, seen) = match action {
            Action::Control => return ControlFlow::Continue(()),
            Action::Release => {
                return ControlFlow::Break(Some(self.release(seen.now, Cause::Harm)));
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
            Action::Resume(rate) => (rate * self.constants.start.drain, *seen),
        };
        self.controller.start(bandwidth(rate), &seen);
        self.settled_at = seen.now + seen.rtt;
        self.rate = Some(bandwidth(rate));
        ControlFlow::Break(None)
    }

    /// Ends control and releases the bundle.
    fn release(&mut self, now: Time, cause: Cause) -> (State, Cause) {
        self.guard.release(now);
        self.rate = None;
        (State::PassThrough, cause)
    }

    /// Without control, except for tests.
    fn pass(&mut self, seen: &Observation) -> Option<(State, Cause)> {
        let received = seen.receive_rate.bits_per_sec().max(1) as f64;
        let target = self.constants.target.delay(seen, received);
        let released = self.guard.released(seen, target);
        self.rate = match released {
            Released::Open => None,
            Released::Test(rate) | Released::Control(rate) => Some(bandwidth(rate)),
        };
        let Released::Control(rate) = released else { return None };
        self.controller.start(bandwidth(rate), seen);
        self.settled_at = seen.now + seen.rtt;
        self.guard.begin_control(seen.now, rate);
        Some((State::Delay, Cause::Drained))
    }
}
