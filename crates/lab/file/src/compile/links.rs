//! Links, and references to them.

use base::{Direction, IfaceId, LinkId, NodeId};
use fabric::LinkConfig;

use super::Compiler;
use super::names::fit_for_a_label;
use super::properties::{of_direction, plain_link};
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::{LINK, NODE};
use crate::plan::{Iface, Link, Metric, Role, Routing};
use crate::tree::{At, Table, Value};

const MAX_LINKS: usize = 2_000_000;

/// Parameters of a link besides its name and properties.
pub(super) struct Draft {
    pub(super) ends: [NodeId; 2],
    pub(super) directions: [LinkConfig; 2],
    pub(super) metric: u32,
    pub(super) up: bool,
}

impl<'a> Compiler<'a> {
    pub(super) fn read_links(&mut self) {
        for (at, table) in self.entries("link") {
            let ends = self.ends(table);
            let directions = self.both_directions(table, &plain_link());
            let Some(ends) = ends else { continue };
            let metric = self.metric(table).unwrap_or_else(|| LINK.metric.default());
            let up = table.read(LINK.state) != "down";
            let draft = Draft { ends, directions, metric, up };
            let name = table.get(LINK.name).and_then(|value| Some((value.text()?, &value.at)));
            if let Some(link) = self.add_link(name, draft, &at) {
                self.fixed_addresses(link, table);
            }
        }
        self.node_addresses();
    }

    /// `metric`, with a warning if the routing does not use it.
    pub(super) fn metric(&mut self, table: &Table) -> Option<u32> {
        let value = table.get(LINK.metric)?;
        if self.plan.routing != Routing::Shortest(Metric::Metric) {
            self.sink
                .report(Code::NoEffect, &value.at, "`metric` has no effect with this routing")
                .help("set `routing = \"metric\"` in `[lab]`");
        }
        table.given(LINK.metric)
    }

    /// Both directions' properties, starting from `base`.
    pub(super) fn both_directions(&mut self, table: &Table, base: &LinkConfig) -> [LinkConfig; 2] {
        Direction::BOTH.map(|direction| {
            let mut config = base.clone();
            config.mtu = table.given(LINK.mtu).unwrap_or(base.mtu);
            let queue = self.properties(&mut config, &of_direction(table, direction));
            config.queue = self.queue(queue, &config);
            config
        })
    }

    fn ends(&mut self, table: &Table) -> Option<[NodeId; 2]> {
        let value = table.get(LINK.ends)?;
        let texts: Vec<(&str, &At)> =
            value.list()?.iter().filter_map(|end| Some((end.text()?, &end.at))).collect();
        let ends: Vec<Option<NodeId>> =
            texts.iter().map(|(name, at)| self.node(name, at)).collect();
        match ends.as_slice() {
            [Some(a), Some(b)] if a == b => {
                self.sink
                    .report(Code::BadEnds, &value.at, "a link cannot join a node to itself")
                    .help("name two different nodes");
                None
            }
            [a, b] => Some([(*a)?, (*b)?]),
            _ => {
                self.sink
                    .report(Code::BadEnds, &value.at, format!("this link has {} ends", ends.len()))
                    .help(
                        "`ends` names two nodes; to join more, link each to a node of \
                         `kind = \"switch\"`",
                    );
                None
            }
        }
    }

    /// Adds a link and its two interfaces.
    pub(super) fn add_link(
        &mut self,
        name: Option<(&str, &At)>,
        draft: Draft,
        at: &At,
    ) -> Option<LinkId> {
        if !self.room(self.plan.links.len(), MAX_LINKS, "links", at) {
            return None;
        }
        let [a, b] = draft.ends.map(|node| self.plan.nodes[node.index()].name.clone());
        let name = match name {
            Some((name, at)) => self.label(name, at, "link").unwrap_or_default(),
            None => String::new(),
        };
        let taken = self.links.get(&name).copied();
        let id = LinkId::at(self.plan.links.len());
        let name = match taken {
            _ if name.is_empty() => self
                .places
                .link_names
                .next(&format!("{a}-{b}"), |name| self.links.contains_key(name)),
            Some(other) => {
                let first = self.places.links[other.index()].clone();
                self.sink
                    .report(Code::Duplicate, at, format!("there is a link `{name}` already"))
                    .also(&first, "the first")
                    .help("rename one of them; without `name` a link is called after its ends");
                self.places.link_names.next(&name, |name| self.links.contains_key(name))
            }
            None => name,
        };
        self.links.insert(name.clone(), id);
        self.places.links.push(at.clone());
        for (node, sends) in draft.ends.into_iter().zip(Direction::BOTH) {
            let ifaces = &mut self.plan.nodes[node.index()].ifaces;
            self.plan.ifaces.push(Iface {
                node,
                link: id,
                sends,
                name: format!("eth{}", ifaces.len()),
                v4: None,
                v6: None,
            });
            ifaces.push(IfaceId::at(self.plan.ifaces.len() - 1));
        }
        self.plan.links.push(Link {
            name,
            ends: draft.ends,
            directions: draft.directions,
            metric: draft.metric,
            up: draft.up,
        });
        Some(id)
    }

