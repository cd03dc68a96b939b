//! `transport = "mctcp"` and `"mptcp"`: which paths a flow has.
//!
//! A path leaves by one of the sender's links and arrives at the nearest of the receiver's
//! interfaces that no earlier path has taken, or, where all are taken, at the nearest.

use base::{IfaceId, LinkId, NodeId};

use super::Compiler;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::plan::{Multipath, MultipathKind, Path, Plan, Role, Routing, Tcp, Traffic};
use crate::routes::Routes;
use crate::tree::{At, Table, Value};

/// Subflows of a session at most (`mctcp::Settings`), and paths of a flow.
const MOST: usize = 8;

const KEYS: [&str; 4] = ["via", "backup", "scheduler", "subflows"];

/// The protocol that a flow's `transport` asks for, if it is one with several paths.
pub(super) fn protocol(table: &Table) -> Option<MultipathKind> {
    match table.text("transport") {
        Some("mctcp") => Some(MultipathKind::Mctcp),
        Some("mptcp") => Some(MultipathKind::Mptcp),
        _ => None,
    }
}

impl Compiler<'_> {
    /// Refuses what is there for several paths beside a transport that has one, and what has no
    /// meaning for several.
    pub(super) fn check_multipath_keys(&mut self, table: &Table, requests: bool, at: &At) {
        let Some(kind) = protocol(table) else {
            for entry in KEYS.iter().filter_map(|key| table.entry(key)) {
                let message = format!("`{}` is for flows over several paths", entry.key);
                self.sink
                    .report(Code::Conflict, &entry.key_at, message)
                    .help("say `transport = \"mctcp\"` or `\"mptcp\"`, or drop it");
            }
            return;
        };
        if requests {
            let message = format!("requests with `arrivals` do not go over {kind}");
            self.sink
                .report(Code::Conflict, at, message)
                .help("bulk flows, transfers and requests one after the other do");
        }
        for key in ["streams", "message"] {
            let Some(entry) = table.entry(key) else { continue };
            let message = format!("`{key}` has no effect on {kind}");
            self.sink
                .report(Code::Conflict, &entry.key_at, message)
                .help("`subflows` says how many connections there are at once");
        }
        if let (MultipathKind::Mptcp, Some(entry)) = (kind, table.entry("scheduler")) {
            self.sink
                .report(Code::Conflict, &entry.key_at, "the kernel's MPTCP has one scheduler")
                .help("drop it; MCTCP has several");
        }
    }

    /// Gives the flow between `ends` its paths; whether it has any.
    pub(super) fn give_paths(
        &mut self,
        table: &Table,
        ends: (NodeId, NodeId),
        traffic: &mut Traffic,
        at: &At,
    ) -> bool {
        let Some(kind) = protocol(table) else { return true };
        let Some(paths) = self.paths(table, ends, at) else { return false };
        let given = table.whole("subflows").and_then(|n| u8::try_from(n).ok());
        let subflows = given.unwrap_or(paths.len() as u8);
        if kind == MultipathKind::Mptcp
            && usize::from(subflows) > paths.len()
            && let Some(entry) = table.entry("subflows")
        {
            let message = format!("{} paths have no {subflows} subflows", paths.len());
            self.sink
                .report(Code::OutOfRange, &entry.value.at, message)
                .help("the kernel's MPTCP opens one on each path; MCTCP opens more");
            return false;
        }
        let scheduler = table.text("scheduler").and_then(|name| name.parse().ok());
        let scheduler = scheduler.unwrap_or_default();
        if let Some(tcp) = tcp_of(traffic) {
            tcp.multipath = Some(Multipath { kind, paths, scheduler, subflows });
        }
        true
    }

    fn paths(&mut self, table: &Table, ends: (NodeId, NodeId), at: &At) -> Option<Vec<Path>> {
        let (from, to) = ends;
        let sender = &self.plan.nodes[from.index()];
        if sender.kind != Role::Host {
            let message = format!("`{}` is no host", sender.name);
            self.sink
                .report(Code::Restricted, at, message)
                .help("what a router sends follows its routes, so it cannot choose its paths");
            return None;
        }
        let chosen = match table.get("via") {
            Some(value) => Some(self.own_links(from, value)?),
            None => None,
        };
        let backup = match table.get("backup") {
            Some(value) => self.own_links(from, value)?,
            None => Vec::new(),
        };
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
                    let message =
                        format!("`{name}` does not lead to `{}`", self.plan.nodes[to].name);
                    self.sink
                        .report(Code::Unreachable, named, message)
                        .help("drop it, or join its other end with the receiver");
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
            // That nothing leads there is said of all flows alike.
            return false;
        }
        if let Some((link, at)) = backup.iter().find(|(link, _)| !used(link)) {
            let name = &self.plan.links[link.index()].name;
            let message = format!("`{name}` is none of the flow's paths");
            self.sink
                .report(Code::Conflict, at, message)
                .help("`via` names all paths, `backup` those of them that stand by");
            return false;
        }
        if paths.iter().all(|path| path.backup) {
            let at = table.entry("backup").map_or(at, |entry| &entry.value.at);
            self.sink
                .report(Code::Conflict, at, "all paths would stand by")
                .help("leave one out of `backup`");
            return false;
        }
        if paths.len() > MOST {
            let at = table.entry("via").map_or(at, |entry| &entry.value.at);
            self.sink
                .report(Code::Limit, at, format!("{} paths for one flow", paths.len()))
                .help(format!("name at most {MOST} links in `via`"));
            return false;
        }
        true
    }

    /// The links of `node` that a list names, each once.
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
                let message = format!("`{}` is no link of `{owner}`", name(link));
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

/// The sender's interface at its `link`, and the receiver's where a path over it ends.
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

/// How far `dest` is from `peer`, a sender's neighbour; `None`: nothing gets there.
fn cost(plan: &Plan, routes: &Routes, peer: NodeId, dest: IfaceId) -> Option<(u64, usize)> {
    if plan.nodes[peer.index()].kind == Role::Host {
        return None;
    }
    if plan.routing == Routing::None {
        // What programs will find is not known: in order.
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
