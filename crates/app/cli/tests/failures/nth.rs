//! The n-th write, system call or allocation fails.

use std::fs;

use serde_json::Value;

use super::bench::{Bench, repetitions, requires_labs};
use super::injector::{Injected, Injector, Target};

const SIMULATED: &str = r#"
lab = { name = "small", duration = "500 ms", interval = "100 ms" }
node.a = {}
node.b = {}
link = [{ ends = ["a", "b"], rate = "10 Mbit/s" }]
flow = [{ name = "f", from = "a", to = "b" }]
"#;

const REAL: &str = r#"
lab = { name = "small", duration = "5 s", interval = "100 ms" }
node.a = {}
node.b = {}
link = [{ ends = ["a", "b"], rate = "10 Mbit/s" }]
program = [{ name = "p", node = "a", run = "echo hello; ping -c 1 b" }]
"#;

const EXIT_CODES: [i32; 8] = [0, 1, 2, 3, 4, 5, 70, 130];

/// Messages with which Rust's standard library and glibc abort a process: a thread cannot start, or
/// a thread-local variable has no memory to register its destructor. The 48 bytes are the handle of
/// a thread, which the library allocates past the allocator of the program.
const ABORT_MESSAGES: [&str; 3] = [
    "failed to allocate an alternative stack",
    "failed to register TLS destructor",
    "memory allocation of 48 bytes failed",
];

/// The error in how a command with one failure ended, if there is one.
fn fault(bench: &Bench, ended: &Injected, tables: &[&str]) -> Option<String> {
    let Some(code) = ended.code else { return Some("it hung".to_owned()) };
    let aborted = ABORT_MESSAGES.iter().any(|message| ended.stderr.contains(message));
    if !aborted && !EXIT_CODES.contains(&code) {
        return Some(format!("exit code {code}"));
    }
    let folders: Vec<_> = fs::read_dir(bench.path().join("runs"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    let [folder] = &*folders else {
        let silent = code == 0 || ended.stderr.is_empty();
        return silent.then(|| format!("no run, exit code {code}, stderr `{}`", ended.stderr));
    };
    if aborted {
        let report = bench.netarium(&["report", folder.to_str().unwrap(), "--json"]);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let status = &report["run"]["status"];
        return (status == "running").then(|| "an aborted run is shown as running".to_owned());
    }
    let Ok(text) = fs::read(folder.join("run.json")) else {
        return Some(format!("a folder without a record, exit code {code}"));
    };
    let Ok(record) = serde_json::from_slice::<Value>(&text) else {
        return Some("the record is damaged".to_owned());
    };
    let status = record["status"].as_str().unwrap_or_default();
    let failed = ["failed", "killed"].contains(&status);
    if status == "running" || failed != record["failure"]["kind"].is_string() {
        return Some(format!("status {status}, failure {}", record["failure"]));
    }
    let missing = tables.iter().find(|name| !folder.join(name).is_file());
    match missing {
        Some(table) if code == 0 => Some(format!("exit code 0 without {table}")),
        _ if failed && code == 0 => Some(format!("exit code 0 for {}", record["failure"])),
        _ => None,
    }
}

/// Runs a lab with a failure at every `stride`-th call, or at each call if there are at most
/// `places`.
fn fail_each(test: &str, target: Target, subcommand: &str, lab: &str, places: u64) {
    let Some(injector) = Injector::new(test) else { return };
    let tables = ["links.parquet", "flows.parquet"];
    let run = |n| {
        let bench = Bench::new();
        bench.write("lab.toml", lab);
        let args = [subcommand, "lab.toml", "--no-progress", "--no-report"];
        let ended = injector.run(&bench, (target, n), &args);
        let fault = fault(&bench, &ended, &tables);
        (ended, fault)
    };
    let (whole, fault) = run(0);
    // A real run may be distorted on a busy host.
    assert!(matches!(whole.code, Some(0 | 3)), "{:?}: {}", whole.code, whole.stderr);
    assert_eq!(fault, None);
    let count = whole.count;
    assert!(count > 20, "{count} places of {target:?} only");
    let stride = (count / places).max(1);
    let mut faults = Vec::new();
    let mut codes = std::collections::BTreeMap::new();
    for n in (1..=count).step_by(stride as usize) {
        let (ended, fault) = run(n);
        *codes.entry(ended.code).or_insert(0) += 1;
        faults.extend(fault.map(|fault| format!("{n} of {count}: {fault}\n{}", ended.stderr)));
    }
    eprintln!("{test}: {count} places, stride {stride}, exit codes {codes:?}");
    assert!(faults.is_empty(), "{test}: {} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(
        codes.keys().any(|code| ![Some(0), Some(3)].contains(code)),
        "no failure had an effect"
    );
}

#[test]
fn virtual_run_has_a_final_status_after_any_failed_write() {
    let test = "virtual_run_has_a_final_status_after_any_failed_write";
    fail_each(test, Target::Write, "sim", SIMULATED, u64::MAX);
}

#[test]
fn virtual_run_has_a_final_status_after_any_failed_system_call() {
    let test = "virtual_run_has_a_final_status_after_any_failed_system_call";
    fail_each(test, Target::Call, "sim", SIMULATED, repetitions(150, usize::MAX) as u64);
}

#[test]
fn virtual_run_has_a_final_status_after_any_failed_allocation() {
    let test = "virtual_run_has_a_final_status_after_any_failed_allocation";
    fail_each(test, Target::Allocation, "sim", SIMULATED, repetitions(150, usize::MAX) as u64);
}

#[test]
fn real_run_has_a_final_status_after_any_failure() {
    let test = "real_run_has_a_final_status_after_any_failure";
    requires_labs!();
    for target in [Target::Write, Target::Call, Target::Allocation] {
        fail_each(test, target, "run", REAL, repetitions(12, 200) as u64);
    }
}
