//! How many subflows: more than paths, alone and beside somebody else's connection.

use super::course::{BULK, Middle, goodput, number, reinjected, reordered_kb};
use super::grid::{Case, Rival, Times, grid};
use super::sums::LAB;
use super::topologies::{SHARED, shares};
use super::verdict::word;
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "subflows",
    title: "outlook: how many subflows, with loss and beside others",
    takes: "5 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml"), lab_file!("mctcp/bottleneck.toml")],
    make,
};

const SUBFLOWS: [u32; 6] = [1, 2, 3, 4, 6, 8];
const LOSSES: [u32; 4] = [0, 1, 2, 5];
/// One for each path is what MCTCP opens by itself; more may not be needed where nothing is lost.
const OF_MOST: f64 = 0.97;

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for loss in LOSSES {
        for count in SUBFLOWS {
            cases.push(
                Case::new(LAB, 2, format!("{count}-{loss}"), format!("{count}, {loss} %"))
                    .rivals(&[Rival::Mctcp])
                    .set("link.path1.loss", format!("{loss} %"))
                    .set("link.path2.loss", format!("{loss} %"))
                    .own("flow.bulk.subflows", count.to_string()),
            );
        }
    }
    cases
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let cases = cases();
    let alone = grid(stage, &cases, Times::FIVE)?;
    let beside: Vec<Case> = SUBFLOWS
        .into_iter()
        .map(|count| {
            Case::new(SHARED, 2, format!("shared-{count}"), count.to_string())
                .rivals(&[Rival::Mctcp])
                .own("flow.bulk.subflows", count.to_string())
        })
        .collect();
    let shared = grid(stage, &beside, Times::FIVE)?;
    let mut evidence = Evidence::default();
    let title = "Two paths of 10 Mbit/s: goodput in Mbit/s, kB that waited at the receiver, % sent \
                 again over another path, segments that TCP sent again: medians";
    let heads = ["subflows, loss", "goodput", "waited", "again", "retransmissions"];
    let mut table = Table::new(title, &heads);
    let x = Axis::linear("subflows over two paths").from(0.0);
    let mut plot = Plot::new("Goodput", x, Axis::linear("Mbit/s").from(0.0));
    for (loss, (cells, cases)) in
        LOSSES.into_iter().zip(alone.0.chunks(SUBFLOWS.len()).zip(cases.chunks(SUBFLOWS.len())))
    {
        let mut points = Vec::new();
        for ((cell, case), count) in cells.iter().zip(cases).zip(SUBFLOWS) {
            let goodput = Middle::read(&cell.runs, |run| goodput(run, 0.0, super::sums::END))?;
            let waited = Middle::read(&cell.runs, reordered_kb)?;
            let again = Middle::read(&cell.runs, reinjected)?;
            let sent = Middle::read(&cell.runs, retransmits)?;
            let values = [goodput, waited, again, sent];
            table.row([case.label.clone()].into_iter().chain(values.map(|v| number(v.median))));
            points.push((f64::from(count), goodput.median));
        }
        let most = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
        if loss == 0 {
            evidence.claim(
                "one subflow for each path, nothing lost: goodput over the most",
                format!("not in the paper (expected: at least {OF_MOST})"),
                number(points[1].1 / most),
                points[1].1 >= OF_MOST * most,
            );
        }
        plot.lines.push(Line::new(format!("{loss} % lost"), points));
    }
    evidence.plots.push(plot);
    evidence.tables.push(table);
    let heads = ["subflows", "MCTCP", "one TCP beside"];
    let title = format!(
        "At one bottleneck of 20 Mbit/s: Mbit/s of each, medians (least to largest; {} clock)",
        word(Clock::Virtual)
    );
    let mut table = Table::new(title, &heads);
    for (cell, case) in shared.0.iter().zip(&beside) {
        let [ours, other] = shares(&cell.runs)?;
        table.row([case.label.clone(), ours.text(), other.text()]);
    }
    evidence.tables.push(table);
    evidence.note(
        "Each subflow is a TCP connection with a congestion control of its own: at a bottleneck \
         that all share, so many subflows take as much as so many connections. MCTCP opens one \
         for each path unless it is told to open more.",
    );
    Ok(evidence)
}

fn retransmits(run: &Run) -> Result<f64> {
    let paths = &run.flow(BULK)?.paths;
    Ok(paths.iter().map(|path| path.retransmits as f64).sum())
}
