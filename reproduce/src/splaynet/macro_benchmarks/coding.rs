//! Multicast over the butterfly with random linear network coding, and without coding.

use base::Direction;
use serde::Deserialize;

use super::{agree, lines};
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Table, moments,
};

pub(in crate::splaynet) const FIGURE: Figure = Figure {
    id: "coding",
    title: "network coding on the butterfly",
    takes: "1 min",
    clocks: &[Clock::Wall],
    files: &[
        lab_file!("splaynet/butterfly.toml"),
        lab_file!("splaynet/apps/butterfly.py"),
        lab_file!("splaynet/apps/field.py"),
    ],
    make,
};

/// A way to bring the file to both sinks.
struct Scheme {
    name: &'static str,
    text: &'static str,
    /// What a sink gets at most, in rates of a link.
    gain: f64,
    /// Payload over bytes of wire: 16 B of coding vector with coding.
    payload: f64,
}

const SCHEMES: [Scheme; 3] = [
    Scheme { name: "coding", text: "network coding", gain: 2.0, payload: 1400.0 / 1490.0 },
    Scheme { name: "packing", text: "three trees", gain: 1.5, payload: 1400.0 / 1474.0 },
    Scheme { name: "trees", text: "two trees", gain: 1.0, payload: 1400.0 / 1474.0 },
];

/// Rate of the links times the share at which the source paces, in Mbit/s.
const PACED: f64 = 10.0 * 0.98;

/// What a sink writes when it has the file.
#[derive(Debug, Deserialize)]
struct Sink {
    seconds: f64,
    bytes: f64,
    right: bool,
    packets: u64,
    useless: u64,
}

/// What the source writes at the end.
#[derive(Debug, Deserialize)]
struct Source {
    repeated: u64,
}

/// What every program writes.
#[derive(Debug, Deserialize)]
struct Load {
    busy: f64,
}

/// What came of one run.
struct Outcome<'a> {
    run: &'a Run,
    scheme: &'static Scheme,
    sinks: Vec<Sink>,
    repeated: u64,
    busiest: f64,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let size = stage.size("\"8000000\"", "\"3000000\"");
    let mut jobs = Vec::new();
    for (clock, model) in stage.settings() {
        for scheme in &SCHEMES {
            let mut job = Job::new("splaynet/butterfly.toml", scheme.name, clock).model(model);
            for program in ["node", "source"] {
                job = job.set(format!("program.{program}.env.SCHEME"), scheme.name);
                job = job.set(format!("program.{program}.env.SIZE"), size);
            }
            jobs.push(job);
        }
    }
    evidence(&stage.run(&jobs)?)
}

impl<'a> Outcome<'a> {
    fn of(run: &'a Run) -> Result<Option<Self>> {
        let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.name == run.name) else {
            return Ok(None);
        };
        let source: Vec<Source> = lines(run, "source")?;
        let mut loads: Vec<Load> = lines(run, "node")?;
        loads.extend(lines::<Load>(run, "source")?);
        let busiest = loads.iter().map(|load| load.busy).fold(0.0, f64::max);
        let repeated = source.iter().map(|source| source.repeated).sum();
        Ok(Some(Self { run, scheme, sinks: lines(run, "node")?, repeated, busiest }))
    }

    fn seconds(&self) -> f64 {
        moments(&self.sinks.iter().map(|sink| sink.seconds).collect::<Vec<_>>()).mean
    }

    /// Mbit/s of payload to each sink.
    fn goodput(&self) -> f64 {
        let rate = |sink: &Sink| sink.bytes * 8.0 / sink.seconds / 1e6;
        moments(&self.sinks.iter().map(rate).collect::<Vec<_>>()).mean
    }
}

impl Scheme {
    /// Mbit/s of payload that a sink can get.
    fn limit(&self) -> f64 {
        PACED * self.gain * self.payload
    }
}

fn evidence(runs: &[Run]) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let heads =
        ["scheme", "run", "completion in s", "goodput", "limit", "useless", "repeated", "busiest"];
    let mut table = Table::new("To each sink, in Mbit/s and packets", &heads);
    let (x, y) = (Axis::linear("time in s"), Axis::linear("Mbit/s of wire"));
    let mut plot = Plot::new("What arrives at the sink t1", x.from(0.0), y.from(0.0));
    let mut outcomes = Vec::new();
    for run in runs {
        let Some(outcome) = Outcome::of(run)? else { continue };
        let packets: u64 = outcome.sinks.iter().map(|sink| sink.packets).sum();
        let useless: u64 = outcome.sinks.iter().map(|sink| sink.useless).sum();
        table.row([
            outcome.scheme.text.to_owned(),
            run.label(),
            format!("{:.3}", outcome.seconds()),
            format!("{:.2}", outcome.goodput()),
            format!("{:.2}", outcome.scheme.limit()),
            format!("{useless} of {packets}"),
            outcome.repeated.to_string(),
            format!("{:.0} % of a core", outcome.busiest * 100.0),
        ]);
        let name = format!("{} ({})", outcome.scheme.text, run.label());
        plot.lines.push(Line::new(name, arriving(run)?));
        outcomes.push(outcome);
    }
    claims(&mut evidence, &outcomes);
    evidence.plots.push(plot);
    evidence.tables.push(table);
    evidence.note(
        "Theory, in rates of a link to each sink (Ahlswede et al.): 2 with coding; 1.5 without, by \
         a packing of three trees at half the rate each, one of them around the middle link; 1 \
         where both trees need the middle link. Coding pays 1.1 % of its rate for coding vectors.",
    );
    evidence.note(
        "Every node is a host that relays, so each flow crosses one link and has it alone: both \
         models have the same delays and rates to give, and differ only in how a burst waits.",
    );
    Ok(evidence)
}

