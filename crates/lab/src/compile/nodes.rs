//! Nodes, and how other sections refer to them.

use base::NodeId;
use fabric::NodeKind;

use super::Compiler;
use super::names::{fit_for_a_host, is_pattern, matches};
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::load::PatternMatch;
use crate::plan::{Node, Role, Routing};
use crate::tree::{At, Value};

const MOST_NODES: usize = 2_000_000;

impl Compiler<'_> {
    pub(super) fn read_nodes(&mut self) {
        let Some(nodes) = self.input.root.table("node") else { return };
        for entry in &nodes.entries {
            let kind = match entry.value.table().and_then(|table| table.text("kind")) {
                Some("router") => Role::Router,
                Some("switch") => Role::Switch,
                Some("sendbox") => Role::SendBox,
                Some("receivebox") => Role::ReceiveBox,
                _ => Role::Host,
            };
            self.add_node(&entry.key, kind, &entry.key_at);
        }
    }

    /// Adds a node unless its name is unfit or taken.
    pub(super) fn add_node(&mut self, name: &str, kind: Role, at: &At) -> Option<NodeId> {
        let id = self.add_unplaced_node(name, kind, at)?;
        self.plan.nodes[id.index()].declared = self.place(at);
        Some(id)
    }

    /// A node that a generator or a population of sessions brings: it has no line of its own.
    pub(super) fn add_unplaced_node(&mut self, name: &str, kind: Role, at: &At) -> Option<NodeId> {
        if !self.room(self.plan.nodes.len(), MOST_NODES, "nodes", at) {
            return None;
        }
        if !fit_for_a_host(name) {
            self.sink
                .report(Code::BadName, at, format!("`{name}` is no host name"))
                .help("letters, digits and hyphens, at most 63, and not digits only");
            return None;
        }
        let lower = name.to_ascii_lowercase();
        if let Some(other) = self.nodes.get(&lower) {
            let first = self.places.nodes[other.index()].clone();
            self.sink
                .report(Code::Duplicate, at, format!("there is a node `{name}` already"))
                .also(&first, "the first")
                .help("host names do not tell capitals from small letters");
            return None;
        }
        let id = NodeId::at(self.plan.nodes.len());
        self.nodes.insert(lower, id);
        self.places.nodes.push(at.clone());
        self.plan.nodes.push(Node {
            name: name.to_owned(),
            kind,
            fabric: NodeKind::Edge,
            ifaces: Vec::new(),
            declared: (0, 0),
        });
        Some(id)
    }

    /// The node that a text names.
    pub(super) fn node(&mut self, name: &str, at: &At) -> Option<NodeId> {
        let id = self.nodes.get(&name.to_ascii_lowercase()).copied();
        let exact = id.filter(|id| self.plan.nodes[id.index()].name == name);
        if exact.is_none() {
            let known = self.plan.nodes.iter().map(|node| node.name.as_str());
            let help = suggest(name, known, "nodes");
            let mut help = help;
            if help.starts_with("there are no") || !help.starts_with("did you mean") {
                help = format!("add `[node.{name}]`; {help}");
            }
            self.sink
                .report(Code::UnknownName, at, format!("there is no node `{name}`"))
                .help(help);
        }
        exact
    }

    /// The nodes that a text, a pattern or a list of them names, in the order of the plan
    /// for patterns and as written for lists.
    pub(super) fn node_group(&mut self, value: &Value) -> Vec<NodeId> {
        self.nodes_of(value, |kind| kind != Role::Switch)
    }

    /// As [`Self::node_group`], for programs: a pattern stands for hosts only, and is noted.
    pub(super) fn program_nodes(&mut self, value: &Value) -> Vec<NodeId> {
        let found = self.nodes_of(value, |kind| kind == Role::Host);
        for value in value.one_or_more() {
            let Some(text) = value.text().filter(|text| is_pattern(text)) else { continue };
            let fits = |node: &&Node| node.kind == Role::Host && matches(text, &node.name);
            let hosts = self.plan.nodes.iter().filter(fits).count();
            let position = self.place(&value.at);
            self.places.patterns.push(PatternMatch { pattern: text.to_owned(), hosts, position });
        }
        found
    }

    fn nodes_of(&mut self, value: &Value, stands_for: impl Fn(Role) -> bool) -> Vec<NodeId> {
        let mut found = Vec::new();
        for value in value.one_or_more() {
            let Some(text) = value.text() else { continue };
            if !is_pattern(text) {
                found.extend(self.node(text, &value.at));
                continue;
            }
            let before = found.len();
            let fits = |node: &&Node| stands_for(node.kind) && matches(text, &node.name);
            let ids = self.plan.nodes.iter().enumerate().filter(|(_, node)| fits(node));
            found.extend(ids.map(|(index, _)| NodeId::at(index)));
            if found.len() == before {
                let known = self.plan.nodes.iter().map(|node| node.name.as_str());
                self.sink
                    .report(Code::UnknownName, &value.at, format!("no node fits `{text}`"))
                    .help(suggest(text, known, "nodes"));
            }
        }
        found
    }

    /// Refuses a switch where a namespace is needed.
    pub(super) fn no_switch(&mut self, node: NodeId, at: &At, what: &str) -> bool {
        let entry = &self.plan.nodes[node.index()];
        let fine = entry.kind != Role::Switch;
        if !fine {
            self.sink
                .report(Code::Restricted, at, format!("`{}` is a switch and {what}", entry.name))
                .help("put a host on the switch, or make it a router");
        }
        fine
    }

    /// A router needs a namespace where something runs on it.
    pub(super) fn decide_namespaces(&mut self) {
        let routed = self.plan.routing != Routing::None;
        for node in &mut self.plan.nodes {
            node.fabric = match node.kind {
                Role::Router | Role::SendBox | Role::ReceiveBox if routed => NodeKind::Router,
                Role::Host | Role::Router | Role::SendBox | Role::ReceiveBox => NodeKind::Edge,
                Role::Switch => NodeKind::Switch,
            };
        }
        let programs = self.plan.programs.iter().map(|program| program.node);
        let flows = self.plan.flows.iter().flat_map(|flow| [flow.from, flow.to]);
        let mirrors = self.plan.mirrors.iter().filter_map(|mirror| match mirror.to {
            crate::plan::MirrorTarget::Node(node) => Some(node),
            crate::plan::MirrorTarget::File => None,
        });
        let busy: Vec<NodeId> = programs.chain(flows).chain(mirrors).collect();
        for node in busy {
            let node = &mut self.plan.nodes[node.index()];
            if node.kind == Role::Router {
                node.fabric = NodeKind::Edge;
            }
        }
    }
}
