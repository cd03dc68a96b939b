//! The command line from outside: help texts, exit codes, what goes to which stream.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const VERBS: &[&str] = &[
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
    "check",
    "ps",
    "exec",
    "shell",
    "stop",
    "clean",
    "doctor",
    "new",
    "report",
    "diff",
    "schema",
    "completions",
    "man",
];

/// A folder to work in, which is also where running labs would be registered.
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
fn help_of_every_verb() {
    let dir = folder();
    let mut text = out(&netarium(dir.path(), &["--help"]));
    for verb in VERBS {
        let help = out(&netarium(dir.path(), &[verb, "--help"]));
        let examples = help.split("Examples:").nth(1).unwrap_or_default();
        let count = examples.lines().filter(|line| !line.trim().is_empty()).count();
        assert_eq!(count, 2, "examples of {verb}:{examples}");
        text.extend(["\n==== ", verb, "\n", &help]);
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
        &["stop", "lab"],
        &["stop"],
        &["new", "no-such-template"],
        &["report", "no-such-folder"],
        &["diff", ".", "."],
    ];
    for args in cases {
        let output = netarium(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
        assert!(!err(&output).is_empty(), "{args:?}");
    }
}

#[test]
fn a_time_without_a_unit_is_explained() {
    let dir = folder();
    let output = netarium(dir.path(), &["run", "x.toml", "--duration", "10"]);
    assert!(err(&output).contains("needs a unit"), "{}", err(&output));
}

#[test]
fn a_new_lab_is_written_once_and_passes_its_check() {
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
        assert!(out(&check).contains("is fine"), "{}", out(&check));
        let next = err(&check);
        assert!(next.contains("next: ") && err(&output).ends_with(&next), "{next}");
    }
}

#[test]
fn what_cannot_be_set_says_what_can() {
    let dir = folder();
    netarium(dir.path(), &["new", "incast"]);
    let said = |args: &[&str]| {
        let output = netarium(dir.path(), &[&["sim", "incast.toml"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        err(&output)
    };
    let made = said(&["--set", "link.core.delay=10 ms"]);
    assert!(made.contains("`generate.1.core.delay`"), "{made}");
    assert!(said(&["--set", "at.1.time=1 s"]).contains("it has: `lab`, `generate`, `flow`"));
    assert!(said(&["--seed", "-1"]).contains("'-1' for '--seed"));
    assert!(said(&["--max-events", "-1"]).contains("'-1' for '--max-events"));
}

#[test]
fn a_wrong_lab_gives_all_its_errors_as_text_and_as_json() {
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
fn a_resolved_lab_is_a_lab() {
    let dir = folder();
    netarium(dir.path(), &["new", "dumbbell"]);
    let resolved = netarium(dir.path(), &["check", "dumbbell.toml", "--resolved"]);
    fs::write(dir.path().join("again.toml"), &resolved.stdout).unwrap();
    let again = netarium(dir.path(), &["check", "again.toml", "--resolved"]);
    assert_eq!(out(&again), out(&resolved));
}

#[test]
fn json_of_verbs_that_need_no_lab() {
    let dir = folder();
    for (args, schema) in [
        (&["ps", "--json"][..], "netarium.ps/1"),
        (&["clean", "--json"], "netarium.clean/1"),
        (&["stop", "--all", "--json"], "netarium.stop/1"),
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
fn what_is_generated_is_there() {
    let dir = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = out(&netarium(dir.path(), &["completions", shell]));
        assert!(script.contains("doctor"), "{shell}");
    }
    assert!(object(&netarium(dir.path(), &["schema"]))["properties"]["link"].is_object());
    assert!(out(&netarium(dir.path(), &["man"])).contains(".TH netarium"));
    let pages = netarium(dir.path(), &["man", "man1"]);
    assert_eq!(pages.status.code(), Some(0));
    assert_eq!(fs::read_dir(dir.path().join("man1")).unwrap().count(), VERBS.len() + 1);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
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
fn what_a_killed_run_left_is_cleared_and_foreign_files_are_not() {
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
        "started_unix": 0, "hosts": {}, "mount_points": [],
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
