//! Nodes, and references to them.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use base::NodeId;
use fabric::NodeKind;

use super::Compiler;
use super::names::{fit_for_a_host, is_pattern, matches};
use crate::code::Code;
use crate::diagnostic::{Sink, suggest};
use crate::fields::{Field, LAB, NODE, Words};
use crate::load::PatternMatch;
use crate::plan::{FileScope, Node, PrivateFiles, Role, Routing, Uplink, User};
use crate::tree::{At, Table, Value};

const MAX_NODES: usize = 2_000_000;

/// Maximum number of named nodes in a remark on a pattern.
const MAX_SKIPPED: usize = 3;

fn node_and_kind(node: &Node) -> String {
    format!("{} ({})", node.name, node.kind.word())
}

impl Compiler<'_> {
    pub(super) fn read_nodes(&mut self) {
        let Some(nodes) = self.input.root.table("node") else { return };
        for entry in &nodes.entries {
            let table = entry.value.table().unwrap_or(Table::EMPTY);
            let node = self.add_node(&entry.key, table.read(NODE.kind), &entry.key_at);
            if let Some(node) = node {
                self.read_environment(node, table);
            }
        }
    }

    /// The user and the files of a node's programs.
    fn read_environment(&mut self, id: NodeId, table: &Table) {
        for Field { key, .. } in keys!(NODE: user, files, private) {
            let Some(value) = table.get(*key) else { continue };
            if self.plan.nodes[id.index()].kind.is_box() {
                let name = &self.plan.nodes[id.index()].name;
                let message = format!("`{name}` is a box of a bundle and runs no programs");
                self.sink.report(Code::Restricted, &value.at, message);
                return;
            }
            if !self.no_switch(id, &value.at, "runs no programs") {
                return;
            }
        }
        let user = table.get(NODE.user).and_then(|value| self.user(value));
        let files = self.private_files(table);
        let node = &mut self.plan.nodes[id.index()];
        (node.user, node.files) = (user.map(Box::new), files.map(Box::new));
    }

    fn private_files(&mut self, table: &Table) -> Option<PrivateFiles> {
        let size = table.read(NODE.private_size);
        let listed = table.read(NODE.private);
        let listed: Vec<&Value> = listed.one_or_more().iter().collect();
        let is_all = table.read(NODE.files) == FileScope::Private;
        if is_all && let Some(value) = table.get(NODE.private) {
            self.sink
                .report(Code::Conflict, &value.at, "`files = \"private\"` covers all folders")
                .help("remove `private` or `files`");
        }
        if is_all {
            return Some(PrivateFiles { folders: None, size });
        }
        if listed.is_empty() {
            if let Some(value) = table.get(NODE.private_size) {
                self.sink
                    .report(Code::NoEffect, &value.at, "the node has no private files")
                    .help("`files = \"private\"` or `private` give it some");
            }
            return None;
        }
        let mut folders: Vec<PathBuf> = Vec::with_capacity(listed.len());
        for value in listed {
            let path = PathBuf::from(value.text()?);
            if let Some(problem) = unfit_private_folder(&path, &folders) {
                self.sink
                    .report(Code::BadFolder, &value.at, format!("`{}` {problem}", path.display()))
                    .help(Code::BadFolder.explanation());
                continue;
            }
            folders.push(path);
        }
        Some(PrivateFiles { folders: Some(folders), size })
    }

    /// A user, who may be known to another machine only.
    pub(super) fn user(&mut self, value: &Value) -> Option<User> {
        let name = value.text()?;
        if name.is_empty() || name.contains([':', '\0', '\n']) {
            self.sink
                .report(Code::BadName, &value.at, format!("`{name}` is not a user's name"))
                .help("a name as in /etc/passwd, for example `postgres`");
            return None;
        }
        if !self.files.may_have_user(name) {
            self.sink
                .report(Code::Unchecked, &value.at, format!("/etc/passwd has no user `{name}`"))
                .help("`netarium run` fails if this machine does not know the user either");
        }
        Some(User { name: name.to_owned(), declared: self.place(&value.at) })
    }

    /// Adds a node unless its name is invalid or taken.
    pub(super) fn add_node(&mut self, name: &str, kind: Role, at: &At) -> Option<NodeId> {
        let id = self.add_unplaced_node(name, kind, at)?;
        self.plan.nodes[id.index()].declared = self.place(at);
        Some(id)
    }

    /// A node made by a network or session generator, which has no position in the file.
    pub(super) fn add_unplaced_node(&mut self, name: &str, kind: Role, at: &At) -> Option<NodeId> {
        if !self.room(self.plan.nodes.len(), MAX_NODES, "nodes", at) {
            return None;
        }
        if !fit_for_a_host(name) {
            self.sink
                .report(Code::BadName, at, format!("`{name}` is not a valid host name"))
                .help("letters, digits and hyphens, at most 63, and not digits only");
            self.rejected_nodes.insert(name.to_owned());
            return None;
        }
        let lower = name.to_ascii_lowercase();
        if let Some(other) = self.nodes.get(&lower) {
            let first = self.places.nodes[other.index()].clone();
            self.sink
                .report(Code::Duplicate, at, format!("there is a node `{name}` already"))
                .also(&first, "the first")
                .help("host names do not distinguish upper and lower case");
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
            user: None,
            files: None,
            declared: (0, 0),
        });
        Some(id)
    }

    pub(super) fn node(&mut self, name: &str, at: &At) -> Option<NodeId> {
        let id = self.nodes.get(&name.to_ascii_lowercase()).copied();
        let exact = id.filter(|id| self.plan.nodes[id.index()].name == name);
        if exact.is_none() && self.rejected_nodes.insert(name.to_owned()) {
            let known = self.plan.nodes.iter().map(|node| node.name.as_str());
            let help = suggest(name, known, "nodes");
            let mut help = help;
            if help.starts_with("there are no") || !help.starts_with("did you mean") {
                help = format!("add `[node.{name}]`; {help}");
            }
            self.sink.report(Code::UnknownName, at, format!("unknown node `{name}`")).help(help);
        }
        exact
    }

    /// The nodes that a text, a pattern or a list refers to: in the order of the plan for patterns,
    /// in the written order for lists.
    pub(super) fn node_group(&mut self, value: &Value) -> Vec<NodeId> {
        self.nodes_of(value, "host or router", |kind| kind != Role::Switch)
    }

    /// Like [`Self::node_group`], for programs: a pattern matches hosts only, and is recorded.
    pub(super) fn program_nodes(&mut self, value: &Value) -> Vec<NodeId> {
        let found = self.nodes_of(value, "host", |kind| kind == Role::Host);
        for value in value.one_or_more() {
            let Some(text) = value.text().filter(|text| is_pattern(text)) else { continue };
            let fits = |node: &&Node| matches(text, &node.name);
            let (hosts, others): (Vec<&Node>, Vec<&Node>) =
                self.plan.nodes.iter().filter(fits).partition(|node| node.kind == Role::Host);
            self.places.patterns.push(PatternMatch {
                pattern: text.to_owned(),
                hosts: hosts.len(),
                skipped: others.iter().take(MAX_SKIPPED).map(|node| node_and_kind(node)).collect(),
                skipped_count: others.len(),
                position: self.place(&value.at),
            });
        }
        found
    }

    /// The nodes of the kinds `stands_for`, which `kinds` names.
    fn nodes_of(
        &mut self,
        value: &Value,
        kinds: &str,
        stands_for: impl Fn(Role) -> bool,
    ) -> Vec<NodeId> {
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
                self.refuse_pattern(text, kinds, &value.at);
            }
        }
        found
    }

    /// Reports a pattern that matches no node of the right kind.
    fn refuse_pattern(&mut self, pattern: &str, kinds: &str, at: &At) {
        let mut others = self.plan.nodes.iter().filter(|node| matches(pattern, &node.name));
        let Some(other) = others.next() else {
            let known = self.plan.nodes.iter().map(|node| node.name.as_str());
            self.sink
                .report(Code::UnknownName, at, format!("no node fits `{pattern}`"))
                .help(suggest(pattern, known, "nodes"));
            return;
        };
        let kind = other.kind.word();
        let mut message = format!("`{pattern}` matches no {kinds}: `{}` is a {kind}", other.name);
        let more = others.count();
        if more > 0 {
            let _ = write!(message, " (and {more} more)");
        }
        let help = if other.kind == Role::Switch {
            "a switch has no addresses and runs nothing; put a host on the switch"
        } else {
            "a pattern stands for hosts; write the full names of routers"
        };
        self.sink.report(Code::Restricted, at, message).help(help);
    }

    /// Rejects a switch where a namespace is needed.
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

    /// The connection to the machine's network, and the router that has it.
    pub(super) fn read_uplink(&mut self) {
        let value = self.lab().read(LAB.uplink);
        let Some(name) = value.text() else {
            let to_hosts = value.flag() == Some(true);
            self.plan.uplink = if to_hosts { Uplink::Hosts } else { Uplink::None };
            return;
        };
        let Some(node) = self.node(name, &value.at) else { return };
        if self.plan.nodes[node.index()].kind == Role::Router {
            self.plan.uplink = Uplink::Router(node);
            return;
        }
        self.sink
            .report(Code::Restricted, &value.at, format!("`{name}` is not a router"))
            .help(format!("set `kind = \"router\"` in `[node.{name}]`, or use `uplink = true`"));
    }

    /// A router needs a namespace if programs run on it, or if it has the uplink.
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
        let uplink = match self.plan.uplink {
            Uplink::Router(node) => Some(node),
            Uplink::None | Uplink::Hosts => None,
        };
        let busy: Vec<NodeId> = programs.chain(flows).chain(mirrors).chain(uplink).collect();
        for node in busy {
            let node = &mut self.plan.nodes[node.index()];
            if node.kind == Role::Router {
                node.fabric = NodeKind::Edge;
            }
        }
    }
}

