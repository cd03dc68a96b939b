//! Generated and imported networks.

use std::path::Path;

use base::{NodeId, Span};
use fabric::{LinkConfig, Loss, Rate};
use topology::generate::{
    BarabasiAlbert, Dumbbell, FatTree, Generator as _, Grid, Line, Ring, Star, TransitStub, Tree,
    Waxman,
};
use topology::import::Format;
use topology::{Class, Error, Graph, LinkSpec, MAX_ELEMENTS};

use super::Compiler;
use super::links::Draft;
use super::properties::{of_direction, plain_link};
use crate::code::Code;
use crate::fields::{
    BARABASI_ALBERT, DIRECTION, DUMBBELL, FAT_TREE, GENERATE, GENERATED, GRID, IMPORT, LINE, LINK,
    Name, STAR, TRANSIT_STUB, TREE, WAXMAN,
};
use crate::files::TEXT_NOT_SHOWN;
use crate::plan::{Metric, Role, Routing};
use crate::tree::{At, Table, Value};

impl Compiler<'_> {
    pub(super) fn read_graphs(&mut self) {
        for (at, table) in self.entries("generate") {
            if !self.fits_generator(table) {
                continue;
            }
            let seed = table.read(GENERATED.seed).unwrap_or(self.plan.seed);
            let limit = MAX_ELEMENTS - self.generated;
            let Some(graph) = generate(table, seed, limit) else { continue };
            match graph {
                Ok(graph) => self.add_graph(graph, table, &at),
                Err(Error::TooLarge { generator, count, .. }) => {
                    self.is_incomplete = true;
                    self.refuse_network(&format!("`{generator}`"), count, &at);
                }
                Err(error) => {
                    self.is_incomplete = true;
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

    /// Generators check their own limits; this checks `max_items`.
    fn fits_generator(&mut self, table: &Table) -> bool {
        let max = self.input.max_items;
        let is_large = |value: &Value| {
            value.whole().is_some_and(|count| usize::try_from(count).is_ok_and(|n| n > max))
        };
        let sizes = table.entries.iter().filter(|entry| entry.key != GENERATED.seed.name());
        let Some(entry) = sizes.into_iter().find(|entry| is_large(&entry.value)) else {
            return true;
        };
        let message = format!("`{}` is above the maximum of {max}", entry.key);
        self.sink.report(Code::Limit, &entry.value.at, message).help(format!("at most {max}"));
        false
    }

    pub(super) fn read_imports(&mut self) {
        for (at, table) in self.entries("import") {
            let Some(value) = table.get(IMPORT.file) else { continue };
            let Some(path) = value.text() else { continue };
            let before = self.generated;
            self.read_import(path, value, table, &at);
            self.is_incomplete |= self.generated == before;
        }
    }

    fn read_import(&mut self, path: &str, value: &Value, table: &Table, at: &At) {
        let format = match table.read(IMPORT.format) {
            Some(name) => Format::from_name(name),
            None => Format::from_path(Path::new(path)),
        };
        let Some(format) = format else {
            self.sink
                .report(Code::BadImport, &value.at, format!("`{path}`: unknown format"))
                .help(conversion(path));
            return;
        };
        let text = self.files.read_topology(path, &value.at, self.sink);
        let Some((text, is_latin)) = text else { return };
        match format.read(&text) {
            Ok(mut graph) => {
                let hosts = table.read(IMPORT.hosts);
                // A host and its link.
                let count = graph.elements() + 2 * u64::from(hosts) * routers(&graph);
                if count > MAX_ELEMENTS - self.generated {
                    self.refuse_network(&format!("`{path}`"), count, &value.at);
                    return;
                }
                self.report_unused(&graph, path, is_latin, table, &value.at);
                hang_hosts(&mut graph, hosts);
                self.add_graph(graph, table, at);
            }
            Err(error) => {
                let mut help = format!("it was read as {}", format.as_str());
                let error = if self.files.is_outside(path) {
                    help = format!("{help}; {TEXT_NOT_SHOWN}");
                    error.without_text()
                } else {
                    error
                };
                self.sink
                    .report(Code::BadImport, &value.at, format!("`{path}`: {error}"))
                    .help(help);
            }
        }
    }

    /// Warns of what an import left out, and of links that attract all routes.
    fn report_unused(&mut self, graph: &Graph, path: &str, is_latin: bool, table: &Table, at: &At) {
        let mut warn = |message: String, help: &str| {
            self.sink.report(Code::PartlyRead, at, format!("`{path}`: {message}")).help(help);
        };
        if is_latin {
            warn("it is not UTF-8, and was read as Latin-1".to_owned(), "save it as UTF-8");
        }
        if !graph.unused.is_empty() {
            let unused = graph.unused.clone();
            let outside = self.files.is_outside(path);
            let unused = if outside { unused.without_text() } else { unused };
            let mut help = "the guide on topologies lists the attributes that are read".to_owned();
            if let Some(names) = unused.named_descriptions().filter(|_| !outside) {
                help = format!("descriptions: {names}; {help}");
            }
            warn(format!("not used: {unused}"), &help);
        }
        let is_given = |key: &str| table.read(IMPORT.link).get(key).is_some();
        let zero =
            |link: &&topology::Link| link.spec.delay.is_none_or(|delay| !delay.is_positive());
        let free = graph.links.iter().filter(zero).count();
        if self.plan.routing == Routing::Shortest(Metric::Delay)
            && (1..graph.links.len()).contains(&free)
            && !is_given("delay")
        {
            let message = format!(
                "{free} of {} links have no delay, so routes prefer them",
                graph.links.len()
            );
            warn(
                message,
                "set `link = { delay = \"5 ms\" }`, or `routing = \"metric\"` in `[lab]`",
            );
        }
    }

    /// Rejects a network that would exceed the limit of all generated and imported ones.
    fn refuse_network(&mut self, name: &str, count: u64, at: &At) {
        let before = match self.generated {
            0 => String::new(),
            before => format!(", and the networks before it have {before}"),
        };
        let message = format!(
            "{name} has at least {count} nodes and links{before}; the limit of all networks \
             together is {MAX_ELEMENTS}"
        );
        self.sink.report(Code::Limit, at, message).help("use a smaller network");
    }

    /// Adds a graph's nodes and links.
    pub(super) fn add_graph(&mut self, mut graph: Graph, table: &Table, at: &At) {
        self.generated += graph.elements();
        if let Some(prefix) = table.read(IMPORT.prefix) {
            graph.prefix(prefix);
        }
        // Name conflicts come in large numbers; one example is sufficient.
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
                last.help("give this network a separate `prefix`");
                return;
            }
        }
        let common = table.read(IMPORT.link);
        // Many links have the same properties: compute them once for each kind.
        let base = self.both_directions(common, &plain_link());
        let common_metric = self.metric(common);
        for link in graph.links {
            let class = match link.class {
                Class::Access => IMPORT.access,
                Class::Aggregation => IMPORT.aggregation,
                Class::Core => IMPORT.core,
            };
            let ends = link.ends.map(|end| nodes[end as usize]);
            let [Some(a), Some(b)] = ends else { continue };
            let class = table.given(class);
            let directions = self.graph_link(&base, link.spec, common, class);
            let metric = class.and_then(|class| self.metric(class));
            let metric = metric.or(link.spec.metric).or(common_metric);
            let metric = metric.unwrap_or_else(|| LINK.metric.default()).max(1);
            let name = link.name.as_deref().map(|name| (name, at));
            self.add_link(name, Draft { ends: [a, b], directions, metric, up: true }, at);
        }
    }

    /// Properties of a link: the common ones, then the source's, then those of the link's class.
    fn graph_link(
        &mut self,
        base: &[LinkConfig; 2],
        spec: LinkSpec,
        common: &Table,
        class: Option<&Table>,
    ) -> [LinkConfig; 2] {
        let mut directions = base.clone();
        for (config, direction) in directions.iter_mut().zip(base::Direction::BOTH) {
            config.delay = spec.delay.unwrap_or(config.delay);
            let reverse = spec.reverse_rate.filter(|_| direction == base::Direction::BOTH[1]);
            if let Some(rate) = reverse.or(spec.rate) {
                config.rate = Rate::Constant(rate);
            }
            if let Some(loss) = spec.loss {
                config.loss = Loss::Bernoulli(loss);
            }
            let tables = class.map(|class| of_direction(class, direction)).unwrap_or_default();
            config.mtu = class.and_then(|class| class.given(LINK.mtu)).unwrap_or(config.mtu);
            let changed = spec != LinkSpec::default() || class.is_some();
            let asked = self.properties(config, &tables);
            let mut own = of_direction(common, direction).into_iter().rev();
            if changed {
                let asked = asked.or_else(|| own.find_map(|t| t.get(DIRECTION.queue)));
                config.queue = self.queue(asked, config);
            }
        }
        directions
    }
}

/// The formats, and a conversion from the format of this path.
fn conversion(path: &str) -> String {
    let formats = "set `format` to \"graphml\", \"gml\", \"alt\" or \"csv\"";
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    let way = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("json") => {
            "for node-link data in JSON, networkx.node_link_graph reads it, and \
                         networkx.write_graphml writes GraphML"
        }
        Some("brite" | "txt") => {
            "for lines with the two ends of a link, write a header \
                                  `a,b,delay,rate` and commas (CSV)"
        }
        Some("xlsx" | "ods" | "xls") => "save the sheet as CSV",
        _ => "networkx.write_graphml and networkx.write_gml write graphs of Python",
    };
    format!("{formats}; {way}")
}

