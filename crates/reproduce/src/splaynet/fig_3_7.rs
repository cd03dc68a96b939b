//! Figure 3.7: streams that come and go share a link of 10 Mbit/s.

mod phases;

use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Style, Table,
};
use phases::phases;

pub(super) const FIGURE: Figure = Figure {
    id: "3.7",
    title: "three streams share a link of 10 Mbit/s as they come and go",
    takes: "3 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[
        lab_file!("splaynet/fan-out.toml"),
        lab_file!("splaynet/fan-in.toml"),
        lab_file!("splaynet/dumbbell.toml"),
    ],
    make,
};

/// Their labs and the paper's names.
const TOPOLOGIES: [(&str, &str, &str); 3] = [
    ("splaynet/fan-out.toml", "fan-out", "N → R → 3N"),
    ("splaynet/fan-in.toml", "fan-in", "3N → R → N"),
    ("splaynet/dumbbell.toml", "dumbbell", "3N → R → R → 3N"),
];
/// The flows of each lab.
const STREAMS: [&str; 3] = ["stream-1", "stream-2", "stream-3"];
/// The shared link, in Mbit/s.
const LINK: f64 = 10.0;
/// Wire bytes of a full segment (timestamps, Ethernet) over its payload.
const WIRE: f64 = 1538.0 / 1448.0;
/// The labs' sampling interval in seconds.
const STEP: f64 = 0.1;

/// What the sizes of a run make of the figure.
#[derive(Clone, Copy)]
struct Scale {
    /// What each stream sends.
    megabytes: f64,
    /// From one start to the next, in seconds.
    apart: f64,
    /// The beginning of each phase that is left out, in seconds.
    settle: f64,
    /// The shortest rest of a phase that counts, in seconds.
    least: f64,
}

const FULL: Scale = Scale { megabytes: 50.0, apart: 5.0, settle: 1.0, least: 1.0 };
const SHORT: Scale = Scale { megabytes: 5.0, apart: 2.0, settle: 0.4, least: 0.5 };

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let scale = stage.size(FULL, SHORT);
    let mut jobs = Vec::new();
    for (lab, name, _) in TOPOLOGIES {
        for (clock, model) in stage.settings() {
            let mut job = Job::new(lab, name, clock).model(model);
            for (stream, index) in STREAMS.iter().zip(0_u8..) {
                let start = f64::from(index) * scale.apart;
                job = job
                    .set(format!("flow.{stream}.size"), format!("{} MB", scale.megabytes))
                    .set(format!("flow.{stream}.start"), format!("{start} s"));
            }
            jobs.push(job);
        }
    }
    // A run at 10 Mbit/s takes a few per cent of a core.
    let runs = stage.run_together(&jobs)?;
    evidence(&runs, scale)
}

/// A run and what its streams did, rates in Mbit/s of wire.
struct Observed<'a> {
    run: &'a Run,
    scale: Scale,
    /// Start and end of each, in seconds.
    times: Vec<(f64, f64)>,
    rates: Vec<Vec<(f64, f64)>>,
}

impl<'a> Observed<'a> {
    fn new(run: &'a Run, scale: Scale) -> Result<Self> {
        let (mut times, mut rates) = (Vec::new(), Vec::new());
        for stream in STREAMS {
            let flow = run.flow(stream)?;
            let end = flow.ended_s.unwrap_or(run.record.elapsed_s);
            times.push((flow.started_s.unwrap_or(end), end));
            rates.push(wire(run.flow_rate(stream, STEP)?));
        }
        Ok(Self { run, scale, times, rates })
    }

    /// Whether all streams were delivered, and when the last was.
    fn done(&self) -> Result<(bool, f64)> {
        let mut all = true;
        for stream in STREAMS {
            all &= self.run.flow(stream)?.completion_s.is_some();
        }
        Ok((all, self.times.iter().map(|(_, end)| *end).fold(0.0, f64::max)))
    }

