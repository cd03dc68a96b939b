//! Mirrors, captures and TCP events.

use std::collections::BTreeSet;

use base::{FlowId, IfaceId};

use super::Compiler;
use super::filter::{self, FilterError};
use super::names::{FreeNames, is_pattern, matches};
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::{LAB, MIRROR};
use crate::plan::{Filter, Mirror, MirrorTarget, Role};
use crate::tree::{At, Data, Table, Value};

const MAX_MIRRORS: usize = 64;
const MAX_CAPTURES: usize = 4096;

impl Compiler<'_> {
    pub(super) fn read_mirrors(&mut self) {
        for (at, table) in self.entries("mirror") {
            let link = table.get(MIRROR.link).and_then(|value| self.link(value));
            let filter =
                table.get(MIRROR.filter).map_or(Some(Filter::default()), |v| self.filter(v));
            let to = match table.get(MIRROR.to) {
                None => Some(MirrorTarget::File),
                Some(value) => self.mirror_target(value),
            };
            let (Some(link), Some(filter), Some(to)) = (link, filter, to) else { continue };
            if !self.room(self.plan.mirrors.len(), MAX_MIRRORS, "mirrors", &at) {
                continue;
            }
            let link_name = self.plan.links[link.index()].name.clone();
            let name = self.mirror_name(table, &link_name, &at);
            let directions = match table.read(MIRROR.direction) {
                "up" => [true, false],
                "down" => [false, true],
                _ => [true, true],
            };
            self.plan.mirrors.push(Mirror { name, link, directions, filter, to });
        }
    }

    fn mirror_target(&mut self, value: &Value) -> Option<MirrorTarget> {
        let node = self.node(value.text()?, &value.at)?;
        if !self.no_switch(node, &value.at, "takes no copies") {
            return None;
        }
        let node_entry = &self.plan.nodes[node.index()];
        if node_entry.ifaces.is_empty() {
            let message = format!("`{}` has no interface for the copies", node_entry.name);
            self.sink
                .report(Code::Restricted, &value.at, message)
                .help("give it a link: the copies arrive at its first interface");
            return None;
        }
        Some(MirrorTarget::Node(node))
    }

    fn mirror_name(&mut self, table: &Table, link: &str, at: &At) -> String {
        let taken = |name: &str| self.plan.mirrors.iter().any(|mirror| mirror.name == name);
        let unnamed = || FreeNames::default().next(&format!("{link}.mirror"), taken);
        let Some((value, name)) = table.get(MIRROR.name).and_then(|v| Some((v, v.text()?))) else {
            return unnamed();
        };
        if taken(name) {
            self.sink.report(Code::Duplicate, at, format!("there is a mirror `{name}` already"));
        }
        self.label(name, &value.at, "mirror").unwrap_or_else(|| name.to_owned())
    }

    fn filter(&mut self, value: &Value) -> Option<Filter> {
        let text = value.text()?;
        let error = match filter::parse(text, &|name| self.plan.node(name)) {
            Ok(filter) => return Some(filter),
            Err(error) => error,
        };
        let message = match &error {
            FilterError::Word(word) => format!("unexpected `{word}` in the filter"),
            FilterError::End => "the filter ends too soon".to_owned(),
            FilterError::Node(name) => format!("unknown node `{name}`"),
            FilterError::Twice(word) => format!("`{word}` contradicts a word before it"),
        };
        let help = match &error {
            FilterError::Node(name) => {
                suggest(name, self.plan.nodes.iter().map(|node| node.name.as_str()), "nodes")
            }
            _ => Code::BadFilter.explanation().to_owned(),
        };
        self.sink.report(Code::BadFilter, &value.at, message).help(help);
        None
    }

    pub(super) fn read_captures(&mut self) {
        let value = self.lab().read(LAB.capture);
        let mut captures: Vec<IfaceId> = Vec::new();
        match &value.data {
            Data::Flag(true) => {
                let hosts = self.plan.nodes.iter().filter(|node| node.kind == Role::Host);
                captures.extend(hosts.flat_map(|node| node.ifaces.iter().copied()));
            }
            Data::List(list) => {
                for item in list {
                    captures.extend(self.capture(item));
                }
            }
            _ => {}
        }
        captures.sort_unstable();
        captures.dedup();
        if captures.len() > MAX_CAPTURES {
            let message = format!("{} interfaces to capture", captures.len());
            self.sink
                .report(Code::Limit, &value.at, message)
                .help(format!("at most {MAX_CAPTURES}"));
        }
        self.plan.captures = captures;
    }

    pub(super) fn read_tcp_events(&mut self) {
        let value = self.lab().read(LAB.tcp_events);
        let flows = self.plan.flows.iter().enumerate();
        let over_tcp = flows.filter(|(_, flow)| flow.traffic.is_over_tcp());
        let flows: Vec<(FlowId, &str)> =
            over_tcp.map(|(at, flow)| (FlowId::at(at), flow.name.as_str())).collect();
        let mut found = BTreeSet::new();
        match &value.data {
            Data::Flag(true) => found.extend(flows.iter().map(|(flow, _)| *flow)),
            Data::List(list) => {
                for (item, wanted) in list.iter().filter_map(|item| Some((item, item.text()?))) {
                    let named = flows.iter().filter(|(_, name)| matches(wanted, name));
                    let named: Vec<FlowId> = named.map(|(flow, _)| *flow).collect();
                    if named.is_empty() {
                        let message = format!("no flow over TCP is named `{wanted}`");
                        let help = suggest(wanted, flows.iter().map(|(_, name)| *name), "flows");
                        self.sink.report(Code::UnknownName, &item.at, message).help(help);
                    }
                    found.extend(named);
                }
            }
            _ => {}
        }
        self.plan.tcp_events = found.into_iter().collect();
    }

    /// The interfaces of `alice`, `h*` or `r1.eth0`.
    fn capture(&mut self, value: &Value) -> Vec<IfaceId> {
        let Some(text) = value.text() else { return Vec::new() };
        let Some((node, name)) = text.split_once('.').filter(|_| !is_pattern(text)) else {
            let nodes = self.node_group(value);
            return nodes
                .into_iter()
                .flat_map(|node| self.plan.nodes[node.index()].ifaces.clone())
                .collect();
        };
        let Some(id) = self.node(node, &value.at) else { return Vec::new() };
        let ifaces = self.plan.nodes[id.index()].ifaces.clone();
        let found = ifaces.iter().find(|iface| self.plan.ifaces[iface.index()].name == name);
        if found.is_none() {
            let known = ifaces.iter().map(|iface| self.plan.ifaces[iface.index()].name.as_str());
            let help = suggest(name, known, "interfaces");
            self.sink
                .report(Code::UnknownName, &value.at, format!("`{node}` has no `{name}`"))
                .help(help);
        }
        found.copied().into_iter().collect()
    }
}
