//! Assigns atoms to machines.

use lab::plan::Spread;

use super::affinity::Affinity;
use super::atoms::Atoms;
use super::limits::Limits;

mod exact;
mod graph;
mod greedy;
mod refine;
mod state;

pub(super) use graph::Graph;
use greedy::Order;
use state::State;
pub(super) use state::{Exclusion, Unplaced};

/// Factors of its fair share that a machine may have, tried in turn.
const BALANCE_FACTORS: [f64; 6] = [1.0, 1.05, 1.2, 1.5, 2.0, f64::INFINITY];

pub(super) fn search(
    spread: Spread,
    atoms: &Atoms,
    affinity: &Affinity,
    limits: &mut Limits<'_>,
) -> Result<Vec<usize>, Unplaced> {
    let plain = Graph::of(atoms, affinity, limits);
    let merged = plain.merged(&affinity.near, limits);
    let mut last = None;
    for graph in merged.iter().chain([&plain]) {
        let factors = if spread == Spread::Pack {
            &BALANCE_FACTORS[BALANCE_FACTORS.len() - 1..]
        } else {
            &BALANCE_FACTORS
        };
        for factor in factors {
            let caps = graph.caps(limits, *factor);
            match best(graph, limits, &caps, spread == Spread::Pack) {
                Ok(state) => return Ok(graph.by_atom(&state.owner)),
                Err(unplaced) => last = Some(unplaced),
            }
        }
    }
    Err(last.unwrap_or(Unplaced { atoms: Vec::new(), why: Vec::new() }))
}

fn best(
    graph: &Graph,
    limits: &mut Limits<'_>,
    caps: &[f64],
    pack: bool,
) -> Result<State, Unplaced> {
    let found = refined(graph, limits, caps, pack);
    if graph.vertices.len() > exact::MAX_VERTICES {
        return found;
    }
    let least = found.as_ref().ok().map(|state| graph.cut(&state.owner));
    exact::below(graph, limits, caps, least).map_or(found, |(_, state)| Ok(state))
}

/// The best of several initial assignments, each refined.
fn refined(
    graph: &Graph,
    limits: &mut Limits<'_>,
    caps: &[f64],
    pack: bool,
) -> Result<State, Unplaced> {
    let mut found: Option<(u64, State)> = None;
    let mut unplaced = None;
    for order in Order::all(graph.vertices.len()) {
        match greedy::assign(graph, limits, caps, pack, order) {
            Ok(mut state) => {
                refine::refine(graph, limits, caps, &mut state);
                if let Some(why) = state.overload(graph, limits) {
                    unplaced.get_or_insert(why);
                    continue;
                }
                let cut = graph.cut(&state.owner);
                if found.as_ref().is_none_or(|(least, _)| cut < *least) {
                    found = Some((cut, state));
                }
            }
            Err(why) => unplaced = Some(why),
        }
    }
    let unplaced = unplaced.unwrap_or(Unplaced { atoms: Vec::new(), why: Vec::new() });
    found.map(|(_, state)| state).ok_or(unplaced)
}

/// The cut after refinement only, as for labs that are too large for the exact search.
#[cfg(test)]
pub(super) fn refined_cut(graph: &Graph, limits: &mut Limits<'_>) -> Option<u64> {
    let caps = vec![f64::INFINITY; limits.machines.len()];
    let state = refined(graph, limits, &caps, true).ok()?;
    Some(graph.cut(&state.owner))
}

#[cfg(test)]
pub(super) fn keeps(graph: &Graph, limits: &mut Limits<'_>, owner: &[Option<usize>]) -> bool {
    let machines = limits.machines.len();
    let mut state = State::empty(graph, machines);
    for (vertex, machine) in owner.iter().enumerate() {
        if graph.vertices[vertex].pin.is_some_and(|pin| Some(pin) != *machine) {
            return false;
        }
        state.put(graph, vertex, *machine);
    }
    let caps = vec![f64::INFINITY; machines];
    !(0..machines).any(|machine| state.is_over(limits, &caps, machine))
        && state.overload(graph, limits).is_none()
}
