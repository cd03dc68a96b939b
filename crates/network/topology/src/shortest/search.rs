//! Paths to one destination after another, without storing tables.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Adjacency, UNREACHED, sort_and_dedup_tail};

/// With more buckets than this, most would be empty.
const MAX_BUCKETS: u64 = 4096;

/// Shortest paths to one destination at a time, in reused memory: for callers that need few next
/// hops for each of very many destinations.
///
/// It gives the same next hops as [`Adjacency::paths_to`]. If the costs of all arcs are within a
/// factor of some thousand, nodes are queued in buckets as wide as the lowest cost instead of a
/// heap: no node of a bucket can lead to another node of it, so their order does not matter (Dial,
/// CACM 12(11), 1969; Dinitz, 1978).
#[derive(Debug)]
pub struct Search<'a> {
    graph: &'a Adjacency,
    /// Start of each node's incoming arcs in `incoming`; one more entry than nodes.
    starts: Vec<u32>,
    /// Sender and cost of incoming arcs.
    incoming: Vec<(u32, u64)>,
    dest: u32,
    /// (cost, fewest hops at that cost) of every node.
    best: Vec<(u64, u32)>,
    /// The width of a bucket: the lowest cost of an arc.
    width: u64,
    /// Nodes by cost, in a ring of buckets; empty if costs differ too much.
    buckets: Vec<Vec<u32>>,
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl<'a> Search<'a> {
    /// A search in `graph`, which has no paths before [`Self::aim`] sets the destination.
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
        let width = incoming.iter().map(|arc| arc.1).min().unwrap_or(0);
        let dearest = incoming.iter().map(|arc| arc.1).max().unwrap_or(0);
        // An arc leads at most this many buckets ahead, plus one.
        let ahead = dearest.checked_div(width).filter(|ahead| *ahead < MAX_BUCKETS);
        let buckets = ahead.map_or(0, |ahead| ahead as usize + 2);
        Self {
            graph,
            starts,
            incoming,
            dest: 0,
            best: vec![UNREACHED; graph.len()],
            width,
            buckets: vec![Vec::new(); buckets],
            heap: BinaryHeap::new(),
        }
    }

    /// Selects another destination.
    ///
    /// # Panics
    /// If `dest` is not a node of the graph.
    pub fn aim(&mut self, dest: u32) {
        self.best.fill(UNREACHED);
        self.best[dest as usize] = (0, 0);
        self.dest = dest;
        if self.buckets.is_empty() {
            self.by_heap();
        } else {
            self.by_buckets();
        }
    }

    /// Writes the ids of the arcs of `node` that begin shortest paths to the destination to `ids`,
    /// ascending, each once. Empty at the destination and without a path.
    ///
    /// # Panics
    /// If `node` is not a node of the graph.
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

    fn carries(&self, node: u32) -> bool {
        node == self.dest || self.graph.transit[node as usize]
    }

    fn by_buckets(&mut self) {
        self.buckets[0].push(self.dest);
        let (mut waiting, mut turn) = (1, 0_u64);
        while waiting > 0 {
            let at = (turn % self.buckets.len() as u64) as usize;
            let mut bucket = std::mem::take(&mut self.buckets[at]);
            waiting -= bucket.len();
            for node in bucket.drain(..) {
                let (cost, hops) = self.best[node as usize];
                // The node has been moved to an earlier bucket.
                if cost / self.width != turn || !self.carries(node) {
                    continue;
                }
                for &(sender, more) in &self.incoming[self.arcs_to(node)] {
                    let Some(cost) = cost.checked_add(more) else { continue };
                    let best = &mut self.best[sender as usize];
                    if (cost, hops + 1) < *best {
                        *best = (cost, hops + 1);
                        let bucket = cost / self.width % self.buckets.len() as u64;
                        self.buckets[bucket as usize].push(sender);
                        waiting += 1;
                    }
                }
            }
            self.buckets[at] = bucket;
            turn += 1;
        }
    }

    fn by_heap(&mut self) {
        self.heap.push(Reverse((0, 0, self.dest)));
        while let Some(Reverse((cost, hops, node))) = self.heap.pop() {
            if (cost, hops) > self.best[node as usize] || !self.carries(node) {
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
