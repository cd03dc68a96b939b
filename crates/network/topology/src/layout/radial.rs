//! Radial trees.

use std::collections::VecDeque;
use std::f64::consts::TAU;

/// Positions around the origin, with one ring per distance from the middle of each component.
/// Several components share the circle as if a node in the middle connected them.
pub(super) fn place(neighbours: &[Vec<u32>]) -> Vec<[f64; 2]> {
    let nodes = neighbours.len();
    let mut parent = vec![u32::MAX; nodes];
    let mut order = Vec::with_capacity(nodes);
    let mut depth = vec![0u32; nodes];
    let mut seen = vec![false; nodes];
    let mut middles = Vec::new();
    for start in 0..nodes {
        if !seen[start] {
            let middle = middle_of(neighbours, start as u32, &mut seen);
            middles.push(middle);
            walk(neighbours, middle, &mut parent, &mut depth, &mut order);
        }
    }
    let mut width = vec![0.0f64; nodes];
    for &node in order.iter().rev() {
        let own = &mut width[node as usize];
        *own = own.max(1.0);
        let own = *own;
        if let Some(parent) = width.get_mut(parent[node as usize] as usize) {
            *parent += own;
        }
    }
    let total: f64 = middles.iter().map(|middle| width[*middle as usize]).sum();
    // Start of the next child's sector, by node.
    let mut next = vec![0.0; nodes];
    let mut places = vec![[0.0; 2]; nodes];
    let (mut free, several) = (0.0, u32::from(middles.len() > 1));
    for &node in &order {
        let at = node as usize;
        let slot = next.get_mut(parent[at] as usize).unwrap_or(&mut free);
        let begin = std::mem::replace(slot, *slot + width[at]);
        next[at] = begin;
        let angle = TAU * (begin + width[at] / 2.0) / total;
        let radius = f64::from(depth[at] + several);
        places[at] = [radius * angle.cos(), radius * angle.sin()];
    }
    places
}

/// The node in the middle of a long shortest path of the component, found by two searches.
fn middle_of(neighbours: &[Vec<u32>], start: u32, seen: &mut [bool]) -> u32 {
    let mut component = vec![start];
    seen[start as usize] = true;
    let mut at = 0;
    while let Some(&node) = component.get(at) {
        for &next in &neighbours[node as usize] {
            if !std::mem::replace(&mut seen[next as usize], true) {
                component.push(next);
            }
        }
        at += 1;
    }
    let far = component[component.len() - 1];
    let mut parent = std::collections::HashMap::new();
    parent.insert(far, far);
    let mut open = VecDeque::from([far]);
    let mut last = far;
    while let Some(node) = open.pop_front() {
        last = node;
        for &next in &neighbours[node as usize] {
            parent.entry(next).or_insert_with(|| {
                open.push_back(next);
                node
            });
        }
    }
    let mut path = vec![last];
    while last != far {
        last = parent[&last];
        path.push(last);
    }
    path[path.len() / 2]
}

/// Breadth-first search from `middle`.
fn walk(
    neighbours: &[Vec<u32>],
    middle: u32,
    parent: &mut [u32],
    depth: &mut [u32],
    order: &mut Vec<u32>,
) {
    let mut at = order.len();
    order.push(middle);
    while let Some(&node) = order.get(at) {
        for &next in &neighbours[node as usize] {
            if next != middle && parent[next as usize] == u32::MAX {
                parent[next as usize] = node;
                depth[next as usize] = depth[node as usize] + 1;
                order.push(next);
            }
        }
        at += 1;
    }
}
