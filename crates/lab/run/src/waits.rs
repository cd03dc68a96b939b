//! The times at which packets waited for a thread of the host: in windows of 10 ms, for the last
//! 10 s.
//!
//! The thread records each wait; a flow reads which part of a delay that ends now may be due to
//! waits. There are no locks: one thread writes, and readers may miss its last wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Span, Time};

const WINDOW_LENGTH: Span = Span::from_millis(10);

const WINDOW_COUNT: u64 = 1024;

/// Waits of a thread in one window.
#[derive(Debug, Default)]
struct Window {
    /// Its number since the origin of the lab clock, plus one.
    number: AtomicU64,
    /// The longest wait that overlaps the window, in nanoseconds.
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

/// The writer of waits, in the thread that causes them.
#[derive(Debug)]
pub struct WaitRecorder {
    waits: Arc<Waits>,
    /// The newest time range that waits fill without a gap.
    covered: (Time, Time),
}

impl Default for WaitRecorder {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Default for Waits {
    fn default() -> Self {
        let windows = (0..WINDOW_COUNT).map(|_| Window::default()).collect();
        Self { windows, newest: AtomicU64::new(0) }
    }
}

impl Waits {
    /// The minimum time for which waits are retained.
    pub const MIN_RETAINED_SPAN: Span = Span::from_secs(5);

    /// The maximum part that waits within the last `span` have in a delay that ends now. The
    /// delay has `count` waits; `None` if their number is unknown. Returns the whole delay if
    /// `span` is longer than the retained time.
    pub fn part_of(&self, delay: Span, span: Span, count: Option<u64>) -> Span {
        self.largest_part_of(delay, span, 1, count)
    }

    /// The same for the largest part in delays that each are within a time `span`, and that end
    /// within the last `times` spans.
    pub fn largest_part_of(&self, delay: Span, span: Span, times: u64, count: Option<u64>) -> Span {
        let newest = self.newest.load(Ordering::Acquire);
        // A span begins anywhere in the first of its windows.
        let width = span.as_nanos() / WINDOW_LENGTH.as_nanos() + 2;
        let all = width + (times - 1) * (width - 1);
        if all > Self::MIN_RETAINED_SPAN.as_nanos() / WINDOW_LENGTH.as_nanos() + 2 {
            return delay;
        }
        let first = (newest + 1).saturating_sub(all);
        let (mut longest, mut sum, mut largest) = (0, 0, 0);
        for number in first..=newest {
            let (window_longest, window_sum) = self.window(number);
            let leaving = number.checked_sub(width).filter(|number| *number >= first);
            sum = (sum + window_sum)
                .saturating_sub(leaving.map_or(0, |number| self.window(number).1));
            longest = longest.max(window_longest);
            largest = largest.max(sum);
        }
        let part = count.map_or(largest, |count| largest.min(count.saturating_mul(longest)));
        Span::from_nanos(part).min(delay)
    }

    /// The longest wait that overlaps a window, and the time in which a packet waited.
    fn window(&self, number: u64) -> (u64, u64) {
        let window = &self.windows[(number % WINDOW_COUNT) as usize];
        if window.number.load(Ordering::Acquire) != number + 1 {
            return (0, 0);
        }
        (window.longest.load(Ordering::Relaxed), window.sum.load(Ordering::Relaxed))
    }
}

impl WaitRecorder {
    /// The recorder of these waits; there must be only one at a time.
    pub const fn new(waits: Arc<Waits>) -> Self {
        Self { waits, covered: (Time::ZERO, Time::ZERO) }
    }

    /// Records a wait of a packet.
    pub fn enter(&mut self, from: Time, to: Time) {
        let wait = to.since(from).as_nanos();
        let last = to.as_nanos() / WINDOW_LENGTH.as_nanos();
        // A longer wait fills all retained windows.
        let first = (from.as_nanos() / WINDOW_LENGTH.as_nanos())
            .max((last + 1).saturating_sub(WINDOW_COUNT));
        let (start, end) = self.covered;
        for number in first..=last {
            let window = &self.waits.windows[(number % WINDOW_COUNT) as usize];
            if window.number.load(Ordering::Relaxed) != number + 1 {
                window.longest.store(0, Ordering::Relaxed);
                window.sum.store(0, Ordering::Relaxed);
                window.number.store(number + 1, Ordering::Release);
            }
            let window_start = Time::from_nanos(number * WINDOW_LENGTH.as_nanos());
            let within = |from: Time, to: Time| {
                to.min(window_start + WINDOW_LENGTH).since(from.max(window_start))
            };
            let added = within(from, to.min(start)) + within(from.max(end), to);
            window.longest.fetch_max(wait, Ordering::Relaxed);
            window.sum.fetch_add(added.as_nanos(), Ordering::Relaxed);
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
    fn sums_waits_within_span() {
        let waits = entered(&[(100, 103), (150, 155), (200, 200)]);
        assert_eq!(waits.part_of(DELAY, ms(20), None), ms(0));
        assert_eq!(waits.part_of(DELAY, ms(60), None), ms(5));
        assert_eq!(waits.part_of(DELAY, ms(120), None), ms(8));
    }

    #[test]
    fn count_limits_part_to_multiple_of_longest_wait() {
        let waits = entered(&[(100, 103), (104, 106), (107, 109), (109, 109)]);
        assert_eq!(waits.part_of(DELAY, ms(20), None), ms(7));
        assert_eq!(waits.part_of(DELAY, ms(20), Some(2)), ms(6));
        assert_eq!(waits.part_of(DELAY, ms(20), Some(1)), ms(3));
    }

    #[test]
    fn largest_part_is_maximum_over_single_spans() {
        let waits = entered(&[(100, 103), (150, 155), (200, 200)]);
        let largest = |times| waits.largest_part_of(DELAY, ms(30), times, None);
        assert_eq!([largest(1), largest(3), largest(4)], [ms(0), ms(5), ms(5)]);
        assert_eq!(waits.largest_part_of(DELAY, ms(60), 2, None), ms(8));
        assert_eq!(waits.largest_part_of(DELAY, ms(30), 3, Some(0)), ms(0));
    }

    #[test]
    fn counts_overlapping_waits_once() {
        let waits = entered(&[(100, 108), (102, 108), (95, 109)]);
        assert_eq!(waits.part_of(DELAY, ms(30), None), ms(14));
        assert_eq!(waits.part_of(DELAY, ms(30), Some(1)), ms(14));
    }

    #[test]
    fn splits_wait_across_windows() {
        let waits = entered(&[(95, 125)]);
        assert_eq!(waits.part_of(DELAY, ms(9), None), ms(15));
        assert_eq!(waits.part_of(DELAY, ms(19), None), ms(25));
        assert_eq!(waits.part_of(DELAY, ms(40), None), ms(30));
    }

    #[test]
    fn part_is_at_most_the_delay() {
        let waits = entered(&[(0, 1000)]);
        assert_eq!(waits.part_of(ms(45), ms(50), None), ms(45));
        assert_eq!(waits.part_of(DELAY, Span::from_secs(8), None), DELAY);
    }

    #[test]
    fn replaces_old_windows() {
        let waits = entered(&[(5, 9), (60_000, 60_001)]);
        assert_eq!(waits.part_of(DELAY, ms(4000), None), ms(1));
        let waits = entered(&[(0, 60_000)]);
        // Only the 11 windows before the current one are retained.
        assert_eq!(waits.part_of(DELAY, ms(100), None), ms(110));
    }
}
