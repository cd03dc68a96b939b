//! Deviation of waits from their deadline on this machine.

use base::Span;
use serde_json::{Value, json};
use sys::clock::monotonic;
use sys::socket::{Ready, ReadyQueue};
use sys::{sched, timer};

use crate::Failure;
use crate::args::measure::Timers;

/// The time slice that a data path requests; threads with shorter slices are scheduled sooner.
const TIME_SLICE_NANOS: u64 = 100_000;
/// The lowest real-time priority: it precedes all ordinary threads.
const FIFO_PRIORITY: i32 = 1;
const MIN_WAITS: u64 = 3;
const MAX_WAITS: u64 = 500;

/// How a thread waits for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// As a data path waits for packets, with the least timer slack (1 ns).
    Sleep,
    /// A long sleep, a short one until shortly before the deadline, then a spin.
    Hybrid,
    /// Reads of the clock until the deadline.
    Spin,
}

impl Method {
    const ALL: [Self; 3] = [Self::Sleep, Self::Hybrid, Self::Spin];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Hybrid => "hybrid",
            Self::Spin => "spin",
        }
    }

    /// Time from the end of the sleep to the deadline; `None` without a sleep.
    const fn early(self) -> Option<Span> {
        match self {
            Self::Sleep => Some(Span::ZERO),
            Self::Hybrid => Some(timer::SPIN),
            Self::Spin => None,
        }
    }
}

/// Nanoseconds from the deadline to the end of each wait, by length and method.
pub(super) fn measure(args: &Timers) -> Result<Value, Failure> {
    let mut waits = Vec::new();
    for expected in &args.expected {
        for (method, late) in measure_length(*expected, args).map_err(Failure::machine)? {
            waits.push(json!({
                "method": method.as_str(),
                "expected_ns": expected.as_nanos(),
                "late_ns": late,
            }));
        }
    }
    Ok(json!({ "waits": waits }))
}

/// Measures the waits of one length, in a separate thread with the requested scheduling.
fn measure_length(expected: Span, args: &Timers) -> Result<Vec<(Method, Vec<u64>)>, sys::Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sched::set_timer_slack(1)?;
            if args.real_time {
                sched::set_fifo(FIFO_PRIORITY)?;
            } else {
                // Kernels before 6.12 have no slices.
                let _ = sched::set_slice(TIME_SLICE_NANOS);
            }
            let mut timer = Timer { ports: ReadyQueue::try_new()?, ready: Vec::new() };
            let all = Method::ALL.into_iter();
            all.map(|of| Ok((of, timer.waits(of, expected, args.each)?))).collect()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits as a data path does without packets.
struct Timer {
    ports: ReadyQueue,
    ready: Vec<Ready>,
}

impl Timer {
    fn sleep(&mut self, length: Span) -> Result<(), sys::Error> {
        self.ports.wait(Some(length.as_nanos()), &mut self.ready)
    }

    fn waits(&mut self, of: Method, expected: Span, each: Span) -> Result<Vec<u64>, sys::Error> {
        let length = expected.as_nanos();
        let count = (each.as_nanos() / length.max(1)).clamp(MIN_WAITS, MAX_WAITS);
        let mut late = Vec::new();
        for _ in 0..count {
            // The kernel stops real-time threads that run for 95 % of a second.
            self.sleep(Span::from_nanos(length / 10 + 20_000))?;
            late.push(self.wait(of, expected)?);
        }
        Ok(late)
    }

    /// Waits, and returns the nanoseconds after the deadline.
    fn wait(&mut self, method: Method, expected: Span) -> Result<u64, sys::Error> {
        let due = monotonic() + expected.as_nanos();
        if let Some(early) = method.early() {
            if method == Method::Hybrid && timer::is_long(expected) {
                self.sleep(timer::leg(expected, early))?;
            }
            let left = Span::from_nanos(due.saturating_sub(monotonic()));
            let rest = left.saturating_sub(early);
            if rest.is_positive() || method == Method::Sleep {
                self.sleep(rest)?;
            }
        }
        let mut now = monotonic();
        while now < due {
            std::hint::spin_loop();
            now = monotonic();
        }
        Ok(now - due)
    }
}
