//! A guard against harm: would the bundle get more without control?
//!
//! **While a bundle is controlled**, the guard compares what arrives with a reference: the most
//! that has arrived lately. A bundle that gets clearly less makes a *trial*: for two round trips it
//! sends more, and what arrives is compared with what arrived just before. No more means that the
//! path has become slower. All of it, with the same delay, means that the path is free. More, but
//! not all, means that others take what control leaves: if that repeats, the bundle is released.
//!
//! **A released bundle** is not held back: its hosts compete as they do without Bundler. What it
//! gets is the reference for the next attempt. A *test* sends a little less. If the queue drains
//! and stays short, it was the bundle's own and control begins; if others fill it, the bundle stays
//! released and the next test comes later. A bundle's first queue is tested as well.
//!
//! A trial costs others at most 0.3 round trips' worth of the bundle's rate as a queue; a test
//! costs the bundle 30 % of its rate while the queue drains, every 8 to 12 s.

mod limits;
mod released;
#[cfg(test)]
mod tests;

use base::{Span, Time};

pub(super) use limits::Limits;
pub(super) use released::Released;

use crate::control::Observation;
use crate::measure::Rates;

/// What a controlled bundle is to do. Rates are in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    /// Control goes on.
    Control,
    /// A trial sends at this rate.
    Trial(f64),
    /// A trial found no harm: control starts again from this rate.
    Resume(f64),
    /// The same, and the delay that was taken for a queue is the path's.
    LongerPath(f64),
    /// Control does harm.
    Release,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    began: Time,
    span: Span,
    /// What arrived before it, and what it sends, in bit/s.
    before: f64,
    rate: f64,
    /// The queue when it began, in seconds.
    queue: f64,
    /// Whether that is one, and whether there was none for a while.
    queued: bool,
    empty: bool,
}

/// See the module. Rates are in bit/s, queues in seconds.
#[derive(Debug)]
pub(super) struct Guard {
    limits: Limits,

    /// Averages under control.
    rate: f64,
    queue: f64,
    /// The most of `rate` since a trial last corrected it.
    reference: f64,
    controlled_since: Time,
    trial: Option<Trial>,
    next_trial: Time,
    spacing: f64,
    /// When trials gained something.
    gains: Vec<Time>,
    /// When a trial last met a queue and was carried.
    carried: Option<Time>,
    /// Since when control delivers less than the bundle got before.
    worse_since: Option<Time>,

    is_released: bool,
    /// What the bundle gets without control, until control is confirmed.
    open_rate: Option<f64>,
    /// The longest queue of late.
    longest: f64,
    test: Option<released::Test>,
    next_test: Time,
    wait: f64,
    /// When control or a test last failed, and what the bundle got then.
    failed: (Time, f64),
}

fn span(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9) as u64)
}

/// What queues in the network, in seconds.
fn queue(seen: &Observation) -> f64 {
    seen.queueing.as_secs_f64() - 2.0 * seen.noise.as_secs_f64()
}

