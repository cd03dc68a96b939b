//! The clock of a capture, as far as it can be believed.
//!
//! Hold times run out by the time of the capture, and that clock may be set while it runs. So
//! silence is measured in elapsed time: each step forward of the capture's time counts, but no
//! step counts for more than a third of the shortest hold time in use. Live sessions are heard
//! each third of their hold time (RFC 4271 §4.4), so a silence that really passed is made of
//! steps which count in full, while a jump of hours, after which all go on as before, costs
//! nobody more than a third. Steps backward count nothing: small ones are packets in disorder and
//! are waited for, large ones move the mark.

use base::{Span, Time};

/// Steps backward up to this are disorder between inputs or behind holes.
const DISORDER: Span = Span::from_secs(300);

/// Measures silence; see the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    mark: Time,
    elapsed: u64,
    step: u64,
}

impl Clock {
    pub(super) const fn new() -> Self {
        Self { mark: Time::ZERO, elapsed: 0, step: 0 }
    }

    /// The capture has come to `time`; returns the nanoseconds that elapsed since the first call.
    #[inline]
    pub(super) fn observe(&mut self, time: Time) -> u64 {
        if time > self.mark {
            if self.mark > Time::ZERO {
                self.elapsed += time.since(self.mark).as_nanos().min(self.step);
            }
            self.mark = time;
        } else if self.mark.since(time) > DISORDER {
            self.mark = time;
        }
        self.elapsed
    }

    /// The shortest hold time in use.
    pub(super) fn set_hold(&mut self, hold: Span) {
        self.step = hold.as_nanos() / 3;
    }

    /// No session holds longer than this without a message from now on; as `set_hold`, but never
    /// longer than before.
    pub(super) fn add_hold(&mut self, hold: Span) {
        self.step = self.step.min(hold.as_nanos() / 3);
    }

    /// Nanoseconds that elapsed.
    pub(super) const fn elapsed(&self) -> u64 {
        self.elapsed
    }

    /// The capture's time when `elapsed` will be reached, if no step is cut short.
    pub(super) fn time_of(&self, elapsed: u64) -> Time {
        self.mark + Span::from_nanos(elapsed.saturating_sub(self.elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_jump_costs_a_third_of_the_hold_time() {
        let mut clock = Clock::new();
        clock.set_hold(Span::from_secs(90));
        assert_eq!(clock.observe(at(1000)), 0);
        assert_eq!(clock.observe(at(1020)), 20_000_000_000);
        assert_eq!(clock.observe(at(9000)), 50_000_000_000);
        assert_eq!(clock.observe(at(8990)), 50_000_000_000);
        assert_eq!(clock.observe(at(9001)), 51_000_000_000);
        assert_eq!(clock.observe(at(2000)), 51_000_000_000);
        assert_eq!(clock.observe(at(2004)), 55_000_000_000);
        assert_eq!(clock.time_of(60_000_000_000), at(2009));
        clock.add_hold(Span::from_secs(9));
        assert_eq!(clock.observe(at(2100)), 58_000_000_000);
    }
}
