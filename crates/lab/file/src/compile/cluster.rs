//! `[cluster]`: groups, pins and requirements of nodes, and contradictions between them.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use base::NodeId;
use fabric::NodeKind;

use super::Compiler;
use super::names::fit_for_a_label;
use crate::code::Code;
use crate::fields::{CLUSTER, Field, Key, NODE, Name, Raw};
use crate::plan::{PlacementRequirements, Role};
use crate::tree::{At, Table, Value};

const MAX_GROUPS: usize = 10_000;
/// Limit over all groups, since each of many patterns may match every node.
const MAX_GROUP_MEMBERS: usize = 1_000_000;

/// Positions for reports of contradictions.
#[derive(Default)]
struct Seen {
    /// Position of each node's assignment to an agent.
    pins: BTreeMap<NodeId, At>,
    apart: Vec<At>,
    together: Vec<At>,
}

impl Compiler<'_> {
    /// Needs the decision about namespaces: a node without a namespace is on every agent.
    pub(super) fn read_cluster(&mut self) {
        let table = self.input.root.table("cluster").unwrap_or(Table::EMPTY);
        self.plan.cluster.on_loss = table.read(CLUSTER.on_agent_loss);
        self.plan.cluster.spread = table.read(CLUSTER.spread);
        let mut seen = Seen::default();
        self.read_wishes(table, &mut seen);
        let apart = self.groups(table, CLUSTER.apart);
        let together = self.groups(table, CLUSTER.together);
        (self.plan.cluster.apart, seen.apart) = apart.into_iter().unzip();
        (self.plan.cluster.together, seen.together) = together.into_iter().unzip();
        self.read_patterns(table);
        self.refuse_contradictions(&seen);
    }

    /// Reads the requirements of nodes, from the nodes' tables and from `[cluster]`.
    fn read_wishes(&mut self, cluster: &Table, seen: &mut Seen) {
        let (cpus, memory) = (cluster.read(CLUSTER.cpus), cluster.read(CLUSTER.memory));
        if cpus.is_some() || memory.is_some() {
            for (index, node) in self.plan.nodes.iter().enumerate() {
                // Generated session hosts have no programs.
                let first = node.ifaces.first().map_or(0, |iface| iface.index() / 2);
                if node.kind == Role::Host && first < self.places.drawn_links {
                    let wishes = PlacementRequirements { machine: None, cpus, memory };
                    self.plan.cluster.nodes.insert(NodeId::at(index), wishes);
                }
            }
        }
        for entry in &cluster.read(CLUSTER.machines).entries {
            for node in self.node_group(&entry.value) {
                self.pin(node, &entry.key, &entry.key_at, seen);
            }
        }
        let Some(nodes) = self.input.root.table("node") else { return };
        for entry in &nodes.entries {
            let Some(table) = entry.value.table() else { continue };
            let Some(id) = self.nodes.get(&entry.key.to_ascii_lowercase()).copied() else {
                continue;
            };
            if let Some(machine) = table.get(NODE.machine)
                && let Some(name) = machine.text()
            {
                self.pin(id, name, &machine.at, seen);
            }
            for Field { key, .. } in keys!(NODE: cpus, memory) {
                let Some(value) = table.get(*key) else { continue };
                if !self.is_somewhere(id, &value.at, &format!("`{key}` of")) {
                    continue;
                }
                let wishes = self.plan.cluster.nodes.entry(id).or_default();
                wishes.cpus = table.read(NODE.cpus).or(wishes.cpus);
                wishes.memory = table.read(NODE.memory).or(wishes.memory);
            }
        }
    }

    fn pin(&mut self, node: NodeId, machine: &str, at: &At, seen: &mut Seen) {
        if !fit_for_a_label(machine) {
            self.sink
                .report(Code::BadName, at, format!("`{machine}` is not a valid agent name"))
                .help("letters, digits, `-`, `_` and `.`; `netarium cluster status` lists them");
            return;
        }
        if !self.is_somewhere(node, at, "a machine for") {
            return;
        }
        let name = self.plan.nodes[node.index()].name.clone();
        let wishes = self.plan.cluster.nodes.entry(node).or_default();
        match &wishes.machine {
            Some(other) if other != machine => {
                let message = format!("`{name}` cannot be on `{machine}` and on `{other}`");
                let diagnostic = self.sink.report(Code::Conflict, at, message);
                if let Some(first) = seen.pins.get(&node) {
                    diagnostic.also(first, "set here");
                }
            }
            _ => {
                wishes.machine = Some(machine.to_owned());
                seen.pins.insert(node, at.clone());
            }
        }
    }

    /// Whether a node is on one agent only; otherwise reports an error.
    fn is_somewhere(&mut self, node: NodeId, at: &At, what: &str) -> bool {
        let entry = &self.plan.nodes[node.index()];
        let fine = entry.fabric == NodeKind::Edge;
        if !fine {
            let kind = if entry.kind == Role::Switch { "switch" } else { "router" };
            let message = format!("{what} `{}`, a {kind} on which nothing runs", entry.name);
            self.sink
                .report(Code::Restricted, at, message)
                .help("every agent emulates the whole network; only hosts are placed on agents");
        }
        fine
    }

    fn groups(&mut self, table: &Table, key: Key<Raw>) -> Vec<(Vec<NodeId>, At)> {
        let value = table.read(key);
        let list = value.list().unwrap_or_default();
        let mut found = Vec::new();
        let mut members = 0;
        for value in list.iter().filter(|value| value.list().is_some()) {
            if !self.room(found.len(), MAX_GROUPS, "groups of nodes", &value.at) {
                break;
            }
            let found_before = self.sink.list.len();
            let mut group = self.node_group(value);
            // A pattern may match a node without a namespace, a name may not.
            let named = value.one_or_more().iter().filter_map(Value::text);
            let named: Vec<&str> = named.collect();
            group.retain(|node| {
                let entry = &self.plan.nodes[node.index()];
                entry.fabric == NodeKind::Edge || named.contains(&entry.name.as_str())
            });
            group.retain(|node| self.is_somewhere(*node, &value.at, "a group with"));
            group.sort_unstable();
            group.dedup();
            members += group.len();
            if members > MAX_GROUP_MEMBERS {
                self.sink
                    .report(
                        Code::Limit,
                        &value.at,
                        format!("groups of over {MAX_GROUP_MEMBERS} nodes"),
                    )
                    .help("name fewer nodes, or fewer groups");
                break;
            }
            if group.len() < 2 && self.sink.list.len() > found_before {
                continue;
            }
            if group.len() < 2 {
                self.sink
                    .report(
                        Code::NoEffect,
                        &value.at,
                        format!("`{}` of fewer than two nodes", key.name()),
                    )
                    .help("name at least two nodes");
                continue;
            }
            found.push((group, value.at.clone()));
        }
        found
    }

    fn read_patterns(&mut self, table: &Table) {
        for value in table.read(CLUSTER.files).list().unwrap_or_default() {
            let Some(pattern) = value.text() else { continue };
            let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
            if pattern.is_empty() || !Path::new(pattern).components().all(inside) {
                self.sink
                    .report(
                        Code::OutOfRange,
                        &value.at,
                        format!("`{pattern}` is not in the folder"),
                    )
                    .help("only files in the lab file's folder are sent");
                continue;
            }
            self.plan.cluster.files.push(pattern.to_owned());
        }
    }

    /// Rejects groups that exclude each other, and agents that exclude groups.
    fn refuse_contradictions(&mut self, seen: &Seen) {
        let mut root: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for group in &self.plan.cluster.together {
            for node in group {
                let [a, b] = [find(&root, group[0]), find(&root, *node)];
                if a != b {
                    root.insert(b, a);
                }
            }
        }
        self.refuse_pins_of_one(&root, seen);
        self.refuse_one_apart(&root, seen);
    }

    /// Rejects different agents for nodes that must be together.
    fn refuse_pins_of_one(&mut self, root: &BTreeMap<NodeId, NodeId>, seen: &Seen) {
        let mut first: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for (node, at) in &seen.pins {
            let other = *first.entry(find(root, *node)).or_insert(*node);
            let [here, there] = [*node, other].map(|node| self.plan.cluster.wishes(node).machine);
            if here == there {
                continue;
            }
            let [a, b] = [*node, other].map(|node| &self.plan.nodes[node.index()].name);
            let [here, there] = [here, there].map(Option::unwrap_or_default);
            let message =
                format!("`{a}` is to be on `{here}`, and together with `{b}` on `{there}`");
            let diagnostic = self.sink.report(Code::Conflict, at, message);
            if let Some(other) = seen.pins.get(&other) {
                diagnostic.also(other, format!("`{b}`"));
            }
            if let Some(group) = group_of(&self.plan.cluster.together, &seen.together, *node) {
                diagnostic.also(group, "together");
            }
            diagnostic.help("remove one of the three");
        }
    }

    /// Rejects the same agent or group for nodes that must be apart.
    fn refuse_one_apart(&mut self, root: &BTreeMap<NodeId, NodeId>, seen: &Seen) {
        for (group, at) in self.plan.cluster.apart.iter().zip(&seen.apart) {
            let mut bound: BTreeMap<NodeId, NodeId> = BTreeMap::new();
            let mut pinned: BTreeMap<String, NodeId> = BTreeMap::new();
            for node in group {
                let name = |node: NodeId| &self.plan.nodes[node.index()].name;
                let other = *bound.entry(find(root, *node)).or_insert(*node);
                if other != *node {
                    let [a, b] = [name(other), name(*node)];
                    let message = format!("`{a}` and `{b}` are to be apart and together");
                    let diagnostic = self.sink.report(Code::Conflict, at, message);
                    if let Some(group) =
                        group_of(&self.plan.cluster.together, &seen.together, *node)
                    {
                        diagnostic.also(group, "together");
                    }
                    diagnostic.help("remove one of them from one of the groups");
                    break;
                }
                let Some(machine) = self.plan.cluster.wishes(*node).machine else { continue };
                let other = *pinned.entry(machine.clone()).or_insert(*node);
                if other != *node {
                    let [a, b] = [name(other), name(*node)];
                    let message = format!(
                        "`{a}` and `{b}` must be on different machines, but both are on `{machine}`"
                    );
                    let diagnostic = self.sink.report(Code::Conflict, at, message);
                    for place in [other, *node].iter().filter_map(|node| seen.pins.get(node)) {
                        diagnostic.also(place, "");
                    }
                    diagnostic.help("set different machines, or none");
                    break;
                }
            }
        }
    }
}

fn group_of<'s>(groups: &[Vec<NodeId>], places: &'s [At], node: NodeId) -> Option<&'s At> {
    let mut groups = groups.iter().zip(places);
    groups.find(|(group, _)| group.contains(&node)).map(|(_, at)| at)
}

fn find(root: &BTreeMap<NodeId, NodeId>, node: NodeId) -> NodeId {
    let mut node = node;
    while let Some(next) = root.get(&node) {
        node = *next;
    }
    node
}
