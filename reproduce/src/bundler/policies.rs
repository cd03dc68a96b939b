//! Other policies than fair queueing: `FQ-CoDel` and strict priority.

use super::requests::{Class, DEFINITION, Requests};
use super::{Case, backlogged, bundler, runs, status_quo, times};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Run, Stage, Table, quantile};

pub(super) const FIGURE: Figure = Figure {
    id: "policies",
    title: "FQ-CoDel for backlogged flows, strict priority for a class of requests",
    takes: "2 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/backlogged.toml"), lab_file!("bundler/classes.toml")],
    make,
};

const CLASSES: &str = "bundler/classes.toml";
/// Two ways of 25 ms.
const BASE_MS: f64 = 50.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    fq_codel(stage, &mut evidence)?;
    priority(stage, &mut evidence)?;
    evidence.note(DEFINITION);
    evidence.note(
        "The paper has a 99th percentile of 10.5 for the high class, and of 41.4 with SFQ. Within \
         a class there is one queue: where a class has large responses of its own, its small ones \
         wait behind them, and SFQ has the shorter tail.",
    );
    Ok(evidence)
}

/// Round trips of the backlogged flow, less the base, as its own TCP smooths them; in ms.
fn delays(runs: &[Run]) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for run in runs {
        let samples = run.flow_samples("bulk", "rtt_ns")?;
        let settled = samples.iter().filter(|(at, _)| *at > 5.0);
        all.extend(settled.map(|(_, nanos)| *nanos as f64 / 1e6 - BASE_MS));
    }
    Ok(all)
}

fn fq_codel(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let seconds = stage.size("60 s", "20 s");
    let one = |case: Case| {
        case.set("flow.bulk.streams", "1").set("lab.duration", seconds).set(
            "link.bottleneck.queue",
            "{ kind = \"codel\", target = \"100 ms\", interval = \"5 ms\", limit = \
             \"2000 packets\" }",
        )
    };
    let ours = Case::new("fq-codel", "Bundler, FQ-CoDel").set("bundle.site.scheduler", "fq-codel");
    let all = runs(stage, backlogged::LAB, &[one(status_quo()), one(ours)], 3)?;
    let mut table = Table::new(
        "Delay of a backlogged flow, its smoothed round trip less 50 ms, in ms: the paper's / ours",
        &["", "median", "99 %"],
    );
    let paper = [("status quo", 122.0, 151.5), ("Bundler, FQ-CoDel", 4.25, 15.3)];
    let mut medians = Vec::new();
    for (runs, (label, median, tail)) in all.iter().zip(paper) {
        let delays = delays(runs)?;
        let of = |share| quantile(&delays, share).unwrap_or(f64::NAN);
        let both = |paper: f64, share| format!("{paper:.1} / {:.1}", of(share));
        table.row([label.to_owned(), both(median, 0.5), both(tail, 0.99)]);
        medians.push((of(0.5), of(0.99)));
    }
    evidence.tables.push(table);
    if let [quo, ours] = medians.as_slice() {
        for (what, quo, ours, paper, most) in [
            ("median", quo.0, ours.0, "97 % less (here: at least 80 %)", 0.2),
            ("99th percentile", quo.1, ours.1, "90 % less (here: at least 70 %)", 0.3),
        ] {
            evidence.claim(
                format!("{what} of a backlogged flow's delay, FQ-CoDel against status quo"),
                paper,
                format!("{ours:.1} ms against {quo:.1} ms, {:.0} % less", (1.0 - ours / quo) * 1e2),
                ours / quo <= most,
            );
        }
    }
    Ok(())
}

fn priority(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let count = stage.size("50000", "10000");
    let sized = |case: Case| case.set("flow.high.count", count).set("flow.low.count", count);
    let fair = Case::new("sfq", "Bundler, SFQ").set("bundle.site.scheduler", "sfq");
    let cases = [status_quo(), Case { label: "Bundler, priority".to_owned(), ..bundler() }, fair];
    let cases = cases.map(|case| Case { name: format!("classes-{}", case.name), ..sized(case) });
    let all = runs(stage, CLASSES, &cases, stage.size(5, 3))?;
    let heads = ["", "high, median", "99 %", "low, median", "99 %"];
    let mut table = Table::new("Slowdown of two equal classes, the paper's / ours", &heads);
    let paper = [["3.07", "202"], ["1.07", "10.5"], ["–", "41.4"]];
    let mut medians = Vec::new();
    for ((runs, case), paper) in all.iter().zip(&cases).zip(paper) {
        let high = Requests::read(runs, "high")?;
        let low = Requests::read(runs, "low")?;
        let (median, tail) = (high.median(Class::All), high.quantile(Class::All, 0.99));
        table.row([
            case.label.clone(),
            format!("{} / {median:.2}", paper[0]),
            format!("{} / {tail:.1}", paper[1]),
            format!("{:.2}", low.median(Class::All)),
            format!("{:.1}", low.quantile(Class::All, 0.99)),
        ]);
        medians.push((median, tail));
    }
    evidence.tables.push(table);
    if let [quo, ours, fair] = medians.as_slice() {
        evidence.claim(
            "median slowdown of the high class, priority over status quo",
            "0.35 × (here: at most 0.75 ×)",
            format!("{}: {:.2} over {:.2}", times(ours.0 / quo.0), ours.0, quo.0),
            ours.0 / quo.0 <= 0.75,
        );
        evidence.claim(
            "median slowdown of the high class, priority over SFQ",
            "about the same, 1.07 and 1.26 (here: at most 1.1 ×)",
            times(ours.0 / fair.0),
            ours.0 / fair.0 <= 1.1,
        );
    }
    Ok(())
}
