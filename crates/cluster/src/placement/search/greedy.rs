//! A first assignment, vertex by vertex.

use super::graph::Graph;
use super::{State, Stuck, Why};
use crate::placement::limits::{Limits, Resource, Shortage};

/// Which vertex is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The heaviest.
    Heavy,
    /// The one that talks most with what has been assigned.
    Talk,
    /// As `Talk`, but one machine after the other is filled, the first beginning with this vertex.
    Region(usize),
    /// The heaviest, and always where most is left: talk is left to refinement.
    Level,
}

/// Small labs are begun with each vertex, large ones with one.
const STARTS: usize = 24;
/// Above this, one way to begin.
const LARGE: usize = 3_000;

impl Order {
    pub(super) fn all(vertices: usize) -> Vec<Self> {
        if vertices > LARGE {
            return vec![Self::Region(0), Self::Heavy, Self::Level];
        }
        let starts = if vertices <= STARTS { vertices } else { 1 };
        let regions = (0..starts).map(Self::Region);
        [Self::Talk, Self::Heavy, Self::Level].into_iter().chain(regions).collect()
    }
}

/// What is assigned, and how strongly vertices are drawn to machines.
struct Greedy<'g, 'l, 'p> {
    graph: &'g Graph,
    limits: &'l mut Limits<'p>,
    caps: &'g [f64],
    state: State,
    /// By vertex and machine.
    pull: Vec<Vec<u64>>,
    pack: bool,
    order: Order,
}

/// Assigns every vertex, or says which no machine takes.
pub(super) fn assign(
    graph: &Graph,
    limits: &mut Limits<'_>,
    caps: &[f64],
    pack: bool,
    order: Order,
) -> Result<State, Stuck> {
    let machines = caps.len();
    let mut greedy = Greedy {
        graph,
        limits,
        caps,
        state: State::empty(graph, machines),
        pull: vec![vec![0; machines]; graph.vertices.len()],
        pack,
        order,
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
        let drawn = |vertex: usize| match order {
            Order::Heavy | Order::Level => 0,
            Order::Talk | Order::Region(_) => {
                self.pull[vertex].iter().copied().max().unwrap_or_default()
            }
        };
        let weight = |vertex: usize| self.graph.vertices[vertex].units;
        open.max_by(|a, b| {
            drawn(*a).cmp(&drawn(*b)).then(weight(*a).total_cmp(&weight(*b))).then(b.cmp(a))
        })
    }

    /// Where a vertex is drawn to most, among the machines that take it.
    fn place(&mut self, vertex: usize) -> Result<(), Stuck> {
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
            return Err(Stuck { atoms: self.graph.vertices[vertex].atoms.clone(), why });
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
        if self.order == Order::Level {
            return emptier;
        }
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

    /// Why a machine does not take a vertex. Interfaces are looked at when all are assigned: what
    /// is cut now may be together then.
    fn excludes(&mut self, vertex: usize, machine: usize) -> Option<Why> {
        let excluded = self.state.excludes(self.graph, self.limits, vertex, machine);
        if excluded.is_some() {
            return excluded;
        }
        let entry = &self.graph.vertices[vertex];
        let units = self.state.units[machine] + entry.units;
        if units > self.caps[machine] && entry.pin.is_none() {
            return Some(Why::Short(Shortage {
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
        let short = self.limits.chokes(machine, &load, &owner)?;
        let grows = matches!(short.resource, Resource::Cores | Resource::Traffic);
        grows.then_some(Why::Short(short))
    }

    /// Fills one machine after the other with what talks most with what it has.
    fn regions(&mut self, start: usize) {
        let mut first = Some(start);
        let mut machines: Vec<usize> = (0..self.caps.len()).collect();
        machines.sort_by(|a, b| self.caps[*b].total_cmp(&self.caps[*a]).then(a.cmp(b)));
        for machine in machines {
            let mut refused = vec![false; self.graph.vertices.len()];
            loop {
                let open =
                    |vertex: &usize| self.state.owner[*vertex].is_none() && !refused[*vertex];
                let candidates = (0..self.graph.vertices.len()).filter(open);
                let begins = first.take().filter(|vertex| open(vertex));
                let best = candidates.max_by(|a, b| {
                    let pull = |vertex: usize| self.pull[vertex][machine];
                    let units = |vertex: usize| self.graph.vertices[vertex].units;
                    pull(*a).cmp(&pull(*b)).then(units(*a).total_cmp(&units(*b))).then(b.cmp(a))
                });
                let Some(vertex) = begins.or(best) else { break };
                if self.excludes(vertex, machine).is_some() {
                    refused[vertex] = true;
                    // What weighs less may still fit, but most of the time nothing does.
                    if refused.iter().filter(|is_refused| **is_refused).count() > TRIES {
                        break;
                    }
                } else {
                    self.put(vertex, machine);
                }
            }
        }
    }
}

/// Vertices that a full machine may refuse before the next machine's turn.
const TRIES: usize = 16;
