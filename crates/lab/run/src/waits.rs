//! When a thread of the machine kept packets waiting: in windows of 10 ms, for the last ten
//! seconds.
//!
//! The thread enters each wait; a flow asks how much of a delay that ends now may be due to waits.
//! Without locks: one thread writes, and what others read is at most one wait behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Span, Time};

/// Length of a window.
const WINDOW: Span = Span::from_millis(10);

/// Windows that are kept.
const WINDOWS: u64 = 1024;

/// Waits of a thread in one window.
#[derive(Debug, Default)]
struct Window {
    /// Its number since the origin of the lab clock, plus one.
    number: AtomicU64,
    /// The longest wait that touches the window, in nanoseconds.
    longest: AtomicU64,
    /// Time of the window in which a packet waited, in nanoseconds.
    sum: AtomicU64,
}

/// The waits of the threads that a flow's packets pass.
#[derive(Clone, Debug, Default)]
pub struct HostWaits {
    /// The data path: from the time when it should have read or written a packet.
    pub datapath: Arc<Waits>,
    /// The thread of built-in flows: the time for which it waited for a CPU.
    pub flows: Arc<Waits>,
}

/// The waits of a thread in the last seconds.
#[derive(Debug)]
pub struct Waits {
    windows: Box<[Window]>,
    /// The number of the newest window.
    newest: AtomicU64,
}

/// The thread that enters waits.
#[derive(Debug)]
pub struct WaitRecorder {
    waits: Arc<Waits>,
    /// The newest time that waits fill without a gap.
    covered: (Time, Time),
}

impl Default for WaitRecorder {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Default for Waits {
    fn default() -> Self {
        let windows = (0..WINDOWS).map(|_| Window::default()).collect();
        Self { windows, newest: AtomicU64::new(0) }
    }
}

impl Waits {
    /// Time for which waits are certainly kept.
    pub const KEPT: Span = Span::from_secs(5);

    /// The maximum part that waits have in a delay that ends now, and is within the time `span`.
    /// The delay has `count` waits, or an unknown number. The whole delay, if `span` is longer than
    /// what is kept.
    pub fn part_of(&self, delay: Span, span: Span, count: Option<u64>) -> Span {
        self.largest_part_of(delay, span, 1, count)
    }

    /// The same for the largest part in delays of which each is within a time `span`, and which end
    /// within the last `times` such times.
    pub fn largest_part_of(&self, delay: Span, span: Span, times: u64, count: Option<u64>) -> Span {
        let newest = self.newest.load(Ordering::Acquire);
        // A span begins anywhere in the first of its windows.
        let width = span.as_nanos() / WINDOW.as_nanos() + 2;
        let all = width + (times - 1) * (width - 1);
        if all > Self::KEPT.as_nanos() / WINDOW.as_nanos() + 2 {
            return delay;
        }
        let first = (newest + 1).saturating_sub(all);
        let (mut longest, mut sum, mut largest) = (0, 0, 0);
        for number in first..=newest {
            let (most, time) = self.window(number);
            let leaves = number.checked_sub(width).filter(|number| *number >= first);
            sum = (sum + time).saturating_sub(leaves.map_or(0, |number| self.window(number).1));
            longest = longest.max(most);
            largest = largest.max(sum);
        }
        let part = count.map_or(largest, |count| largest.min(count.saturating_mul(longest)));
        Span::from_nanos(part).min(delay)
    }

    /// The longest wait that touches a window, and the time of the window in waits.
    fn window(&self, number: u64) -> (u64, u64) {
        let window = &self.windows[(number % WINDOWS) as usize];
        if window.number.load(Ordering::Acquire) != number + 1 {
            return (0, 0);
        }
        (window.longest.load(Ordering::Relaxed), window.sum.load(Ordering::Relaxed))
    }
}

impl WaitRecorder {
    /// A recorder of these waits; one at a time.
    pub const fn new(waits: Arc<Waits>) -> Self {
        Self { waits, covered: (Time::ZERO, Time::ZERO) }
    }

