//! Several labs of one command are independent of each other.

use std::collections::BTreeSet;

use serde_json::Value;

use super::bench::{Bench, Run, Running, count, requires_labs, signal, until};

/// All labs with this text have the same name and addresses.
const NETWORK: &str = r#"
lab = { name = "twin", duration = "85 s" }
node.a = { address = "10.9.0.1/24" }
node.b = { address = "10.9.0.2/24" }
link = [{ name = "l", ends = ["a", "b"], rate = "10 Mbit/s", delay = "5 ms" }]
"#;

const BUSY: &str = r#"
flow = [{ name = "f", from = "a", to = "b", control = "cubic", size = "500 kB" }]
"#;

const FAILING: &str = r#"
program = [{ name = "p", node = "a", run = "echo alas >&2; exit 3" }]
"#;

/// Waits for a signal of the test.
const IDLE: &str = r#"
program = [{ name = "s", node = "a", run = "sleep 61616" }]
"#;

/// A folder with the labs as `busy.toml`, `failing.toml` and `idle.toml`.
fn bench() -> Bench {
    let bench = Bench::new();
    for (name, work) in [("busy", BUSY), ("failing", FAILING), ("idle", IDLE)] {
        bench.write(&format!("{name}.toml"), &format!("{NETWORK}{work}"));
    }
    bench
}

fn start_in_parallel(bench: &Bench, labs: &[&str]) -> Running {
    let mut args = vec!["run", "--json", "--no-progress"];
    args.extend(labs);
    Running::spawn(&mut bench.command(&args))
}

fn records(run: &Run) -> Vec<&Value> {
    run.records.iter().filter(|value| value["schema"] == "netarium.run/1").collect()
}

fn folders(run: &Run) -> BTreeSet<&str> {
    records(run).into_iter().filter_map(|record| record["folder"].as_str()).collect()
}

#[test]
fn failing_lab_does_not_affect_a_copy() {
    requires_labs!();
    let bench = bench();
    let run = start_in_parallel(&bench, &["busy.toml", "failing.toml"]).finish();
    assert_eq!(run.code, Some(5), "the most severe exit code is returned: {}", run.dump());
    assert_eq!(folders(&run).len(), 2, "{}", run.dump());
    let [mut busy, mut failing] = records(&run)[..] else { panic!("{}", run.dump()) };
    if busy["flows"].as_array().is_some_and(Vec::is_empty) {
        (busy, failing) = (failing, busy);
    }
    assert_eq!(failing["exit_code"], 5);
    assert_eq!(failing["programs"][0]["last_stderr"][0], "alas");
    assert!(matches!(busy["exit_code"].as_u64(), Some(0 | 3)), "{}", run.dump());
    assert_eq!(busy["status"], "finished");
    assert_eq!(count(&busy["flows"][0]["received_bytes"]), 500_000);
    for record in [busy, failing] {
        // They start together, so each one counts the other.
        assert_eq!(record["load"]["other_labs"], 1, "{}", run.dump());
    }
}

#[test]
fn copies_have_separate_rows_names_and_folders() {
    requires_labs!();
    let bench = bench();
    let output = bench.netarium(&["run", "busy.toml", "--copies", "3", "--seed", "9"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{table}");
    let rows: Vec<Vec<&str>> =
        table.lines().take_while(|l| !l.is_empty()).map(|l| l.split("  ").collect()).collect();
    // Labs that the machine distorted come first.
    let mut names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    names[1..].sort_unstable();
    assert_eq!(names, ["lab", "twin", "twin-2", "twin-3"], "{table}");
    let runs: BTreeSet<&str> = rows[1..].iter().filter_map(|row| row.last().copied()).collect();
    assert_eq!(runs.len(), 3, "{table}");
    for run in runs {
        let folder = bench.path().join("runs").join(run.trim());
        let text = std::fs::read_to_string(folder.join("run.json")).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&record["seed"], &record["status"]), (&9.into(), &"finished".into()));
        assert!(folder.join("report.html").is_file());
        // The repeat command runs one copy.
        assert_eq!(record["repeat"], "netarium run busy.toml --seed 9");
    }
}

#[test]
fn killing_one_lab_does_not_stop_others() {
    requires_labs!("pgrep");
    let bench = bench();
    let running = start_in_parallel(&bench, &["idle.toml", "--copies", "3"]);
    let listed = until("three labs", || Some(bench.ps()).filter(|labs| labs.len() == 3));
    let names: BTreeSet<&str> = listed.iter().filter_map(|lab| lab["name"].as_str()).collect();
    assert_eq!(names, BTreeSet::from(["twin", "twin-2", "twin-3"]));
    let pids = |field: &str| listed.iter().map(|lab| count(&lab[field])).collect::<BTreeSet<_>>();
    assert_eq!((pids("pid").len(), pids("init_pid").len()), (3, 3), "{listed:?}");
    until("all programs to start", || {
        let begun = |lab: &Value| {
            let output = bench.exec(lab["name"].as_str().unwrap(), "b", &["pgrep", "sleep"]);
            !output.stdout.is_empty()
        };
        listed.iter().all(begun).then_some(())
    });
    // Kills the lab process of one lab and the command of another.
    for (lab, field) in [(&listed[0], "init_pid"), (&listed[1], "pid")] {
        signal(count(&lab[field]) as u32, "-KILL");
    }
    until("two labs to end", || (bench.ps().len() == 1).then_some(()));
    let left = &bench.ps()[0];
    assert_eq!(left["id"], listed[2]["id"], "the killed labs do not stop others");
    running.signal("-INT");
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{}", run.dump());
    let of = |record: &Value| format!("{} {}", record["status"], record["exit_code"]);
    let ends: BTreeSet<String> = records(&run).into_iter().map(of).collect();
    assert!(ends.contains("\"interrupted\" 130"), "{ends:?}: {}", run.dump());
    assert!(ends.contains("\"killed\" 130"), "{ends:?}: {}", run.dump());
    let errors: Vec<&Value> =
        run.records.iter().filter(|value| value["schema"] == "netarium.error/1").collect();
    assert_eq!(errors.len(), 1, "{}", run.dump());
    assert_eq!(errors[0]["message"], "was killed by signal 9; the other labs continue");
    assert!(bench.ps().is_empty());
}

#[test]
fn starts_no_lab_if_one_file_is_invalid() {
    let bench = bench();
    bench.write("wrong.toml", "lab = 3");
    let output = bench.netarium(&["run", "busy.toml", "wrong.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!bench.path().join("runs").exists(), "something was started");
}

#[test]
fn stores_repeated_runs_as_set() {
    requires_labs!();
    let bench = bench();
    let args = ["run", "busy.toml", "--repeat", "2", "--duration", "1 s", "--json"];
    let set: Value = serde_json::from_slice(&bench.netarium(&args).stdout).unwrap();
    assert_eq!(set["schema"], "netarium.summary/1");
    assert_eq!(set["metrics"]["flow.f.goodput.mean"]["n"], 2, "{set}");
    assert_eq!(set["runs"].as_array().map(Vec::len), Some(2));
    let folder = std::path::Path::new(set["folder"].as_str().unwrap()).to_owned();
    for run in set["runs"].as_array().unwrap() {
        assert!(folder.join(run["folder"].as_str().unwrap()).join("report.html").is_file());
    }
    let folder = folder.to_str().unwrap();
    let same = bench.netarium(&["diff", folder, folder, "--tolerance", "0 %"]);
    assert_eq!(same.status.code(), Some(0));
}
