//! How far from its expected end a wait ends on this machine.

use base::Span;
use sys::clock::monotonic;
use sys::socket::ReadyQueue;
use sys::{sched, timer};

/// The time slice that a data path asks for; shorter ones are scheduled sooner.
const SLICE: u64 = 100_000;
/// The lowest real-time priority is above all ordinary threads.
const PRIORITY: i32 = 1;
/// The most waits of one length: more tell nothing new.
const MOST: u64 = 500;

/// How a thread waits for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The wait of a data path for packets, with the least timer slack (1 ns).
    Sleep,
    /// A long sleep, a short one until shortly before the deadline, then looking at the clock.
    Hybrid,
    /// Looking at the clock all the time.
    Spin,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Sleep, Self::Hybrid, Self::Spin];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Hybrid => "hybrid",
            Self::Spin => "spin",
        }
    }

    /// By how much a sleep ends before the deadline; `None`: there is none.
    const fn early(self) -> Option<Span> {
        match self {
            Self::Sleep => Some(Span::ZERO),
            Self::Hybrid => Some(timer::SPIN),
            Self::Spin => None,
        }
    }
}

/// How the kernel schedules the waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheduling {
    /// As everyone, in short slices.
    Ordinary,
    /// Before everyone else (`SCHED_FIFO`).
    RealTime,
}

impl Scheduling {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::RealTime => "real-time",
        }
    }
}

/// Waits of one length, and by how much each ended after its deadline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Waits {
    pub(super) way: Way,
    pub(super) expected: Span,
    /// Nanoseconds late, in ascending order.
    late: Vec<u64>,
}

impl Waits {
    pub(super) fn new(way: Way, expected: Span, mut late: Vec<u64>) -> Self {
        late.sort_unstable();
        Self { way, expected, late }
    }

    /// All waits of one way, whatever their length.
    pub(super) fn together<'a>(way: Way, waits: impl IntoIterator<Item = &'a Self>) -> Self {
        let of_way = waits.into_iter().filter(|w| w.way == way);
        Self::new(way, Span::ZERO, of_way.flat_map(|w| w.late.iter().copied()).collect())
    }

    pub(super) fn count(&self) -> usize {
        self.late.len()
    }

    /// Mean deviation, microseconds.
    pub(super) fn mean(&self) -> f64 {
        let sum: u64 = self.late.iter().sum();
        sum as f64 / self.late.len().max(1) as f64 / 1e3
    }

    /// The deviation that the share `q` of the waits do not exceed, microseconds.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let rank = (q * self.late.len() as f64).ceil() as usize;
        let place = rank.clamp(1, self.late.len().max(1)) - 1;
        self.late.get(place).map_or(0.0, |late| *late as f64 / 1e3)
    }
}

/// Waits of this length in each way, for about `each` (three times at least). A thread of its own
/// does it, and takes its scheduling with it.
pub(super) fn measure(
    scheduling: Scheduling,
    expected: Span,
    each: Span,
) -> Result<Vec<Waits>, sys::Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sched::set_timer_slack(1)?;
            match scheduling {
                Scheduling::Ordinary => {
                    // Kernels without slices go on as they are.
                    let _ = sched::set_slice(SLICE);
                }
                Scheduling::RealTime => sched::set_fifo(PRIORITY)?,
            }
            let mut timer = Timer::new()?;
            Way::ALL.into_iter().map(|way| timer.wait_often(way, expected, each)).collect()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits as a data path does that no packet wakes.
struct Timer {
    ports: ReadyQueue,
    ready: Vec<sys::socket::Ready>,
}

impl Timer {
    fn new() -> Result<Self, sys::Error> {
        Ok(Self { ports: ReadyQueue::try_new()?, ready: Vec::new() })
    }

    fn sleep(&mut self, length: Span) -> Result<(), sys::Error> {
        self.ports.wait(Some(length.as_nanos()), &mut self.ready)
    }

    fn wait_often(&mut self, way: Way, expected: Span, each: Span) -> Result<Waits, sys::Error> {
        let length = expected.as_nanos();
        let rounds = (each.as_nanos() / length.max(1)).clamp(3, MOST);
        let mut late = Vec::new();
        for _ in 0..rounds {
            // Who never sleeps gets less than all time: the kernel stops real-time threads that
            // take 95 % of a second.
            self.sleep(Span::from_nanos(length / 10 + 20_000))?;
            late.push(self.wait(way, expected)?);
        }
        Ok(Waits::new(way, expected, late))
    }

    /// Waits and says by how much too long.
    fn wait(&mut self, way: Way, expected: Span) -> Result<u64, sys::Error> {
        let due = monotonic() + expected.as_nanos();
        if let Some(early) = way.early() {
            let left = || Span::from_nanos(due.saturating_sub(monotonic()));
            if way == Way::Hybrid && timer::is_long(expected) {
                self.sleep(timer::leg(expected, early))?;
            }
            let rest = left().saturating_sub(early);
            if rest.is_positive() || way == Way::Sleep {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_means_are_those_of_the_waits() {
        let late = (1..=100).rev().map(|n| n * 1000).collect();
        let waits = Waits::new(Way::Sleep, Span::from_millis(1), late);
        assert_eq!(waits.count(), 100);
        assert!((waits.mean() - 50.5).abs() < 1e-9);
        let at = [0.0, 0.5, 0.99, 1.0].map(|q| waits.quantile(q));
        assert_eq!(at.map(|us| us as u64), [1, 50, 99, 100]);
        let other = Waits::new(Way::Spin, Span::from_millis(1), vec![7]);
        let all = Waits::together(Way::Sleep, [&waits, &other, &waits]);
        assert_eq!((all.count(), all.quantile(1.0) as u64), (200, 100));
        assert_eq!(Waits::together(Way::Hybrid, [&waits]).quantile(0.5) as u64, 0);
    }

    #[test]
    fn every_way_waits() {
        for length in [Span::ZERO, Span::from_micros(300)] {
            let all = measure(Scheduling::Ordinary, length, Span::from_millis(3)).unwrap();
            let ways: Vec<_> = all.iter().map(|waits| (waits.way, waits.expected)).collect();
            assert_eq!(ways, Way::ALL.map(|way| (way, length)));
            assert!(all.iter().all(|w| w.count() >= 3 && w.quantile(1.0) >= w.mean()));
        }
    }
}
