//! The effect of the network between agents, and of their clocks, on a run.

use crate::record::Status;
use crate::record::cluster::{Cluster, Member, Trunk};
use base::{NodeId, Span};
use lab::plan::{Plan, Role};
use lab::routes::Routes;

use super::time_text;

/// Maximum number of hosts for a search of minimum delays between agents, whose cost is quadratic.
const MAX_SEARCHED_HOSTS: usize = 1024;

/// Adds reasons `against` trust in network, clocks and agents. The `remarks` do not affect trust.
pub(super) fn judge(
    cluster: &Cluster,
    tolerance: Span,
    against: &mut Vec<String>,
    remarks: &mut Vec<String>,
) {
    for member in &cluster.members {
        against.extend(outages(member));
        check_clock(member, tolerance, against, remarks);
    }
    for trunk in &cluster.trunks {
        against.extend(loss_reason(trunk));
        if trunk.refused_packets > 0 {
            let Trunk { from, to, refused_packets, .. } = trunk;
            against.push(format!(
                "{from} dropped {refused_packets} packets for {to}: its send queue was full"
            ));
        }
        against.extend(lateness_reason(trunk, tolerance));
        against.extend(delay_reason(trunk, tolerance));
        if trunk.forged > 0 {
            let Trunk { from, to, forged, .. } = trunk;
            remarks.push(format!(
                "{to} rejected {forged} forged or damaged datagrams with the source {from}"
            ));
        }
    }
}

fn outages(member: &Member) -> Vec<String> {
    let name = &member.name;
    let hosts = match member.hosts.as_slice() {
        [] => "no hosts".to_owned(),
        [one] => one.clone(),
        [first, .., last] => format!("{} hosts, {first} to {last}", member.hosts.len()),
    };
    let outage = |outage: &crate::record::cluster::Outage| match outage.until_s {
        Some(until) => format!(
            "the other agents lost {name} ({hosts}) from {:.1} s to {until:.1} s",
            outage.at_s
        ),
        None => format!(
            "the other agents lost {name} ({hosts}) at {:.1} s, and it did not return",
            outage.at_s
        ),
    };
    let mut reasons: Vec<String> = member.outages.iter().map(outage).collect();
    if member.status == Status::Killed {
        reasons.push(format!("the results of {name} ({hosts}) are missing, or end before the run"));
    }
    reasons
}

fn check_clock(
    member: &Member,
    tolerance: Span,
    against: &mut Vec<String>,
    remarks: &mut Vec<String>,
) {
    let Some(bound) = member.clock_bound_ns else { return };
    let text = || {
        let (name, bound) = (&member.name, time_text(bound));
        format!("{name}'s clock may differ by {bound}, the lab tolerates {tolerance}")
    };
    if bound > tolerance.as_nanos() {
        against.push(text());
    } else if bound > tolerance.as_nanos() / 2 {
        remarks.push(text());
    }
}

fn loss_reason(trunk: &Trunk) -> Option<String> {
    let Trunk { from, to, lost, datagrams, .. } = trunk;
    (*lost > 0).then(|| {
        format!(
            "the network lost {lost} of {} datagrams from {from} to {to}, which the lab did not \
             configure",
            lost.saturating_add(*datagrams)
        )
    })
}

fn lateness_reason(trunk: &Trunk, tolerance: Span) -> Option<String> {
    let Trunk { from, to, too_late, packets, .. } = trunk;
    let share = *too_late as f64 / (*packets).max(1) as f64;
    (share > super::MAX_DISTORTED_SHARE).then(|| {
        let max_ns = trunk.lateness.map_or(0, |by| by.max_ns);
        format!(
            "{too_late} of {packets} packets from {from} to {to} arrived more than {tolerance} \
             after they were due, at most by {}",
            time_text(max_ns)
        )
    })
}

/// A reason for a physical network with more delay than the emulated one.
fn delay_reason(trunk: &Trunk, tolerance: Span) -> Option<String> {
    let Trunk { from, to, .. } = trunk;
    let (emulated, delay) = (trunk.path_delay_ns?, trunk.delay.as_ref()?.p99_ns);
    (delay > emulated.saturating_add(tolerance.as_nanos())).then(|| {
        format!(
            "the delay from {from} to {to} is {} (p99), longer than that of the shortest \
             emulated path between their hosts, {}",
            time_text(delay),
            time_text(emulated)
        )
    })
}

/// The minimum emulated delay from a host of one agent to a host of another; `None` without a path,
/// or with too many hosts to search. `owners` has the agent of each node.
pub fn path_delays(
    plan: &Plan,
    routes: &Routes,
    owners: &[Option<u16>],
    members: usize,
) -> Vec<Vec<Option<Span>>> {
    let mut delays = vec![vec![None; members]; members];
    let hosts: Vec<(NodeId, usize)> = (0..plan.nodes.len())
        .filter(|at| plan.nodes[*at].kind == Role::Host)
        .filter_map(|at| Some((NodeId::at(at), usize::from((*owners.get(at)?)?))))
        .filter(|(_, member)| *member < members)
        .collect();
    if hosts.len() > MAX_SEARCHED_HOSTS {
        return delays;
    }
    for (from, sender) in &hosts {
        for (to, receiver) in hosts.iter().filter(|(_, receiver)| receiver != sender) {
            for iface in &plan.nodes[to.index()].ifaces {
                let min = &mut delays[*sender][*receiver];
                let delay = routes.path_delay(*from, *iface);
                *min = [*min, delay].into_iter().flatten().min();
            }
        }
    }
    delays
}