fn routers(graph: &Graph) -> u64 {
    graph.nodes.iter().filter(|node| node.role == topology::Role::Router).count() as u64
}

/// Adds hosts to every router: `NAME-h`, or `NAME-h1`, `NAME-h2`, … if there are several.
fn hang_hosts(graph: &mut Graph, hosts: u32) {
    let is_router = |node: &topology::Node| node.role == topology::Role::Router;
    let routers: Vec<_> = (0..)
        .zip(&graph.nodes)
        .filter(|(_, node)| is_router(node))
        .map(|(index, node)| (index, node.name.clone(), node.host_rates))
        .collect();
    for (router, name, [up, down]) in routers {
        let spec = LinkSpec { rate: up, reverse_rate: down, ..LinkSpec::default() };
        for number in 1..=hosts {
            let name = if hosts == 1 { format!("{name}-h") } else { format!("{name}-h{number}") };
            let host = graph.add_node(topology::Node::new(name, topology::Role::Host));
            graph.add_link(host, router, spec);
        }
    }
}

fn generate(table: &Table, seed: u64, limit: u64) -> Option<Result<Graph, Error>> {
    let (routers, hosts) = (table.read(LINE.routers), table.read(LINE.hosts));
    Some(match table.text(GENERATE.key)? {
        "line" => Line { routers: routers?, hosts }.generate_within(seed, limit),
        "ring" => Ring { routers: routers?, hosts }.generate_within(seed, limit),
        "star" => {
            let router = table.read(STAR.hub) == "router";
            let hub = if router { topology::Role::Router } else { topology::Role::Switch };
            Star { hosts: table.read(STAR.hosts)?, hub }.generate_within(seed, limit)
        }
        "dumbbell" => {
            let (left, right) = (table.read(DUMBBELL.left)?, table.read(DUMBBELL.right)?);
            Dumbbell { left, right }.generate_within(seed, limit)
        }
        "tree" => {
            let (depth, fanout) = (table.read(TREE.depth)?, table.read(TREE.fanout)?);
            Tree { depth, fanout }.generate_within(seed, limit)
        }
        "grid" => Grid {
            rows: table.read(GRID.rows)?,
            columns: table.read(GRID.columns)?,
            wrap: table.read(GRID.wrap),
            hosts,
        }
        .generate_within(seed, limit),
        "fat-tree" => FatTree { k: table.read(FAT_TREE.k)? }.generate_within(seed, limit),
        "waxman" => Waxman {
            routers: routers?,
            alpha: table.read(WAXMAN.alpha),
            beta: table.read(WAXMAN.beta),
            side: table.read(WAXMAN.side),
            hosts,
        }
        .generate_within(seed, limit),
        "barabasi-albert" => {
            let links = table.read(BARABASI_ALBERT.links);
            BarabasiAlbert { routers: routers?, links, hosts }.generate_within(seed, limit)
        }
        "transit-stub" => transit_stub(table).generate_within(seed, limit),
        _ => return None,
    })
}

