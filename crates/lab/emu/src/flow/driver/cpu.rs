//! Measures the times for which the flow thread waits for a CPU.

use std::sync::Arc;

use base::{Histogram, Span, Time};
use run::waits::{WaitRecorder, Waits};
use sys::sched::RunQueueWait;

/// Minimum time between readings of the kernel's counter, each of which costs about 1 µs. A wait
/// that only the next reading detects is shorter than this.
const READ_INTERVAL: Span = Span::from_micros(50);

/// Measures the waits of the calling thread.
pub(super) struct CpuWaits {
    counter: Option<RunQueueWait>,
    /// The counter at the last reading.
    counted: u64,
    read_at: Time,
    /// Events since then.
    events: u64,
    recorder: WaitRecorder,
    /// Waits before each event, in nanoseconds.
    waits: Histogram,
}

impl CpuWaits {
    pub(super) fn new(waits: Arc<Waits>) -> Self {
        Self {
            counter: None,
            counted: 0,
            read_at: Time::ZERO,
            events: 0,
            recorder: WaitRecorder::new(waits),
            waits: Histogram::new(),
        }
    }

    /// Begins to measure the calling thread.
    pub(super) fn start(&mut self, now: Time) {
        self.counter = RunQueueWait::of_this_thread();
        self.counted = self.count();
        self.read_at = now;
    }

    /// The kernel's counter, or the last value if it cannot be read.
    fn count(&self) -> u64 {
        self.counter.as_ref().and_then(RunQueueWait::nanos).unwrap_or(self.counted)
    }

    /// Records the wait of the thread before it woke at `now` with this number of events. The wait
    /// includes the time since `deadline`, because the counter does not contain steal time.
    pub(super) fn observe(&mut self, now: Time, deadline: Time, events: usize) {
        self.events += events.max(1) as u64;
        if now.since(self.read_at) < READ_INTERVAL {
            return;
        }
        let counted = self.count();
        let wait = Span::from_nanos(counted.saturating_sub(self.counted)).max(now.since(deadline));
        let from = Time::from_nanos(now.as_nanos().saturating_sub(wait.as_nanos()));
        self.recorder.enter(from, now);
        self.waits.record_many(wait.as_nanos(), self.events);
        (self.counted, self.read_at, self.events) = (counted, now, 0);
    }

    pub(super) fn into_histogram(self) -> Histogram {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn counts_wake_up_lateness_as_wait() {
        let waits = Arc::<Waits>::default();
        let mut thread = CpuWaits::new(waits.clone());
        thread.observe(at(1_000), at(1_000), 2);
        thread.observe(at(5_000), at(2_000), 1);
        assert_eq!(waits.part_of(Span::MAX, Span::from_millis(5), None), Span::from_millis(3));
        let all = thread.into_histogram();
        assert_eq!((all.count(), all.min()), (3, 0), "the first wait is that of both its events");
        assert!((2_970_000..3_030_000).contains(&all.max()), "{}", all.max());
    }

    #[test]
    fn events_between_readings_get_wait_of_next_reading() {
        let mut thread = CpuWaits::new(Arc::default());
        for micros in [1_000, 1_020, 1_040, 1_060] {
            thread.observe(at(micros), at(1_030), 1);
        }
        let all = thread.into_histogram();
        assert_eq!((all.count(), all.min()), (4, 0));
        assert!((29_000..31_000).contains(&all.percentile(0.5)), "{}", all.percentile(0.5));
    }

    #[test]
    fn reads_kernel_wait_counter_of_thread() {
        let mut thread = CpuWaits::new(Arc::default());
        thread.start(Time::ZERO);
        assert!(thread.counter.is_some());
        assert!(thread.count() >= thread.counted);
    }
}
