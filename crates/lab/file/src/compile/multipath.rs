//! `transport = "mctcp"` and `"mptcp"`: selection of a flow's paths.
//!
//! A path starts at one of the sender's links and ends at the nearest of the receiver's interfaces
//! that no earlier path uses or, if all are used, at the nearest.

use base::{IfaceId, LinkId, NodeId};

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::{FLOW, Field};
use crate::plan::{Multipath, MultipathKind, Path, Plan, Role, Routing, Tcp, Traffic};
use crate::routes::Routes;
use crate::tree::{At, Table, Value};

/// Maximum subflows of a session (`mctcp::Settings`), and maximum paths of a flow.
const MAX_PATHS: usize = 8;

const KEYS: [&Field; 4] = keys!(FLOW: via, backup, scheduler, subflows);

/// The multipath protocol of a flow's `transport`, if it is one.
pub(super) fn protocol(table: &Table) -> Option<MultipathKind> {
    match table.read(FLOW.transport) {
        "mctcp" => Some(MultipathKind::Mctcp),
        "mptcp" => Some(MultipathKind::Mptcp),
        _ => None,
    }
}

impl Compiler<'_> {
    /// Rejects multipath keys with a single-path transport, and keys without
    /// meaning for several paths.
    pub(super) fn check_multipath_keys(&mut self, table: &Table, requests: bool, at: &At) {
        let Some(kind) = protocol(table) else {
            for entry in KEYS.iter().filter_map(|key| table.entry(key)) {
                let message = format!("`{}` is for flows over several paths", entry.key);
                self.sink
                    .report(Code::Conflict, &entry.key_at, message)
                    .help("set `transport = \"mctcp\"` or `\"mptcp\"`, or remove it");
            }
            return;
        };
        if requests {
            let message = format!("requests with `arrivals` do not go over {kind}");
            self.sink
                .report(Code::Conflict, at, message)
                .help("bulk flows, transfers and requests one after the other do");
        }
        for Field { key, .. } in keys!(FLOW: streams, message) {
            let Some(entry) = table.entry(*key) else { continue };
            let message = format!("`{key}` has no effect on {kind}");
            self.sink
                .report(Code::Conflict, &entry.key_at, message)
                .help("`subflows` sets the number of simultaneous connections");
        }
        if let (MultipathKind::Mptcp, Some(entry)) = (kind, table.entry(FLOW.scheduler)) {
            self.sink
                .report(Code::Conflict, &entry.key_at, "the kernel's MPTCP has one scheduler")
                .help("remove it; MCTCP has several");
        }
    }

    /// Selects the paths of the flow between `ends`; returns whether there are any.
    pub(super) fn give_paths(
        &mut self,
        table: &Table,
        ends: (NodeId, NodeId),
        traffic: &mut Traffic,
        at: &At,
    ) -> bool {
        let Some(kind) = protocol(table) else { return true };
        let Some(paths) = self.paths(table, ends, at) else { return false };
        let subflows = table.read(FLOW.subflows).unwrap_or(paths.len() as u8);
        if kind == MultipathKind::Mptcp
            && usize::from(subflows) > paths.len()
            && let Some(entry) = table.entry(FLOW.subflows)
        {
            let message = format!("{} paths cannot have {subflows} subflows", paths.len());
            self.sink
                .report(Code::OutOfRange, &entry.value.at, message)
                .help("the kernel's MPTCP opens one on each path; MCTCP opens more");
            return false;
        }
        let scheduler = table.read(FLOW.scheduler);
        if let Some(tcp) = tcp_of(traffic) {
            tcp.multipath = Some(Multipath { kind, paths, scheduler, subflows });
        }
        true
    }

    fn paths(&mut self, table: &Table, ends: (NodeId, NodeId), at: &At) -> Option<Vec<Path>> {
        let (from, to) = ends;
        let sender = &self.plan.nodes[from.index()];
        if sender.kind != Role::Host {
            let message = format!("`{}` is not a host", sender.name);
            self.sink
                .report(Code::Restricted, at, message)
                .help("a router sends by its routes, so its flows cannot choose paths");
            return None;
        }
        let chosen = match table.get(FLOW.via) {
            Some(value) => Some(self.own_links(from, value)?),
            None => None,
        };
        let backup = self.own_links(from, &table.read(FLOW.backup))?;
        let routes = Routes::compute(&self.plan, &vec![true; self.plan.links.len()]);
        let mut paths: Vec<Path> = Vec::new();
        let links = match &chosen {
            Some(links) => links.clone(),
            None => self.links_of(from).map(|link| (link, at.clone())).collect(),
        };
        for (link, named) in &links {
            match nearest(&self.plan, &routes, (from, *link), to, &paths) {
                Some((from, to)) => {
                    let backup = backup.iter().any(|(other, _)| other == link);
                    paths.push(Path { from, to, backup });
                }
                None if chosen.is_some() => {
                    let (name, to) = (&self.plan.links[link.index()].name, to.index());
                    let message = format!("`{name}` has no path to `{}`", self.plan.nodes[to].name);
                    self.sink
                        .report(Code::Unreachable, named, message)
                        .help("remove it, or link its other end to the receiver");
                    return None;
                }
                None => {}
            }
        }
        self.are_usable(&paths, &backup, table, at).then_some(paths)
    }

    fn are_usable(
        &mut self,
        paths: &[Path],
        backup: &[(LinkId, At)],
        table: &Table,
        at: &At,
    ) -> bool {
        let used = |link: &LinkId| paths.iter().any(|path| self.plan.path_link(path) == *link);
        if paths.is_empty() {
            // The general check of flows reports a missing path.
            return false;
        }
        if let Some((link, at)) = backup.iter().find(|(link, _)| !used(link)) {
            let name = &self.plan.links[link.index()].name;
            let message = format!("`{name}` is not one of the flow's paths");
            self.sink
                .report(Code::Conflict, at, message)
                .help("`backup` can only name paths that are also in `via`");
            return false;
        }
        if paths.iter().all(|path| path.backup) {
            let at = table.entry(FLOW.backup).map_or(at, |entry| &entry.value.at);
            self.sink
                .report(Code::Conflict, at, "all paths are in `backup`")
                .help("remove one from `backup`");
            return false;
        }
        if paths.len() > MAX_PATHS {
            let at = table.entry(FLOW.via).map_or(at, |entry| &entry.value.at);
            self.sink
                .report(Code::Limit, at, format!("{} paths for one flow", paths.len()))
                .help(format!("name at most {MAX_PATHS} links in `via`"));
            return false;
        }
        true
    }

    /// The links of `node` in a list, each once.
    fn own_links(&mut self, node: NodeId, value: &Value) -> Option<Vec<(LinkId, At)>> {
        let values: Vec<&Value> = match value.list() {
            Some(list) => list.iter().collect(),
            None => vec![value],
        };
        let mut links: Vec<(LinkId, At)> = Vec::new();
        for value in values {
            let link = self.link(value)?;
            if !self.links_of(node).any(|own| own == link) {
                let name = |link: LinkId| self.plan.links[link.index()].name.as_str();
                let owner = &self.plan.nodes[node.index()].name;
                let message = format!("`{}` is not a link of `{owner}`", name(link));
                let help = suggest(name(link), self.links_of(node).map(name), "links");
                self.sink.report(Code::Conflict, &value.at, message).help(help);
                return None;
            }
            if let Some((_, first)) = links.iter().find(|(known, _)| *known == link) {
                let name = &self.plan.links[link.index()].name;
                let message = format!("`{name}` is named twice");
                self.sink
                    .report(Code::Duplicate, &value.at, message)
                    .also(first, "the first")
                    .help("`subflows` puts several connections on the same path");
                return None;
            }
            links.push((link, value.at.clone()));
        }
        Some(links)
    }

    fn links_of(&self, node: NodeId) -> impl Iterator<Item = LinkId> {
        let ifaces = self.plan.nodes[node.index()].ifaces.iter();
        ifaces.map(|iface| self.plan.ifaces[iface.index()].link)
    }
}

