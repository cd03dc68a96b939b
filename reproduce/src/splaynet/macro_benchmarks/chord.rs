//! Lookups in a Chord ring on an Internet-like network.

use std::collections::{BTreeMap, BTreeSet};

use run::record::Topology;
use serde::Deserialize;

use super::{agree, lines};
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Style, Table, cdf,
    moments, quantile,
};

pub(in crate::splaynet) const FIGURE: Figure = Figure {
    id: "chord",
    title: "delay of lookups in a Chord ring",
    takes: "1 min",
    clocks: &[Clock::Wall],
    files: &[lab_file!("splaynet/chord.toml"), lab_file!("splaynet/apps/chord.py")],
    make,
};

/// A lookup, as the program writes it.
#[derive(Debug, Deserialize)]
struct Lookup {
    /// The origin, then the nodes that the request was forwarded to, the last of which answered.
    path: Vec<String>,
    ms: f64,
    right: bool,
    tries: u32,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let lookups = stage.size("\"30\"", "\"8\"");
    let job = |(clock, model)| {
        let job = Job::new("splaynet/chord.toml", "chord", clock).model(model);
        job.set("program.drive.env.LOOKUPS", lookups)
    };
    let jobs: Vec<Job> = stage.settings().into_iter().map(job).collect();
    evidence(&stage.run(&jobs)?)
}

fn evidence(runs: &[Run]) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let (x, y) = (Axis::linear("delay in ms"), Axis::linear("lookups in %"));
    let mut plot = Plot::new("Delay of lookups", x.from(0.0), y.from(0.0).to(100.0));
    let heads = ["run", "lookups", "hops", "median", "p90", "p99", "beyond the links, median"];
    let mut table = Table::new("Delay of lookups in ms", &heads);
    let mut times: Vec<(Model, Vec<f64>)> = Vec::new();
    for run in runs {
        let lookups: Vec<Lookup> = lines(run, "node")?;
        let delays = Delays::of(&run.record.topology);
        let least: Vec<f64> = lookups.iter().map(|one| delays.around_ms(&one.path)).collect();
        let took: Vec<f64> = lookups.iter().map(|one| one.ms).collect();
        judge(&mut evidence, run, &lookups, &least);
        let text = |at| format!("{:.1}", quantile(&took, at).unwrap_or(f64::NAN));
        let beyond: Vec<f64> = took.iter().zip(&least).map(|(ms, least)| ms - least).collect();
        table.row([
            run.label(),
            lookups.len().to_string(),
            format!("{:.2}", hops(&lookups)),
            text(0.5),
            text(0.9),
            text(0.99),
            format!("{:.2}", quantile(&beyond, 0.5).unwrap_or(f64::NAN)),
        ]);
        if plot.lines.is_empty() {
            let line = Line::new("the links' delays alone", cdf(&least));
            plot.lines.push(line.style(Style::Reference));
        }
        plot.lines.push(Line::new(run.label(), cdf(&took)).style(Style::Steps));
        times.extend(run.model.map(|model| (model, took)));
    }
    agree(&mut evidence, "median delay of a lookup in ms", 0.5, &times, 0.05);
    agree(&mut evidence, "90th percentile of it in ms", 0.9, &times, 0.05);
    evidence.plots.push(plot);
    evidence.tables.push(table);
    evidence.note(
        "Both models delay a packet by the same sum of delays. Hop adds a time on the wire for \
         every link (0.3 ms for a request of 200 B on a host's 10 Mbit/s, and less inside), \
         collapsed one time on the wire at the flow's share. Beyond that is the time that the \
         Python programs take: some tenths of a millisecond for each node of the path.",
    );
    evidence.note(
        "Rings form by real joins, so fingers may differ in rare cases between runs, and with \
         them the path of a lookup; keys and origins are the same.",
    );
    Ok(evidence)
}

/// Forwards of a request, on average.
fn hops(lookups: &[Lookup]) -> f64 {
    let hops: Vec<f64> = lookups.iter().map(|one| one.path.len() as f64 - 1.0).collect();
    moments(&hops).mean
}

