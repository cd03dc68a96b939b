//! The seed's slide 9: mean throughput against loss on both paths.

use super::course::{Middle, goodput};
use super::grid::{BUFFERS, Case, Grid, Rival, Times, grid};
use super::sums::LAB;
use super::verdict::word;
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "loss",
    title: "slide 9: mean throughput against loss on both paths",
    takes: "15 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml")],
    make,
};

const LOSSES: [f64; 7] = [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0];
const END: f64 = 40.0;
/// A single connection's start and two losses' chance.
const SIMILAR: f64 = 0.9;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let losses = stage.size(LOSSES.to_vec(), vec![0.0, 5.0]);
    let case = |loss: &f64| {
        Case::new(LAB, 2, format!("loss-{loss}"), format!("{loss} %"))
            .each_alone()
            .set("lab.duration", format!("{END} s"))
            .set("link.path1.loss", format!("{loss} %"))
            .set("link.path2.loss", format!("{loss} %"))
            .set("flow.bulk.window", BUFFERS)
    };
    let cases: Vec<Case> = losses.iter().map(case).collect();
    let grid = grid(stage, &cases, Times::FIVE)?;
    let mut evidence = Evidence::default();
    let x = "loss on both paths in %";
    over_axis(stage, &mut evidence, &Swept { cases: &cases, at: &losses, x, end: END }, &grid)?;
    for clock in stage.clocks() {
        for (at, case) in cases.iter().enumerate() {
            let of = |rival| mean(&grid, at, rival, clock, END);
            let (ours, kernel) = (of(Rival::Mctcp)?, of(Rival::Mptcp)?);
            let sum = of(Rival::Tcp(0))?.median + of(Rival::Tcp(1))?.median;
            evidence.claim(
                format!("loss of {} on both paths: goodput ({})", case.label, word(clock)),
                format!(
                    "multipath raises throughput (here: at least {SIMILAR} × the single TCPs' \
                     {sum:.2} Mbit/s together; kernel MPTCP {})",
                    kernel.text()
                ),
                format!("{} Mbit/s", ours.text()),
                ours.median >= SIMILAR * sum,
            );
        }
    }
    Ok(evidence)
}

/// Cases along an axis.
pub(super) struct Swept<'a> {
    pub(super) cases: &'a [Case],
    pub(super) at: &'a [f64],
    pub(super) x: &'static str,
    pub(super) end: f64,
}

/// Goodput of all rivals against what is swept, as plots and tables.
pub(super) fn over_axis(
    stage: &Stage<'_>,
    evidence: &mut Evidence,
    swept: &Swept<'_>,
    grid: &Grid,
) -> Result<()> {
    for clock in stage.clocks() {
        let x = Axis::linear(swept.x);
        let x = if swept.at.first().is_some_and(|at| *at > 0.0) {
            Axis::log(swept.x)
        } else {
            x.from(0.0)
        };
        let title = format!("Goodput ({} clock)", word(clock));
        let mut plot = Plot::new(title, x, Axis::linear("Mbit/s").from(0.0));
        let mut table = Table::new(
            format!(
                "Goodput in Mbit/s over {} s: medians (least to largest; {} clock)",
                swept.end,
                word(clock)
            ),
            &[swept.x, "MCTCP", "kernel MPTCP", "TCP, path 1", "TCP, path 2"],
        );
        let rivals = [Rival::Mctcp, Rival::Mptcp, Rival::Tcp(0), Rival::Tcp(1)];
        let mut rows: Vec<Vec<String>> =
            swept.cases.iter().map(|case| vec![case.label.clone()]).collect();
        let mut sums = vec![0.0; swept.at.len()];
        for rival in rivals {
            let mut points = Vec::new();
            let mut spread = Vec::new();
            for (at, x) in swept.at.iter().enumerate() {
                let middle = mean(grid, at, rival, clock, swept.end)?;
                rows[at].push(middle.text());
                points.push((*x, middle.median));
                spread.push((middle.min, middle.max));
                if matches!(rival, Rival::Tcp(_)) {
                    sums[at] += middle.median;
                }
            }
            if points.iter().any(|(_, y)| y.is_finite()) {
                plot.lines.push(Line::new(rival.label(), points).spread(spread));
            }
        }
        let sum = swept.at.iter().copied().zip(sums).collect();
        plot.lines.push(Line::new("single TCPs, added", sum).style(Style::Reference));
        for row in rows {
            table.row(row);
        }
        evidence.plots.push(plot);
        evidence.tables.push(table);
    }
    Ok(())
}

fn mean(grid: &Grid, at: usize, rival: Rival, clock: Clock, end: f64) -> Result<Middle> {
    let runs = grid.of(at, rival, clock).unwrap_or_default();
    Middle::read(runs, |run| goodput(run, 0.0, end))
}