fn tcp_of(traffic: &mut Traffic) -> Option<&mut Tcp> {
    match traffic {
        Traffic::Bulk { tcp, .. }
        | Traffic::Transfers { tcp, .. }
        | Traffic::Rpc { tcp, .. }
        | Traffic::Requests { tcp, .. } => Some(tcp),
        Traffic::Paced { .. } | Traffic::Controlled { .. } | Traffic::Queries { .. } => None,
    }
}

/// The sender's interface at its `link`, and the receiver's interface where a path over it ends.
fn nearest(
    plan: &Plan,
    routes: &Routes,
    (from, link): (NodeId, LinkId),
    to: NodeId,
    taken: &[Path],
) -> Option<(IfaceId, IfaceId)> {
    let ends = plan.links[link.index()].ends;
    let side = usize::from(ends[1] == from);
    let (own, other) = (iface(link, side), iface(link, 1 - side));
    let peer = ends[1 - side];
    if peer == to {
        return Some((own, other));
    }
    let far = plan.nodes[to.index()].ifaces.iter().filter_map(|dest| {
        let cost = cost(plan, routes, peer, *dest)?;
        let used = taken.iter().any(|path| path.to == *dest);
        Some(((used, cost, *dest), *dest))
    });
    far.min().map(|(_, dest)| (own, dest))
}

/// Distance of `dest` from `peer`, a sender's neighbour; `None`: unreachable.
fn cost(plan: &Plan, routes: &Routes, peer: NodeId, dest: IfaceId) -> Option<(u64, usize)> {
    if plan.nodes[peer.index()].kind == Role::Host {
        return None;
    }
    if plan.routing == Routing::None {
        // The routes of programs are unknown: use the order of interfaces.
        return Some((0, 0));
    }
    let path = routes.path(peer, dest, |_, ways| ways[0])?;
    let delay = routes.path_delay(peer, dest)?;
    Some((delay.as_nanos(), path.len()))
}

/// The interface at one end of a link.
fn iface(link: LinkId, side: usize) -> IfaceId {
    IfaceId::at(link.index() * 2 + side)
}
