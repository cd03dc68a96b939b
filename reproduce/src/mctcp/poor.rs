//! When to leave a poor path: a second path of every quality, used and left.

use super::course::{Middle, gap, number};
use super::grid::{BUFFERS, Case, Rival, Times, grid};
use super::sums::{END, LAB, goodputs};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "poor",
    title: "outlook: when to leave a poor path, by its rate, delay and loss",
    takes: "10 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml")],
    make,
};

const RATES: [f64; 5] = [0.1, 0.5, 1.0, 2.0, 5.0];
const DELAYS: [u32; 4] = [10, 50, 200, 500];
const LOSSES: [u32; 3] = [0, 5, 20];
/// A second path may not make the stream worse than the first alone.
const NEVER_WORSE: f64 = 0.98;

/// A second path: Mbit/s, one-way ms, loss in %.
type Second = (f64, u32, u32);

fn seconds(stage: &Stage<'_>) -> Vec<Second> {
    let rates = stage.size(RATES.to_vec(), vec![0.5, 2.0]);
    let delays = stage.size(DELAYS.to_vec(), vec![10, 200]);
    let losses = stage.size(LOSSES.to_vec(), vec![0, 5]);
    let mut all = Vec::new();
    for rate in rates {
        for delay in &delays {
            all.extend(losses.iter().map(|loss| (rate, *delay, *loss)));
        }
    }
    all
}

fn case((rate, delay, loss): Second) -> Case {
    let name = format!("poor-{rate}-{delay}-{loss}");
    Case::new(LAB, 2, name, format!("{rate} Mbit/s, {delay} ms, {loss} %"))
        .rivals(&[Rival::Mctcp])
        .set("link.path2.rate", format!("{rate} Mbit/s"))
        .set("link.path2.delay", format!("{delay} ms"))
        .set("link.path2.loss", format!("{loss} %"))
        .set("flow.bulk.window", BUFFERS)
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let at = seconds(stage);
    let mut cases: Vec<Case> = at.iter().copied().map(case).collect();
    let alone = Case::new(LAB, 1, "poor-alone", "the first path alone");
    let alone = alone.set("flow.bulk.window", BUFFERS);
    cases.push(alone.rivals(&[Rival::Mctcp, Rival::Tcp(0)]));
    let grid = grid(stage, &cases, Times { simulated: 3, wall: 0 })?;
    let of = |case, rival| goodputs(&grid, case, rival, Clock::Virtual);
    let first = of(at.len(), Rival::Mctcp)?.median;
    let mut evidence = Evidence::default();
    let title = format!(
        "Beside a path of 10 Mbit/s and 10 ms, 262,144 B: goodput over {END} s in \
         Mbit/s with this second path, over that without it; longest gap in s: medians of 3"
    );
    let mut table = Table::new(title, &["second path", "goodput", "over one path", "gap"]);
    let mut worst = (f64::INFINITY, String::new());
    for (index, case) in cases.iter().enumerate().take(at.len()) {
        let goodput = of(index, Rival::Mctcp)?.median;
        let runs = grid.of(index, Rival::Mctcp, Clock::Virtual).unwrap_or_default();
        let gap = Middle::read(runs, |run| gap(run, 0.0, END))?.median;
        let cells = [number(goodput), number(goodput / first), number(gap)];
        table.row([case.label.clone()].into_iter().chain(cells));
        if goodput / first < worst.0 || goodput.is_nan() {
            worst = (goodput / first, case.label.clone());
        }
    }
    evidence.claim(
        "goodput with any second path, over the first path alone, worst",
        format!("not in the paper (expected: at least {NEVER_WORSE})"),
        format!("{} ({})", number(worst.0), worst.1),
        worst.0 >= NEVER_WORSE,
    );
    let one = of(at.len(), Rival::Tcp(0))?.median;
    evidence.claim(
        "one path: goodput over TCP's",
        "required: at least 0.99",
        number(first / one),
        first >= 0.99 * one,
    );
    for loss in LOSSES {
        let own: Vec<(Second, usize)> =
            at.iter().copied().zip(0..).filter(|(second, _)| second.2 == loss).collect();
        if !own.is_empty() {
            evidence
                .plots
                .push(plot(loss, &own, &|case| Ok(of(case, Rival::Mctcp)?.median / first))?);
        }
    }
    evidence.tables.push(table);
    evidence.note(
        "Where a second path never costs anything, it need not be left: what is sent over it is \
         what the scheduler expects to arrive in time, down to nothing.",
    );
    Ok(evidence)
}

/// Goodput over one path's against the second path's rate, a line for each delay.
fn plot(loss: u32, own: &[(Second, usize)], ratio: &dyn Fn(usize) -> Result<f64>) -> Result<Plot> {
    let x = Axis::log("rate of the second path in Mbit/s");
    let y = Axis::linear("goodput over one path");
    let mut plot = Plot::new(format!("Second path losing {loss} %"), x, y);
    for delay in DELAYS {
        let mut points = Vec::new();
        for ((rate, _, _), case) in own.iter().filter(|(second, _)| second.1 == delay) {
            points.push((*rate, ratio(*case)?));
        }
        if !points.is_empty() {
            plot.lines.push(Line::new(format!("{delay} ms"), points));
        }
    }
    let one = own.iter().map(|((rate, _, _), _)| (*rate, 1.0)).collect();
    plot.lines.push(Line::new("one path", one).style(Style::Reference));
    Ok(plot)
}
