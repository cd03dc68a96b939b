//! Figure 11: two bundles share a bottleneck.

use super::boxes::{mean, queue};
use super::requests::{Class, DEFINITION, Requests};
use super::{BOTTLENECK_MBITS, Case, bundler, load_share, runs, wall};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "two-bundles",
    title: "figure 11: two bundles at one bottleneck, requests and a backlogged flow in each",
    takes: "4 min",
    clocks: &[Clock::Virtual, Clock::Wall],
    files: &[lab_file!("bundler/two-bundles.toml")],
    make: |stage| wall::both(stage, make, check),
};

const LAB: &str = "bundler/two-bundles.toml";
/// Loads of requests in Mbit/s, and the paper's medians: Bundler, status quo.
const SPLITS: [([f64; 2], [f64; 2], [f64; 2]); 2] =
    [([42.0, 42.0], [1.17, 1.16], [3.06, 3.07]), ([56.0, 28.0], [1.18, 1.13], [3.05, 2.85])];
const MEDIAN: f64 = 1.4;
/// The throughputs' ratio over that of the offered loads is between this and its inverse.
const SHARE: f64 = 0.67;

fn status_quo() -> Case {
    let case = Case::new("status-quo", "status quo");
    case.set("bundle.first.mode", "observe").set("bundle.second.mode", "observe")
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let seconds = stage.size(120.0, 40.0);
    let mut cases = Vec::new();
    for (loads, ..) in SPLITS {
        for case in [status_quo(), bundler()] {
            let mut case = case.called(&format!("{}", loads[0]));
            for (load, flow) in loads.iter().zip(["requests1", "requests2"]) {
                let field = format!("flow.{flow}.arrivals.load");
                case = case.set(field, load_share(*load));
            }
            // Shares are as loads: each unit of weight counts as a bundle.
            case = case.set("bundle.first.weight", format!("{}", loads[0] / loads[1]));
            cases.push(case.set("lab.duration", format!("{seconds} s")));
        }
    }
    let all = runs(stage, LAB, &cases, stage.size(10, 3))?;
    let mut evidence = Evidence::default();
    let heads = ["offered", "boxes", "first, median", "second", "Mbit/s", "ratio", "queue, ms"];
    let title = "Median slowdown of each bundle's requests, the paper's / ours; throughput of \
                 requests and backlogged flow together; mean queue at the bottleneck";
    let mut table = Table::new(title, &heads);
    for ((loads, ours, quo), pair) in SPLITS.iter().zip(all.chunks(2)) {
        for (runs, (label, paper)) in pair.iter().zip([("status quo", quo), ("Bundler", ours)]) {
            let medians = [
                Requests::read(runs, "requests1")?.median(Class::All),
                Requests::read(runs, "requests2")?.median(Class::All),
            ];
            let rates = [throughput(runs, 1, seconds)?, throughput(runs, 2, seconds)?];
            let ratio = rates[0] / rates[1];
            let waits: f64 = runs
                .iter()
                .map(|run| Ok(mean(&queue(run, "bottleneck", BOTTLENECK_MBITS)?, 10.0, seconds)))
                .sum::<Result<f64>>()?
                / runs.len() as f64;
            let both = |at: usize| format!("{:.2} / {:.2}", paper[at], medians[at]);
            table.row([
                format!("{} + {} Mbit/s", loads[0], loads[1]),
                label.to_owned(),
                both(0),
                both(1),
                format!("{:.1}, {:.1}", rates[0], rates[1]),
                format!("{ratio:.2}"),
                format!("{waits:.1}"),
            ]);
            if label == "Bundler" {
                claims(&mut evidence, *loads, *paper, medians, ratio);
            }
        }
    }
    evidence.tables.push(table);
    evidence.note(DEFINITION);
    Ok(evidence)
}

fn check(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let seconds = stage.size(60.0, 25.0);
    let cases = [status_quo(), bundler()];
    let read = |run: &Run| {
        let run = std::slice::from_ref(run);
        let median = |flow| -> Result<f64> { Ok(Requests::read(run, flow)?.median(Class::All)) };
        let waits = mean(&queue(&run[0], "bottleneck", BOTTLENECK_MBITS)?, 10.0, seconds);
        let rates = [throughput(run, 1, seconds)?, throughput(run, 2, seconds)?];
        Ok(vec![median("requests1")?, median("requests2")?, rates[0], rates[1], waits])
    };
    let heads = ["first, median", "second", "first, Mbit/s", "second", "queue, ms"];
    let checked = wall::Check { lab: LAB, seed: 1, seconds, heads: &heads, read: &read };
    let checked = checked.run(stage, evidence, &cases)?;
    let [(before, quo), (after, ours)] = checked.as_slice() else { return Ok(()) };
    let runs = [(&cases[0], before), (&cases[1], after)];
    evidence.plots.push(wall::waits(("bottleneck", BOTTLENECK_MBITS), &runs)?);
    for (at, (which, paper)) in [("first", "0.38 ×"), ("second", "0.38 ×")].iter().enumerate() {
        let what = format!("median slowdown of the {which} bundle over status quo");
        wall::claim(evidence, &what, paper, ours[at] / quo[at], 0.0..=0.8);
    }
    let what = "ratio of the bundles' throughputs";
    wall::claim(evidence, what, "not in the paper", ours[2] / ours[3], 0.4..=2.5);
    Ok(())
}

fn claims(
    evidence: &mut Evidence,
    loads: [f64; 2],
    paper: [f64; 2],
    medians: [f64; 2],
    ratio: f64,
) {
    let which = format!("{} and {} Mbit/s offered", loads[0], loads[1]);
    evidence.claim(
        format!("median slowdowns with Bundler, {which}"),
        format!("{:.2} and {:.2} (here: at most {MEDIAN} both)", paper[0], paper[1]),
        format!("{:.2} and {:.2}", medians[0], medians[1]),
        medians.iter().all(|median| *median <= MEDIAN),
    );
    let relative = ratio / (loads[0] / loads[1]);
    evidence.claim(
        format!("ratio of the bundles' throughputs over that of their loads, {which}"),
        format!("not in the paper (expected: {SHARE} to {:.1})", 1.0 / SHARE),
        format!("{relative:.2}"),
        (SHARE..=1.0 / SHARE).contains(&relative),
    );
}

/// Of a bundle's flows together, in the mean over runs, in Mbit/s.
fn throughput(runs: &[Run], bundle: u32, seconds: f64) -> Result<f64> {
    let mut sum = 0.0;
    for run in runs {
        for flow in ["requests", "bulk"] {
            let rate = run.flow_rate(&format!("{flow}{bundle}"), 1.0)?;
            sum += mean(&rate, 10.0, seconds) / 1e6;
        }
    }
    Ok(sum / runs.len().max(1) as f64)
}
