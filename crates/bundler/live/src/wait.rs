//! The clock of a gateway, and waiting for a deadline or for input.

use std::fs::File;
use std::io::Read;

use base::{Span, Time};
use sys::socket::{Ready, ReadyQueue};
use sys::timer;

use crate::{Error, Result};

/// The time of `CLOCK_MONOTONIC`: all times are of this clock.
pub(crate) fn now() -> Time {
    Time::from_nanos(sys::clock::monotonic())
}

/// Waits until input is available or the time is `at`, whichever comes first.
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

/// Minimises the timer slack of this thread.
pub(crate) fn be_precise() {
    /// Limits the time for which other threads run while this thread is ready.
    const SLICE: u64 = 500_000;
    // Without the permission, waits end later.
    let _ = sys::sched::set_timer_slack(1);
    let _ = sys::sched::set_slice(SLICE);
}

/// A number that is unique among all incarnations of this gateway.
pub(crate) fn incarnation() -> Result<u64> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 8];
    let read = File::open(SOURCE).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::file("read", SOURCE, e))?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

/// Age of `stamp`, a time of `CLOCK_REALTIME`; zero if it is not plausible.
pub(crate) fn age(stamp: u64, realtime: u64) -> Span {
    const MAX_WAIT_NANOS: u64 = 1_000_000_000;
    match realtime.checked_sub(stamp) {
        Some(age) if age < MAX_WAIT_NANOS => Span::from_nanos(age),
        // The clock was set.
        _ => Span::ZERO,
    }
}
