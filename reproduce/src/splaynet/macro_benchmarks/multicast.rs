//! A file to twenty nodes over parallel n-ary trees.

use serde::Deserialize;

use super::super::PAYLOAD;
use super::{agree, lines};
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Style, Table, cdf,
    moments, quantile,
};

pub(in crate::splaynet) const FIGURE: Figure = Figure {
    id: "multicast",
    title: "completion of a file's multicast over parallel trees",
    takes: "1 min",
    clocks: &[Clock::Wall],
    files: &[lab_file!("splaynet/multicast.toml"), lab_file!("splaynet/apps/multicast.py")],
    make,
};

/// A way to run the lab.
struct Variant {
    name: &'static str,
    /// What goes behind clock and model.
    text: &'static str,
    model: Model,
    /// What is set beyond the lab.
    set: Option<(&'static str, &'static str)>,
}

/// The paper's sharing, in inverse proportion to round trips, is the lab's; beside it are shares
/// that do not depend on round trips, and packets that find shorter queues.
const VARIANTS: [Variant; 4] = [
    Variant { name: "multicast", text: "", model: Model::Hop, set: None },
    Variant {
        name: "short-queues",
        text: ", hosts' queues of 20 packets",
        model: Model::Hop,
        set: Some(("generate.1.access.queue", "20 packets")),
    },
    Variant { name: "multicast", text: "", model: Model::Collapsed, set: None },
    Variant {
        name: "max-min",
        text: ", even shares",
        model: Model::Collapsed,
        set: Some(("lab.sharing", "max-min")),
    },
];

/// What a node writes when it has the file.
#[derive(Debug, Deserialize)]
struct Completion {
    node: String,
    /// When, on the machine's clock, in seconds.
    done: f64,
    bytes: f64,
    /// Processor time of its program since that began.
    cpu: f64,
    right: bool,
}

/// What the source writes.
#[derive(Debug, Deserialize)]
struct Source {
    /// When it began, on the same clock.
    clock: f64,
    trees: u32,
    /// Edges from the source to the farthest leaf.
    depth: u32,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let size = stage.size("\"3000000\"", "\"1000000\"");
    let mut jobs = Vec::new();
    for (clock, model) in stage.settings() {
        for variant in VARIANTS.iter().filter(|variant| variant.model == model) {
            let job = Job::new("splaynet/multicast.toml", variant.name, clock).model(model);
            let job = job.set("program.node.env.SIZE", size).set("program.source.env.SIZE", size);
            jobs.push(match variant.set {
                Some((field, value)) => job.set(field, value),
                None => job,
            });
        }
    }
    evidence(&stage.run(&jobs)?)
}

fn evidence(runs: &[Run]) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let (x, y) = (Axis::linear("completion in s"), Axis::linear("nodes in %"));
    let mut plot = Plot::new("Completion of the file", x.from(0.0), y.from(0.0).to(100.0));
    let heads = ["run", "first", "median", "last", "capacity's bound", "busiest program"];
    let mut table = Table::new("Completion in s", &heads);
    let mut times: Vec<(&Variant, Vec<f64>)> = Vec::new();
    for run in runs {
        let Some(variant) = variant(run) else { continue };
        let label = run.label() + variant.text;
        let nodes: Vec<Completion> = lines(run, "node")?;
        let source: Vec<Source> = lines(run, "source")?;
        let begun = source[0].clock;
        let took: Vec<f64> = nodes.iter().map(|node| node.done - begun).collect();
        let bounds: Vec<f64> = nodes.iter().map(|node| bound(run, node)).collect();
        judge(&mut evidence, &label, run, &nodes, [&took, &bounds]);
        let of = moments(&took);
        let busy = nodes.iter().zip(&took).map(|(node, took)| node.cpu / took);
        table.row([
            label.clone(),
            format!("{:.3}", of.min),
            format!("{:.3}", quantile(&took, 0.5).unwrap_or(f64::NAN)),
            format!("{:.3}", of.max),
            format!("{:.3}", moments(&bounds).min),
            format!("{:.0} % of a core", busy.fold(0.0, f64::max) * 100.0),
        ]);
        if plot.lines.is_empty() {
            let least = moments(&bounds).min;
            let line = Line::new("capacity's bound", vec![(least, 0.0), (least, 100.0)]);
            plot.lines.push(line.style(Style::Reference));
            plot.note = format!(
                "{} trees of at most {} edges from the source to a leaf",
                source[0].trees, source[0].depth
            );
        }
        plot.lines.push(Line::new(label, cdf(&took)).style(Style::Steps));
        times.push((variant, took));
    }
    compare(&mut evidence, &times);
    evidence.plots.push(plot);
    evidence.tables.push(table);
    evidence.note(
        "The bound is the file's wire bytes over the rate of a host's link: a host receives every \
         stripe over the same link, and its own uploads are as much again in the other direction.",
    );
    evidence.note(
        "The models differ in how a host's flows share its link. In hop they share one queue of \
         100 packets, 0.25 s at 5 Mbit/s: all wait alike, and whoever is far away gets nearly as \
         much as who is near. Collapsed weighs flows by their round trips without queues, as the \
         paper says: stripes advance unevenly, and nodes below a slow one upload too little at \
         first. Even shares (`sharing = \"max-min\"`) undo that; and with queues of 20 packets, \
         where TCP favours near ones as well, hop too takes longer.",
    );
    evidence.note(
        "Collapsed also gives each flow its share at once and a queue of its own, where TCP in hop \
         loses packets and backs off; and it takes every connection for one that can use its \
         share, even while its parent has nothing to forward. Acknowledgements take no part in \
         the sharing (`acks = true` counts them).",
    );
    Ok(evidence)
}

