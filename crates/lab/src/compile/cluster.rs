//! `[cluster]`: groups, pins and needs of nodes, and where they contradict each other.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use base::NodeId;
use fabric::NodeKind;

use super::Compiler;
use super::names::fit_for_a_label;
use crate::code::Code;
use crate::plan::{OnLoss, Role, Spread, Wishes};
use crate::tree::{At, Table, Value};

const MOST_GROUPS: usize = 10_000;
/// Over all groups: each of many patterns may mean every node.
const MOST_MEMBERS: usize = 1_000_000;

/// What a contradiction is shown by.
#[derive(Default)]
struct Seen {
    /// Where a node's machine is said.
    pins: BTreeMap<NodeId, At>,
    apart: Vec<At>,
    together: Vec<At>,
}

impl Compiler<'_> {
    /// Comes after namespaces are decided: what has none is on every machine.
    pub(super) fn read_cluster(&mut self) {
        let empty = Table::default();
        let root = self.input.root;
        let table = root.table("cluster").unwrap_or(&empty);
        if table.text("on_agent_loss") == Some("continue") {
            self.plan.cluster.on_loss = OnLoss::Continue;
        }
        if table.text("spread") == Some("pack") {
            self.plan.cluster.spread = Spread::Pack;
        }
        let mut seen = Seen::default();
        self.read_wishes(table, &mut seen);
        let apart = self.groups(table, "apart");
        let together = self.groups(table, "together");
        (self.plan.cluster.apart, seen.apart) = apart.into_iter().unzip();
        (self.plan.cluster.together, seen.together) = together.into_iter().unzip();
        self.read_patterns(table);
        self.refuse_contradictions(&seen);
    }

    /// What each node asks for itself, and what `[cluster]` says for it.
    fn read_wishes(&mut self, cluster: &Table, seen: &mut Seen) {
        let (cpus, memory) = (cluster.number("cpus"), cluster.bytes("memory"));
        if cpus.is_some() || memory.is_some() {
            for (index, node) in self.plan.nodes.iter().enumerate() {
                // Hosts that populations bring have no programs.
                let first = node.ifaces.first().map_or(0, |iface| iface.index() / 2);
                if node.kind == Role::Host && first < self.places.drawn_links {
                    let wishes = Wishes { machine: None, cpus, memory };
                    self.plan.cluster.nodes.insert(NodeId::at(index), wishes);
                }
            }
        }
        if let Some(machines) = cluster.table("machines") {
            for entry in &machines.entries {
                for node in self.node_group(&entry.value) {
                    self.pin(node, &entry.key, &entry.key_at, seen);
                }
            }
        }
        let Some(nodes) = self.input.root.table("node") else { return };
        for entry in &nodes.entries {
            let Some(table) = entry.value.table() else { continue };
            let Some(id) = self.nodes.get(&entry.key.to_ascii_lowercase()).copied() else {
                continue;
            };
            if let Some(machine) = table.get("machine")
                && let Some(name) = machine.text()
            {
                self.pin(id, name, &machine.at, seen);
            }
            for key in ["cpus", "memory"] {
                let Some(value) = table.get(key) else { continue };
                if !self.is_somewhere(id, &value.at, &format!("`{key}` of")) {
                    continue;
                }
                let wishes = self.plan.cluster.nodes.entry(id).or_default();
                wishes.cpus = table.number("cpus").or(wishes.cpus);
                wishes.memory = table.bytes("memory").or(wishes.memory);
            }
        }
    }

    fn pin(&mut self, node: NodeId, machine: &str, at: &At, seen: &mut Seen) {
        if !fit_for_a_label(machine) {
            self.sink
                .report(Code::BadName, at, format!("`{machine}` is no name of an agent"))
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
                    diagnostic.also(first, "said here");
                }
            }
            _ => {
                wishes.machine = Some(machine.to_owned());
                seen.pins.insert(node, at.clone());
            }
        }
    }

    /// Whether a node is on one machine only; says so if not.
    fn is_somewhere(&mut self, node: NodeId, at: &At, what: &str) -> bool {
        let entry = &self.plan.nodes[node.index()];
        let fine = entry.fabric == NodeKind::Edge;
        if !fine {
            let kind = if entry.kind == Role::Switch { "switch" } else { "router" };
            let message = format!("{what} `{}`, a {kind} on which nothing runs", entry.name);
            self.sink
                .report(Code::Restricted, at, message)
                .help("every machine emulates the whole network; hosts are what it shares out");
        }
        fine
    }

    fn groups(&mut self, table: &Table, key: &str) -> Vec<(Vec<NodeId>, At)> {
        let list = table.get(key).and_then(Value::list).unwrap_or_default();
        let mut found = Vec::new();
        let mut members = 0;
        for value in list.iter().filter(|value| value.list().is_some()) {
            if !self.room(found.len(), MOST_GROUPS, "groups of nodes", &value.at) {
                break;
            }
            let found_before = self.sink.list.len();
            let mut group = self.node_group(value);
            // Patterns may name what is on every machine, names may not.
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
            if members > MOST_MEMBERS {
                self.sink
                    .report(Code::Limit, &value.at, format!("groups of over {MOST_MEMBERS} nodes"))
                    .help("name fewer nodes, or fewer groups");
                break;
            }
            if group.len() < 2 && self.sink.list.len() > found_before {
                continue;
            }
            if group.len() < 2 {
                self.sink
                    .report(Code::NoEffect, &value.at, format!("`{key}` of fewer than two nodes"))
                    .help("name at least two nodes");
                continue;
            }
            found.push((group, value.at.clone()));
        }
        found
    }

    fn read_patterns(&mut self, table: &Table) {
        for value in table.get("files").and_then(Value::list).unwrap_or_default() {
            let Some(pattern) = value.text() else { continue };
            let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
            if pattern.is_empty() || !Path::new(pattern).components().all(inside) {
                self.sink
                    .report(
                        Code::OutOfRange,
                        &value.at,
                        format!("`{pattern}` is not in the folder"),
                    )
                    .help("files are sent from the lab file's folder and what is in it");
                continue;
            }
            self.plan.cluster.files.push(pattern.to_owned());
        }
    }

    /// Groups that exclude each other, and machines that exclude groups.
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

    /// Nodes that stay together have one machine.
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
            diagnostic.help("drop one of the three");
        }
    }

    /// Nodes that are apart neither stay together nor have the same machine.
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
                    diagnostic.help("take one of them out of one of the groups");
                    break;
                }
                let Some(machine) = self.plan.cluster.wishes(*node).machine else { continue };
                let other = *pinned.entry(machine.clone()).or_insert(*node);
                if other != *node {
                    let [a, b] = [name(other), name(*node)];
                    let message =
                        format!("`{a}` and `{b}` are to be apart, and both on `{machine}`");
                    let diagnostic = self.sink.report(Code::Conflict, at, message);
                    for place in [other, *node].iter().filter_map(|node| seen.pins.get(node)) {
                        diagnostic.also(place, "");
                    }
                    diagnostic.help("give them different machines, or none");
                    break;
                }
            }
        }
    }
}

/// Where the group stands that a node is in.
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
