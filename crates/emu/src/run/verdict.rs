//! Whether a run's numbers are the lab's or the machine's.

use base::Span;
use lab::plan::{Plan, Role};
use lab::routes::Routes;
use record::run::{HostFaults, HostLoad, Verdict};

use super::load::FULL;
use crate::datapath::Report;

/// Above this many hosts the shortest path is not searched; the floor alone is the tolerance.
const PAIRS_OF: usize = 64;

/// Steal above this share of the run is worth a word even where lateness stayed low.
const NOTABLE_STEAL: f64 = 0.02;

/// Steal above this share of the run explains why packets were late.
const GRAVE_STEAL: f64 = 0.05;

/// Waiting for a CPU or for memory is worth a word above this share of the run.
const NOTABLE_WAIT: f64 = 0.01;

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

/// What a judgement rests on.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) report: &'a Report,
    pub(super) faults: &'a HostFaults,
    pub(super) load: &'a HostLoad,
    /// Datagrams that built-in flows were too late to send.
    pub(super) unsent: u64,
    /// Length of the run in seconds.
    pub(super) elapsed: f64,
    /// CPUs that the run could use.
    pub(super) cpus: usize,
}

/// Judges. Every reason is a sentence that a user can act on.
pub(super) fn judge(seen: &Seen<'_>, tolerance: Span) -> Verdict {
    let &Seen { report, faults, unsent, elapsed, .. } = seen;
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
    if unsent > 0 {
        against.push(format!("built-in flows could not send {unsent} datagrams in time"));
    }
    if !against.is_empty() {
        // All of these come of a machine that was too slow, or too busy.
        against.push(limit(seen));
    }
    if report.rejected > 0 {
        against.push(format!("kernels rejected {} packets that we wrote", report.rejected));
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

/// Names the limit of the machine that a run met, from nothing but what was measured.
fn limit(seen: &Seen<'_>) -> String {
    let Seen { report, load, cpus, .. } = *seen;
    let elapsed = seen.elapsed.max(1e-9);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let datapath = report.cpu.as_secs_f64() / elapsed;
    let own = datapath + (load.flows_cpu_s + load.programs_cpu_s.unwrap_or(0.0)) / elapsed;
    let full = load.busiest >= FULL;
    let mut facts = Vec::new();
    let noun = if cpus == 1 { "CPU was" } else { "CPUs were" };
    facts.push(if load.busy >= FULL || !full {
        format!("the machine's {cpus} {noun} {} busy", percent(load.busy))
    } else {
        let (most, mean) = (percent(load.busiest), percent(load.busy));
        format!("the machine's {cpus} {noun} {most} busy in the busiest second, {mean} on average")
    });
    facts.push(match load.other_labs {
        0 => "no other lab ran".to_owned(),
        1 => "1 other lab ran".to_owned(),
        labs => format!("{labs} other labs ran"),
    });
    facts.push(format!("this lab used {own:.2} CPUs"));
    if datapath >= FULL {
        facts.push(format!("its data path {} of the one that it can use", percent(datapath)));
    }
    if let Some(wait) = load.cpu_wait_s.filter(|wait| *wait / elapsed > NOTABLE_WAIT) {
        facts.push(format!("its data path waited {wait:.2} s for a CPU"));
    }
    let stall = load.memory_stall_s.filter(|stall| *stall / elapsed > NOTABLE_WAIT);
    if let Some(stall) = stall {
        facts.push(format!("programs waited {stall:.2} s for memory"));
    }
    let most = load.busiest * cpus as f64 / 2.0;
    let advice = if datapath >= FULL {
        "the network carries more packets than one CPU can move: lower its rates"
    } else if seen.faults.steal_s / elapsed > GRAVE_STEAL {
        "the hypervisor gave the CPUs to others: run it when the machine's own host is quieter"
    } else if full && own * (f64::from(load.other_labs) + 1.0) < most {
        // Even where all labs are like this one.
        "end what else runs on the machine"
    } else if full && load.other_labs > 0 {
        "run fewer labs at once"
    } else if full {
        "lower the lab's rates or its number of programs, or use a machine with more CPUs"
    } else if stall.is_some() {
        "give the machine more memory"
    } else {
        "none of this explains it: it takes a machine with a steadier clock, or more tolerance"
    };
    format!("{}; {advice}", facts.join(", "))
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

    fn seen<'a>(report: &'a Report, faults: &'a HostFaults, load: &'a HostLoad) -> Seen<'a> {
        Seen { report, faults, load, unsent: 0, elapsed: 10.0, cpus: 2 }
    }

    #[test]
    fn a_run_on_time_is_trusted() {
        let mut report = Report::default();
        report.lateness.record_many(30_000, 10_000);
        let busy = HostLoad { busy: 1.0, busiest: 1.0, other_labs: 9, ..HostLoad::default() };
        let verdict = judge(&seen(&report, &HostFaults::default(), &busy), TOLERANCE);
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
        let load = HostLoad::default();
        let verdict = judge(&Seen { unsent: 4, ..seen(&report, &faults, &load) }, TOLERANCE);
        assert!(!verdict.trusted);
        assert_eq!(verdict.reasons.len(), 9, "{verdict:?}");
        let own = Report { rejected: 1, ..Report::default() };
        let verdict = judge(&seen(&own, &HostFaults::default(), &load), TOLERANCE);
        assert_eq!(verdict.reasons.len(), 1, "no limit of the machine: {verdict:?}");
    }

    #[test]
    fn the_limit_is_named_as_measured() {
        let report = Report { cpu: Span::from_secs(2), ..Report::default() };
        let load = HostLoad {
            busy: 0.99,
            busiest: 1.0,
            flows_cpu_s: 1.0,
            programs_cpu_s: Some(0.5),
            cpu_wait_s: Some(0.8),
            suspended_s: 0.0,
            other_labs: 5,
            memory_stall_s: Some(0.0),
        };
        let faults = HostFaults::default();
        let told = |report: &Report, load: &HostLoad| limit(&seen(report, &faults, load));
        assert_eq!(
            told(&report, &load),
            "the machine's 2 CPUs were 99 % busy, 5 other labs ran, this lab used 0.35 CPUs, its \
             data path waited 0.80 s for a CPU; run fewer labs at once"
        );
        let stolen = HostFaults { steal_s: 4.0, ..HostFaults::default() };
        let text = limit(&seen(&report, &stolen, &load));
        assert!(text.contains("the hypervisor gave the CPUs to others"), "{text}");
        let quiet = HostLoad { flows_cpu_s: 0.0, other_labs: 2, ..load.clone() };
        assert!(told(&report, &quiet).ends_with("end what else runs on the machine"));
        let alone = HostLoad { busy: 0.4, other_labs: 0, cpu_wait_s: None, ..load.clone() };
        let text = told(&report, &alone);
        assert!(text.contains("100 % busy in the busiest second, 40 % on average"), "{text}");
        assert!(
            text.ends_with(
                "no other lab ran, this lab used 0.35 CPUs; end what else runs \
                                on the machine"
            ),
            "{text}"
        );
        let greedy = HostLoad { programs_cpu_s: Some(16.0), ..alone.clone() };
        assert!(told(&report, &greedy).contains("more CPUs"));
        let fast = Report { cpu: Span::from_secs(10), ..Report::default() };
        assert!(told(&fast, &alone).contains("more packets than one CPU can move"));
        let calm = HostLoad { busiest: 0.5, ..alone };
        assert!(told(&report, &calm).contains("none of this explains it"));
        let short = HostLoad { memory_stall_s: Some(3.0), ..calm };
        assert!(told(&report, &short).contains("waited 3.00 s for memory"));
    }
}
