//! Figure 3.7: streams that come and go share a link of 10 Mbit/s.

mod phases;

use super::PAYLOAD;
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Style, Table,
};
use phases::{Phase, phases};

pub(super) const FIGURE: Figure = Figure {
    id: "3.7",
    title: "three streams share a link of 10 Mbit/s as they come and go",
    takes: "5 min",
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
/// The labs' sampling interval in seconds.
const STEP: f64 = 0.1;
/// How far from its share a stream's mean in a phase may be where TCP finds it at a drop-tail
/// queue, in phases that give it time.
const FOUND: f64 = 0.2;
/// So many seconds are time enough.
const LONG: f64 = 30.0;
/// Ends the names of jobs whose shared link queues fairly.
const FAIR: &str = "-fair";

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
    /// How far from its share a stream's mean in a phase may be where shares are enforced: a
    /// segment that is sent again holds up the payload behind it for a while.
    allowed: f64,
}

const FULL: Scale = Scale { megabytes: 50.0, apart: 5.0, settle: 1.0, least: 1.0, allowed: 0.03 };
const SHORT: Scale = Scale { megabytes: 5.0, apart: 2.0, settle: 0.4, least: 0.5, allowed: 0.1 };

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let scale = stage.size(FULL, SHORT);
    let (mut jobs, mut fair) = (Vec::new(), Vec::new());
    for (lab, name, _) in TOPOLOGIES {
        for (clock, model) in stage.settings() {
            let job = |name: String| scale.applied(Job::new(lab, name, clock).model(model));
            jobs.push(job(name.to_owned()));
            if model == Model::Hop {
                let job = job(format!("{name}{FAIR}"));
                fair.push(job.set("link.shared.queue", "fq-codel"));
            }
        }
    }
    // A run at 10 Mbit/s takes a tenth of a core; all of them might be too many for two cores.
    let mut runs = stage.run_together(&jobs)?;
    runs.extend(stage.run_together(&fair)?);
    evidence(&runs, scale)
}

impl Scale {
    /// A job whose streams are of this scale.
    fn applied(self, mut job: Job) -> Job {
        for (stream, index) in STREAMS.iter().zip(0_u8..) {
            let start = f64::from(index) * self.apart;
            job = job
                .set(format!("flow.{stream}.size"), format!("{} MB", self.megabytes))
                .set(format!("flow.{stream}.start"), format!("{start} s"));
        }
        job
    }

    /// When the last byte can be there at the earliest: the link is never idle.
    fn least_end(self) -> f64 {
        STREAMS.len() as f64 * self.megabytes * 8.0 / PAYLOAD / LINK
    }
}

/// Clock, model and queue.
fn label(run: &Run) -> String {
    match run.model {
        Some(Model::Collapsed) => run.label(),
        _ if run.name.ends_with(FAIR) => format!("{}, fair queueing", run.label()),
        _ => format!("{}, drop-tail", run.label()),
    }
}

/// Whether shares do not depend on what TCP does.
fn enforced(run: &Run) -> bool {
    run.model == Some(Model::Collapsed) || run.name.ends_with(FAIR)
}

/// The largest deviation of a mean from its share, and of seconds from their mean, both in shares.
#[derive(Clone, Copy, Default)]
struct Worst {
    mean: f64,
    second: f64,
}

/// A run and what its streams did, rates in Mbit/s of wire.
struct Observed<'a> {
    run: &'a Run,
    scale: Scale,
    /// Start and end of each, in seconds.
    times: Vec<(f64, f64)>,
    rates: Vec<Vec<(f64, f64)>>,
}

impl Worst {
    fn joined(self, other: Self) -> Self {
        Self { mean: self.mean.max(other.mean), second: self.second.max(other.second) }
    }
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

