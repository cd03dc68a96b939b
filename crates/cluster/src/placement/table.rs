//! A placement for reading: text, and JSON.

use base::{Bandwidth, NodeId};
use lab::plan::Plan;
use serde_json::{Value, json};

use super::limits::{HEADROOM, TRUNK_OVERHEAD};
use super::refusal::{names, rate};
use super::{Bound, BoundedBy, Machine, Placement, Share, Terms};

/// Flows between machines that the text has one by one.
const MOST_FLOWS: usize = 20;

/// The placement as a table, with what is cut, why, and what may disturb the run.
pub fn table(plan: &Plan, machines: &[Machine], terms: &Terms, placement: &Placement) -> String {
    let head =
        ["machine", "hosts", "programs", "cores", "memory", "out", "in", "interface", "inside"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for share in &placement.machines {
        rows.push(row(&machines[share.machine], share));
    }
    let mut lines = aligned(&rows);
    let idle = machines.len() - placement.machines.len();
    if idle > 0 {
        lines.push(format!("{idle} of {} machines have nothing of the lab", machines.len()));
    }
    for share in &placement.machines {
        lines.push(format!("{}: {}", share.name, names(plan, &share.hosts)));
    }
    lines.push(cut_line(placement));
    for flow in placement.cut.iter().take(MOST_FLOWS) {
        let [from, to] = flow.machines.map(|agent| &placement.machines[agent.index()].name);
        let rate = flow.rate.map_or_else(|| "any rate".to_owned(), shown);
        let delay = flow.delay.map_or_else(String::new, |delay| {
            let micros = delay.saturating_sub(terms.physical).as_nanos() / 1_000;
            let lead = base::Span::from_micros(micros);
            format!(", {delay} of delay, {lead} beyond the physical network's")
        });
        let name = &plan.flows[flow.flow.index()].name;
        lines.push(format!("  {name}: {from} to {to}, {rate}{delay}"));
    }
    if let Some(more) = placement.cut.len().checked_sub(MOST_FLOWS).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more"));
    }
    lines.extend(placement.reasons.iter().map(|reason| format!("note: {reason}")));
    lines.extend(placement.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n") + "\n"
}

fn row(machine: &Machine, share: &Share) -> Vec<String> {
    let offered = &machine.resources;
    let cores = share.traffic_cores.map_or_else(
        || format!("{:.2} + any", share.program_cores),
        |traffic| format!("{:.2}", share.program_cores + traffic / HEADROOM),
    );
    let mib = |bytes: base::Bytes| format!("{} MiB", bytes.count() >> 20);
    vec![
        share.name.clone(),
        format!("{} of {}", share.hosts.len(), offered.hosts),
        share.programs.len().to_string(),
        format!("{cores} of {:.2}", offered.cores),
        format!("{} of {}", mib(share.memory), mib(offered.memory)),
        bound(share.out),
        bound(share.into),
        offered.nic.map_or_else(|| "unknown".to_owned(), shown),
        bound(share.inside),
    ]
}

/// In the worst case, and what makes it so.
fn bound(bound: Bound) -> String {
    match (bound.rate, bound.by) {
        (None, _) => "any".to_owned(),
        (Some(rate), BoundedBy::Flows) => format!("{} (flows)", shown(rate)),
        (Some(rate), _) => shown(rate),
    }
}

fn shown(bandwidth: Bandwidth) -> String {
    match bandwidth.bits_per_sec() {
        0 => "0".to_owned(),
        bits => rate(bits as f64),
    }
}

fn cut_line(placement: &Placement) -> String {
    match placement.cut.len() {
        0 => "no declared flow between machines".to_owned(),
        1 => "1 declared flow between machines:".to_owned(),
        flows => format!("{flows} declared flows between machines:"),
    }
}

fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The placement for programs. Rates are bits a second, sizes bytes, times nanoseconds; `null`
/// where nothing bounds a rate or the kernel does not tell.
pub fn json(plan: &Plan, machines: &[Machine], terms: &Terms, placement: &Placement) -> Value {
    let node = |node: &NodeId| plan.nodes[node.index()].name.clone();
    let bits = |rate: Option<Bandwidth>| rate.map(Bandwidth::bits_per_sec);
    let shares = placement.machines.iter().map(|share| {
        let offered = &machines[share.machine].resources;
        let mut value = json!(share);
        value["hosts"] = json!(share.hosts.iter().map(node).collect::<Vec<_>>());
        let programs = share.programs.iter().map(|id| plan.programs[id.index()].name.clone());
        value["programs"] = json!(programs.collect::<Vec<_>>());
        value["offers"] = json!({
            "cores": offered.cores,
            "memory": offered.memory.count(),
            "nic": bits(offered.nic),
            "traffic": bits(offered.traffic),
            "hosts": offered.hosts,
        });
        value
    });
    let cut = placement.cut.iter().map(|flow| {
        let mut value = json!(flow);
        value["flow"] = json!(plan.flows[flow.flow.index()].name);
        let name = |agent: crate::AgentId| &placement.machines[agent.index()].name;
        value["machines"] = json!(flow.machines.map(name));
        let lead = flow.delay.map(|delay| delay.saturating_sub(terms.physical).as_nanos());
        value["beyond_physical"] = json!(lead);
        value
    });
    json!({
        "lab": plan.name,
        "machines": shares.collect::<Vec<_>>(),
        "idle": machines.len() - placement.machines.len(),
        "cut": cut.collect::<Vec<_>>(),
        "physical_delay": terms.physical.as_nanos(),
        "trunk_overhead": TRUNK_OVERHEAD,
        "notes": placement.reasons,
        "warnings": placement.warnings,
    })
}
