//! Sweeps: all combinations, in threads, and resumed sweeps.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::Overrides;
use lab::plan::Plan;
use sim::sweep::{Progress, Swept, replicated, sweep};

const LAB: &str = "[lab]\nname = \"swept\"\nduration = \"1 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate = { sweep = [\"5 Mbit/s\", \"10 Mbit/s\"] }\n\
    delay = { sweep = [\"1 ms\", \"5 ms\", \"20 ms\"] }\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n";

fn plans() -> Vec<Plan> {
    lab::parse("swept.toml", LAB, Path::new(".")).unwrap().plans
}

fn run(plans: &[Plan], out: &Path, jobs: usize) -> Swept {
    let never = AtomicBool::new(false);
    go(plans, out, jobs, &mut |_| {}, &never)
}

fn go(
    plans: &[Plan],
    out: &Path,
    jobs: usize,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Swept {
    let jobs = NonZeroUsize::new(jobs).unwrap();
    sweep(plans, out, jobs, &|_| "netarium sim swept.toml".to_owned(), progress, stop).unwrap()
}

fn hashes(swept: &Swept) -> Vec<Option<String>> {
    swept.records.iter().map(|record| record.trace_hash.clone()).collect()
}

/// Number of run folders in a sweep's folder.
fn folders(out: &Path) -> usize {
    fs::read_dir(out).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [one, two] = [1, 2].map(|jobs| run(&plans(), &dir.path().join(jobs.to_string()), jobs));
    assert_eq!((one.records.len(), one.total, one.resumed), (6, 6, 0));
    assert_eq!(hashes(&one), hashes(&two));
    let distinct: std::collections::BTreeSet<_> = hashes(&one).into_iter().collect();
    assert_eq!(distinct.len(), 6);
    let rates: Vec<f64> =
        one.records.iter().map(|record| record.flows[0].goodput_bit_per_s).collect();
    assert!(rates[..3].iter().all(|rate| *rate < 5e6) && rates[3] > 8e6, "{rates:?}");
}

#[test]
fn a_sweep_goes_on_where_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let whole = run(&plans(), &dir.path().join("whole"), 2);
    let out = dir.path().join("left");
    let stop = AtomicBool::new(false);
    let mut after_two = |progress: &Progress| {
        if progress.finished >= 2 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let left = go(&plans(), &out, 1, &mut after_two, &stop);
    assert!(left.interrupted && left.records.len() >= 2 && left.records.len() < 6);
    assert_eq!(folders(&out), left.records.len(), "what was given up leaves nothing");
    // An incomplete last line, and a changed folder.
    let list = out.join("sweep.jsonl");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{text}{{\"plan_hash\":\"00")).unwrap();
    let spoilt = &left.records[0];
    fs::write(out.join(format!("swept-{}/run.json", spoilt.id)), "{").unwrap();
    let rest = run(&plans(), &out, 2);
    assert!(!rest.interrupted);
    assert_eq!((rest.records.len(), rest.resumed), (6, left.records.len() - 1));
    assert_eq!(hashes(&rest), hashes(&whole));
    let again = run(&plans(), &out, 2);
    assert_eq!((again.resumed, hashes(&again)), (6, hashes(&whole)));
}

#[test]
fn seeds_follow_the_labs_own() {
    let with_offset = |seed_offset| {
        let overrides = Overrides { seed_offset, ..Overrides::default() };
        lab::parse_with("swept.toml", LAB, Path::new("."), &overrides).unwrap().plans
    };
    let plans = replicated((0..3).map(with_offset).collect());
    let seeds: Vec<u64> = plans.iter().map(|plan| plan.seed).collect();
    assert_eq!((seeds.len(), &seeds[..4]), (18, &[1, 2, 3, 1][..]));
    assert_eq!(plans[1].sweep.last().unwrap(), &("lab.seed".to_owned(), "2".to_owned()));
}

#[test]
fn a_combination_that_cannot_run_is_told_and_the_others_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut plans = plans();
    plans[4].links[0].up = false;
    let swept = run(&plans, dir.path(), 2);
    assert_eq!((swept.records.len(), swept.refused.len()), (5, 1));
    assert!(!swept.interrupted);
    assert!(swept.refused[0].1.to_string().contains("no route"), "{}", swept.refused[0].1);
}

#[test]
fn list_is_written_through_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::write(&outside, "kept").unwrap();
    std::os::unix::fs::symlink(&outside, dir.path().join("sweep.jsonl")).unwrap();
    let repeat = |_: &Plan| String::new();
    let (jobs, never) = (NonZeroUsize::MIN, AtomicBool::new(false));
    assert!(sweep(&plans(), dir.path(), jobs, &repeat, &mut |_| {}, &never).is_err());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
}
