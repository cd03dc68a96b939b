//! What the network between the machines of a lab, and their clocks, have done to it.

use base::{NodeId, Span};
use lab::plan::{Plan, Role};
use lab::routes::Routes;
use record::cluster::{Cluster, Member, Trunk};
use record::run::Status;

use super::micros;

/// Hosts above which least delays between members are not searched: there are their squares.
const MOST_HOSTS: usize = 1024;

/// Packets that come late by more than the tolerance count against a run above this share.
const LATE_SHARE: f64 = 0.001;

/// Judges the network, the clocks and whether all were there all the time. `remarks` are what is
/// no reason to mistrust a run.
pub(super) fn judge(
    cluster: &Cluster,
    tolerance: Span,
    against: &mut Vec<String>,
    remarks: &mut Vec<String>,
) {
    for member in &cluster.members {
        against.extend(absent(member));
        clock(member, tolerance, against, remarks);
    }
    for trunk in &cluster.trunks {
        against.extend(lost(trunk));
        if trunk.refused_packets > 0 {
            let Trunk { from, to, refused_packets, .. } = trunk;
            against.push(format!(
                "{from} could not hand {refused_packets} packets for {to} to the network in time"
            ));
        }
        against.extend(late(trunk, tolerance));
        against.extend(slow(trunk, tolerance));
        if trunk.forged > 0 {
            let Trunk { from, to, forged, .. } = trunk;
            remarks.push(format!(
                "{to} refused {forged} datagrams in the name of {from} that were not the lab's"
            ));
        }
    }
}

fn absent(member: &Member) -> Vec<String> {
    let name = &member.name;
    let hosts = match member.hosts.as_slice() {
        [] => "no hosts".to_owned(),
        [one] => one.clone(),
        [first, .., last] => format!("{} hosts, {first} to {last}", member.hosts.len()),
    };
    let outage = |outage: &record::cluster::Outage| match outage.until_s {
        Some(until) => format!(
            "{name} ({hosts}) was lost to the others from {:.1} s to {until:.1} s",
            outage.at_s
        ),
        None => format!("{name} ({hosts}) was lost at {:.1} s and did not return", outage.at_s),
    };
    let mut reasons: Vec<String> = member.outages.iter().map(outage).collect();
    if member.status == Status::Killed {
        reasons.push(format!("what {name} ({hosts}) saw is missing, or ends before the run"));
    }
    reasons
}

fn clock(member: &Member, tolerance: Span, against: &mut Vec<String>, remarks: &mut Vec<String>) {
    let Some(bound) = member.clock_bound_ns else { return };
    let text = || {
        let (name, bound) = (&member.name, micros(bound));
        format!("{name}'s clock may differ by {bound}, the lab tolerates {tolerance}")
    };
    if bound > tolerance.as_nanos() {
        against.push(text());
    } else if bound > tolerance.as_nanos() / 2 {
        remarks.push(text());
    }
}

fn lost(trunk: &Trunk) -> Option<String> {
    let Trunk { from, to, lost, datagrams, .. } = trunk;
    (*lost > 0).then(|| {
        format!(
            "the network lost {lost} of {} datagrams from {from} to {to}, which the lab did not \
             ask for",
            lost.saturating_add(*datagrams)
        )
    })
}

fn late(trunk: &Trunk, tolerance: Span) -> Option<String> {
    let Trunk { from, to, too_late, packets, .. } = trunk;
    let share = *too_late as f64 / (*packets).max(1) as f64;
    (share > LATE_SHARE).then(|| {
        let most = trunk.lateness.map_or(0, |by| by.max_ns);
        format!(
            "{too_late} of {packets} packets from {from} to {to} came more than {tolerance} after \
             they were due, by {} at most",
            micros(most)
        )
    })
}

/// A network that is slower than the one that it carries.
fn slow(trunk: &Trunk, tolerance: Span) -> Option<String> {
    let Trunk { from, to, .. } = trunk;
    let (emulated, delay) = (trunk.path_delay_ns?, trunk.delay.as_ref()?.p999_ns);
    (delay > emulated.saturating_add(tolerance.as_nanos())).then(|| {
        format!(
            "the network from {from} to {to} takes {} (p99.9), longer than the shortest emulated \
             path between their hosts, {}",
            micros(delay),
            micros(emulated)
        )
    })
}

/// The least emulated delay from a host of one member to a host of another, by member and member;
/// `None`: no path, or too many hosts to search. `owners` has the member of each node.
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
    if hosts.len() > MOST_HOSTS {
        return delays;
    }
    for (from, sender) in &hosts {
        for (to, receiver) in hosts.iter().filter(|(_, receiver)| receiver != sender) {
            for iface in &plan.nodes[to.index()].ifaces {
                let least = &mut delays[*sender][*receiver];
                let delay = routes.path_delay(*from, *iface);
                *least = [*least, delay].into_iter().flatten().min();
            }
        }
    }
    delays
}
