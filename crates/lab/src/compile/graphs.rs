//! Generated and imported networks.

use std::path::Path;

use base::{Bandwidth, NodeId, Span};
use fabric::{LinkConfig, Rate};
use topology::generate::{
    BarabasiAlbert, Dumbbell, FatTree, Grid, Line, Ring, Star, TransitStub, Tree, Waxman,
};
use topology::import::Format;
use topology::{Class, Error, Graph, LinkSpec};

use super::Compiler;
use super::links::Draft;
use crate::code::Code;
use crate::plan::Role;
use crate::tree::{At, Table, Value};

impl Compiler<'_> {
    pub(super) fn read_graphs(&mut self) {
        for (at, table) in self.entries("generate") {
            if !self.fits_generator(table) {
                continue;
            }
            let seed = table.whole("seed").and_then(|seed| u64::try_from(seed).ok());
            let Some(graph) = generate(table, seed.unwrap_or(self.plan.seed)) else { continue };
            match graph {
                Ok(graph) => self.add_graph(graph, table, &at),
                Err(error) => {
                    let at = match &error {
                        Error::Parameter { parameter, .. } => table.get(parameter).map(|v| &v.at),
                        _ => None,
                    }
                    .unwrap_or(&at);
                    self.sink
                        .report(Code::BadGenerator, at, error.to_string())
                        .help("the reference page lists each model's parameters");
                }
            }
        }
    }

    /// Generators check their own limits, which are those without `max_items`.
    fn fits_generator(&mut self, table: &Table) -> bool {
        let most = self.input.max_items;
        let is_large = |value: &Value| {
            value.whole().is_some_and(|count| usize::try_from(count).is_ok_and(|n| n > most))
        };
        let sizes = table.entries.iter().filter(|entry| entry.key != "seed");
        let Some(entry) = sizes.into_iter().find(|entry| is_large(&entry.value)) else {
            return true;
        };
        let message = format!("`{}` is more than {most}", entry.key);
        self.sink.report(Code::Limit, &entry.value.at, message).help(format!("at most {most}"));
        false
    }

    pub(super) fn read_imports(&mut self) {
        for (at, table) in self.entries("import") {
            let Some(value) = table.get("file") else { continue };
            let Some(path) = value.text() else { continue };
            let format = match table.text("format") {
                Some(name) => Format::from_name(name),
                None => Format::from_path(Path::new(path)),
            };
            let Some(format) = format else {
                self.sink
                    .report(Code::BadImport, &value.at, format!("`{path}`: which format is this?"))
                    .help("say `format = \"graphml\"`, \"gml\", \"alt\" or \"csv\"");
                continue;
            };
            let Some(text) = self.files.read(path, &value.at, self.sink) else { continue };
            match format.read(&text) {
                Ok(mut graph) => {
                    let hosts = table.whole("hosts").and_then(|hosts| u32::try_from(hosts).ok());
                    hang_hosts(&mut graph, hosts.unwrap_or(0));
                    self.add_graph(graph, table, &at);
                }
                Err(error) => {
                    self.sink
                        .report(Code::BadImport, &value.at, format!("`{path}`: {error}"))
                        .help(format!("it was read as {}", format.as_str()));
                }
            }
        }
    }

    /// Adds a graph's nodes and links.
    pub(super) fn add_graph(&mut self, mut graph: Graph, table: &Table, at: &At) {
        if let Some(prefix) = table.text("prefix") {
            graph.prefix(prefix);
        }
        // Names clash in bulk; one example says it.
        let reported = self.sink.list.len();
        let mut nodes: Vec<Option<NodeId>> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let role = match node.role {
                topology::Role::Host => Role::Host,
                topology::Role::Router => Role::Router,
                topology::Role::Switch => Role::Switch,
            };
            nodes.push(self.add_unplaced_node(&node.name, role, at));
            if self.sink.list.len() > reported {
                let last = self.sink.list.last_mut().expect("one was just added");
                last.help("give this network a `prefix` of its own");
                return;
            }
        }
        let empty = Table::default();
        let common = table.table("link").unwrap_or(&empty);
        // Same properties for many links: work them out once for each kind.
        let base = self.both_directions(common, &LinkConfig::default());
        let common_metric = self.metric(common);
        for link in graph.links {
            let class = match link.class {
                Class::Access => "access",
                Class::Aggregation => "aggregation",
                Class::Core => "core",
            };
            let ends = link.ends.map(|end| nodes[end as usize]);
            let [Some(a), Some(b)] = ends else { continue };
            let class = table.table(class);
            let directions = self.graph_link(&base, link.spec, common, class);
            let metric = class.and_then(|class| self.metric(class));
            let metric = metric.or(link.spec.metric).or(common_metric).unwrap_or(1).max(1);
            let name = link.name.as_deref().map(|name| (name, at));
            self.add_link(name, Draft { ends: [a, b], directions, metric, up: true }, at);
        }
    }

    /// Common properties, then the source's, then those of the link's class.
    fn graph_link(
        &mut self,
        base: &[LinkConfig; 2],
        spec: LinkSpec,
        common: &Table,
        class: Option<&Table>,
    ) -> [LinkConfig; 2] {
        let mut directions = base.clone();
        for (config, direction) in directions.iter_mut().zip(base::Direction::BOTH) {
            let own = |table: &'_ Table| table.table(direction.as_str()).is_some();
            config.delay = spec.delay.unwrap_or(config.delay);
            if let Some(rate) = spec.rate {
                config.rate = Rate::Constant(rate);
            }
            let mut tables: Vec<&Table> = Vec::new();
            if let Some(class) = class {
                tables.push(class);
                if own(class) {
                    tables.extend(class.table(direction.as_str()));
                }
                config.mtu = class.bytes("mtu").unwrap_or(config.mtu);
            }
            let changed = spec != LinkSpec::default() || class.is_some();
            let asked = self.properties(config, &tables);
            let asked = asked
                .or_else(|| common.table(direction.as_str()).and_then(|t| t.get("queue")))
                .or_else(|| common.get("queue"));
            if changed {
                config.queue = match asked {
                    Some(queue) => self.queue(queue, config),
                    None => self.default_queue(config),
                };
            }
        }
        directions
    }
}

