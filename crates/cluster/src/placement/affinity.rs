//! Who talks to whom, and who is too near to be parted.

use std::collections::BTreeMap;

use base::{NodeId, Span};
use lab::plan::Plan;

use super::Terms;
use super::atoms::{Atoms, is_placed};
use super::demand::{Demand, NO_LIMIT};

/// Bits a second that a flow without any bound counts as.
const USUAL: u64 = 1_000_000_000;
/// Bits a second that a host counts as sending to one that its programs' commands name.
const NAMED: u64 = 100_000_000;
/// Bits a second that hosts of one router count as sending each other, where there are programs.
const NEIGHBOURS: u64 = 1_000_000;
/// Cutting what is nearer than the machines are counts as so much more.
const NEAR: u64 = 1_000;
/// Larger groups of neighbours know so many on each side only.
const RING: usize = 8;

/// How much atoms talk.
#[derive(Debug)]
pub(super) struct Affinity {
    /// By atom: others, and bits a second, both ways together.
    pub(super) edges: Vec<Vec<(u32, u64)>>,
    /// Pairs that talk over less delay than the machines have between them, heaviest first.
    pub(super) near: Vec<(u32, u32, u64)>,
}

impl Affinity {
    pub(super) fn of(plan: &Plan, demand: &Demand, atoms: &Atoms, terms: &Terms) -> Self {
        let mut weights: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut near: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut talk = |a: NodeId, b: NodeId, rate: u64, delay: Option<Span>| {
            let (Some(a), Some(b)) = (atoms.of(a), atoms.of(b)) else { return };
            if a == b || rate == 0 {
                return;
            }
            let pair = (a.min(b), a.max(b));
            let is_near = delay.is_some_and(|delay| delay < terms.physical);
            if is_near {
                let sum = near.entry(pair).or_default();
                *sum = sum.saturating_add(rate);
            }
            let sum = weights.entry(pair).or_default();
            *sum = sum.saturating_add(rate.saturating_mul(if is_near { NEAR } else { 1 }));
        };
        for flow in &demand.flows {
            let rate = if flow.usual >= NO_LIMIT { USUAL } else { flow.usual };
            talk(flow.from, flow.to, rate, flow.delay);
        }
        for (from, to, delay) in &demand.named {
            let most = demand.hosts[from.index()].send.min(demand.hosts[to.index()].receive);
            talk(*from, *to, most.min(NAMED), *delay);
        }
        if !demand.is_declared {
            for group in neighbours(plan).values() {
                let rate = (NEIGHBOURS / group.len() as u64).max(1);
                for (index, node) in group.iter().enumerate() {
                    for other in group.iter().skip(index + 1).take(RING) {
                        talk(*node, *other, rate, None);
                    }
                }
            }
        }
        let mut edges = vec![Vec::new(); atoms.list.len()];
        for ((a, b), weight) in weights {
            edges[a as usize].push((b, weight));
            edges[b as usize].push((a, weight));
        }
        let mut near: Vec<(u32, u32, u64)> =
            near.into_iter().map(|((a, b), weight)| (a, b, weight)).collect();
        near.sort_by_key(|(a, b, weight)| (std::cmp::Reverse(*weight), *a, *b));
        Self { edges, near }
    }
}

/// Hosts by the node that their first link leads to.
pub(super) fn neighbours(plan: &Plan) -> BTreeMap<NodeId, Vec<NodeId>> {
    let mut groups: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        let id = NodeId::at(index);
        let Some(first) = node.ifaces.first().filter(|_| is_placed(plan, id)) else { continue };
        let iface = &plan.ifaces[first.index()];
        let peer = plan.links[iface.link.index()].ends[1 - iface.sends.index()];
        groups.entry(peer).or_default().push(id);
    }
    groups
}
