//! The pace of a watched run: when it may go on, and how far.

use std::time::Duration;

use base::Time;
use run::live::{ClockChange, ClockState};

/// The speed at the start: real time.
const REAL_TIME: u32 = 1000;

/// Minimum real time for which a run goes on at once, so that it wakes at most 50 times a second.
const SLICE: Duration = Duration::from_millis(20);

/// Maximum real time for which a run that is too slow for its speed catches up.
const MAX_LAG: Duration = Duration::from_millis(500);

/// Time without watchers after which a run goes on as fast as possible; a page that is loaded again
/// connects within it.
pub const ABSENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// A state machine over the real time since the start of the run, the virtual time that the run has
/// reached, and the changes of watchers. It begins at the virtual time 0 with the first watcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    watchers: Watchers,
    mode: Mode,
    /// Virtual time in thousandths of real time; `None` if as fast as possible.
    permille: Option<u32>,
    /// Real and virtual time from which the speed counts.
    origin: (Duration, Time),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watchers {
    /// There was none yet.
    Awaited,
    Present,
    /// There is none since this real time.
    Absent(Duration),
    /// There was none for [`ABSENCE_TIMEOUT`].
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    Paused,
    /// Runs to this time, then pauses.
    Stepping(Time),
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            watchers: Watchers::Awaited,
            mode: Mode::Running,
            permille: Some(REAL_TIME),
            origin: (Duration::ZERO, Time::ZERO),
        }
    }

    /// Registers whether there are watchers.
    pub(crate) fn watch(&mut self, now: Duration, at: Time, is_watched: bool) {
        self.watchers = match (self.watchers, is_watched) {
            (Watchers::Awaited, true) => {
                self.origin = (now, at);
                Watchers::Present
            }
            (_, true) => Watchers::Present,
            (Watchers::Present, false) => Watchers::Absent(now),
            (before, false) => before,
        };
    }

    /// Applies a change at the virtual time `at`.
    pub(crate) fn change(&mut self, now: Duration, at: Time, change: ClockChange) {
        self.mode = match (change, self.mode) {
            (ClockChange::Pause, _) => Mode::Paused,
            (ClockChange::Resume, _) => Mode::Running,
            (ClockChange::Step { ns }, Mode::Stepping(end)) => Mode::Stepping(later(end, ns)),
            (ClockChange::Step { ns }, _) => Mode::Stepping(later(at, ns)),
            (ClockChange::Speed { permille }, mode) => {
                self.permille = permille.map(|permille| permille.max(1));
                mode
            }
        };
        self.origin = (now, at);
    }

    /// The virtual time to which a run that has reached `at` may go on now; `at` if it must wait.
    pub(crate) fn limit(&mut self, now: Duration, at: Time) -> Time {
        match self.watchers {
            Watchers::Awaited => return at,
            Watchers::Absent(since) if now.saturating_sub(since) >= ABSENCE_TIMEOUT => {
                (self.watchers, self.mode, self.permille) = (Watchers::Gone, Mode::Running, None);
            }
            _ => {}
        }
        match self.mode {
            Mode::Paused => at,
            Mode::Stepping(end) if at < end => end,
            Mode::Stepping(_) => {
                self.mode = Mode::Paused;
                at
            }
            Mode::Running => self.permille.map_or(Time::MAX, |speed| self.paced(speed, now, at)),
        }
    }

    fn paced(&mut self, permille: u32, now: Duration, at: Time) -> Time {
        let (since, start) = self.origin;
        let due = later(start, scaled(now.saturating_sub(since), permille));
        let earliest = later(at, scaled(SLICE, permille));
        let latest = later(at, scaled(MAX_LAG, permille));
        if due > latest {
            self.origin = (now, latest);
            return latest;
        }
        if due < earliest { at } else { due }
    }

    /// Whether the run goes on without watchers.
    pub(crate) fn is_unattended(&self) -> bool {
        self.watchers == Watchers::Gone
    }

    pub(crate) fn state(&self, at: Time) -> ClockState {
        let is_paused = self.mode != Mode::Running;
        ClockState { now: at.as_secs_f64(), is_paused, permille: self.permille }
    }
}

fn later(time: Time, ns: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(ns))
}

