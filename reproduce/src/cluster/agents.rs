//! Machines grow in number: with the lab as it is, and with the lab.

use super::{NOTE, Row, WAYS, bear, load, scene, show};
use crate::{Evidence, Figure, Result, Stage};

pub(super) const FIGURE: Figure = Figure {
    id: "agents",
    title: "bytes and messages of a machine, by the number of machines",
    takes: "5 min",
    clocks: &[],
    files: &[super::LAB],
    make,
};

const AGENTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const FEW: [usize; 3] = [2, 4, 8];
const FLOWS: usize = 1_000;
const CHANGES: u32 = 100;
/// What each machine brings along where the lab grows with them; two bring one change more.
const OWN_FLOWS: usize = 25;

/// Kollaps (`EuroSys` 2020): metadata of 160 containers on 4 hosts, bytes a second.
const KOLLAPS: f64 = 0.5e6;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let scene = scene()?;
    let sizes: &[usize] = if stage.short() { &FEW } else { &AGENTS };
    let (flows, changes) = stage.size((FLOWS, CHANGES), (100, 20));
    let fixed = sizes.iter().map(|members| load(*members, flows, changes));
    let fixed = bear(stage, &scene, fixed)?;
    let grown = |members: &usize| load(*members, members * OWN_FLOWS, members.div_ceil(2) as u32);
    let grown = bear(stage, &scene, sizes.iter().map(grown))?;
    let mut evidence = Evidence::default();
    let title = format!("{flows} flows, {changes} changes/s in all");
    show(&mut evidence, &title, "machines", &fixed, |load| load.agents);
    let title = format!("{OWN_FLOWS} flows and a change every 2 s for each machine");
    show(&mut evidence, &title, "machines", &grown, |load| load.agents);
    claims(&mut evidence, &fixed, &grown);
    evidence.note(NOTE);
    Ok(evidence)
}

fn claims(evidence: &mut Evidence, fixed: &[Row], grown: &[Row]) {
    if let Some(four) = fixed.iter().find(|row| row.load.agents == 4) {
        for (way, (name, _)) in WAYS.iter().enumerate() {
            let all = four.wire(way) * 4.0;
            evidence.claim(
                format!("metadata of 150 hosts on 4 machines, {name}"),
                "Kollaps: below 500 kB/s with 160 containers on 4 hosts",
                format!("{:.1} kB/s on the wire of all", all / 1e3),
                all < KOLLAPS,
            );
        }
    }
    let (Some(few), Some(many)) = (grown.iter().find(|row| row.load.agents > 1), grown.last())
    else {
        return;
    };
    let times = many.load.agents as f64 / few.load.agents as f64;
    let growth = |way: usize| many.payload(way) / few.payload(way).max(1.0);
    evidence.claim(
        "a machine's notices where the lab grows with the machines",
        "grow with all flows of the lab (expected)",
        format!("{:.1} times as many bytes on {times} times as many machines", growth(0)),
        growth(0) > times / 2.0,
    );
}