    /// A valid name, or a diagnostic.
    pub(super) fn label(&mut self, name: &str, at: &At, kind: &str) -> Option<String> {
        if fit_for_a_label(name) {
            return Some(name.to_owned());
        }
        self.sink
            .report(Code::BadName, at, format!("`{name}` is not a valid name for a {kind}"))
            .help(
                "letters, digits, `-`, `_` and `.`, at most 240, beginning with a letter or digit",
            );
        None
    }

    /// The link that a name or a pair of ends refers to.
    pub(super) fn link(&mut self, value: &Value) -> Option<LinkId> {
        if let Some(name) = value.text() {
            let id = self.links.get(name).copied();
            if id.is_none() {
                let known = self.plan.links.iter().map(|link| link.name.as_str());
                let help = suggest(name, known, "links");
                self.sink
                    .report(Code::UnknownName, &value.at, format!("unknown link `{name}`"))
                    .help(help);
            }
            return id;
        }
        let texts: Vec<_> = value.list()?.iter().filter_map(|v| Some((v.text()?, &v.at))).collect();
        let &[(a, a_at), (b, b_at)] = texts.as_slice() else {
            self.sink.report(
                Code::BadEnds,
                &value.at,
                "a link is named by its name or its two ends",
            );
            return None;
        };
        let (a_id, b_id) = (self.node(a, a_at), self.node(b, b_at));
        let (a_id, b_id) = (a_id?, b_id?);
        let ifaces = [a_id, b_id].map(|node| &self.plan.nodes[node.index()].ifaces);
        let fewer = ifaces.into_iter().min_by_key(|ifaces| ifaces.len()).into_iter().flatten();
        let links = fewer.map(|iface| self.plan.ifaces[iface.index()].link);
        let joins = |link: &LinkId| {
            let ends = self.plan.links[link.index()].ends;
            ends == [a_id, b_id] || ends == [b_id, a_id]
        };
        let found: Vec<LinkId> = links.filter(joins).collect();
        match found.as_slice() {
            [one] => Some(*one),
            [] => {
                self.sink
                    .report(Code::UnknownName, &value.at, format!("no link joins `{a}` and `{b}`"))
                    .help("links that meet in another node are several links");
                None
            }
            many => {
                let names: Vec<String> = many
                    .iter()
                    .map(|link| format!("`{}`", self.plan.links[link.index()].name))
                    .collect();
                let message = format!("{} links join `{a}` and `{b}`", many.len());
                self.sink
                    .report(Code::AmbiguousLink, &value.at, message)
                    .help(format!("use one of their names: {}", names.join(", ")));
                None
            }
        }
    }

    /// Reads `addresses = { end = … }`.
    fn fixed_addresses(&mut self, link: LinkId, table: &'a Table) {
        let Some(addresses) = table.read(LINK.addresses) else { return };
        let ends = self.plan.links[link.index()].ends;
        for entry in &addresses.entries {
            let Some(node) = self.node(&entry.key, &entry.key_at) else { continue };
            let Some(side) = ends.iter().position(|end| *end == node) else {
                let message = format!("`{}` is not an end of this link", entry.key);
                let known = ends.map(|end| self.plan.nodes[end.index()].name.as_str());
                let help = suggest(&entry.key, known, "ends");
                self.sink.report(Code::BadAddress, &entry.key_at, message).help(help);
                continue;
            };
            if self.no_switch(node, &entry.key_at, "has no address") {
                self.fix(IfaceId::at(2 * link.index() + side), &entry.value);
            }
        }
    }

    /// Reads `address` of nodes with one interface.
    fn node_addresses(&mut self) {
        let Some(nodes) = self.input.root.table("node") else { return };
        for entry in &nodes.entries {
            let Some(value) = entry.value.table().and_then(|table| table.get(NODE.address)) else {
                continue;
            };
            let Some(&node) = self.nodes.get(&entry.key.to_ascii_lowercase()) else { continue };
            if !self.no_switch(node, &value.at, "has no address") {
                continue;
            }
            match self.plan.nodes[node.index()].ifaces[..] {
                [only] => self.fix(only, value),
                ref ifaces => {
                    let message =
                        format!("`{}` has {} interfaces, not one", entry.key, ifaces.len());
                    self.sink
                        .report(Code::BadAddress, &value.at, message)
                        .help(format!("set `addresses = {{ {} = … }}` at its links", entry.key));
                }
            }
        }
    }

    fn fix(&mut self, iface: IfaceId, value: &'a Value) {
        let texts =
            value.one_or_more().iter().filter_map(|value| Some((value.text()?, value.at.clone())));
        self.places.addresses.entry(iface).or_default().extend(texts);
    }

    /// Whether a node forwards.
    pub(super) fn is_transit(&self, node: NodeId) -> bool {
        self.plan.nodes[node.index()].kind != Role::Host
    }
}
