//! The load sweep: where there is a queue to be moved.

use super::requests::{Class, DEFINITION, Requests};
use super::short_cross::loaded;
use super::{bundler, runs, slowdowns, status_quo, times};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "load",
    title: "slowdown of requests by load, 12 to 96 of 96 Mbit/s",
    takes: "6 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/requests.toml")],
    make,
};

/// Loads in Mbit/s, and the paper's third quartiles of small requests: status quo, Bundler.
const LOADS: [(f64, Option<[f64; 2]>); 8] = [
    (12.0, None),
    (24.0, None),
    (36.0, None),
    (48.0, Some([1.55, 1.26])),
    (60.0, Some([2.02, 1.32])),
    (72.0, Some([2.29, 1.38])),
    (84.0, Some([2.53, 1.42])),
    (96.0, Some([2.67, 1.43])),
];
/// Up to here nothing changes; from `LOADED` on it does.
const IDLE: f64 = 36.0;
const LOADED: f64 = 60.0;
const SAME: f64 = 1.1;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let loads: Vec<_> =
        LOADS.iter().filter(|l| !stage.short() || [12.0, 48.0, 84.0].contains(&l.0)).collect();
    let mut cases = Vec::new();
    for (load, _) in &loads {
        for case in [status_quo(), bundler()] {
            let case = loaded(case, *load);
            // As many seconds at each load.
            let count = stage.size(1000.0, 200.0) * load;
            cases.push(case.set("flow.requests.count", format!("{count}")));
        }
    }
    let all = runs(stage, slowdowns::LAB, &cases, stage.size(10, 3))?;
    let mut evidence = Evidence::default();
    let heads = ["load, Mbit/s", "status quo", "Bundler", "status quo, 50 %", "Bundler"];
    let title = "Slowdown of responses up to 10 kB: third quartiles (the paper's / ours) and \
                 medians";
    let mut table = Table::new(title, &heads);
    let mut lines = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for ((load, paper), pair) in loads.iter().map(|l| (l.0, l.1)).zip(all.chunks(2)) {
        let [quo, ours] = pair else { continue };
        let both = [Requests::read(quo, "requests")?, Requests::read(ours, "requests")?];
        let quartiles = both.each_ref().map(|requests| requests.quantile(Class::Small, 0.75));
        let medians = both.each_ref().map(|requests| requests.median(Class::Small));
        let cell = |at: usize| {
            let paper = paper.map_or("–".to_owned(), |paper| format!("{:.2}", paper[at]));
            format!("{paper} / {:.2}", quartiles[at])
        };
        let median = |at: usize| format!("{:.2}", medians[at]);
        table.row([format!("{load}"), cell(0), cell(1), median(0), median(1)]);
        for at in [0, 1] {
            lines[at].push((load, quartiles[at]));
            lines[at + 2].extend(paper.map(|paper| (load, paper[at])));
        }
        claim(&mut evidence, load, paper, quartiles);
    }
    let x = Axis::linear("load in Mbit/s").from(0.0);
    let mut plot = Plot::new("Requests by load", x, Axis::linear("third quartile").from(1.0));
    let labels = ["status quo", "Bundler", "status quo (paper)", "Bundler (paper)"];
    for (at, (label, points)) in labels.iter().zip(lines).enumerate() {
        let style = if at < 2 { Style::Line } else { Style::Dots };
        plot.lines.push(Line::new(*label, points).style(style));
    }
    evidence.plots.push(plot);
    evidence.tables.push(table);
    evidence.note(DEFINITION);
    Ok(evidence)
}

fn claim(evidence: &mut Evidence, load: f64, paper: Option<[f64; 2]>, ours: [f64; 2]) {
    let ratio = ours[1] / ours[0];
    let what = format!("third quartile at {load} Mbit/s, Bundler over status quo");
    if load <= IDLE {
        let paper = format!("no effect (here: at most {SAME} ×)");
        evidence.claim(what, paper, times(ratio), ratio <= SAME);
    } else if load >= LOADED {
        let paper = paper.map_or("below 1 ×".to_owned(), |paper| times(paper[1] / paper[0]));
        evidence.claim(what, paper, times(ratio), ratio < 1.0);
    }
}
