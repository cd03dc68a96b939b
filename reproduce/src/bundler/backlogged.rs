//! Figure 2: where backlogged flows wait.

use super::boxes::{between, coarse, course, mean, queue};
use super::{BOTTLENECK_MBITS as RATE, bundler, runs, status_quo, times, wall};
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table, quantile,
};

pub(super) const FIGURE: Figure = Figure {
    id: "backlogged",
    title: "figure 2: the queue of backlogged flows moves to the sendbox",
    takes: "3 min",
    clocks: &[Clock::Virtual, Clock::Wall],
    files: &[lab_file!("bundler/backlogged.toml")],
    make: |stage| wall::both(stage, make, check),
};

pub(super) const LAB: &str = "bundler/backlogged.toml";
/// Queue at the bottleneck in the mean: the less of a quarter of 50 ms and 8 ms.
const QUEUE_MS: f64 = 8.0;
const GOODPUT: f64 = 0.97;
/// When start-up is over, in seconds.
const SETTLED: f64 = 10.0;

/// What a run came to.
struct Came {
    goodput: f64,
    bottleneck_ms: f64,
    sendbox_ms: f64,
    /// Median and 99th percentile of the loop's round trips, in ms.
    loops: (f64, f64),
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let seconds = stage.size(60.0, 20.0);
    let seeds = 3;
    let flows = [1, 10, 100];
    let mut cases = Vec::new();
    for streams in flows {
        for case in [status_quo(), bundler()] {
            let case = case.called(&streams.to_string());
            cases.push(
                case.set("flow.bulk.streams", streams.to_string())
                    .set("lab.duration", format!("{seconds} s")),
            );
        }
    }
    let all = runs(stage, LAB, &cases, seeds)?;
    let mut evidence = Evidence::default();
    let heads = ["flows", "boxes", "goodput", "bottleneck", "sendbox", "loop, median", "99 %"];
    let title = "Means after 10 s over seeds: Mbit/s, and ms of queue at the bottleneck and the \
                 sendbox; round trips of small requests in ms";
    let mut table = Table::new(title, &heads);
    for (streams, pair) in flows.iter().zip(all.chunks(2)) {
        let [quo, ours] = pair else { continue };
        let quo: Vec<Came> = quo.iter().map(|run| came(run, seconds)).collect::<Result<_>>()?;
        let ours: Vec<Came> = ours.iter().map(|run| came(run, seconds)).collect::<Result<_>>()?;
        for (label, came) in [("status quo", &quo), ("Bundler", &ours)] {
            let cell = |of: fn(&Came) -> f64| format!("{:.1}", average(came, of));
            table.row([
                streams.to_string(),
                label.to_owned(),
                cell(|c| c.goodput),
                cell(|c| c.bottleneck_ms),
                cell(|c| c.sendbox_ms),
                cell(|c| c.loops.0),
                cell(|c| c.loops.1),
            ]);
        }
        claims(&mut evidence, *streams, &quo, &ours);
    }
    evidence.tables.push(table);
    if let [quo, ours, ..] = all.as_slice() {
        plot(&mut evidence, &quo[0], &ours[0])?;
    }
    evidence.note(
        "The paper draws about 15 packets (1.9 ms) at the bottleneck in place of 90 to 150 (11 to \
         19 ms), for one flow. Queue is what waits when a sample is taken, each 10 ms.",
    );
    Ok(evidence)
}

fn check(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let seconds = stage.size(60.0, 20.0);
    let cases = [status_quo(), bundler()];
    let read = |run: &Run| {
        let came = came(run, seconds)?;
        Ok(vec![came.goodput, came.bottleneck_ms, came.sendbox_ms, came.loops.0, came.loops.1])
    };
    let heads = ["goodput", "bottleneck, ms", "sendbox, ms", "loop, median", "loop, 99 %"];
    let checked = wall::Check { lab: LAB, seed: 1, seconds, heads: &heads, read: &read };
    let checked = checked.run(stage, evidence, &cases)?;
    let [(before, quo), (after, ours)] = checked.as_slice() else { return Ok(()) };
    let runs = [(&cases[0], before), (&cases[1], after)];
    evidence.plots.push(wall::waits(("bottleneck", RATE), &runs)?);
    let what = "mean queue at the bottleneck in ms, 10 flows";
    wall::claim(evidence, what, "about 2 for one flow", ours[1], 0.0..=2.0 * QUEUE_MS);
    let what = "the same over status quo";
    wall::claim(evidence, what, "0.1 to 0.2 × for one flow", ours[1] / quo[1], 0.0..=0.5);
    let what = "goodput over status quo, 10 flows";
    wall::claim(evidence, what, "the same", ours[0] / quo[0], 0.93..=f64::INFINITY);
    let what = "queue at the sendbox over that at the bottleneck, 10 flows";
    let ratio = ours[2] / ours[1];
    wall::claim(evidence, what, "the queue is at the sendbox", ratio, 1.0..=f64::INFINITY);
    Ok(())
}

