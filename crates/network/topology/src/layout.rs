//! Drawings: positions of nodes in the unit square. Equal graphs and seeds give equal drawings.
//!
//! Leaves are removed first and placed around their neighbour at the end. The rest is drawn by
//! forces (Fruchterman and Reingold 1991) if it has at most 300 nodes, otherwise as a radial tree:
//! a breadth-first tree from a node in the middle, with each subtree in a sector proportional to
//! its number of leaves.

use std::f64::consts::TAU;

use base::RandomStream;

use crate::Graph;

mod radial;

/// Maximum number of nodes (without leaves) for a force-directed drawing.
const FORCE_LIMIT: usize = 300;
/// Iterations of the force-directed drawing.
const ROUNDS: usize = 250;

/// A position for every node of `graph`, in [0, 1] × [0, 1]; y grows downwards. If all nodes have
/// positions, these are used, scaled to the square without distortion.
pub fn of(graph: &Graph, seed: u64) -> Vec<[f64; 2]> {
    let given: Option<Vec<_>> = graph.nodes.iter().map(|node| node.position).collect();
    if let Some(mut given) = given.filter(|given| given.iter().flatten().all(|x| x.is_finite())) {
        fit(&mut given);
        return given;
    }
    let links: Vec<_> = graph.links.iter().map(|link| link.ends).collect();
    place(graph.nodes.len(), &links, seed)
}

