//! How busy the machine is while a lab runs, and how much of it real-time scheduling may have.

use base::{Span, Time};
use outcome::verdict;
use record::run::HostLoad;
use sys::sched::{self, CpuTimes};

use crate::datapath::{REALTIME_SHARE, Report};

/// How often the machine is looked at.
const PERIOD: Span = Span::from_millis(250);

/// Looks that make up the stretch in which the machine was busiest.
const STRETCH: usize = 4;

/// What all labs together may take of a full machine at real-time priority; the programs under
/// test have the rest.
const TOGETHER: f64 = 0.5;

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    machine: CpuTimes,
    own: u64,
    children: Option<u64>,
    memory: Option<u64>,
}

impl Reading {
    fn take() -> Self {
        Self {
            machine: CpuTimes::read().unwrap_or_default(),
            own: sys::clock::process_cpu(),
            children: sched::children_cpu(),
            memory: sched::memory_stall(),
        }
    }
}

/// Measures the machine for as long as a lab runs.
#[derive(Debug)]
pub(super) struct Meter {
    start: Reading,
    /// The last looks, oldest first.
    looks: Vec<CpuTimes>,
    next: Time,
    busiest: f64,
    /// The most other labs so far.
    most_others: u32,
    /// Other labs that ask for real-time scheduling now.
    rivals: u32,
    /// What the data path was told last.
    share: f64,
}

impl Meter {
    /// Begins to measure.
    pub(super) fn start() -> Self {
        let start = Reading::take();
        Self {
            start,
            looks: vec![start.machine],
            next: Time::ZERO + PERIOD,
            busiest: 0.0,
            most_others: 0,
            rivals: 0,
            share: REALTIME_SHARE,
        }
    }

    /// Forgets what the machine did so far: the lab has waited until it may begin.
    pub(super) fn restart(&mut self) {
        self.start = Reading::take();
        self.looks = vec![self.start.machine];
    }

    /// So many other labs run now, and so many of them ask for real-time scheduling.
    pub(super) fn others(&mut self, labs: u32, realtime: u32) {
        self.rivals = realtime;
        self.most_others = self.most_others.max(labs);
    }

    /// Looks at the machine where it is time to. The result is the share of a CPU from which on
    /// the data path has to do without real-time scheduling, when that has changed.
    pub(super) fn observe(&mut self, now: Time) -> Option<f64> {
        if now < self.next {
            return None;
        }
        self.next = now + PERIOD;
        let look = CpuTimes::read().ok()?;
        self.enter(look);
        let before = self.looks.iter().rev().nth(1).copied().unwrap_or_default();
        let share = allowance(look.since(before).busy_share(), self.rivals, sched::cpus());
        let changed = (share - self.share).abs() > 1e-9;
        self.share = share;
        changed.then_some(share)
    }

    fn enter(&mut self, look: CpuTimes) {
        self.looks.push(look);
        if self.looks.len() > STRETCH {
            // As many looks as there are periods, and the one before them.
            let first = self.looks.remove(0);
            self.busiest = self.busiest.max(look.since(first).busy_share());
        }
    }

    /// What was measured, and the time in seconds that the hypervisor took.
    pub(super) fn finish(self, report: &Report) -> (HostLoad, f64) {
        let (start, end) = (self.start, Reading::take());
        let machine = end.machine.since(start.machine);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let grown = |end: Option<u64>, start: Option<u64>| {
            end.zip(start).map(|(end, start)| seconds(end.saturating_sub(start)))
        };
        let busy = machine.busy_share();
        let own = (end.own - start.own).saturating_sub(report.cpu.as_nanos());
        let load = HostLoad {
            busy,
            busiest: self.busiest.max(busy),
            flows_cpu_s: seconds(own),
            programs_cpu_s: grown(end.children, start.children),
            cpu_wait_s: report.cpu_wait.map(Span::as_secs_f64),
            suspended_s: report.suspended.as_secs_f64(),
            other_labs: self.most_others,
            memory_stall_s: grown(end.memory, start.memory),
        };
        (load, seconds(machine.steal))
    }
}

/// The share of a CPU from which on a data path does without real-time scheduling. Where the
/// machine has time left, nobody goes short; where several labs fill it, each has its part.
fn allowance(busy: f64, rivals: u32, cpus: usize) -> f64 {
    if busy < verdict::FULL || rivals == 0 {
        return REALTIME_SHARE;
    }
    (TOGETHER * cpus as f64 / (f64::from(rivals) + 1.0)).min(REALTIME_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_share_a_full_machine() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(allowance(0.5, 7, 2), REALTIME_SHARE);
        near(allowance(1.0, 0, 2), REALTIME_SHARE);
        near(allowance(1.0, 1, 2), 0.5);
        near(allowance(1.0, 7, 2), 0.125);
        near(allowance(1.0, 3, 64), REALTIME_SHARE);
    }

    #[test]
    fn the_busiest_second_is_kept() {
        let mut meter = Meter::start();
        let at = |quarter: u64, busy: u64| CpuTimes { busy, idle: quarter * 250 - busy, steal: 0 };
        meter.looks = vec![at(0, 0)];
        // Idle, then busy for a second, then idle.
        for (quarter, busy) in [(1, 0), (2, 250), (3, 500), (4, 750), (5, 1000), (6, 1000)] {
            meter.enter(at(quarter, busy));
        }
        assert!((meter.busiest - 1.0).abs() < 1e-12, "{meter:?}");
        assert_eq!(meter.looks.len(), STRETCH);
    }

    #[test]
    fn the_most_others_are_kept() {
        let mut meter = Meter::start();
        meter.others(3, 2);
        meter.restart();
        meter.others(1, 0);
        assert_eq!(meter.rivals, 0);
        let (load, steal) = meter.finish(&Report::default());
        assert_eq!(load.other_labs, 3);
        assert!((0.0..=1.0).contains(&load.busy) && load.busiest >= load.busy && steal >= 0.0);
    }
}
