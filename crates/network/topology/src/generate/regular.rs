//! Deterministic graphs.

use super::{Generator, add_hosts, check_count, check_size, routers, tree_size, with_hosts};
use crate::{Class, Error, Graph, LinkSpec, Node, Role};

/// Routers in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of routers, at least 1.
    pub routers: u32,
    /// Hosts per router.
    pub hosts: u32,
}

impl Generator for Line {
    fn generate_within(&self, _seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("line", "routers", self.routers, 1, 1_000_000)?;
        check_size("line", tree_size(with_hosts(self.routers.into(), self.hosts)), limit)?;
        let mut graph = routers(self.routers);
        for router in 1..self.routers {
            graph.add_link(router - 1, router, LinkSpec::default());
        }
        add_hosts(&mut graph, 0..self.routers, self.hosts, LinkSpec::default());
        Ok(graph)
    }
}

/// Routers in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Number of routers, at least 3.
    pub routers: u32,
    /// Hosts per router.
    pub hosts: u32,
}

impl Generator for Ring {
    fn generate_within(&self, _seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("ring", "routers", self.routers, 3, 1_000_000)?;
        // As many links as nodes.
        let nodes = with_hosts(self.routers.into(), self.hosts);
        check_size("ring", nodes.and_then(|nodes| nodes.checked_mul(2)), limit)?;
        let mut graph = routers(self.routers);
        for router in 0..self.routers {
            graph.add_link(router, (router + 1) % self.routers, LinkSpec::default());
        }
        add_hosts(&mut graph, 0..self.routers, self.hosts, LinkSpec::default());
        Ok(graph)
    }
}

/// Hosts `h1`, `h2`, … around one node `hub`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Star {
    /// Number of hosts, at least 1.
    pub hosts: u32,
    /// Role of the hub: router or switch.
    pub hub: Role,
}

impl Generator for Star {
    fn generate_within(&self, _seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("star", "hosts", self.hosts, 1, 999_999)?;
        if self.hub == Role::Host {
            return Err(Error::Parameter {
                generator: "star",
                parameter: "hub",
                value: "a host".to_owned(),
                allowed: "a router or a switch".to_owned(),
            });
        }
        check_size("star", tree_size(Some(u64::from(self.hosts) + 1)), limit)?;
        let mut graph = Graph::default();
        let hub = graph.add_node(Node::new("hub", self.hub));
        for index in 1..=self.hosts {
            let host = graph.add_node(Node::new(format!("h{index}"), Role::Host));
            graph.add_link(host, hub, LinkSpec::default());
        }
        Ok(graph)
    }
}

/// Hosts `l1`, `l2`, … and `r1`, `r2`, … on either side of the link between the routers `core1`
/// and `core2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    /// Hosts on the left, at least 1.
    pub left: u32,
    /// Hosts on the right, at least 1.
    pub right: u32,
}

impl Generator for Dumbbell {
    fn generate_within(&self, _seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("dumbbell", "left", self.left, 1, 499_999)?;
        check_count("dumbbell", "right", self.right, 1, 499_999)?;
        let hosts = u64::from(self.left) + u64::from(self.right);
        check_size("dumbbell", tree_size(Some(hosts + 2)), limit)?;
        let mut graph = Graph::default();
        let core = ["core1", "core2"].map(|name| graph.add_node(Node::new(name, Role::Router)));
        graph.add_link(core[0], core[1], LinkSpec::default()).name = Some("core".to_owned());
        for (router, letter, hosts) in [(core[0], 'l', self.left), (core[1], 'r', self.right)] {
            for index in 1..=hosts {
                let host = graph.add_node(Node::new(format!("{letter}{index}"), Role::Host));
                graph.add_link(host, router, LinkSpec::default());
            }
        }
        Ok(graph)
    }
}

/// A tree of routers, `r1` at the root, with hosts `h1`, `h2`, … as leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Levels of routers, at least 1.
    pub depth: u32,
    /// Children of every router, at least 1.
    pub fanout: u32,
}

impl Generator for Tree {
    fn generate_within(&self, _seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("tree", "depth", self.depth, 1, 64)?;
        check_count("tree", "fanout", self.fanout, 1, 1_000_000)?;
        let (mut level, mut nodes) = (Some(1u64), Some(1u64));
        for _ in 0..self.depth {
            level = level.and_then(|count| count.checked_mul(self.fanout.into()));
            nodes = nodes.and_then(|sum| sum.checked_add(level?));
        }
        check_size("tree", tree_size(nodes), limit)?;
        let mut graph = Graph::default();
        let mut parents = vec![graph.add_node(Node::new("r1", Role::Router))];
        let (mut router_count, mut host_count) = (1, 0);
        for level in 1..=self.depth {
            let mut children = Vec::new();
            for parent in parents {
                for _ in 0..self.fanout {
                    let (letter, role, count) = if level == self.depth {
                        ('h', Role::Host, &mut host_count)
                    } else {
                        ('r', Role::Router, &mut router_count)
                    };
                    *count += 1;
                    let child = graph.add_node(Node::new(format!("{letter}{count}"), role));
                    graph.add_link(child, parent, LinkSpec::default());
                    children.push(child);
                }
            }
            parents = children;
        }
        Ok(graph)
    }
}

