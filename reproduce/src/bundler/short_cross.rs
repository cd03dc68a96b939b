//! Figure 9: requests of the site beside requests of others.

use super::requests::{Class, DEFINITION, Requests};
use super::{Case, bundler, load_share, runs, status_quo, times};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "short-cross",
    title: "figure 9: the site's requests beside requests that pass no box",
    takes: "4 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/short-cross.toml")],
    make,
};

const LAB: &str = "bundler/short-cross.toml";
/// Cross traffic in Mbit/s, and the paper's third quartiles of small requests: status quo, Bundler.
const LOADS: [(f64, Option<[f64; 2]>); 7] = [
    (6.0, None),
    (12.0, None),
    (18.0, Some([1.53, 1.22])),
    (24.0, Some([2.03, 1.29])),
    (30.0, None),
    (36.0, None),
    (42.0, Some([2.26, 1.32])),
];
/// From this load on there is a queue to be moved.
const LOADED: f64 = 24.0;
/// At least half of the paper's improvement is required; where it prints none, this ratio.
const LIMIT: f64 = 0.8;
/// Where there is none, the median may be higher by this.
const MEDIAN: f64 = 0.1;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let loads: Vec<_> = LOADS.iter().filter(|l| !stage.short() || l.1.is_some()).collect();
    let mut cases = Vec::new();
    for (load, _) in &loads {
        for case in [status_quo(), bundler()] {
            let case = case.called(&format!("{load}"));
            cases.push(
                case.set("flow.cross.arrivals.load", load_share(*load))
                    .set("lab.duration", stage.size("120 s", "30 s")),
            );
        }
    }
    let all = runs(stage, LAB, &cases, stage.size(10, 3))?;
    let read = all.iter().map(|runs| Requests::read(runs, "requests"));
    let requests: Vec<Requests> = read.collect::<Result<_>>()?;
    Ok(evidence(&loads, &requests))
}

fn evidence(loads: &[&(f64, Option<[f64; 2]>)], requests: &[Requests]) -> Evidence {
    let mut evidence = Evidence::default();
    let heads = ["cross traffic, Mbit/s", "status quo", "Bundler", "status quo, 50 %", "Bundler"];
    let title = "Slowdown of the site's responses up to 10 kB: third quartiles (the paper's / \
                 ours) and medians";
    let mut table = Table::new(title, &heads);
    let x = Axis::linear("cross traffic in Mbit/s").from(0.0);
    let mut plot = Plot::new("Requests beside others", x, Axis::linear("third quartile").from(1.0));
    let mut lines = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for ((load, paper), pair) in loads.iter().map(|l| (l.0, l.1)).zip(requests.chunks(2)) {
        let [quo, ours] = pair else { continue };
        let quartiles = [quo, ours].map(|requests| requests.quantile(Class::Small, 0.75));
        let medians = [quo, ours].map(|requests| requests.median(Class::Small));
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
        let ratio = quartiles[1] / quartiles[0];
        if load >= LOADED {
            let paper = paper.map(|paper| paper[1] / paper[0]);
            let limit = paper.map_or(LIMIT, |paper| f64::midpoint(1.0, paper));
            let expected = format!("(here: at most {})", times(limit));
            evidence.claim(
                format!("third quartile beside {load} Mbit/s, Bundler over status quo"),
                paper.map_or(expected.clone(), |paper| format!("{} {expected}", times(paper))),
                times(ratio),
                ratio <= limit,
            );
        }
        evidence.claim(
            format!("median beside {load} Mbit/s, Bundler less status quo"),
            format!("0.06 at most (here: at most {MEDIAN})"),
            format!("{:.2}", medians[1] - medians[0]),
            medians[1] - medians[0] <= MEDIAN,
        );
    }
    let labels = ["status quo", "Bundler", "status quo (paper)", "Bundler (paper)"];
    for (at, (label, points)) in labels.iter().zip(lines).enumerate() {
        let style = if at < 2 { Style::Line } else { Style::Dots };
        plot.lines.push(Line::new(*label, points).style(style));
    }
    evidence.plots.push(plot);
    evidence.tables.push(table);
    evidence.note(DEFINITION);
    evidence
}

/// A case of this load, for others that vary it.
pub(super) fn loaded(case: Case, load: f64) -> Case {
    let name = format!("{load}");
    case.called(&name).set("flow.requests.arrivals.load", load_share(load))
}

#[cfg(test)]
mod tests {
    use super::super::requests::tests::small;
    use super::*;

    #[test]
    fn requires_half_of_the_improvement_and_the_same_median() {
        let loads = [&LOADS[0], &LOADS[6]];
        let judged = |ours: f64| {
            let quo = [small(&[1.1]), small(&[2.0])];
            let ours = [small(&[1.15]), small(&[ours])];
            let [a, b] = quo;
            let [c, d] = ours;
            let evidence = evidence(&loads, &[a, c, b, d]);
            evidence.claims.iter().map(|claim| claim.holds).collect::<Vec<bool>>()
        };
        assert_eq!(judged(1.3), [true, true, true]);
        // The paper has 0.58: hardly any improvement is not enough.
        assert_eq!(judged(1.9), [true, false, true]);
        assert_eq!(judged(2.05), [true, false, true]);
    }
}
