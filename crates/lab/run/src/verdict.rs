//! The verdict of a run: whether the hosts, or the network between them, distorted the results.

mod limit;
mod network;
#[cfg(test)]
mod tests;

use crate::record::cluster::Cluster;
use crate::record::{HostFaults, HostLoad, Verdict};
use base::{Histogram, Span};
use lab::plan::{Plan, Role};
use lab::routes::Routes;

pub use limit::FULL_CPU_SHARE;
pub use network::path_delays;

/// With more hosts, the shortest path is not searched and the floor is the tolerance.
const MAX_SEARCHED_HOSTS: usize = 64;

/// Steal above this share of the run is reported even if lateness is low.
const REPORTED_STEAL_SHARE: f64 = 0.02;

/// Maximum p99.9 lateness of a trusted run: `max(floor, share × shortest path's delay)`.
pub fn tolerance(plan: &Plan, routes: &Routes) -> Span {
    let hosts: Vec<_> = (0..plan.nodes.len())
        .filter(|at| plan.nodes[*at].kind == Role::Host)
        .map(base::NodeId::at)
        .collect();
    let mut shortest: Option<Span> = None;
    if hosts.len() <= MAX_SEARCHED_HOSTS {
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

/// The data for a verdict.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The hosts of the run.
    pub machines: &'a [MachineStats<'a>],
    /// The cluster, for a run on several agents.
    pub cluster: Option<&'a Cluster>,
    /// Datagrams that built-in flows could not send in time.
    pub unsent: u64,
    /// Length of the run in seconds.
    pub elapsed: f64,
    /// See [`tolerance`].
    pub tolerance: Span,
}

/// Measurements of one host.
#[derive(Clone, Copy, Debug)]
pub struct MachineStats<'a> {
    /// Its name; empty in a run on one host.
    pub name: &'a str,
    /// How late packets left the emulated network.
    pub lateness: &'a Histogram,
    /// Upper bounds of the time that packets waited before they were time-stamped.
    pub ingress: &'a Histogram,
    /// CPU time of its data path.
    pub cpu: Span,
    /// Packets that a node's kernel rejected as invalid.
    pub rejected: u64,
    /// Packets dropped for lack of memory.
    pub memory_drops: u64,
    /// Faults of the host.
    pub faults: &'a HostFaults,
    /// CPU load of the host.
    pub load: &'a HostLoad,
    /// CPUs available to the run.
    pub cpus: usize,
}

