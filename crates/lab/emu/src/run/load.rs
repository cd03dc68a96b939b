//! Measures the load of the host during a run, and limits the lab's real-time scheduling.

use base::{Span, Time};
use run::record::HostLoad;
use run::verdict;
use sys::sched::{self, CpuTimes};

use crate::datapath::{REALTIME_SHARE, Report};

const LOAD_INTERVAL: Span = Span::from_millis(250);

/// Number of intervals in the window of the peak load.
const PEAK_LOAD_INTERVALS: usize = 4;

/// Maximum share of a fully loaded host for all labs' real-time threads together; the rest is for
/// the programs under test.
const MAX_REALTIME_SHARE: f64 = 0.5;

/// A reading of the host's counters.
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

/// Measures the load of the host during a run.
#[derive(Debug)]
pub(super) struct Meter {
    start: Reading,
    /// The last measurements, oldest first.
    readings: Vec<CpuTimes>,
    next: Time,
    busiest: f64,
    /// Maximum number of other labs so far.
    max_other_labs: u32,
    /// Number of other labs with real-time scheduling.
    realtime_labs: u32,
    /// The share last sent to the data path.
    share: f64,
}

impl Meter {
    pub(super) fn start() -> Self {
        let start = Reading::take();
        Self {
            start,
            readings: vec![start.machine],
            next: Time::ZERO + LOAD_INTERVAL,
            busiest: 0.0,
            max_other_labs: 0,
            realtime_labs: 0,
            share: REALTIME_SHARE,
        }
    }

    /// Restarts the measurement at the start of the lab, to exclude the time that it
    /// waited for the start.
    pub(super) fn restart(&mut self) {
        self.start = Reading::take();
        self.readings = vec![self.start.machine];
    }

    /// Sets the number of other labs, and of those with real-time scheduling.
    pub(super) fn set_other_labs(&mut self, labs: u32, realtime: u32) {
        self.realtime_labs = realtime;
        self.max_other_labs = self.max_other_labs.max(labs);
    }

    /// Measures the load if a measurement is due. If the limit has changed, returns the new share
    /// of a CPU above which the data path suspends real-time scheduling.
    pub(super) fn observe(&mut self, now: Time) -> Option<f64> {
        if now < self.next {
            return None;
        }
        self.next = now + LOAD_INTERVAL;
        let reading = CpuTimes::read().ok()?;
        self.enter(reading);
        let before = self.readings.iter().rev().nth(1).copied().unwrap_or_default();
        let share =
            realtime_share(reading.since(before).busy_share(), self.realtime_labs, sched::cpus());
        let changed = (share - self.share).abs() > 1e-9;
        self.share = share;
        changed.then_some(share)
    }

    fn enter(&mut self, reading: CpuTimes) {
        self.readings.push(reading);
        if self.readings.len() > PEAK_LOAD_INTERVALS {
            // There is one more reading than intervals.
            let first = self.readings.remove(0);
            self.busiest = self.busiest.max(reading.since(first).busy_share());
        }
    }

    /// The results of the measurement, and the steal time in seconds.
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
            other_labs: self.max_other_labs,
            memory_stall_s: grown(end.memory, start.memory),
        };
        (load, seconds(machine.steal))
    }
}

/// The share of a CPU above which a data path suspends real-time scheduling. Without full load the
/// normal limit applies; if several labs fill the host, each gets an equal part.
fn realtime_share(busy: f64, realtime_labs: u32, cpus: usize) -> f64 {
    if busy < verdict::FULL_CPU_SHARE || realtime_labs == 0 {
        return REALTIME_SHARE;
    }
    (MAX_REALTIME_SHARE * cpus as f64 / (f64::from(realtime_labs) + 1.0)).min(REALTIME_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_share_fully_loaded_host_equally() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(realtime_share(0.5, 7, 2), REALTIME_SHARE);
        near(realtime_share(1.0, 0, 2), REALTIME_SHARE);
        near(realtime_share(1.0, 1, 2), 0.5);
        near(realtime_share(1.0, 7, 2), 0.125);
        near(realtime_share(1.0, 3, 64), REALTIME_SHARE);
    }

    #[test]
    fn records_the_busiest_second() {
        let mut meter = Meter::start();
        let at = |quarter: u64, busy: u64| CpuTimes { busy, idle: quarter * 250 - busy, steal: 0 };
        meter.readings = vec![at(0, 0)];
        // Idle, then busy for 1 s, then idle.
        for (quarter, busy) in [(1, 0), (2, 250), (3, 500), (4, 750), (5, 1000), (6, 1000)] {
            meter.enter(at(quarter, busy));
        }
        assert!((meter.busiest - 1.0).abs() < 1e-12, "{meter:?}");
        assert_eq!(meter.readings.len(), PEAK_LOAD_INTERVALS);
    }

    #[test]
    fn records_the_maximum_of_other_labs() {
        let mut meter = Meter::start();
        meter.set_other_labs(3, 2);
        meter.restart();
        meter.set_other_labs(1, 0);
        assert_eq!(meter.realtime_labs, 0);
        let (load, steal) = meter.finish(&Report::default());
        assert_eq!(load.other_labs, 3);
        assert!((0.0..=1.0).contains(&load.busy) && load.busiest >= load.busy && steal >= 0.0);
    }
}
