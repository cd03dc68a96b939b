//! What cannot be split.

use std::collections::BTreeMap;

use base::NodeId;
use fabric::NodeKind;
use lab::plan::{Flow, Model, Plan, Traffic};

use super::refusal::{Problem, Refusal, machine_named};
use super::{Machine, refusal};

/// Nodes that are on one machine, whichever it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Atom {
    /// Those with a namespace, ascending.
    pub(super) hosts: Vec<NodeId>,
    /// The machine that the lab wants it on.
    pub(super) pin: Option<usize>,
}

/// The lab's nodes as atoms, in the order of their first hosts.
#[derive(Debug)]
pub(super) struct Atoms {
    pub(super) list: Vec<Atom>,
    /// By node; `None` for nodes that are everywhere.
    pub(super) of: Vec<Option<u32>>,
    /// Groups of atoms that are all on different machines.
    pub(super) apart: Vec<Vec<u32>>,
    /// Why nodes stay together.
    pub(super) reasons: Vec<String>,
}

impl Atoms {
    pub(super) fn of(&self, node: NodeId) -> Option<u32> {
        self.of[node.index()]
    }

    /// An atom as a message names it.
    pub(super) fn name(&self, plan: &Plan, atom: u32) -> String {
        refusal::names(plan, &self.list[atom as usize].hosts)
    }
}

/// Whether a node has a kernel of its own, which is somewhere.
pub(super) fn is_placed(plan: &Plan, node: NodeId) -> bool {
    plan.nodes[node.index()].fabric == NodeKind::Edge
}

/// Whether both ends of a flow are driven by one process.
fn is_whole(flow: &Flow) -> bool {
    let tcp = match &flow.traffic {
        Traffic::Bulk { tcp, .. }
        | Traffic::Transfers { tcp, .. }
        | Traffic::Rpc { tcp, .. }
        | Traffic::Requests { tcp, .. } => tcp,
        Traffic::Paced { .. } | Traffic::Controlled { .. } | Traffic::Queries { .. } => {
            return false;
        }
    };
    tcp.multipath.is_some()
}

/// Finds the atoms.
pub(super) fn atoms(plan: &Plan, machines: &[Machine]) -> Result<Atoms, Refusal> {
    let mut sets = Sets { parent: (0..plan.nodes.len()).collect() };
    let mut reasons = Vec::new();
    if plan.model == Model::Hop {
        for link in &plan.links {
            sets.join(link.ends[0], link.ends[1]);
        }
        reasons.push(
            "`model = \"hop\"` has queues that all packets of a network cross: networks without \
             links between them can be on different machines, hosts of one cannot"
                .to_owned(),
        );
    }
    for flow in plan.flows.iter().filter(|flow| is_whole(flow)) {
        if sets.join(flow.from, flow.to) {
            let [from, to] = [flow.from, flow.to].map(|node| &plan.nodes[node.index()].name);
            reasons.push(format!("`{from}` and `{to}`: `{}` has several paths", flow.name));
        }
    }
    for group in &plan.cluster.together {
        for node in group {
            sets.join(group[0], *node);
        }
        reasons.push(format!("{}: `together`", refusal::names(plan, group)));
    }
    let mut list: Vec<Atom> = Vec::new();
    let mut of = vec![None; plan.nodes.len()];
    let mut by_root = BTreeMap::new();
    for (index, place) in of.iter_mut().enumerate() {
        let node = NodeId::at(index);
        let is_placed = is_placed(plan, node);
        // Nodes that only forward are everywhere, unless their queues are in one place.
        if !is_placed && plan.model != Model::Hop {
            continue;
        }
        let atom = *by_root.entry(sets.root(index)).or_insert_with(|| {
            list.push(Atom::default());
            list.len() - 1
        });
        *place = Some(atom as u32);
        if is_placed {
            list[atom].hosts.push(node);
        }
    }
    let mut atoms = Atoms { list, of, apart: Vec::new(), reasons };
    let mut problems = pins(plan, machines, &mut atoms);
    problems.extend(apart(plan, &mut atoms));
    if problems.is_empty() { Ok(atoms) } else { Err(Refusal { problems }) }
}

/// Puts atoms where their nodes are wanted.
fn pins(plan: &Plan, machines: &[Machine], atoms: &mut Atoms) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    for (node, wishes) in &plan.cluster.nodes {
        let Some(name) = wishes.machine.as_deref() else { continue };
        let Some(machine) = machines.iter().position(|machine| machine.name == name) else {
            if !unknown.contains(&name) {
                unknown.push(name);
                problems.push(machine_named(plan, *node, name, machines));
            }
            continue;
        };
        let Some(atom) = atoms.of(*node) else { continue };
        let before = atoms.list[atom as usize].pin.replace(machine);
        let host = &plan.nodes[node.index()].name;
        if let Some(before) = before.filter(|before| *before != machine) {
            problems.push(Problem::new(
                format!(
                    "`{host}` is to be on `{name}`, but stays together with hosts that are to be on \
                     `{}`",
                    machines[before].name
                ),
                format!("{}; drop one of the two `machine`s", atoms.name(plan, atom)),
            ));
        }
        atoms.reasons.push(format!("`{host}` on `{name}`: the lab says so"));
    }
    problems
}

/// Groups of nodes as groups of atoms.
fn apart(plan: &Plan, atoms: &mut Atoms) -> Vec<Problem> {
    let mut problems = Vec::new();
    for group in &plan.cluster.apart {
        let mut first: BTreeMap<u32, NodeId> = BTreeMap::new();
        for node in group {
            let Some(atom) = atoms.of(*node) else { continue };
            if let Some(other) = first.insert(atom, *node) {
                let [a, b] = [other, *node].map(|node| &plan.nodes[node.index()].name);
                let why = if plan.model == Model::Hop {
                    "links join them, and `model = \"hop\"` keeps a network on one machine; \
                     `model = \"collapsed\"` can be spread"
                } else {
                    "`together`, or a flow with several paths, binds them"
                };
                problems.push(Problem::new(
                    format!("`{a}` and `{b}` are to be apart, but stay together"),
                    why.to_owned(),
                ));
            }
        }
        atoms.apart.push(first.into_keys().collect());
    }
    problems
}

struct Sets {
    parent: Vec<usize>,
}

impl Sets {
    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    /// Whether that is news.
    fn join(&mut self, a: NodeId, b: NodeId) -> bool {
        let [a, b] = [a, b].map(|node| self.root(node.index()));
        self.parent[a.max(b)] = a.min(b);
        a != b
    }
}
