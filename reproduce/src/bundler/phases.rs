//! Figure 8: cross traffic comes, gives way or does not, and goes.

use super::boxes::{Moment, coarse, course, first, last, mean, queue, share};
use super::requests::{Class, DEFINITION, Requests};
use super::{BOTTLENECK_MBITS, bundler, runs, status_quo, times, wall};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "phases",
    title: "figure 8: an elastic flow beside the bundle for a minute, then a constant rate",
    takes: "5 min",
    clocks: &[Clock::Virtual, Clock::Wall],
    files: &[lab_file!("bundler/phases.toml")],
    make: |stage| wall::both(stage, make, check),
};

const LAB: &str = "bundler/phases.toml";
/// Phases: their ends in seconds, and the paper's medians of small requests, status quo and
/// Bundler.
const PHASES: [(&str, f64, f64, [f64; 2]); 3] = [
    ("alone", 5.0, 60.0, [1.68, 1.31]),
    ("elastic flow", 60.0, 120.0, [2.35, 2.63]),
    ("32 Mbit/s", 120.0, 180.0, [2.48, 1.57]),
];
/// When they end.
const ENDS: [f64; 3] = [60.0, 120.0, 180.0];
/// How long it may take to notice that an elastic flow has come, in s.
const NOTICE: f64 = 10.0;
/// How long it may take to notice that the flow has gone, in s: two tests of a released bundle. The
/// first may find that the bundle still gets more than beside the constant rate alone.
const RETURN: f64 = 25.0;
/// Throughput beside the elastic flow, of the status quo's.
const THROUGHPUT: f64 = 0.8;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let cases = [status_quo(), bundler()];
    let all = runs(stage, LAB, &cases, stage.size(10, 3))?;
    let [quo, ours] = all.as_slice() else { return Ok(Evidence::default()) };
    let read = all.iter().map(|runs| Requests::read(runs, "requests"));
    let requests: Vec<Requests> = read.collect::<Result<_>>()?;
    let mut evidence = Evidence::default();
    evidence.tables.push(medians(&requests));
    let states: Vec<Vec<Moment>> =
        ours.iter().map(|run| course(run, "site")).collect::<Result<_>>()?;
    evidence.tables.push(dynamics(&states));
    plots(&mut evidence, &quo[0], &ours[0])?;
    claims(&mut evidence, &states, (quo, ours))?;
    evidence.note(DEFINITION);
    evidence.note(
        "While the constant rate lasts, 116 Mbit/s are offered to 96, as in the paper's \
         configuration (its text says requests): large responses wait for the next pause.",
    );
    Ok(evidence)
}

/// Phases of half a minute.
fn check(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let ends = [30.0, 60.0, 90.0];
    let cases = [status_quo(), bundler()].map(|case| {
        case.set("flow.elastic.start", "30 s")
            .set("flow.elastic.duration", "30 s")
            .set("flow.constant.start", "60 s")
            .set("flow.constant.duration", "30 s")
    });
    let read = |run: &Run| {
        let moments = course(run, "site")?;
        let (noticed, left) = reactions(&moments, ends);
        let requests = Requests::read(std::slice::from_ref(run), "requests")?;
        let median = |from, until| requests.between(from, until).median(Class::Small);
        let medians = [median(5.0, 30.0), median(30.0, 60.0), median(60.0, 90.0)];
        let rate = mean(&run.flow_rate("requests", 1.0)?, 35.0, 60.0) / 1e6;
        let times = [noticed, left].map(|at| at.unwrap_or(f64::NAN));
        let alone = share(&moments, "pass-through", 0.0, 30.0) * 100.0;
        Ok(medians.into_iter().chain([rate]).chain(times).chain([alone]).collect())
    };
    let heads = [
        "alone, median",
        "elastic",
        "constant",
        "Mbit/s beside elastic",
        "noticed, s",
        "left after its end, s",
        "% alone in pass-through",
    ];
    let checked = wall::Check { lab: LAB, seed: 4, seconds: ends[2], heads: &heads, read: &read };
    let checked = checked.run(stage, evidence, &cases)?;
    let [(before, quo), (after, ours)] = checked.as_slice() else { return Ok(()) };
    let runs = [(&cases[0], before), (&cases[1], after)];
    evidence.plots.push(wall::waits(("bottleneck", BOTTLENECK_MBITS), &runs)?);
    let what = "pass-through after the elastic flow comes, in s";
    wall::claim(evidence, what, "0.9", ours[4], 0.0..=1.5 * NOTICE);
    let what = "back after the elastic flow has gone, in s";
    wall::claim(evidence, what, "6 early", ours[5], -30.0..=1.5 * RETURN);
    let what = "throughput beside the elastic flow over status quo";
    wall::claim(evidence, what, "about the same", ours[3] / quo[3], 0.6..=f64::INFINITY);
    Ok(())
}

