//! `netarium diff`, and sets of runs with several seeds.

use std::fs;

use serde_json::Value;

use super::cell::{Cell, CommandOutput};

const LAB: &str = "[lab]\nname = \"pair\"\nduration = \"3 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nname = \"core\"\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
    loss = \"1 %\"\n[[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n";

fn cell() -> Cell {
    let cell = Cell::new();
    cell.write("pair.toml", LAB);
    cell
}

/// Runs the lab with these options and returns the folder of its only run or set.
fn sim(cell: &Cell, runs: &str, options: &[&str]) -> String {
    let fixed = ["sim", "pair.toml", "--no-report", "--runs", runs];
    let printed = cell.netarium(&[&fixed[..], options].concat());
    assert_eq!(printed.code, Some(0), "{} {}", printed.out, printed.err);
    let mut entries = fs::read_dir(cell.path(runs)).unwrap();
    let name = entries.next().unwrap().unwrap().file_name();
    assert!(entries.next().is_none());
    format!("{runs}/{}", name.into_string().unwrap())
}

fn diff(cell: &Cell, args: &[&str]) -> CommandOutput {
    let printed = cell.netarium(&[&["diff"], args].concat());
    assert!(printed.out.lines().all(|line| line.chars().count() <= 80 || line.starts_with("note")));
    printed
}

#[test]
fn equal_runs_have_no_change() {
    let cell = cell();
    let [one, two] = ["one", "two"].map(|runs| sim(&cell, runs, &[]));
    let printed = diff(&cell, &[&one, &two, "--tolerance", "0 %"]);
    assert_eq!(printed.code, Some(0), "{}", printed.out);
    let line = printed.out.strip_suffix(" metrics compared, none changed\n");
    assert!(line.unwrap().parse::<u32>().unwrap() > 15, "{}", printed.out);
    let all = diff(&cell, &[&one, &two, "--all"]);
    assert!(all.out.contains("flow.bulk.goodput.mean"), "{}", all.out);
    assert!(all.out.contains("link.core.up.utilisation.mean"), "{}", all.out);
}

