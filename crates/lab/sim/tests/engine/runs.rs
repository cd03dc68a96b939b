//! Runs with run folders: records, limits, interrupts.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Bytes;
use lab::plan::Plan;
use run::record::{Clock, Outcome, RunRecord, Status};
use run::{Exit, RunFolder};
use sim::run::{Options, Progress};

use super::labs::plan;

const LAB: &str = "[lab]\nname = \"pair\"\nduration = \"5 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
    [[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n\
    [[flow]]\nname = \"mice\"\nfrom = \"b\"\nto = \"a\"\nsize = \"10 kB\"\n\
    arrivals = { poisson = \"50 ms\" }\n\
    [[at]]\ntime = \"2 s\"\nlink = [\"a\", \"b\"]\nset = { delay = \"20 ms\" }\n\
    [[expect]]\nthat = \"flow.bulk.goodput.mean >= 7 Mbit/s\"\n";

fn run(plan: &Plan, dir: &Path, stop: &AtomicBool) -> RunRecord {
    let mut ignore = |_: &Progress| {};
    sim::run::run(plan, &options(dir), &mut ignore, stop).unwrap()
}

fn options(dir: &Path) -> Options {
    let repeat = "netarium sim pair.toml".to_owned();
    Options { runs_dir: dir.to_owned(), repeat, alone: true, live: None }
}

#[test]
fn a_run_leaves_a_folder_as_the_wall_clock_does() {
    let dir = tempfile::tempdir().unwrap();
    let record = run(&plan(LAB), dir.path(), &AtomicBool::new(false));
    assert_eq!((record.status, record.exit_code), (Status::Finished, Some(Exit::Ok)));
    assert_eq!((record.clock, record.elapsed_s), (Clock::Virtual, 5.0));
    assert!(record.verdict.as_ref().unwrap().trusted);
    assert_eq!(record.expectations[0].outcome, Outcome::Passed);
    // One for each direction.
    assert_eq!(record.events.len(), 2);
    let simulation = record.simulation.as_ref().unwrap();
    assert!(simulation.events > 8_000 && simulation.packet_hops > 8_000, "{simulation:?}");
    assert!(simulation.peak_memory_bytes.is_some());
    let mice = &record.flows[1];
    assert!(mice.transfers_completed > Some(50) && mice.slowdown.unwrap().p50 > 1.0);
    let folder = RunFolder::open(&dir.path().join(format!("pair-{}", record.id))).unwrap();
    let written = folder.read_record().unwrap();
    assert_eq!((written.status, &written.trace_hash), (record.status, &record.trace_hash));
    assert_eq!(written.flows[1].transfers_completed, mice.transfers_completed);
    for file in ["lab.toml", "links.parquet", "flows.parquet", "transfers.parquet", "log.jsonl"] {
        assert!(folder.file(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn a_run_repeats_itself() {
    let dir = tempfile::tempdir().unwrap();
    let never = AtomicBool::new(false);
    let [first, second] = [0, 1].map(|_| run(&plan(LAB), dir.path(), &never));
    assert_eq!(first.trace_hash, second.trace_hash);
    assert_eq!((&first.flows, &first.links), (&second.flows, &second.links));
    assert_ne!(first.id, second.id);
}

#[test]
fn a_missed_expectation_is_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let lab = LAB.replace("7 Mbit/s", "11 Mbit/s");
    let record = run(&plan(&lab), dir.path(), &AtomicBool::new(false));
    assert_eq!((record.status, record.exit_code), (Status::Finished, Some(Exit::Expectation)));
}

#[test]
fn the_limit_of_events_ends_a_run_and_keeps_its_results() {
    let dir = tempfile::tempdir().unwrap();
    let mut limited = plan(LAB);
    limited.limits.events = 5_000;
    let record = run(&limited, dir.path(), &AtomicBool::new(false));
    assert_eq!((record.status, record.exit_code), (Status::Failed, Some(Exit::Usage)));
    let warning = record.warnings.last().unwrap();
    assert!(warning.contains("5000 events") && warning.contains("--max-events"), "{warning}");
    assert!(record.elapsed_s > 0.1 && record.elapsed_s < 4.0, "{}", record.elapsed_s);
    assert!(record.flows[0].received_bytes > 100_000);
    assert!(record.simulation.unwrap().events < 5_100);
}

#[test]
fn packets_that_take_no_time_end_a_run() {
    let without_rate = LAB.replace("rate = \"10 Mbit/s\"\n", "");
    // From the start, and after an event.
    for (lab, seconds) in [
        (without_rate.replace("delay = \"10 ms\"\n", ""), 0.0),
        (without_rate.replace("delay = \"20 ms\"", "delay = \"0 ms\""), 2.0),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let record = run(&plan(&lab), dir.path(), &AtomicBool::new(false));
        assert_eq!(record.exit_code, Some(Exit::Usage));
        let text = record.failure.unwrap().text;
        assert!(text.contains("no rate and no delay"), "{text}");
        assert!((seconds..seconds + 0.1).contains(&record.elapsed_s), "{}", record.elapsed_s);
    }
}

#[test]
fn the_limit_of_memory_ends_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut limited = plan(LAB);
    limited.limits.memory = Bytes::new(10_000);
    let record = run(&limited, dir.path(), &AtomicBool::new(false));
    assert_eq!((record.status, record.exit_code), (Status::Failed, Some(Exit::Usage)));
    let warning = record.warnings.last().unwrap();
    assert!(warning.contains("10 kB") && warning.contains("--max-memory"), "{warning}");
}

#[test]
fn interrupted_run_keeps_its_results() {
    let dir = tempfile::tempdir().unwrap();
    let mut long = plan(LAB);
    long.duration = base::Span::from_secs(3_600);
    let stop = AtomicBool::new(false);
    // Progress is reported once the run has taken some time.
    let mut on_progress = |progress: &Progress| {
        assert!(progress.events > 0 && progress.packet_hops > 0);
        stop.store(true, Ordering::Relaxed);
    };
    let record = sim::run::run(&long, &options(dir.path()), &mut on_progress, &stop).unwrap();
    assert_eq!((record.status, record.exit_code), (Status::Interrupted, Some(Exit::Interrupted)));
    assert!(record.elapsed_s > 0.0 && record.elapsed_s < 3_600.0);
    assert!(record.flows[0].received_bytes > 0);
}

#[test]
fn reports_unavailable_results() {
    let dir = tempfile::tempdir().unwrap();
    let lab = format!("{LAB}[[mirror]]\nlink = [\"a\", \"b\"]\nto = \"file\"\n");
    let lab = lab.replace("to = \"file\"\n", "");
    let record = run(&plan(&lab), dir.path(), &AtomicBool::new(false));
    assert!(record.warnings.iter().any(|w| w.contains("carry no bytes")), "{:?}", record.warnings);
}
