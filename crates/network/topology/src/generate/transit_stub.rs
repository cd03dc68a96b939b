//! The transit-stub model of Zegura, Calvert and Bhattacharjee (How to Model an Internetwork,
//! INFOCOM 1996), which became a common model of the Internet through their GT-ITM package.
//!
//! Transit domains form a connected random graph; every transit router serves stub domains,
//! which carry only the traffic of their own hosts. Within a domain two routers are linked
//! with a fixed probability.
//!
//! Deviations: domains have exactly the given sizes (GT-ITM samples them around a mean), so that a
//! network of 1,100 routers has 1,100; and an unconnected domain is repaired with random links
//! between its components instead of being generated again.

use std::collections::BTreeSet;
use std::ops::Range;

use base::{Bandwidth, RandomStream, Span};

use super::{Generator, add_hosts, check_count, check_number, check_size, pick, tree_size};
use crate::{Class, Error, Graph, LinkSpec, Node, Role};

/// Transit domains whose routers serve stub domains. Routers are named `t1-2` (domain, number) and
/// `s1-2-3-4` (transit domain and number, stub domain, number); hosts are attached to stub routers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransitStub {
    /// Transit domains, from 1 to 1,000.
    pub transit_domains: u32,
    /// Routers of each transit domain, from 1 to 1,000.
    pub transit_routers: u32,
    /// Stub domains of each transit router, up to 1,000.
    pub stubs: u32,
    /// Routers of each stub domain, from 1 to 1,000.
    pub stub_routers: u32,
    /// Probability of a link between two transit domains, in addition to those
    /// that connect all domains.
    pub domain_links: f64,
    /// Probability of a link between two routers of a transit domain.
    pub transit_links: f64,
    /// Probability of a link between two routers of a stub domain.
    pub stub_links: f64,
    /// Additional links from random stub routers to random transit routers.
    pub extra_transit_stub: u32,
    /// Additional links between random stub routers of different domains.
    pub extra_stub_stub: u32,
    /// Hosts per stub router.
    pub hosts: u32,
    /// Rate of links between transit routers.
    pub transit_rate: Bandwidth,
    /// Rate of the other links between routers.
    pub stub_rate: Bandwidth,
    /// Rate of hosts' links.
    pub host_rate: Bandwidth,
    /// Delays of links between routers are uniform from the first to the second.
    pub delay: [Span; 2],
    /// Delay of hosts' links.
    pub host_delay: Span,
}

impl Default for TransitStub {
    /// 110 routers (10 of them transit) without hosts; rates and delays as in the SLBN paper's
    /// experiments: 5 Gbit/s, 1 Gbit/s, 100 Mbit/s, 1–10 ms, 1 µs.
    fn default() -> Self {
        Self {
            transit_domains: 2,
            transit_routers: 5,
            stubs: 1,
            stub_routers: 10,
            domain_links: 0.5,
            transit_links: 0.6,
            stub_links: 0.4,
            extra_transit_stub: 0,
            extra_stub_stub: 0,
            hosts: 0,
            transit_rate: Bandwidth::from_mbits_per_sec(5_000),
            stub_rate: Bandwidth::from_mbits_per_sec(1_000),
            host_rate: Bandwidth::from_mbits_per_sec(100),
            delay: [Span::from_millis(1), Span::from_millis(10)],
            host_delay: Span::from_micros(1),
        }
    }
}

const KIND: &str = "transit-stub";

impl TransitStub {
    /// 1,100 routers: 10 transit domains of 10, each router with one stub domain of 10.
    pub fn medium() -> Self {
        Self { transit_domains: 10, transit_routers: 10, ..Self::default() }
    }

    /// 11,000 routers: 50 transit domains of 20, each router with one stub domain of 10.
    pub fn large() -> Self {
        Self { transit_domains: 50, transit_routers: 20, domain_links: 0.1, ..Self::default() }
    }

