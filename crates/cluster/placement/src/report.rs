//! The result of a placement: shares, cut flows and warnings.

use std::collections::BTreeMap;

use base::{Bandwidth, Bytes, FlowId, NodeId, ProgramId, Span};
use lab::plan::Plan;
use lab::routes::Routes;

use super::affinity::neighbours;
use super::atoms::{Atoms, is_placed};
use super::demand::{Demand, NO_LIMIT};
use super::feasibility;
use super::limits::{Limits, Load, Traffic};
use super::model::{Bound, BoundedBy, CutFlow, Placement, Share, Terms};
use cluster::{AgentId, Assignment};

/// Maximum number of pairs of host groups to check.
const MAX_PAIRS: usize = 500_000;

/// Completes an assignment of atoms to machines.
pub(super) fn placement(
    plan: &Plan,
    terms: &Terms,
    atoms: &Atoms,
    demand: &Demand,
    limits: &mut Limits<'_>,
    owner: &[usize],
) -> Placement {
    let mut used: Vec<usize> = owner.to_vec();
    used.sort_unstable();
    used.dedup();
    let agent = |machine: usize| AgentId::at(used.binary_search(&machine).unwrap_or_default());
    let owners: Vec<Option<AgentId>> =
        atoms.of.iter().map(|atom| atom.map(|atom| agent(owner[atom as usize]))).collect();
    let assignment = Assignment::new(owners);
    let maybe: Vec<Option<usize>> = owner.iter().copied().map(Some).collect();
    let mut warnings = Vec::new();
    let mut reasons = atoms.reasons.clone();
    let mut machines = Vec::new();
    for machine in &used {
        let mut load = Load::default();
        for (atom, _) in owner.iter().enumerate().filter(|(_, owner)| *owner == machine) {
            load.add(&limits.loads[atom]);
        }
        let traffic = limits.traffic(*machine, &maybe);
        let share = share(plan, limits, &assignment, (*machine, agent(*machine)), &load, &traffic);
        if let Some(short) = limits.shortage(*machine, &load, &traffic) {
            warnings.push(format!("overcommitted: {}", feasibility::shortage(&share.name, &short)));
        }
        unbounded(limits, &share, &mut warnings, &mut reasons);
        machines.push(share);
    }
    let cut = cut(plan, demand, &assignment);
    warnings.extend(near_flows(plan, terms, &cut));
    warnings.extend(near_hosts(plan, terms, demand, &assignment));
    Placement { assignment, machines, cut, reasons, warnings }
}

fn share(
    plan: &Plan,
    limits: &Limits<'_>,
    assignment: &Assignment,
    (machine, agent): (usize, AgentId),
    load: &Load,
    traffic: &Traffic,
) -> Share {
    let is_here = |node: NodeId| assignment.owner(node) == Some(agent);
    let nodes = (0..plan.nodes.len()).map(NodeId::at);
    let hosts = nodes.filter(|node| is_placed(plan, *node) && is_here(*node));
    let programs = (0..plan.programs.len()).map(ProgramId::at);
    let programs = programs.filter(|program| is_here(plan.programs[program.index()].node));
    let bound = |bits: Option<u64>, by_flows: bool| Bound {
        rate: bits.map(Bandwidth::from_bits_per_sec),
        by: match (bits, by_flows) {
            (None, _) => BoundedBy::Nothing,
            (Some(_), true) => BoundedBy::Flows,
            (Some(_), false) => BoundedBy::Links,
        },
    };
    Share {
        name: limits.machines[machine].name.clone(),
        machine,
        hosts: hosts.collect(),
        programs: programs.collect(),
        program_cores: load.cpus,
        traffic_cores: limits.cores(load, traffic),
        memory: Bytes::new(load.memory.saturating_add(limits.shard_memory)),
        out: bound(traffic.out, traffic.by_flows[0]),
        into: bound(traffic.into, traffic.by_flows[1]),
        inside: bound(traffic.inside, false),
    }
}

/// Reports traffic that the lab does not bound.
fn unbounded(
    limits: &Limits<'_>,
    share: &Share,
    warnings: &mut Vec<String>,
    reasons: &mut Vec<String>,
) {
    let name = &share.name;
    let crosses =
        share.out.rate != Some(Bandwidth::ZERO) || share.into.rate != Some(Bandwidth::ZERO);
    let nic = limits.machines[share.machine].resources.nic;
    if share.out.rate.is_none() || share.into.rate.is_none() {
        let nic = nic.map_or_else(
            || "its interface, whose rate the kernel does not report".to_owned(),
            |nic| format!("its interface, {nic}"),
        );
        warnings.push(format!(
            "the lab does not bound the traffic between {name} and other machines; its limit is {nic}; \
             set a `rate` on links"
        ));
    } else if crosses && nic.is_none() {
        reasons.push(format!(
            "{name}: the kernel does not report the rate of its interface, so the traffic is not \
             checked against it"
        ));
    }
    if share.inside.rate.is_none() {
        reasons.push(format!(
            "{name}: the lab does not bound the traffic between its own hosts, so it is not \
             checked against cores"
        ));
    }
}

