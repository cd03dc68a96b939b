//! Compiles a tree to a plan. This checks what the section tables cannot express; violations of the
//! tables have been reported before, so values of the wrong form are ignored here.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, IfaceId, LinkId, NodeId, Span, Time};
use fabric::LinkConfig;

use crate::code::Code;
use crate::diagnostic::{Lines, Sink};
use crate::fields::{Kind, LAB, LIMITS, TOLERANCE};
use crate::files::Files;
use crate::load::PatternMatch;
use crate::plan::{Cluster, Event, Limits, Plan, Tolerance, Uplink};
use crate::tree::{At, Table};

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
pub use names::matches as matches_pattern;
pub use programs::missing_program;
pub use queue::Surroundings;
pub(crate) use queue::UNLIMITED;

/// Input of the compiler besides the tree.
pub(crate) struct Input<'a> {
    pub(crate) root: &'a Table,
    pub(crate) text: &'a str,
    pub(crate) default_name: &'a str,
    pub(crate) sweep: Vec<(String, String)>,
    /// Offset added to the lab's seed.
    pub(crate) seed_offset: u64,
    /// An upper bound for all limits.
    pub(crate) max_items: usize,
}

/// A plan under construction.
struct Compiler<'a> {
    input: &'a Input<'a>,
    files: &'a mut Files,
    sink: &'a mut Sink,
    plan: Plan,
    nodes: BTreeMap<String, NodeId>,
    /// Names of invalid or unknown nodes; each is reported once.
    rejected_nodes: BTreeSet<String>,
    links: BTreeMap<String, LinkId>,
    /// Nodes and links of generated and imported networks.
    generated: u64,
    /// A generated or imported network is missing because of an error.
    is_incomplete: bool,
    places: Places<'a>,
    lines: Lines<'a>,
}

/// Positions of objects in the file.
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
    /// Index of the first link of the generated session hosts.
    drawn_links: usize,
    /// Fixed addresses by interface, with their positions.
    addresses: BTreeMap<IfaceId, Vec<(&'a str, At)>>,
    /// Groups of programs, and of flows, by their given name.
    program_groups: BTreeMap<String, Vec<usize>>,
    flow_groups: BTreeMap<String, Vec<usize>>,
    /// The `set` tables of events that change links, by the position of the event.
    changes: BTreeMap<usize, &'a Table>,
    /// Flows and programs by name.
    flow_names: BTreeMap<String, usize>,
    program_names: BTreeMap<String, usize>,
    link_names: FreeNames,
    free_flow_names: FreeNames,
    free_program_names: FreeNames,
    patterns: Vec<PatternMatch>,
}

/// Compiles the plan as far as possible; returns also the matches of program patterns.
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
        rejected_nodes: BTreeSet::new(),
        links: BTreeMap::new(),
        generated: 0,
        is_incomplete: false,
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
    compiler.read_uplink();
    compiler.decide_namespaces();
    compiler.read_cluster();
    compiler.give_addresses();
    compiler.read_captures();
    compiler.read_tcp_events();
    compiler.read_events();
    compiler.read_expectations();
    compiler.check();
    if compiler.is_incomplete {
        // Consequences of the missing network, whose error is reported.
        let is_consequence =
            |code| matches!(code, Code::UnknownName | Code::Unreachable | Code::Isolated);
        compiler.sink.list.retain(|diagnostic| !is_consequence(diagnostic.code));
    }
    (compiler.plan, compiler.places.patterns)
}

/// The events of `input`, for a running lab of this plan whose links have the properties `current`.
pub(crate) fn compile_live(
    input: &Input<'_>,
    files: &mut Files,
    sink: &mut Sink,
    plan: &Plan,
    at: Time,
    current: &dyn Fn(LinkId) -> [LinkConfig; 2],
) -> Vec<Event> {
    let plan = Plan { events: Vec::new(), ..plan.clone() };
    let names = plan.links.iter().enumerate();
    let programs = plan.programs.iter().enumerate();
    let program_names = programs.map(|(at, program)| (program.name.clone(), at)).collect();
    let mut compiler = Compiler {
        input,
        files,
        sink,
        nodes: BTreeMap::new(),
        rejected_nodes: BTreeSet::new(),
        links: names.map(|(id, link)| (link.name.clone(), LinkId::at(id))).collect(),
        generated: 0,
        is_incomplete: false,
        places: Places { program_names, ..Places::default() },
        lines: Lines::new(input.text),
        plan,
    };
    compiler.read_live_events(at, &|_, link| current(link));
    compiler.check_model_of_events();
    compiler.plan.events
}

