//! The guard against harm: detects whether the bundle would get more without control.
//!
//! **While a bundle is controlled**, the guard compares its receive rate with a reference, the
//! recent maximum. If the rate is clearly lower, the guard makes a *trial*: for two round trips the
//! bundle sends more, and the guard compares the receive rate with that just before the trial.
//! - The receive rate does not increase: the path has become slower.
//! - All bytes are received with the same delay: the path is free. The next trial follows at once
//!   and sends up to twice as much.
//! - Part of the increase is received: other traffic uses the capacity that control leaves. If this
//!   repeats, the guard releases the bundle, unless the queue is short and the bundle's rate may be
//!   its fair share beside another bundle.
//!
//! **A released bundle** is not limited: its hosts compete as they do without Bundler. Its rate is
//! the reference for the next attempt. A *test* sends slightly less. If the queue drains and stays
//! short, the bundle had caused it, and control begins. If other traffic fills the queue, the
//! bundle stays released, and the next test follows later. A bundle's first queue is tested too.
//!
//! **Costs.** A trial adds to the queue at most 0.6 round trips of the bundle's rate, or two after
//! a trial that found the path free. A test costs the bundle 30 % of its rate until the queue has
//! drained, then 5 % for 3 s, every 8 to 16 s.

#[cfg(test)]
mod tests;

use base::{Span, Time};

use crate::constants::{Guard as Constants, span};
use crate::control::Observation;
use crate::measure::Rates;

/// Decision of the guard for a controlled bundle. Rates are in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// The controller sets the rate; no trial is due.
    Control,
    /// Make a trial at this rate.
    Trial(f64),
    /// A trial found no harm: restart control at this rate.
    Resume(f64),
    /// As `Resume`; in addition, what looked like queueing delay is the delay of a longer path.
    LongerPath(f64),
    /// Control does harm: release the bundle.
    Release,
}

/// Decision for a released bundle. Rates are in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Released {
    /// Send without a rate limit.
    Open,
    /// Test at this rate.
    Test(f64),
    /// The test has succeeded: start control at this rate.
    Control(f64),
}

/// State of a test. Queues are in seconds.
#[derive(Clone, Copy, Debug)]
struct Test {
    longest: f64,
    shortest: f64,
    /// Packets acknowledged before this time were sent before the test.
    shows: Time,
    /// Time since which the queue is short.
    drained: Option<Time>,
    /// Deadlines: for the queue to become shorter, and for the whole test.
    stalls: Time,
    ends: Time,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    began: Time,
    span: Span,
    /// Receive rate before the trial, and its send rate, in bit/s.
    before: f64,
    rate: f64,
    /// The queue at its start, in seconds.
    queue: f64,
    /// Whether packets had queued for some time before it.
    queued: bool,
    /// Whether the rate is too low for a fair share beside another bundle.
    deep: bool,
}

/// See the module documentation. Rates are in bit/s, queues in seconds.
#[derive(Debug)]
pub(super) struct Guard {
    constants: Constants,

    /// Average under control.
    rate: f64,
    /// Maximum of `rate` since a trial last corrected it.
    reference: f64,
    controlled_since: Time,
    /// Time since which packets are queued.
    queued_since: Option<Time>,
    trial: Option<Trial>,
    next_trial: Time,
    spacing: f64,
    /// Times of trials with a gain.
    gains: Vec<Time>,
    /// Time of the last trial that found a queue and was fully received.
    carried: Option<Time>,
    /// Whether the last trial was fully received and found no queue.
    is_free: bool,
    /// Time since which control delivers less than the previous rate.
    worse_since: Option<Time>,

    is_released: bool,
    /// Rate without control, until control is confirmed.
    open_rate: Option<f64>,
    /// Recent maximum of the queue.
    longest: f64,
    test: Option<Test>,
    next_test: Time,
    wait: f64,
    /// Time for which the queue must stay short in a test.
    held: f64,
    /// Time of the last failure of control or a test, and the rate then.
    failed: (Time, f64),
}

