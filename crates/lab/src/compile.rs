//! Tree to plan. What the section tables cannot say is checked here; what they did say was
//! reported before, so a value of the wrong form is passed over in silence.

use std::collections::BTreeMap;

use base::{Bytes, IfaceId, LinkId, NodeId, Ratio, Span};
use fabric::LinkConfig;

use crate::code::Code;
use crate::diagnostic::{Lines, Sink};
use crate::files::Files;
use crate::load::PatternMatch;
use crate::plan::{Cluster, Limits, Metric, Plan, Precision, Routing};
use crate::tree::{At, Data, Table};

mod address;
mod bundles;
mod check;
mod cluster;
mod control;
mod events;
mod expectations;
mod filter;
mod flows;
mod graphs;
mod links;
mod mirrors;
mod models;
mod multipath;
mod names;
mod nodes;
mod programs;
mod properties;
mod queue;
mod sessions;
mod traffic;

use names::FreeNames;
pub(crate) use names::fit_for_a_label;
pub use programs::missing_program;
pub(crate) use queue::UNLIMITED;

/// What compiling needs beside the tree.
pub(crate) struct Input<'a> {
    pub(crate) root: &'a Table,
    pub(crate) text: &'a str,
    pub(crate) default_name: &'a str,
    pub(crate) sweep: Vec<(String, String)>,
    /// Added to the lab's seed.
    pub(crate) seed_offset: u64,
    /// An upper bound for all limits.
    pub(crate) max_items: usize,
}

/// A plan in the making.
struct Compiler<'a> {
    input: &'a Input<'a>,
    files: &'a mut Files,
    sink: &'a mut Sink,
    plan: Plan,
    nodes: BTreeMap<String, NodeId>,
    links: BTreeMap<String, LinkId>,
    places: Places<'a>,
    lines: Lines<'a>,
}

/// Where things stand in the file.
#[derive(Default)]
struct Places<'a> {
    nodes: Vec<At>,
    links: Vec<At>,
    programs: Vec<At>,
    flows: Vec<At>,
    /// The first mention of the rate control protocol.
    protocol: Option<At>,
    populations: Vec<At>,
    bundles: Vec<At>,
    /// From here on links are those of hosts that populations bring.
    drawn_links: usize,
    /// Fixed addresses by interface, each with its place.
    addresses: BTreeMap<IfaceId, Vec<(&'a str, At)>>,
    /// Groups of programs, and of flows, by the name that was given.
    program_groups: BTreeMap<String, Vec<usize>>,
    flow_groups: BTreeMap<String, Vec<usize>>,
    /// Events that change links, each with its `set`, by their positions.
    changes: BTreeMap<usize, &'a Table>,
    /// Flows and programs by name.
    flow_names: BTreeMap<String, usize>,
    program_names: BTreeMap<String, usize>,
    link_names: FreeNames,
    free_flow_names: FreeNames,
    free_program_names: FreeNames,
    patterns: Vec<PatternMatch>,
}

/// Makes the plan, as far as it goes, and tells what patterns of programs matched.
pub(crate) fn compile(
    input: &Input<'_>,
    files: &mut Files,
    sink: &mut Sink,
) -> (Plan, Vec<PatternMatch>) {
    let plan = settings(input, sink);
    let mut compiler = Compiler {
        input,
        files,
        sink,
        plan,
        nodes: BTreeMap::new(),
        links: BTreeMap::new(),
        places: Places::default(),
        lines: Lines::new(input.text),
    };
    compiler.read_nodes();
    compiler.read_graphs();
    compiler.read_imports();
    compiler.read_links();
    compiler.read_programs();
    compiler.read_control();
    compiler.read_flows();
    compiler.read_sessions();
    compiler.read_bundles();
    compiler.read_mirrors();
    compiler.decide_namespaces();
    compiler.read_cluster();
    compiler.give_addresses();
    compiler.read_captures();
    compiler.read_events();
    compiler.read_expectations();
    compiler.check();
    (compiler.plan, compiler.places.patterns)
}

