//! Life cycle of a lab: run, inspect, stop, kill, clean.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

#[path = "programs/bench.rs"]
mod bench;

use bench::{Bench, Running, until};

const PAIR: &str = r#"
lab = { name = "pair", duration = "60 s" }
node.alice = {}
node.bob = {}
link = [{ ends = ["alice", "bob"], rate = "10 Mbit/s", delay = "1 ms" }]
"#;

/// Starts a lab that stays, and waits until it is registered.
fn start(bench: &Bench) -> (Running, Value) {
    let running = Running::spawn(&mut bench.command(&["run", "lab.toml", "--stay", "--json"]));
    let pid = running.pid();
    let lab = until("the lab to run", || bench.ps().into_iter().find(|lab| lab["pid"] == pid));
    (running, lab)
}

fn record(folder: &str) -> Value {
    serde_json::from_slice(&fs::read(PathBuf::from(folder).join("run.json")).unwrap()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit code 0, or 3 if the host was too busy, which these tests do not check.
fn ended_well(output: &Output) -> bool {
    matches!(output.status.code(), Some(0 | 3))
}

#[test]
fn run_stores_results_and_prints_the_repeat_command() {
    let Some(bench) = Bench::for_labs("run_stores_results_and_prints_the_repeat_command") else {
        return;
    };
    bench.write(
        "lab.toml",
        &format!(
            "{PAIR}[[program]]\nnode = \"alice\"\nrun = \"head -c 100000 /dev/zero | wc -c\"\n\
         [[flow]]\nfrom = \"alice\"\nto = \"bob\"\nsize = \"100 kB\"\n"
        ),
    );
    let output = bench.netarium(&["run", "lab.toml", "--seed", "7", "--runs", "out dir"]);
    let err = text(&output.stderr);
    assert!(ended_well(&output), "{err}");
    assert!(text(&output.stdout).contains("alice-bob"), "{}", text(&output.stdout));
    let last = err.lines().last().unwrap();
    assert!(last.ends_with("netarium run lab.toml --seed 7 --runs 'out dir'"), "{last}");
    let folder = fs::read_dir(bench.path().join("out dir")).unwrap().next().unwrap().unwrap();
    for file in ["run.json", "lab.toml", "report.html", "flows.parquet", "log.jsonl"] {
        assert!(folder.path().join(file).exists(), "{file} is missing");
    }
    let program = folder.path().join("programs/alice.head/stdout");
    assert_eq!(fs::read_to_string(program).unwrap().trim(), "100000");
    let again = bench.netarium(&["report", folder.path().to_str().unwrap(), "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["run"]["flows"][0]["received_bytes"], 100_000);
    assert!(bench.ps().is_empty());
}

/// In a user namespace only a resource limit permits real-time scheduling, or the command outside.
#[test]
fn run_uses_real_time_scheduling_as_doctor_reports() {
    let test = "run_uses_real_time_scheduling_as_doctor_reports";
    let Some(bench) = Bench::for_labs(test) else { return };
    let doctor = bench.netarium(&["doctor", "--quick", "--json"]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    bench.write("lab.toml", &PAIR.replace("60 s", "1 s"));
    let output = bench.netarium(&["run", "lab.toml", "--json"]);
    let record: Value = serde_json::from_str(text(&output.stdout).lines().next().unwrap()).unwrap();
    let promised = doctor["facts"]["realtime"].is_null();
    assert_eq!(record["machine"]["realtime"], promised, "{record:#}");
    bench.write("lab.toml", &PAIR.replace("60 s\"", "1 s\", realtime = false"));
    let output = bench.netarium(&["run", "lab.toml", "--json"]);
    let record: Value = serde_json::from_str(text(&output.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(record["machine"]["realtime"], false, "{record:#}");
}

#[test]
fn evaluates_slowdown_expectations_on_wall_clock() {
    let Some(bench) = Bench::for_labs("evaluates_slowdown_expectations_on_wall_clock") else {
        return;
    };
    bench.write(
        "lab.toml",
        &format!(
            "{PAIR}[[flow]]\nname = \"web\"\nfrom = \"alice\"\nto = \"bob\"\nsize = \"10 kB\"\n\
         arrivals = {{ every = \"50 ms\" }}\ncount = 20\n\
         [[expect]]\nthat = \"flow.web.slowdown.min >= 0.5\"\n"
        ),
    );
    let output = bench.netarium(&["run", "lab.toml", "--json"]);
    assert!(ended_well(&output), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(run["flows"][0]["slowdown"]["p50"].as_f64() >= Some(1.0), "{run}");
    // On a busy host it may be undecided.
    assert_ne!(run["expectations"][0]["outcome"], "failed", "{run}");
}

#[test]
fn exit_codes_match_failures() {
    let Some(bench) = Bench::for_labs("exit_codes_match_failures") else { return };
    let program = "[[program]]\nname = \"p\"\nnode = \"alice\"\nrun = ";
    for (entry, code) in [
        (format!("{program}\"exit 3\"\n"), 5),
        (format!("{program}\"true\"\n[[expect]]\nthat = \"program.p.exit > 0\"\n"), 1),
        (format!("{program}\"sleep 60\"\nready = \"port 9\"\nready_timeout = \"100 ms\"\n"), 5),
        (format!("{program}\"no-such-program\"\n"), 2),
    ] {
        bench.write("lab.toml", &format!("{PAIR}{entry}"));
        let output = bench.netarium(&["run", "lab.toml"]);
        assert_eq!(output.status.code(), Some(code), "{entry}{}", text(&output.stderr));
    }
}

#[test]
fn labs_with_equal_names_stop_separately() {
    let Some(bench) = Bench::for_labs("labs_with_equal_names_stop_separately") else {
        return;
    };
    bench.write("lab.toml", PAIR);
    let (first, one) = start(&bench);
    let (second, two) = start(&bench);
    assert_eq!((&one["name"], &two["name"]), (&"pair".into(), &"pair-2".into()));
    let inside = bench.netarium(&["exec", "pair-2", "alice", "--", "sh", "-c", "hostname; exit 7"]);
    assert_eq!((inside.status.code(), &*text(&inside.stdout)), (Some(7), "alice\n"));
    let unknown = bench.netarium(&["exec", "pair", "carol", "--", "true"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("alice, bob"), "{}", text(&unknown.stderr));

    let stopped = bench.netarium(&["down", "pair"]);
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped.stderr));
    assert_eq!(first.output().status.code(), Some(130));
    assert_eq!(record(one["folder"].as_str().unwrap())["status"], "interrupted");
    assert_eq!(bench.ps().len(), 1, "the other lab continues");
    let stopped = bench.netarium(&["down", two["id"].as_str().unwrap()]);
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped.stderr));
    assert_eq!(second.output().status.code(), Some(130));
    assert!(bench.ps().is_empty());
}

#[test]
fn killed_command_ends_its_lab() {
    let Some(bench) = Bench::for_labs("killed_command_ends_its_lab") else { return };
    bench
        .write("lab.toml", &format!("{PAIR}[[program]]\nnode = \"bob\"\nrun = \"sleep 1234.5\"\n"));
    let (command, lab) = start(&bench);
    drop(command);
    // Its namespaces and programs end with its first process.
    until("the lab to end", || bench.ps().is_empty().then_some(()));
    // Not every init reaps; a zombie has no command line.
    let left = fs::read(format!("/proc/{}/cmdline", lab["init_pid"])).unwrap_or_default();
    assert_eq!(text(&left), "");
    let folder = lab["folder"].as_str().unwrap();
    assert_ne!(record(folder)["status"], "running");
    assert!(fs::read_dir(bench.path().join("netarium")).unwrap().all(|item| {
        item.unwrap().path().extension().is_none_or(|extension| extension != "json")
    }));
}