/// Makes the verdict. Every reason is a sentence that a user can act on.
pub fn judge(seen: &Evidence<'_>) -> Verdict {
    let Evidence { machines, tolerance, .. } = *seen;
    let mut against = Vec::new();
    let late = report_p999(
        &mut against,
        seen,
        |machine| machine.lateness,
        |late| {
            let late = time_text(late);
            format!("packets left late: p99.9 is {late}, the lab tolerates {tolerance}")
        },
    );
    report_p999(
        &mut against,
        seen,
        |machine| machine.ingress,
        |waited| {
            let waited = time_text(waited);
            format!("packets may have waited up to {waited} (p99.9) before they were time-stamped")
        },
    );
    let sum = |pick: fn(&MachineStats<'_>) -> u64| machines.iter().map(pick).sum::<u64>();
    let dropped = sum(|machine| machine.faults.dropped_packets);
    if dropped > 0 {
        let machine = if machines.len() > 1 { "machines" } else { "machine" };
        against.push(format!(
            "the {machine} dropped {dropped} packets between programs and the network"
        ));
    }
    if seen.unsent > 0 {
        let unsent = seen.unsent;
        against.push(format!("built-in flows could not send {unsent} datagrams in time"));
    }
    let machine_fit = against.is_empty();
    if !machine_fit {
        // The cause of all of these is a slow or busy host.
        against.extend(machines.iter().max_by_key(|m| severity(m)).map(|m| limit::limit(seen, m)));
    }
    let rejected = sum(|machine| machine.rejected);
    if rejected > 0 {
        against.push(format!(
            "kernels rejected {rejected} packets of the emulated network as invalid (this is a \
             bug; please report it)"
        ));
    }
    let captures = sum(|machine| machine.faults.capture_drops);
    let records = sum(|machine| machine.faults.records_lost);
    if captures + records > 0 {
        against.push(format!(
            "{captures} packets are missing from captures and {records} samples from the record"
        ));
    }
    let memory_drops = sum(|machine| machine.memory_drops);
    if memory_drops > 0 {
        against.push(format!("{memory_drops} packets were dropped for lack of memory"));
    }
    let mut remarks = Vec::new();
    if let Some(cluster) = seen.cluster {
        network::judge(cluster, tolerance, &mut against, &mut remarks);
    }
    let trusted = against.is_empty();
    let mut reasons = against;
    if trusted {
        reasons.push(match machines.iter().map(|machine| machine.lateness.count()).sum() {
            0u64 => "no packet left the emulated network, so none was late".to_owned(),
            _ => format!("p99.9 lateness {} of {tolerance} tolerated", time_text(late)),
        });
    }
    reasons.extend(machines.iter().filter_map(|machine| steal_remark(machine, seen.elapsed)));
    reasons.extend(remarks);
    Verdict { trusted, machine_fit, reasons }
}

/// Withdraws the trust in a run in which no packet crossed the network.
pub(crate) fn distrust_without_packets(verdict: &mut Option<Verdict>) {
    let reason = "no packet crossed the network, so nothing was measured".to_owned();
    let machine_fit = verdict.as_ref().is_none_or(|verdict| verdict.machine_fit);
    let reasons = match verdict.take() {
        // The checks that passed had no packets to check.
        Some(verdict) if !verdict.trusted => [vec![reason], verdict.reasons].concat(),
        _ => vec![reason],
    };
    *verdict = Some(Verdict { trusted: false, machine_fit, reasons });
}

/// Adds a reason if the p99.9 over all hosts, or of a single host, is above the tolerance. Returns
/// the p99.9 over all hosts.
fn report_p999(
    against: &mut Vec<String>,
    seen: &Evidence<'_>,
    pick: impl for<'a> Fn(&MachineStats<'a>) -> &'a Histogram,
    text: impl Fn(u64) -> String,
) -> u64 {
    let tolerance = seen.tolerance.as_nanos();
    let mut all = Histogram::new();
    seen.machines.iter().for_each(|machine| all.merge(pick(machine)));
    let overall = all.percentile(0.999);
    if overall > tolerance {
        against.push(text(overall));
        return overall;
    }
    for machine in seen.machines.iter().filter(|_| seen.machines.len() > 1) {
        let own = pick(machine).percentile(0.999);
        if own > tolerance {
            against.push(format!("on {}, {}", machine.name, text(own)));
        }
    }
    overall
}

/// The order of hosts by the severity of their faults.
fn severity(machine: &MachineStats<'_>) -> (u64, u64) {
    let late = machine.lateness.percentile(0.999).max(machine.ingress.percentile(0.999));
    (late, machine.faults.dropped_packets)
}

fn steal_remark(machine: &MachineStats<'_>, elapsed: f64) -> Option<String> {
    let share = machine.faults.steal_s / elapsed;
    (elapsed > 0.0 && share > REPORTED_STEAL_SHARE).then(|| {
        let of =
            if machine.name.is_empty() { String::new() } else { format!(" of {}", machine.name) };
        format!("the hypervisor{of} gave {:.1} % of the CPU time to other guests", share * 100.0)
    })
}

/// Formats a time in ms or us.
pub(crate) fn time_text(nanos: u64) -> String {
    if nanos >= 1_000_000 {
        format!("{:.2} ms", nanos as f64 / 1e6)
    } else {
        format!("{:.1} us", nanos as f64 / 1e3)
    }
}
