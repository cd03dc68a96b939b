//! A clock from the capture times that tolerates errors of the capturing host's clock.
//!
//! Hold times expire by the time of the capture, whose clock may be set during the capture. So time
//! without messages is measured as a sum of the steps between packets, each limited to a third of
//! the shortest hold time in use. Live sessions send messages every third of their hold time (RFC
//! 4271 §4.4), so real steps are added in full, and a jump of the clock adds at most a third. Steps
//! backward add nothing: a small one is a reordered packet, a large one moves the reference.

use base::{Span, Time};

/// Maximum step backward that is attributed to reordering of inputs or after gaps.
pub(super) const DISORDER: Span = Span::from_secs(300);

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

    /// Advances to the capture time `time`; returns the nanoseconds since the first call.
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

    pub(super) fn set_hold(&mut self, hold: Span) {
        self.step = hold.as_nanos() / 3;
    }

    /// Limits the hold time of sessions without a message from now on; as `set_hold`, but never
    /// longer than before.
    pub(super) fn add_hold(&mut self, hold: Span) {
        self.step = self.step.min(hold.as_nanos() / 3);
    }

    pub(super) const fn elapsed(&self) -> u64 {
        self.elapsed
    }

    /// The capture time at which `elapsed` is reached, if no step is limited.
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
    fn limits_clock_jump_to_third_of_hold_time() {
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
