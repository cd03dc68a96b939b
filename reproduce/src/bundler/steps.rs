//! The path changes under the bundle.

use base::Direction;

use super::boxes::{coarse, course, mean, queue_bytes};
use super::{bundler, runs, status_quo};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "steps",
    title: "beyond the paper: 96 Mbit/s become 24 and 96 again, 50 ms become 90 and 50 again",
    takes: "1 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/steps.toml")],
    make,
};

const LAB: &str = "bundler/steps.toml";
/// Changes: when, what, and rate and round trip from then on.
const STEPS: [(f64, &str, f64, f64); 4] = [
    (20.0, "96 to 24 Mbit/s", 24.0, 50.0),
    (50.0, "24 to 96 Mbit/s", 96.0, 50.0),
    (80.0, "50 to 90 ms", 96.0, 90.0),
    (110.0, "90 to 50 ms", 96.0, 50.0),
];
/// From so many seconds after a change on, the queue is short again.
const QUEUE_BACK: f64 = 2.0;
/// As a share of the round trip.
const SHORT: f64 = 0.25;
/// From so many seconds after a change on, this share of the capacity is used.
const USED_AGAIN: f64 = 5.0;
const USED: f64 = 0.9;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let all = runs(stage, LAB, &[status_quo(), bundler()], 3)?;
    let [quo, ours] = all.as_slice() else { return Ok(Evidence::default()) };
    let mut evidence = Evidence::default();
    let heads = ["change", "queue, 2 to 5 s after", "used, 5 to 25 s after", "status quo"];
    let title = "Worst seed: mean ms of queue at the bottleneck, and the share of its rate that \
                 is used";
    let mut table = Table::new(title, &heads);
    for (at, what, rate, rtt) in STEPS {
        let mut waits = 0.0_f64;
        for run in ours {
            let queue = queue_bytes(run, "bottleneck")?;
            let bytes = mean(&queue, at + QUEUE_BACK, at + USED_AGAIN);
            waits = waits.max(bytes * 8e-3 / rate);
        }
        let used = used(ours, at, rate)?;
        table.row([
            what.to_owned(),
            format!("{waits:.1} ms"),
            format!("{:.1} %", used * 100.0),
            format!("{:.1} %", self::used(quo, at, rate)? * 100.0),
        ]);
        let most = SHORT * rtt;
        evidence.claim(
            format!("queue from {QUEUE_BACK} to {USED_AGAIN} s after {what}"),
            format!("not in the paper (expected: at most {most:.1} ms in the mean)"),
            format!("{waits:.1} ms"),
            waits <= most,
        );
        evidence.claim(
            format!("capacity used from {USED_AGAIN} s after {what}"),
            format!("not in the paper (expected: at least {:.0} %)", USED * 100.0),
            format!("{:.1} %", used * 100.0),
            used >= USED,
        );
    }
    evidence.tables.push(table);
    plots(&mut evidence, &quo[0], &ours[0])?;
    Ok(evidence)
}

/// The least share of the rate that any run uses after a change.
fn used(runs: &[Run], at: f64, rate: f64) -> Result<f64> {
    let mut least = f64::INFINITY;
    for run in runs {
        let sent = run.link_rate("bottleneck", Direction::Up, 0.5)?;
        least = least.min(mean(&sent, at + USED_AGAIN, at + 25.0) / 1e6 / rate);
    }
    Ok(least)
}

fn plots(evidence: &mut Evidence, quo: &Run, ours: &Run) -> Result<()> {
    let x = || Axis::linear("time in s").from(0.0);
    let mut plot = Plot::new("Rate", x(), Axis::linear("Mbit/s").from(0.0));
    let sent = ours.link_rate("bottleneck", Direction::Up, 0.5)?;
    let sent = sent.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect();
    plot.lines.push(Line::new("through the bottleneck", sent));
    let moments = course(ours, "site")?;
    let rate: Vec<(f64, f64)> = moments.iter().map(|moment| (moment.at, moment.rate)).collect();
    plot.lines.push(Line::new("rate of the bundle", coarse(&rate, 0.2)));
    evidence.plots.push(plot);
    let y = Axis::linear("kB at the bottleneck").from(0.0);
    let mut plot = Plot::new("Queue in the network", x(), y);
    for (label, run) in [("status quo", quo), ("Bundler", ours)] {
        let bytes = queue_bytes(run, "bottleneck")?;
        let points = coarse(&bytes, 0.2).into_iter().map(|(at, bytes)| (at, bytes / 1e3));
        plot.lines.push(Line::new(label, points.collect()));
    }
    evidence.plots.push(plot);
    Ok(())
}
