//! The initial assignment, vertex by vertex.

use super::graph::Graph;
use super::state::{Exclusion, State, Unplaced};
use crate::limits::{Limits, Resource, Shortage};

/// Selection of the next vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The vertex with the greatest weight.
    Weight,
    /// The one with most traffic to assigned vertices.
    Traffic,
    /// As `Traffic`, but fills one machine after the other, and starts the first with this vertex.
    Region(usize),
}

/// Max vertices for one start from each vertex.
const MAX_STARTS: usize = 24;
/// Min vertices for which only two orders are tried.
const LARGE_LAB: usize = 3_000;

impl Order {
    pub(super) fn all(vertices: usize) -> Vec<Self> {
        if vertices > LARGE_LAB {
            return vec![Self::Region(0), Self::Weight];
        }
        let starts = if vertices <= MAX_STARTS { vertices } else { 1 };
        let regions = (0..starts).map(Self::Region);
        [Self::Traffic, Self::Weight].into_iter().chain(regions).collect()
    }
}

/// A partial assignment, and the traffic of each vertex with each machine.
struct Greedy<'g, 'l, 'p> {
    graph: &'g Graph,
    limits: &'l mut Limits<'p>,
    caps: &'g [f64],
    state: State,
    /// Traffic with the vertices on a machine, by vertex and machine.
    pull: Vec<Vec<u64>>,
    pack: bool,
}

/// Assigns all vertices, or reports those that no machine has room for.
pub(super) fn assign(
    graph: &Graph,
    limits: &mut Limits<'_>,
    caps: &[f64],
    pack: bool,
    order: Order,
) -> Result<State, Unplaced> {
    let machines = caps.len();
    let mut greedy = Greedy {
        graph,
        limits,
        caps,
        state: State::empty(graph, machines),
        pull: vec![vec![0; machines]; graph.vertices.len()],
        pack,
    };
    for vertex in 0..graph.vertices.len() {
        if graph.vertices[vertex].pin.is_some() {
            greedy.place(vertex)?;
        }
    }
    if let Order::Region(start) = order {
        greedy.regions(start);
    }
    while let Some(vertex) = greedy.next(order) {
        greedy.place(vertex)?;
    }
    Ok(greedy.state)
}

impl Greedy<'_, '_, '_> {
    fn next(&self, order: Order) -> Option<usize> {
        let open = (0..self.graph.vertices.len()).filter(|v| self.state.owner[*v].is_none());
        let pull = |vertex: usize| match order {
            Order::Weight => 0,
            Order::Traffic | Order::Region(_) => {
                self.pull[vertex].iter().copied().max().unwrap_or_default()
            }
        };
        let weight = |vertex: usize| self.graph.vertices[vertex].units;
        open.max_by(|a, b| {
            pull(*a).cmp(&pull(*b)).then(weight(*a).total_cmp(&weight(*b))).then(b.cmp(a))
        })
    }

    /// Assigns a vertex to the machine with most common traffic that has room.
    fn place(&mut self, vertex: usize) -> Result<(), Unplaced> {
        let mut why = Vec::new();
        let mut choice: Option<usize> = None;
        for machine in 0..self.caps.len() {
            match self.excludes(vertex, machine) {
                Some(reason) => why.push(reason),
                None if choice.is_none_or(|other| self.is_better(vertex, machine, other)) => {
                    choice = Some(machine);
                }
                None => {}
            }
        }
        let Some(machine) = choice else {
            return Err(Unplaced { atoms: self.graph.vertices[vertex].atoms.clone(), why });
        };
        self.put(vertex, machine);
        Ok(())
    }

    fn is_better(&self, vertex: usize, machine: usize, other: usize) -> bool {
        let pull = |machine: usize| self.pull[vertex][machine];
        let fill = |machine: usize| {
            let cores = self.limits.machines[machine].resources.cores.max(1e-3);
            self.state.units[machine] / cores
        };
        let emptier = fill(machine) < fill(other);
        let fuller = fill(machine) > fill(other);
        pull(machine) > pull(other)
            || (pull(machine) == pull(other) && if self.pack { fuller } else { emptier })
    }

    fn put(&mut self, vertex: usize, machine: usize) {
        self.state.put(self.graph, vertex, Some(machine));
        for (other, weight) in &self.graph.edges[vertex] {
            let pull = &mut self.pull[*other as usize][machine];
            *pull = pull.saturating_add(*weight);
        }
    }

    /// Reason why a machine cannot have a vertex. Interfaces are checked on complete assignments,
    /// because a later vertex may reduce the cut.
    fn excludes(&mut self, vertex: usize, machine: usize) -> Option<Exclusion> {
        let excluded = self.state.excludes(self.graph, self.limits, vertex, machine);
        if excluded.is_some() {
            return excluded;
        }
        let entry = &self.graph.vertices[vertex];
        let units = self.state.units[machine] + entry.units;
        if units > self.caps[machine] && entry.pin.is_none() {
            return Some(Exclusion::Short(Shortage {
                resource: Resource::Hosts,
                needed: units,
                available: self.caps[machine],
            }));
        }
        let mut load = self.state.loads[machine];
        load.add(&entry.load);
        self.state.owner[vertex] = Some(machine);
        let owner = self.graph.owners(&self.state.owner);
        self.state.owner[vertex] = None;
        let short = self.limits.traffic_shortage(machine, &load, &owner)?;
        let grows = matches!(short.resource, Resource::Cores | Resource::Traffic);
        grows.then_some(Exclusion::Short(short))
    }

    /// Fills one machine after the other, each with the vertices of most common traffic.
    fn regions(&mut self, start: usize) {
        let mut first = Some(start);
        let mut machines: Vec<usize> = (0..self.caps.len()).collect();
        machines.sort_by(|a, b| self.caps[*b].total_cmp(&self.caps[*a]).then(a.cmp(b)));
        for machine in machines {
            let mut rejected = vec![false; self.graph.vertices.len()];
            loop {
                let open =
                    |vertex: &usize| self.state.owner[*vertex].is_none() && !rejected[*vertex];
                let candidates = (0..self.graph.vertices.len()).filter(open);
                let begins = first.take().filter(|vertex| open(vertex));
                let best = candidates.max_by(|a, b| {
                    let pull = |vertex: usize| self.pull[vertex][machine];
                    let units = |vertex: usize| self.graph.vertices[vertex].units;
                    pull(*a).cmp(&pull(*b)).then(units(*a).total_cmp(&units(*b))).then(b.cmp(a))
                });
                let Some(vertex) = begins.or(best) else { break };
                if self.excludes(vertex, machine).is_some() {
                    rejected[vertex] = true;
                    // A lighter vertex might still fit, but rarely does.
                    if rejected.iter().filter(|is_refused| **is_refused).count() > MAX_REJECTED {
                        break;
                    }
                } else {
                    self.put(vertex, machine);
                }
            }
        }
    }
}

/// Vertices that may be rejected before a machine counts as full.
const MAX_REJECTED: usize = 16;
