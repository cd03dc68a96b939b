//! Session generators whose sessions are generated again from the lab file of a run.

use std::sync::atomic::AtomicBool;

use run::RunFolder;
use run::record::{RunRecord, Status};
use sim::run::{Options, Progress};

use super::labs::plan;

const RING: &str = "[[generate]]\nkind = \"ring\"\nrouters = 5\n\
    link = { rate = \"1 Gbit/s\", delay = \"1 ms\", queue = \"unlimited\" }\n";
const WHOLE: &str = "[[sessions]]\nname = \"whole\"\ncount = 60\nrouters = \"r*\"\nhosts = 20\n\
    start = [\"0 s\", \"50 ms\"]\nleave = [\"100 ms\", \"150 ms\"]\nleave_count = 20\n\
    demand = [\"1 Mbit/s\", \"90 Mbit/s\"]\n";
const PART: &str = "[[sessions]]\nname = \"part\"\ncount = 25\nrouters = [\"r5\", \"r2\"]\n\
    hosts = 20\nsize = { pareto = \"100 kB\", shape = 2.5 }\n";
const CONTROL: &str = "[control]\nprotocol = \"bfyz\"\nloss = \"0 %\"\n";

/// A run's record, and the lab in its folder.
fn run(text: &str) -> (RunRecord, String) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        runs_dir: dir.path().to_owned(),
        repeat: "netarium sim lab.toml".to_owned(),
        alone: true,
        live: None,
    };
    let plan = plan(text);
    let record =
        sim::run::run(&plan, &options, &mut |_: &Progress| {}, &AtomicBool::new(false)).unwrap();
    let folder = dir.path().join(format!("{}-{}", plan.name, record.id));
    let written = std::fs::read_to_string(folder.join(RunFolder::RESOLVED_LAB)).unwrap();
    (record, written)
}

#[test]
fn resolved_lab_repeats_the_run() {
    let mut hashes = Vec::new();
    for (seed, model, parts) in [
        (1, "hop", [RING, WHOLE, "", ""]),
        (2, "hop", [RING, WHOLE, "", ""]),
        (1, "hop", [RING, WHOLE, PART, ""]),
        (1, "hop", [RING, PART, WHOLE, CONTROL]),
        (1, "fluid", [RING, WHOLE, PART, ""]),
    ] {
        let lab = format!(
            "[lab]\nduration = \"200 ms\"\ninterval = \"50 ms\"\nseed = {seed}\n\
             model = \"{model}\"\n{}",
            parts.concat()
        );
        let (first, written) = run(&lab);
        let (again, rewritten) = run(&written);
        assert_eq!((first.status, again.status), (Status::Finished, Status::Finished));
        assert_eq!(rewritten, written);
        assert_eq!(again.plan_hash, first.plan_hash);
        assert!(first.trace_hash.is_some());
        assert_eq!(again.trace_hash, first.trace_hash, "{written}");
        hashes.push(first.trace_hash);
    }
    let mut different = hashes.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), hashes.len(), "other labs, other runs");
}
