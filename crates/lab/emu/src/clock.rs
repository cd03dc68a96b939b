//! Lab time: one clock for all threads of a shard, synchronised with the clocks of other agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use base::{Span, Time};

/// Maximum rate change of a slew in parts per million: too small to affect emulated links, and the
/// limit of RFC 5905 for a disciplined clock.
const MAX_SLEW_PPM: u64 = 500;

/// Time since the lab's start. Clones share the same clock.
///
/// Lab time is `CLOCK_MONOTONIC` minus an origin. A better estimate of the origin is approached at
/// a rate of at most 500 ppm, so that lab time always advances and never jumps.
#[derive(Clone, Debug)]
pub struct LabClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Odd during an update of the other fields.
    sequence: AtomicU64,
    /// `CLOCK_MONOTONIC` at the start of the slew, and the origin at that time.
    from: AtomicU64,
    origin: AtomicU64,
    /// The origin at the end of the slew.
    target: AtomicU64,
}

/// A consistent copy of the clock's fields.
#[derive(Clone, Copy, Debug)]
struct State {
    from: u64,
    origin: u64,
    target: u64,
}

impl State {
    /// The origin at a time of `CLOCK_MONOTONIC`.
    fn origin(self, at: u64) -> u64 {
        let elapsed = u128::from(at.saturating_sub(self.from));
        let max_change =
            u64::try_from(elapsed * u128::from(MAX_SLEW_PPM) / 1_000_000).unwrap_or(u64::MAX);
        if self.target >= self.origin {
            self.origin + (self.target - self.origin).min(max_change)
        } else {
            self.origin - (self.origin - self.target).min(max_change)
        }
    }
}

impl LabClock {
    /// A clock with time zero at `origin`, in nanoseconds of `CLOCK_MONOTONIC`; `origin` may
    /// lie in the future.
    pub fn new(origin: u64) -> Self {
        let [sequence, from, target] = [0, origin, origin].map(AtomicU64::new);
        Self(Arc::new(Shared { sequence, from, origin: AtomicU64::new(origin), target }))
    }

    /// The current lab time; zero until the lab starts.
    pub fn now(&self) -> Time {
        self.time_at(sys::clock::monotonic())
    }

    /// Lab time at a time of `CLOCK_MONOTONIC`.
    pub fn time_at(&self, at: u64) -> Time {
        Time::from_nanos(at.saturating_sub(self.read().origin(at)))
    }

    /// `CLOCK_MONOTONIC` at lab time zero, by the current estimate.
    pub fn origin(&self) -> u64 {
        self.read().origin(sys::clock::monotonic())
    }

    /// Time until the lab starts; zero afterwards.
    pub fn until_start(&self) -> Span {
        let at = sys::clock::monotonic();
        Span::from_nanos(self.read().origin(at).saturating_sub(at))
    }

    /// Sets a better estimate of the origin. Only one thread at a time may call this.
    pub fn adjust(&self, target: u64) {
        let at = sys::clock::monotonic();
        let origin = self.read().origin(at);
        // Before time zero no other thread has read the clock, so it may jump.
        let state = if origin >= at { target.max(at) } else { origin };
        self.write(State { from: at, origin: state, target });
    }

    fn read(&self) -> State {
        let Shared { sequence, from, origin, target } = &*self.0;
        loop {
            let before = sequence.load(Ordering::Acquire);
            let [from, origin, target] = [from, origin, target].map(|v| v.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if before % 2 == 0 && sequence.load(Ordering::Relaxed) == before {
                return State { from, origin, target };
            }
            std::hint::spin_loop();
        }
    }

    fn write(&self, state: State) {
        let Shared { sequence, from, origin, target } = &*self.0;
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        from.store(state.from, Ordering::Relaxed);
        origin.store(state.origin, Ordering::Relaxed);
        target.store(state.target, Ordering::Relaxed);
        sequence.store(before + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slews_origin_at_500_ppm_in_both_directions() {
        let state = State { from: 1_000, origin: 500_000, target: 510_000 };
        assert_eq!(state.origin(0), 500_000);
        assert_eq!(state.origin(1_000 + 2_000_000), 501_000);
        assert_eq!(state.origin(1_000_000_000), 510_000);
        let state = State { target: 490_000, ..state };
        assert_eq!(state.origin(1_000 + 2_000_000), 499_000);
        assert_eq!(state.origin(1_000_000_000), 490_000);
    }

    #[test]
    fn lab_time_never_decreases_during_adjustment() {
        let clock = LabClock::new(sys::clock::monotonic());
        let mut last = clock.now();
        for round in 0..10_000 {
            if round % 100 == 0 {
                let origin = clock.origin();
                clock.adjust(origin + if round % 200 == 0 { 1_000_000 } else { 0 } - 500_000);
            }
            let now = clock.now();
            assert!(now >= last, "{now} {last}");
            last = now;
        }
    }

    #[test]
    fn lab_time_is_zero_before_start() {
        let clock = LabClock::new(sys::clock::monotonic() + 1_000_000_000_000);
        assert_eq!(clock.now(), Time::ZERO);
        let before = clock.until_start();
        clock.adjust(clock.origin() + 5_000_000_000);
        assert!(clock.until_start() > before && clock.now() == Time::ZERO);
    }
}