fn settings(input: &Input<'_>, sink: &mut Sink) -> Plan {
    let empty = Table::default();
    let lab = input.root.table("lab").unwrap_or(&empty);
    let name = lab.text("name").unwrap_or(input.default_name);
    if let (false, Some(value)) = (fit_for_a_label(name), lab.get("name")) {
        sink.report(Code::BadName, &value.at, format!("`{name}` is no name for a lab")).help(
            "letters, digits, `-`, `_` and `.`, at most 240, beginning with a letter or digit",
        );
    }
    let (tolerance_floor, tolerance_share) = tolerance(lab);
    let seed = lab.whole("seed").and_then(|seed| u64::try_from(seed).ok()).unwrap_or(1);
    Plan {
        name: name.to_owned(),
        seed: seed.wrapping_add(input.seed_offset),
        start_jitter: lab.span("start_jitter"),
        duration: lab.span("duration").unwrap_or(Span::from_secs(60)),
        model: models::model(lab, sink),
        overhead: overhead(lab, sink),
        routing: match lab.text("routing") {
            Some("hops") => Routing::Shortest(Metric::Hops),
            Some("metric") => Routing::Shortest(Metric::Metric),
            Some("none") => Routing::None,
            _ => Routing::Shortest(Metric::Delay),
        },
        precision: match lab.text("precision") {
            Some("high") => Precision::High,
            _ => Precision::Normal,
        },
        realtime: lab.flag("realtime").unwrap_or(true),
        tick: lab.span("tick"),
        tolerance_floor,
        tolerance_share,
        interval: lab.span("interval").unwrap_or(Span::from_millis(100)),
        uplink: lab.flag("uplink").unwrap_or(false),
        nodes: Vec::new(),
        links: Vec::new(),
        ifaces: Vec::new(),
        programs: Vec::new(),
        flows: Vec::new(),
        control: None,
        sessions: Vec::new(),
        bundles: Vec::new(),
        events: Vec::new(),
        mirrors: Vec::new(),
        captures: Vec::new(),
        record: lab.flag("record").unwrap_or(false),
        limits: limits(lab),
        cluster: Cluster::default(),
        expectations: Vec::new(),
        sweep: input.sweep.clone(),
    }
}

fn limits(lab: &Table) -> Limits {
    let empty = Table::default();
    let (table, default) = (lab.table("limits").unwrap_or(&empty), Limits::default());
    let events = table.whole("events").and_then(|events| u64::try_from(events).ok());
    Limits {
        events: events.unwrap_or(default.events),
        memory: table.bytes("memory").unwrap_or(default.memory),
    }
}

fn tolerance(lab: &Table) -> (Span, Ratio) {
    let (floor, share) = (Span::from_millis(1), Ratio::from_parts_per_billion(50_000_000));
    match lab.get("tolerance").map(|value| &value.data) {
        Some(Data::Table(table)) => {
            (table.span("floor").unwrap_or(floor), table.ratio("share").unwrap_or(share))
        }
        _ => (lab.span("tolerance").unwrap_or(floor), share),
    }
}

fn overhead(lab: &Table, sink: &mut Sink) -> Bytes {
    const ETHERNET: Bytes = Bytes::new(38);
    let Some(value) = lab.get("overhead") else { return ETHERNET };
    match value.text() {
        Some("ethernet") | None => ETHERNET,
        Some("none") => Bytes::ZERO,
        Some(text) => match text.parse::<Bytes>() {
            Ok(bytes) if bytes <= Bytes::new(1500) => bytes,
            Ok(_) => {
                sink.report(Code::OutOfRange, &value.at, "no wire adds that much to a packet")
                    .help("from 0 B to 1500 B");
                ETHERNET
            }
            Err(error) => {
                sink.report(Code::Quantity, &value.at, format!("`overhead`: {error}"))
                    .help("`\"ethernet\"` (38 B), `\"none\"`, or an amount such as `\"18 B\"`");
                ETHERNET
            }
        },
    }
}

impl<'a> Compiler<'a> {
    /// The tables of `[[key]]`.
    fn entries(&self, key: &str) -> Vec<(At, &'a Table)> {
        let root: &'a Table = self.input.root;
        root.entries_of(key)
    }

    fn place(&self, at: &At) -> (u32, u32) {
        self.lines.position(at.start)
    }

    /// Whether there is room for one more; says so once if not.
    fn room(&mut self, count: usize, most: usize, what: &str, at: &At) -> bool {
        let most = most.min(self.input.max_items);
        if count == most {
            self.sink
                .report(Code::Limit, at, format!("more than {most} {what}"))
                .help(format!("a lab has at most {most} {what}"));
        }
        count < most
    }

    /// Full-size packet on the wire.
    fn full_size(&self, config: &LinkConfig) -> Bytes {
        config.mtu.saturating_add(self.plan.overhead)
    }
}
