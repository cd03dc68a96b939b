//! A lab's time: one clock for all of a piece's threads, kept in step with the other machines'.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use base::{Span, Time};

/// By how much a slew makes time run faster or slower at most, in parts per million: less than
/// anything that is emulated can tell, and RFC 5905's limit for a disciplined clock.
const SLEW: u64 = 500;

/// Time since the lab's start. Clones tell the same time.
///
/// Lab time is `CLOCK_MONOTONIC` less an origin. A better estimate of the origin is approached at
/// no more than 500 parts per million, so that lab time never stands still, jumps or goes back.
#[derive(Clone, Debug)]
pub struct LabClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Odd while the rest is being written.
    sequence: AtomicU64,
    /// `CLOCK_MONOTONIC` when the slew began, and the origin then.
    from: AtomicU64,
    origin: AtomicU64,
    /// The origin that is approached.
    target: AtomicU64,
}

/// One state of the clock.
#[derive(Clone, Copy, Debug)]
struct State {
    from: u64,
    origin: u64,
    target: u64,
}

impl State {
    /// The origin in force at a moment of `CLOCK_MONOTONIC`.
    fn origin(self, at: u64) -> u64 {
        let elapsed = u128::from(at.saturating_sub(self.from));
        let most = u64::try_from(elapsed * u128::from(SLEW) / 1_000_000).unwrap_or(u64::MAX);
        if self.target >= self.origin {
            self.origin + (self.target - self.origin).min(most)
        } else {
            self.origin - (self.origin - self.target).min(most)
        }
    }
}

impl LabClock {
    /// A clock whose time zero is at `origin`, in nanoseconds of `CLOCK_MONOTONIC`; it may lie
    /// ahead.
    pub fn new(origin: u64) -> Self {
        let [sequence, from, target] = [0, origin, origin].map(AtomicU64::new);
        Self(Arc::new(Shared { sequence, from, origin: AtomicU64::new(origin), target }))
    }

    /// The time; zero until the lab starts.
    pub fn now(&self) -> Time {
        self.time_at(sys::clock::monotonic())
    }

    /// The time at a moment of `CLOCK_MONOTONIC`.
    pub fn time_at(&self, at: u64) -> Time {
        Time::from_nanos(at.saturating_sub(self.read().origin(at)))
    }

    /// `CLOCK_MONOTONIC` at time zero, as known now.
    pub fn origin(&self) -> u64 {
        self.read().origin(sys::clock::monotonic())
    }

    /// How long it is until the lab starts; zero when it has.
    pub fn until_start(&self) -> Span {
        let at = sys::clock::monotonic();
        Span::from_nanos(self.read().origin(at).saturating_sub(at))
    }

    /// A better estimate of the origin. One thread at a time may call this.
    pub fn adjust(&self, target: u64) {
        let at = sys::clock::monotonic();
        let origin = self.read().origin(at);
        // Before time zero nobody has seen the clock run.
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
    fn the_origin_is_approached_slowly_from_both_sides() {
        let state = State { from: 1_000, origin: 500_000, target: 510_000 };
        assert_eq!(state.origin(0), 500_000);
        assert_eq!(state.origin(1_000 + 2_000_000), 501_000);
        assert_eq!(state.origin(1_000_000_000), 510_000);
        let state = State { target: 490_000, ..state };
        assert_eq!(state.origin(1_000 + 2_000_000), 499_000);
        assert_eq!(state.origin(1_000_000_000), 490_000);
    }

    #[test]
    fn time_goes_on_though_the_origin_moves() {
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
    fn what_lies_ahead_is_waited_for() {
        let clock = LabClock::new(sys::clock::monotonic() + 1_000_000_000_000);
        assert_eq!(clock.now(), Time::ZERO);
        let before = clock.until_start();
        clock.adjust(clock.origin() + 5_000_000_000);
        assert!(clock.until_start() > before && clock.now() == Time::ZERO);
    }
}