/// Hangs hosts on every router: `NAME-h`, or `NAME-h1`, `NAME-h2`, … where there are several.
fn hang_hosts(graph: &mut Graph, hosts: u32) {
    let is_router = |node: &topology::Node| node.role == topology::Role::Router;
    let routers: Vec<(u32, String)> = (0..)
        .zip(&graph.nodes)
        .filter(|(_, node)| is_router(node))
        .map(|(index, node)| (index, node.name.clone()))
        .collect();
    for (router, name) in routers {
        for number in 1..=hosts {
            let name = if hosts == 1 { format!("{name}-h") } else { format!("{name}-h{number}") };
            let host = graph.add_node(topology::Node::new(name, topology::Role::Host));
            graph.add_link(host, router, LinkSpec::default());
        }
    }
}

fn generate(table: &Table, seed: u64) -> Option<Result<Graph, Error>> {
    let count = |key: &str| table.whole(key).and_then(|value| u32::try_from(value).ok());
    let hosts = count("hosts").unwrap_or(0);
    Some(match table.text("kind")? {
        "line" => Line { routers: count("routers")?, hosts }.generate(seed),
        "ring" => Ring { routers: count("routers")?, hosts }.generate(seed),
        "star" => {
            let router = table.text("hub") == Some("router");
            let hub = if router { topology::Role::Router } else { topology::Role::Switch };
            Star { hosts: count("hosts")?, hub }.generate(seed)
        }
        "dumbbell" => Dumbbell { left: count("left")?, right: count("right")? }.generate(seed),
        "tree" => Tree { depth: count("depth")?, fanout: count("fanout")? }.generate(seed),
        "grid" => Grid {
            rows: count("rows")?,
            columns: count("columns")?,
            wrap: table.flag("wrap").unwrap_or(false),
            hosts,
        }
        .generate(seed),
        "fat-tree" => FatTree { k: count("k")? }.generate(seed),
        "waxman" => Waxman {
            routers: count("routers")?,
            alpha: table.number("alpha").unwrap_or(0.4),
            beta: table.number("beta").unwrap_or(0.15),
            side: table.span("side").unwrap_or(Span::ZERO),
            hosts,
        }
        .generate(seed),
        "barabasi-albert" => {
            let links = count("links").unwrap_or(2);
            BarabasiAlbert { routers: count("routers")?, links, hosts }.generate(seed)
        }
        "transit-stub" => transit_stub(table, hosts)?.generate(seed),
        _ => return None,
    })
}

fn transit_stub(table: &Table, hosts: u32) -> Option<TransitStub> {
    let usual = TransitStub::default();
    let count = |key: &str, usual: u32| {
        table.whole(key).and_then(|value| u32::try_from(value).ok()).unwrap_or(usual)
    };
    let share = |key: &str, usual: f64| table.number(key).unwrap_or(usual);
    let rate = |key: &str, usual: Bandwidth| table.bandwidth(key).unwrap_or(usual);
    let delay = match table.get("delay").and_then(Value::list) {
        None => usual.delay,
        Some(list) => {
            let spans = list.iter().map(|value| value.text()?.parse().ok());
            let spans: Option<Vec<Span>> = spans.collect();
            // Anything but two is out of bounds, and the generator says so.
            <[Span; 2]>::try_from(spans?).unwrap_or([Span::MAX, Span::ZERO])
        }
    };
    Some(TransitStub {
        transit_domains: count("transit_domains", usual.transit_domains),
        transit_routers: count("transit_routers", usual.transit_routers),
        stubs: count("stubs", usual.stubs),
        stub_routers: count("stub_routers", usual.stub_routers),
        domain_links: share("domain_links", usual.domain_links),
        transit_links: share("transit_links", usual.transit_links),
        stub_links: share("stub_links", usual.stub_links),
        extra_transit_stub: count("extra_transit_stub", usual.extra_transit_stub),
        extra_stub_stub: count("extra_stub_stub", usual.extra_stub_stub),
        hosts,
        transit_rate: rate("transit_rate", usual.transit_rate),
        stub_rate: rate("stub_rate", usual.stub_rate),
        host_rate: rate("host_rate", usual.host_rate),
        delay,
        host_delay: table.span("host_delay").unwrap_or(usual.host_delay),
    })
}
