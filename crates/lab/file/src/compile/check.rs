//! Checks that need the whole plan.

use std::collections::VecDeque;

use base::{IfaceId, NodeId};

use super::Compiler;
use crate::code::Code;
use crate::plan::{Family, Role, Routing, Session, Traffic};
use crate::routes::Routes;

/// An explanation searches the whole network; further flows have a general help.
const MAX_EXPLAINED: usize = 100;

/// Routers of the largest network whose paths are examined.
const MAX_ROUTED: usize = 2_000;

/// Initial TTL and hop limit of packets, on both clocks.
const TTL: usize = 64;

const GENERAL_HELP: &str = "link them over routers or switches; hosts do not forward";

impl Compiler<'_> {
    pub(super) fn check(&mut self) {
        self.refuse_switches_without_routing();
        self.refuse_unreachable();
        self.warn_about_long_paths();
        self.warn_about_isolated();
        self.refuse_endless_nothing();
        self.check_model();
        self.check_control();
        self.check_bundles();
    }

    fn refuse_switches_without_routing(&mut self) {
        if self.plan.routing != Routing::None {
            return;
        }
        let switches = self.plan.nodes.iter().enumerate();
        let switch = switches.filter(|(_, node)| node.kind == Role::Switch).map(|(i, _)| i).next();
        if let Some(index) = switch {
            let name = self.plan.nodes[index].name.clone();
            let at = self.places.nodes[index].clone();
            let message = format!("`{name}` is a switch, and `routing` is \"none\"");
            self.sink
                .report(Code::Restricted, &at, message)
                .help("it would have no routes; link the routers directly");
        }
    }

    /// Parts of the network that forward to each other.
    fn islands(&self) -> Vec<usize> {
        let mut island: Vec<usize> = (0..self.plan.nodes.len()).collect();
        for link in &self.plan.links {
            if link.ends.iter().all(|end| self.is_transit(*end)) {
                let [a, b] = link.ends.map(|end| root(&mut island, end.index()));
                island[a] = b;
            }
        }
        (0..island.len()).map(|node| root(&mut island, node)).collect()
    }

    fn refuse_unreachable(&mut self) {
        let islands = self.islands();
        self.refuse_unreachable_sessions(&islands);
        let mut explained = 0_usize;
        for index in 0..self.plan.flows.len() {
            let flow = &self.plan.flows[index];
            let (from, to) = (flow.from, flow.to);
            let [a, b] = [from, to].map(|node| self.plan.nodes[node.index()].name.clone());
            let at = self.places.flows[index].clone();
            if !self.reaches(from, to, &islands) || !self.reaches(to, from, &islands) {
                explained += 1;
                let help = if explained > MAX_EXPLAINED {
                    GENERAL_HELP.to_owned()
                } else {
                    self.why_unreachable(from, to)
                };
                self.sink
                    .report(Code::Unreachable, &at, format!("no route from `{a}` to `{b}`"))
                    .help(help);
            } else if flow.family == Family::V6 {
                let lacks = |node: NodeId| {
                    let first = self.plan.nodes[node.index()].ifaces.first();
                    first.is_none_or(|iface| self.plan.ifaces[iface.index()].v6.is_none())
                };
                if lacks(from) || lacks(to) {
                    self.sink
                        .report(Code::Unreachable, &at, format!("no IPv6 from `{a}` to `{b}`"))
                        .help("IPv6 needs an `mtu` of at least 1280 B (RFC 8200 §5)");
                }
            }
        }
    }

    /// Warns of flows whose packets expire before they arrive (TTL). Examines only the first flows,
    /// and no networks whose routes take long to compute.
    fn warn_about_long_paths(&mut self) {
        let is_router = |node: NodeId| self.plan.nodes[node.index()].kind == Role::Router;
        let routers = self.plan.nodes.iter().filter(|node| node.kind == Role::Router).count();
        if self.plan.routing == Routing::None || !(TTL..=MAX_ROUTED).contains(&routers) {
            return;
        }
        let routes = Routes::compute(&self.plan, &vec![true; self.plan.links.len()]);
        for (flow, at) in self.plan.flows.iter().zip(&self.places.flows).take(MAX_EXPLAINED) {
            let ifaces = &self.plan.nodes[flow.to.index()].ifaces;
            let path = |iface: &IfaceId| routes.path(flow.from, *iface, |_, ways| ways[0]);
            let Some(path) = ifaces.iter().find_map(path) else { continue };
            let senders = path.iter().skip(1).map(|iface| self.plan.ifaces[iface.index()].node);
            let routers = senders.filter(|node| is_router(*node)).count();
            if routers >= TTL {
                let message = format!(
                    "no packet of this flow arrives: its path has {routers} routers, and packets \
                     start with a TTL of {TTL}"
                );
                self.sink.report(Code::NoEffect, at, message).help("use a shorter path");
            }
        }
    }

    /// One session is reported for each session generator.
    fn refuse_unreachable_sessions(&mut self, islands: &[usize]) {
        for (population, at) in self.plan.sessions.iter().zip(&self.places.populations) {
            let lost = |s: &&Session| {
                !self.reaches(s.from, s.to, islands) || !self.reaches(s.to, s.from, islands)
            };
            let mut lost = population.sessions.iter().filter(lost);
            let Some(first) = lost.next() else { continue };
            let [a, b] = [first.from, first.to].map(|node| &self.plan.nodes[node.index()].name);
            let more = match lost.count() {
                0 => String::new(),
                more => format!(" (and so for {more} more)"),
            };
            let help = self.why_unreachable(first.from, first.to);
            self.sink
                .report(Code::Unreachable, at, format!("no route from `{a}` to `{b}`{more}"))
                .help(help);
        }
    }

    /// Lists the nodes on the path that do not forward, or states that no path exists.
    fn why_unreachable(&self, from: NodeId, to: NodeId) -> String {
        let [a, b] = [from, to].map(|node| &self.plan.nodes[node.index()].name);
        let Some(hosts) = self.hosts_between(from, to) else {
            return format!(
                "no links connect `{a}` and `{b}`; add a `[[link]]`, or a router between them"
            );
        };
        let Some(first) = hosts.first() else {
            return GENERAL_HELP.to_owned();
        };
        let name = &self.plan.nodes[first.index()].name;
        let more = match &hosts[1..] {
            [] => String::new(),
            [second] => format!("; so is `{}`", self.plan.nodes[second.index()].name),
            rest => format!("; so are {} more nodes on the way", rest.len()),
        };
        format!(
            "`{name}` is a host, and hosts do not forward{more}; give it `kind = \"router\"`, or \
             add links that avoid it"
        )
    }

    /// The hosts on a path between two nodes that crosses as few hosts as possible; `None` if no
    /// links connect the nodes.
    fn hosts_between(&self, from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
        let mut before: Vec<Option<NodeId>> = vec![None; self.plan.nodes.len()];
        let mut seen = vec![false; self.plan.nodes.len()];
        // Nodes that are reached over the same number of hosts come before those over one more.
        let mut queue = VecDeque::from([(from, None)]);
        while let Some((node, previous)) = queue.pop_front() {
            if std::mem::replace(&mut seen[node.index()], true) {
                continue;
            }
            before[node.index()] = previous;
            if node == to {
                break;
            }
            for iface in &self.plan.nodes[node.index()].ifaces {
                let next = self.peer(*iface);
                if next == to || self.is_transit(next) {
                    queue.push_front((next, Some(node)));
                } else {
                    queue.push_back((next, Some(node)));
                }
            }
        }
        if !seen[to.index()] {
            return None;
        }
        let path = std::iter::successors(before[to.index()], |node| before[node.index()]);
        let hosts = path.filter(|node| *node != from && !self.is_transit(*node));
        let mut hosts: Vec<NodeId> = hosts.collect();
        hosts.reverse();
        Some(hosts)
    }

    /// The node at the other end of an interface's link.
    fn peer(&self, iface: IfaceId) -> NodeId {
        let iface = &self.plan.ifaces[iface.index()];
        self.plan.links[iface.link.index()].ends[1 - iface.sends.index()]
    }

    /// Whether packets from `from` can reach an address of `to`, all links up.
    fn reaches(&self, from: NodeId, to: NodeId, islands: &[usize]) -> bool {
        let ifaces = |node: NodeId| &self.plan.nodes[node.index()].ifaces;
        // Nodes before the last link to `to`.
        let gates: Vec<NodeId> = if self.is_transit(to) {
            vec![to]
        } else {
            ifaces(to).iter().map(|iface| self.peer(*iface)).collect()
        };
        if gates.contains(&from) {
            return true;
        }
        let gates: Vec<usize> = gates
            .into_iter()
            .filter(|gate| self.is_transit(*gate))
            .map(|gate| islands[gate.index()])
            .collect();
        // Transit neighbours of a transit node are on the same island.
        let starts: Vec<NodeId> = if self.is_transit(from) {
            vec![from]
        } else {
            ifaces(from).iter().map(|iface| self.peer(*iface)).collect()
        };
        starts
            .into_iter()
            .any(|node| self.is_transit(node) && gates.contains(&islands[node.index()]))
    }

    fn warn_about_isolated(&mut self) {
        let lonely: Vec<usize> = self
            .plan
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.ifaces.is_empty())
            .map(|(index, _)| index)
            .collect();
        // A rejected link has already been reported.
        if self.sink.has_errors() {
            return;
        }
        for index in lonely {
            let (name, at) =
                (self.plan.nodes[index].name.clone(), self.places.nodes[index].clone());
            self.sink
                .report(Code::Isolated, &at, format!("`{name}` has no links"))
                .help(format!("add a `[[link]]` with `{name}` in its `ends`"));
        }
    }

    /// Finite flows must be able to finish.
    fn refuse_endless_nothing(&mut self) {
        for index in 0..self.plan.flows.len() {
            let flow = &self.plan.flows[index];
            let (Traffic::Paced { rate, packet, size: Some(size), .. }, None) =
                (&flow.traffic, flow.duration)
            else {
                continue;
            };
            let needs = rate.time_for((*size).max(*packet));
            let left = self.plan.duration.saturating_sub(flow.start.since(base::Time::ZERO));
            if needs > left {
                let at = self.places.flows[index].clone();
                let message = format!("this flow needs {needs}, the run leaves it {left}");
                self.sink
                    .report(Code::NoEffect, &at, message)
                    .help("it will end with the run, unfinished");
            }
        }
    }
}

fn root(island: &mut [usize], node: usize) -> usize {
    let mut node = node;
    while island[node] != node {
        island[node] = island[island[node]];
        node = island[node];
    }
    node
}
