//! `netarium sim`.

use std::fs;

use super::bench::signal;
use super::cell::{Cell, CommandOutput, cpu_ticks, wait_for};

const LAB: &str = "[lab]\nname = \"pair\"\nduration = \"5 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
    [[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n\
    [[expect]]\nthat = \"flow.bulk.goodput.mean >= 8 Mbit/s\"\n";

fn cell() -> Cell {
    let cell = Cell::new();
    cell.write("pair.toml", LAB);
    cell
}

#[test]
fn simulates_without_privileges_and_repeats_exactly() {
    let cell = cell();
    let printed = cell.netarium(&["sim", "pair.toml"]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    assert!(printed.out.contains("bulk") && printed.out.contains("trusted"), "{}", printed.out);
    let last = printed.err.lines().last().unwrap();
    assert_eq!(last, "repeat: netarium sim pair.toml --seed 1");
    let runs = cell.runs("runs");
    assert_eq!(runs.len(), 1);
    assert!(runs[0].join("report.html").is_file());
    let [first, second] = [0, 1].map(|_| {
        let (code, run) = cell.json(&["sim", "pair.toml", "--no-report", "--json"]);
        assert_eq!(code, Some(0));
        run
    });
    assert_eq!(first["trace_hash"], second["trace_hash"]);
    assert_eq!(first["flows"], second["flows"]);
    assert_eq!(first["clock"], "virtual");
    assert!(first["simulation"]["packet_hops"].as_u64() > Some(5_000));
    for part in [first["trace_hash"].as_str().unwrap(), "seed 1"] {
        let all = format!("{}{}", printed.out, printed.err);
        assert!(all.contains(part), "{part} in {all}");
    }
}

#[test]
fn repeat_command_reproduces_run() {
    let cell = cell();
    let args = ["sim", "pair.toml", "--seed", "9", "--set", "link.a-b.delay=30 ms"];
    let printed = cell.netarium(&[&args[..], &["--max-memory", "1 GB", "--runs", "mine"]].concat());
    let last = printed.err.lines().last().unwrap().to_owned();
    let command = last.strip_prefix("repeat: netarium ").unwrap();
    let (_, again) = cell.json(&[&words(command)[..], &["--json"]].concat());
    let first = cell.runs("mine").into_iter().map(|run| fs::read_to_string(run.join("run.json")));
    let hash = again["trace_hash"].as_str().unwrap();
    assert_eq!(first.filter(|run| run.as_ref().unwrap().contains(hash)).count(), 2, "{last}");
}

#[test]
fn datagrams_in_flight_are_not_lost() {
    let cell = Cell::new();
    let counts = |duration: &str| {
        let lab = format!(
            "lab = {{ name = \"far\", duration = \"60 s\" }}\nnode = {{ a = {{}}, b = {{}} }}\n\
             [[link]]\nends = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"20 s\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\nrate = \"8 kbit/s\"\n\
             packet = \"1000 B\"\n{duration}\n"
        );
        cell.write("far.toml", &lab);
        let (_, run) = cell.json(&["sim", "far.toml", "--no-report", "--json"]);
        let flow = &run["flows"][0];
        [&flow["sent_datagrams"], &flow["delay"]["count"], &flow["lost_datagrams"]]
            .map(|count| count.as_u64().unwrap())
    };
    assert_eq!(counts("duration = \"5 s\""), [5, 5, 0]);
    // At the end of the lab, the datagrams of the last 20 s are on their way.
    let [sent, received, lost] = counts("");
    assert!(sent.abs_diff(60) <= 1 && received.abs_diff(40) <= 1, "{sent} {received}");
    assert_eq!(lost, 0);
}

/// Splits a command like a shell, for commands without escapes.
fn words(command: &str) -> Vec<&str> {
    let parts = command.split('\'').enumerate();
    parts
        .flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![part],
        })
        .collect()
}

#[test]
fn exit_codes_match_outcomes() {
    let cell = cell();
    cell.write("missed.toml", &LAB.replace("8 Mbit/s", "20 Mbit/s"));
    assert_eq!(cell.netarium(&["sim", "missed.toml"]).code, Some(1));
    cell.write("wrong.toml", &LAB.replace("10 Mbit/s", "10"));
    assert_eq!(cell.netarium(&["sim", "wrong.toml"]).code, Some(2));
    assert_eq!(cell.netarium(&["sim", "none.toml"]).code, Some(2));
    assert_eq!(cell.netarium(&["sim", "pair.toml", "--max-events", "many"]).code, Some(2));
    cell.write("file", "");
    let nowhere = cell.netarium(&["sim", "pair.toml", "--runs", "file/runs"]);
    assert_eq!(nowhere.code, Some(4), "{}", nowhere.err);
    assert!(nowhere.err.contains("file/runs`: Not a directory"), "{}", nowhere.err);
}

#[test]
fn rejects_replay_of_a_virtual_run() {
    let cell = cell();
    cell.netarium(&["sim", "pair.toml", "--no-report"]);
    let printed = cell.netarium(&["replay", cell.runs("runs")[0].to_str().unwrap()]);
    assert_eq!(printed.code, Some(2), "{}", printed.err);
    assert!(printed.err.contains("help: netarium sim pair.toml --seed 1"), "{}", printed.err);
}

#[test]
fn rejects_programs_with_their_names() {
    let cell = cell();
    let program = "[[program]]\nname = \"web\"\nnode = \"b\"\nrun = \"true\"\n";
    cell.write("real.toml", &format!("{LAB}{program}"));
    let printed = cell.netarium(&["sim", "real.toml"]);
    assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""));
    assert!(
        printed.err.contains("`web`") && printed.err.contains("netarium run"),
        "{}",
        printed.err
    );
    let swept = cell.netarium(&["sweep", "real.toml"]);
    assert_eq!(swept.code, Some(2));
    assert!(swept.err.contains("`web`"), "{}", swept.err);
    assert!(!cell.path("runs").exists() && !cell.path("sweeps").exists());
}

