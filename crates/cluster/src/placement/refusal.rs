//! Why a lab cannot be placed, with the numbers.

use base::{Bandwidth, Bytes, NodeId};
use lab::plan::{Model, Plan};
use thiserror::Error;

use super::Machine;
use super::atoms::Atoms;
use super::limits::{HEADROOM, Limits, Resource, Shortage, TRUNK_OVERHEAD};
use super::search::{Stuck, Why};

/// A lab that cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.text())]
pub struct Refusal {
    /// All that is in the way.
    pub problems: Vec<Problem>,
}

/// Something that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What, with its numbers.
    pub what: String,
    /// What would help.
    pub help: String,
}

impl Problem {
    pub(super) fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: help.into() }
    }
}

impl Refusal {
    fn text(&self) -> String {
        let lines = self.problems.iter().map(|problem| match problem.help.as_str() {
            "" => problem.what.clone(),
            help => format!("{}\n  help: {help}", problem.what),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// So many names, and the number of the rest.
const NAMED: usize = 4;

/// Some nodes by their names.
pub(super) fn names(plan: &Plan, nodes: &[NodeId]) -> String {
    let name = |node: &NodeId| format!("`{}`", plan.nodes[node.index()].name);
    let named: Vec<String> = nodes.iter().take(NAMED).map(name).collect();
    match nodes.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// A machine that the lab names and nobody has.
pub(super) fn machine_named(
    plan: &Plan,
    node: NodeId,
    name: &str,
    machines: &[Machine],
) -> Problem {
    let known: Vec<String> = machines.iter().map(|m| format!("`{}`", m.name)).collect();
    Problem::new(
        format!(
            "`{}` is to be on `{name}`, and no agent is called so",
            plan.nodes[node.index()].name
        ),
        format!("agents: {}", known.join(", ")),
    )
}

/// What cannot be spread over machines at all.
pub(super) fn refuse_impossible(plan: &Plan, machines: &[Machine]) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    if machines.is_empty() {
        problems.push(Problem::new(
            "there are no machines",
            "start `netarium agent` on each, and name one of them with --cluster",
        ));
    }
    if plan.model == Model::Fluid || plan.is_rate_controlled() {
        problems.push(Problem::new(
            "this lab runs on the virtual clock only: it has no packets for a cluster to carry",
            "`netarium sim` runs it, on one machine",
        ));
    }
    if plan.record && machines.len() > 1 {
        problems.push(Problem::new(
            "`record = true` keeps what enters the emulation, for `netarium replay`: that is \
             possible in one place only",
            "run it on one machine, or drop `record`",
        ));
    }
    if problems.is_empty() { Ok(()) } else { Err(Refusal { problems }) }
}

/// What is too much for all machines together, or for each of them.
pub(super) fn refuse_too_much(
    plan: &Plan,
    machines: &[Machine],
    atoms: &Atoms,
    limits: &Limits<'_>,
) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    let hosts: u64 = limits.loads.iter().map(|load| u64::from(load.hosts)).sum();
    let room: u64 = machines.iter().map(|m| u64::from(m.resources.hosts)).sum();
    if hosts > room {
        problems.push(Problem::new(
            format!("the lab has {hosts} hosts, the machines together take {room}"),
            "more machines, or a higher `--hosts` of their agents",
        ));
    }
    let memory: u64 = limits.loads.iter().fold(0, |sum, load| sum.saturating_add(load.memory));
    let spare = machines
        .iter()
        .map(|m| m.resources.memory.count().saturating_sub(limits.piece))
        .fold(0u64, u64::saturating_add);
    if memory > spare {
        problems.push(Problem::new(
            format!(
                "the lab needs {} of memory, the machines together have {} beside the emulation's \
                 own {} on each",
                data(memory as f64),
                data(spare as f64),
                data(limits.piece as f64)
            ),
            "more machines, or less `memory` of nodes",
        ));
    }
    let cpus: f64 = limits.loads.iter().map(|load| load.cpus).sum();
    let cores: f64 = machines.iter().map(|m| m.resources.cores).sum();
    if cpus > cores {
        problems.push(Problem::new(
            format!("the lab's `cpus` are {cpus:.1}, the machines together have {cores:.1} cores"),
            "more machines, or fewer `cpus` of nodes",
        ));
    }
    for (index, load) in limits.loads.iter().enumerate() {
        let pin = atoms.list[index].pin;
        let allowed = (0..machines.len()).filter(|m| pin.is_none_or(|pin| pin == *m));
        let shortages: Option<Vec<(usize, Shortage)>> =
            allowed.map(|m| limits.lacks_room(m, load).map(|short| (m, short))).collect();
        let Some(shortages) = shortages.filter(|_| problems.is_empty()) else { continue };
        // The machine that comes nearest.
        let missing = |short: &Shortage| short.needed / short.available.max(1e-9);
        let nearest = shortages.iter().min_by(|a, b| missing(&a.1).total_cmp(&missing(&b.1)));
        if let Some((machine, short)) = nearest {
            let who = atoms.name(plan, index as u32);
            let what = format!("{who}: {}", shortage(&machines[*machine].name, short));
            let together = match atoms.list[index].hosts.len() {
                1 => String::new(),
                hosts => format!("these {hosts} stay together; "),
            };
            problems.push(Problem::new(what, together + help(short.resource)));
        }
    }
    for group in &atoms.apart {
        if group.len() > machines.len() {
            let hosts = group.iter().filter_map(|atom| atoms.list[*atom as usize].hosts.first());
            let hosts: Vec<NodeId> = hosts.copied().collect();
            problems.push(Problem::new(
                format!(
                    "{} are to be apart: that takes {} machines, and there are {}",
                    names(plan, &hosts),
                    group.len(),
                    machines.len()
                ),
                "more machines, or a smaller group in `apart`",
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Refusal { problems }) }
}

/// What the search ended with.
pub(super) fn no_room(plan: &Plan, machines: &[Machine], atoms: &Atoms, stuck: &Stuck) -> Refusal {
    let hosts: Vec<NodeId> = stuck
        .atoms
        .iter()
        .filter_map(|atom| atoms.list.get(*atom as usize))
        .flat_map(|atom| atom.hosts.iter().copied())
        .collect();
    let who = names(plan, &hosts);
    let mut reasons: Vec<String> = Vec::new();
    let mut resources: Vec<Resource> = Vec::new();
    for (machine, why) in machines.iter().zip(&stuck.why) {
        match why {
            Why::Short(short) => {
                reasons.push(shortage(&machine.name, short));
                resources.push(short.resource);
            }
            Why::Apart(atom) => {
                let other = atoms.name(plan, *atom);
                reasons.push(format!("{} has {other}, to be apart from it", machine.name));
            }
            Why::Pinned => {}
        }
    }
    resources.sort_unstable();
    resources.dedup();
    let helps: Vec<&str> = resources.into_iter().map(help).collect();
    let helps = if helps.is_empty() { vec!["more machines"] } else { helps };
    let more = reasons.len().saturating_sub(8);
    reasons.truncate(8);
    if more > 0 {
        reasons.push(format!("and so {more} more"));
    }
    let what =
        format!("no machine takes {who}, with what it has of the lab:\n  {}", reasons.join("\n  "));
    Refusal { problems: vec![Problem::new(what, helps.join("; "))] }
}

/// Such as `m1: 12.0 Gbit/s out over its interface, which has 10 Gbit/s`.
pub(super) fn shortage(machine: &str, short: &Shortage) -> String {
    let Shortage { resource, needed, available } = *short;
    match resource {
        Resource::Hosts => format!("{machine}: {needed:.0} hosts, and it takes {available:.0}"),
        Resource::Memory => {
            format!("{machine}: {} of memory, and it has {}", data(needed), data(available))
        }
        Resource::Cores => format!(
            "{machine}: {needed:.2} cores for programs and, in the worst case, traffic (which may \
             take {:.0} % of the rest), and it has {available:.2}",
            HEADROOM * 100.0
        ),
        Resource::NicOut | Resource::NicIn => {
            let way = if resource == Resource::NicOut { "out" } else { "in" };
            format!(
                "{machine}: in the worst case {} {way} over its interface ({TRUNK_OVERHEAD} × the \
                 emulated traffic), which has {}",
                rate(needed),
                rate(available)
            )
        }
        Resource::Traffic => format!(
            "{machine}: in the worst case {} of emulated traffic, and it carries {}",
            rate(needed),
            rate(available)
        ),
    }
}

const fn help(resource: Resource) -> &'static str {
    match resource {
        Resource::Hosts => "more machines, or a higher `--hosts` of the agents",
        Resource::Memory => "more machines, or less `memory` of nodes",
        Resource::Cores => {
            "more machines, fewer `cpus` of nodes, lower `rate`s of links, or --overcommit if \
             programs send far less than their links let them"
        }
        Resource::NicOut | Resource::NicIn | Resource::Traffic => {
            "lower `rate`s of links, `together` for hosts that talk much, faster interfaces, or \
             --overcommit if programs send far less than their links let them"
        }
    }
}

fn data(bytes: f64) -> String {
    let mib = Bytes::new(1 << 20).count() as f64;
    if bytes >= 1024.0 * mib {
        format!("{:.1} GiB", bytes / mib / 1024.0)
    } else {
        format!("{:.0} MiB", bytes / mib)
    }
}

/// A rate in three digits.
pub(super) fn rate(bits: f64) -> String {
    let units = [("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    units.iter().find(|(_, unit)| bits >= *unit).map_or_else(
        || Bandwidth::from_bits_per_sec(bits as u64).to_string(),
        |(name, unit)| {
            let value = bits / unit;
            let digits = if value >= 100.0 { 0 } else { usize::from(value < 10.0) + 1 };
            format!("{value:.digits$} {name}")
        },
    )
}
