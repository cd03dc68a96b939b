//! Figure 11: two bundles share a bottleneck.

use super::boxes::{mean, queue};
use super::requests::{Class, DEFINITION, Requests};
use super::{Case, load_share, runs};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "two-bundles",
    title: "figure 11: two bundles at one bottleneck, requests and a backlogged flow in each",
    takes: "2 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/two-bundles.toml")],
    make,
};

const LAB: &str = "bundler/two-bundles.toml";
/// Loads of requests in Mbit/s, and the paper's medians: Bundler, status quo.
const SPLITS: [([f64; 2], [f64; 2], [f64; 2]); 2] =
    [([42.0, 42.0], [1.17, 1.16], [3.06, 3.07]), ([56.0, 28.0], [1.18, 1.13], [3.05, 2.85])];
const MEDIAN: f64 = 1.4;
/// The throughputs' ratio over that of the offered loads is between this and its inverse.
const SHARE: f64 = 0.67;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let quo = Case::new("status-quo", "status quo")
        .set("bundle.first.mode", "observe")
        .set("bundle.second.mode", "observe");
    let seconds = stage.size(120.0, 40.0);
    let mut cases = Vec::new();
    for (loads, ..) in SPLITS {
        for case in [quo.clone(), super::bundler()] {
            let mut case = case.called(&format!("{}", loads[0]));
            for (load, flow) in loads.iter().zip(["requests1", "requests2"]) {
                let field = format!("flow.{flow}.arrivals.load");
                case = case.set(field, load_share(*load));
            }
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
                .map(|run| Ok(mean(&queue(run, "bottleneck", 96.0)?, 10.0, seconds)))
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
