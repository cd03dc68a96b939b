//! How late one thread wakes for deadlines, and the first of two threads on two CPUs.

use std::thread::{self, JoinHandle};

use base::Histogram;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Outcome;

/// Time between deadlines, in nanoseconds: about that between packets of a lab of 30 Mbit/s.
const STEP: u64 = 300_000;

/// Time in nanoseconds until the threads of a measurement are ready.
const LEAD: u64 = 10_000_000;

/// Prints the lateness of the first wake-up for each deadline, and the CPU time.
pub(crate) fn measure(threads: &str, seconds: &str) -> Outcome {
    let (threads, nanos) = (threads.parse::<usize>()?, crate::nanos(seconds)?);
    let start = sys::clock::monotonic() + LEAD;
    let cpu = sys::clock::process_cpu();
    let all: Vec<JoinHandle<_>> = (0..threads)
        .map(|number| thread::spawn(move || wake_ups(number, threads > 1, start, nanos / STEP)))
        .collect();
    let mut first: Vec<u64> = Vec::new();
    for thread in all {
        let woken = thread.join().map_err(|_| "a thread has ended early")??;
        first = if first.is_empty() {
            woken
        } else {
            first.iter().zip(woken).map(|(a, b)| b.min(*a)).collect()
        };
    }
    let cpu = (sys::clock::process_cpu() - cpu) as f64 / 1e9;
    let mut lateness = Histogram::new();
    for (at, woken) in first.iter().enumerate() {
        lateness.record(woken.saturating_sub(start + at as u64 * STEP));
    }
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| lateness.percentile(share));
    let max = lateness.max();
    crate::print(&format!(
        "{{\"p50\":{p50},\"p99\":{p99},\"p99.9\":{p999},\"max\":{max},\"cpu_s\":{cpu}}}"
    ));
    Ok(())
}

/// When a thread like the data path woke for each deadline. A deadline that has passed before the
/// thread slept is reached at once.
fn wake_ups(
    number: usize,
    is_pinned: bool,
    start: u64,
    count: u64,
) -> rustix::io::Result<Vec<u64>> {
    if is_pinned {
        let mut cpus = CpuSet::new();
        cpus.set(number);
        sched_setaffinity(None, &cpus)?;
    }
    // As in a lab, both are best effort.
    let _ = sys::sched::set_timer_slack(1);
    let _ = sys::sched::set_fifo(10);
    let wake = |at: u64| {
        let left = (start + at * STEP).saturating_sub(sys::clock::monotonic());
        if left > 0 {
            thread::sleep(std::time::Duration::from_nanos(left));
        }
        sys::clock::monotonic()
    };
    Ok((0..count).map(wake).collect())
}
