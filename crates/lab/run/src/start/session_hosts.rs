//! Hosts that exist only as ends of generated sessions. Their number is too high for reports of
//! single hosts.

use lab::plan::{Plan, Role};

/// Maximum number of directed links whose samples are recorded, in a lab with session generators.
/// With more, only samples of links in expectations are recorded; totals are always reported.
const MAX_SAMPLED_DIRECTIONS: usize = 10_000;

/// Whether each node is a host that only generated sessions use.
pub(crate) fn session_hosts(plan: &Plan) -> Vec<bool> {
    let mut hosts = vec![false; plan.nodes.len()];
    for session in plan.sessions.iter().flat_map(|generator| &generator.sessions) {
        for end in [session.from, session.to] {
            let node = &plan.nodes[end.index()];
            hosts[end.index()] = node.kind == Role::Host && node.ifaces.len() == 1;
        }
    }
    for flow in &plan.flows {
        hosts[flow.from.index()] = false;
        hosts[flow.to.index()] = false;
    }
    hosts
}

/// Whether each position of links is reported, and whether its samples are recorded.
pub(crate) fn positions(plan: &Plan, named: &[bool]) -> (Vec<bool>, Vec<bool>) {
    if plan.sessions.is_empty() {
        return (vec![true; named.len()], vec![true; named.len()]);
    }
    let hosts = session_hosts(plan);
    let is_shown = |at: usize| !plan.links[at / 2].ends.iter().any(|end| hosts[end.index()]);
    let reported: Vec<bool> =
        named.iter().enumerate().map(|(at, named)| *named || is_shown(at)).collect();
    let count = reported.iter().filter(|reported| **reported).count();
    let sampled = if count > MAX_SAMPLED_DIRECTIONS { named.to_vec() } else { reported.clone() };
    (reported, sampled)
}
