//! Generators: structs of parameters with the method [`Generator::generate`].
//!
//! Every graph is connected, and equal parameters and seeds give equal graphs. Links have only the
//! properties that the model defines (distances, rates of the hierarchy). Hosts are attached to
//! routers: the host of `r3` is `h3`, or `h3-1`, `h3-2`, … if there are several.

use base::RandomStream;

use crate::{Error, Graph, LinkSpec, MAX_ELEMENTS, Node, Role};

mod random;
mod regular;
mod transit_stub;

pub use random::{BarabasiAlbert, Waxman};
pub use regular::{Dumbbell, FatTree, Grid, Line, Ring, Star, Tree};
pub use transit_stub::TransitStub;

/// A model of networks.
pub trait Generator {
    /// Builds the graph.
    ///
    /// # Errors
    /// If a parameter is out of bounds, or the graph has more than [`MAX_ELEMENTS`].
    fn generate(&self, seed: u64) -> Result<Graph, Error> {
        self.generate_within(seed, MAX_ELEMENTS)
    }

    /// [`generate`](Self::generate) with another limit of nodes and links together. The size is
    /// computed before the graph is built, except for random links: they are counted.
    ///
    /// # Errors
    /// If a parameter is out of bounds, or the graph has more nodes and links than `limit`.
    fn generate_within(&self, seed: u64, limit: u64) -> Result<Graph, Error>;
}

/// Rejects a count outside `least..=most`.
fn check_count(
    generator: &'static str,
    parameter: &'static str,
    value: u32,
    least: u32,
    most: u32,
) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let allowed = format!("from {least} to {most}");
    Err(Error::Parameter { generator, parameter, value: value.to_string(), allowed })
}

/// Rejects NaN and numbers that are not above `least` and at most `most`.
fn check_number(
    generator: &'static str,
    parameter: &'static str,
    value: f64,
    least: f64,
    most: f64,
) -> Result<(), Error> {
    if value > least && value <= most {
        return Ok(());
    }
    let allowed = format!("above {least} and at most {most}");
    Err(Error::Parameter { generator, parameter, value: value.to_string(), allowed })
}

/// Rejects more nodes and links than `limit`. `None` means more than 64 bits can represent.
fn check_size(generator: &'static str, count: Option<u64>, limit: u64) -> Result<(), Error> {
    let count = count.unwrap_or(u64::MAX);
    if count > limit { Err(Error::TooLarge { generator, count, limit }) } else { Ok(()) }
}

/// The number of nodes if each of `routers` has `hosts`.
fn with_hosts(routers: u64, hosts: u32) -> Option<u64> {
    routers.checked_mul(u64::from(hosts) + 1)
}

/// Nodes and links of a tree with this number of nodes: the minimum of a connected graph.
fn tree_size(nodes: Option<u64>) -> Option<u64> {
    nodes?.checked_mul(2)?.checked_sub(1)
}

/// `count` routers named `r1`, `r2`, …
fn routers(count: u32) -> Graph {
    let mut graph = Graph::default();
    for index in 1..=count {
        graph.add_node(Node::new(format!("r{index}"), Role::Router));
    }
    graph
}

/// Adds `hosts` hosts to each of the given routers.
fn add_hosts(graph: &mut Graph, routers: impl Iterator<Item = u32>, hosts: u32, spec: LinkSpec) {
    for router in routers {
        let name = graph.nodes[router as usize].name.clone();
        let stem = format!("h{}", &name[1..]);
        for index in 1..=hosts {
            let name = if hosts == 1 { stem.clone() } else { format!("{stem}-{index}") };
            let host = graph.add_node(Node::new(name, Role::Host));
            graph.add_link(host, router, spec);
        }
    }
}

/// An index below `count`, which must not be 0.
fn pick(rng: &mut RandomStream, count: usize) -> usize {
    rng.below(count as u64) as usize
}

#[cfg(test)]
mod tests;
