//! Sleep durations of the data path: timer precision, release grid, and wake-up latency.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use base::{Span, Time};
use lab::plan::Precision;
use sys::timer;

use super::ports::Poller;

/// The release grid of a lab with high load.
const RELEASE_GRID: Span = Span::from_micros(100);

/// Interval of load measurements.
const LOAD_WINDOW: Span = Span::from_millis(10);

/// Packets per window from which releases are aligned to the grid: 20,000 packets/s.
const MIN_BUSY_PACKETS: u64 = 200;

/// Rounds of the wake-up calibration.
const WAKE_UP_ROUNDS: u32 = 64;

/// Rounds of the timer calibration, and the sleep of each.
const TIMER_ROUNDS: u32 = 24;
const TIMER_SLEEP: Span = Span::from_micros(200);

/// Maximum reduction of a sleep, which compensates the timer latency.
const MAX_SHORTENING: Span = Span::from_micros(80);

/// Change of the wake-up latency estimate per wake-up.
const LATENCY_STEP: Span = Span::from_nanos(250);

/// Decides when to wake up.
#[derive(Debug)]
pub(super) struct Pace {
    precision: Precision,
    fixed: Option<Span>,
    /// Typical timer latency: sleeps are shortened by this.
    timer_latency: Span,
    busy: bool,
    window_end: Time,
    delivered: u64,
    windows: u64,
    busy_windows: u64,
}

impl Pace {
    pub(super) const fn new(precision: Precision, fixed: Option<Span>) -> Self {
        Self {
            precision,
            fixed,
            timer_latency: Span::ZERO,
            busy: false,
            window_end: Time::ZERO,
            delivered: 0,
            windows: 0,
            busy_windows: 0,
        }
    }

    /// Measures the timer latency of this host.
    pub(super) fn calibrate(&mut self, poller: &mut Poller) {
        let mut ready = Vec::new();
        let mut samples: Vec<u64> = (0..TIMER_ROUNDS)
            .map(|_| {
                let due = sys::clock::monotonic() + TIMER_SLEEP.as_nanos();
                poller.wait(TIMER_SLEEP, &mut ready);
                sys::clock::monotonic().saturating_sub(due)
            })
            .collect();
        samples.sort_unstable();
        self.timer_latency = Span::from_nanos(samples[samples.len() / 2]).min(MAX_SHORTENING);
    }

    /// Updates the latency estimate after a sleep that was the last one before a deadline: the
    /// sleep began `left` before the deadline and ended `late` after it. The estimate follows the
    /// median in small steps, because wake-up latency depends on the processor's idle state, which
    /// changes with the load.
    pub(super) fn update_latency(&mut self, left: Span, late: Span) {
        if timer::is_long(left) {
            return;
        }
        self.timer_latency = if late > self.timer_latency {
            (self.timer_latency + LATENCY_STEP).min(MAX_SHORTENING)
        } else {
            self.timer_latency.saturating_sub(LATENCY_STEP)
        };
    }

    /// Measures the load: `delivered` packets since the start.
    pub(super) fn update_load(&mut self, now: Time, delivered: u64) {
        if now < self.window_end {
            return;
        }
        self.busy =
            self.precision == Precision::Normal && delivered - self.delivered >= MIN_BUSY_PACKETS;
        self.delivered = delivered;
        self.window_end = now + LOAD_WINDOW;
        self.windows += 1;
        self.busy_windows += u64::from(self.busy);
    }

    /// When to wake up for a deadline: at the next grid point if releases are aligned.
    pub(super) fn release_time(&self, deadline: Time) -> Time {
        let grid = match self.fixed {
            Some(grid) => grid,
            None if self.busy => RELEASE_GRID,
            None => return deadline,
        };
        match grid.as_nanos() {
            0 => deadline,
            grid => Time::from_nanos(deadline.as_nanos().div_ceil(grid).saturating_mul(grid)),
        }
    }