impl Guard {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            rate: 0.0,
            queue: 0.0,
            reference: 0.0,
            controlled_since: Time::ZERO,
            trial: None,
            next_trial: Time::ZERO,
            spacing: limits.spacing[0],
            gains: Vec::new(),
            carried: None,
            worse_since: None,
            is_released: false,
            open_rate: None,
            longest: 0.0,
            test: None,
            next_test: Time::ZERO,
            wait: limits.wait[0],
            failed: (Time::ZERO, f64::INFINITY),
        }
    }

    /// Control begins at this rate in bit/s.
    pub(super) fn begin_control(&mut self, now: Time, rate: f64) {
        let rate = self.open_rate.unwrap_or(rate);
        (self.rate, self.reference) = (rate, rate);
        (self.is_released, self.test) = (false, None);
        (self.trial, self.worse_since) = (None, None);
        self.controlled_since = now;
        self.spacing = self.limits.spacing[0];
        self.next_trial = now + span(self.limits.trial);
    }

    /// One tick of control. `target` is the queue aimed at in seconds, `peer` whether another
    /// bundle is heard, `rates` are those of the newest acknowledged packets that left within about
    /// a span.
    pub(super) fn control(
        &mut self,
        seen: &Observation,
        target: f64,
        peer: bool,
        rates: impl Fn(Span) -> Option<Rates>,
    ) -> Action {
        if let Some(trial) = self.trial {
            // What left in the trial queues longer, so that it is acknowledged later.
            let end = trial.began + trial.span;
            let delivered = rates(trial.span).filter(|rates| rates.sent_at >= end);
            let overdue = trial.began + span(self.limits.overdue);
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
        // A path that has become slower shows by packets that are sent and do not arrive, and then
        // by more that arrive than are sent.
        let sent = seen.send_rate.bits_per_sec() as f64;
        let received = seen.receive_rate.bits_per_sec() as f64;
        let steady = received.min(sent) >= self.limits.steady * received.max(sent);
        if received < self.limits.cut * sent {
            self.reference = self.reference.min(self.rate);
            self.open_rate = self.open_rate.map(|open| open.min(self.rate));
        }
        if self.is_worse(seen, target, steady) {
            self.release(seen.now);
            return Action::Release;
        }
        let deficient = self.rate < self.limits.deficit * self.reference;
        if deficient && steady && seen.now >= self.next_trial {
            return self.begin_trial(seen, target, peer, rates);
        }
        Action::Control
    }

    fn average(&mut self, seen: &Observation, target: f64) {
        let elapsed = seen.elapsed.as_secs_f64();
        let share = |constant: f64| (elapsed / constant).min(1.0);
        let received = seen.receive_rate.bits_per_sec() as f64;
        let constant = self.limits.rate_average.max(seen.min_rtt.as_secs_f64());
        self.rate += (received - self.rate) * share(constant);
        let (queue, long) = (queue(seen), self.limits.queue * target);
        self.queue += (queue.min(long) - self.queue) * share(self.limits.queue_average);
        // Less without a queue may be another bundle's share.
        if queue <= long {
            self.reference += (self.rate - self.reference) * share(self.limits.forget);
        }
        self.reference = self.reference.max(self.rate);
    }

    fn begin_trial(
        &mut self,
        seen: &Observation,
        target: f64,
        peer: bool,
        rates: impl Fn(Span) -> Option<Rates>,
    ) -> Action {
        let queue = queue(seen);
        let queued = queue > self.limits.queue * target;
        let empty = self.queue < self.limits.empty * target;
        let early = seen.now.since(self.controlled_since) <= span(self.limits.grace);
        let moderate = self.rate > self.limits.deep * self.reference;
        if !queued && !empty && moderate && (peer || early) {
            return Action::Control;
        }
        let round_trips = self.limits.round_trips * seen.min_rtt.as_secs_f64();
        let span = span(round_trips.max(self.limits.trial));
        let before = rates(span).map_or(self.rate, |rates| rates.receive.bits_per_sec() as f64);
        let before = before.min(self.rate).min(seen.receive_rate.bits_per_sec() as f64);
        let rate = self.limits.open * before;
        self.trial = Some(Trial { began: seen.now, span, before, rate, queue, queued, empty });
        Action::Trial(rate)
    }

    /// What a trial has shown. `None`: nothing of it was acknowledged.
    fn judge(
        &mut self,
        seen: &Observation,
        target: f64,
        trial: &Trial,
        delivered: Option<f64>,
    ) -> Action {
        let rate = delivered.unwrap_or(trial.before);
        let carried = delivered.is_some() && rate >= self.limits.carried * trial.rate;
        if carried && queue(seen) <= trial.queue + target {
            let again = span(self.limits.again);
            let before = self.carried.is_some_and(|at| seen.now.since(at) < again);
            self.carried = trial.queued.then_some(seen.now);
            self.resume(seen.now, rate);
            let is_longer = trial.queued && before;
            return if is_longer { Action::LongerPath(rate) } else { Action::Resume(rate) };
        }
        if rate >= self.limits.gain * trial.before {
            if !trial.empty && self.is_harm(seen.now, trial.queued) {
                self.release(seen.now);
                return Action::Release;
            }
            self.resume(seen.now, rate);
            return Action::Resume(rate);
        }
        // The path takes no more.
        self.reference = rate;
        self.spacing = (2.0 * self.spacing).min(self.limits.spacing[1]);
        self.resume(seen.now, rate);
        Action::Resume(rate)
    }

    fn resume(&mut self, now: Time, rate: f64) {
        self.rate = rate;
        self.next_trial = now + span(self.spacing);
    }

    /// Whether gains repeat. One may follow a burst of other traffic.
    fn is_harm(&mut self, now: Time, queued: bool) -> bool {
        let within = span(self.limits.within);
        self.gains.retain(|at| now.since(*at) <= within);
        self.gains.push(now);
        self.gains.len() > self.limits.gains[usize::from(!queued)]
    }

    /// Whether control delivers less than the bundle got before.
    fn is_worse(&mut self, seen: &Observation, target: f64, steady: bool) -> bool {
        let Some(open_rate) = self.open_rate else { return false };
        let queued = queue(seen) > self.limits.queue * target;
        if self.rate < self.limits.worth * open_rate && queued && steady {
            let since = *self.worse_since.get_or_insert(seen.now);
            return seen.now.since(since) > span(self.limits.worse);
        }
        self.worse_since = None;
        if seen.now.since(self.controlled_since) > span(self.limits.confirmed) {
            self.open_rate = None;
            self.wait = self.limits.wait[0];
        }
        false
    }
}
