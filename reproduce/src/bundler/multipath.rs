//! Figure 6: several paths between the boxes.

use super::boxes::{Moment, course, first, last, mean, share};
use super::{Case, bundler, runs, status_quo, times};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "multipath",
    title: "figure 6: acknowledgements overtake each other where paths differ, boxes step aside",
    takes: "6 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/multipath.toml"), lab_file!("bundler/merge.toml")],
    make,
};

const LAB: &str = "bundler/multipath.toml";
const MERGE: &str = "bundler/merge.toml";
const PATHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Rates in Mbit/s and round trips in ms.
const GRID: [(f64, f64); 6] =
    [(12.0, 50.0), (48.0, 10.0), (96.0, 50.0), (96.0, 10.0), (96.0, 300.0), (48.0, 100.0)];
/// The paper's shares of acknowledgements out of order: most with one path, least with several.
const SINGLE: f64 = 0.004;
const SEVERAL: f64 = 0.2;
/// As many paths have to be told from one.
const MANY: u32 = 4;
const NOTICE: f64 = 10.0;
const GOODPUT: f64 = 0.97;
/// When the paths of `merge.toml` become one, and its end.
const MERGED: f64 = 60.0;
const END: f64 = 150.0;

/// What a cell of the grid came to, over seeds.
struct Cell {
    paths: u32,
    rate: f64,
    rtt: f64,
    /// The largest and smallest share of any seed.
    out_of_order: (f64, f64),
    /// When the bundle was disabled, slowest seed, in s.
    disabled: f64,
    /// Whether any seed was.
    any: bool,
    ratio: f64,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let grid: Vec<_> = GRID.into_iter().filter(|g| !stage.short() || *g == (96.0, 50.0)).collect();
    let paths: Vec<u32> =
        PATHS.into_iter().filter(|n| !stage.short() || [1, 4, 32].contains(n)).collect();
    let mut cases = Vec::new();
    for (rate, rtt) in &grid {
        for paths in &paths {
            for case in [status_quo(), bundler()] {
                cases.push(split(case, *rate, *rtt, *paths));
            }
        }
    }
    let all = runs(stage, LAB, &cases, 3)?;
    let mut cells = Vec::new();
    let names = grid.iter().flat_map(|g| paths.iter().map(move |paths| (*g, *paths)));
    for (((rate, rtt), paths), pair) in names.zip(all.chunks(2)) {
        let [quo, ours] = pair else { continue };
        cells.push(cell((rate, rtt, paths), quo, ours)?);
    }
    let mut evidence = evidence(&cells);
    merge(stage, &mut evidence)?;
    Ok(evidence)
}

/// The rate over so many of the lab's 32 paths.
fn split(case: Case, rate: f64, rtt: f64, paths: u32) -> Case {
    let mut case = case.called(&format!("{rate}-{rtt}-{paths}"));
    for path in 1..=PATHS[5] {
        if path > paths {
            case = case.set(format!("link.path{path}.state"), "down");
            continue;
        }
        let each = (rate * 1e6 / f64::from(paths)).round();
        case = case
            .set(format!("link.path{path}.rate"), format!("{each} bit/s"))
            .set(format!("link.path{path}.delay"), format!("{} ms", rtt / 2.0));
    }
    case
}

fn cell((rate, rtt, paths): (f64, f64, u32), quo: &[Run], ours: &[Run]) -> Result<Cell> {
    let mut cell = Cell {
        paths,
        rate,
        rtt,
        out_of_order: (0.0, f64::INFINITY),
        disabled: 0.0,
        any: false,
        ratio: goodput(ours)? / goodput(quo)?,
    };
    for run in quo {
        let share = shuffled(&course(run, "site")?);
        cell.out_of_order = (cell.out_of_order.0.max(share), cell.out_of_order.1.min(share));
    }
    for run in ours {
        let moments = course(run, "site")?;
        let at = first(&moments, "disabled", 0.0);
        cell.any |= at.is_some();
        cell.disabled = cell.disabled.max(at.unwrap_or(f64::INFINITY));
    }
    Ok(cell)
}

/// Mean share of acknowledgements out of order once flows have started.
fn shuffled(moments: &[Moment]) -> f64 {
    let points: Vec<(f64, f64)> = moments.iter().map(|m| (m.at, m.out_of_order)).collect();
    mean(&points, 5.0, f64::INFINITY)
}

fn goodput(runs: &[Run]) -> Result<f64> {
    let each = runs.iter().map(|run| Ok(mean(&run.flow_rate("bulk", 1.0)?, NOTICE, 1e9)));
    Ok(each.sum::<Result<f64>>()? / runs.len().max(1) as f64)
}