/// Routers `r1-1` (row, column) to `rR-C` in a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Rows, at least 1.
    pub rows: u32,
    /// Columns, at least 1.
    pub columns: u32,
    /// Whether the last router of each row and column has a link to the first, if there
    /// are at least 3.
    pub wrap: bool,
    /// Hosts per router.
    pub hosts: u32,
}

impl Grid {
    /// Number of nodes and links.
    fn size(&self) -> Option<u64> {
        let [rows, columns] = [self.rows, self.columns].map(u64::from);
        let routers = rows * columns;
        // Links along a row or column of this many routers.
        let links = |count: u64| if self.wrap && count >= 3 { count } else { count - 1 };
        let between = rows * links(columns) + columns * links(rows);
        let hosts = routers.checked_mul(self.hosts.into())?;
        hosts.checked_mul(2)?.checked_add(routers + between)
    }
}

impl Generator for Grid {
    fn generate_within(&self, _seed: u64, limit: u64) -> Result<Graph, Error> {
        let (rows, columns) = (self.rows, self.columns);
        check_count("grid", "rows", rows, 1, 1_000_000)?;
        check_count("grid", "columns", columns, 1, 1_000_000)?;
        check_size("grid", self.size(), limit)?;
        let mut graph = Graph::default();
        for row in 0..rows {
            for column in 0..columns {
                let mut node = Node::new(format!("r{}-{}", row + 1, column + 1), Role::Router);
                node.position = (self.hosts == 0).then_some([f64::from(column), f64::from(row)]);
                graph.add_node(node);
            }
        }
        let wrapped = |count: u32| (self.wrap && count >= 3).then_some(0);
        let next = |at: u32, count| if at + 1 < count { Some(at + 1) } else { wrapped(count) };
        for row in 0..rows {
            for column in 0..columns {
                let here = row * columns + column;
                if let Some(right) = next(column, columns) {
                    graph.add_link(here, row * columns + right, LinkSpec::default());
                }
                if let Some(below) = next(row, rows) {
                    graph.add_link(here, below * columns + column, LinkSpec::default());
                }
            }
        }
        add_hosts(&mut graph, 0..rows * columns, self.hosts, LinkSpec::default());
        Ok(graph)
    }
}

/// The k-ary fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): (k/2)² core routers `c1`…,
/// and k pods of k/2 aggregation routers `a1-1` (pod, number)…, k/2 edge routers `e1-1`… and
/// (k/2)² hosts `h1-1-1` (pod, edge router, number)….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Ports of every router: even, from 2 to 128.
    pub k: u32,
}

impl Generator for FatTree {
    fn generate_within(&self, _seed: u64, limit: u64) -> Result<Graph, Error> {
        check_count("fat-tree", "k", self.k, 2, 128)?;
        if !self.k.is_multiple_of(2) {
            return Err(Error::Parameter {
                generator: "fat-tree",
                parameter: "k",
                value: self.k.to_string(),
                allowed: "even".to_owned(),
            });
        }
        let half = self.k / 2;
        // (k/2)² core routers, k² other routers, k·(k/2)² hosts. Each of three layers has as many
        // links as there are hosts.
        let hosts = u64::from(self.k) * u64::from(half * half);
        let nodes = u64::from(half * half) + u64::from(self.k).pow(2) + hosts;
        check_size("fat-tree", Some(nodes + 3 * hosts), limit)?;
        let mut graph = Graph::default();
        for index in 1..=half * half {
            graph.add_node(Node::new(format!("c{index}"), Role::Router));
        }
        for pod in 1..=self.k {
            let mut layer = |letter: char| -> Vec<u32> {
                let name = |index| format!("{letter}{pod}-{index}");
                (1..=half).map(|i| graph.add_node(Node::new(name(i), Role::Router))).collect()
            };
            let (above, edges) = (layer('a'), layer('e'));
            for (index, &router) in above.iter().enumerate() {
                for core in 0..half {
                    graph.add_link(router, index as u32 * half + core, LinkSpec::default());
                }
            }
            for &edge in &edges {
                for &router in &above {
                    let link = graph.add_link(edge, router, LinkSpec::default());
                    link.class = Class::Aggregation;
                }
            }
            add_hosts(&mut graph, edges.into_iter(), half, LinkSpec::default());
        }
        Ok(graph)
    }
}
