//! The command line: help texts, exit codes, output streams.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const SUBCOMMANDS: &[&str] = &[
    "link",
    "run",
    "sim",
    "sweep",
    "replay",
    "reproduce",
    "collect",
    "bundle",
    "mctcp",
    "agent",
    "cluster",
    "status",
    "check",
    "ps",
    "exec",
    "shell",
    "up",
    "set",
    "mark",
    "watch",
    "top",
    "down",
    "clean",
    "doctor",
    "new",
    "report",
    "diff",
    "export",
    "schema",
    "completions",
    "man",
];

/// A working folder, which also contains the registry of running labs.
fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn netarium(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETARIUM_")) {
        command.env_remove(name);
    }
    command.env("XDG_RUNTIME_DIR", dir).env_remove("COLUMNS").env("NO_COLOR", "1");
    command.current_dir(dir).args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn object(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn prints_help_of_every_subcommand() {
    let dir = folder();
    let mut text = out(&netarium(dir.path(), &["--help"]));
    for subcommand in SUBCOMMANDS {
        let help = out(&netarium(dir.path(), &[subcommand, "--help"]));
        let examples = help.split("Examples:").nth(1).unwrap_or_default();
        let count = examples.lines().filter(|line| !line.trim().is_empty()).count();
        assert_eq!(count, 2, "examples of {subcommand}:{examples}");
        text.extend(["\n==== ", subcommand, "\n", &help]);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn usage_errors_exit_with_2_and_leave_stdout_empty() {
    let dir = folder();
    let cases: &[&[&str]] = &[
        &[],
        &["fly"],
        &["run"],
        &["run", "missing.toml"],
        &["check", "missing.toml"],
        &["run", "x.toml", "--set", "delay"],
        &["run", "x.toml", "--duration", "10"],
        &["exec", "lab", "host"],
        &["exec", "lab", "host", "--", "true"],
        &["down", "lab"],
        &["down"],
        &["up", "missing.toml"],
        &["set", "lab"],
        &["set", "lab", "link.core.loss=1 %"],
        &["mark", "lab", "text"],
        &["new", "no-such-template"],
        &["report", "no-such-folder"],
        &["diff", ".", "."],
        &["export", "no-such-folder"],
    ];
    for args in cases {
        let output = netarium(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
        assert!(!err(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn explains_missing_unit() {
    let dir = folder();
    let output = netarium(dir.path(), &["run", "x.toml", "--duration", "10"]);
    assert!(err(&output).contains("needs a unit"), "{}", err(&output));
}

#[test]
fn new_writes_a_valid_lab_and_keeps_existing_files() {
    let dir = folder();
    let templates = object(&netarium(dir.path(), &["new", "--json"]));
    let templates = templates["templates"].as_array().unwrap().clone();
    assert!(templates.iter().any(|template| template["name"] == "dumbbell"));
    for template in templates {
        let name = template["name"].as_str().unwrap();
        let output = netarium(dir.path(), &["new", name]);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let again = netarium(dir.path(), &["new", name]);
        assert_eq!(again.status.code(), Some(2));
        assert!(err(&again).contains("--force"), "{}", err(&again));
        let forced = netarium(dir.path(), &["new", name, "--force"]);
        assert_eq!(forced.status.code(), Some(0));
        let check = netarium(dir.path(), &["check", &format!("{name}.toml")]);
        assert_eq!(check.status.code(), Some(0), "{}", err(&check));
        assert!(out(&check).contains("is valid"), "{}", out(&check));
        let next = err(&check);
        assert!(next.contains("next: ") && err(&output).ends_with(&next), "{next}");
    }
}

#[test]
fn output_begins_with_the_outcome_and_fits_the_terminal() {
    let dir = folder();
    netarium(dir.path(), &["new", "dumbbell"]);
    let mut sim = Command::new(env!("CARGO_BIN_EXE_netarium"));
    sim.args(["sim", "dumbbell.toml"]).current_dir(dir.path());
    sim.env("XDG_RUNTIME_DIR", dir.path()).env("COLUMNS", "80");
    let text = out(&sim.output().unwrap());
    assert!(text.starts_with("outcome  passed\ntrust    trusted: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let run = fs::read_dir(dir.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    let report = |words: &[&str]| {
        let args = [&["report", run.to_str().unwrap()], words].concat();
        netarium(dir.path(), &args)
    };
    let all = report(&["-vv"]);
    assert!(out(&all).contains("marked") && !text.contains("marked"), "{}", out(&all));
    assert!(out(&all).lines().count() >= text.lines().count());
    let json = object(&report(&["--json"]));
    assert_eq!((&json["run"]["outcome"], &json["run"]["exit_code"]), (&"passed".into(), &0.into()));
    assert_eq!(json["run"]["reasons"], serde_json::json!([]));
}

#[test]
fn error_lists_settable_fields() {
    let dir = folder();
    netarium(dir.path(), &["new", "incast"]);
    let printed = |args: &[&str]| {
        let output = netarium(dir.path(), &[&["sim", "incast.toml"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        err(&output)
    };
    let made = printed(&["--set", "link.core.delay=10 ms"]);
    assert!(made.contains("`generate.1.core.delay`"), "{made}");
    assert!(printed(&["--set", "at.1.time=1 s"]).contains("it has: `lab`, `generate`, `flow`"));
    assert!(printed(&["--seed", "-1"]).contains("'-1' for '--seed"));
    assert!(printed(&["--max-events", "-1"]).contains("'-1' for '--max-events"));
}

#[test]
fn reports_all_errors_as_text_and_json() {
    let dir = folder();
    let lab = "[lab]\nduraton = \"10 s\"\n[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"c\"]\n\
               rate = \"100\"\n";
    fs::write(dir.path().join("wrong.toml"), lab).unwrap();
    let text = netarium(dir.path(), &["check", "wrong.toml"]);
    assert_eq!(text.status.code(), Some(2));
    assert_eq!(out(&text), "");
    for part in ["wrong.toml:2:", "wrong.toml:7:", "duration", "unit"] {
        assert!(err(&text).contains(part), "{part} in {}", err(&text));
    }
    let json = netarium(dir.path(), &["run", "wrong.toml", "--json"]);
    assert_eq!(json.status.code(), Some(2));
    let errors = object(&json)["errors"].as_array().unwrap().clone();
    assert!(errors.len() >= 3, "{errors:?}");
    assert!(errors.iter().all(|e| e["code"].as_str().unwrap().starts_with("lab::E")));
    assert_eq!(errors[0]["line"], 2);
    assert!(!dir.path().join("runs").exists(), "nothing starts before the file is right");
}

#[test]
fn resolved_lab_passes_check() {
    let dir = folder();
    netarium(dir.path(), &["new", "dumbbell"]);
    let resolved = netarium(dir.path(), &["check", "dumbbell.toml", "--resolved"]);
    fs::write(dir.path().join("again.toml"), &resolved.stdout).unwrap();
    let again = netarium(dir.path(), &["check", "again.toml", "--resolved"]);
    assert_eq!(out(&again), out(&resolved));
}

#[test]
fn prints_json_without_lab() {
    let dir = folder();
    for (args, schema) in [
        (&["ps", "--json"][..], "netarium.ps/1"),
        (&["clean", "--json"], "netarium.clean/1"),
        (&["down", "--all", "--json"], "netarium.down/1"),
        (&["exec", "x", "y", "--json", "--", "true"], "netarium.error/1"),
    ] {
        assert_eq!(object(&netarium(dir.path(), args))["schema"], schema);
    }
    let doctor = netarium(dir.path(), &["doctor", "--json"]);
    let report = object(&doctor);
    assert_eq!(report["schema"], "netarium.doctor/1");
    let bad = report["findings"].as_array().unwrap().iter().any(|f| f["level"] == "bad");
    assert_eq!(doctor.status.code(), Some(if bad { 4 } else { 0 }));
    assert_eq!(report["engine"].is_null(), bad);
}

#[test]
fn prints_schema_completions_and_manual() {
    let dir = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = out(&netarium(dir.path(), &["completions", shell]));
        assert!(script.contains("doctor"), "{shell}");
    }
    assert!(object(&netarium(dir.path(), &["schema"]))["properties"]["link"].is_object());
    assert!(out(&netarium(dir.path(), &["man"])).contains(".TH netarium"));
    let pages = netarium(dir.path(), &["man", "man1"]);
    assert_eq!(pages.status.code(), Some(0));
    assert_eq!(fs::read_dir(dir.path().join("man1")).unwrap().count(), SUBCOMMANDS.len() + 1);
}

#[test]
fn accepts_a_closed_pipe() {
    let dir = folder();
    let mut child = Command::new(env!("CARGO_BIN_EXE_netarium"))
        .args(["completions", "zsh"])
        .env("XDG_RUNTIME_DIR", dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(err(&output), "");
}

#[test]
fn clean_removes_only_entries_of_killed_runs() {
    let dir = folder();
    netarium(dir.path(), &["ps"]);
    let labs = dir.path().join("netarium");
    let run = dir.path().join("runs/gone-0a0a0a");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("notes.txt"), "precious").unwrap();
    let process = serde_json::json!({"pid": 1, "started_ticks": 0});
    let entry = serde_json::json!({
        "schema": "netarium.lab/1", "name": "gone", "lab": "gone", "id": "0a0a0a",
        "boot": "an earlier one", "supervisor": process, "init": process, "folder": run,
        "started_unix": 0, "hosts": {},
    });
    fs::write(labs.join("gone.json"), entry.to_string()).unwrap();
    fs::write(labs.join("foreign.json"), "{}").unwrap();

    let listed = netarium(dir.path(), &["clean", "--dry-run"]);
    assert!(out(&listed).contains("0a0a0a"), "{}", out(&listed));
    assert!(labs.join("gone.json").exists());
    let cleaned = object(&netarium(dir.path(), &["clean", "--json"]));
    assert_eq!(cleaned["entries"][0]["id"], "0a0a0a");
    assert!(!labs.join("gone.json").exists());
    assert!(labs.join("foreign.json").exists());
    assert!(run.join("notes.txt").exists());
}

#[test]
fn status_shows_a_running_collector() {
    let dir = folder();
    let socket = dir.path().join("collect.sock");
    let words = ["collect", "--listen", "127.0.0.1:0", "--name", "rrc99"];
    let mut collector = Command::new(env!("CARGO_BIN_EXE_netarium"));
    collector.args(words).arg("--status").arg(&socket);
    let mut collector = collector.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The socket exists before it accepts connections.
    let status = loop {
        let output = netarium(dir.path(), &["status", "--json", "collect.sock"]);
        if output.status.success() {
            break object(&output);
        }
        assert_eq!(collector.try_wait().unwrap(), None, "the collector ended");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status["schema"], "netarium.status/1");
    let command = &status["commands"][0];
    assert_eq!((&command["role"], &command["name"]), (&"collect".into(), &"rrc99".into()));
    let table = out(&netarium(dir.path(), &["status", "collect.sock"]));
    assert!(
        table.contains("rrc99") && table.contains("0 of 0 BGP sessions established"),
        "{table}"
    );
    collector.kill().unwrap();
    collector.wait().unwrap();
    let gone = netarium(dir.path(), &["status", "collect.sock"]);
    assert_eq!(gone.status.code(), Some(4));
}
