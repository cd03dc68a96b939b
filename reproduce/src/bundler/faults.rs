//! The boxes' messages are lost and late, and the receivebox dies.

use super::boxes::{Moment, coarse, course, first, mean, queue, share};
use super::{Case, bundler, runs, status_quo, times};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "faults",
    title: "beyond the paper: messages are lost and overtake each other, the receivebox dies",
    takes: "2 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/faults.toml")],
    make,
};

const LAB: &str = "bundler/faults.toml";
/// The receivebox stops, starts without its memory, and is replaced at once; in s.
const STOP: f64 = 30.0;
const START: f64 = 45.0;
const RESTART: f64 = 70.0;
const END: f64 = 90.0;
/// Within this traffic passes unshaped once acknowledgements stay away: 1 s, or eight round trips.
const OPEN: f64 = 1.0;
/// Within this traffic is shaped again.
const BACK: f64 = 5.0;
const GOODPUT: f64 = 0.95;
const QUEUE_MS: f64 = 12.5;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let feedback = |percent: u32, jitter: u32| {
        let case = bundler().called(&format!("{percent}-{jitter}"));
        let label = format!("{percent} % lost, up to {jitter} ms late");
        let value = format!("{{ loss = \"{percent} %\", jitter = \"{jitter} ms\" }}");
        Case { label, ..case.set("bundle.site.feedback", value) }
    };
    let mut cases = vec![status_quo(), bundler()];
    cases
        .extend([(10, 0), (50, 0), (0, 40), (50, 40)].map(|(loss, jitter)| feedback(loss, jitter)));
    let all = runs(stage, LAB, &cases, 3)?;
    let mut evidence = Evidence::default();
    let heads = ["messages", "goodput", "while stopped", "queue", "open after", "back", "again"];
    let title = "Goodput in Mbit/s from 5 to 30 s, and while the receivebox is stopped; mean ms of \
                 queue at the bottleneck from 10 to 30 s, worst seed; s until traffic passes \
                 unshaped after the stop, is shaped after the start, and after the replacement, \
                 slowest seed";
    let mut table = Table::new(title, &heads);
    let quo = goodput(&all[0], 5.0, STOP)?;
    let quo_later = goodput(&all[0], STOP + OPEN, START)?;
    table.row(["status quo".to_owned(), format!("{quo:.1}"), format!("{quo_later:.1}")]);
    for (runs, case) in all.iter().zip(&cases).skip(1) {
        let before = goodput(runs, 5.0, STOP)?;
        let stopped = goodput(runs, STOP + OPEN, START)?;
        let waits = waits(runs)?;
        let states: Vec<Vec<Moment>> =
            runs.iter().map(|run| course(run, "site")).collect::<Result<_>>()?;
        let reactions = reactions(&states);
        let label = if case.label == "Bundler" { "none lost" } else { &case.label };
        let time = |at: f64| if at.is_finite() { format!("{at:.2}") } else { "never".to_owned() };
        table.row([
            label.to_owned(),
            format!("{before:.1}"),
            format!("{stopped:.1}"),
            format!("{:.1}", waits[0]),
            time(reactions[0]),
            time(reactions[1]),
            time(reactions[2]),
        ]);
        let ratios = (before / quo, stopped / quo_later);
        claims(&mut evidence, label, ratios, reactions);
        for (when, waits) in
            ["before the stop", "5 to 10 s after its start", "5 to 10 s after its replacement"]
                .iter()
                .zip(waits)
        {
            evidence.claim(
                format!("queue at the bottleneck {when}, {label}"),
                format!("not in the paper (expected: at most {QUEUE_MS} ms in the mean)"),
                format!("{waits:.1} ms, worst seed"),
                waits <= QUEUE_MS,
            );
        }
        let open = states.iter().map(|m| share(m, "fail-open", 5.0, STOP)).fold(0.0, f64::max);
        evidence.claim(
            format!("share of the time that traffic passes unshaped before the stop, {label}"),
            "not in the paper (expected: none)",
            format!("{:.1} %, worst seed", open * 100.0),
            open == 0.0,
        );
    }
    evidence.tables.push(table);
    plot(&mut evidence, &cases, &all)?;
    evidence.note(
        "In the paper's prototype nothing reacts to missing acknowledgements: the rate stays \
         what it was, and after a restart of the receivebox its counter is behind for good. \
         Forged, replayed and damaged messages are tried on the machines themselves, in the \
         tests of crate bundler.",
    );
    Ok(evidence)
}

