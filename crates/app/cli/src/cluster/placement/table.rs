//! Formats a placement.

use base::Bandwidth;
use lab::plan::Plan;
use placement::{Bound, BoundedBy, HEADROOM, Machine, Placement, Share, Terms, names, rate};

/// Maximum number of listed flows between machines; further ones are only counted.
const MAX_LISTED_FLOWS: usize = 20;

/// The placement as a table, with the flows between machines, reasons and warnings.
pub(super) fn table(
    plan: &Plan,
    machines: &[Machine],
    terms: &Terms,
    placement: &Placement,
) -> String {
    let head =
        ["machine", "hosts", "programs", "cores", "memory", "out", "in", "interface", "inside"];
    let rows = placement.machines.iter().map(|share| row(&machines[share.machine], share));
    let mut lines = vec![report::columns(&head, &rows.collect::<Vec<_>>(), 0..0)];
    let idle = machines.len() - placement.machines.len();
    if idle > 0 {
        lines.push(format!("{idle} of {} machines are not used", machines.len()));
    }
    for share in &placement.machines {
        lines.push(format!("{}: {}", share.name, names(plan, &share.hosts)));
    }
    lines.push(cut_line(placement));
    for flow in placement.cut.iter().take(MAX_LISTED_FLOWS) {
        let [from, to] = flow.machines.map(|agent| &placement.machines[agent.index()].name);
        let rate = flow.rate.map_or_else(|| "any rate".to_owned(), shown);
        let delay = flow.delay.map_or_else(String::new, |delay| {
            let micros = delay.saturating_sub(terms.physical).as_nanos() / 1_000;
            let lead = base::Span::from_micros(micros);
            format!(", delay {delay}, {lead} more than the physical network")
        });
        let name = &plan.flows[flow.flow.index()].name;
        lines.push(format!("  {name}: {from} to {to}, {rate}{delay}"));
    }
    if let Some(more) = placement.cut.len().checked_sub(MAX_LISTED_FLOWS).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more"));
    }
    lines.extend(placement.reasons.iter().map(|reason| format!("note: {reason}")));
    lines.extend(placement.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n")
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

/// The worst-case rate, and whether flows determine it.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::Bytes;
    use cluster::Resources;
    use placement::place;

    use super::*;

    #[test]
    fn shows_machines_and_cut_flows() {
        let text = "[[generate]]\nkind = \"dumbbell\"\nleft = 3\nright = 3\n\
                    access = { rate = \"100 Mbit/s\", delay = \"1 ms\" }\n\
                    core = { rate = \"40 Mbit/s\", delay = \"10 ms\" }\n\
                    [lab]\nmodel = \"collapsed\"\n[[flow]]\nfrom = \"l1\"\nto = \"r1\"\n\
                    [cluster]\napart = [[\"l1\", \"r1\"]]\n";
        let lab = lab::parse_with("test.toml", text, Path::new("."), &lab::Overrides::default());
        let plan = lab.unwrap().plans.remove(0);
        let resources = Resources {
            cores: 8.0,
            memory: Bytes::new(8 << 30),
            nic: Some(Bandwidth::from_mbits_per_sec(10_000)),
            traffic: None,
            hosts: 1_000,
        };
        let machines = ["m1", "m2"].map(|name| Machine { name: name.to_owned(), resources });
        let terms = Terms::default();
        let text = table(&plan, &machines, &terms, &place(&plan, &machines, &terms).unwrap());
        assert!(text.contains("machine  hosts"), "{text}");
        assert!(text.contains("40.0 Mbit/s"), "{text}");
        assert!(text.contains("delay 12 ms, 11.95 ms more than the physical network"), "{text}");
    }
}