    /// Fills the table of the topology, and claims the shares.
    fn shares(&self, title: &str, table: &mut Table, evidence: &mut Evidence) {
        let (mut any, mut long) = (Worst::default(), None::<Worst>);
        let mut texts = Vec::new();
        for phase in phases(&self.times, self.scale.settle, self.scale.least) {
            let (means, worst) = self.phase(&phase, table);
            any = any.joined(worst);
            if phase.to - phase.from >= LONG {
                long = Some(long.unwrap_or_default().joined(worst));
            }
            texts.push(means);
        }
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let means = texts.join(" | ");
        let all = format!("{means} Mbit/s; at most {} off", percent(any.mean));
        let spread = format!("seconds spread by up to {}", percent(any.second));
        let paper = "10 | 5 5 | 3.3 3.3 3.3 | 5 5 | 10 Mbit/s";
        let label = label(self.run);
        if enforced(self.run) {
            let holds = !texts.is_empty() && any.mean <= self.scale.allowed;
            let what = format!("{title}: shares in each phase ({label})");
            evidence.claim(what, paper, format!("{all}, {spread}"), holds);
        } else if let Some(long) = long {
            let what = format!("{title}: shares in the phases of over {LONG} s ({label})");
            let ours = format!(
                "at most {} off (allowed {}); in all phases {all}, {spread}",
                percent(long.mean),
                percent(FOUND)
            );
            evidence.claim(what, paper, ours, long.mean <= FOUND);
        }
    }

    /// A row for each stream of a phase; their means, and the worst of them.
    fn phase(&self, phase: &Phase, table: &mut Table) -> (String, Worst) {
        let fair = LINK / phase.streams.len() as f64;
        let (mut means, mut worst) = (Vec::new(), Worst::default());
        for &stream in &phase.streams {
            let Some(got) = phase.got(&self.rates[stream], STEP) else { continue };
            let off = got.mean / fair - 1.0;
            let seconds = got.seconds;
            worst = worst.joined(Worst { mean: off.abs(), second: seconds.deviation / fair });
            means.push(format!("{:.2}", got.mean));
            let text = |value: f64| match seconds.count {
                0 => "–".to_owned(),
                _ => format!("{value:.3}"),
            };
            table.row([
                label(self.run),
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
        (means.join(" "), worst)
    }

    fn plot(&self, title: &str) -> Result<Plot> {
        let end = self.times.iter().map(|(_, end)| *end).fold(0.0, f64::max).ceil();
        let mut plot = Plot::new(
            format!("{title}, {}", label(self.run)),
            Axis::linear("time in s").from(0.0),
            Axis::linear("rate on the wire in Mbit/s").from(0.0).to(12.0),
        );
        "Received payload with its headers, each second.".clone_into(&mut plot.note);
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

fn wire(rates: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    rates.into_iter().map(|(at, rate)| (at, rate / PAYLOAD / 1e6)).collect()
}

fn evidence(runs: &[Run], scale: Scale) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let least = scale.least_end();
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
        let of = |run: &&Run| run.name.strip_suffix(FAIR).unwrap_or(&run.name) == name;
        for run in runs.iter().filter(of) {
            let observed = Observed::new(run, scale)?;
            observed.shares(title, &mut table, &mut evidence);
            let (all, end) = observed.done()?;
            evidence.claim(
                format!("{title}: all is delivered ({})", label(run)),
                "after about 150 s",
                format!("after {end:.1} s; {least:.1} s if the link is never idle"),
                all && (0.99..=1.05).contains(&(end / least)),
            );
            evidence.plots.push(observed.plot(title)?);
        }
        evidence.tables.push(table);
    }
    notes(&mut evidence, scale);
    Ok(evidence)
}

fn notes(evidence: &mut Evidence, scale: Scale) {
    evidence.note(format!(
        "Rates are of wire: received payload with its headers, 1538 bytes for 1448. Of each phase \
         the first {} s are left out. {} x {} MB take {:.1} s at 10 Mbit/s of wire, \
         which the paper's streams did not quite use.",
        scale.settle,
        STREAMS.len(),
        scale.megabytes,
        scale.least_end()
    ));
    evidence.note(
        "Collapsed paths have their shares from the model within a round trip of each start and \
         end. Packets that share a drop-tail queue (hop) have what TCP makes of it: a stream that \
         comes later needs tens of losses until CUBIC's windows are alike, so that phases of a \
         few seconds end before; in the long run shares are near the fair ones, and seconds swing \
         with the windows. With fair queueing at the shared link the hop model has the same \
         shares as the collapsed one: the difference is the queue's and TCP's, not the emulator's.",
    );
    evidence.note(
        "Runs on the wall clock are made many at once, those with fair queueing after the others: \
         each passes 10 Mbit/s and takes about a tenth of a core.",
    );
}
