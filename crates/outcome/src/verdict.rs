//! Whether a run's numbers are the lab's, or those of the machines and of the network between
//! them.

mod limit;
mod network;
#[cfg(test)]
mod tests;

use base::{Histogram, Span};
use lab::plan::{Plan, Role};
use lab::routes::Routes;
use record::cluster::Cluster;
use record::run::{HostFaults, HostLoad, Verdict};

pub use limit::FULL;
pub use network::path_delays;

/// Above this many hosts the shortest path is not searched; the floor alone is the tolerance.
const PAIRS_OF: usize = 64;

/// Steal above this share of the run is worth a word even where lateness stayed low.
const NOTABLE_STEAL: f64 = 0.02;

/// The p99.9 lateness up to which a run is trusted: `max(floor, share × shortest path's delay)`.
pub fn tolerance(plan: &Plan, routes: &Routes) -> Span {
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
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The machines that the lab ran on.
    pub machines: &'a [MachineSeen<'a>],
    /// What was between them, where there were several.
    pub cluster: Option<&'a Cluster>,
    /// Datagrams that built-in flows were too late to send.
    pub unsent: u64,
    /// Length of the run in seconds.
    pub elapsed: f64,
    /// See [`tolerance`].
    pub tolerance: Span,
}

/// What one machine did.
#[derive(Clone, Copy, Debug)]
pub struct MachineSeen<'a> {
    /// Its name; empty where there is no other.
    pub name: &'a str,
    /// By how much packets left later than the emulated network says.
    pub lateness: &'a Histogram,
    /// How long packets may have waited, at most, before they were stamped.
    pub ingress: &'a Histogram,
    /// Processor time of its data path.
    pub cpu: Span,
    /// Packets that a node's kernel rejected as wrong.
    pub rejected: u64,
    /// Packets that found no memory.
    pub memory_drops: u64,
    /// What it lost or was denied.
    pub faults: &'a HostFaults,
    /// How busy it was.
    pub load: &'a HostLoad,
    /// Processors that the run could use.
    pub cpus: usize,
}

/// Judges. Every reason is a sentence that a user can act on.
pub fn judge(seen: &Seen<'_>) -> Verdict {
    let Seen { machines, tolerance, .. } = *seen;
    let mut against = Vec::new();
    let late = told(
        &mut against,
        seen,
        |machine| machine.lateness,
        |late| {
            format!("packets left late: p99.9 is {}, the lab tolerates {tolerance}", micros(late))
        },
    );
    told(
        &mut against,
        seen,
        |machine| machine.ingress,
        |waited| {
            format!(
                "packets may have waited up to {} before they were seen (p99.9)",
                micros(waited)
            )
        },
    );
    let sum = |pick: fn(&MachineSeen<'_>) -> u64| machines.iter().map(pick).sum::<u64>();
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
    if !against.is_empty() {
        // All of these come of a machine that was too slow, or too busy.
        against.extend(machines.iter().max_by_key(|m| badness(m)).map(|m| limit::limit(seen, m)));
    }
    let rejected = sum(|machine| machine.rejected);
    if rejected > 0 {
        against.push(format!("kernels rejected {rejected} packets that we wrote"));
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
        against.push(format!("{memory_drops} packets found no memory"));
    }
    let mut remarks = Vec::new();
    if let Some(cluster) = seen.cluster {
        network::judge(cluster, tolerance, &mut against, &mut remarks);
    }
    let trusted = against.is_empty();
    let mut reasons = against;
    if trusted {
        reasons.push(match machines.iter().map(|machine| machine.lateness.count()).sum() {
            0u64 => "no packet left the emulated network, so none could be late".to_owned(),
            _ => format!("p99.9 lateness {} of {tolerance} tolerated", micros(late)),
        });
    }
    reasons.extend(machines.iter().filter_map(|machine| stolen(machine, seen.elapsed)));
    reasons.extend(remarks);
    Verdict { trusted, reasons }
}

/// Tells of p99.9 above the tolerance: over all machines, and of any that stands out though all
/// together do not show it. The result is that over all.
fn told(
    against: &mut Vec<String>,
    seen: &Seen<'_>,
    pick: impl for<'a> Fn(&MachineSeen<'a>) -> &'a Histogram,
    text: impl Fn(u64) -> String,
) -> u64 {
    let tolerance = seen.tolerance.as_nanos();
    let mut all = Histogram::new();
    seen.machines.iter().for_each(|machine| all.merge(pick(machine)));
    let whole = all.percentile(0.999);
    if whole > tolerance {
        against.push(text(whole));
        return whole;
    }
    for machine in seen.machines.iter().filter(|_| seen.machines.len() > 1) {
        let own = pick(machine).percentile(0.999);
        if own > tolerance {
            against.push(format!("on {}, {}", machine.name, text(own)));
        }
    }
    whole
}

/// Which of several machines explains best what went wrong.
fn badness(machine: &MachineSeen<'_>) -> (u64, u64) {
    let late = machine.lateness.percentile(0.999).max(machine.ingress.percentile(0.999));
    (late, machine.faults.dropped_packets)
}

fn stolen(machine: &MachineSeen<'_>, elapsed: f64) -> Option<String> {
    let share = machine.faults.steal_s / elapsed;
    (elapsed > 0.0 && share > NOTABLE_STEAL).then(|| {
        let of =
            if machine.name.is_empty() { String::new() } else { format!(" of {}", machine.name) };
        format!("the hypervisor{of} took {:.1} % of the time", share * 100.0)
    })
}

/// A time in words.
pub(crate) fn micros(nanos: u64) -> String {
    if nanos >= 1_000_000 {
        format!("{:.2} ms", nanos as f64 / 1e6)
    } else {
        format!("{:.1} us", nanos as f64 / 1e3)
    }
}