fn cut(plan: &Plan, demand: &Demand, assignment: &Assignment) -> Vec<CutFlow> {
    let flows = plan.flows.iter().zip(&demand.flows).enumerate();
    flows
        .filter_map(|(index, (flow, known))| {
            let machines = [assignment.owner(flow.from)?, assignment.owner(flow.to)?];
            let rate = (known.there < NO_LIMIT).then_some(known.there);
            (machines[0] != machines[1]).then(|| CutFlow {
                flow: FlowId::at(index),
                machines,
                rate: rate.map(Bandwidth::from_bits_per_sec),
                delay: known.delay,
            })
        })
        .collect()
}

/// Flows with less delay than the physical network.
fn near_flows(plan: &Plan, terms: &Terms, cut: &[CutFlow]) -> Option<String> {
    let is_near = |flow: &&CutFlow| flow.delay.is_some_and(|delay| delay < terms.physical);
    let near: Vec<&CutFlow> = cut.iter().filter(is_near).collect();
    let first = near.first()?;
    let more = match near.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    Some(format!(
        "flow `{}`{more} has an emulated delay of {} between two machines, less than the {} \
         of the physical network: its packets are late",
        plan.flows[first.flow.index()].name,
        first.delay.unwrap_or_default(),
        terms.physical
    ))
}

/// Pairs of hosts on different machines, of which at least one has a program, whose emulated delay
/// is below the delay of the physical network.
fn near_hosts(
    plan: &Plan,
    terms: &Terms,
    demand: &Demand,
    assignment: &Assignment,
) -> Option<String> {
    if demand.is_declared {
        return None;
    }
    let routes = Routes::compute(plan, &vec![true; plan.links.len()]);
    let groups: Vec<Vec<NodeId>> = classes(plan);
    let mut pairs = 0u64;
    let mut example = None;
    let delay = |from: NodeId, to: NodeId| {
        let iface = plan.nodes[to.index()].ifaces.first()?;
        routes.path_delay(from, *iface)
    };
    for (index, group) in groups.iter().enumerate() {
        for other in groups[index..].iter().take(MAX_PAIRS / groups.len().max(1)) {
            let (Some(a), Some(b)) = (group.first(), other.last()) else { continue };
            if a == b || delay(*a, *b).is_none_or(|delay| delay >= terms.physical) {
                continue;
            }
            let (cut, pair) = cut_pairs(demand, assignment, group, other);
            pairs += cut;
            example = example.or(pair);
        }
    }
    let (a, b) = example?;
    let [a, b] = [a, b].map(|node| &plan.nodes[node.index()].name);
    Some(format!(
        "{pairs} pairs of hosts on different machines, for example `{a}` and `{b}`, have less \
         emulated delay than the {} of the physical network: their packets are late; \
         `together` puts hosts on one machine",
        terms.physical
    ))
}

/// Groups of hosts with equal delays to all others.
fn classes(plan: &Plan) -> Vec<Vec<NodeId>> {
    let mut classes: BTreeMap<(NodeId, [Span; 2]), Vec<NodeId>> = BTreeMap::new();
    for (peer, hosts) in neighbours(plan) {
        for host in hosts {
            let iface = plan.nodes[host.index()].ifaces[0];
            let link = &plan.links[plan.ifaces[iface.index()].link.index()];
            let side = plan.ifaces[iface.index()].sends.index();
            let delays = [link.directions[side].delay, link.directions[1 - side].delay];
            classes.entry((peer, delays)).or_default().push(host);
        }
    }
    classes.into_values().collect()
}

/// Counts pairs of hosts, one of each group, on different machines; at least one host of a pair
/// must have programs. Returns the number and the first pair.
fn cut_pairs(
    demand: &Demand,
    assignment: &Assignment,
    group: &[NodeId],
    other: &[NodeId],
) -> (u64, Option<(NodeId, NodeId)>) {
    let count = |nodes: &[NodeId]| {
        let mut all: BTreeMap<Option<AgentId>, [u64; 2]> = BTreeMap::new();
        for node in nodes {
            let has_programs = demand.hosts[node.index()].programs > 0;
            all.entry(assignment.owner(*node)).or_default()[usize::from(has_programs)] += 1;
        }
        all
    };
    let (local, remote) = (count(group), count(other));
    let mut pairs = 0;
    for (agent, [idle, busy]) in &local {
        for (_, [other_idle, other_busy]) in remote.iter().filter(|(other, _)| *other != agent) {
            pairs += (idle + busy) * (other_idle + other_busy) - idle * other_idle;
        }
    }
    let is_same = group == other;
    let example = (pairs > 0).then(|| {
        group.iter().find_map(|a| {
            let apart = |b: &&NodeId| {
                assignment.owner(*a) != assignment.owner(**b)
                    && demand.hosts[a.index()].programs + demand.hosts[b.index()].programs > 0
            };
            other.iter().find(apart).map(|b| (*a, *b))
        })
    });
    (if is_same { pairs / 2 } else { pairs }, example.flatten())
}