fn average(came: &[Came], of: fn(&Came) -> f64) -> f64 {
    came.iter().map(of).sum::<f64>() / came.len() as f64
}

fn came(run: &Run, seconds: f64) -> Result<Came> {
    let waits: Vec<(f64, f64)> =
        course(run, "site")?.iter().map(|moment| (moment.at, moment.waiting_ms)).collect();
    let loops = run.round_trips("loop")?;
    let loops: Vec<f64> = loops.iter().map(|seconds| seconds * 1e3).collect();
    let of = |share| quantile(&loops, share).unwrap_or(f64::NAN);
    Ok(Came {
        goodput: mean(&run.flow_rate("bulk", 1.0)?, SETTLED, seconds) / 1e6,
        bottleneck_ms: mean(&queue(run, "bottleneck", RATE)?, SETTLED, seconds),
        sendbox_ms: mean(&waits, SETTLED, seconds),
        loops: (of(0.5), of(0.99)),
    })
}

fn claims(evidence: &mut Evidence, streams: u32, quo: &[Came], ours: &[Came]) {
    let queue = average(ours, |came| came.bottleneck_ms);
    let flows = if streams == 1 { "1 flow".to_owned() } else { format!("{streams} flows") };
    evidence.claim(
        format!("mean queue at the bottleneck, {flows}"),
        format!("about 2 ms for one flow (here: at most {QUEUE_MS} ms)"),
        format!("{queue:.1} ms; status quo {:.1} ms", average(quo, |came| came.bottleneck_ms)),
        queue <= QUEUE_MS,
    );
    let ratio = average(ours, |came| came.goodput) / average(quo, |came| came.goodput);
    evidence.claim(
        format!("goodput over status quo, {flows}"),
        format!("the same (here: at least {GOODPUT} ×)"),
        times(ratio),
        ratio >= GOODPUT,
    );
    let sendbox = average(ours, |came| came.sendbox_ms);
    evidence.claim(
        format!("where {flows} wait"),
        "the queue is at the sendbox (here: longer than at the bottleneck)",
        format!("{sendbox:.1} ms at the sendbox, {queue:.1} ms at the bottleneck"),
        sendbox > queue,
    );
}

fn plot(evidence: &mut Evidence, quo: &Run, ours: &Run) -> Result<()> {
    let axis = Axis::linear("ms to send the queue").from(0.0);
    let mut plot = Plot::new("Where one flow waits", Axis::linear("time in s").from(0.0), axis);
    "Means of 100 ms. The paper's bottleneck queue with Bundler is flat at 15 packets."
        .clone_into(&mut plot.note);
    let line = |label, points: &[(f64, f64)]| Line::new(label, coarse(points, 0.1));
    let (before, after) = (queue(quo, "bottleneck", RATE)?, queue(ours, "bottleneck", RATE)?);
    let waits: Vec<(f64, f64)> =
        course(ours, "site")?.iter().map(|moment| (moment.at, moment.waiting_ms)).collect();
    let end = after.last().map_or(0.0, |(at, _)| *at);
    plot.lines.push(line("bottleneck, status quo", &before));
    plot.lines.push(line("bottleneck, Bundler", &after));
    plot.lines.push(line("sendbox, Bundler", &waits));
    let paper = 15.0 * 1.5 * 8.0 / RATE;
    let paper = Line::new("bottleneck, Bundler (paper)", vec![(0.0, paper), (end, paper)]);
    plot.lines.push(paper.style(Style::Reference));
    evidence.plots.push(plot);
    let mut table = Table::new("Bottleneck of one flow in full packets", &["", "25 %", "75 %"]);
    for (label, points) in [("status quo", &before), ("Bundler", &after)] {
        let packets: Vec<f64> =
            between(points, SETTLED, end).iter().map(|ms| ms * RATE / 12.0).collect();
        let of = |share| format!("{:.0}", quantile(&packets, share).unwrap_or(f64::NAN));
        table.row([label.to_owned(), of(0.25), of(0.75)]);
    }
    table.row(["paper, status quo", "90", "150"]);
    table.row(["paper, Bundler", "15", "15"]);
    evidence.tables.push(table);
    Ok(())
}
