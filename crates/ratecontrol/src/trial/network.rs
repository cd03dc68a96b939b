//! Small random networks: trees, meshes, and hierarchies like transit-stub ones.

use std::collections::VecDeque;

use base::{Bandwidth, RandomStream, Span};

use crate::exchange::Wire;

#[derive(Clone, Copy)]
enum Delays {
    /// All equal: sessions move in lockstep.
    Equal,
    /// Uniform, as in the paper's networks.
    Uniform,
    /// Over three orders of magnitude, and another one back.
    Wide,
}

#[derive(Clone, Copy)]
enum Capacities {
    Equal,
    /// A few classes, as in the paper's networks.
    Classes,
    /// Any within a factor of 100.
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
    pub(super) fn draw(dice: &mut RandomStream) -> Self {
        let delays = [Delays::Equal, Delays::Uniform, Delays::Wide][dice.below(3) as usize];
        let capacities =
            [Capacities::Equal, Capacities::Classes, Capacities::Any][dice.below(3) as usize];
        let mut network = Self {
            wires: Vec::new(),
            neighbours: Vec::new(),
            scale: 10.0_f64.powf(dice.unit().mul_add(4.0, 9.0)),
            delays,
            capacities,
            unit: 1_000_000,
        };
        match dice.below(4) {
            0 => network.tree(2 + dice.below(30) as u32, dice),
            1 => network.mesh(dice),
            2 => network.chain(2 + dice.below(12) as u32, dice),
            _ => network.hierarchy(dice),
        }
        // Hosts on links of their own, or sessions between routers.
        if dice.below(2) == 0 {
            network.hosts(dice);
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

    fn connect(&mut self, a: u32, b: u32, class: usize, dice: &mut RandomStream) {
        let link = self.wires.len() as u32;
        let (there, back) = (self.delay(dice), self.delay(dice));
        for (delay, back) in [(there, back), (back, there)] {
            let capacity = self.capacity(class, dice);
            self.wires.push(Wire { capacity, delay, back });
        }
        self.neighbours[a as usize].push((b, link));
        self.neighbours[b as usize].push((a, link + 1));
    }

    fn delay(&self, dice: &mut RandomStream) -> Span {
        Span::from_nanos(match self.delays {
            Delays::Equal => self.unit,
            Delays::Uniform => self.unit + dice.below(9 * self.unit),
            Delays::Wide => (self.unit as f64 * 10.0_f64.powf(dice.unit() * 3.0 - 2.0)) as u64,
        })
    }

    fn capacity(&self, class: usize, dice: &mut RandomStream) -> Bandwidth {
        Bandwidth::from_bits_per_sec(match self.capacities {
            Capacities::Equal => self.scale as u64,
            Capacities::Classes => (self.scale * [0.1, 1.0, 5.0][class]) as u64,
            Capacities::Any => (self.scale * 10.0_f64.powf(dice.unit() * 2.0 - 1.0)) as u64,
        })
    }

    fn tree(&mut self, nodes: u32, dice: &mut RandomStream) {
        let first = self.node();
        for already in 1..nodes {
            let node = self.node();
            let parent = first + dice.below(already.into()) as u32;
            self.connect(parent, node, 1, dice);
        }
    }

    fn chain(&mut self, nodes: u32, dice: &mut RandomStream) {
        let mut last = self.node();
        for _ in 1..nodes {
            let node = self.node();
            self.connect(last, node, 1, dice);
            last = node;
        }
    }

    fn mesh(&mut self, dice: &mut RandomStream) {
        let nodes = 3 + dice.below(25);
        self.tree(nodes as u32, dice);
        for _ in 0..dice.below(2 * nodes) {
            let (a, b) = (dice.below(nodes) as u32, dice.below(nodes) as u32);
            if a != b {
                self.connect(a, b, 1, dice);
            }
        }
    }

    /// Stubs of a few routers each on a ring of transit routers.
    fn hierarchy(&mut self, dice: &mut RandomStream) {
        let transit = 2 + dice.below(4) as u32;
        let core: Vec<u32> = (0..transit).map(|_| self.node()).collect();
        for (a, b) in core.iter().zip(core.iter().cycle().skip(1)) {
            if a != b {
                self.connect(*a, *b, 2, dice);
            }
        }
        for &router in &core {
            for _ in 0..=dice.below(2) {
                let gateway = self.node();
                self.connect(router, gateway, 1, dice);
                let inner = dice.below(4) as u32;
                for place in 0..inner {
                    let node = self.node();
                    let parent = gateway + dice.below(u64::from(place) + 1) as u32;
                    self.connect(parent, node, 1, dice);
                }
            }
        }
    }

    fn hosts(&mut self, dice: &mut RandomStream) {
        let routers = self.neighbours.len() as u64;
        for _ in 0..2 + dice.below(2 * routers) {
            let host = self.node();
            self.connect(dice.below(routers) as u32, host, 0, dice);
        }
    }

    /// A shortest path between two nodes drawn at random.
    pub(super) fn path(&self, dice: &mut RandomStream) -> Vec<u32> {
        let nodes = self.neighbours.len() as u64;
        let from = dice.below(nodes) as u32;
        let to = (u64::from(from) + 1 + dice.below(nodes - 1)) % nodes;
        self.shortest(from, to as u32)
    }

    fn shortest(&self, from: u32, to: u32) -> Vec<u32> {
        // Searched from the end, so that the way is read from the start.
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
