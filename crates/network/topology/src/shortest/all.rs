//! Paths between all pairs, with one Dijkstra per core node: leaves use their root's paths.

use super::{Adjacency, Arc, Attachment, PathsTo};

/// The shortest paths between all pairs of nodes.
///
/// Nodes with a single neighbour (most hosts) need no table: a thousand hosts on one switch need
/// one. Memory grows with the square of the number of the other nodes, about 16 bytes per pair.
#[derive(Clone, Debug)]
pub struct AllPaths {
    place: Vec<Place>,
    /// Paths by core index.
    towards: Vec<PathsTo>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Core(u32),
    /// The attachment, and the root's core index.
    Leaf(Attachment, u32),
}

impl AllPaths {
    /// Computes all paths of `graph`.
    pub fn compute(graph: &Adjacency) -> Self {
        let nodes = 0..graph.len() as u32;
        let leaves: Vec<_> = nodes.clone().map(|node| graph.attachment(node)).collect();
        let mut core_index = vec![u32::MAX; graph.len()];
        let mut members = Vec::new();
        for node in nodes.filter(|node| leaves[*node as usize].is_none()) {
            core_index[node as usize] = members.len() as u32;
            members.push(node);
        }
        let mut core = Adjacency::new(members.len());
        for (index, &node) in members.iter().enumerate() {
            core.set_transit(index as u32, graph.transit[node as usize]);
            for arc in graph.arcs(node) {
                let to = core_index[arc.to as usize];
                if to != u32::MAX {
                    core.add(index as u32, Arc { to, ..*arc });
                }
            }
        }
        let towards = (0..members.len() as u32).map(|dest| core.paths_to(dest)).collect();
        let place = leaves
            .into_iter()
            .zip(&core_index)
            .map(|(leaf, &index)| match leaf {
                Some(leaf) => Place::Leaf(leaf, core_index[leaf.root as usize]),
                None => Place::Core(index),
            })
            .collect();
        Self { place, towards }
    }

    /// The ids of the arcs of `node` that begin shortest paths to `dest`, ascending.
    ///
    /// # Panics
    /// If a node is not in the graph.
    pub fn next_hops(&self, node: u32, dest: u32) -> &[u32] {
        if node == dest {
            return &[];
        }
        let table = &self.towards[self.root_of(dest) as usize];
        match &self.place[node as usize] {
            // The leaf's own arc, if the destination is reachable.
            Place::Leaf(leaf, _) if self.distance(node, dest).is_some() => {
                std::slice::from_ref(&leaf.up.id)
            }
            Place::Leaf(..) => &[],
            Place::Core(index) => match &self.place[dest as usize] {
                Place::Leaf(leaf, _) if leaf.root == node => std::slice::from_ref(&leaf.down.id),
                _ => table.next_hops(*index),
            },
        }
    }

    /// The cost of the shortest path; `None` without a path.
    ///
    /// # Panics
    /// If a node is not in the graph.
    pub fn distance(&self, node: u32, dest: u32) -> Option<u64> {
        if node == dest {
            return Some(0);
        }
        let (up, from) = match self.place[node as usize] {
            Place::Leaf(leaf, root) => (leaf.up.cost, root),
            Place::Core(index) => (0, index),
        };
        let (down, root) = match self.place[dest as usize] {
            Place::Leaf(leaf, root) => (leaf.down.cost, root),
            Place::Core(index) => (0, index),
        };
        let total = self.towards[root as usize].distance(from)?.checked_add(up)?;
        total.checked_add(down).filter(|cost| *cost != u64::MAX)
    }

    fn root_of(&self, dest: u32) -> u32 {
        match self.place[dest as usize] {
            Place::Core(index) | Place::Leaf(_, index) => index,
        }
    }
}
