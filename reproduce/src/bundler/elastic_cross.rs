//! Figure 10: 20 backlogged flows of the site beside many that pass no box.

use super::boxes::{course, mean, queue, share};
use super::{BOTTLENECK_MBITS, bundler, runs, status_quo, times, wall};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "elastic-cross",
    title: "figure 10: the site's 20 flows beside 10 to 50 backlogged flows of others",
    takes: "5 min",
    clocks: &[Clock::Virtual, Clock::Wall],
    files: &[lab_file!("bundler/elastic-cross.toml")],
    make: |stage| wall::both(stage, make, check),
};

const LAB: &str = "bundler/elastic-cross.toml";
/// Flows of others, and the paper's throughput of the site in Mbit/s: status quo, Bundler.
const FLOWS: [(u32, [f64; 2]); 5] = [
    (10, [62.0, 54.0]),
    (20, [49.0, 41.0]),
    (30, [40.0, 32.0]),
    (40, [35.0, 28.0]),
    (50, [30.0, 23.5]),
];
/// What throughput may be of the status quo's: the paper's mean is 0.82, its worst 0.78.
const THROUGHPUT: f64 = 0.8;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let flows: Vec<_> = FLOWS.iter().filter(|f| !stage.short() || f.0 % 20 == 10).collect();
    let seconds = stage.size(180.0, 60.0);
    let mut cases = Vec::new();
    for (count, _) in &flows {
        for case in [status_quo(), bundler()] {
            let case = case.called(&count.to_string());
            cases.push(
                case.set("flow.cross.streams", count.to_string())
                    .set("lab.duration", format!("{seconds} s")),
            );
        }
    }
    let all = runs(stage, LAB, &cases, 3)?;
    let mut evidence = Evidence::default();
    let heads = ["others' flows", "status quo", "Bundler", "ratio", "fair by flow"];
    let title = "Throughput of the site's 20 flows in Mbit/s, the paper's / ours, in the mean over \
                 the run without its first 20 s";
    let mut table = Table::new(title, &heads);
    let mut lines = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for ((count, paper), pair) in flows.iter().map(|f| (f.0, f.1)).zip(all.chunks(2)) {
        let mut ours = [0.0; 2];
        for (at, runs) in pair.iter().enumerate() {
            ours[at] = throughput(runs, seconds)?;
        }
        let ratio = ours[1] / ours[0];
        let both = |at: usize| format!("{:.1} / {:.1}", paper[at], ours[at]);
        let fair = 96.0 * 1448.0 / 1500.0 * 20.0 / f64::from(20 + count);
        let ratios = format!("{:.2} / {ratio:.2}", paper[1] / paper[0]);
        table.row([count.to_string(), both(0), both(1), ratios, format!("{fair:.1}")]);
        for at in [0, 1] {
            lines[at].push((f64::from(count), ours[at]));
            lines[at + 2].push((f64::from(count), paper[at]));
        }
        evidence.claim(
            format!("throughput beside {count} flows, Bundler over status quo"),
            format!("{} (here: at least {THROUGHPUT} ×)", times(paper[1] / paper[0])),
            times(ratio),
            ratio >= THROUGHPUT,
        );
    }
    let x = Axis::linear("others' flows").from(0.0);
    let mut plot = Plot::new("Beside elastic flows", x, Axis::linear("Mbit/s").from(0.0));
    let labels = ["status quo", "Bundler", "status quo (paper)", "Bundler (paper)"];
    for (at, (label, points)) in labels.iter().zip(lines).enumerate() {
        let style = if at < 2 { Style::Line } else { Style::Dots };
        plot.lines.push(Line::new(*label, points).style(style));
    }
    evidence.plots.push(plot);
    evidence.tables.push(table);
    Ok(evidence)
}

fn check(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let seconds = stage.size(80.0, 40.0);
    let cases = [status_quo(), bundler()];
    let read = |run: &Run| {
        let passing = share(&course(run, "site")?, "pass-through", 20.0, seconds);
        let waits = mean(&queue(run, "bottleneck", BOTTLENECK_MBITS)?, 20.0, seconds);
        Ok(vec![throughput(std::slice::from_ref(run), seconds)?, passing * 100.0, waits])
    };
    let heads = ["Mbit/s beside 10 flows", "% in pass-through", "queue, ms"];
    let checked = wall::Check { lab: LAB, seed: 1, seconds, heads: &heads, read: &read };
    let checked = checked.run(stage, evidence, &cases)?;
    let [(before, quo), (after, ours)] = checked.as_slice() else { return Ok(()) };
    let runs = [(&cases[0], before), (&cases[1], after)];
    evidence.plots.push(wall::waits(("bottleneck", BOTTLENECK_MBITS), &runs)?);
    let what = "throughput beside 10 flows, Bundler over status quo";
    wall::claim(evidence, what, "0.87 ×", ours[0] / quo[0], 0.65..=f64::INFINITY);
    Ok(())
}

fn throughput(runs: &[Run], seconds: f64) -> Result<f64> {
    let each = runs.iter().map(|run| Ok(mean(&run.flow_rate("bulk", 1.0)?, 20.0, seconds) / 1e6));
    Ok(each.sum::<Result<f64>>()? / runs.len().max(1) as f64)
}