fn tolerance(table: &Table) -> Tolerance {
    Tolerance {
        floor: table.read(TOLERANCE.floor),
        delay: table.read(TOLERANCE.delay),
        rate: table.read(TOLERANCE.rate),
    }
}

impl Default for Tolerance {
    /// That of a lab without the key.
    fn default() -> Self {
        tolerance(Table::EMPTY)
    }
}

fn settings(input: &Input<'_>, sink: &mut Sink) -> Plan {
    let lab = input.root.table("lab").unwrap_or(Table::EMPTY);
    let name = lab.read(LAB.name).unwrap_or(input.default_name);
    if let (false, Some(value)) = (fit_for_a_label(name), lab.get(LAB.name)) {
        sink.report(Code::BadName, &value.at, format!("`{name}` is not a valid name for a lab"))
            .help(
                "letters, digits, `-`, `_` and `.`, at most 240, beginning with a letter or digit",
            );
    }
    let tolerance = lab.read(LAB.tolerance);
    let limits = lab.read(LAB.limits);
    Plan {
        name: name.to_owned(),
        seed: lab.read(LAB.seed).wrapping_add(input.seed_offset),
        start_jitter: lab.read(LAB.start_jitter),
        duration: lab.read(LAB.duration),
        model: models::model(lab, sink),
        overhead: overhead(lab, sink),
        routing: lab.read(LAB.routing),
        precision: lab.read(LAB.precision),
        realtime: lab.read(LAB.realtime),
        tick: lab.read(LAB.tick),
        tolerance: match Span::read(&tolerance) {
            Some(floor) => Tolerance { floor, ..Tolerance::default() },
            None => self::tolerance(tolerance.table().unwrap_or(Table::EMPTY)),
        },
        interval: lab.read(LAB.interval),
        uplink: Uplink::None,
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
        tcp_events: Vec::new(),
        record: lab.read(LAB.record),
        writable: nodes::writable_folders(lab, sink),
        limits: Limits { events: limits.read(LIMITS.events), memory: limits.read(LIMITS.memory) },
        cluster: Cluster::default(),
        expectations: Vec::new(),
        sweep: input.sweep.clone(),
    }
}

fn overhead(lab: &Table, sink: &mut Sink) -> Bytes {
    const ETHERNET: Bytes = Bytes::new(38);
    let value = lab.read(LAB.overhead);
    match value.text() {
        Some("ethernet") | None => ETHERNET,
        Some("none") => Bytes::ZERO,
        Some(text) => match text.parse::<Bytes>() {
            Ok(bytes) if bytes <= Bytes::new(1500) => bytes,
            Ok(_) => {
                sink.report(
                    Code::OutOfRange,
                    &value.at,
                    "the overhead of a packet is out of range",
                )
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

    /// The table `[lab]`.
    fn lab(&self) -> &'a Table {
        self.input.root.table("lab").unwrap_or(Table::EMPTY)
    }

    fn place(&self, at: &At) -> (u32, u32) {
        self.lines.position(at.start)
    }

    /// Whether another object is allowed; reports an error the first time if not.
    fn room(&mut self, count: usize, max: usize, what: &str, at: &At) -> bool {
        let max = max.min(self.input.max_items);
        if count == max {
            self.sink
                .report(Code::Limit, at, format!("more than {max} {what}"))
                .help(format!("a lab has at most {max} {what}"));
        }
        count < max
    }

    /// Wire size of a full-size packet.
    fn full_size(&self, config: &LinkConfig) -> Bytes {
        config.mtu.saturating_add(self.plan.overhead)
    }
}
