//! The graph that the search assigns: atoms, or merged atoms, and their traffic.

use crate::affinity::Affinity;
use crate::atoms::Atoms;
use crate::limits::{Limits, Load};

/// Units of a host, a program and a core in fair shares.
const UNITS: [f64; 3] = [1.0, 1.0, 8.0];

#[derive(Clone, Debug, Default)]
pub(crate) struct Vertex {
    pub(crate) atoms: Vec<u32>,
    pub(crate) load: Load,
    pub(crate) pin: Option<usize>,
    /// Groups whose vertices must be on different machines.
    pub(crate) groups: Vec<usize>,
    /// Units for fair shares.
    pub(crate) units: f64,
}

#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) vertices: Vec<Vertex>,
    /// By vertex: other vertices and weights.
    pub(crate) edges: Vec<Vec<(u32, u64)>>,
    pub(crate) apart: usize,
    /// Index of the vertex of each atom.
    vertex_of: Vec<u32>,
}

impl Graph {
    pub(crate) fn of(atoms: &Atoms, affinity: &Affinity, limits: &Limits<'_>) -> Self {
        let mut vertices: Vec<Vertex> = atoms
            .list
            .iter()
            .enumerate()
            .map(|(index, atom)| {
                let load = limits.loads[index];
                let [host, program, core] = UNITS;
                let units = f64::from(load.programs)
                    .mul_add(program, f64::from(load.hosts).mul_add(host, load.cpus * core));
                Vertex { atoms: vec![index as u32], load, pin: atom.pin, groups: vec![], units }
            })
            .collect();
        for (index, group) in atoms.apart.iter().enumerate() {
            for atom in group {
                vertices[*atom as usize].groups.push(index);
            }
        }
        Self {
            vertex_of: (0..vertices.len() as u32).collect(),
            vertices,
            edges: affinity.edges.clone(),
            apart: atoms.apart.len(),
        }
    }

    /// Merges near pairs, heaviest first, where a machine has room; `None` if no pair was merged.
    pub(super) fn merged(&self, pairs: &[(u32, u32, u64)], limits: &Limits<'_>) -> Option<Self> {
        let mut into: Vec<usize> = (0..self.vertices.len()).collect();
        let mut vertices: Vec<Option<Vertex>> = self.vertices.iter().cloned().map(Some).collect();
        let mut some = false;
        for (a, b, _) in pairs {
            let [a, b] = [*a, *b].map(|atom| root(&into, self.vertex_of[atom as usize] as usize));
            let (Some(first), Some(second)) = (&vertices[a], &vertices[b]) else { continue };
            if a == b {
                continue;
            }
            let Some(joined) = joined(first, second, limits) else { continue };
            let (keep, gone) = (a.min(b), a.max(b));
            vertices[keep] = Some(joined);
            vertices[gone] = None;
            into[gone] = keep;
            some = true;
        }
        if !some {
            return None;
        }
        let mut position = vec![0u32; vertices.len()];
        let mut kept = Vec::new();
        for (index, vertex) in vertices.into_iter().enumerate() {
            if let Some(vertex) = vertex {
                position[index] = kept.len() as u32;
                kept.push(vertex);
            }
        }
        let place = |vertex: usize| position[root(&into, vertex)];
        let mut edges = vec![std::collections::BTreeMap::new(); kept.len()];
        for (from, list) in self.edges.iter().enumerate() {
            for (to, weight) in list {
                let (from, to) = (place(from), place(*to as usize));
                if from != to {
                    let sum: &mut u64 = edges[from as usize].entry(to).or_default();
                    *sum = sum.saturating_add(*weight);
                }
            }
        }
        let vertex_of = self.vertex_of.iter().map(|vertex| place(*vertex as usize)).collect();
        let edges = edges.into_iter().map(|list| list.into_iter().collect()).collect();
        Some(Self { vertices: kept, edges, apart: self.apart, vertex_of })
    }

    /// Maximum units of each machine: `factor` times its share by cores, rounded up to a whole
    /// number of vertices.
    pub(super) fn caps(&self, limits: &Limits<'_>, factor: f64) -> Vec<f64> {
        let cores = |machine: usize| limits.machines[machine].resources.cores.max(0.0);
        let all: f64 = (0..limits.machines.len()).map(cores).sum();
        let units: f64 = self.vertices.iter().map(|vertex| vertex.units).sum();
        let least =
            self.vertices.iter().map(|vertex| vertex.units).fold(f64::INFINITY, f64::min).max(1.0);
        let share = |machine: usize| if all > 0.0 { units * cores(machine) / all } else { units };
        // Rounded up to multiples of the smallest vertex.
        let pinned = |machine: usize| -> f64 {
            let local = self.vertices.iter().filter(|vertex| vertex.pin == Some(machine));
            local.map(|vertex| vertex.units).sum()
        };
        let cap = |machine: usize| {
            ((share(machine) * factor / least - 1e-9).ceil() * least).max(pinned(machine))
        };
        (0..limits.machines.len()).map(cap).collect()
    }

    /// Weight of the edges between machines.
    pub(crate) fn cut(&self, owner: &[Option<usize>]) -> u64 {
        let mut cut = 0u64;
        for (from, list) in self.edges.iter().enumerate() {
            for (to, weight) in list.iter().filter(|(to, _)| *to as usize > from) {
                if owner[from] != owner[*to as usize] {
                    cut = cut.saturating_add(*weight);
                }
            }
        }
        cut
    }

    /// Owners by atom; `None` if not yet assigned.
    pub(super) fn owners(&self, owner: &[Option<usize>]) -> Vec<Option<usize>> {
        self.vertex_of.iter().map(|vertex| owner[*vertex as usize]).collect()
    }

    /// Owners by atom of a complete assignment.
    pub(super) fn by_atom(&self, owner: &[Option<usize>]) -> Vec<usize> {
        self.owners(owner).into_iter().map(Option::unwrap_or_default).collect()
    }
}

fn root(into: &[usize], mut vertex: usize) -> usize {
    while into[vertex] != vertex {
        vertex = into[vertex];
    }
    vertex
}

/// Merges two vertices, if the constraints allow it and a machine has room.
fn joined(a: &Vertex, b: &Vertex, limits: &Limits<'_>) -> Option<Vertex> {
    if a.groups.iter().any(|group| b.groups.contains(group)) {
        return None;
    }
    if a.pin.is_some() && b.pin.is_some() && a.pin != b.pin {
        return None;
    }
    let pin = a.pin.or(b.pin);
    let mut load = a.load;
    load.add(&b.load);
    let fits = |machine: &usize| limits.lacks_room(*machine, &load).is_none();
    let mut machines = (0..limits.machines.len()).filter(|m| pin.is_none_or(|pin| pin == *m));
    machines.find(fits)?;
    let atoms = a.atoms.iter().chain(&b.atoms).copied().collect();
    let groups = a.groups.iter().chain(&b.groups).copied().collect();
    Some(Vertex { atoms, load, pin, groups, units: a.units + b.units })
}
