//! Small random networks: trees, meshes, and hierarchies similar to transit-stub networks.

use std::collections::VecDeque;

use base::{Bandwidth, RandomStream, Span};

use crate::exchange::Wire;

#[derive(Clone, Copy)]
enum Delays {
    /// All equal: sessions are synchronised.
    Equal,
    /// Uniform, as in the paper's networks.
    Uniform,
    /// Over three orders of magnitude, different in each direction.
    Wide,
}

#[derive(Clone, Copy)]
enum Capacities {
    Equal,
    /// A few classes, as in the paper's networks.
    Classes,
    /// Uniform within a factor of 100.
    Any,
}

pub(super) struct Network {
    /// Directed: 2l and 2l + 1 are the two directions of link l.
    pub(super) wires: Vec<Wire>,
    /// By node: (neighbour, directed link to it).
    neighbours: Vec<Vec<(u32, u32)>>,
    /// Typical capacity, bit/s.
    pub(super) scale: f64,
    delays: Delays,
    capacities: Capacities,
    unit: u64,
}

impl Network {
    pub(super) fn draw(rng: &mut RandomStream) -> Self {
        let delays = [Delays::Equal, Delays::Uniform, Delays::Wide][rng.below(3) as usize];
        let capacities =
            [Capacities::Equal, Capacities::Classes, Capacities::Any][rng.below(3) as usize];
        let mut network = Self {
            wires: Vec::new(),
            neighbours: Vec::new(),
            scale: 10.0_f64.powf(rng.unit().mul_add(4.0, 9.0)),
            delays,
            capacities,
            unit: 1_000_000,
        };
        match rng.below(4) {
            0 => network.tree(2 + rng.below(30) as u32, rng),
            1 => network.mesh(rng),
            2 => network.chain(2 + rng.below(12) as u32, rng),
            _ => network.hierarchy(rng),
        }
        // Hosts on separate links, or sessions directly between routers.
        if rng.below(2) == 0 {
            network.hosts(rng);
        }
        network
    }

    pub(super) fn longest_delay(&self) -> Span {
        self.wires.iter().map(|wire| wire.delay).max().unwrap_or_default()
    }

    fn node(&mut self) -> u32 {
        self.neighbours.push(Vec::new());
        self.neighbours.len() as u32 - 1
    }

    fn connect(&mut self, a: u32, b: u32, class: usize, rng: &mut RandomStream) {
        let link = self.wires.len() as u32;
        let (there, back) = (self.delay(rng), self.delay(rng));
        for (delay, back) in [(there, back), (back, there)] {
            let capacity = self.capacity(class, rng);
            self.wires.push(Wire { capacity, delay, back });
        }
        self.neighbours[a as usize].push((b, link));
        self.neighbours[b as usize].push((a, link + 1));
    }

    fn delay(&self, rng: &mut RandomStream) -> Span {
        Span::from_nanos(match self.delays {
            Delays::Equal => self.unit,
            Delays::Uniform => self.unit + rng.below(9 * self.unit),
            Delays::Wide => (self.unit as f64 * 10.0_f64.powf(rng.unit() * 3.0 - 2.0)) as u64,
        })
    }

    fn capacity(&self, class: usize, rng: &mut RandomStream) -> Bandwidth {
        Bandwidth::from_bits_per_sec(match self.capacities {
            Capacities::Equal => self.scale as u64,
            Capacities::Classes => (self.scale * [0.1, 1.0, 5.0][class]) as u64,
            Capacities::Any => (self.scale * 10.0_f64.powf(rng.unit() * 2.0 - 1.0)) as u64,
        })
    }

    fn tree(&mut self, nodes: u32, rng: &mut RandomStream) {
        let first = self.node();
        for already in 1..nodes {
            let node = self.node();
            let parent = first + rng.below(already.into()) as u32;
            self.connect(parent, node, 1, rng);
        }
    }

    fn chain(&mut self, nodes: u32, rng: &mut RandomStream) {
        let mut last = self.node();
        for _ in 1..nodes {
            let node = self.node();
            self.connect(last, node, 1, rng);
            last = node;
        }
    }

    fn mesh(&mut self, rng: &mut RandomStream) {
        let nodes = 3 + rng.below(25);
        self.tree(nodes as u32, rng);
        for _ in 0..rng.below(2 * nodes) {
            let (a, b) = (rng.below(nodes) as u32, rng.below(nodes) as u32);
            if a != b {
                self.connect(a, b, 1, rng);
            }
        }
    }

    /// Stubs of a few routers each on a ring of transit routers.
    fn hierarchy(&mut self, rng: &mut RandomStream) {
        let transit = 2 + rng.below(4) as u32;
        let core: Vec<u32> = (0..transit).map(|_| self.node()).collect();
        for (a, b) in core.iter().zip(core.iter().cycle().skip(1)) {
            if a != b {
                self.connect(*a, *b, 2, rng);
            }
        }
        for &router in &core {
            for _ in 0..=rng.below(2) {
                let gateway = self.node();
                self.connect(router, gateway, 1, rng);
                let inner = rng.below(4) as u32;
                for place in 0..inner {
                    let node = self.node();
                    let parent = gateway + rng.below(u64::from(place) + 1) as u32;
                    self.connect(parent, node, 1, rng);
                }
            }
        }
    }

    fn hosts(&mut self, rng: &mut RandomStream) {
        let routers = self.neighbours.len() as u64;
        for _ in 0..2 + rng.below(2 * routers) {
            let host = self.node();
            self.connect(rng.below(routers) as u32, host, 0, rng);
        }
    }

    /// A shortest path between two random nodes.
    pub(super) fn path(&self, rng: &mut RandomStream) -> Vec<u32> {
        let nodes = self.neighbours.len() as u64;
        let from = rng.below(nodes) as u32;
        let to = (u64::from(from) + 1 + rng.below(nodes - 1)) % nodes;
        self.shortest(from, to as u32)
    }

    fn shortest(&self, from: u32, to: u32) -> Vec<u32> {
        // Searched from the end, so that the path can be followed from the start.
        let mut onward: Vec<Option<(u32, u32)>> = vec![None; self.neighbours.len()];
        let mut queue = VecDeque::from([to]);
        while let Some(node) = queue.pop_front() {
            for &(next, link) in &self.neighbours[node as usize] {
                if next != to && onward[next as usize].is_none() {
                    onward[next as usize] = Some((node, link ^ 1));
                    queue.push_back(next);
                }
            }
        }
        let mut path = Vec::new();
        let mut node = from;
        while let Some((next, link)) = onward[node as usize] {
            path.push(link);
            node = next;
        }
        path
    }
}
