//! Traffic between atoms, and pairs that are too close to separate.

use std::collections::BTreeMap;

use base::{NodeId, Span};
use lab::plan::Plan;

use super::atoms::{Atoms, is_placed};
use super::demand::{Demand, NO_LIMIT};
use super::model::Terms;

/// Assumed rate of a flow without a bound, bit/s.
const DEFAULT_RATE: u64 = 1_000_000_000;
/// Assumed rate between a host and one that its programs' commands name, bit/s.
const NAMED_RATE: u64 = 100_000_000;
/// Assumed rate among the hosts of one router in a lab with programs, bit/s.
const NEIGHBOUR_RATE: u64 = 1_000_000;
/// Weight factor of traffic with less delay than the physical network.
const NEAR_FACTOR: u64 = 1_000;
/// Max number of neighbours on each side that a host of a larger group has.
const MAX_NEIGHBOURS: usize = 8;

#[derive(Debug)]
pub(super) struct Affinity {
    /// By atom: the other atoms and the rate in both directions, bit/s.
    pub(super) edges: Vec<Vec<(u32, u64)>>,
    /// Pairs with less delay than between the machines, heaviest first.
    pub(super) near: Vec<(u32, u32, u64)>,
}

impl Affinity {
    pub(super) fn of(plan: &Plan, demand: &Demand, atoms: &Atoms, terms: &Terms) -> Self {
        let mut weights: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut near: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut add = |a: NodeId, b: NodeId, rate: u64, delay: Option<Span>| {
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
            *sum = sum.saturating_add(rate.saturating_mul(if is_near { NEAR_FACTOR } else { 1 }));
        };
        for flow in &demand.flows {
            let rate = if flow.expected >= NO_LIMIT { DEFAULT_RATE } else { flow.expected };
            add(flow.from, flow.to, rate, flow.delay);
        }
        for (from, to, delay) in &demand.named {
            let most = demand.hosts[from.index()].send.min(demand.hosts[to.index()].receive);
            add(*from, *to, most.min(NAMED_RATE), *delay);
        }
        if !demand.is_declared {
            for group in neighbours(plan).values() {
                let rate = (NEIGHBOUR_RATE / group.len() as u64).max(1);
                for (index, node) in group.iter().enumerate() {
                    for other in group.iter().skip(index + 1).take(MAX_NEIGHBOURS) {
                        add(*node, *other, rate, None);
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

/// Hosts by the peer of their first link.
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
