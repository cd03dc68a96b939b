//! Refinement by single moves: each vertex once per pass, best gain first, up to the best state.

use super::graph::Graph;
use super::state::State;
use crate::limits::Limits;

const MAX_PASSES: usize = 8;

struct Pass<'g, 'l, 'p> {
    graph: &'g Graph,
    limits: &'l mut Limits<'p>,
    caps: &'g [f64],
    /// Traffic with the vertices on a machine, by vertex and machine.
    pull: Vec<Vec<u64>>,
    locked: Vec<bool>,
    /// Overload in the best state.
    traffic_shortage: u64,
}

/// Moves vertices while this lowers the cut or the overload.
pub(super) fn refine(graph: &Graph, limits: &mut Limits<'_>, caps: &[f64], state: &mut State) {
    let mut traffic_shortage = total_overload(graph, limits, state);
    for _ in 0..MAX_PASSES {
        let mut pass = Pass {
            graph,
            caps,
            pull: pulls(graph, &state.owner, caps.len()),
            locked: graph.vertices.iter().map(|vertex| vertex.pin.is_some()).collect(),
            traffic_shortage,
            limits: &mut *limits,
        };
        if !pass.run(state) {
            break;
        }
        traffic_shortage = pass.traffic_shortage;
    }
}

/// The overload of all machines, each relative to its capacity, in thousandths.
fn total_overload(graph: &Graph, limits: &mut Limits<'_>, state: &State) -> u64 {
    let owner = graph.owners(&state.owner);
    let excess = |machine: usize| {
        let short = limits.traffic_shortage(machine, &state.loads[machine], &owner)?;
        // A machine without a resource counts as overloaded by a factor of 1000.
        let times = short.needed / short.available.max(short.needed / 1000.0);
        Some((1000.0 * (times - 1.0)) as u64 + 1)
    };
    (0..state.loads.len()).filter_map(excess).sum()
}

fn pulls(graph: &Graph, owner: &[Option<usize>], machines: usize) -> Vec<Vec<u64>> {
    let mut pulls = vec![vec![0u64; machines]; graph.vertices.len()];
    for (vertex, list) in graph.edges.iter().enumerate() {
        for (other, weight) in list {
            if let Some(machine) = owner[*other as usize] {
                let pull = &mut pulls[vertex][machine];
                *pull = pull.saturating_add(*weight);
            }
        }
    }
    pulls
}

impl Pass<'_, '_, '_> {
    fn run(&mut self, state: &mut State) -> bool {
        let max_checks = 50 + self.graph.vertices.len() / 8;
        let mut moves: Vec<(usize, usize)> = Vec::new();
        let (mut gained, mut best) = (0i128, 0i128);
        let mut kept = 0;
        while let Some((vertex, machine, gain)) = self.choose(state) {
            let Some(from) = state.owner[vertex] else { break };
            self.shift(state, vertex, from, machine);
            moves.push((vertex, from));
            gained += gain;
            let valid = !(0..self.caps.len()).any(|m| state.is_over(self.limits, self.caps, m));
            if valid && (gained > best || self.traffic_shortage > 0) {
                let traffic_shortage = total_overload(self.graph, self.limits, state);
                if traffic_shortage < self.traffic_shortage
                    || (traffic_shortage == self.traffic_shortage && gained > best)
                {
                    (best, kept, self.traffic_shortage) = (gained, moves.len(), traffic_shortage);
                }
            }
            if moves.len() - kept > max_checks {
                break;
            }
        }
        for (vertex, from) in moves.drain(kept..).rev() {
            state.put(self.graph, vertex, Some(from));
        }
        kept > 0
    }

    /// The best move that leaves at most one machine above its limits.
    fn choose(&self, state: &State) -> Option<(usize, usize, i128)> {
        let machines = self.caps.len();
        let overfull = (0..machines).find(|m| state.is_over(self.limits, self.caps, *m));
        let mut best: Option<(usize, usize, i128)> = None;
        for (vertex, pulls) in self.pull.iter().enumerate() {
            let Some(from) = state.owner[vertex].filter(|_| !self.locked[vertex]) else { continue };
            if overfull.is_some_and(|overfull| overfull != from) {
                continue;
            }
            for (machine, pull) in pulls.iter().enumerate() {
                if machine == from {
                    continue;
                }
                let gain = i128::from(*pull) - i128::from(pulls[from]);
                if best.is_none_or(|(.., most)| gain > most)
                    && self.is_allowed(state, vertex, machine, overfull.is_some())
                {
                    best = Some((vertex, machine, gain));
                }
            }
        }
        best
    }

    /// Whether a vertex may move to a machine: within its limits, or temporarily above them if no
    /// other machine is overloaded, so that another vertex can leave in exchange.
    fn is_allowed(&self, state: &State, vertex: usize, machine: usize, is_relief: bool) -> bool {
        let entry = &self.graph.vertices[vertex];
        let mut load = state.loads[machine];
        load.add(&entry.load);
        let fits = state.units[machine] + entry.units <= self.caps[machine]
            && self.limits.lacks_room(machine, &load).is_none()
            && entry.groups.iter().all(|group| state.apart[*group][machine] == 0);
        // A vertex that does not fit an empty machine must not move there.
        fits || (!is_relief && self.limits.lacks_room(machine, &entry.load).is_none())
    }

    fn shift(&mut self, state: &mut State, vertex: usize, from: usize, machine: usize) {
        state.put(self.graph, vertex, Some(machine));
        self.locked[vertex] = true;
        for (other, weight) in &self.graph.edges[vertex] {
            let pulls = &mut self.pull[*other as usize];
            pulls[from] = pulls[from].saturating_sub(*weight);
            pulls[machine] = pulls[machine].saturating_add(*weight);
        }
    }
}
