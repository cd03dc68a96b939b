//! Different applications: a video player that asks for chunks, over paths good and bad.

use super::course::Middle;
use super::verdict::word;
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Job, Result, Run, Stage, Table, quantile};

pub(super) const FIGURE: Figure = Figure {
    id: "applications",
    title: "outlook: video chunks that no single path carries in time",
    takes: "15 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/video.toml")],
    make,
};

const LAB: &str = "mctcp/video.toml";
const CHUNKS: &str = "chunks";
/// A chunk is played for so long, in s; one that takes longer is late.
const CHUNK: f64 = 2.0;
/// Share of the chunks that may be late, in %.
const LATE: f64 = 2.0;

/// What the paths are like: a name, a label, settings.
type Scene = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
const SCENES: [Scene; 4] = [
    ("equal", "10 + 10 Mbit/s", &[]),
    ("longer", "10 ms + 100 ms", &[("link.path2.delay", "100 ms")]),
    ("lossy", "1 % loss on the second", &[("link.path2.loss", "1 %")]),
    ("slower", "10 + 5 Mbit/s", &[("link.path2.rate", "5 Mbit/s")]),
];
const CARRIERS: [(&str, &str); 3] = [("mctcp", "MCTCP"), ("mptcp", "kernel MPTCP"), ("tcp", "TCP")];

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let times = stage.size(3_u64, 1);
    let mut jobs = Vec::new();
    let mut rows = Vec::new();
    for clock in stage.clocks() {
        for scene in SCENES {
            for (transport, carrier) in CARRIERS {
                if transport == "mptcp" && clock == Clock::Virtual {
                    continue;
                }
                rows.push((clock, scene.1, carrier));
                jobs.extend((1..=times).map(|seed| job(scene, transport, clock, seed)));
            }
        }
    }
    let mut runs = stage.run_some(&jobs, 4)?.into_iter();
    let mut evidence = Evidence::default();
    let title = "Chunks of 3 MB, one every 2 s: s until one has come, median and 99th percentile, \
                 and % that took longer than 2 s: medians of runs (least to largest)";
    let heads = ["paths", "clock", "carried by", "median", "p99", "late"];
    let mut table = Table::new(title, &heads);
    for (clock, paths, carrier) in rows {
        let own: Vec<Run> = runs.by_ref().take(times as usize).collect();
        let of = |share| Middle::read(&own, |run| latency(run, share));
        let late = Middle::read(&own, late)?;
        let cells = [of(0.5)?, of(0.99)?, late].map(Middle::text);
        let words = [paths.to_owned(), word(clock).to_owned(), carrier.to_owned()];
        table.row(words.into_iter().chain(cells));
        if carrier == CARRIERS[0].1 {
            evidence.claim(
                format!("{paths}: chunks that came too late ({})", word(clock)),
                format!("not in the paper (expected: at most {LATE} %)"),
                format!("{} %", late.text()),
                late.median <= LATE,
            );
        }
    }
    evidence.tables.push(table);
    evidence.note(
        "12 Mbit/s of video are more than one path carries. Requests leave every 2 s, or when the \
         chunk before has come, whichever is later. Small requests are in `requests`, bulk in all \
         others.",
    );
    Ok(evidence)
}

fn job((name, _, set): Scene, transport: &str, clock: Clock, seed: u64) -> Job {
    let job = Job::new(LAB, format!("{name}-{transport}-{seed}"), clock)
        .set("lab.seed", seed.to_string())
        .set("lab.tolerance", "5 ms")
        .set(format!("flow.{CHUNKS}.transport"), transport);
    set.iter().fold(job, |job, (field, value)| job.set(*field, *value))
}

fn latency(run: &Run, share: f64) -> Result<f64> {
    Ok(quantile(&run.round_trips(CHUNKS)?, share).unwrap_or(f64::NAN))
}

fn late(run: &Run) -> Result<f64> {
    let times = run.round_trips(CHUNKS)?;
    let late = times.iter().filter(|s| **s > CHUNK).count();
    Ok(late as f64 / times.len().max(1) as f64 * 100.0)
}