/// Queueing delay in the network in seconds.
fn queue(seen: &Observation) -> f64 {
    seen.queueing.as_secs_f64() - 2.0 * seen.noise.as_secs_f64()
}

impl Guard {
    pub(super) fn new(constants: &Constants) -> Self {
        Self {
            constants: *constants,
            rate: 0.0,
            reference: 0.0,
            controlled_since: Time::ZERO,
            queued_since: None,
            trial: None,
            next_trial: Time::ZERO,
            spacing: constants.spacing,
            gains: Vec::new(),
            carried: None,
            is_free: false,
            worse_since: None,
            is_released: false,
            open_rate: None,
            longest: 0.0,
            test: None,
            next_test: Time::ZERO,
            wait: constants.wait,
            held: constants.hold_first,
            failed: (Time::ZERO, f64::INFINITY),
        }
    }

    /// Starts control at this rate in bit/s.
    pub(super) fn begin_control(&mut self, now: Time, rate: f64) {
        let rate = self.open_rate.unwrap_or(rate);
        (self.rate, self.reference) = (rate, rate);
        (self.is_released, self.is_free, self.test) = (false, false, None);
        (self.trial, self.worse_since, self.queued_since) = (None, None, None);
        self.controlled_since = now;
        self.spacing = self.constants.spacing;
        self.next_trial = now + span(self.constants.trial_min);
    }

    /// Processes one tick of control. `target` is the target queue in seconds, `rates` are
    /// those of the newest acknowledged packets that were sent within about a span.
    pub(super) fn control(
        &mut self,
        seen: &Observation,
        target: f64,
        rates: impl Fn(Span) -> Option<Rates>,
    ) -> Action {
        if let Some(trial) = self.trial {
            // Packets of the trial are queued longer, so their acknowledgements are later.
            let end = trial.began + trial.span;
            let delivered = rates(trial.span).filter(|rates| rates.sent_at >= end);
            let overdue = trial.began + span(self.constants.trial_timeout);
            if delivered.is_none() && seen.now < overdue {
                return Action::Trial(if seen.now > end { trial.before } else { trial.rate });
            }
            self.trial = None;
            let delivered = delivered.map(|rates| rates.receive.bits_per_sec() as f64);
            return self.judge(seen, target, &trial, delivered);
        }
        if !seen.limited {
            (self.rate, self.worse_since) = (self.rate.max(self.reference), None);
            return Action::Control;
        }
        self.average(seen, target);
        // A path that has become slower is visible first by sent packets that are not received, and
        // then by a receive rate above the send rate.
        let sent = seen.send_rate.bits_per_sec() as f64;
        let received = seen.receive_rate.bits_per_sec() as f64;
        let steady = received.min(sent) >= self.constants.steady * received.max(sent);
        if received < self.constants.slower_path * sent {
            self.reference = self.reference.min(self.rate);
            self.open_rate = self.open_rate.map(|open| open.min(self.rate));
        }
        if self.is_worse(seen, steady) {
            return Action::Release;
        }
        let deficient = self.rate < self.constants.deficit * self.reference;
        if deficient && steady && seen.now >= self.next_trial {
            return self.begin_trial(seen, rates);
        }
        Action::Control
    }

    fn average(&mut self, seen: &Observation, target: f64) {
        let elapsed = seen.elapsed.as_secs_f64();
        let share = |constant: f64| (elapsed / constant).min(1.0);
        let received = seen.receive_rate.bits_per_sec() as f64;
        let constant = self.constants.rate_average.max(seen.min_rtt.as_secs_f64());
        self.rate += (received - self.rate) * share(constant);
        let (queue, long) = (queue(seen), self.constants.queue * target);
        self.queued_since = (queue > long).then(|| self.queued_since.unwrap_or(seen.now));
        // A lower rate without a queue may be a fair share beside another bundle.
        if queue <= long {
            self.reference += (self.rate - self.reference) * share(self.constants.forget);
        }
        self.reference = self.reference.max(self.rate);
    }

