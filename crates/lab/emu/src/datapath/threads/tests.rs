//! The second thread while the first one is asleep. The data path takes a sample every 100 ms.

use std::sync::mpsc::Receiver;
use std::thread::yield_now;

use super::*;
use crate::datapath::worker::tests::{LAB, Staged};

/// Time until a test fails.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the second thread and `test`, which gets the guard, the next deadline and the samples.
fn with_second_thread(test: impl FnOnce(&EndGuard<'_>, Time, &Receiver<Batch>)) {
    let Staged { mut worker, batches, kept: _kept, .. } = Staged::new(LAB);
    let (clock, signal) = (worker.clock(), ThreadSignal::new());
    let deadline = worker.next_sleep().deadline;
    let cell = Mutex::new(worker);
    let cpus = sched_getaffinity(None).unwrap();
    scope(|scope| {
        let (cell, signal, clock) = (&cell, &signal, &clock);
        let thread = scope.spawn(move || run_second(cell, signal, clock, &cpus));
        test(&EndGuard(signal, Some(thread.thread().clone())), deadline, &batches);
    });
}

#[test]
fn handles_deadlines_that_the_first_thread_misses() {
    with_second_thread(|end, deadline, samples| {
        end.announce(deadline, false);
        let times = [0, 1, 2].map(|_| samples.recv_timeout(TIMEOUT).unwrap().at);
        assert_eq!(times, [0, 100, 200].map(|at| Time::ZERO + Span::from_millis(at)));
    });
}

#[test]
fn wakes_for_an_earlier_deadline() {
    with_second_thread(|end, deadline, samples| {
        end.announce(Time::MAX, false);
        while end.0.sleeps_until.load(Ordering::SeqCst) != u64::MAX {
            yield_now();
        }
        assert!(samples.try_recv().is_err());
        end.announce(deadline, false);
        assert_eq!(samples.recv_timeout(TIMEOUT).unwrap().at, Time::ZERO);
    });
}