fn judge(evidence: &mut Evidence, run: &Run, lookups: &[Lookup], least: &[f64]) {
    let label = run.label();
    let right = lookups.iter().filter(|one| one.right).count();
    let repeated = lookups.iter().filter(|one| one.tries > 1).count();
    evidence.claim(
        format!("answers that are right ({label})"),
        "all",
        format!("{right} of {}, {repeated} after a repeated request", lookups.len()),
        right == lookups.len(),
    );
    let origins: BTreeSet<&String> = lookups.iter().filter_map(|one| one.path.first()).collect();
    let theory = (origins.len() as f64).log2() / 2.0;
    let mean = hops(lookups);
    evidence.claim(
        format!("hops of a lookup among {} nodes, on average ({label})", origins.len()),
        format!("½ log₂ N = {theory:.2} (Stoica et al.)"),
        format!("{mean:.2}"),
        (mean / theory - 1.0).abs() <= 0.2,
    );
    let beyond: Vec<f64> = lookups.iter().zip(least).map(|(one, least)| one.ms - least).collect();
    let shares: Vec<f64> = beyond.iter().zip(least).map(|(over, least)| over / least).collect();
    let middle = |values: &[f64]| quantile(values, 0.5).unwrap_or(f64::NAN);
    evidence.claim(
        format!("delay beyond the path's links, median ({label})"),
        "under 5 ms and 10 % (figure 3.6b)",
        format!("{:.2} ms, {:.2} %", middle(&beyond), middle(&shares) * 100.0),
        middle(&beyond) < 5.0 && middle(&shares) < 0.1,
    );
    let fastest = moments(&beyond).min;
    evidence.claim(
        format!("no lookup faster than its path ({label})"),
        "none",
        format!("{fastest:.2} ms beyond it at least"),
        fastest >= 0.0,
    );
}

/// Shortest delays between nodes, one way, in ms.
struct Delays {
    links: BTreeMap<String, Vec<(String, u64)>>,
}

impl Delays {
    fn of(topology: &Topology) -> Self {
        let mut links: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
        for link in &topology.links {
            let [a, b] = &link.ends;
            links.entry(a.clone()).or_default().push((b.clone(), link.delay_ns[0]));
            links.entry(b.clone()).or_default().push((a.clone(), link.delay_ns[1]));
        }
        Self { links }
    }

    /// From one node to another, in ns; Dijkstra's algorithm on a sorted set.
    fn between(&self, from: &str, to: &str) -> Option<u64> {
        let mut known = BTreeSet::new();
        let mut next = BTreeSet::from([(0, from)]);
        while let Some((delay, node)) = next.pop_first() {
            if node == to {
                return Some(delay);
            }
            if known.insert(node) {
                let links = self.links.get(node).into_iter().flatten();
                next.extend(links.map(|(other, more)| (delay + more, other.as_str())));
            }
        }
        None
    }

    /// Along a path and from its end back to its beginning.
    fn around_ms(&self, path: &[String]) -> f64 {
        let back = path.last().into_iter().chain(path.first());
        let back: Vec<&String> = back.collect();
        let steps = path.windows(2).map(|step| (&step[0], &step[1]));
        let all = steps.chain(back.chunks_exact(2).map(|step| (step[0], step[1])));
        all.map(|(a, b)| self.between(a, b).unwrap_or_default() as f64 / 1e6).sum()
    }
}

#[cfg(test)]
mod tests {
    use run::record::TopologyLink;

    use super::*;

    fn link(a: &str, b: &str, up: u64, down: u64) -> TopologyLink {
        TopologyLink {
            name: format!("{a}-{b}"),
            ends: [a.to_owned(), b.to_owned()],
            text: Default::default(),
            rate_bit_per_s: [None; 2],
            delay_ns: [up, down],
        }
    }

    #[test]
    fn delays_are_of_the_shortest_paths_there_and_back() {
        let links = vec![
            link("a", "r", 1_000_000, 2_000_000),
            link("r", "b", 3_000_000, 4_000_000),
            link("a", "b", 9_000_000, 5_000_000),
        ];
        let delays = Delays::of(&Topology { nodes: Vec::new(), links });
        assert_eq!(delays.between("a", "b"), Some(4_000_000));
        assert_eq!(delays.between("b", "a"), Some(5_000_000));
        assert_eq!(delays.between("a", "x"), None);
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!((delays.around_ms(&path(&["a", "b"])) - 9.0).abs() < 1e-9);
        assert!((delays.around_ms(&path(&["a", "r", "b"])) - 9.0).abs() < 1e-9);
        assert!(delays.around_ms(&path(&["a"])).abs() < 1e-9);
    }

    #[test]
    fn lines_of_the_program_are_understood() {
        let line = r#"{"lookup": 7, "key": "90d3", "path": ["h1", "h2"], "ms": 3.5, "owner": "h3",
                      "tries": 1, "right": true}"#;
        let lookup: Lookup = serde_json::from_str(line).unwrap();
        assert!(lookup.right && (hops(&[lookup]) - 1.0).abs() < 1e-9);
        assert!(serde_json::from_str::<Lookup>(r#"{"joined": "h2"}"#).is_err());
    }
}
