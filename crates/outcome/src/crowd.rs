//! Hosts of populations: far too many to be told one by one.

use lab::plan::{Plan, Role};

/// Directions of links whose samples are recorded, at most, in a lab with populations. Where
/// there are more, only those that an expectation names are; their totals are told anyway.
const SAMPLED: usize = 10_000;

/// The nodes that are there for sessions of populations alone: hosts that nothing names.
pub(crate) fn crowd(plan: &Plan) -> Vec<bool> {
    let mut crowd = vec![false; plan.nodes.len()];
    for session in plan.sessions.iter().flat_map(|population| &population.sessions) {
        for end in [session.from, session.to] {
            let node = &plan.nodes[end.index()];
            crowd[end.index()] = node.kind == Role::Host && node.ifaces.len() == 1;
        }
    }
    for flow in &plan.flows {
        crowd[flow.from.index()] = false;
        crowd[flow.to.index()] = false;
    }
    crowd
}

/// Which positions of links are told, and whose samples are recorded.
pub(crate) fn positions(plan: &Plan, named: &[bool]) -> (Vec<bool>, Vec<bool>) {
    if plan.sessions.is_empty() {
        return (vec![true; named.len()], vec![true; named.len()]);
    }
    let crowd = crowd(plan);
    let told: Vec<bool> = named
        .iter()
        .enumerate()
        .map(|(at, named)| *named || !plan.links[at / 2].ends.iter().any(|end| crowd[end.index()]))
        .collect();
    let many = told.iter().filter(|told| **told).count() > SAMPLED;
    let sampled = if many { named.to_vec() } else { told.clone() };
    (told, sampled)
}
