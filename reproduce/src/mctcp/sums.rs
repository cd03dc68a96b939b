//! Equal paths: the stream gets what single connections on them get together.

use super::course::{Middle, gap, goodput};
use super::grid::{Case, Grid, Rival, Times, grid};
use super::verdict::{Wanted, claim, word};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "sums",
    title: "one to four paths of 10 Mbit/s: the sum of single connections' goodputs",
    takes: "10 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml")],
    make,
};

/// The lab of equal paths, and its links.
pub(super) const LAB: (&str, &[&str]) =
    ("mctcp/paths.toml", &["path1", "path2", "path3", "path4", "path5", "path6", "path7", "path8"]);
/// Length of its runs, in s.
pub(super) const END: f64 = 20.0;
const PATHS: [usize; 4] = [1, 2, 3, 4];
const OF_SUM: f64 = 0.98;
const OF_ONE: f64 = 0.99;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let case = |paths: usize| {
        let case = Case::new(LAB, paths, format!("sum-{paths}"), format!("{paths} paths"));
        // Paths are equal: the connections of the largest case stand for all.
        if paths == PATHS[3] { case.each_alone() } else { case }
    };
    let cases: Vec<Case> = PATHS.into_iter().map(case).collect();
    let grid = grid(stage, &cases, Times::FIVE)?;
    let mut evidence = Evidence::default();
    let heads = ["paths", "clock", "MCTCP", "kernel MPTCP", "single TCPs, added", "longest gap"];
    let title = format!(
        "Goodput over the first {END} s in Mbit/s, and the longest gap of MCTCP \
         in s: medians (least to largest)"
    );
    let mut table = Table::new(title, &heads);
    for clock in stage.clocks() {
        let sums = sums(&grid, clock)?;
        for (at, (paths, sum)) in PATHS.into_iter().zip(sums).enumerate() {
            let of = |rival| goodputs(&grid, at, rival, clock);
            let (ours, kernel) = (of(Rival::Mctcp)?, of(Rival::Mptcp)?);
            let runs = grid.of(at, Rival::Mctcp, clock).unwrap_or_default();
            let gap = Middle::read(runs, |run| gap(run, 0.0, END))?;
            let cells = [ours.text(), kernel.text(), format!("{sum:.2}"), gap.text()];
            let name = [paths.to_string(), word(clock).to_owned()];
            table.row(name.into_iter().chain(cells));
            let least = if paths == 1 { OF_ONE } else { OF_SUM };
            claim(
                &mut evidence,
                clock,
                &format!("{paths} × 10 Mbit/s, over single TCPs' sum"),
                Wanted::AtLeast(least),
                over(ours, sum),
                &[("kernel MPTCP", over(kernel, sum))],
            );
        }
    }
    evidence.tables.push(table);
    Ok(evidence)
}

/// The sums of the medians of single connections on the first paths.
fn sums(grid: &Grid, clock: Clock) -> Result<Vec<f64>> {
    let mut sum = 0.0;
    let mut sums = Vec::new();
    for path in 0..PATHS[3] {
        sum += goodputs(grid, PATHS.len() - 1, Rival::Tcp(path), clock)?.median;
        sums.push(sum);
    }
    Ok(sums)
}

/// Goodputs of whole runs of the lab, in Mbit/s.
pub(super) fn goodputs(grid: &Grid, case: usize, rival: Rival, clock: Clock) -> Result<Middle> {
    let runs = grid.of(case, rival, clock).unwrap_or_default();
    Middle::read(runs, |run| goodput(run, 0.0, END))
}

/// Values over another.
pub(super) fn over(values: Middle, one: f64) -> Middle {
    Middle { median: values.median / one, min: values.min / one, max: values.max / one }
}
