//! Flows grow in number on eight machines.

use super::{NOTE, bear, load, scene, show};
use crate::{Evidence, Figure, Result, Stage};

pub(super) const FIGURE: Figure = Figure {
    id: "flows",
    title: "bytes and messages of a machine, by the number of flows",
    takes: "5 min",
    clocks: &[],
    files: &[super::LAB],
    make,
};

const FLOWS: [usize; 7] = [125, 250, 500, 1_000, 2_000, 4_000, 8_000];
const FEW: [usize; 3] = [50, 100, 200];
const MEMBERS: usize = 8;
const CHANGES: u32 = 100;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let scene = scene()?;
    let sizes: &[usize] = if stage.short() { &FEW } else { &FLOWS };
    let mut evidence = Evidence::default();
    for changes in [0, stage.size(CHANGES, 20)] {
        let loads = sizes.iter().map(|flows| load(MEMBERS, *flows, changes));
        let rows = bear(stage, &scene, loads)?;
        let title = format!("{MEMBERS} machines, {changes} changes/s");
        show(&mut evidence, &title, "flows", &rows, |load| load.flows);
        let (Some(few), Some(many)) = (rows.first(), rows.last()) else { continue };
        if changes == 0 {
            continue;
        }
        let growth = |way: usize| many.payload(way) / few.payload(way).max(1.0);
        evidence.claim(
            "notices, as flows grow in number and changes do not",
            "depend on changes, not on flows (expected: at most twice as many bytes)",
            format!("{:.2} times as many bytes", growth(0)),
            growth(0) <= 2.0,
        );
        let times = many.load.flows as f64 / few.load.flows as f64;
        evidence.claim(
            "claims, as flows grow in number and changes do not",
            "grow more slowly than flows (expected: less than half as much)",
            format!("{:.2} times as many bytes for {times} times as many flows", growth(1)),
            growth(1) < times / 2.0,
        );
    }
    evidence.note(NOTE);
    Ok(evidence)
}
