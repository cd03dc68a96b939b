//! `netarium sweep`.

use std::fs;

use super::bench::signal;
use super::cell::{Cell, CommandOutput, wait_for};

const LAB: &str = "[lab]\nname = \"swept\"\nduration = \"2 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate = { sweep = [\"5 Mbit/s\", \"10 Mbit/s\"] }\n\
    delay = { sweep = [\"1 ms\", \"5 ms\", \"20 ms\"] }\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n";

fn cell(lab: &str) -> Cell {
    let cell = Cell::new();
    cell.write("swept.toml", lab);
    cell
}

fn hashes(runs: &serde_json::Value) -> Vec<String> {
    let runs = runs["runs"].as_array().unwrap().iter();
    runs.map(|run| run["trace_hash"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sweep_runs_all_combinations() {
    let cell = cell(LAB);
    let printed = cell.netarium(&["sweep", "swept.toml", "--repeat", "2"]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    assert_eq!(
        printed.out.lines().filter(|line| line.contains("Mbit/s")).count(),
        12,
        "{}",
        printed.out
    );
    assert!(printed.err.contains("12 runs"), "{}", printed.err);
    assert_eq!(cell.runs("sweeps/swept").len(), 12);
    let list = fs::read_to_string(cell.path("sweeps/swept/sweep.jsonl")).unwrap();
    assert_eq!(list.lines().count(), 12);
    let again = cell.netarium(&["sweep", "swept.toml", "--repeat", "2"]);
    assert!(again.err.contains("12 runs were already finished"), "{}", again.err);
    assert_eq!((again.code, &again.out), (Some(0), &printed.out));
    assert_eq!(cell.runs("sweeps/swept").len(), 12);
}

const CONSTANT: &str = "[lab]\nname = \"swept\"\nduration = \"2 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n\
    [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\n\
    [[flow]]\nname = \"two\"\nfrom = \"a\"\nto = \"b\"\n";

#[test]
fn replications_of_lab_without_randomness_differ_by_random_starts() {
    let cell = cell(CONSTANT);
    let (code, runs) = cell.json(&["sweep", "swept.toml", "--repeat", "4", "--json"]);
    assert_eq!((code, runs["identical_replications"].as_u64()), (Some(0), Some(0)));
    let hashes = hashes(&runs);
    let mut different = hashes.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 4, "{hashes:?}");
    let goodput = |run: usize| runs["runs"][run]["flows"][0]["goodput_bit_per_s"].as_f64().unwrap();
    assert!(
        (1..4).any(|run| (goodput(run) - goodput(0)).abs() > 1.0),
        "no variance between replications"
    );

    let folder = runs["runs"][2]["folder"].as_str().unwrap();
    let (_, report) = cell.json(&["report", folder, "--json"]);
    let repeat = report["run"]["repeat"].as_str().unwrap();
    assert!(repeat.contains("--seed 3") && repeat.contains("lab.start_jitter=20 ms"), "{repeat}");
    let set = ["--seed", "3", "--set", "lab.start_jitter=20 ms", "--no-report", "--json"];
    let (_, again) = cell.json(&[&["sim", "swept.toml"][..], &set].concat());
    assert_eq!(again["trace_hash"], hashes[2].as_str());
}

#[test]
fn warns_of_identical_replications() {
    let cell = cell(CONSTANT);
    let off = ["sweep", "swept.toml", "--repeat", "3", "--set", "lab.start_jitter=0 s"];
    let output = cell.netarium(&off);
    assert!(output.err.contains("1 of 1 combinations all seeds gave the same"), "{}", output.err);
    let (_, runs) = cell.json(&[&off[..], &["--json"]].concat());
    assert_eq!(runs["identical_replications"], 1);
    let hashes = hashes(&runs);
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

#[test]
fn seeds_generate_different_sessions() {
    let lab = "[lab]\nname = \"swept\"\nduration = \"1 s\"\n[[generate]]\nkind = \"ring\"\n\
        routers = 4\n[control]\nprotocol = \"slbn\"\n\
        [[sessions]]\nname = \"s\"\nrouters = \"r*\"\ncount = 20\nstart = [\"0 s\", \"100 ms\"]\n";
    let cell = cell(lab);
    let (code, runs) = cell.json(&["sweep", "swept.toml", "--repeat", "2", "--json"]);
    assert_eq!((code, runs["identical_replications"].as_u64()), (Some(0), Some(0)), "{runs}");
}

#[test]
fn results_do_not_depend_on_the_number_of_jobs() {
    let cell = cell(LAB);
    let run = |jobs: &str| {
        let (code, runs) =
            cell.json(&["sweep", "swept.toml", "--jobs", jobs, "--out", jobs, "--json"]);
        assert_eq!(code, Some(0));
        assert_eq!(runs["total"], 6);
        hashes(&runs)
    };
    assert_eq!(run("1"), run("2"));
}

#[test]
fn prints_repeat_command_of_sweep_run() {
    let cell = cell(LAB);
    let (_, runs) = cell.json(&["sweep", "swept.toml", "--json"]);
    let folder = runs["runs"][5]["folder"].as_str().unwrap();
    let (_, report) = cell.json(&["report", folder, "--json"]);
    let repeat = report["run"]["repeat"].as_str().unwrap();
    assert!(repeat.contains("netarium sim") && repeat.contains("delay=20 ms"), "{repeat}");
}

#[test]
fn interrupted_sweep_continues() {
    let long = LAB.replace("\"2 s\"", "\"60 s\"");
    let cell = cell(&long);
    let list = cell.path("sweeps/swept/sweep.jsonl");
    let lines = || fs::read_to_string(&list).map_or(0, |text| text.lines().count());
    let printed = loop {
        let child = cell.start(&["sweep", "swept.toml", "--jobs", "1"]);
        wait_for("the first run", || lines() >= 1);
        signal(child.id(), "-INT");
        let printed = CommandOutput::from(child.wait_with_output().unwrap());
        if printed.code != Some(0) {
            break printed;
        }
        // All runs ended before the signal, because this test waited for a CPU.
        fs::remove_dir_all(cell.path("sweeps")).unwrap();
    };
    assert_eq!(printed.code, Some(130), "{}", printed.err);
    assert!(printed.err.contains("to continue: netarium sweep swept.toml"), "{}", printed.err);
    let kept = lines();
    assert!((1..6).contains(&kept), "{kept}");
    assert_eq!(cell.runs("sweeps/swept").len(), kept, "interrupted runs leave no folder");
    let (code, rest) = cell.json(&["sweep", "swept.toml", "--json"]);
    assert_eq!((code, rest["resumed"].as_u64()), (Some(0), Some(kept as u64)));
    let (_, whole) = cell.json(&["sweep", "swept.toml", "--out", "whole", "--json"]);
    assert_eq!(hashes(&rest), hashes(&whole));
}

#[test]
fn rejects_second_sweep_in_same_folder() {
    let cell = cell(&LAB.replace("\"2 s\"", "\"20 h\""));
    let child = cell.start(&["sweep", "swept.toml"]);
    wait_for("the first run", || !cell.runs("sweeps/swept").is_empty());
    let printed = cell.netarium(&["sweep", "swept.toml"]);
    signal(child.id(), "-INT");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(printed.code, Some(2), "{}", printed.err);
    assert!(printed.err.contains("another sweep uses sweeps/swept"), "{}", printed.err);
}

#[test]
fn sweep_repeats_interrupted_runs_and_not_limited_ones() {
    let cell = cell(LAB);
    let limited = ["sweep", "swept.toml", "--json", "--max-events", "100"];
    assert_eq!(cell.json(&limited).0, Some(2));
    let runs = cell.runs("sweeps/swept");
    let file = runs[0].join("run.json");
    let record = fs::read_to_string(&file).unwrap();
    let full = record.replace("\"exit_code\": 2", "\"exit_code\": 4");
    assert_ne!(record, full);
    fs::write(&file, full).unwrap();
    let (_, again) = cell.json(&limited);
    assert_eq!(again["resumed"].as_u64(), Some(runs.len() as u64 - 1));
}

#[test]
fn reports_unusable_sweep_folder() {
    let cell = cell(LAB);
    cell.write("file", "");
    let printed = cell.netarium(&["sweep", "swept.toml", "--out", "file/sweep"]);
    assert_eq!(printed.code, Some(4), "{}", printed.err);
    assert!(printed.err.contains("file/sweep"), "{}", printed.err);
}
