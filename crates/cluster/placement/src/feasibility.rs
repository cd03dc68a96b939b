//! Checks of a lab against the machines' limits. A failed check reports the limit and the value.

use base::{Bytes, NodeId};
use lab::plan::{Model, Plan};

use super::atoms::Atoms;
use super::limits::{HEADROOM, Limits, Resource, Shortage, TRUNK_OVERHEAD};
use super::model::Machine;
use super::refusal::{Problem, Refusal, names, rate};
use super::search::{Exclusion, Unplaced};

/// Rejects labs that cannot be distributed.
pub(super) fn refuse_impossible(plan: &Plan, machines: &[Machine]) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    if machines.is_empty() {
        problems.push(Problem::new(
            "the cluster has no machines",
            "start `netarium agent` on each machine, and give one of them with --cluster",
        ));
    }
    if plan.model == Model::Fluid || plan.is_rate_controlled() {
        problems.push(Problem::new(
            "this lab runs on the virtual clock only",
            "run it with `netarium sim`, on one machine",
        ));
    }
    if plan.record && machines.len() > 1 {
        problems.push(Problem::new(
            "`record = true` needs a single machine, because `netarium replay` reads one recording",
            "run it on one machine, or remove `record`",
        ));
    }
    if problems.is_empty() { Ok(()) } else { Err(Refusal { problems }) }
}

/// Rejects labs that exceed all machines together, or each single one.
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
            format!("the lab has {hosts} hosts; all machines together have room for {room}"),
            "use more machines, or a higher `--hosts` of their agents",
        ));
    }
    let memory: u64 = limits.loads.iter().fold(0, |sum, load| sum.saturating_add(load.memory));
    let spare = machines
        .iter()
        .map(|m| m.resources.memory.count().saturating_sub(limits.shard_memory))
        .fold(0u64, u64::saturating_add);
    if memory > spare {
        problems.push(Problem::new(
            format!(
                "the lab needs {} of memory; all machines together have {}, after {} for the \
                 emulation on each",
                data(memory as f64),
                data(spare as f64),
                data(limits.shard_memory as f64)
            ),
            "use more machines, or less `memory` of nodes",
        ));
    }
    let cpus: f64 = limits.loads.iter().map(|load| load.cpus).sum();
    let cores: f64 = machines.iter().map(|m| m.resources.cores).sum();
    if cpus > cores {
        problems.push(Problem::new(
            format!("the lab needs {cpus:.1} `cpus`; all machines together have {cores:.1} cores"),
            "use more machines, or fewer `cpus` of nodes",
        ));
    }
    for (index, load) in limits.loads.iter().enumerate() {
        let pin = atoms.list[index].pin;
        let allowed = (0..machines.len()).filter(|m| pin.is_none_or(|pin| pin == *m));
        let shortages: Option<Vec<(usize, Shortage)>> =
            allowed.map(|m| limits.lacks_room(m, load).map(|short| (m, short))).collect();
        let Some(shortages) = shortages.filter(|_| problems.is_empty()) else { continue };
        // The machine with the smallest relative shortage.
        let missing = |short: &Shortage| short.needed / short.available.max(1e-9);
        let nearest = shortages.iter().min_by(|a, b| missing(&a.1).total_cmp(&missing(&b.1)));
        if let Some((machine, short)) = nearest {
            let who = atoms.name(plan, index as u32);
            let what = format!("{who}: {}", shortage(&machines[*machine].name, short));
            let together = match atoms.list[index].hosts.len() {
                1 => String::new(),
                hosts => format!("these {hosts} hosts must stay together; "),
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
                    "{} are in one `apart` group, which needs {} machines; the cluster has {}",
                    names(plan, &hosts),
                    group.len(),
                    machines.len()
                ),
                "use more machines, or a smaller group in `apart`",
            ));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Refusal { problems }) }
}

/// The refusal for atoms that no machine has room for.
pub(super) fn no_room(
    plan: &Plan,
    machines: &[Machine],
    atoms: &Atoms,
    unplaced: &Unplaced,
) -> Refusal {
    let hosts: Vec<NodeId> = unplaced
        .atoms
        .iter()
        .filter_map(|atom| atoms.list.get(*atom as usize))
        .flat_map(|atom| atom.hosts.iter().copied())
        .collect();
    let who = names(plan, &hosts);
    let mut reasons: Vec<String> = Vec::new();
    let mut resources: Vec<Resource> = Vec::new();
    for (machine, why) in machines.iter().zip(&unplaced.why) {
        match why {
            Exclusion::Short(short) => {
                reasons.push(shortage(&machine.name, short));
                resources.push(short.resource);
            }
            Exclusion::Apart(atom) => {
                let other = atoms.name(plan, *atom);
                reasons.push(format!("{} has {other}, which must be apart", machine.name));
            }
            Exclusion::Pinned => {}
        }
    }
    resources.sort_unstable();
    resources.dedup();
    let helps: Vec<&str> = resources.into_iter().map(help).collect();
    let helps = if helps.is_empty() { vec!["more machines"] } else { helps };
    let more = reasons.len().saturating_sub(8);
    reasons.truncate(8);
    if more > 0 {
        reasons.push(format!("and {more} more machines with similar reasons"));
    }
    let what = format!(
        "no machine has room for {who} beside its part of the lab:\n  {}",
        reasons.join("\n  ")
    );
    Refusal { problems: vec![Problem::new(what, helps.join("; "))] }
}

/// For example `m1: 12.0 Gbit/s out over its interface, which has 10 Gbit/s`.
pub(super) fn shortage(machine: &str, short: &Shortage) -> String {
    let Shortage { resource, needed, available } = *short;
    match resource {
        Resource::Hosts => format!("{machine}: {needed:.0} hosts, and its limit is {available:.0}"),
        Resource::Memory => {
            format!("{machine}: {} of memory, and it has {}", data(needed), data(available))
        }
        Resource::Cores => format!(
            "{machine}: {needed:.2} cores for programs and, in the worst case, traffic (which may \
             use {:.0} % of the rest), and it has {available:.2}",
            HEADROOM * 100.0
        ),
        Resource::NicOut | Resource::NicIn => {
            let direction = if resource == Resource::NicOut { "out" } else { "in" };
            format!(
                "{machine}: in the worst case {} {direction} over its interface ({TRUNK_OVERHEAD} × the \
                 emulated traffic), which has {}",
                rate(needed),
                rate(available)
            )
        }
        Resource::Traffic => format!(
            "{machine}: in the worst case {} of emulated traffic, and its limit is {}",
            rate(needed),
            rate(available)
        ),
    }
}

const fn help(resource: Resource) -> &'static str {
    match resource {
        Resource::Hosts => "use more machines, or a higher `--hosts` of the agents",
        Resource::Memory => "use more machines, or less `memory` of nodes",
        Resource::Cores => {
            "use more machines, fewer `cpus` of nodes, lower `rate`s of links, or --overcommit if \
             the programs send much less than their links allow"
        }
        Resource::NicOut | Resource::NicIn | Resource::Traffic => {
            "use lower `rate`s of links, `together` for hosts with much common traffic, faster \
             interfaces, or --overcommit if the programs send much less than their links allow"
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
