//! Paths towards one destination after another, without keeping a table for any.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Adjacency, UNREACHED, sort_and_dedup_tail};

/// Shortest paths towards one destination at a time, in memory that is used again: for those who
/// ask about few of the nodes for each of very many destinations.
///
/// It gives the same next hops as [`Adjacency::paths_to`]. Where all arcs cost the same it
/// searches by breadth, which takes a tenth of the time.
#[derive(Debug)]
pub struct Search<'a> {
    graph: &'a Adjacency,
    /// Where the arcs that end at a node begin in `incoming`; one more entry than nodes.
    starts: Vec<u32>,
    /// Sender and cost of arcs that end at a node.
    incoming: Vec<(u32, u64)>,
    /// What every arc costs, if all cost the same and something.
    uniform: Option<u64>,
    dest: u32,
    /// (cost, fewest hops at that cost) of every node.
    best: Vec<(u64, u32)>,
    /// Nodes in the order in which they are reached.
    reached: Vec<u32>,
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl<'a> Search<'a> {
    /// Paths of `graph`; nothing is reached before [`Self::aim`].
    ///
    /// # Panics
    /// If there are 2³² arcs or more.
    pub fn new(graph: &'a Adjacency) -> Self {
        let mut incoming = Vec::with_capacity(graph.incoming.iter().map(Vec::len).sum());
        let mut starts = vec![0];
        for arcs in &graph.incoming {
            incoming.extend_from_slice(arcs);
            starts.push(u32::try_from(incoming.len()).expect("fewer than 2³² arcs fit in memory"));
        }
        let first = incoming.first().map(|arc| arc.1).filter(|cost| *cost > 0);
        Self {
            graph,
            starts,
            uniform: first.filter(|cost| incoming.iter().all(|arc| arc.1 == *cost)),
            incoming,
            dest: 0,
            best: vec![UNREACHED; graph.len()],
            reached: Vec::with_capacity(graph.len()),
            heap: BinaryHeap::new(),
        }
    }

    /// Turns to another destination.
    ///
    /// # Panics
    /// If `dest` is no node of the graph.
    pub fn aim(&mut self, dest: u32) {
        self.best.fill(UNREACHED);
        self.best[dest as usize] = (0, 0);
        self.dest = dest;
        match self.uniform {
            Some(cost) => self.by_breadth(cost),
            None => self.by_cost(),
        }
    }

    /// The ids of the arcs of `node` that begin shortest paths to the destination, ascending,
    /// each once, in `ids`. Empty at the destination and where there is no path.
    ///
    /// # Panics
    /// If `node` is no node of the graph.
    pub fn next_hops(&self, node: u32, ids: &mut Vec<u32>) {
        ids.clear();
        let at = node as usize;
        if node == self.dest || self.best[at] == UNREACHED {
            return;
        }
        let arcs = self.graph.outgoing[at].iter();
        let leading = arcs.filter(|arc| self.graph.leads(&self.best, at, arc, self.dest));
        ids.extend(leading.map(|arc| arc.id));
        sort_and_dedup_tail(ids, 0);
    }

    fn arcs_to(&self, node: u32) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    fn by_breadth(&mut self, cost: u64) {
        self.reached.clear();
        self.reached.push(self.dest);
        let mut position = 0;
        while let Some(&node) = self.reached.get(position) {
            position += 1;
            if node != self.dest && !self.graph.transit[node as usize] {
                continue;
            }
            let (far, hops) = self.best[node as usize];
            let Some(next) = far.checked_add(cost) else { continue };
            for &(sender, _) in &self.incoming[self.arcs_to(node)] {
                let best = &mut self.best[sender as usize];
                if *best == UNREACHED {
                    *best = (next, hops + 1);
                    self.reached.push(sender);
                }
            }
        }
    }

    fn by_cost(&mut self) {
        self.heap.push(Reverse((0, 0, self.dest)));
        while let Some(Reverse((cost, hops, node))) = self.heap.pop() {
            let carries = node == self.dest || self.graph.transit[node as usize];
            if (cost, hops) > self.best[node as usize] || !carries {
                continue;
            }
            for &(sender, more) in &self.incoming[self.arcs_to(node)] {
                let Some(cost) = cost.checked_add(more) else { continue };
                let best = &mut self.best[sender as usize];
                if (cost, hops + 1) < *best {
                    *best = (cost, hops + 1);
                    self.heap.push(Reverse((cost, hops + 1, sender)));
                }
            }
        }
    }
}
