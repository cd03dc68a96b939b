//! Random graphs.

use std::collections::BTreeSet;

use base::{RandomStream, Span};

use super::{
    Generator, add_hosts, check_count, check_number, check_size, pick, routers, tree_size,
    with_hosts,
};
use crate::{Error, Graph, LinkSpec};

/// Waxman's random graph (Routing of Multipoint Connections, JSAC 1988): routers lie uniformly in
/// a square, and two at distance d are linked with probability α·exp(−d/(β·L)), L the diagonal.
///
/// The model may give an unconnected graph; its components are connected by
/// the shortest possible links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waxman {
    /// Number of routers, from 1 to 10,000.
    pub routers: u32,
    /// α, which controls the number of links; above 0, at most 1.
    pub alpha: f64,
    /// β, which controls the length of links; above 0, at most 1.
    pub beta: f64,
    /// Delay of a link as long as the square's side; other links in proportion to their length.
    /// Zero leaves delays unspecified.
    pub side: Span,
    /// Hosts per router.
    pub hosts: u32,
}

impl Generator for Waxman {
    fn generate_within(&self, seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("waxman", "routers", self.routers, 1, 10_000)?;
        check_number("waxman", "alpha", self.alpha, 0.0, 1.0)?;
        check_number("waxman", "beta", self.beta, 0.0, 1.0)?;
        let nodes = with_hosts(self.routers.into(), self.hosts);
        check_size("waxman", tree_size(nodes), limit)?;
        // Nodes, and links of hosts.
        let fixed = 2 * nodes.unwrap_or(limit) - u64::from(self.routers);
        let mut places = RandomStream::new(seed, "topology/waxman/places");
        let mut graph = routers(self.routers);
        let place: Vec<[f64; 2]> =
            (0..self.routers).map(|_| [places.unit(), places.unit()]).collect();
        let mut rng = RandomStream::new(seed, "topology/waxman/links");
        for a in 0..self.routers {
            for b in a + 1..self.routers {
                let d = distance(place[a as usize], place[b as usize]);
                let p = self.alpha * (-d / (self.beta * std::f64::consts::SQRT_2)).exp();
                if rng.unit() < p {
                    graph.add_link(a, b, self.spec(d));
                    check_size("waxman", Some(fixed + graph.links.len() as u64), limit)?;
                }
            }
        }
        let joints = shortest_joints(&place, &graph.components());
        let links = graph.links.len() + joints.len();
        check_size("waxman", Some(fixed + links as u64), limit)?;
        for [a, b] in joints {
            graph.add_link(a, b, self.spec(distance(place[a as usize], place[b as usize])));
        }
        if self.hosts == 0 {
            for (node, place) in graph.nodes.iter_mut().zip(place) {
                node.position = Some(place);
            }
        }
        add_hosts(&mut graph, 0..self.routers, self.hosts, LinkSpec::default());
        Ok(graph)
    }
}

impl Waxman {
    fn spec(&self, distance: f64) -> LinkSpec {
        let nanos = (self.side.as_nanos() as f64 * distance) as u64;
        let delay = self.side.is_positive().then_some(Span::from_nanos(nanos));
        LinkSpec { delay, ..LinkSpec::default() }
    }
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// The shortest links that connect all components: Prim's algorithm, with distance zero between
/// nodes of the same component.
fn shortest_joints(place: &[[f64; 2]], component: &[u32]) -> Vec<[u32; 2]> {
    let mut joints = Vec::new();
    if component.iter().all(|component| *component == 0) {
        return joints;
    }
    let mut nearest = vec![(f64::INFINITY, 0); place.len()];
    let mut inside = vec![false; place.len()];
    let mut node = 0;
    for _ in 1..place.len() {
        inside[node] = true;
        let mut best = usize::MAX;
        for other in (0..place.len()).filter(|other| !inside[*other]) {
            let joined = component[other] == component[node];
            let d = if joined { 0.0 } else { distance(place[node], place[other]) };
            if d < nearest[other].0 {
                nearest[other] = (d, node);
            }
            if best == usize::MAX || nearest[other].0 < nearest[best].0 {
                best = other;
            }
        }
        let from = nearest[best].1;
        if component[from] != component[best] {
            joints.push([from as u32, best as u32]);
        }
        node = best;
    }
    joints
}

/// Barabási and Albert's scale-free graph (Science 286, 1999): it starts as a clique of `links` + 1
/// routers, and each further one links to `links` others, preferring those of high degree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarabasiAlbert {
    /// Number of routers, more than `links`.
    pub routers: u32,
    /// Links that every new router adds, at least 1.
    pub links: u32,
    /// Hosts per router.
    pub hosts: u32,
}

impl Generator for BarabasiAlbert {
    fn generate_within(&self, seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("barabasi-albert", "links", self.links, 1, 1_000)?;
        check_count("barabasi-albert", "routers", self.routers, self.links + 1, 1_000_000)?;
        let (router_count, links_each) = (u64::from(self.routers), u64::from(self.links));
        let clique = links_each * (links_each + 1) / 2;
        let links = clique + (router_count - links_each - 1) * links_each;
        let hosts = router_count.checked_mul(self.hosts.into());
        let size = hosts.and_then(|hosts| hosts.checked_mul(2)?.checked_add(router_count + links));
        check_size("barabasi-albert", size, limit)?;
        let mut rng = RandomStream::new(seed, "topology/barabasi-albert/links");
        let mut graph = routers(self.routers);
        // Both ends of every link: a uniform sample is a sample of routers by degree.
        let mut ends: Vec<u32> = Vec::with_capacity(2 * links as usize);
        for router in 1..=self.links {
            for other in 0..router {
                graph.add_link(router, other, LinkSpec::default());
                ends.extend([router, other]);
            }
        }
        for router in self.links + 1..self.routers {
            let mut chosen = BTreeSet::new();
            while chosen.len() < self.links as usize {
                chosen.insert(ends[pick(&mut rng, ends.len())]);
            }
            for other in chosen {
                graph.add_link(router, other, LinkSpec::default());
                ends.extend([router, other]);
            }
        }
        add_hosts(&mut graph, 0..self.routers, self.hosts, LinkSpec::default());
        Ok(graph)
    }
}