    fn check(&self) -> Result<(), Error> {
        check_count(KIND, "transit_domains", self.transit_domains, 1, 1_000)?;
        check_count(KIND, "transit_routers", self.transit_routers, 1, 1_000)?;
        check_count(KIND, "stubs", self.stubs, 0, 1_000)?;
        check_count(KIND, "stub_routers", self.stub_routers, 1, 1_000)?;
        // Slightly below zero, since the lower bound is excluded and 0 is allowed.
        let least = -f64::MIN_POSITIVE;
        check_number(KIND, "domain_links", self.domain_links, least, 1.0)?;
        check_number(KIND, "transit_links", self.transit_links, least, 1.0)?;
        check_number(KIND, "stub_links", self.stub_links, least, 1.0)?;
        if self.delay[0] > self.delay[1] {
            return Err(Error::Parameter {
                generator: KIND,
                parameter: "delay",
                value: format!("{} to {}", self.delay[0], self.delay[1]),
                allowed: "the smaller first".to_owned(),
            });
        }
        Ok(())
    }

    /// Rejects more nodes and links than `limit`; returns the number of nodes and of hosts' links.
    fn check_size(&self, limit: u64) -> Result<u64, Error> {
        let transit = u64::from(self.transit_domains) * u64::from(self.transit_routers);
        let stub = transit * u64::from(self.stubs) * u64::from(self.stub_routers);
        let routers = transit + stub;
        let hosts = stub.checked_mul(self.hosts.into());
        let nodes = hosts.and_then(|hosts| hosts.checked_add(routers));
        check_size(KIND, tree_size(nodes), limit)?;
        // Not above the limit, so it fits.
        Ok(routers + 2 * hosts.unwrap_or_default())
    }
}

impl Generator for TransitStub {
    fn generate_within(&self, seed: u64, limit: u64) -> Result<Graph, Error> {
        self.check()?;
        let fixed = self.check_size(limit)?;
        let mut builder = Builder {
            shape: self,
            fixed,
            limit,
            graph: Graph::default(),
            rng: RandomStream::new(seed, "topology/transit-stub/links"),
            delays: RandomStream::new(seed, "topology/transit-stub/delays"),
        };
        let domains = builder.transit_domains();
        builder.join_domains(&domains)?;
        let stubs = builder.stub_domains(&domains)?;
        builder.extra_links(&domains, &stubs)?;
        let mut graph = builder.graph;
        let spec = LinkSpec {
            delay: Some(self.host_delay),
            rate: Some(self.host_rate),
            ..LinkSpec::default()
        };
        add_hosts(&mut graph, stubs.into_iter().flatten(), self.hosts, spec);
        Ok(graph)
    }
}

struct Builder<'a> {
    shape: &'a TransitStub,
    /// Number of nodes and of hosts' links, in addition to the links so far.
    fixed: u64,
    limit: u64,
    graph: Graph,
    rng: RandomStream,
    delays: RandomStream,
}