#[test]
fn names_the_exceeded_limit_and_keeps_results() {
    let cell = cell();
    let printed = cell.netarium(&["sim", "pair.toml", "--max-events", "3000"]);
    assert_eq!(printed.code, Some(2), "{}", printed.err);
    let all = format!("{}{}", printed.out, printed.err);
    assert!(all.contains("3000 events") && all.contains("bulk"), "{all}");
    assert_eq!(cell.runs("runs").len(), 1);
    let memory = cell.netarium(&["sim", "pair.toml", "--max-memory", "1 kB"]);
    let all = format!("{}{}", memory.out, memory.err);
    assert!(memory.code == Some(2) && all.contains("1 kB of memory"), "{all}");
}

#[test]
fn interrupted_run_keeps_its_results() {
    let cell = cell();
    let child = cell.start(&["sim", "pair.toml", "--duration", "20 h", "--json"]);
    wait_for("the run", || cell.runs("runs").len() == 1);
    // Enough to have simulated something.
    wait_for("its work", || cpu_ticks(&child) >= 50);
    signal(child.id(), "-INT");
    let printed = CommandOutput::from(child.wait_with_output().unwrap());
    assert_eq!(printed.code, Some(130), "{}", printed.err);
    let run: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
    assert_eq!(run["status"], "interrupted");
    assert!(run["elapsed_s"].as_f64() > Some(0.0));
    assert!(run["flows"][0]["received_bytes"].as_u64() > Some(0));
    assert!(cell.runs("runs")[0].join("links.parquet").is_file());
}

/// 100 transfers of 10 kB over a link that needs 8.12 ms for each, with a round trip of 20 ms.
const TRANSFERS: &str = "[lab]\nname = \"many\"\nduration = \"9 s\"\n[node.a]\n[node.b]\n\
    [[link]]\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
    [[flow]]\nname = \"web\"\nfrom = \"a\"\nto = \"b\"\nsize = \"10 kB\"\n\
    arrivals = { every = \"50 ms\" }\ncount = 100\n\
    [[expect]]\nthat = \"flow.web.slowdown.min >= 1\"\n\
    [[expect]]\nthat = \"flow.web.slowdown.max <= 1.1\"\n";

