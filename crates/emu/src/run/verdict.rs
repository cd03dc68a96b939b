//! Whether a run's numbers are the lab's or the machine's.

use base::Span;
use lab::plan::{Plan, Role};
use lab::routes::Routes;
use record::run::{HostFaults, Verdict};

use crate::datapath::Report;

/// Above this many hosts the shortest path is not searched; the floor alone is the tolerance.
const PAIRS_OF: usize = 64;

/// Steal above this share of the run is worth a word even where lateness stayed low.
const NOTABLE_STEAL: f64 = 0.02;

/// The p99.9 lateness up to which a run is trusted: `max(floor, share × shortest path's delay)`.
pub(super) fn tolerance(plan: &Plan, routes: &Routes) -> Span {
    let hosts: Vec<_> = (0..plan.nodes.len())
        .filter(|at| plan.nodes[*at].kind == Role::Host)
        .map(base::NodeId::at)
        .collect();
    let mut shortest: Option<Span> = None;
    if hosts.len() <= PAIRS_OF {
        for from in &hosts {
            for to in hosts.iter().filter(|to| *to != from) {
                for iface in &plan.nodes[to.index()].ifaces {
                    let delay = routes.path_delay(*from, *iface);
                    shortest = [shortest, delay].into_iter().flatten().min();
                }
            }
        }
    }
    let share = shortest.map_or(0, |delay| plan.tolerance_share.of(delay.as_nanos()));
    plan.tolerance_floor.max(Span::from_nanos(share))
}

/// Judges. Every reason is a sentence that a user can act on. `unsent` counts datagrams that
/// built-in flows were too late to send.
pub(super) fn judge(
    report: &Report,
    faults: &HostFaults,
    unsent: u64,
    tolerance: Span,
    elapsed: f64,
) -> Verdict {
    let mut against = Vec::new();
    let late = report.lateness.percentile(0.999);
    if late > tolerance.as_nanos() {
        against.push(format!(
            "packets left late: p99.9 is {}, the lab tolerates {tolerance}",
            micros(late)
        ));
    }
    let waited = report.ingress.percentile(0.999);
    if waited > tolerance.as_nanos() {
        against.push(format!(
            "packets may have waited up to {} before they were seen (p99.9)",
            micros(waited)
        ));
    }
    if faults.dropped_packets > 0 {
        against.push(format!(
            "the machine dropped {} packets between programs and the network",
            faults.dropped_packets
        ));
    }
    if report.rejected > 0 {
        against.push(format!("kernels rejected {} packets that we wrote", report.rejected));
    }
    if unsent > 0 {
        against.push(format!("built-in flows could not send {unsent} datagrams in time"));
    }
    if faults.capture_drops + faults.records_lost > 0 {
        against.push(format!(
            "{} packets are missing from captures and {} samples from the record",
            faults.capture_drops, faults.records_lost
        ));
    }
    if report.memory_drops > 0 {
        against.push(format!("{} packets found no memory", report.memory_drops));
    }
    let trusted = against.is_empty();
    let mut reasons = against;
    if trusted {
        reasons.push(match report.lateness.count() {
            0 => "no packet was late: none was sent".to_owned(),
            _ => format!("p99.9 lateness {} of {tolerance} tolerated", micros(late)),
        });
    }
    if elapsed > 0.0 && faults.steal_s / elapsed > NOTABLE_STEAL {
        reasons.push(format!(
            "the hypervisor took {:.1} % of the time",
            faults.steal_s / elapsed * 100.0
        ));
    }
    Verdict { trusted, reasons }
}

fn micros(nanos: u64) -> String {
    if nanos >= 1_000_000 {
        format!("{:.2} ms", nanos as f64 / 1e6)
    } else {
        format!("{:.1} us", nanos as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: Span = Span::from_millis(1);

    #[test]
    fn a_run_on_time_is_trusted() {
        let mut report = Report::default();
        report.lateness.record_many(30_000, 10_000);
        let verdict = judge(&report, &HostFaults::default(), 0, TOLERANCE, 1.0);
        assert!(verdict.trusted && verdict.reasons[0].contains("tolerated"), "{verdict:?}");
    }

    #[test]
    fn each_fault_is_a_reason() {
        let mut report = Report { rejected: 1, memory_drops: 2, ..Report::default() };
        report.lateness.record_many(30_000, 900);
        report.lateness.record_many(5_000_000, 100);
        report.ingress.record_many(9_000_000, 100);
        let faults = HostFaults {
            dropped_packets: 3,
            capture_drops: 1,
            steal_s: 0.5,
            ..HostFaults::default()
        };
        let verdict = judge(&report, &faults, 4, TOLERANCE, 1.0);
        assert!(!verdict.trusted);
        assert_eq!(verdict.reasons.len(), 8, "{verdict:?}");
    }
}