fn variant(run: &Run) -> Option<&'static Variant> {
    VARIANTS.iter().find(|one| one.name == run.name && Some(one.model) == run.model)
}

/// Claims about collapsed runs beside packets in the lab's long queues: by round trips, which is
/// the paper's law, and with even shares.
fn compare(evidence: &mut Evidence, times: &[(&Variant, Vec<f64>)]) {
    let of = |model, set: bool| {
        let mut found = times.iter().filter(|(one, _)| one.model == model);
        found.find(|(one, _)| one.set.is_some() == set).map(|(_, took)| took.clone())
    };
    let (Some(long), Some(short)) = (of(Model::Hop, false), of(Model::Hop, true)) else { return };
    let (Some(weighted), Some(even)) = (of(Model::Collapsed, false), of(Model::Collapsed, true))
    else {
        return;
    };
    let pair = [(Model::Hop, long.clone()), (Model::Collapsed, even)];
    for (what, at) in [("median", 0.5), ("last", 1.0)] {
        let value = |times: &[f64]| quantile(times, at).unwrap_or(f64::NAN);
        let (ours, a, b) = (value(&weighted), value(&long), value(&short));
        let apart = (ours / a - 1.0) * 100.0;
        evidence.claim(
            format!("{what} completion, collapsed within 10 % of hop"),
            "same curves as the reference emulators",
            format!("{ours:.2} s beside {a:.2} s ({apart:+.0} %); {b:.2} s with short queues"),
            apart.abs() <= 10.0,
        );
        agree(evidence, &format!("{what} completion in s with even shares"), at, &pair, 0.2);
    }
}

/// The least time in which the file fits through a node's link.
fn bound(run: &Run, node: &Completion) -> f64 {
    let mut links = run.record.topology.links.iter();
    let link = links.find(|link| link.ends.contains(&node.node));
    let rate = link.and_then(|link| link.rate_bit_per_s.into_iter().flatten().min());
    rate.map_or(0.0, |rate| node.bytes / PAYLOAD * 8.0 / rate as f64)
}

fn judge(
    evidence: &mut Evidence,
    label: &str,
    run: &Run,
    nodes: &[Completion],
    [took, bounds]: [&[f64]; 2],
) {
    let receivers = run.record.programs.iter().filter(|p| p.name.starts_with("node.")).count();
    let right = nodes.iter().filter(|node| node.right).count();
    evidence.claim(
        format!("nodes with the whole file, by its hash ({label})"),
        "all",
        format!("{right} of {receivers}"),
        right == receivers,
    );
    let ratios: Vec<f64> = took.iter().zip(bounds).map(|(took, bound)| took / bound).collect();
    let of = moments(&ratios);
    evidence.claim(
        format!("completion over the capacity's bound ({label})"),
        "no less than 1",
        format!("{:.3} to {:.3}", of.min, of.max),
        of.min >= 1.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_programs_are_understood() {
        let node = r#"{"node": "h10", "seconds": 6.65, "clock": 3.5, "done": 10.15,
                      "bytes": 3000000, "forwarded": 3014656, "cpu": 0.27, "right": true}"#;
        let node: Completion = serde_json::from_str(node).unwrap();
        assert!(node.right && node.node == "h10" && (node.bytes - 3e6).abs() < 1e-9);
        let source = r#"{"source": 7.5, "clock": 3.25, "trees": 4, "depth": 3}"#;
        let source: Source = serde_json::from_str(source).unwrap();
        assert_eq!((source.trees, source.depth), (4, 3));
        assert!(serde_json::from_str::<Completion>(r#"{"listening": 4100}"#).is_err());
    }
}
