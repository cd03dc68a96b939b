//! The live view in a terminal: `top`.

use std::fs;

use serde_json::Value;

use super::bench::{Bench, installed, requires_labs};
use super::terminal::run_on_terminal;
use super::up::Home;
use super::watch::{LAB, lab_of_flows};

#[test]
fn changes_a_lab_by_keys_and_restores_the_terminal() {
    requires_labs!("python3");
    let home = Home::new(LAB);
    home.0.write("pair-changes.toml", "kept");
    let up = home.object(&["up", "pair.toml"]);
    run_on_terminal(&home.0, include_str!("top.py"), &["pair", "--live"]);
    home.object(&["down", "pair"]);
    let record = fs::read_to_string(format!("{}/run.json", up["folder"].as_str().unwrap()));
    let record: Value = serde_json::from_str(&record.unwrap()).unwrap();
    let events = record["events"].as_array().unwrap();
    let texts: Vec<&str> = events.iter().filter_map(|event| event["text"].as_str()).collect();
    let [up, down] = ["up", "down"].map(|side| format!("link wire {side}: delay 9 ms"));
    assert_eq!(texts, [up.as_str(), &down, "program server is stopped"]);
    assert_changes_saved(&home.0);
}

/// Checks that the lab file accepts the saved changes, and that no file was replaced.
fn assert_changes_saved(bench: &Bench) {
    let read = |name| fs::read_to_string(bench.path().join(name)).unwrap();
    assert_eq!(read("pair-changes.toml"), "kept");
    let saved = read("pair-changes-2.toml");
    bench.write("again.toml", &(LAB.replace("3 s", "1 h") + &saved));
    let check = bench.netarium(&["check", "again.toml", "--resolved"]);
    assert!(check.status.success(), "{saved}{}", String::from_utf8_lossy(&check.stderr));
    let resolved = String::from_utf8_lossy(&check.stdout);
    let events: Vec<&str> = resolved.split("\n[[at]]\n").skip(1).collect();
    assert_eq!(events.len(), 3, "{resolved}");
    assert!(events[..2].iter().all(|event| event.contains("delay = \"9 ms\"")), "{resolved}");
    assert!(events[2].contains("program = \"server\"\nstop = true"), "{resolved}");
}

#[test]
fn shows_a_finished_run_at_a_terminal() {
    if !installed("shows_a_finished_run_at_a_terminal", &["python3"]) {
        return;
    }
    let bench = Bench::new();
    bench.write("pair.toml", lab_of_flows());
    let sim = bench.netarium(&["sim", "pair.toml", "--json"]);
    let record: Value = serde_json::from_slice(&sim.stdout).unwrap();
    run_on_terminal(&bench, include_str!("top.py"), &[record["folder"].as_str().unwrap()]);
}