    /// How long to sleep at `now` for a wake-up at `wake`: shortened by the latency estimate, so
    /// that half of the deadlines are met. The data path polls the ports for the rest of the time.
    pub(super) fn sleep(&self, now: Time, wake: Time) -> Span {
        let left = wake.since(now);
        match self.precision {
            Precision::Normal if self.aligns_releases() => left,
            Precision::Normal => timer::leg(left, self.timer_latency),
            Precision::High => timer::leg(left, timer::SPIN),
        }
    }

    /// Whether releases are aligned to the grid, whose step is much larger
    /// than the wake-up latency.
    pub(super) fn aligns_releases(&self) -> bool {
        self.fixed.map_or(self.busy, Span::is_positive)
    }

    /// Share of the time in which releases were aligned to the grid.
    pub(super) fn aligned_share(&self) -> f64 {
        match self.fixed {
            Some(grid) if grid.is_positive() => 1.0,
            _ => self.busy_windows as f64 / self.windows.max(1) as f64,
        }
    }
}

/// The latency between another thread's write and this thread's wake-up in the wait for ports: a
/// packet that wakes this thread is stamped too late by this.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WakeUp {
    /// Minimum of all wake-ups.
    pub(super) min: Span,
    pub(super) median: Span,
}

/// Measures the wake-up latency.
pub(super) fn calibrate(poller: &mut Poller) -> WakeUp {
    let stamp = Arc::new(AtomicU64::new(0));
    let (next, go) = mpsc::channel::<()>();
    let waking_thread = {
        let (stamp, waker) = (Arc::clone(&stamp), poller.waker());
        std::thread::spawn(move || {
            while go.recv().is_ok() {
                std::thread::sleep(std::time::Duration::from_micros(100));
                stamp.store(sys::clock::monotonic(), Ordering::Release);
                let _ = rustix::io::write(waker.as_fd(), &1u64.to_ne_bytes());
            }
        })
    };
    let mut samples = Vec::new();
    let mut ready = Vec::new();
    for _ in 0..WAKE_UP_ROUNDS {
        stamp.store(0, Ordering::Release);
        if next.send(()).is_err() {
            break;
        }
        poller.wait(Span::from_millis(20), &mut ready);
        let woken = sys::clock::monotonic();
        let written = stamp.load(Ordering::Acquire);
        if written > 0 && ready.is_empty() {
            samples.push(woken.saturating_sub(written));
        }
    }
    drop(next);
    let _ = waking_thread.join();
    samples.sort_unstable();
    // 0.5 ms or more is a stall of the host, not wake-up latency.
    let at = |index: usize| samples.get(index).copied().unwrap_or(0).min(500_000);
    WakeUp { min: Span::from_nanos(at(0)), median: Span::from_nanos(at(samples.len() / 2)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_estimate_follows_median_and_ignores_stalls() {
        let mut pace = Pace::new(Precision::Normal, None);
        for round in 0..4_000 {
            let stall = round % 10 == 0;
            let usual = 25_000 + round % 7 * 1_000;
            let left = Span::from_micros(500);
            pace.update_latency(left, Span::from_nanos(if stall { 4_000_000 } else { usual }));
        }
        let before = pace.timer_latency;
        assert!((26_000..32_000).contains(&before.as_nanos()), "{before}");
        (0..1_000).for_each(|_| pace.update_latency(Span::from_millis(50), Span::from_micros(200)));
        assert_eq!(pace.timer_latency, before);
    }

    #[test]
    fn shortens_sleep_by_timer_latency_unless_grid_is_active() {
        let (now, wake) = (Time::from_nanos(1_000), Time::from_nanos(301_000));
        let mut pace = Pace::new(Precision::Normal, None);
        pace.timer_latency = Span::from_micros(20);
        assert_eq!(pace.sleep(now, wake), Span::from_micros(280));
        assert_eq!(pace.sleep(now, now + Span::from_micros(5)), Span::ZERO);
        pace.busy = true;
        assert_eq!(pace.sleep(now, wake), Span::from_micros(300));
        let mut pace = Pace::new(Precision::Normal, Some(Span::from_micros(50)));
        pace.timer_latency = Span::from_micros(20);
        assert_eq!(pace.sleep(now, wake), Span::from_micros(300));
        assert_eq!(Pace::new(Precision::High, None).sleep(now, wake), Span::from_micros(200));
    }
}