    fn begin_trial(&mut self, seen: &Observation, rates: impl Fn(Span) -> Option<Rates>) -> Action {
        let queued = self.is_queued(seen.now);
        let early = seen.now.since(self.controlled_since) <= span(self.constants.grace);
        let deep = self.rate <= self.constants.deep * self.reference;
        if !queued && !deep && early {
            return Action::Control;
        }
        let round_trips = self.constants.trial_rounds * seen.min_rtt.as_secs_f64();
        let span = span(round_trips.max(self.constants.trial_min));
        let before = rates(span).map_or(self.rate, |rates| rates.receive.bits_per_sec() as f64);
        let before = before.min(self.rate).min(seen.receive_rate.bits_per_sec() as f64);
        let most =
            if self.is_free { self.constants.trial_rate_free } else { self.constants.trial_rate };
        let rate = (self.reference / before).min(most).max(self.constants.trial_rate) * before;
        let (began, queue) = (seen.now, queue(seen));
        self.trial = Some(Trial { began, span, before, rate, queue, queued, deep });
        Action::Trial(rate)
    }

    /// Evaluates a trial. `None`: no packet of it was acknowledged.
    fn judge(
        &mut self,
        seen: &Observation,
        target: f64,
        trial: &Trial,
        delivered: Option<f64>,
    ) -> Action {
        let rate = delivered.unwrap_or(trial.before);
        let carried = delivered.is_some() && rate >= self.constants.carried * trial.rate;
        self.is_free = carried && queue(seen) <= trial.queue + target;
        if self.is_free {
            let again = span(self.constants.carried_memory);
            let before = self.carried.is_some_and(|at| seen.now.since(at) < again);
            self.carried = trial.queued.then_some(seen.now);
            let is_longer = trial.queued && before;
            self.resume(seen.now, rate);
            if !trial.queued {
                self.next_trial = seen.now;
            }
            return if is_longer { Action::LongerPath(rate) } else { Action::Resume(rate) };
        }
        let is_gain = rate >= self.constants.gain * trial.before;
        if !is_gain {
            // The path has no spare capacity.
            self.reference = rate;
        }
        let is_share = !trial.queued && !trial.deep;
        if is_gain && !is_share && self.is_harm(seen.now, trial.queued) {
            return Action::Release;
        }
        self.spacing = match (is_gain, is_share) {
            (true, false) => self.constants.spacing,
            (true, true) => self.constants.spacing_share.min(2.0 * self.spacing),
            (false, _) => self.constants.spacing_max.min(2.0 * self.spacing),
        };
        self.resume(seen.now, rate);
        Action::Resume(rate)
    }

    fn resume(&mut self, now: Time, rate: f64) {
        self.rate = rate;
        self.next_trial = now + span(self.spacing);
    }

    /// Whether gains repeat. A single one may follow a burst of other traffic.
    fn is_harm(&mut self, now: Time, queued: bool) -> bool {
        let within = span(self.constants.gains_memory);
        self.gains.retain(|at| now.since(*at) <= within);
        self.gains.push(now);
        let needed = if queued { self.constants.gains_queued } else { self.constants.gains_short };
        self.gains.len() as f64 >= needed
    }

    fn is_queued(&self, now: Time) -> bool {
        self.queued_since
            .is_some_and(|since| now.since(since) >= span(self.constants.queue_duration))
    }

    /// Whether control delivers less than the bundle got before.
    fn is_worse(&mut self, seen: &Observation, steady: bool) -> bool {
        let Some(open_rate) = self.open_rate else { return false };
        let queued = self.is_queued(seen.now);
        if self.rate < self.constants.worth * open_rate && queued && steady {
            let since = *self.worse_since.get_or_insert(seen.now);
            return seen.now.since(since) > span(self.constants.worth_duration);
        }
        self.worse_since = None;
        if seen.now.since(self.controlled_since) > span(self.constants.confirmed) {
            self.open_rate = None;
            self.wait = self.constants.wait;
        }
        false
    }
}