#[test]
fn evaluates_slowdown_expectations_on_virtual_clock() {
    let cell = Cell::new();
    cell.write("many.toml", TRANSFERS);
    let (code, run) = cell.json(&["sim", "many.toml", "--json"]);
    assert_eq!(code, Some(0), "{run}");
    assert_eq!(run["flows"][0]["transfers_completed"], 100);
    assert!(run["flows"][0]["slowdown"]["p50"].as_f64() >= Some(1.0), "{run}");
}

#[test]
fn compares_runs_with_different_rates() {
    let cell = cell();
    cell.netarium(&["sim", "pair.toml", "--runs", "one", "--no-report"]);
    let change = ["--set", "link.a-b.rate=5 Mbit/s", "--runs", "two", "--no-report"];
    assert_eq!(cell.netarium(&[&["sim", "pair.toml"], &change[..]].concat()).code, Some(1));
    let [one, two] = ["one", "two"].map(|folder| cell.runs(folder).remove(0));
    let printed = cell.netarium(&["diff", one.to_str().unwrap(), two.to_str().unwrap()]);
    assert_eq!(printed.code, Some(0));
    assert!(printed.out.contains("goodput"), "{}", printed.out);
}

/// Runs labs whose expectations hold.
#[track_caller]
fn assert_expectations_pass(labs: &[&str]) {
    let cell = Cell::new();
    for lab in labs {
        cell.write("lab.toml", lab);
        let printed = cell.netarium(&["sim", "lab.toml", "--no-report"]);
        assert_eq!(printed.code, Some(0), "{}{}", printed.out, printed.err);
    }
}

#[test]
fn events_remove_impairments_and_limits() {
    assert_expectations_pass(&[
        include_str!("../field/c06-reset/lab.toml"),
        include_str!("../field/c06-reset/rate-off.toml"),
    ]);
}

#[test]
fn jitter_has_its_documented_mean_with_and_without_order() {
    let lab = include_str!("../field/c07-jitter/lab.toml");
    let free = "{ distribution = \"normal\", deviation = \"5 ms\", keep_order = false }";
    let free = lab
        .replace("jitter = \"5 ms\"", &format!("jitter = {free}"))
        .replace("54.3 ms", "49.9 ms")
        .replace("54.7 ms", "50.1 ms");
    assert_expectations_pass(&[lab, &free]);
}

/// Goodput in Mbit/s and longest pause in seconds of a lab's only flow.
fn goodput_and_gap(lab: &str) -> (f64, f64) {
    let cell = Cell::new();
    cell.write("lab.toml", lab);
    let (_, run) = cell.json(&["sim", "lab.toml", "--no-report", "--json"]);
    let number = |name: &str| run["flows"][0][name].as_f64().unwrap();
    (number("goodput_bit_per_s") / 1e6, number("gap_s"))
}

#[test]
fn late_third_path_keeps_goodput_without_gaps() {
    let two_paths = include_str!("../field/c17-mctcp/two-up.toml");
    let (two, _) = goodput_and_gap(two_paths);
    let three_paths = two_paths.replace("via = [\"adsl1\", \"adsl2\"]", "");
    for late in ["10 Mbit/s", "2 Mbit/s"] {
        // The first 10 Mbit/s are the upload of the late path.
        let lab = three_paths.replacen("up = { rate = \"10 Mbit/s\" }", "LATE", 1);
        let (three, gap) =
            goodput_and_gap(&lab.replace("LATE", &format!("up = {{ rate = \"{late}\" }}")));
        assert!(three >= two && gap <= 0.3, "{late}: {three} of {two} Mbit/s, {gap} s");
    }
}

#[test]
fn path_return_with_backup_causes_no_gap() {
    let lab = include_str!("../field/c25-backup/lab.toml");
    assert_expectations_pass(&[lab]);
    let (network, _) = lab.split_once("[[expect]]").unwrap();
    for control in ["bbr", "cubic", "reno"] {
        for up in ["11 s", "13 s", "18 s"] {
            let lab = network.replace("cubic", control).replace("18 s", up);
            let (_, gap) = goodput_and_gap(&lab);
            // The loss of the path is detected within four round trips and 200 ms.
            assert!(gap <= 0.4, "{control}, up after {up}: {gap} s");
        }
    }
}
