//! Rates and round trips that nobody told the boxes.

use base::Direction;

use super::boxes::{mean, queue};
use super::{backlogged, bundler, runs, status_quo, times};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "rates",
    title: "beyond the paper: 12 Mbit/s to 1 Gbit/s, 10 to 300 ms, one configuration",
    takes: "15 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/backlogged.toml")],
    make,
};

const RATES: [f64; 4] = [12.0, 48.0, 200.0, 1000.0];
const ROUND_TRIPS: [f64; 4] = [10.0, 50.0, 100.0, 300.0];
const GOODPUT: f64 = 0.93;
const USED: f64 = 0.9;

/// A cell of the grid: means over seeds of the status quo and Bundler.
struct Cell {
    rate: f64,
    rtt: f64,
    goodput: [f64; 2],
    /// When 90 % of the link were used first, slowest seed, in s.
    used: [f64; 2],
    queue_ms: [f64; 2],
}

impl Cell {
    fn limit(&self) -> f64 {
        (20.0 * self.rtt / 1e3).max(3.0)
    }

    fn ratio(&self) -> f64 {
        self.goodput[1] / self.goodput[0]
    }
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let rates: Vec<f64> = RATES.into_iter().filter(|r| !stage.short() || *r < 100.0).collect();
    let round_trips: Vec<f64> =
        ROUND_TRIPS.into_iter().filter(|r| !stage.short() || *r <= 100.0).collect();
    let mut cases = Vec::new();
    for rate in &rates {
        for rtt in &round_trips {
            for case in [status_quo(), bundler()] {
                let case = case.called(&format!("{rate}-{rtt}"));
                cases.push(
                    case.set("link.bottleneck.rate", format!("{rate} Mbit/s"))
                        .set("link.bottleneck.delay", format!("{} ms", rtt / 2.0))
                        .set("link.bottleneck.queue", "droptail")
                        .set("lab.duration", format!("{} s", seconds(*rtt, stage.short())))
                        .set("lab.interval", if *rtt > 20.0 { "20 ms" } else { "5 ms" }),
                );
            }
        }
    }
    let all = runs(stage, backlogged::LAB, &cases, 3)?;
    let mut cells = Vec::new();
    let grid = rates.iter().flat_map(|rate| round_trips.iter().map(move |rtt| (*rate, *rtt)));
    for ((rate, rtt), pair) in grid.zip(all.chunks(2)) {
        let [quo, ours] = pair else { continue };
        cells.push(cell((rate, rtt), [quo, ours], stage.short())?);
    }
    Ok(evidence(&cells))
}

fn seconds(rtt: f64, short: bool) -> f64 {
    if short { 20.0 } else { (200.0 * rtt / 1e3).max(30.0) }
}

fn cell((rate, rtt): (f64, f64), ways: [&Vec<Run>; 2], short: bool) -> Result<Cell> {
    let mut cell = Cell { rate, rtt, goodput: [0.0; 2], used: [0.0; 2], queue_ms: [0.0; 2] };
    let end = seconds(rtt, short);
    // A round trip at least: acknowledgements of slow start come in bursts.
    let step = (rtt / 1e3).max(0.1);
    for (at, runs) in ways.into_iter().enumerate() {
        for run in runs {
            let share = 1.0 / runs.len() as f64;
            cell.goodput[at] += mean(&run.flow_rate("bulk", 1.0)?, 0.0, end) / 1e6 * share;
            let queue = queue(run, "bottleneck", rate)?;
            cell.queue_ms[at] += mean(&queue, end / 3.0, end) * share;
            let sent = run.link_rate("bottleneck", Direction::Up, step)?;
            let first = sent.iter().find(|(_, sent)| *sent >= USED * rate * 1e6);
            let first = first.map_or(f64::INFINITY, |(middle, _)| middle + step / 2.0);
            cell.used[at] = cell.used[at].max(first);
        }
    }
    Ok(cell)
}

fn evidence(cells: &[Cell]) -> Evidence {
    let mut evidence = Evidence::default();
    let heads =
        ["rate, round trip", "status quo", "Bundler", "ratio", "90 % after", "limit", "queue"];
    let title = "Goodput in Mbit/s over the whole run; s until 90 % of the link are used, slowest \
                 seed (status quo / Bundler); mean ms of queue (the same)";
    let mut table = Table::new(title, &heads);
    for cell in cells {
        table.row([
            format!("{} Mbit/s, {} ms", cell.rate, cell.rtt),
            format!("{:.2}", cell.goodput[0]),
            format!("{:.2}", cell.goodput[1]),
            format!("{:.3}", cell.ratio()),
            format!("{:.1} / {:.1}", cell.used[0], cell.used[1]),
            format!("{:.1}", cell.limit()),
            format!("{:.1} / {:.1}", cell.queue_ms[0], cell.queue_ms[1]),
        ]);
        let which = format!("{} Mbit/s, {} ms", cell.rate, cell.rtt);
        evidence.claim(
            format!("goodput over status quo, {which}"),
            format!("not in the paper (expected: at least {GOODPUT} ×)"),
            times(cell.ratio()),
            cell.ratio() >= GOODPUT,
        );
        evidence.claim(
            format!("time until 90 % are used, {which}"),
            format!("not in the paper (expected: at most {:.1} s)", cell.limit()),
            format!("{:.1} s", cell.used[1]),
            cell.used[1] <= cell.limit(),
        );
    }
    let x = Axis::log("round trip in ms");
    let mut plot = Plot::new("Goodput over status quo", x, Axis::linear("ratio").from(0.8));
    let mut rates: Vec<f64> = cells.iter().map(|cell| cell.rate).collect();
    rates.dedup();
    for rate in rates {
        let own = cells.iter().filter(|cell| (cell.rate - rate).abs() < 1e-9);
        let points = own.map(|cell| (cell.rtt, cell.ratio())).collect();
        plot.lines.push(Line::new(format!("{rate} Mbit/s"), points));
    }
    let ends = (ROUND_TRIPS[0], ROUND_TRIPS[3]);
    let least = Line::new("asked for", vec![(ends.0, GOODPUT), (ends.1, GOODPUT)]);
    plot.lines.push(least.style(Style::Reference));
    evidence.plots.push(plot);
    evidence.tables.push(table);
    evidence.note(
        "Goodput is that of ten Cubic flows over the whole run, start-up included: 30 s, or 200 \
         round trips where that is longer. 90 % are used when the link has sent that much in \
         100 ms, or in a round trip where that is longer.",
    );
    evidence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_goodput_and_start_up_are_judged() {
        let cell = |goodput, used| Cell {
            rate: 12.0,
            rtt: 300.0,
            goodput: [10.0, goodput],
            used: [1.0, used],
            queue_ms: [1.0; 2],
        };
        let held = |goodput, used| {
            let evidence = evidence(&[cell(goodput, used)]);
            evidence.claims.iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(held(9.4, 5.9), [true, true]);
        assert_eq!(held(9.2, 6.1), [false, false]);
    }
}
