//! Figure 3.6c: one bulk TCP stream over 10 Mbit/s.

use super::PAYLOAD;
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Moments, Plot, Result, Run, Stage, Style,
    Table, moments,
};

pub(super) const FIGURE: Figure = Figure {
    id: "3.6c",
    title: "goodput of one TCP stream over 10 Mbit/s",
    takes: "1 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("splaynet/bulk.toml")],
    make,
};

const LAB: &str = "splaynet/bulk.toml";
const LINK_MBIT: f64 = 10.0;
/// Slow start is over by then.
const SETTLED_S: f64 = 2.0;

/// A run, and whether its window fits the queue.
struct Stream {
    run: Run,
    fits: bool,
}

impl Stream {
    fn label(&self) -> String {
        let window = if self.fits { "" } else { ", window beyond 100 slots" };
        format!("{}{window}", self.run.label())
    }

    /// Goodput in Mbit/s in steps of so many seconds.
    fn goodput(&self, step_s: f64) -> Result<Vec<(f64, f64)>> {
        let rate = self.run.flow_rate("bulk", step_s)?;
        Ok(rate.into_iter().map(|(at, rate)| (at, rate / 1e6)).collect())
    }

    /// The same as numbers, without slow start.
    fn settled(&self, step_s: f64) -> Result<Moments> {
        let rate = self.goodput(step_s)?;
        let settled = rate.iter().filter(|(at, _)| *at > SETTLED_S).map(|(_, rate)| *rate);
        Ok(moments(&settled.collect::<Vec<_>>()))
    }
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let duration = stage.size("60 s", "8 s");
    let job = |name, clock, model: Model| {
        Job::new(LAB, name, clock).model(model).set("lab.duration", duration)
    };
    let mut jobs = Vec::new();
    let mut fits = Vec::new();
    for (clock, model) in stage.settings() {
        jobs.push(job("bulk", clock, model));
        fits.push(true);
        if model == Model::Hop {
            jobs.push(job("slots", clock, model).set("flow.bulk.window", "6 MiB"));
            fits.push(false);
        }
    }
    // Each sends some thousand packets a second, which leaves any machine idle.
    let runs = stage.run_together(&jobs)?.into_iter().zip(fits);
    let streams: Vec<Stream> = runs.map(|(run, fits)| Stream { run, fits }).collect();
    evidence(&streams)
}

fn evidence(streams: &[Stream]) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let heads = ["run", "step", "mean", "deviation", "least", "most"];
    let mut table = Table::new("Goodput in Mbit/s, without the first 2 s", &heads);
    for stream in streams {
        for (step, name) in [(1.0, "1 s"), (0.1, "100 ms")] {
            let of = stream.settled(step)?;
            let text = |value: f64| format!("{value:.4}");
            let numbers = [of.mean, of.deviation, of.min, of.max].map(text);
            table.row([stream.label(), name.to_owned()].into_iter().chain(numbers));
        }
        claims(&mut evidence, stream, streams)?;
    }
    evidence.tables.push(table);
    evidence.plots.push(plot(streams, 1.0, "1 s", (7.0, 12.0))?);
    evidence.plots.push(plot(streams, 0.1, "100 ms", (0.0, 20.0))?);
    evidence.note(
        "Streams have the paper's default window of 64 kB, less than the queue of 100 slots: \
         nothing is lost. Those with a larger window fill the queue and lose; the receiver then \
         waits for what was lost and gets what came after it at once, so its goodput dips and \
         leaps although the link is never idle: what the paper shows of the emulators it \
         compares with.",
    );
    Ok(evidence)
}

fn claims(evidence: &mut Evidence, stream: &Stream, streams: &[Stream]) -> Result<()> {
    let limit = LINK_MBIT * PAYLOAD;
    let label = stream.label();
    if !stream.fits {
        let deviation = stream.settled(0.1)?.deviation;
        let fits = |other: &&Stream| {
            other.fits && other.run.clock == stream.run.clock && other.run.model == stream.run.model
        };
        let steady = match streams.iter().find(fits) {
            Some(steady) => steady.settled(0.1)?.deviation,
            None => return Ok(()),
        };
        evidence.claim(
            format!("deviation in steps of 100 ms ({label})"),
            "oscillates (ModelNet, Emulab)",
            format!("{deviation:.3} Mbit/s; {steady:.3} with a window of 64 kB"),
            deviation > 3.0 * steady,
        );
        return Ok(());
    }
    let of = stream.settled(1.0)?;
    evidence.claim(
        format!("every second ({label})"),
        "9 to 10 Mbit/s",
        format!("{:.3} to {:.3} Mbit/s, deviation {:.4}", of.min, of.max, of.deviation),
        of.min >= 9.0 && of.max <= 10.0,
    );
    let share = of.mean / limit;
    evidence.claim(
        format!("mean ({label})"),
        format!("steady at the limit, {limit:.3} Mbit/s"),
        format!("{:.3} Mbit/s, {:.2} % of it", of.mean, share * 100.0),
        (0.99..=1.001).contains(&share),
    );
    Ok(())
}

fn plot(streams: &[Stream], step_s: f64, name: &str, (from, to): (f64, f64)) -> Result<Plot> {
    let axis = Axis::linear("goodput in Mbit/s").from(from).to(to);
    let mut plot =
        Plot::new(format!("Goodput in steps of {name}"), Axis::linear("time in s"), axis);
    for stream in streams {
        plot.lines.push(Line::new(stream.label(), stream.goodput(step_s)?));
    }
    let end = streams.iter().map(|stream| stream.run.record.elapsed_s).fold(0.0, f64::max);
    let limit = LINK_MBIT * PAYLOAD;
    let label = "limit: 1448 B of payload in 1538 B on the wire";
    let points = vec![(0.0, limit), (end, limit)];
    plot.lines.push(Line::new(label, points).style(Style::Reference));
    Ok(plot)
}