impl Builder<'_> {
    fn transit_domains(&mut self) -> Vec<Range<u32>> {
        let mut domains = Vec::new();
        for domain in 1..=self.shape.transit_domains {
            let first = self.graph.nodes.len() as u32;
            for router in 1..=self.shape.transit_routers {
                self.graph.add_node(Node::new(format!("t{domain}-{router}"), Role::Router));
            }
            domains.push(first..self.graph.nodes.len() as u32);
        }
        domains
    }

    /// Links within transit domains, and between random routers of domains.
    fn join_domains(&mut self, domains: &[Range<u32>]) -> Result<(), Error> {
        for domain in domains {
            let size = domain.len();
            for [a, b] in connected(&mut self.rng, size, self.shape.transit_links) {
                self.link(domain.start + a, domain.start + b, Class::Core);
            }
            self.check_size()?;
        }
        for [a, b] in connected(&mut self.rng, domains.len(), self.shape.domain_links) {
            let [a, b] = [a, b].map(|domain| self.any_of(&domains[domain as usize]));
            self.link(a, b, Class::Core);
        }
        self.check_size()
    }

    fn stub_domains(&mut self, domains: &[Range<u32>]) -> Result<Vec<Range<u32>>, Error> {
        let mut stubs = Vec::new();
        for transit in domains.iter().cloned().flatten() {
            let name = self.graph.nodes[transit as usize].name[1..].to_owned();
            for stub in 1..=self.shape.stubs {
                let first = self.graph.nodes.len() as u32;
                for router in 1..=self.shape.stub_routers {
                    let name = format!("s{name}-{stub}-{router}");
                    self.graph.add_node(Node::new(name, Role::Router));
                }
                let range = first..self.graph.nodes.len() as u32;
                for [a, b] in connected(&mut self.rng, range.len(), self.shape.stub_links) {
                    self.link(first + a, first + b, Class::Aggregation);
                }
                let gateway = self.any_of(&range);
                self.link(gateway, transit, Class::Aggregation);
                self.check_size()?;
                stubs.push(range);
            }
        }
        Ok(stubs)
    }

    fn extra_links(&mut self, domains: &[Range<u32>], stubs: &[Range<u32>]) -> Result<(), Error> {
        if stubs.is_empty() {
            return Ok(());
        }
        for _ in 0..self.shape.extra_transit_stub {
            let stub = pick(&mut self.rng, stubs.len());
            let domain = pick(&mut self.rng, domains.len());
            let [a, b] = [self.any_of(&stubs[stub]), self.any_of(&domains[domain])];
            self.link(a, b, Class::Aggregation);
            self.check_size()?;
        }
        for _ in 0..self.shape.extra_stub_stub {
            if stubs.len() < 2 {
                return Ok(());
            }
            let first = pick(&mut self.rng, stubs.len());
            let second = (first + 1 + pick(&mut self.rng, stubs.len() - 1)) % stubs.len();
            let [a, b] = [first, second].map(|stub| self.any_of(&stubs[stub]));
            self.link(a, b, Class::Aggregation);
            self.check_size()?;
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), Error> {
        check_size(KIND, Some(self.fixed + self.graph.links.len() as u64), self.limit)
    }

    fn any_of(&mut self, range: &Range<u32>) -> u32 {
        range.start + pick(&mut self.rng, range.len()) as u32
    }

    fn link(&mut self, a: u32, b: u32, class: Class) {
        let [least, most] = self.shape.delay;
        let width = (most - least).as_nanos().saturating_add(1);
        let delay = Some(least + Span::from_nanos(self.delays.below(width)));
        let rate = match class {
            Class::Core => self.shape.transit_rate,
            _ => self.shape.stub_rate,
        };
        let spec = LinkSpec { delay, rate: Some(rate), ..LinkSpec::default() };
        self.graph.add_link(a, b, spec).class = class;
    }
}

/// A connected random graph of `size` nodes: each pair is linked with probability `p`; random links
/// then connect the remaining components.
fn connected(rng: &mut RandomStream, size: usize, p: f64) -> Vec<[u32; 2]> {
    let mut links = Vec::new();
    let mut component: Vec<usize> = (0..size).collect();
    let join = |component: &mut Vec<usize>, a: usize, b: usize| {
        let (from, to) = (component[b], component[a]);
        if from != to {
            component.iter_mut().filter(|c| **c == from).for_each(|c| *c = to);
        }
    };
    for a in 0..size {
        for b in a + 1..size {
            if rng.unit() < p {
                links.push([a as u32, b as u32]);
                join(&mut component, a, b);
            }
        }
    }
    loop {
        let names: Vec<usize> =
            component.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        if names.len() < 2 {
            return links;
        }
        let mut member = |name: usize| {
            let members: Vec<usize> = (0..size).filter(|node| component[*node] == name).collect();
            members[pick(rng, members.len())]
        };
        let (a, b) = (member(names[0]), member(names[1]));
        links.push([a as u32, b as u32]);
        join(&mut component, a, b);
    }
}
