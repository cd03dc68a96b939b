//! Cost of an event by queue, number of pending events and distance of new events.
//!
//! The hold model (D. W. Jones, "An empirical comparison of priority-queue and event-set
//! implementations", 1986): each step removes the earliest event and adds one at its time plus a
//! random increment, so the number of pending events is constant.

mod calendar;
mod heap;
mod increment;
mod ladder;

use std::hint::black_box;

use base::Time;
use fabric::EventQueue;
use rustix::time::{ClockId, clock_gettime};

use crate::{Outcome, print};
use increment::{Increments, KINDS};

/// A queue of pending events, each with a number.
trait Queue: Default {
    fn add(&mut self, at: u64, event: u32);
    /// Removes the earliest event; of equal times the one that was added first.
    fn take(&mut self) -> Option<(u64, u32)>;
}

impl Queue for EventQueue<u32> {
    fn add(&mut self, at: u64, event: u32) {
        self.push(Time::from_nanos(at), event);
    }

    fn take(&mut self) -> Option<(u64, u32)> {
        self.pop_until(Time::MAX).map(|(at, event)| (at.as_nanos(), event))
    }
}

struct Candidate {
    name: &'static str,
    hold: fn(Increments, usize) -> f64,
}

const CANDIDATES: [Candidate; 5] = [
    Candidate { name: "fabric", hold: hold::<EventQueue<u32>> },
    Candidate { name: "binary heap", hold: hold::<heap::Binary> },
    Candidate { name: "4-ary heap", hold: hold::<heap::Quaternary> },
    Candidate { name: "calendar", hold: hold::<calendar::Calendar> },
    Candidate { name: "ladder", hold: hold::<ladder::Ladder> },
];

const SIZES: [usize; 6] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Cost in nanoseconds per step above which larger sizes are skipped.
const HOPELESS: f64 = 400.0;

/// Nanoseconds per step after every event has been replaced; the median of several repetitions.
fn hold<Q: Queue>(mut increments: Increments, pending: usize) -> f64 {
    let mut queue = Q::default();
    for event in 0..pending {
        queue.add(increments.first(), event as u32);
    }
    let steps = pending.max(1_000_000);
    run(&mut queue, &mut increments, steps);
    let repetitions = if pending > 1_000_000 { 1 } else { 3 };
    let mut found: Vec<f64> = (0..repetitions)
        .map(|_| {
            let began = processor_time();
            run(&mut queue, &mut increments, steps);
            (processor_time() - began) / steps as f64
        })
        .collect();
    found.sort_by(f64::total_cmp);
    found[found.len() / 2]
}

/// CPU time of this process in nanoseconds, so that other processes do not count.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn run<Q: Queue>(queue: &mut Q, increments: &mut Increments, steps: usize) {
    for _ in 0..steps {
        let Some((at, event)) = queue.take() else { return };
        queue.add(at + increments.next(), event);
        black_box(event);
    }
}

/// Prints a table of all candidates.
pub(crate) fn table(largest: &str) -> Outcome {
    let largest: usize = largest.parse()?;
    print("ns an event (taken, and another added), by pending events");
    for (kind, what) in KINDS {
        print(&format!("\n{what}"));
        let sizes = SIZES.into_iter().filter(|size| *size <= largest);
        print(&row("", sizes.clone().map(|size| format!("1e{}", size.ilog10()))));
        for candidate in &CANDIDATES {
            let mut cost = 0.0;
            let cells = sizes.clone().map(|pending| {
                // Larger sizes of a slow queue would take hours.
                if cost > HOPELESS {
                    return "-".to_owned();
                }
                cost = (candidate.hold)(Increments::new(kind, pending), pending);
                format!("{cost:.1}")
            });
            print(&row(candidate.name, cells));
        }
    }
    Ok(())
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    cells.fold(format!("{name:<12}"), |line, cell| line + &format!("{cell:>9}"))
}

/// Prints one cost in nanoseconds per step.
pub(crate) fn one(name: &str, kind: &str, pending: &str) -> Outcome {
    let known = CANDIDATES.iter().find(|candidate| candidate.name == name);
    let candidate = known.ok_or_else(|| format!("no queue {name}"))?;
    let (kind, _) = KINDS
        .into_iter()
        .find(|(_, what)| what.split(':').next() == Some(kind))
        .ok_or_else(|| format!("no increments {kind}"))?;
    let pending = pending.parse()?;
    let cost = (candidate.hold)(Increments::new(kind, pending), pending);
    print(&format!("{{\"ns\":{cost:.3}}}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of removed events, while events are added and then until none is left.
    fn order<Q: Queue>(kind: increment::Kind, pending: usize) -> Vec<(u64, u32)> {
        let mut increments = Increments::new(kind, pending);
        let mut queue = Q::default();
        for event in 0..pending {
            queue.add(increments.first(), event as u32);
        }
        let mut taken = Vec::new();
        for step in 0..5 * pending {
            let (at, event) = queue.take().unwrap();
            taken.push((at, event));
            queue.add(at + increments.next(), (pending + step) as u32);
        }
        taken.extend(std::iter::from_fn(|| queue.take()));
        taken
    }

    #[test]
    fn candidates_agree() {
        for (kind, what) in KINDS {
            for pending in [1, 30, 3_000] {
                let expected = order::<heap::Binary>(kind, pending);
                assert_eq!(expected.len(), 6 * pending);
                for (name, found) in [
                    ("fabric", order::<EventQueue<u32>>(kind, pending)),
                    ("4-ary heap", order::<heap::Quaternary>(kind, pending)),
                    ("calendar", order::<calendar::Calendar>(kind, pending)),
                    ("ladder", order::<ladder::Ladder>(kind, pending)),
                ] {
                    assert!(found == expected, "{name}, {what}, {pending} pending");
                }
            }
        }
    }
}
