//! Stalls of the data path.

use base::{Histogram, Span, Time};
use serde::{Deserialize, Serialize};

/// Maximum number of stalls whose times are retained; of further stalls only the length is known.
const MAX_RETAINED_TIMES: usize = 10_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Lengths in nanoseconds.
    lengths: Histogram,
    /// Start and end of each stall.
    times: Vec<(Time, Time)>,
}

impl Stalls {
    pub fn record(&mut self, from: Time, to: Time) {
        self.lengths.record(to.since(from).as_nanos());
        if self.times.len() < MAX_RETAINED_TIMES {
            self.times.push((from, to));
        }
    }

    /// Lengths in nanoseconds.
    pub const fn lengths(&self) -> &Histogram {
        &self.lengths
    }

    pub fn sum(&self) -> Span {
        Span::from_nanos((self.lengths.mean() * self.lengths.count() as f64) as u64)
    }

    pub fn longest(&self) -> Span {
        Span::from_nanos(self.lengths.max())
    }

    /// The stalled time between two times, and the longest of these stalls. An upper bound if the
    /// times of some stalls are unknown.
    pub fn within(&self, from: Time, to: Time) -> (Span, Span) {
        if self.lengths.count() > self.times.len() as u64 {
            return (self.sum().min(to.since(from)), self.longest());
        }
        let (mut sum, mut longest) = (Span::ZERO, Span::ZERO);
        for (begin, end) in self.times.iter().filter(|(begin, end)| *begin < to && *end > from) {
            sum += to.min(*end).since(from.max(*begin));
            longest = longest.max(end.since(*begin));
        }
        (sum, longest)
    }

    /// Whether stalls that were read from a file are consistent.
    pub(crate) fn is_valid(
        &self,
        histogram: impl Fn(&Histogram) -> bool,
        time: impl Fn(Time) -> bool,
    ) -> bool {
        histogram(&self.lengths)
            && self.times.len() as u64 <= self.lengths.count().min(MAX_RETAINED_TIMES as u64)
            && self.times.iter().all(|(from, to)| from <= to && time(*to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn sums_stalls_within_time_window() {
        let mut stalls = Stalls::default();
        stalls.record(at(100), at(130));
        stalls.record(at(500), at(520));
        let ms = Span::from_millis;
        assert_eq!(stalls.within(at(0), at(1_000)), (ms(50), ms(30)));
        assert_eq!(stalls.within(at(110), at(510)), (ms(30), ms(30)), "10 ms of the second stall");
        assert_eq!(stalls.within(at(130), at(500)), (ms(0), ms(0)));
        assert_eq!(stalls.longest(), ms(30));
    }

    #[test]
    fn stalls_beyond_maximum_count_in_every_window() {
        let mut stalls = Stalls::default();
        for number in 0..=MAX_RETAINED_TIMES as u64 {
            stalls.record(at(10 * number), at(10 * number + 1));
        }
        let (sum, longest) = stalls.within(at(0), at(5));
        assert_eq!(sum, Span::from_millis(5), "not longer than the window");
        assert!(longest >= Span::from_millis(1));
        assert!(stalls.is_valid(|_| true, |_| true));
    }
}