fn medians(requests: &[Requests]) -> Table {
    let heads = ["phase", "status quo", "Bundler"];
    let title = "Median slowdown of responses up to 10 kB, the paper's / ours";
    let mut table = Table::new(title, &heads);
    for (name, from, until, paper) in PHASES {
        let cells = requests.iter().zip(paper).map(|(requests, paper)| {
            format!("{paper:.2} / {:.2}", requests.between(from, until).median(Class::Small))
        });
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    table
}

/// When the elastic flow is noticed, and when its end is, in seconds after either.
fn reactions(moments: &[Moment], [comes, goes, end]: [f64; 3]) -> (Option<f64>, Option<f64>) {
    let noticed = first(moments, "pass-through", comes).filter(|at| *at < goes);
    let left = last(moments, "pass-through", end).filter(|at| *at > comes);
    (noticed.map(|at| at - comes), left.map(|at| at - goes))
}

fn dynamics(states: &[Vec<Moment>]) -> Table {
    let heads = ["seed", "noticed after", "left after its end by", "alone", "elastic", "constant"];
    let title = "Pass-through: when the elastic flow is noticed and when its end is, in s, and \
                 the share of each phase in it (paper: 0.9 s, −5.7 s, after a minute of which \
                 2.7 s were not)";
    let mut table = Table::new(title, &heads);
    for (moments, seed) in states.iter().zip(1..) {
        let (noticed, left) = reactions(moments, ENDS);
        let time = |at: Option<f64>| at.map_or("never".to_owned(), |at| format!("{at:.1}"));
        let part = |(_, from, until, _): (&str, f64, f64, [f64; 2])| {
            format!("{:.0} %", share(moments, "pass-through", from, until) * 100.0)
        };
        table.row([
            seed.to_string(),
            time(noticed),
            time(left),
            part(PHASES[0]),
            part(PHASES[1]),
            part(PHASES[2]),
        ]);
    }
    table
}

fn plots(evidence: &mut Evidence, quo: &Run, ours: &Run) -> Result<()> {
    let x = || Axis::linear("time in s").from(0.0).to(180.0);
    let mut plot = Plot::new("Throughput", x(), Axis::linear("Mbit/s").from(0.0));
    for (label, run, flow) in [
        ("bundle, status quo", quo, "requests"),
        ("bundle, Bundler", ours, "requests"),
        ("elastic flow beside Bundler", ours, "elastic"),
        ("constant rate beside Bundler", ours, "constant"),
    ] {
        let rate = run.flow_rate(flow, 1.0)?;
        let points = rate.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect();
        plot.lines.push(Line::new(label, points));
    }
    let passing = course(ours, "site")?;
    let passing = passing
        .iter()
        .map(|moment| (moment.at, if moment.state == "pass-through" { 100.0 } else { f64::NAN }));
    plot.lines.push(Line::new("pass-through", passing.collect()).style(Style::Dots));
    evidence.plots.push(plot);
    let y = Axis::linear("ms at the bottleneck").from(0.0);
    let mut plot = Plot::new("Delay in the network", x(), y);
    for (label, run) in [("status quo", quo), ("Bundler", ours)] {
        let points = queue(run, "bottleneck", BOTTLENECK_MBITS)?;
        plot.lines.push(Line::new(label, coarse(&points, 0.5)));
    }
    evidence.plots.push(plot);
    Ok(())
}

fn claims(
    evidence: &mut Evidence,
    states: &[Vec<Moment>],
    (quo, ours): (&[Run], &[Run]),
) -> Result<()> {
    let reactions: Vec<_> = states.iter().map(|moments| reactions(moments, ENDS)).collect();
    let worst = |each: Vec<Option<f64>>| {
        each.into_iter().map(|at| at.unwrap_or(f64::INFINITY)).fold(f64::MIN, f64::max)
    };
    let noticed = worst(reactions.iter().map(|reaction| reaction.0).collect());
    let left = worst(reactions.iter().map(|reaction| reaction.1).collect());
    evidence.claim(
        "pass-through after the elastic flow comes, slowest seed",
        format!("0.9 s (here: within {NOTICE} s)"),
        format!("{noticed:.1} s"),
        noticed <= NOTICE,
    );
    evidence.claim(
        "back after the elastic flow has gone, slowest seed",
        format!("6 s early (here: at most {RETURN} s after)"),
        format!("{left:.1} s"),
        left <= RETURN,
    );
    let constant = |moments: &Vec<Moment>| share(moments, "pass-through", 120.0 + RETURN, 180.0);
    let alarms = states.iter().map(constant).fold(0.0, f64::max);
    let alone = states.iter().map(|m| share(m, "pass-through", 0.0, 60.0)).fold(0.0, f64::max);
    evidence.claim(
        "false alarms: share of the time in pass-through alone and beside the constant rate",
        "none",
        format!("{:.1} % and {:.1} %, worst seed", alone * 100.0, alarms * 100.0),
        alarms == 0.0 && alone == 0.0,
    );
    let throughput = |runs: &[Run]| -> Result<f64> {
        let each = runs.iter().map(|run| Ok(mean(&run.flow_rate("requests", 1.0)?, 65.0, 120.0)));
        each.sum()
    };
    let ratio = throughput(ours)? / throughput(quo)?;
    evidence.claim(
        "throughput beside the elastic flow over status quo, all seeds",
        format!("about the same (here: at least {THROUGHPUT} ×)"),
        times(ratio),
        ratio >= THROUGHPUT,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::boxes::tests::moment;
    use super::*;

    #[test]
    fn reactions_are_counted_from_what_they_react_to() {
        let moments = [
            moment(50.0, "delay"),
            moment(61.0, "pass-through"),
            moment(100.0, "pass-through"),
            moment(124.0, "pass-through"),
            moment(130.0, "delay"),
        ];
        assert_eq!(reactions(&moments, ENDS), (Some(1.0), Some(4.0)));
        assert_eq!(reactions(&moments[..1], ENDS), (None, None));
    }
}