    /// Claims the shares, and fills the table of the topology.
    fn shares(&self, title: &str, table: &mut Table, evidence: &mut Evidence) {
        let (mut worst, mut spread, mut texts) = (0.0_f64, 0.0_f64, Vec::new());
        for phase in phases(&self.times, self.scale.settle, self.scale.least) {
            let fair = LINK / phase.streams.len() as f64;
            let mut means = Vec::new();
            for &stream in &phase.streams {
                let Some(got) = phase.got(&self.rates[stream], STEP) else { continue };
                let off = got.mean / fair - 1.0;
                worst = worst.max(off.abs());
                spread = spread.max(got.seconds.deviation / fair);
                means.push(format!("{:.2}", got.mean));
                let seconds = got.seconds;
                let text = |value: f64| match seconds.count {
                    0 => "–".to_owned(),
                    _ => format!("{value:.3}"),
                };
                table.row([
                    self.run.label(),
                    format!("{:.1} to {:.1} s", phase.from, phase.to),
                    (stream + 1).to_string(),
                    format!("{fair:.2}"),
                    format!("{:.3}", got.mean),
                    format!("{:+.2} %", off * 100.0),
                    text(seconds.deviation),
                    text(seconds.min),
                    text(seconds.max),
                ]);
            }
            texts.push(means.join(" "));
        }
        let tolerance = tolerance(self.run.model);
        evidence.claim(
            format!("{title}: shares in each phase ({})", self.run.label()),
            "10 | 5 5 | 3.3 3.3 3.3 | 5 5 | 10 Mbit/s",
            format!(
                "{} Mbit/s; a mean at most {:.1} % off (allowed {:.0} %), seconds spread by up to \
                 {:.1} %",
                texts.join(" | "),
                worst * 100.0,
                tolerance * 100.0,
                spread * 100.0
            ),
            !texts.is_empty() && worst <= tolerance,
        );
    }

    fn plot(&self, title: &str) -> Result<Plot> {
        let end = self.times.iter().map(|(_, end)| *end).fold(0.0, f64::max).ceil();
        let mut plot = Plot::new(
            format!("{title}, {}", self.run.label()),
            Axis::linear("time in s").from(0.0),
            Axis::linear("rate on the wire in Mbit/s").from(0.0).to(12.0),
        );
        plot.note = "Received payload with its headers, each second.".to_owned();
        for (stream, (start, end)) in STREAMS.iter().zip(&self.times) {
            let mut rates = wire(self.run.flow_rate(stream, 1.0)?);
            rates.retain(|(at, _)| at + 0.5 > *start && at - 0.5 < *end);
            plot.lines.push(Line::new(stream.replace('-', " "), rates));
        }
        for (label, streams) in [("10", 1.0), ("5", 2.0), ("3.33", 3.0)] {
            let points = vec![(0.0, LINK / streams), (end, LINK / streams)];
            let line = Line::new(format!("{label} Mbit/s"), points).style(Style::Reference);
            plot.lines.push(line);
        }
        Ok(plot)
    }
}

/// How far a stream's mean in a phase may be from its share: TCP has to find it by itself where
/// packets share queues.
fn tolerance(model: Option<Model>) -> f64 {
    if model == Some(Model::Collapsed) { 0.03 } else { 0.25 }
}

fn wire(rates: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    rates.into_iter().map(|(at, rate)| (at, rate * WIRE / 1e6)).collect()
}

/// When the last byte can be there at the earliest: the link is never idle.
fn theory(scale: Scale) -> f64 {
    STREAMS.len() as f64 * scale.megabytes * 8.0 * WIRE / LINK
}

fn evidence(runs: &[Run], scale: Scale) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let least = theory(scale);
    for (_, name, title) in TOPOLOGIES {
        let heads = [
            "run",
            "phase",
            "stream",
            "share",
            "mean",
            "off by",
            "deviation of 1 s",
            "least",
            "most",
        ];
        let mut table = Table::new(format!("{title}: Mbit/s of wire"), &heads);
        for run in runs.iter().filter(|run| run.name == name) {
            let observed = Observed::new(run, scale)?;
            observed.shares(title, &mut table, &mut evidence);
            let (all, end) = observed.done()?;
            evidence.claim(
                format!("{title}: all is delivered ({})", run.label()),
                "after about 150 s",
                format!("after {end:.1} s; {least:.1} s if the link is never idle"),
                all && (0.99..=1.03).contains(&(end / least)),
            );
            evidence.plots.push(observed.plot(title)?);
        }
        evidence.tables.push(table);
    }
    Ok(evidence)
}
