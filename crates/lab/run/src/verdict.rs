//! The verdict of a run: whether the hosts or the network between them distorted the results.

mod limit;
mod network;
#[cfg(test)]
mod tests;

use crate::FlowResult;
use crate::effect::{Excess, HostEffects};
use crate::record::cluster::Cluster;
use crate::record::{HostFaults, HostLoad, Verdict};
use base::{Histogram, Span};
use lab::plan::{Plan, Role, Tolerance};
use lab::routes::Routes;

pub use limit::FULL_CPU_SHARE;
pub use network::path_delays;

/// Maximum number of hosts for which the shortest path is searched; with more, the floor is used.
const MAX_SEARCHED_HOSTS: usize = 64;

/// Maximum share of packets that wait longer than the lab tolerates, in a trusted run with
/// programs: reported percentiles of delays go up to p99.
pub const MAX_DISTORTED_SHARE: f64 = 0.01;

/// Steal time of all CPUs, as a share of the run, from which it is reported without lateness.
const REPORTED_STEAL_SHARE: f64 = 0.01;

/// The tolerance of the shortest path's delay. A larger error of the clocks of several hosts, or
/// delay of the network between them, makes a run untrusted.
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
    plan.tolerance.of_delay(shortest.unwrap_or_default())
}

/// The data for a verdict.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub plan: &'a Plan,
    /// The hosts of the run.
    pub machines: &'a [MachineStats<'a>],
    /// The errors that these hosts may have caused.
    pub effects: &'a HostEffects,
    /// The cluster, for a run on several agents.
    pub cluster: Option<&'a Cluster>,
    pub flow_results: &'a [FlowResult],
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
    /// Lateness of packets that left the emulated network.
    pub lateness: &'a Histogram,
    /// Upper bounds of the time that packets waited before they were time-stamped.
    pub ingress: &'a Histogram,
    /// Packets that waited longer than the lab tolerates for their own delay.
    pub distorted: u64,
    /// CPU time of its data path.
    pub cpu: Span,
    /// Packets that a node's kernel rejected as invalid.
    pub rejected: u64,
    /// Packets dropped for lack of memory.
    pub memory_drops: u64,
    pub faults: &'a HostFaults,
    pub load: &'a HostLoad,
    pub cpus: usize,
}

pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let Evidence { machines, tolerance, .. } = *evidence;
    let mut against = distorted_results(evidence);
    let sum = |pick: fn(&MachineStats<'_>) -> u64| machines.iter().map(pick).sum::<u64>();
    let dropped = sum(|machine| machine.faults.dropped_packets);
    if dropped > 0 {
        let machine = if machines.len() > 1 { "machines" } else { "machine" };
        against.push(format!(
            "the {machine} dropped {dropped} packets between programs and the network"
        ));
    }
    let datagrams = evidence.flow_results.iter().filter_map(|result| result.datagrams);
    let unsent: u64 = datagrams.map(|counts| counts.skipped).sum();
    if unsent > 0 {
        against.push(format!("built-in flows could not send {unsent} datagrams in time"));
    }
    let machine_fit = against.is_empty();
    if !machine_fit {
        // The cause of all of these is a slow or busy host.
        against.extend(
            machines.iter().max_by_key(|m| severity(m)).map(|m| limit::limit(evidence.elapsed, m)),
        );
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
    if let Some(cluster) = evidence.cluster {
        network::judge(cluster, tolerance, &mut against, &mut remarks);
    }
    let trusted = against.is_empty();
    let mut reasons = against;
    if trusted {
        reasons.push(match machines.iter().map(|machine| machine.lateness.count()).sum() {
            0u64 => "no packet left the emulated network, so none was late".to_owned(),
            _ => evidence.effects.text(),
        });
    }
    reasons.extend(machines.iter().filter_map(|machine| steal_remark(machine, evidence.elapsed)));
    reasons.extend(remarks);
    Verdict { trusted, machine_fit, reasons }
}

/// Makes a run untrusted for these reasons, if there are any.
pub(crate) fn distrust(verdict: &mut Option<Verdict>, reasons: Vec<String>) {
    let Some(verdict) = verdict.as_mut().filter(|_| !reasons.is_empty()) else { return };
    // A passed check is not a reason for distrust.
    if std::mem::replace(&mut verdict.trusted, false) {
        verdict.reasons.remove(0);
    }
    verdict.reasons.splice(..0, reasons);
}

/// Makes a run untrusted in which no packet crossed the network.
pub(crate) fn distrust_without_packets(verdict: &mut Option<Verdict>) {
    let reason = "no packet crossed the network, so nothing was measured".to_owned();
    let machine_fit = verdict.as_ref().is_none_or(|verdict| verdict.machine_fit);
    let reasons = match verdict.take() {
        // The other checks passed only because there were no packets.
        Some(verdict) if !verdict.trusted => [vec![reason], verdict.reasons].concat(),
        _ => vec![reason],
    };
    *verdict = Some(Verdict { trusted: false, machine_fit, reasons });
}

/// Results that the hosts may have changed by more than the tolerance.
fn distorted_results(evidence: &Evidence<'_>) -> Vec<String> {
    let Evidence { plan, machines, effects, flow_results, .. } = *evidence;
    let mut against = Vec::new();
    // Delays that programs measure are not in the results of the run.
    let share = |machine: &MachineStats<'_>| {
        machine.distorted as f64 / machine.lateness.count().max(1) as f64
    };
    let distorted = machines.iter().map(share).fold(0.0, f64::max);
    if (flow_results.is_empty() || !plan.programs.is_empty()) && distorted > MAX_DISTORTED_SHARE {
        let Tolerance { floor, delay, .. } = plan.tolerance;
        against.push(format!(
            "{:.1} % of the packets were late by more than {floor} and {delay} of their delay; \
             the lab tolerates {:.0} %",
            distorted * 100.0,
            MAX_DISTORTED_SHARE * 100.0
        ));
    }
    let (stalled, rate) = (effects.stalled_share_of_run(), plan.tolerance.rate);
    if stalled > rate.as_f64() {
        let longest = time_text(effects.longest_stall().as_nanos());
        against.push(format!(
            "the data path stalled for {:.1} % of the time, at most {longest} at once; the lab \
             tolerates {rate}",
            stalled * 100.0
        ));
    }
    let mut flows: Vec<_> = flow_results
        .iter()
        .filter_map(|result| Some((result, Excess::of(plan, result, effects)?)))
        .collect();
    flows.sort_by(|(_, (a, _)), (_, (b, _))| b.total_cmp(a));
    if let Some((result, (_, excess))) = flows.first() {
        let more = match flows.len() - 1 {
            0 => String::new(),
            1 => "; 1 more flow".to_owned(),
            more => format!("; {more} more flows"),
        };
        against.push(format!("flow {}: {}{more}", result.name, excess.text(rate)));
    }
    against
}

/// Orders hosts by the severity of their faults.
fn severity(machine: &MachineStats<'_>) -> (u64, u64) {
    let late = machine.lateness.percentile(0.999).max(machine.ingress.percentile(0.999));
    (late, machine.faults.dropped_packets)
}

fn steal_remark(machine: &MachineStats<'_>, elapsed: f64) -> Option<String> {
    let stolen = machine.faults.steal_s;
    (elapsed > 0.0 && stolen / elapsed > REPORTED_STEAL_SHARE).then(|| {
        let of =
            if machine.name.is_empty() { String::new() } else { format!(" of {}", machine.name) };
        format!("the hypervisor{of} gave {stolen:.2} s of CPU time to other guests")
    })
}

/// Formats a time in ms or µs.
pub(crate) fn time_text(nanos: u64) -> String {
    if nanos >= 1_000_000 {
        format!("{:.2} ms", nanos as f64 / 1e6)
    } else {
        format!("{:.1} µs", nanos as f64 / 1e3)
    }
}
