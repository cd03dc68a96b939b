//! An independent maximum flow: all nodes in one matrix, shortest augmenting paths (Edmonds and
//! Karp 1972).

use base::NodeId;
use fabric::Rate;
use lab::plan::{Plan, Role, Traffic};

/// Above the sum of all links of a test.
const UNLIMITED: u64 = 1 << 50;

pub(super) struct Oracle<'a> {
    plan: &'a Plan,
    pub(super) is_declared: bool,
}

impl<'a> Oracle<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self { plan, is_declared: plan.programs.is_empty() }
    }

    /// Maximum rate of a host: unlimited with a program, else the sum of its flows.
    fn sends(&self, node: NodeId) -> u64 {
        if self.plan.programs.iter().any(|program| program.node == node) {
            return UNLIMITED;
        }
        let flows = self.plan.flows.iter().map(|flow| match &flow.traffic {
            Traffic::Paced { rate, packet, .. } if flow.from == node => {
                let wire = packet.count() + 28 + self.plan.overhead.count();
                let bits = u128::from(rate.bits_per_sec()) * u128::from(wire);
                let bits = bits.div_ceil(u128::from(packet.count())) as u64;
                bits.min(self.path(flow.from, flow.to))
            }
            Traffic::Bulk { .. } if flow.from == node => self.path(flow.from, flow.to),
            Traffic::Bulk { .. } if flow.to == node => {
                let there = self.path(flow.from, flow.to);
                let back = if there >= UNLIMITED { UNLIMITED } else { there.div_ceil(20) };
                back.min(self.path(flow.to, flow.from))
            }
            _ => 0,
        });
        flows.sum::<u64>().min(UNLIMITED)
    }

    /// The lowest rate between two hosts of a tree.
    fn path(&self, from: NodeId, to: NodeId) -> u64 {
        let mut least = vec![0; self.plan.nodes.len()];
        least[from.index()] = UNLIMITED;
        for _ in 0..self.plan.nodes.len() {
            for (a, b, rate) in self.arcs() {
                least[b] = least[b].max(least[a].min(rate));
            }
        }
        least[to.index()]
    }

    fn arcs(&self) -> Vec<(usize, usize, u64)> {
        let rate = |rate: &Rate| match rate {
            Rate::Constant(rate) => rate.bits_per_sec(),
            _ => UNLIMITED,
        };
        let links = self.plan.links.iter().flat_map(|link| {
            let [a, b] = link.ends.map(NodeId::index);
            [(a, b, rate(&link.directions[0].rate)), (b, a, rate(&link.directions[1].rate))]
        });
        links.collect()
    }

    /// `None`: unbounded.
    pub(super) fn flow(
        &self,
        sends: impl Fn(NodeId) -> bool,
        receives: impl Fn(NodeId) -> bool,
    ) -> Option<u64> {
        let nodes = self.plan.nodes.len();
        let is_host = |node: usize| self.plan.nodes[node].kind == Role::Host;
        // A host receives at its own position and sends from `nodes` further on.
        let enters = |node: usize| if is_host(node) { nodes + node } else { node };
        let (source, sink) = (2 * nodes, 2 * nodes + 1);
        let size = sink + 1;
        let mut room = vec![vec![0u64; size]; size];
        for (a, b, rate) in self.arcs() {
            room[enters(a)][b] += rate;
        }
        for node in (0..nodes).filter(|node| is_host(*node)) {
            if sends(NodeId::at(node)) {
                room[source][nodes + node] = self.sends(NodeId::at(node));
            }
            if receives(NodeId::at(node)) {
                room[node][sink] = UNLIMITED;
            }
        }
        let mut flow = 0;
        loop {
            let mut before = vec![usize::MAX; size];
            let mut queue = vec![source];
            let mut at = 0;
            while at < queue.len() {
                let vertex = queue[at];
                at += 1;
                for next in 0..size {
                    if room[vertex][next] > 0 && before[next] == usize::MAX && next != source {
                        before[next] = vertex;
                        queue.push(next);
                    }
                }
            }
            if before[sink] == usize::MAX {
                return Some(flow);
            }
            let mut least = u64::MAX;
            let mut vertex = sink;
            while vertex != source {
                least = least.min(room[before[vertex]][vertex]);
                vertex = before[vertex];
            }
            vertex = sink;
            while vertex != source {
                room[before[vertex]][vertex] -= least;
                room[vertex][before[vertex]] += least;
                vertex = before[vertex];
            }
            flow += least;
            if flow >= UNLIMITED {
                return None;
            }
        }
    }
}