    /// Enters a wait of a packet.
    pub fn enter(&mut self, from: Time, to: Time) {
        let wait = to.since(from).as_nanos();
        let last = to.as_nanos() / WINDOW.as_nanos();
        // A longer wait fills all windows that are kept.
        let first = (from.as_nanos() / WINDOW.as_nanos()).max((last + 1).saturating_sub(WINDOWS));
        let (start, end) = self.covered;
        for number in first..=last {
            let window = &self.waits.windows[(number % WINDOWS) as usize];
            if window.number.load(Ordering::Relaxed) != number + 1 {
                window.longest.store(0, Ordering::Relaxed);
                window.sum.store(0, Ordering::Relaxed);
                window.number.store(number + 1, Ordering::Release);
            }
            let opens = Time::from_nanos(number * WINDOW.as_nanos());
            let within = |from: Time, to: Time| to.min(opens + WINDOW).since(from.max(opens));
            let fresh = within(from, to.min(start)) + within(from.max(end), to);
            window.longest.fetch_max(wait, Ordering::Relaxed);
            window.sum.fetch_add(fresh.as_nanos(), Ordering::Relaxed);
        }
        self.covered = if from > end { (from, to) } else { (from.min(start), end.max(to)) };
        self.waits.newest.fetch_max(last, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Span = Span::from_secs(3600);

    fn ms(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + ms(millis)
    }

    fn entered(all: &[(u64, u64)]) -> Arc<Waits> {
        let waits = Arc::<Waits>::default();
        let mut recorder = WaitRecorder::new(waits.clone());
        for (from, to) in all {
            recorder.enter(at(*from), at(*to));
        }
        waits
    }

    #[test]
    fn waits_in_the_time_of_a_delay_are_added() {
        let waits = entered(&[(100, 103), (150, 155), (200, 200)]);
        assert_eq!(waits.part_of(DELAY, ms(20), None), ms(0));
        assert_eq!(waits.part_of(DELAY, ms(60), None), ms(5));
        assert_eq!(waits.part_of(DELAY, ms(120), None), ms(8));
        assert_eq!(waits.part_of(DELAY, ms(120), None), ms(8));
    }

    #[test]
    fn a_known_number_of_waits_is_each_as_long_as_the_longest() {
        let waits = entered(&[(100, 103), (104, 106), (107, 109), (109, 109)]);
        assert_eq!(waits.part_of(DELAY, ms(20), None), ms(7));
        assert_eq!(waits.part_of(DELAY, ms(20), Some(2)), ms(6));
        assert_eq!(waits.part_of(DELAY, ms(20), Some(1)), ms(3));
    }

    #[test]
    fn the_largest_part_is_that_of_one_span() {
        let waits = entered(&[(100, 103), (150, 155), (200, 200)]);
        let largest = |times| waits.largest_part_of(DELAY, ms(30), times, None);
        assert_eq!([largest(1), largest(3), largest(4)], [ms(0), ms(5), ms(5)]);
        assert_eq!(waits.largest_part_of(DELAY, ms(60), 2, None), ms(8));
        assert_eq!(waits.largest_part_of(DELAY, ms(30), 3, Some(0)), ms(0));
    }

    #[test]
    fn waits_at_the_same_time_count_once() {
        let waits = entered(&[(100, 108), (102, 108), (95, 109)]);
        assert_eq!(waits.part_of(DELAY, ms(30), None), ms(14));
        assert_eq!(waits.part_of(DELAY, ms(30), Some(1)), ms(14));
    }

    #[test]
    fn a_wait_across_windows_belongs_to_each() {
        let waits = entered(&[(95, 125)]);
        assert_eq!(waits.part_of(DELAY, ms(9), None), ms(15));
        assert_eq!(waits.part_of(DELAY, ms(19), None), ms(25));
        assert_eq!(waits.part_of(DELAY, ms(40), None), ms(30));
    }

    #[test]
    fn a_delay_is_at_most_all_wait() {
        let waits = entered(&[(0, 1000)]);
        assert_eq!(waits.part_of(ms(45), ms(50), None), ms(45));
        assert_eq!(waits.part_of(DELAY, Span::from_secs(8), None), DELAY);
    }

    #[test]
    fn old_windows_are_replaced() {
        let waits = entered(&[(5, 9), (60_000, 60_001)]);
        assert_eq!(waits.part_of(DELAY, ms(4000), None), ms(1));
        let waits = entered(&[(0, 60_000)]);
        // Eleven windows before the one that begins now.
        assert_eq!(waits.part_of(DELAY, ms(100), None), ms(110));
    }
}
