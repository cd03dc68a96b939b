//! A partial assignment during the search.

use super::graph::Graph;
use crate::limits::{Limits, Load, Shortage};

/// Atoms that no machine has room for.
#[derive(Debug)]
pub(crate) struct Unplaced {
    pub(crate) atoms: Vec<u32>,
    /// The reason of each machine, by its index.
    pub(crate) why: Vec<Exclusion>,
}

/// Reason why a machine cannot have an atom.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Exclusion {
    Short(Shortage),
    /// The lab requires another machine.
    Pinned,
    /// It has this atom, from which the lab requires separation.
    Apart(u32),
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) owner: Vec<Option<usize>>,
    pub(super) loads: Vec<Load>,
    pub(super) units: Vec<f64>,
    /// Number of vertices by `apart` group and machine.
    pub(super) apart: Vec<Vec<u32>>,
}

impl State {
    pub(super) fn empty(graph: &Graph, machines: usize) -> Self {
        Self {
            owner: vec![None; graph.vertices.len()],
            loads: vec![Load::default(); machines],
            units: vec![0.0; machines],
            apart: vec![vec![0; machines]; graph.apart],
        }
    }

    /// Moves a vertex to a machine, or to none.
    pub(super) fn put(&mut self, graph: &Graph, vertex: usize, machine: Option<usize>) {
        let before = std::mem::replace(&mut self.owner[vertex], machine);
        for group in &graph.vertices[vertex].groups {
            if let Some(before) = before {
                self.apart[*group][before] -= 1;
            }
            if let Some(machine) = machine {
                self.apart[*group][machine] += 1;
            }
        }
        // Sums again: floating-point differences would depend on the order of moves.
        for machine in before.into_iter().chain(machine) {
            let mut load = Load::default();
            let mut units = 0.0;
            for (vertex, owner) in graph.vertices.iter().zip(&self.owner) {
                if *owner == Some(machine) {
                    load.add(&vertex.load);
                    units += vertex.units;
                }
            }
            self.loads[machine] = load;
            self.units[machine] = units;
        }
    }

    /// Reason why an unassigned vertex cannot be added to a machine, without its traffic.
    pub(super) fn excludes(
        &self,
        graph: &Graph,
        limits: &Limits<'_>,
        vertex: usize,
        machine: usize,
    ) -> Option<Exclusion> {
        let entry = &graph.vertices[vertex];
        if entry.pin.is_some_and(|pin| pin != machine) {
            return Some(Exclusion::Pinned);
        }
        if let Some(group) = entry.groups.iter().find(|group| self.apart[**group][machine] > 0) {
            let there = (0..graph.vertices.len()).find(|other| {
                self.owner[*other] == Some(machine) && graph.vertices[*other].groups.contains(group)
            });
            let atom = there.and_then(|other| graph.vertices[other].atoms.first().copied());
            return Some(Exclusion::Apart(atom.unwrap_or_default()));
        }
        let mut load = self.loads[machine];
        load.add(&entry.load);
        limits.lacks_room(machine, &load).map(Exclusion::Short)
    }

    /// Whether a machine exceeds its limits, without its traffic.
    pub(super) fn is_over(&self, limits: &Limits<'_>, caps: &[f64], machine: usize) -> bool {
        self.units[machine] > caps[machine]
            || limits.lacks_room(machine, &self.loads[machine]).is_some()
            || self.apart.iter().any(|counts| counts[machine] > 1)
    }

    /// The first machine with more traffic than it can carry.
    pub(super) fn overload(&self, graph: &Graph, limits: &mut Limits<'_>) -> Option<Unplaced> {
        let owner = graph.owners(&self.owner);
        for machine in 0..self.loads.len() {
            if let Some(short) = limits.verify(machine, &self.loads[machine], &owner) {
                let local = (0..owner.len()).filter(|atom| owner[*atom] == Some(machine));
                let mut why = vec![Exclusion::Pinned; self.loads.len()];
                why[machine] = Exclusion::Short(short);
                return Some(Unplaced { atoms: local.map(|atom| atom as u32).collect(), why });
            }
        }
        None
    }
}