#[test]
fn changed_delay_is_found_in_chosen_metrics() {
    let cell = cell();
    let one = sim(&cell, "one", &[]);
    let two = sim(&cell, "two", &["--set", "link.core.delay=30 ms"]);
    let informative = diff(&cell, &[&one, &two]);
    assert_eq!(informative.code, Some(0), "{}", informative.err);
    for part in ["flow.bulk.rtt.p50", "the labs differ: link.core", "10 ms and 30 ms"] {
        assert!(informative.out.contains(part), "{part} in {}", informative.out);
    }
    let gate = |args: &[&str]| diff(&cell, &[&[one.as_str(), two.as_str()], args].concat());
    assert_eq!(gate(&["--metric", "flow.*.rtt.p50", "--tolerance", "5 %"]).code, Some(1));
    assert_eq!(gate(&["--metric", "flow.*.rtt.p50", "--tolerance", "100 ms"]).code, Some(0));
    assert_eq!(gate(&["--metric", "flow.*.rtt.p50", "--tolerance", "-5 %"]).code, Some(0));
    let duration = gate(&["--metric", "run.duration", "--tolerance", "0 %"]);
    assert_eq!(duration.code, Some(0), "{}", duration.out);
    assert!(duration.out.starts_with("1 metric compared, none changed"), "{}", duration.out);
    let wrong = gate(&["--metric", "flow.bulk.goodputt"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("no metric matches `flow.bulk.goodputt`"), "{}", wrong.err);
    assert!(wrong.err.contains("did you mean"), "{}", wrong.err);
    let (code, json) = cell.json(&["diff", &one, &two, "--tolerance", "*.rtt.*=5 %", "--json"]);
    assert_eq!((code, &json["schema"]), (Some(1), &"netarium.diff/1".into()));
    let change = json["changes"].as_array().unwrap().iter();
    let change = change.into_iter().find(|c| c["metric"] == "flow.bulk.rtt.p50").unwrap();
    assert_eq!((&change["unit"], &change["changed"]), (&"s".into(), &true.into()));
}

#[test]
fn baseline_is_stored_and_compared_exactly() {
    let cell = cell();
    let one = sim(&cell, "one", &[]);
    let saved = diff(&cell, &["--save", "base.json", &one]);
    assert_eq!(saved.code, Some(0), "{}", saved.err);
    let text = fs::read_to_string(cell.path("base.json")).unwrap();
    assert!(text.len() < 10_000 && !text.contains("runs"), "{text}");
    let again = sim(&cell, "again", &[]);
    let same = diff(&cell, &["--baseline", "base.json", &again]);
    assert_eq!(same.code, Some(0), "{}", same.out);
    let _ = diff(&cell, &["--save", "again.json", &again]);
    assert_eq!(fs::read_to_string(cell.path("again.json")).unwrap(), text);
    let other = sim(&cell, "other", &["--seed", "2"]);
    let differs = diff(&cell, &["--baseline", "base.json", &other]);
    assert_eq!(differs.code, Some(1), "{}", differs.out);
    assert!(differs.out.contains("the seeds differ: 1 and 2"), "{}", differs.out);
    let loose = ["base.json", &other, "--metric", "flow.*.goodput", "--tolerance", "90 %"];
    assert_eq!(diff(&cell, &loose).code, Some(0));
    let chosen = ["--save", "few.json", "--metric", "flow.bulk.goodput", &one];
    assert_eq!(diff(&cell, &chosen).code, Some(0));
    let few = diff(&cell, &["--baseline", "few.json", &again]);
    assert!(few.out.starts_with("1 metric compared, none"), "{}", few.out);
}

#[test]
fn malformed_baseline_is_rejected_with_its_position() {
    let cell = cell();
    let one = sim(&cell, "one", &[]);
    cell.write("wrong.json", "{\"schema\": \"netarium.summary/1\",\n \"version\": 3}\n");
    let printed = diff(&cell, &["--baseline", "wrong.json", &one]);
    assert_eq!(printed.code, Some(2));
    assert!(printed.err.contains("wrong.json:2:13: invalid type: integer `3`"), "{}", printed.err);
    let missing = diff(&cell, &["--baseline", "missing.json", &one]);
    assert!(missing.err.contains("diff --save missing.json RUN"), "{}", missing.err);
    assert_eq!((missing.code, diff(&cell, &[&one]).code), (Some(2), Some(2)));
}

fn metrics(cell: &Cell, jobs: &str, runs: &str) -> Value {
    let options = ["--seeds", "5", "--jobs", jobs, "--no-report", "--json", "--runs", runs];
    let (code, set) = cell.json(&[&["sim", "pair.toml"], &options[..]].concat());
    assert_eq!((code, &set["outcome"]), (Some(0), &"passed".into()), "{set}");
    assert_eq!(set["seeds"].to_string(), "[1,2,3,4,5]");
    set["metrics"].clone()
}

#[test]
fn set_of_seeds_does_not_depend_on_the_number_of_threads() {
    let cell = cell();
    let one = metrics(&cell, "1", "one");
    assert_eq!(metrics(&cell, "1", "again"), one);
    assert_eq!(metrics(&cell, "4", "four"), one);
    let goodput = &one["flow.bulk.goodput.mean"];
    assert_eq!(goodput["n"], 5);
    let [low, mean, high] = ["low", "mean", "high"].map(|key| goodput[key].as_f64().unwrap());
    assert!(low < mean && mean < high, "{goodput}");
}

#[test]
fn sets_are_compared_by_their_intervals() {
    let cell = cell();
    let set = sim(&cell, "set", &["--seeds", "5"]);
    assert_eq!(cell.runs(&set).len(), 5);
    assert!(cell.path(&set).join("summary.json").is_file());
    let other = sim(&cell, "other", &["--seeds", "5", "--seed", "11"]);
    let slow = sim(&cell, "slow", &["--seeds", "5", "--set", "link.core.delay=30 ms"]);
    let chance = diff(&cell, &[&set, &other, "--tolerance", "0 %"]);
    assert!(chance.code == Some(0), "{}", chance.out);
    let found = diff(&cell, &[&set, &slow, "--metric", "flow.bulk.rtt", "--tolerance", "10 %"]);
    assert_eq!(found.code, Some(1), "{}", found.out);
    assert!(found.out.contains('±') && found.out.contains("delay is"), "{}", found.out);
    // A single run is within the prediction interval of its set.
    let single = sim(&cell, "single", &["--seed", "20"]);
    let within = diff(&cell, &[&set, &single, "--metric", "flow.*", "--tolerance", "0 %"]);
    assert_eq!(within.code, Some(0), "{}", within.out);
    assert_eq!(diff(&cell, &["--save", "set.json", &set]).code, Some(0));
    assert_eq!(diff(&cell, &["--baseline", "set.json", &set]).code, Some(0));
}

#[test]
fn set_has_the_worst_outcome_and_needs_one_plan() {
    let cell = cell();
    cell.write("missed.toml", &format!("{LAB}[[expect]]\nthat = \"flow.bulk.sent <= 1 kB\"\n"));
    let printed = cell.netarium(&["sim", "missed.toml", "--seeds", "2", "--no-report"]);
    assert_eq!(printed.code, Some(1), "{}", printed.err);
    assert!(printed.out.starts_with("outcome  failed: 2 runs, 2 failed\n"), "{}", printed.out);
    assert!(printed.out.lines().all(|line| line.chars().count() <= 80), "{}", printed.out);
    let last = printed.err.lines().last().unwrap();
    assert_eq!(last, "repeat: netarium sim missed.toml --seed 1 --seeds 2");
    cell.write("swept.toml", &LAB.replace("\"10 ms\"", "{ sweep = [\"1 ms\", \"2 ms\"] }"));
    let swept = cell.netarium(&["sim", "swept.toml", "--seeds", "2"]);
    assert_eq!(swept.code, Some(2));
    assert!(swept.err.contains("netarium sweep LAB --repeat N"), "{}", swept.err);
    assert_eq!(
        cell.netarium(&["run", "pair.toml", "--repeat", "2", "--copies", "2"]).code,
        Some(2)
    );
}
