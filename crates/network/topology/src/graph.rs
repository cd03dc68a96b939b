//! The output of generators and importers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::{Bandwidth, Ratio, Span};

use crate::shortest::{Adjacency, Arc};

/// Maximum number of nodes and links together of a generated or imported graph. In a lab each takes
/// about 1 kB.
pub const MAX_ELEMENTS: u64 = 1_000_000;

/// A network: nodes and the links between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Nodes; links refer to them by index.
    pub nodes: Vec<Node>,
    /// Links, in a fixed order.
    pub links: Vec<Link>,
    /// Parts of an imported file that are not in the graph.
    pub unused: Unused,
}

/// Parts of an imported file that are not in the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// Edges from a node to itself.
    pub self_loops: u64,
    /// Nodes that contain nodes, such as the groups of a drawing.
    pub groups: u64,
    /// Arcs of a directed file whose properties differ from those of the reverse arc before them.
    pub reverse_arcs: u64,
    /// Unused attributes that may be network properties, each with its number of nodes and edges.
    pub attributes: BTreeMap<String, u64>,
    /// Attributes that describe nodes and edges, such as `Country`.
    pub descriptions: BTreeSet<String>,
    /// Attributes of the network as a whole.
    pub of_network: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique in the graph and valid as a host name.
    pub name: String,
    pub role: Role,
    /// Position in a drawing, in any scale; x grows rightwards and y downwards.
    pub position: Option<[f64; 2]>,
    /// Rates from and to each host at this node.
    pub host_rates: [Option<Bandwidth>; 2],
    /// Further attributes from the source, such as `label` or `Country`.
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sends and receives, but does not forward.
    Host,
    /// Forwards at layer 3.
    Router,
    /// Forwards at layer 2.
    Switch,
}

/// A bidirectional link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The indices of its nodes.
    pub ends: [u32; 2],
    /// Its level in the hierarchy.
    pub class: Class,
    /// Properties from the source.
    pub spec: LinkSpec,
    /// Its name, if the source has one.
    pub name: Option<String>,
}

/// A link's level in the hierarchy, which selects its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Between a host and the network.
    Access,
    /// Below the core: within stub domains and between them and the core, and between the lower
    /// layers of a fat tree.
    Aggregation,
    Core,
}

/// Properties of a link; the lab's defaults replace `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSpec {
    /// One-way propagation delay.
    pub delay: Option<Span>,
    /// Rate of each direction.
    pub rate: Option<Bandwidth>,
    /// Rate of the second direction, if it differs.
    pub reverse_rate: Option<Bandwidth>,
    /// Probability that a packet is lost, in each direction.
    pub loss: Option<Ratio>,
    pub metric: Option<u32>,
}

impl LinkSpec {
    /// These properties, with `other`'s in place of `None`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            delay: self.delay.or(other.delay),
            rate: self.rate.or(other.rate),
            reverse_rate: self.reverse_rate.or(other.reverse_rate.filter(|_| self.rate.is_none())),
            loss: self.loss.or(other.loss),
            metric: self.metric.or(other.metric),
        }
    }
}

impl Node {
    /// A node without position and attributes.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        let (host_rates, attributes) = ([None; 2], BTreeMap::new());
        Self { name: name.into(), role, position: None, host_rates, attributes }
    }
}

/// Maximum number of attributes that a message names.
const MAX_NAMED: usize = 8;

/// Maximum number of descriptions that a message names.
const MAX_NAMED_DESCRIPTIONS: usize = 48;

impl Unused {
    /// Whether all of the file is in the graph.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts the attribute of a node or edge.
    pub fn add_attribute(&mut self, name: &str) {
        *self.attributes.entry(name.to_owned()).or_default() += 1;
    }

