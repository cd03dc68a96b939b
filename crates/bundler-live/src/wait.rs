//! The clock of a box, and waiting until a moment or for something to read.

use std::fs::File;
use std::io::Read;

use base::{Span, Time};
use sys::socket::{Ready, ReadyQueue};
use sys::timer;

use crate::{Error, Result};

/// The time of `CLOCK_MONOTONIC`: machines are told times of one clock only.
pub(crate) fn now() -> Time {
    Time::from_nanos(sys::clock::monotonic())
}

/// Waits until something can be read or `at` is there, whichever comes first.
pub(crate) fn until(
    ready: &mut ReadyQueue,
    at: Time,
    spin: bool,
    events: &mut Vec<Ready>,
) -> Result<()> {
    loop {
        let left = at.since(now());
        let sleep = if spin { timer::leg(left, timer::SPIN) } else { left };
        ready.wait(Some(sleep.as_nanos()), events)?;
        if !events.is_empty() || !spin || now() >= at {
            return Ok(());
        }
    }
}

/// Has the kernel end this thread's waits as soon as it can.
pub(crate) fn be_precise() {
    /// So that others do not run for long while this thread could.
    const SLICE: u64 = 500_000;
    // Where it may not be asked, waits end later.
    let _ = sys::sched::set_timer_slack(1);
    let _ = sys::sched::set_slice(SLICE);
}

/// A number that no other life of this box has had, nor will have.
pub(crate) fn incarnation() -> Result<u64> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 8];
    let read = File::open(SOURCE).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::file("read", SOURCE, e))?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

/// How long ago a moment of `CLOCK_REALTIME` was, if that is a short time.
pub(crate) fn age(stamp: u64, realtime: u64) -> Span {
    const LONGEST: u64 = 1_000_000_000;
    match realtime.checked_sub(stamp) {
        Some(age) if age < LONGEST => Span::from_nanos(age),
        // Somebody has set the clock.
        _ => Span::ZERO,
    }
}