/// Virtual time in this real time, in ns; at least 1.
fn scaled(real: Duration, permille: u32) -> u64 {
    let ns = real.as_nanos() * u128::from(permille) / 1000;
    u64::try_from(ns).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use base::Span;

    use super::*;

    const fn real(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// A pace whose first watcher came after 1 s.
    fn watched() -> Pace {
        let mut pace = Pace::new();
        assert_eq!(pace.limit(real(1000), at(0)), at(0));
        pace.watch(real(1000), at(0), true);
        pace
    }

    const fn step(ms: u64) -> ClockChange {
        ClockChange::Step { ns: ms * 1_000_000 }
    }

    #[test]
    fn begins_with_the_first_watcher_in_real_time() {
        let mut pace = watched();
        assert_eq!(pace.limit(real(1019), at(0)), at(0), "less than a slice");
        assert_eq!(pace.limit(real(1030), at(0)), at(30));
        assert_eq!(pace.limit(real(1049), at(30)), at(30));
        assert_eq!(pace.limit(real(1100), at(30)), at(100));
        let state = ClockState { now: 0.1, is_paused: false, permille: Some(1000) };
        assert_eq!(pace.state(at(100)), state);
    }

    #[test]
    fn pauses_and_resumes_without_catching_up() {
        let mut pace = watched();
        pace.change(real(1500), at(500), ClockChange::Pause);
        assert_eq!(pace.limit(real(9000), at(500)), at(500));
        assert!(pace.state(at(500)).is_paused);
        pace.change(real(9000), at(500), ClockChange::Resume);
        assert_eq!(pace.limit(real(9100), at(500)), at(600));
    }

    #[test]
    fn steps_add_up_and_end_in_a_pause() {
        let mut pace = watched();
        pace.change(real(1100), at(100), step(10));
        assert_eq!(pace.limit(real(1100), at(100)), at(110));
        pace.change(real(1100), at(103), step(20));
        assert_eq!(pace.limit(real(1100), at(103)), at(130));
        assert!(pace.state(at(103)).is_paused);
        assert_eq!(pace.limit(real(5000), at(130)), at(130));
        assert_eq!(pace.limit(real(9000), at(130)), at(130));
        pace.change(real(9000), at(130), ClockChange::Step { ns: u64::MAX });
        assert_eq!(pace.limit(real(9000), at(130)), Time::from_nanos(u64::MAX));
    }

    #[test]
    fn speed_counts_from_its_change_and_keeps_a_pause() {
        let mut pace = watched();
        pace.change(real(1100), at(100), ClockChange::Speed { permille: Some(10_000) });
        assert_eq!(pace.limit(real(1200), at(100)), at(1100));
        pace.change(real(1200), at(1100), ClockChange::Speed { permille: None });
        assert_eq!(pace.limit(real(1200), at(1100)), Time::MAX);
        pace.change(real(1200), at(2000), ClockChange::Pause);
        pace.change(real(1300), at(2000), ClockChange::Speed { permille: Some(0) });
        assert_eq!(pace.limit(real(2300), at(2000)), at(2000));
        pace.change(real(2300), at(2000), ClockChange::Resume);
        assert_eq!(pace.limit(real(2700), at(2000)), at(2000) + Span::from_micros(400));
    }

    #[test]
    fn run_that_is_too_slow_catches_up_for_half_a_second_at_most() {
        let mut pace = watched();
        assert_eq!(pace.limit(real(5000), at(0)), at(500));
        assert_eq!(pace.limit(real(5000), at(500)), at(500));
        assert_eq!(pace.limit(real(5100), at(500)), at(600));
    }

    #[test]
    fn goes_on_without_limit_if_watchers_stay_away() {
        let mut pace = watched();
        pace.change(real(1100), at(100), ClockChange::Pause);
        pace.watch(real(2000), at(100), false);
        assert_eq!(pace.limit(real(6000), at(100)), at(100));
        pace.watch(real(6000), at(100), true);
        assert_eq!(pace.limit(real(9000), at(100)), at(100), "the page was loaded again");
        pace.watch(real(9000), at(100), false);
        pace.watch(real(12_000), at(100), false);
        assert!(!pace.is_unattended());
        assert_eq!(pace.limit(real(14_000), at(100)), Time::MAX);
        assert!(pace.is_unattended());
        pace.watch(real(15_000), at(700), true);
        let state = ClockState { now: 0.7, is_paused: false, permille: None };
        assert_eq!((pace.state(at(700)), pace.is_unattended()), (state, false));
    }
}
