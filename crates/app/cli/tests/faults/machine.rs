//! Hosts with missing features: exit code 4, the missing feature, and the command that fixes it.

use std::process::Command;

use super::bench::{Bench, NETARIUM, Run, Running, requires_labs};
use super::cell::{self, requires_cell};

const LAB: &str = r#"
lab = { name = "lacking", duration = "20 s", capture = true }
node.a = {}
node.b = {}
link = [{ ends = ["a", "b"], rate = "400 Mbit/s" }]
flow = [{ name = "f", from = "a", to = "b", control = "cubic" }]
"#;

/// Runs the lab in an environment from which `script` has removed features.
fn run_in(bench: &Bench, script: &str, args: &[&str]) -> Run {
    bench.write("lab.toml", LAB);
    let mut command = cell::unshared(&format!("{script}\n\"$@\" || exit $?"));
    command.args([NETARIUM, "run", "lab.toml", "--json"]).args(args);
    bench.prepare(&mut command);
    Running::spawn(&mut command).finish()
}

#[test]
fn full_disk_ends_the_run_and_keeps_its_results() {
    requires_cell!();
    let bench = Bench::new();
    let script = "mkdir small; mount -t tmpfs -o size=3m tmpfs small
                  trap 'mkdir kept; cp -r small/* kept' EXIT";
    let run = run_in(&bench, script, &["--runs", "small", "--no-report"]);
    let dump = run.records[0].to_string();
    assert_eq!(run.code, Some(4), "{dump}");
    assert!(dump.to_lowercase().contains("no space left"), "{dump}");
    let kept = std::fs::read_dir(bench.path().join("kept")).unwrap().next().unwrap().unwrap();
    let record = std::fs::read_to_string(kept.path().join("run.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["status"], "failed", "{record:#}");
    assert!(bench.ps().is_empty());
    // The capture is complete up to the last packet that fit.
    let capture = kept.path().join("a.eth0.pcapng");
    assert!(capture.metadata().unwrap().len() > 100_000);
    if let Ok(output) = Command::new("tshark").args(["-n", "-c", "50", "-r"]).arg(&capture).output()
    {
        let lines = String::from_utf8_lossy(&output.stdout).lines().count();
        assert_eq!(lines, 50, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn fails_before_start_on_a_full_disk() {
    requires_cell!();
    let bench = Bench::new();
    let script = "mkdir small; mount -t tmpfs -o size=8k tmpfs small; head -c 8192 /dev/zero \
                  > small/filler";
    let run = run_in(&bench, script, &["--runs", "small"]);
    let dump = run.records[0].to_string();
    assert_eq!(run.code, Some(4), "{dump}");
    assert!(dump.to_lowercase().contains("no space left"), "{dump}");
}

#[test]
fn reports_unusable_run_folders() {
    requires_labs!();
    let bench = Bench::new();
    bench.write("file", "");
    bench.write("lab.toml", LAB);
    for runs in ["file", "file/below", "/proc/no"] {
        let output = bench.netarium(&["run", "lab.toml", "--runs", runs]);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{runs}: {printed}");
        assert!(printed.contains(runs), "{runs}: {printed}");
    }
}

#[test]
fn uses_packet_sockets_without_tun_device() {
    requires_cell!();
    let bench = Bench::new();
    let closed = "mount -t tmpfs tmpfs /dev/net";
    let run = run_in(&bench, closed, &["--duration", "1 s"]).passed();
    assert_eq!(run.record()["engine"]["name"], "packet", "{}", run.dump());
    let run = run_in(&bench, closed, &["--engine", "tun"]);
    let dump = run.records[0].to_string();
    assert_eq!(run.code, Some(4), "{dump}");
    assert!(dump.contains("/dev/net/tun"), "{dump}");
}

#[test]
fn reports_missing_namespaces() {
    requires_cell!();
    let bench = Bench::new();
    for kind in ["net", "mnt", "pid"] {
        let script = format!("echo 0 > /proc/sys/user/max_{kind}_namespaces");
        let run = run_in(&bench, &script, &[]);
        let dump = run.records[0].to_string();
        assert_eq!(run.code, Some(4), "{kind}: {dump}");
        assert!(dump.contains("namespaces") && dump.contains("max_*_namespaces"), "{kind}: {dump}");
        let mut doctor = cell::unshared(&format!("{script}\n\"$@\" || exit $?"));
        doctor.args([NETARIUM, "doctor", "--quick"]);
        bench.prepare(&mut doctor);
        let output = doctor.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(4), "{kind}: {printed}");
        assert!(printed.contains("/proc/sys/user/max_*_namespaces"), "{kind}: {printed}");
    }
    assert!(!bench.path().join("runs").exists(), "an empty run folder was left");
}

#[test]
fn checks_the_limit_of_open_files_before_start() {
    requires_cell!();
    let bench = Bench::new();
    bench.write("star.toml", "[[generate]]\nkind = \"star\"\nhosts = 200\n");
    let mut command = cell::unshared("ulimit -n 200\n\"$@\" || exit $?");
    command.args([NETARIUM, "run", "star.toml", "--json", "--duration", "1 s"]);
    bench.prepare(&mut command);
    let run = Running::spawn(&mut command).finish();
    let dump = run.records[0].to_string();
    assert_eq!(run.code, Some(4), "{dump}");
    assert!(dump.contains("open files") && dump.contains("200"), "{dump}");
}

#[test]
fn reports_missing_congestion_control() {
    requires_labs!();
    let available =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    let missing = ["veno", "scalable", "westwood"]
        .into_iter()
        .find(|name| !available.split_whitespace().any(|word| word == *name))
        .expect("no kernel has all congestion controllers loaded");
    let bench = Bench::new();
    let run = bench.run(&LAB.replace("cubic", missing));
    let dump = run.dump();
    assert_eq!(run.code, Some(4), "{dump}");
    assert!(dump.contains(missing) && dump.contains("cubic"), "{dump}");
}