    /// The names of the descriptions, of nodes and edges before those of the network; `None` if
    /// there are none.
    pub fn named_descriptions(&self) -> Option<String> {
        let of_network = self.of_network.difference(&self.descriptions);
        let all: Vec<&String> = self.descriptions.iter().chain(of_network).collect();
        let (named, others) = all.split_at(all.len().min(MAX_NAMED_DESCRIPTIONS));
        let mut parts: Vec<String> = named.iter().map(|name| format!("`{name}`")).collect();
        parts.extend((!others.is_empty()).then(|| format!("{} others", others.len())));
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Removes text of the imported file, except the names of descriptions.
    #[must_use]
    pub fn without_text(mut self) -> Self {
        let sum = self.attributes.values().sum();
        self.attributes = (sum > 0).then(|| (String::new(), sum)).into_iter().collect();
        self
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.self_loops, "edge from a node to itself", "edges from a node to itself"),
            (self.groups, "node that contains nodes", "nodes that contain nodes"),
            (self.reverse_arcs, "arc unlike its reverse", "arcs unlike their reverse"),
            (self.attributes.get("").copied().unwrap_or(0), "attribute", "attributes"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        let mut parts: Vec<String> = counts
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        let named = self.attributes.iter().filter(|(name, _)| !name.is_empty());
        parts.extend(named.take(MAX_NAMED).map(|(name, count)| match count {
            1 => format!("attribute `{name}` (once)"),
            count => format!("attribute `{name}` ({count} times)"),
        }));
        if let Some(more @ 1..) = self.attributes.len().checked_sub(MAX_NAMED) {
            parts.push(format!("{more} other attributes"));
        }
        let descriptions =
            [(&self.descriptions, "nodes and links"), (&self.of_network, "the network")];
        for (names, what) in descriptions.into_iter().filter(|(names, _)| !names.is_empty()) {
            let plural = if names.len() == 1 { "" } else { "s" };
            parts.push(format!("{} description{plural} of {what}", names.len()));
        }
        f.write_str(&parts.join(", "))
    }
}

impl Graph {
    /// Number of nodes and links together.
    pub fn elements(&self) -> u64 {
        self.nodes.len() as u64 + self.links.len() as u64
    }

    /// Adds a node and returns its index.
    ///
    /// # Panics
    /// If the graph has 2³² nodes already.
    pub fn add_node(&mut self, node: Node) -> u32 {
        let index = u32::try_from(self.nodes.len()).expect("fewer than 2³² nodes fit in memory");
        self.nodes.push(node);
        index
    }

    /// Adds a link. Its class is `Access` if one of its ends is a host.
    ///
    /// # Panics
    /// If an end is not a node of the graph.
    pub fn add_link(&mut self, a: u32, b: u32, spec: LinkSpec) -> &mut Link {
        let host = |end: u32| self.nodes[end as usize].role == Role::Host;
        let class = if host(a) || host(b) { Class::Access } else { Class::Core };
        let at = self.links.len();
        self.links.push(Link { ends: [a, b], class, spec, name: None });
        &mut self.links[at]
    }

    /// Sets missing properties of all links of a class.
    pub fn fill(&mut self, class: Class, spec: LinkSpec) {
        for link in self.links.iter_mut().filter(|link| link.class == class) {
            link.spec = link.spec.or(spec);
        }
    }

    /// Adds `prefix` to all names.
    pub fn prefix(&mut self, prefix: &str) {
        for name in self.nodes.iter_mut().map(|node| &mut node.name) {
            name.insert_str(0, prefix);
        }
        for name in self.links.iter_mut().filter_map(|link| link.name.as_mut()) {
            name.insert_str(0, prefix);
        }
    }

    /// The graph for [`crate::shortest`]: arc `2l` starts at the first end of link `l`, arc `2l +
    /// 1` at the second; hosts carry no transit traffic.
    pub fn adjacency(&self, cost: impl Fn(&Link) -> u64) -> Adjacency {
        let mut adjacency = Adjacency::new(self.nodes.len());
        for (index, link) in self.links.iter().enumerate() {
            let ([a, b], id, cost) = (link.ends, 2 * index as u32, cost(link));
            adjacency.add(a, Arc { to: b, cost, id });
            adjacency.add(b, Arc { to: a, cost, id: id + 1 });
        }
        for (index, node) in self.nodes.iter().enumerate() {
            adjacency.set_transit(index as u32, node.role != Role::Host);
        }
        adjacency
    }

    /// The component of every node: nodes with equal numbers are connected. Numbers are 0, 1, … in
    /// the order of each component's first node.
    pub fn components(&self) -> Vec<u32> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for &Link { ends: [a, b], .. } in &self.links {
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
        let mut component = vec![u32::MAX; self.nodes.len()];
        let mut count = 0;
        for start in 0..self.nodes.len() {
            if component[start] != u32::MAX {
                continue;
            }
            component[start] = count;
            let mut open = vec![start as u32];
            while let Some(node) = open.pop() {
                for &next in &neighbours[node as usize] {
                    if component[next as usize] == u32::MAX {
                        component[next as usize] = count;
                        open.push(next);
                    }
                }
            }
            count += 1;
        }
        component
    }

    /// Whether there is a path between all nodes (also through hosts).
    pub fn is_connected(&self) -> bool {
        self.components().iter().all(|component| *component == 0)
    }
}