/// The folders of `[lab] writable`.
pub(super) fn writable_folders(lab: &Table, sink: &mut Sink) -> Vec<PathBuf> {
    let listed = lab.read(LAB.writable);
    let mut folders = Vec::new();
    for value in listed.one_or_more() {
        let Some(path) = value.text().map(PathBuf::from) else { continue };
        let problem = if path == Path::new("/") {
            Some("is all files: only programs with `privileged = true` may change them")
        } else {
            unfit_folder(&path)
        };
        if let Some(problem) = problem {
            sink.report(Code::BadFolder, &value.at, format!("`{}` {problem}", path.display()))
                .help(Code::BadFolder.explanation());
        } else {
            folders.push(path);
        }
    }
    folders
}

fn unfit_folder(path: &Path) -> Option<&'static str> {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || !path.components().all(is_plain) {
        return Some("is not an absolute path without `..`");
    }
    let is_kernel = ["/dev", "/proc", "/sys"].iter().any(|kernel| path.starts_with(kernel));
    is_kernel.then_some("is not a folder of files")
}

/// Why a folder cannot be private beside the others, if it cannot.
fn unfit_private_folder(path: &Path, others: &[PathBuf]) -> Option<&'static str> {
    if path == Path::new("/") {
        return Some("is all files: `files = \"private\"` makes them private");
    }
    if let Some(problem) = unfit_folder(path) {
        return Some(problem);
    }
    let overlap = |other: &PathBuf| path.starts_with(other) || other.starts_with(path);
    others.iter().any(overlap).then_some("is inside another private folder, or contains one")
}