fn claims(evidence: &mut Evidence, outcomes: &[Outcome<'_>]) {
    let right = outcomes.iter().flat_map(|one| &one.sinks).filter(|sink| sink.right).count();
    let wanted = outcomes.len() * 2;
    evidence.claim(
        "sinks with the right file, over all runs",
        "all",
        format!("{right} of {wanted}"),
        right == wanted,
    );
    for one in outcomes {
        let share = one.goodput() / one.scheme.limit();
        evidence.claim(
            format!("goodput of {} ({})", one.scheme.text, one.run.label()),
            format!(
                "{:.2} Mbit/s: {} × a link's rate, less pacing and headers",
                one.scheme.limit(),
                one.scheme.gain
            ),
            format!("{:.2} Mbit/s, {:.1} % of it", one.goodput(), share * 100.0),
            (0.92..=1.03).contains(&share),
        );
    }
    for coded in outcomes.iter().filter(|one| one.scheme.name == "coding") {
        let others = outcomes.iter().filter(|one| {
            one.scheme.name != "coding"
                && (one.run.clock, one.run.model) == (coded.run.clock, coded.run.model)
        });
        for plain in others {
            let theory = coded.scheme.gain / plain.scheme.gain;
            let gain = plain.seconds() / coded.seconds();
            evidence.claim(
                format!("coding, faster than {} ({})", plain.scheme.text, coded.run.label()),
                format!("{theory:.3} times in theory"),
                format!("{gain:.3} times"),
                (gain / theory - 1.0).abs() <= 0.1,
            );
        }
    }
    for scheme in &SCHEMES {
        let of = outcomes.iter().filter(|one| one.scheme.name == scheme.name);
        let times: Vec<(Model, Vec<f64>)> =
            of.filter_map(|one| Some((one.run.model?, vec![one.seconds()]))).collect();
        agree(evidence, &format!("completion of {} in s", scheme.text), 0.5, &times, 0.08);
    }
    let busiest = outcomes.iter().map(|one| one.busiest).fold(0.0, f64::max);
    evidence.claim(
        "no program limits the network: share of a core that the busiest uses",
        "under 80 %",
        format!("{:.0} %", busiest * 100.0),
        busiest < 0.8,
    );
}

/// Mbit/s of wire on both links into `t1`, from the first packets of the file on; what hosts send
/// before is far less.
fn arriving(run: &Run) -> Result<Vec<(f64, f64)>> {
    let direct = run.link_rate("a-t1", Direction::Up, 0.25)?;
    let middle = run.link_rate("d-t1", Direction::Up, 0.25)?;
    let sum = direct.into_iter().zip(middle).map(|((at, a), (_, b))| (at, (a + b) / 1e6));
    let busy: Vec<(f64, f64)> = sum.skip_while(|(_, rate)| *rate < 1.0).collect();
    let begun = busy.first().map_or(0.0, |(at, _)| at - 0.125);
    Ok(busy.into_iter().map(|(at, rate)| (at - begun, rate)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_programs_are_understood() {
        let sink = r#"{"node": "t1", "seconds": 4.0, "busy": 0.2, "bytes": 8000000, "right": true,
                      "packets": 5736, "useless": 8}"#;
        let sink: Sink = serde_json::from_str(sink).unwrap();
        assert!(sink.right && (sink.bytes * 8.0 / sink.seconds - 16e6).abs() < 1e-6);
        let relay = r#"{"node": "c", "seconds": 3.5, "busy": 0.077}"#;
        assert!(serde_json::from_str::<Sink>(relay).is_err());
        assert!(serde_json::from_str::<Load>(relay).is_ok());
    }

    #[test]
    fn limits_are_in_the_ratios_of_theory() {
        let [coding, packing, trees] = &SCHEMES;
        let vectors = packing.payload / coding.payload;
        assert!((coding.limit() / packing.limit() * vectors - 4.0 / 3.0).abs() < 1e-9);
        assert!((packing.limit() / trees.limit() - 1.5).abs() < 1e-9);
    }
}
