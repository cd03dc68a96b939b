//! Equal-cost shortest paths to a destination: one reverse Dijkstra per destination.
//!
//! Costs are integers, so equality is exact. Along every next hop the pair (remaining cost,
//! remaining hops) falls, so forwarding by these tables never loops, even over links of cost zero:
//! an arc of cost zero is a next hop only if it also lies on a path with fewer hops.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

mod all;
mod search;
pub use all::AllPaths;
pub use search::Search;

/// A one-way connection to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    /// The neighbour's index.
    pub to: u32,
    /// The cost of taking this arc, in the caller's unit.
    pub cost: u64,
    /// The caller's tag, such as the index of the sending interface.
    pub id: u32,
}

/// A directed multigraph with integer costs. Each link is represented by two arcs.
#[derive(Clone, Debug, Default)]
pub struct Adjacency {
    outgoing: Vec<Vec<Arc>>,
    /// (sender, cost) of the arcs that end at a node.
    incoming: Vec<Vec<(u32, u64)>>,
    transit: Vec<bool>,
}

/// The attachment of a node with a single neighbour to the rest of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The only neighbour.
    pub root: u32,
    /// The arc from the node to its root.
    pub up: Arc,
    /// The arc from the root to the node.
    pub down: Arc,
}

impl Adjacency {
    /// A graph of `n` nodes (`0..n`) without arcs; all may carry transit traffic.
    pub fn new(n: usize) -> Self {
        Self {
            outgoing: vec![Vec::new(); n],
            incoming: vec![Vec::new(); n],
            transit: vec![true; n],
        }
    }

    pub fn len(&self) -> usize {
        self.outgoing.len()
    }

    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Adds a one-way arc. Parallel arcs are kept.
    ///
    /// # Panics
    /// If an end is not a node of the graph.
    pub fn add(&mut self, from: u32, arc: Arc) {
        self.outgoing[from as usize].push(arc);
        self.incoming[arc.to as usize].push((from, arc.cost));
    }

    /// Sets whether paths may lead *through* `node`. Hosts only begin and end paths.
    ///
    /// # Panics
    /// If `node` is not a node of the graph.
    pub fn set_transit(&mut self, node: u32, transit: bool) {
        self.transit[node as usize] = transit;
    }

    /// The arcs from `node`, in the order of their addition.
    ///
    /// # Panics
    /// If `node` is not a node of the graph.
    pub fn arcs(&self, node: u32) -> &[Arc] {
        &self.outgoing[node as usize]
    }

    /// The attachment of a leaf: a node with one arc in each direction, to
    /// the same transit neighbour.
    ///
    /// Every other node reaches a leaf through its root, so a table to the root serves all its
    /// leaves. Two nodes with no other neighbours are not leaves.
    ///
    /// # Panics
    /// If `node` is not a node of the graph.
    pub fn attachment(&self, node: u32) -> Option<Attachment> {
        let attachment = self.only_neighbour(node)?;
        self.only_neighbour(attachment.root).is_none().then_some(attachment)
    }

    fn only_neighbour(&self, node: u32) -> Option<Attachment> {
        let &[up] = self.outgoing[node as usize].as_slice() else { return None };
        let &[(sender, _)] = self.incoming[node as usize].as_slice() else { return None };
        if sender != up.to || up.to == node || !self.transit[up.to as usize] {
            return None;
        }
        let down = *self.outgoing[up.to as usize].iter().find(|arc| arc.to == node)?;
        Some(Attachment { root: up.to, up, down })
    }

    /// The shortest paths from every node to `dest`. Paths whose cost exceeds 64 bits are ignored.
    ///
    /// # Panics
    /// If `dest` is not a node of the graph.
    pub fn paths_to(&self, dest: u32) -> PathsTo {
        let best = self.distances_to(dest);
        let mut starts = Vec::with_capacity(self.len() + 1);
        let mut ids = Vec::with_capacity(self.len());
        starts.push(0);
        for (node, arcs) in self.outgoing.iter().enumerate() {
            let first = ids.len();
            if node != dest as usize && best[node] != UNREACHED {
                ids.extend(arcs.iter().filter(|a| self.leads(&best, node, a, dest)).map(|a| a.id));
                sort_and_dedup_tail(&mut ids, first);
            }
            starts.push(u32::try_from(ids.len()).expect("fewer than 2³² arcs fit in memory"));
        }
        PathsTo { costs: best.into_iter().map(|(cost, _)| cost).collect(), starts, ids }
    }

    /// Whether `arc` of `node` lies on a shortest path to `dest`.
    fn leads(&self, best: &[(u64, u32)], node: usize, arc: &Arc, dest: u32) -> bool {
        if arc.to != dest && !self.transit[arc.to as usize] {
            return false;
        }
        let (here, there) = (best[node], best[arc.to as usize]);
        there != UNREACHED
            && there.0.checked_add(arc.cost) == Some(here.0)
            && (arc.cost > 0 || there.1 < here.1)
    }

    /// (cost, fewest hops at that cost) of every node.
    fn distances_to(&self, dest: u32) -> Vec<(u64, u32)> {
        let mut best = vec![UNREACHED; self.len()];
        let mut heap = BinaryHeap::new();
        best[dest as usize] = (0, 0);
        heap.push(Reverse(((0, 0), dest)));
        while let Some(Reverse((distance, node))) = heap.pop() {
            let carries = node == dest || self.transit[node as usize];
            if distance > best[node as usize] || !carries {
                continue;
            }
            for &(sender, cost) in &self.incoming[node as usize] {
                let Some(cost) = distance.0.checked_add(cost) else { continue };
                let next = (cost, distance.1 + 1);
                if next < best[sender as usize] {
                    best[sender as usize] = next;
                    heap.push(Reverse((next, sender)));
                }
            }
        }
        best
    }
}

const UNREACHED: (u64, u32) = (u64::MAX, u32::MAX);

fn sort_and_dedup_tail(ids: &mut Vec<u32>, first: usize) {
    if ids.len() - first < 2 {
        return;
    }
    ids[first..].sort_unstable();
    let mut kept = first + 1;
    for at in first + 1..ids.len() {
        if ids[at] != ids[kept - 1] {
            ids[kept] = ids[at];
            kept += 1;
        }
    }
    ids.truncate(kept);
}

/// The shortest paths from every node to one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathsTo {
    costs: Vec<u64>,
    /// Start of each node's next hops in `ids`; one more entry than nodes.
    starts: Vec<u32>,
    ids: Vec<u32>,
}

impl PathsTo {
    /// The cost of the shortest path from `node`; `None` without a path.
    ///
    /// # Panics
    /// If `node` is not a node of the graph.
    pub fn distance(&self, node: u32) -> Option<u64> {
        Some(self.costs[node as usize]).filter(|cost| *cost != u64::MAX)
    }

    /// The ids of the arcs of `node` that begin shortest paths, ascending, each once. Empty at the
    /// destination and without a path.
    ///
    /// # Panics
    /// If `node` is not a node of the graph.
    pub fn next_hops(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.ids[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

#[cfg(test)]
mod tests;
