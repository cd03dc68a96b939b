//! Assigning atoms to machines.

use lab::plan::Spread;

use super::affinity::Affinity;
use super::atoms::Atoms;
use super::limits::{Limits, Load, Shortage};

mod exact;
mod graph;
mod greedy;
mod refine;

pub(super) use graph::Graph;
use greedy::Order;

/// Where no machine took an atom.
#[derive(Debug)]
pub(super) struct Stuck {
    pub(super) atoms: Vec<u32>,
    /// By machine.
    pub(super) why: Vec<Why>,
}

/// Why a machine does not take an atom.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Why {
    /// It lacks room for it.
    Short(Shortage),
    /// The lab wants it elsewhere.
    Pinned,
    /// It has an atom that this one is to be apart from.
    Apart(u32),
}

/// How much above its fair share a machine may have, tried in turn.
const UNEVEN: [f64; 6] = [1.0, 1.05, 1.2, 1.5, 2.0, f64::INFINITY];

/// An assignment under way.
#[derive(Clone, Debug)]
struct State {
    /// By vertex.
    owner: Vec<Option<usize>>,
    /// By machine.
    loads: Vec<Load>,
    units: Vec<f64>,
    /// By group that is apart and machine: how many of it are there.
    apart: Vec<Vec<u32>>,
}

impl State {
    fn empty(graph: &Graph, machines: usize) -> Self {
        Self {
            owner: vec![None; graph.vertices.len()],
            loads: vec![Load::default(); machines],
            units: vec![0.0; machines],
            apart: vec![vec![0; machines]; graph.apart],
        }
    }

    /// Puts a vertex on a machine, or takes it away with `None`.
    fn put(&mut self, graph: &Graph, vertex: usize, machine: Option<usize>) {
        let before = std::mem::replace(&mut self.owner[vertex], machine);
        for group in &graph.vertices[vertex].groups {
            if let Some(before) = before {
                self.apart[*group][before] -= 1;
            }
            if let Some(machine) = machine {
                self.apart[*group][machine] += 1;
            }
        }
        // Sums anew: floating-point differences would depend on the way here.
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

    /// Why a vertex that is nowhere cannot be added to a machine, whatever the traffic.
    fn excludes(
        &self,
        graph: &Graph,
        limits: &Limits<'_>,
        vertex: usize,
        machine: usize,
    ) -> Option<Why> {
        let entry = &graph.vertices[vertex];
        if entry.pin.is_some_and(|pin| pin != machine) {
            return Some(Why::Pinned);
        }
        if let Some(group) = entry.groups.iter().find(|group| self.apart[**group][machine] > 0) {
            let there = (0..graph.vertices.len()).find(|other| {
                self.owner[*other] == Some(machine) && graph.vertices[*other].groups.contains(group)
            });
            let atom = there.and_then(|other| graph.vertices[other].atoms.first().copied());
            return Some(Why::Apart(atom.unwrap_or_default()));
        }
        let mut load = self.loads[machine];
        load.add(&entry.load);
        limits.lacks_room(machine, &load).map(Why::Short)
    }

    /// Whether a machine has more than it may, whatever the traffic.
    fn is_over(&self, limits: &Limits<'_>, caps: &[f64], machine: usize) -> bool {
        self.units[machine] > caps[machine]
            || limits.lacks_room(machine, &self.loads[machine]).is_some()
            || self.apart.iter().any(|counts| counts[machine] > 1)
    }
}

/// Assigns every atom to a machine.
pub(super) fn search(
    spread: Spread,
    atoms: &Atoms,
    affinity: &Affinity,
    limits: &mut Limits<'_>,
) -> Result<Vec<usize>, Stuck> {
    let plain = Graph::of(atoms, affinity, limits);
    let merged = plain.merged(&affinity.near, limits);
    let mut last = None;
    for graph in merged.iter().chain([&plain]) {
        let factors = if spread == Spread::Pack { &UNEVEN[UNEVEN.len() - 1..] } else { &UNEVEN };
        for factor in factors {
            let caps = graph.caps(limits, *factor);
            match best(graph, limits, &caps, spread == Spread::Pack) {
                Ok(state) => return Ok(graph.by_atom(&state.owner)),
                Err(stuck) => last = Some(stuck),
            }
        }
    }
    Err(last.unwrap_or(Stuck { atoms: Vec::new(), why: Vec::new() }))
}

/// The best assignment that is found.
fn best(graph: &Graph, limits: &mut Limits<'_>, caps: &[f64], pack: bool) -> Result<State, Stuck> {
    let found = refined(graph, limits, caps, pack);
    if graph.vertices.len() > exact::MOST_VERTICES {
        return found;
    }
    let least = found.as_ref().ok().map(|state| graph.cut(&state.owner));
    exact::below(graph, limits, caps, least).map_or(found, |(_, state)| Ok(state))
}

/// The best of several ways to begin, each refined.
fn refined(
    graph: &Graph,
    limits: &mut Limits<'_>,
    caps: &[f64],
    pack: bool,
) -> Result<State, Stuck> {
    let mut found: Option<(u64, State)> = None;
    let mut stuck = None;
    for order in Order::all(graph.vertices.len()) {
        match greedy::assign(graph, limits, caps, pack, order) {
            Ok(mut state) => {
                refine::refine(graph, limits, caps, &mut state);
                if let Some(why) = choked(graph, limits, &state) {
                    stuck.get_or_insert(why);
                    continue;
                }
                let cut = graph.cut(&state.owner);
                if found.as_ref().is_none_or(|(least, _)| cut < *least) {
                    found = Some((cut, state));
                }
            }
            Err(why) => stuck = Some(why),
        }
    }
    let stuck = stuck.unwrap_or(Stuck { atoms: Vec::new(), why: Vec::new() });
    found.map(|(_, state)| state).ok_or(stuck)
}

/// The cut that passes of moves alone reach, as for labs that are too large for more.
#[cfg(test)]
pub(super) fn refined_cut(graph: &Graph, limits: &mut Limits<'_>) -> Option<u64> {
    let caps = vec![f64::INFINITY; limits.machines.len()];
    let state = refined(graph, limits, &caps, true).ok()?;
    Some(graph.cut(&state.owner))
}

/// The machine that has more traffic than it can carry.
fn choked(graph: &Graph, limits: &mut Limits<'_>, state: &State) -> Option<Stuck> {
    let owner = graph.owners(&state.owner);
    for machine in 0..state.loads.len() {
        if let Some(short) = limits.verify(machine, &state.loads[machine], &owner) {
            let here = (0..owner.len()).filter(|atom| owner[*atom] == Some(machine));
            let mut why = vec![Why::Pinned; state.loads.len()];
            why[machine] = Why::Short(short);
            return Some(Stuck { atoms: here.map(|atom| atom as u32).collect(), why });
        }
    }
    None
}

/// Whether an assignment of all vertices keeps to the machines' limits and the lab's wishes.
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
        && choked(graph, limits, &state).is_none()
}
