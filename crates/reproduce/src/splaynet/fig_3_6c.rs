//! Figure 3.6c: one bulk TCP stream over 10 Mbit/s.

use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Plot, Result, Run, Stage, Style, Table, moments,
};

pub(super) const FIGURE: Figure = Figure {
    id: "3.6c",
    title: "goodput of one TCP stream over 10 Mbit/s",
    takes: "2 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("splaynet/bulk.toml")],
    make,
};

/// Payload of a full segment with timestamps, over its bytes on the wire.
const PAYLOAD: f64 = 1448.0 / 1538.0;
const LINK: f64 = 10e6;
/// Slow start and the first queue are over by then.
const SETTLED_S: f64 = 2.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let duration = stage.size("60 s", "6 s");
    let jobs: Vec<Job> = stage
        .settings()
        .into_iter()
        .map(|(clock, model)| {
            let job = Job::new("splaynet/bulk.toml", "bulk", clock).model(model);
            job.set("lab.duration", duration)
        })
        .collect();
    let runs = stage.run(&jobs)?;
    evidence(&runs)
}

fn evidence(runs: &[Run]) -> Result<Evidence> {
    let limit = LINK * PAYLOAD / 1e6;
    let mut evidence = Evidence::default();
    let axes = || (Axis::linear("time in s"), Axis::linear("goodput in Mbit/s"));
    let (x, y) = axes();
    let mut seconds = Plot::new("Goodput in steps of 1 s", x, y.from(8.5).to(10.0));
    let (x, y) = axes();
    let mut tenths = Plot::new("Goodput in steps of 100 ms", x, y.from(8.0).to(10.0));
    let heads = ["run", "step", "mean", "deviation", "least", "most"];
    let mut table = Table::new("Goodput in Mbit/s, without the first 2 s", &heads);
    for run in runs {
        for (step, plot) in [(1.0, &mut seconds), (0.1, &mut tenths)] {
            let rate = mbit(run.flow_rate("bulk", step)?);
            let steady: Vec<f64> =
                rate.iter().filter(|(at, _)| *at > SETTLED_S).map(|(_, rate)| *rate).collect();
            let of = moments(&steady);
            let text = |value: f64| format!("{value:.4}");
            let numbers = [of.mean, of.deviation, of.min, of.max].map(text);
            table.row([run.label(), format!("{step} s")].into_iter().chain(numbers));
            if step >= 1.0 {
                evidence.claim(
                    format!("every second ({})", run.label()),
                    "9 to 10 Mbit/s",
                    format!("{:.3} to {:.3} Mbit/s", of.min, of.max),
                    of.min >= 9.0 && of.max <= 10.0,
                );
                let share = of.mean / limit;
                evidence.claim(
                    format!("mean, against the limit of {limit:.3} Mbit/s ({})", run.label()),
                    "at the limit",
                    format!("{:.3} Mbit/s, {:.2} % of it", of.mean, share * 100.0),
                    (0.99..=1.001).contains(&share),
                );
            }
            plot.lines.push(Line::new(run.label(), rate));
        }
    }
    let end = runs.iter().map(|run| run.record.elapsed_s).fold(0.0, f64::max);
    for plot in [&mut seconds, &mut tenths] {
        let name = "limit: 1448 B of payload in 1538 B on the wire";
        let points = vec![(0.0, limit), (end, limit)];
        plot.lines.push(Line::new(name, points).style(Style::Reference));
    }
    evidence.plots.extend([seconds, tenths]);
    evidence.tables.push(table);
    Ok(evidence)
}

fn mbit(rates: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    rates.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect()
}