/// A released bundle: tests whether its queue would drain under control.
impl Guard {
    /// Releases the bundle because control does or may do harm.
    pub(super) fn release(&mut self, now: Time) {
        self.is_released = true;
        self.open_rate = None;
        self.held = self.constants.hold;
        self.wait(now);
    }

    pub(super) fn is_released(&self) -> bool {
        self.is_released
    }

    /// Tests the bundle's first queue before control starts. The bundle gets `rate` bit/s.
    pub(super) fn first_test(&mut self, seen: &Observation, target: f64, rate: f64) -> Released {
        (self.is_released, self.open_rate) = (true, Some(rate));
        self.begin_test(seen, target)
    }

    /// Processes one tick without control.
    pub(super) fn released(&mut self, seen: &Observation, target: f64) -> Released {
        let rate = seen.receive_rate.bits_per_sec() as f64;
        let open = *self.open_rate.get_or_insert(rate);
        if let Some(test) = self.test {
            return self.go_on(test, seen, target);
        }
        let queue = queue(seen);
        let memory = self.constants.longest_memory.max(seen.rtt.as_secs_f64());
        let elapsed = seen.elapsed.as_secs_f64();
        self.longest = queue.max(self.longest * (-elapsed / memory).exp());
        let falls = queue < self.constants.falls * self.longest;
        self.open_rate =
            Some(open + (rate - open) * (elapsed / self.constants.open_average).min(1.0));
        let change = (open / self.failed.1).max(self.failed.1 / open.max(1.0));
        let soon = seen.now >= self.failed.0 + span(self.constants.wait);
        let is_due = if falls {
            soon
        } else {
            seen.now >= self.next_test || soon && change >= self.constants.changed
        };
        if is_due && queue > self.constants.drained * target {
            return self.begin_test(seen, target);
        }
        Released::Open
    }

    fn begin_test(&mut self, seen: &Observation, target: f64) -> Released {
        let open = self.open_rate.unwrap_or(0.0);
        let queue = queue(seen);
        if queue <= self.constants.drained * target {
            return Released::Control(open);
        }
        let shows = seen.now + seen.rtt;
        self.test = Some(Test {
            longest: queue,
            shortest: queue,
            shows,
            drained: None,
            stalls: Time::MAX,
            ends: shows + span(self.constants.test_max),
        });
        Released::Test(self.constants.test_rate * open)
    }

    fn go_on(&mut self, mut test: Test, seen: &Observation, target: f64) -> Released {
        let open = self.open_rate.unwrap_or(0.0);
        let queue = queue(seen);
        let is_short = queue <= self.constants.drained * target;
        if seen.now < test.shows {
            test.longest = test.longest.max(queue);
            test.shortest = test.longest;
        }
        let shrinks = queue < test.shortest - self.constants.progress * test.longest;
        if is_short || seen.now < test.shows || test.drained.is_none() && shrinks {
            test.shortest = test.shortest.min(queue);
            test.stalls = seen.now + span(self.constants.stall) + seen.rtt + seen.rtt;
        }
        if is_short {
            test.drained.get_or_insert(seen.now);
        }
        self.test = Some(test);
        if test.drained.is_some_and(|since| seen.now.since(since) >= span(self.held)) {
            return Released::Control(open);
        }
        if seen.now < test.stalls && (test.drained.is_some() || seen.now < test.ends) {
            let share = if test.drained.is_some() {
                self.constants.hold_rate
            } else {
                self.constants.test_rate
            };
            return Released::Test(share * open);
        }
        // Other traffic fills the queue.
        self.test = None;
        self.wait(seen.now);
        Released::Open
    }

    /// Waits for the next test, twice as long as before.
    fn wait(&mut self, now: Time) {
        self.failed = (now, self.open_rate.unwrap_or(0.0));
        self.next_test = now + span(self.wait);
        self.wait = (2.0 * self.wait).min(self.constants.wait_max);
    }
}
