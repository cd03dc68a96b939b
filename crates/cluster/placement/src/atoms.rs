//! Sets of nodes that cannot be split.

use std::collections::BTreeMap;

use base::NodeId;
use fabric::NodeKind;
use lab::plan::{Flow, Model, Plan, Traffic};

use super::model::Machine;
use super::refusal::{self, Problem, Refusal};

/// Nodes that must be on the same machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Atom {
    /// Nodes with a namespace, ascending.
    pub(super) hosts: Vec<NodeId>,
    /// The machine that the lab requires.
    pub(super) pin: Option<usize>,
}

/// Atoms, in the order of their first hosts.
#[derive(Debug)]
pub(super) struct Atoms {
    pub(super) list: Vec<Atom>,
    /// By node; `None` for nodes that every machine emulates.
    pub(super) of: Vec<Option<u32>>,
    /// Groups of atoms that must be on different machines.
    pub(super) apart: Vec<Vec<u32>>,
    /// Reasons why nodes stay together.
    pub(super) reasons: Vec<String>,
}

impl Atoms {
    pub(super) fn of(&self, node: NodeId) -> Option<u32> {
        self.of[node.index()]
    }

    /// Name of an atom in messages.
    pub(super) fn name(&self, plan: &Plan, atom: u32) -> String {
        refusal::names(plan, &self.list[atom as usize].hosts)
    }
}

/// Whether a node has a network namespace, which exists on one machine.
pub(super) fn is_placed(plan: &Plan, node: NodeId) -> bool {
    plan.nodes[node.index()].fabric == NodeKind::Edge
}

/// Whether one process drives both ends of a flow.
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

pub(super) fn atoms(plan: &Plan, machines: &[Machine]) -> Result<Atoms, Refusal> {
    let mut sets = Sets { parent: (0..plan.nodes.len()).collect() };
    let mut reasons = Vec::new();
    if plan.model == Model::Hop {
        for link in &plan.links {
            sets.join(link.ends[0], link.ends[1]);
        }
        reasons.push(
            "`model = \"hop\"` keeps the queues of a connected network in one place: only networks \
             without links between them can be on different machines"
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
        // Every machine emulates forwarding nodes, unless their queues must be in one place.
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

/// Assigns atoms to the machines that the lab requires.
fn pins(plan: &Plan, machines: &[Machine], atoms: &mut Atoms) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut unknown: Vec<&str> = Vec::new();
    for (node, wishes) in &plan.cluster.nodes {
        let Some(name) = wishes.machine.as_deref() else { continue };
        let Some(machine) = machines.iter().position(|machine| machine.name == name) else {
            if !unknown.contains(&name) {
                unknown.push(name);
                problems.push(unknown_machine(plan, *node, name, machines));
            }
            continue;
        };
        let Some(atom) = atoms.of(*node) else { continue };
        let before = atoms.list[atom as usize].pin.replace(machine);
        let host = &plan.nodes[node.index()].name;
        if let Some(before) = before.filter(|before| *before != machine) {
            problems.push(Problem::new(
                format!(
                    "`{host}` requires machine `{name}`, but must stay together with hosts that require \
                     `{}`",
                    machines[before].name
                ),
                format!("{}; remove one of the two `machine` keys", atoms.name(plan, atom)),
            ));
        }
        atoms.reasons.push(format!("`{host}` on `{name}`: required by the lab"));
    }
    problems
}

fn unknown_machine(plan: &Plan, node: NodeId, name: &str, machines: &[Machine]) -> Problem {
    let known: Vec<String> = machines.iter().map(|m| format!("`{}`", m.name)).collect();
    Problem::new(
        format!(
            "`{}` requires machine `{name}`, which is not in the cluster",
            plan.nodes[node.index()].name
        ),
        format!("agents: {}", known.join(", ")),
    )
}

/// Converts groups of nodes to groups of atoms.
fn apart(plan: &Plan, atoms: &mut Atoms) -> Vec<Problem> {
    let mut problems = Vec::new();
    for group in &plan.cluster.apart {
        let mut first: BTreeMap<u32, NodeId> = BTreeMap::new();
        for node in group {
            let Some(atom) = atoms.of(*node) else { continue };
            if let Some(other) = first.insert(atom, *node) {
                let [a, b] = [other, *node].map(|node| &plan.nodes[node.index()].name);
                let why = if plan.model == Model::Hop {
                    "links connect them, and `model = \"hop\"` needs a network on one machine; \
                     `model = \"collapsed\"` can be distributed"
                } else {
                    "because of `together`, or a flow with several paths"
                };
                problems.push(Problem::new(
                    format!("`{a}` and `{b}` are in one `apart` group, but must stay together"),
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

    /// Returns whether the sets were different.
    fn join(&mut self, a: NodeId, b: NodeId) -> bool {
        let [a, b] = [a, b].map(|node| self.root(node.index()));
        self.parent[a.max(b)] = a.min(b);
        a != b
    }
}
