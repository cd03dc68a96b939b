//! Small requests over an open session, with and without loss, and sessions of one small transfer.

use super::course::Middle;
use super::grid::Times;
use super::sums::over;
use super::verdict::{Wanted, claim, word};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Job, Result, Run, Stage, Table, quantile};

pub(super) const FIGURE: Figure = Figure {
    id: "requests",
    title: "1 KiB over an open session and over a new one, beside plain TCP",
    takes: "10 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/requests.toml")],
    make,
};

const LAB: &str = "mctcp/requests.toml";
const REQUESTS: &str = "requests";
const TRANSFERS: &str = "transfers";
const CARRIERS: [(&str, &str); 3] = [("mctcp", "MCTCP"), ("mptcp", "kernel MPTCP"), ("tcp", "TCP")];
const WITHIN: f64 = 1.05;
/// Round trips more than TCP takes, for a new session.
const MORE: f64 = 0.1;
const RTT_MS: f64 = 20.0;
/// Loss of each link, and p99 of requests with it, in ms.
const LOSS: &str = "2 %";
const LOSSY_P99_MS: f64 = 60.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let heads = [
        "carried by",
        "clock",
        "request, median",
        "request, p99",
        "transfer, median",
        "request, p99, 2 % loss",
    ];
    let title = "ms from a request of 1 KiB to its response of 1 KiB, and ms that a transfer of \
                 1 KiB over a connection of its own takes: medians of runs (least to largest)";
    let mut table = Table::new(title, &heads);
    for clock in stage.clocks() {
        let mut all = Vec::new();
        for (transport, label) in CARRIERS {
            if transport == "mptcp" && clock == Clock::Virtual {
                all.push([Middle::of(&[]); 4]);
                continue;
            }
            let lossy = runs(stage, transport, clock, Some(LOSS))?;
            let runs = runs(stage, transport, clock, None)?;
            let ours = [
                Middle::read(&runs, |run| latency(run, 0.5))?,
                Middle::read(&runs, |run| latency(run, 0.99))?,
                Middle::read(&runs, completion)?,
                Middle::read(&lossy, |run| latency(run, 0.99))?,
            ];
            let cells = ours.map(Middle::text);
            table.row([label.to_owned(), word(clock).to_owned()].into_iter().chain(cells));
            all.push(ours);
        }
        let [ours, kernel, tcp] = all.as_slice() else { continue };
        let what = "1 KiB request over an open session, median, over TCP's";
        let (own, other) = (over(ours[0], tcp[0].median), over(kernel[0], tcp[0].median));
        claim(&mut evidence, clock, what, Wanted::AtMost(WITHIN), own, &[("kernel MPTCP", other)]);
        let more = |of: Middle| Middle {
            median: (of.median - tcp[2].median) / RTT_MS,
            min: (of.min - tcp[2].median) / RTT_MS,
            max: (of.max - tcp[2].median) / RTT_MS,
        };
        claim(
            &mut evidence,
            clock,
            "1 KiB over a new session: round trips more than TCP takes",
            Wanted::AtMost(MORE),
            more(ours[2]),
            &[("kernel MPTCP", more(kernel[2]))],
        );
        let what = "1 KiB request over an open session, 2 % loss: p99 in ms";
        let others = [("kernel MPTCP", kernel[3]), ("TCP", tcp[3])];
        claim(&mut evidence, clock, what, Wanted::AtMost(LOSSY_P99_MS), ours[3], &others);
    }
    evidence.tables.push(table);
    Ok(evidence)
}

fn runs(
    stage: &mut Stage<'_>,
    transport: &str,
    clock: Clock,
    loss: Option<&str>,
) -> Result<Vec<Run>> {
    let times = if clock == Clock::Wall { Times::FIVE.wall } else { Times::FIVE.simulated };
    let times = stage.size(times, 1);
    let job = |seed: u64| {
        let kind = if loss.is_some() { "lossy-" } else { "" };
        let job = Job::new(LAB, format!("{kind}{transport}-{seed}"), clock)
            .set("lab.seed", seed.to_string())
            .set(format!("flow.{REQUESTS}.transport"), transport)
            .set(format!("flow.{TRANSFERS}.transport"), transport);
        let job = loss
            .into_iter()
            .fold(job, |job, loss| job.set("link.path1.loss", loss).set("link.path2.loss", loss));
        if clock == Clock::Wall { job.set("lab.tolerance", "5 ms") } else { job }
    };
    let jobs: Vec<Job> = (1..=times).map(job).collect();
    // One at a time: latencies are about less than the machine's own noise.
    stage.run(&jobs)
}

/// A quantile of the times of requests after the first, in ms.
fn latency(run: &Run, share: f64) -> Result<f64> {
    let times = run.round_trips(REQUESTS)?;
    let later: Vec<f64> = times.into_iter().skip(1).map(|s| s * 1e3).collect();
    Ok(quantile(&later, share).unwrap_or(f64::NAN))
}

/// The median time of a transfer, in ms.
fn completion(run: &Run) -> Result<f64> {
    let table = run.table("transfers")?;
    let times = run.integers(&table, "completion_ns")?;
    let times: Vec<f64> = times.into_iter().flatten().map(|ns| ns as f64 / 1e6).collect();
    Ok(quantile(&times, 0.5).unwrap_or(f64::NAN))
}