fn transit_stub(table: &Table) -> TransitStub {
    TransitStub {
        transit_domains: table.read(TRANSIT_STUB.transit_domains),
        transit_routers: table.read(TRANSIT_STUB.transit_routers),
        stubs: table.read(TRANSIT_STUB.stubs),
        stub_routers: table.read(TRANSIT_STUB.stub_routers),
        domain_links: table.read(TRANSIT_STUB.domain_links),
        transit_links: table.read(TRANSIT_STUB.transit_links),
        stub_links: table.read(TRANSIT_STUB.stub_links),
        extra_transit_stub: table.read(TRANSIT_STUB.extra_transit_stub),
        extra_stub_stub: table.read(TRANSIT_STUB.extra_stub_stub),
        hosts: table.read(TRANSIT_STUB.hosts),
        transit_rate: table.read(TRANSIT_STUB.transit_rate),
        stub_rate: table.read(TRANSIT_STUB.stub_rate),
        host_rate: table.read(TRANSIT_STUB.host_rate),
        // A wrong number of values is out of bounds, and the generator reports it.
        delay: table.read(TRANSIT_STUB.delay).try_into().unwrap_or([Span::MAX, Span::ZERO]),
        host_delay: table.read(TRANSIT_STUB.host_delay),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transit_stub_of_the_generator_has_the_same_defaults() {
        assert_eq!(transit_stub(Table::EMPTY), TransitStub::default());
    }
}
