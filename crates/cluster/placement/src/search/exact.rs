//! Exact search for small labs: branch and bound over all assignments.

use super::graph::Graph;
use super::state::State;
use crate::limits::Limits;

/// Max vertices of the exact search; larger labs use refinement only.
pub(super) const MAX_VERTICES: usize = 12;
/// Maximum number of partial assignments.
const MAX_STEPS: u32 = 200_000;

struct Search<'g, 'l, 'p> {
    graph: &'g Graph,
    limits: &'l mut Limits<'p>,
    caps: &'g [f64],
    state: State,
    /// In the order of assignment.
    order: Vec<usize>,
    /// The smallest cut so far, and its state.
    least: Option<u64>,
    best: Option<State>,
    steps: u32,
    /// Complete assignments that may still be checked for traffic.
    checks: u32,
}

/// The best state whose cut is below `least`, if there is one.
pub(super) fn below(
    graph: &Graph,
    limits: &mut Limits<'_>,
    caps: &[f64],
    least: Option<u64>,
) -> Option<(u64, State)> {
    // The vertices with most traffic first: they prune most.
    let mut order: Vec<usize> = (0..graph.vertices.len()).collect();
    let traffic = |vertex: usize| {
        graph.edges[vertex].iter().fold(0u64, |sum, (_, weight)| sum.saturating_add(*weight))
    };
    order.sort_by_key(|vertex| (std::cmp::Reverse(traffic(*vertex)), *vertex));
    let checks = limits.max_checks();
    let state = State::empty(graph, caps.len());
    let mut search =
        Search { graph, limits, caps, state, order, least, best: None, steps: 0, checks };
    search.descend(0, 0);
    search.best.and_then(|state| Some((search.least?, state)))
}

impl Search<'_, '_, '_> {
    fn descend(&mut self, depth: usize, cut: u64) {
        if self.least.is_some_and(|least| cut >= least) || self.checks == 0 {
            return;
        }
        let Some(&vertex) = self.order.get(depth) else {
            self.checks -= 1;
            if self.state.overload(self.graph, self.limits).is_none() {
                self.least = Some(cut);
                self.best = Some(self.state.clone());
            }
            return;
        };
        for (machine, more) in self.machines(vertex) {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return;
            }
            let units = self.state.units[machine] + self.graph.vertices[vertex].units;
            if units > self.caps[machine]
                || self.state.excludes(self.graph, self.limits, vertex, machine).is_some()
            {
                continue;
            }
            self.state.put(self.graph, vertex, Some(machine));
            self.descend(depth + 1, cut.saturating_add(more));
            self.state.put(self.graph, vertex, None);
        }
    }

    /// Machines by the increase of the cut, smallest first.
    fn machines(&self, vertex: usize) -> Vec<(usize, u64)> {
        let cut = |machine: usize| {
            let edges = self.graph.edges[vertex].iter();
            let cut = edges.filter(|(other, _)| {
                self.state.owner[*other as usize].is_some_and(|owner| owner != machine)
            });
            cut.fold(0u64, |sum, (_, weight)| sum.saturating_add(*weight))
        };
        let mut machines: Vec<(usize, u64)> =
            (0..self.caps.len()).map(|machine| (machine, cut(machine))).collect();
        machines.sort_by_key(|(machine, cut)| (*cut, *machine));
        machines
    }
}
