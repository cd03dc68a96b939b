//! Labs that start and stop, or are killed at any moment, leave nothing behind.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::bench::{Bench, Running, processes, repetitions, until};
use super::cell::{self, Inventory};

const LAB: &str = r#"
lab = { name = "cycle", duration = "30 s" }
node.a = {}
node.b = {}
node.r = { kind = "router" }
link = [
    { ends = ["a", "r"], rate = "10 Mbit/s" },
    { ends = ["r", "b"], delay = "1 ms" },
]
flow = [{ name = "f", from = "a", to = "b", transport = "udp", rate = "1 Mbit/s" }]
mirror = [{ link = "a-r" }]
[[program]]
name = "service"
node = "b"
run = "trap '' TERM; sleep 71717 & setsid sleep 71717 & while :; do sleep 71717; done"
service = true
grace = "100 ms"
"#;

/// A lab that ends on its own.
const SHORT: &str = "[[program]]\nnode = \"a\"\nrun = \"true\"\n";

/// From 0 to 799 ms: before anything exists, while it is built, while it runs.
fn random_delay() -> Duration {
    Duration::from_millis(RandomState::new().build_hasher().finish() % 800)
}

#[test]
fn starting_and_stopping_leaves_no_resources() {
    cell::run("starting_and_stopping_leaves_no_resources", "faults::cycles::start_and_stop");
}

#[test]
fn killing_leaves_no_resources() {
    cell::run("killing_leaves_no_resources", "faults::cycles::kill");
}

#[test]
#[ignore = "runs in a cell, started by starting_and_stopping_leaves_no_resources"]
fn start_and_stop() {
    if !cell::is_inside() {
        return;
    }
    let bench = Bench::new();
    let before = Inventory::take(&bench);
    for cycle in 0..repetitions(20, 200) {
        let moment = random_delay();
        let signal = ["-INT", "-TERM", "-HUP"][cycle / 3 % 3];
        match cycle % 3 {
            0 => {
                let run = bench.run(&format!("{LAB}{SHORT}")).passed();
                assert_eq!(run.record()["status"], "finished");
            }
            1 => {
                let running = bench.start(LAB, &["--stay"]);
                bench.wait_for("cycle");
                let stop = bench.netarium(&["down", "cycle"]);
                assert_eq!(stop.status.code(), Some(0));
                let run = running.finish();
                assert_eq!(run.code, Some(130), "{}", run.dump());
            }
            _ => {
                let running = bench.start(LAB, &["--stay"]);
                if signal != "-TERM" {
                    // A shell that started the tests in the background, or nohup, may have set
                    // these signals to be ignored until the lab handles them.
                    bench.wait_for("cycle");
                }
                std::thread::sleep(moment);
                running.signal(signal);
                let output = running.output();
                // Very early the signal ends the command before it has begun.
                let code = output.status.code();
                assert!(matches!(code, Some(130) | None), "{signal} after {moment:?}: {code:?}");
            }
        }
        before.returns(&bench, &format!("by cycle {cycle} ({signal} after {moment:?})"));
    }
    assert_no_run_continues(&bench);
}

#[test]
#[ignore = "runs in a cell, started by killing_leaves_no_resources"]
fn kill() {
    if !cell::is_inside() {
        return;
    }
    let bench = Bench::new();
    let before = Inventory::take(&bench);
    for cycle in 0..repetitions(10, 50) {
        let moment = random_delay();
        let running = bench.start(LAB, &["--stay"]);
        let victim = match cycle % 5 {
            0 | 3 => {
                std::thread::sleep(moment);
                running.signal("-KILL");
                "the supervisor"
            }
            1 => {
                let lab = bench.wait_for("cycle");
                std::thread::sleep(moment);
                kill_9(&[lab["init_pid"].as_u64().unwrap() as u32]);
                "the lab's own process"
            }
            2 => {
                let sleepers = until("programs", || non_empty(processes("71717")));
                std::thread::sleep(moment);
                kill_9(&sleepers);
                running.signal("-INT");
                "programs"
            }
            _ => {
                kill_shell(&bench, moment);
                running.signal("-INT");
                "a shell inside"
            }
        };
        let output = running.output();
        let what = format!("by killing {victim} after {moment:?} (exit {:?})", output.status);
        let next = bench.netarium(&["clean"]);
        assert_eq!(next.status.code(), Some(0), "{}", String::from_utf8_lossy(&next.stderr));
        // The next command reports processes that were still ending.
        until("the processes to end", || processes("71717").is_empty().then_some(()));
        until("the registry to be empty", || bench.ps().is_empty().then_some(()));
        before.returns(&bench, &what);
    }
    assert_no_run_continues(&bench);
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

fn kill_9(pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    // Some may have ended together with others.
    let killed = Command::new("kill").arg("-KILL").args(&pids).stderr(Stdio::null()).status();
    killed.unwrap();
}

/// Enters the lab, and kills first the entering command, then the processes that it started.
fn kill_shell(bench: &Bench, moment: Duration) {
    bench.wait_for("cycle");
    let mut command = bench.command(&["exec", "cycle", "a", "--", "sh", "-c", "sleep 8181; true"]);
    let shell = Running::spawn(&mut command);
    std::thread::sleep(moment);
    shell.signal("-KILL");
    drop(shell);
    let inside = bench.exec("cycle", "b", &["sh", "-c", "kill -KILL $$"]);
    assert_eq!(inside.status.code(), Some(137));
}

/// Run folders remain, and none has the status of a running lab.
fn assert_no_run_continues(bench: &Bench) {
    let mut runs = 0;
    for folder in fs::read_dir(bench.path().join("runs")).unwrap() {
        let path = folder.unwrap().path();
        let Ok(text) = fs::read_to_string(path.join("run.json")) else {
            // A folder and its record are not created atomically: the run was killed in between.
            continue;
        };
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        runs += 1;
        if record["status"] == "running" {
            let report = bench.netarium(&["report", path.to_str().unwrap(), "--json"]);
            let printed = String::from_utf8_lossy(&report.stdout).into_owned();
            assert!(!printed.contains("\"status\":\"running\""), "{}: {printed}", path.display());
        }
    }
    assert!(runs > 0);
}