/// A position in [0, 1] × [0, 1] for each of `nodes` nodes with these links.
///
/// # Panics
/// If a link refers to a node that does not exist.
pub fn place(nodes: usize, links: &[[u32; 2]], seed: u64) -> Vec<[f64; 2]> {
    let mut neighbours = vec![Vec::new(); nodes];
    for &[a, b] in links.iter().filter(|[a, b]| a != b) {
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    let leaf = |node: usize| match neighbours[node].as_slice() {
        // Of two nodes with no other neighbours, the first is not a leaf.
        &[root] if neighbours[root as usize].len() > 1 || (root as usize) < node => Some(root),
        _ => None,
    };
    let roots: Vec<Option<u32>> = (0..nodes).map(leaf).collect();
    let mut places = radial::place(&neighbours);
    let core: Vec<u32> = (0..nodes as u32).filter(|n| roots[*n as usize].is_none()).collect();
    if core.len() <= FORCE_LIMIT {
        by_forces(&mut places, &core, &neighbours, seed);
        around_roots(&mut places, &roots, &core);
    }
    let [width, height] = [0, 1].map(|axis| extent(&places, axis)).map(|[from, to]| to - from);
    if height > width {
        // Screens and pages are wider than high.
        for place in &mut places {
            place.swap(0, 1);
        }
    }
    fit(&mut places);
    places
}

/// Moves the `core` nodes: all nodes repel each other, neighbours attract each other, and a force
/// towards the middle keeps components together.
fn by_forces(places: &mut [[f64; 2]], core: &[u32], neighbours: &[Vec<u32>], seed: u64) {
    let count = core.len();
    let mut index = vec![usize::MAX; places.len()];
    core.iter().enumerate().for_each(|(at, node)| index[*node as usize] = at);
    let mut start: Vec<[f64; 2]> = core.iter().map(|node| places[*node as usize]).collect();
    fit(&mut start);
    let mut rng = RandomStream::new(seed, "topology/layout");
    // Nodes with many leaves need space for them.
    let weight: Vec<f64> = core
        .iter()
        .map(|node| {
            let leaves = neighbours[*node as usize].iter().filter(|n| index[**n as usize] > count);
            1.0 + 0.3 * leaves.count().min(20) as f64
        })
        .collect();
    let ideal = 1.0 / (count.max(1) as f64).sqrt();
    for place in start.iter_mut().flatten() {
        *place += (rng.unit() - 0.5) * ideal * 0.1;
    }
    let mut force = vec![[0.0; 2]; count];
    for round in 0..ROUNDS {
        force.fill([0.0; 2]);
        for a in 0..count {
            for b in a + 1..count {
                let (dx, dy, d) = between(start[a], start[b]);
                let push = ideal * ideal * weight[a] * weight[b] / (d * d);
                add(&mut force, a, b, [dx * push, dy * push]);
            }
            let near = neighbours[core[a] as usize].iter().map(|node| index[*node as usize]);
            for b in near.filter(|b| *b > a && *b < count) {
                let (dx, dy, d) = between(start[a], start[b]);
                let pull = -d / ideal;
                add(&mut force, a, b, [dx * pull, dy * pull]);
            }
            for axis in 0..2 {
                force[a][axis] -= (start[a][axis] - 0.5) * 0.3;
            }
        }
        let heat = 0.1 * (1.0 - round as f64 / ROUNDS as f64);
        for (place, force) in start.iter_mut().zip(&force) {
            let strength = force[0].hypot(force[1]).max(1e-9);
            for axis in 0..2 {
                place[axis] += force[axis] / strength * strength.min(heat);
            }
        }
    }
    for (node, place) in core.iter().zip(start) {
        places[*node as usize] = place;
    }
}

/// The vector from b to a and its length, which is never zero.
fn between(a: [f64; 2], b: [f64; 2]) -> (f64, f64, f64) {
    let (dx, dy) = (a[0] - b[0], a[1] - b[1]);
    let d = dx.hypot(dy);
    if d < 1e-6 { (1e-6, 0.0, 1e-6) } else { (dx, dy, d) }
}

fn add(force: &mut [[f64; 2]], a: usize, b: usize, [x, y]: [f64; 2]) {
    force[a] = [force[a][0] + x, force[a][1] + y];
    force[b] = [force[b][0] - x, force[b][1] - y];
}

/// Places leaves on an arc around their roots, on the side away from the middle; on a full circle
/// if there is only one root.
fn around_roots(places: &mut [[f64; 2]], roots: &[Option<u32>], core: &[u32]) {
    let mut leaves = vec![Vec::new(); places.len()];
    for (node, root) in roots.iter().enumerate() {
        if let Some(root) = root {
            leaves[*root as usize].push(node);
        }
    }
    let size = core.len().max(1) as f64;
    let middle =
        [0, 1].map(|axis| core.iter().map(|n| places[*n as usize][axis]).sum::<f64>() / size);
    for &root in core {
        let (own, [x, y]) = (&leaves[root as usize], places[root as usize]);
        let (dx, dy) = (x - middle[0], y - middle[1]);
        let alone = dx.hypot(dy) < 1e-6;
        let facing = if alone { 0.0 } else { dy.atan2(dx) };
        let count = own.len() as f64;
        let width = if alone { TAU } else { (count * 0.35).min(TAU * 0.75) };
        let radius = 0.6 / size.sqrt() * (1.0 + count / 60.0);
        for (at, &leaf) in own.iter().enumerate() {
            let angle = facing + width * ((at as f64 + 0.5) / count - 0.5);
            places[leaf] = [x + radius * angle.cos(), y + radius * angle.sin()];
        }
    }
}

/// The smallest and largest coordinate.
fn extent(places: &[[f64; 2]], axis: usize) -> [f64; 2] {
    let start = [f64::INFINITY, f64::NEG_INFINITY];
    places.iter().map(|place| place[axis]).fold(start, |[l, m], x| [l.min(x), m.max(x)])
}

/// Scales and moves the drawing into the unit square, centred, without distortion.
fn fit(places: &mut [[f64; 2]]) {
    let [[left, right], [top, bottom]] = [extent(places, 0), extent(places, 1)];
    let (least, most) = ([left, top], [right, bottom]);
    let size = (right - left).max(bottom - top);
    for place in places {
        for axis in 0..2 {
            let offset = place[axis] - f64::midpoint(least[axis], most[axis]);
            let scaled = if size > 0.0 { offset / size } else { 0.0 };
            place[axis] = (0.5 + scaled).clamp(0.0, 1.0);
        }
    }
}

#[cfg(test)]
mod tests;