fn evidence(cells: &[Cell]) -> Evidence {
    let mut evidence = Evidence::default();
    let heads = ["paths", "rate, round trip", "out of order", "disabled after", "goodput"];
    let title = "Share of acknowledgements out of order without pacing, in %, of the seeds; s \
                 until the bundle is disabled, slowest seed; goodput over status quo from 10 s on";
    let mut table = Table::new(title, &heads);
    for cell in cells {
        let (most, least) = cell.out_of_order;
        let after = if cell.disabled.is_finite() {
            format!("{:.1}", cell.disabled)
        } else {
            "–".to_owned()
        };
        table.row([
            cell.paths.to_string(),
            format!("{} Mbit/s, {} ms", cell.rate, cell.rtt),
            format!("{:.1} to {:.1}", least * 100.0, most * 100.0),
            after,
            times(cell.ratio),
        ]);
    }
    evidence.tables.push(table);
    evidence.plots.push(plot(cells));
    claims(&mut evidence, cells);
    evidence
}

fn claims(evidence: &mut Evidence, cells: &[Cell]) {
    let single = || cells.iter().filter(|cell| cell.paths == 1);
    let many = || cells.iter().filter(|cell| cell.paths >= MANY);
    let most = single().map(|cell| cell.out_of_order.0).fold(0.0, f64::max);
    evidence.claim(
        "acknowledgements out of order, one path, worst",
        format!("at most {:.1} %", SINGLE * 100.0),
        format!("{:.2} %", most * 100.0),
        most <= SINGLE,
    );
    let least = many().map(|cell| cell.out_of_order.1).fold(f64::INFINITY, f64::min);
    evidence.claim(
        format!("acknowledgements out of order, {MANY} paths and more, least"),
        format!(
            "at least {:.0} % with several (here: twelve times a single path's)",
            SEVERAL * 1e2
        ),
        format!("{:.1} %", least * 100.0),
        least >= 12.0 * SINGLE,
    );
    let wrong = single().filter(|cell| cell.any).count();
    evidence.claim(
        "single paths taken for several",
        "none",
        format!("{wrong} of {}", single().count()),
        wrong == 0,
    );
    let slowest = many().map(|cell| cell.disabled).fold(0.0, f64::max);
    evidence.claim(
        format!("disabled with {MANY} paths and more, slowest"),
        format!("not in the paper (expected: within {NOTICE} s)"),
        format!("{slowest:.1} s"),
        slowest <= NOTICE,
    );
    let worst = many().map(|cell| cell.ratio).fold(f64::INFINITY, f64::min);
    evidence.claim(
        format!("goodput over status quo with {MANY} paths and more, least"),
        format!("not in the paper (expected: at least {GOODPUT} ×)"),
        times(worst),
        worst >= GOODPUT,
    );
}

fn plot(cells: &[Cell]) -> Plot {
    let mut plot = Plot::new(
        "Acknowledgements out of order",
        Axis::log("paths"),
        Axis::linear("% of acknowledgements").from(0.0),
    );
    for cell in cells.iter().filter(|cell| cell.paths == 1) {
        let own = cells.iter().filter(|c| (c.rate, c.rtt) == (cell.rate, cell.rtt));
        let points = own.map(|c| (f64::from(c.paths), c.out_of_order.1 * 100.0)).collect();
        let label = format!("{} Mbit/s, {} ms", cell.rate, cell.rtt);
        plot.lines.push(Line::new(label, points));
    }
    let paper = vec![(1.0, SINGLE * 100.0), (2.0, SEVERAL * 100.0), (32.0, SEVERAL * 100.0)];
    let bound = Line::new("paper: most of one, least of several", paper);
    plot.line(bound.style(Style::Reference))
}

fn merge(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let cases = [status_quo(), bundler()].map(|case| case.called("merge"));
    let all = runs(stage, MERGE, &cases, 3)?;
    let [quo, ours] = all.as_slice() else { return Ok(()) };
    let states: Vec<Vec<Moment>> =
        ours.iter().map(|run| course(run, "site")).collect::<Result<_>>()?;
    let noticed = |m: &Vec<Moment>| first(m, "disabled", 0.0).unwrap_or(f64::INFINITY);
    let slowest = states.iter().map(noticed).fold(0.0, f64::max);
    evidence.claim(
        "four unequal paths: disabled, slowest seed",
        format!("not in the paper (expected: within {NOTICE} s)"),
        format!("{slowest:.1} s"),
        slowest <= NOTICE,
    );
    let until = states.iter().map(|m| last(m, "disabled", END).unwrap_or(f64::INFINITY));
    let until = until.fold(0.0, f64::max) - MERGED;
    let shaped = states.iter().map(|m| share(m, "delay", END - 20.0, END));
    let shaped = shaped.fold(f64::INFINITY, f64::min);
    evidence.claim(
        "the paths become one: enabled again, slowest seed",
        "not in the paper (expected: while the lab lasts, and shaping in its last 20 s)",
        format!("after {until:.1} s; {:.0} % of the last 20 s shaped", shaped * 100.0),
        until < END - MERGED - 20.0 && shaped > 0.9,
    );
    let ratio = goodput(ours)? / goodput(quo)?;
    evidence.claim(
        "goodput over status quo while paths merge",
        format!("not in the paper (expected: at least {GOODPUT} ×)"),
        times(ratio),
        ratio >= GOODPUT,
    );
    Ok(())
}
