//! A released bundle: tests whether its queue would drain under control.

use base::Time;

use super::{Guard, queue, span};
use crate::control::Observation;

/// Decision for a released bundle. Rates are in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Released {
    /// No limit.
    Open,
    /// Test at this rate.
    Test(f64),
    /// The test has succeeded: start control at this rate.
    Control(f64),
}

/// State of a test. Queues are in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    longest: f64,
    shortest: f64,
    /// Until this time acknowledged packets were sent before the test.
    shows: Time,
    /// Time since which the queue is short.
    drained: Option<Time>,
    /// Deadlines: for the queue to become shorter, and for the whole test.
    stalls: Time,
    ends: Time,
}

impl Guard {
    /// Releases the bundle because control does or may do harm.
    pub(in super::super) fn release(&mut self, now: Time) {
        self.is_released = true;
        self.open_rate = None;
        self.held = self.constants.hold;
        self.wait(now);
    }

    pub(in super::super) fn is_released(&self) -> bool {
        self.is_released
    }

    /// Tests the bundle's first queue before control starts. The bundle gets `rate` bit/s.
    pub(in super::super) fn first_test(
        &mut self,
        seen: &Observation,
        target: f64,
        rate: f64,
    ) -> Released {
        (self.is_released, self.open_rate) = (true, Some(rate));
        self.begin_test(seen, target)
    }

    /// Processes one tick without control.
    pub(in super::super) fn released(&mut self, seen: &Observation, target: f64) -> Released {
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