/// Seconds until unshaped after the stop, until shaped after the start and after the restart:
/// slowest run.
fn reactions(states: &[Vec<Moment>]) -> [f64; 3] {
    let slowest = |of: &dyn Fn(&Vec<Moment>) -> Option<f64>| {
        states.iter().map(|run| of(run).unwrap_or(f64::INFINITY)).fold(0.0, f64::max)
    };
    let shaped = |run: &Vec<Moment>, from: f64| {
        let within = run.iter().filter(|moment| moment.at > from);
        // The restart is not always noticed as silence: what counts is measuring anew.
        let mut back = within.filter(|moment| moment.state == "delay" && moment.rtt_ms > 0.0);
        back.next().map(|moment| moment.at - from)
    };
    [
        slowest(&|run| first(run, "fail-open", STOP).filter(|at| *at < START).map(|at| at - STOP)),
        slowest(&|run| shaped(run, START)),
        slowest(&|run| shaped(run, RESTART)),
    ]
}

fn goodput(runs: &[Run], from: f64, until: f64) -> Result<f64> {
    let each = runs.iter().map(|run| Ok(mean(&run.flow_rate("bulk", 0.5)?, from, until) / 1e6));
    Ok(each.sum::<Result<f64>>()? / runs.len().max(1) as f64)
}

/// Mean queue in ms before the stop, and once the receivebox is back, the worst of the runs.
fn waits(runs: &[Run]) -> Result<[f64; 3]> {
    let mut worst = [0.0_f64; 3];
    for run in runs {
        let queue = queue(run, "bottleneck", 96.0)?;
        let spans = [(10.0, STOP), (START + BACK, START + 10.0), (RESTART + BACK, RESTART + 10.0)];
        for (worst, (from, until)) in worst.iter_mut().zip(spans) {
            *worst = worst.max(mean(&queue, from, until));
        }
    }
    Ok(worst)
}

fn claims(evidence: &mut Evidence, label: &str, ratios: (f64, f64), reactions: [f64; 3]) {
    let expected = |what: String| format!("not in the paper (expected: {what})");
    for (when, ratio) in [("before the stop", ratios.0), ("while stopped", ratios.1)] {
        evidence.claim(
            format!("goodput {when} over status quo, {label}"),
            expected(format!("at least {GOODPUT} ×")),
            times(ratio),
            ratio >= GOODPUT,
        );
    }
    for (what, most, ours) in [
        ("unshaped after the receivebox stopped", OPEN, reactions[0]),
        ("shaped again after it started", BACK, reactions[1]),
        ("shaped after it was replaced", BACK, reactions[2]),
    ] {
        evidence.claim(
            format!("{what}, {label}"),
            expected(format!("within {most} s")),
            format!("{ours:.2} s"),
            ours <= most,
        );
    }
}

fn plot(evidence: &mut Evidence, cases: &[Case], all: &[Vec<Run>]) -> Result<()> {
    let x = Axis::linear("time in s").from(0.0).to(END);
    let y = Axis::linear("ms at the bottleneck").from(0.0);
    let mut plot = Plot::new("Delay in the network", x, y);
    "The receivebox stops at 30 s, starts at 45 s and is replaced at 70 s."
        .clone_into(&mut plot.note);
    for (case, runs) in cases.iter().zip(all) {
        let points = queue(&runs[0], "bottleneck", 96.0)?;
        plot.lines.push(Line::new(&case.label, coarse(&points, 0.25)));
    }
    evidence.plots.push(plot);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::boxes::tests::moment;
    use super::*;

    #[test]
    fn reactions_are_those_of_the_slowest() {
        let measured = |at, state| Moment { rtt_ms: 51.0, ..moment(at, state) };
        let run = |open: f64| {
            vec![
                measured(29.0, "delay"),
                moment(open, "fail-open"),
                measured(46.0, "delay"),
                moment(70.1, "fail-open"),
                measured(71.0, "delay"),
            ]
        };
        let [open, back, again] = reactions(&[run(30.2), run(30.6)]);
        assert!((open - 0.6).abs() < 1e-9 && (back - 1.0).abs() < 1e-9);
        assert!((again - 1.0).abs() < 1e-9);
        assert!(reactions(&[vec![measured(29.0, "delay")]])[0].is_infinite());
    }
}
