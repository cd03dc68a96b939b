//! Figures of papers from the command line.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Maximum duration on any host; tests end as soon as the awaited event has happened.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETARIUM_")) {
        command.env_remove(name);
    }
    command.env("XDG_RUNTIME_DIR", dir).env("NO_COLOR", "1").current_dir(dir).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn netarium(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn reproduces_shows_and_stores_figures() {
    let dir = tempfile::tempdir().unwrap();
    let short = ["--clock", "virtual", "--short"];
    let args = [&["reproduce", "splaynet", "3.5", "3.6b"][..], &short].concat();
    let output = netarium(dir.path(), &args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", err(&output));
    assert!(said.contains("paper: 1.5, 3.5, 0.5 Mbit/s   here: 1.5, 3.5, 0.5 Mbit/s"), "{said}");

    let out = dir.path().join("reproduce-splaynet");
    let results = json(&out.join("results.json"));
    assert_eq!(results["schema"], "netarium.reproduction/1");
    for id in ["3.5", "3.6b"] {
        let figure = &results["figures"][id];
        assert_eq!((&figure["status"], &figure["short"]), (&"holds".into(), &true.into()));
        let claims = figure["claims"].as_array().unwrap();
        assert!(!claims.is_empty() && claims.iter().all(|claim| claim["holds"] == true));
        for run in figure["runs"].as_array().unwrap() {
            assert!(out.join(run["folder"].as_str().unwrap()).join("run.json").is_file());
        }
        for extension in ["svg", "csv"] {
            assert!(out.join(format!("figure-{id}.{extension}")).is_file());
        }
    }
    let calls = &results["figures"]["3.6b"]["tables"][0]["rows"];
    assert_eq!(calls.as_array().unwrap().len(), 10, "five round trips with two models: {calls}");
    assert!(calls.as_array().unwrap().iter().all(|row| row[2] == "10"), "{calls}");

    let args = [&["reproduce", "splaynet", "3.6c", "--model", "hop", "--json"][..], &short];
    let output = netarium(dir.path(), &args.concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["schema"], "netarium.reproduce/1");
    assert_eq!(object["figures"][0]["id"], "3.6c");
    let figures = json(&out.join("results.json"))["figures"].as_object().unwrap().clone();
    assert_eq!(figures.keys().collect::<Vec<_>>(), ["3.5", "3.6b", "3.6c"]);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    for id in figures.keys() {
        assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
    }
    assert!(page.contains("<svg class=\"wide\"") && !page.contains("http://"), "not on its own");
}

#[test]
fn reproduces_figures_with_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["reproduce", "slbn", "2a", "--clock", "virtual", "--short"];
    let output = netarium(dir.path(), &args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", err(&output));
    let out = dir.path().join("reproduce-slbn");
    let points = fs::read_to_string(out.join("figure-2a.csv")).unwrap();
    assert!(points.starts_with("plot,line,x,y,low,high\n"), "{points}");
    assert!(points.contains("\"Figure 8: errors at bottlenecks\",\"BFYZ\","), "{points}");
    for extension in ["svg", "parquet"] {
        assert!(out.join(format!("figure-2a.{extension}")).is_file());
    }
}

#[test]
fn rejects_impossible_figures() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("mine")).unwrap();
    fs::write(dir.path().join("mine/thesis.tex"), "").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["reproduce"], "required"),
        (&["reproduce", "other"], "splaynet, cluster, slbn"),
        (&["reproduce", "splaynet", "9.9"], "3.6b"),
        (&["reproduce", "splaynet", "3.5", "--clock", "virtual", "--out", "mine"], "--out"),
    ];
    for (args, text) in cases {
        let output = netarium(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(text), "{args:?}: {}", err(&output));
    }
    assert_eq!(fs::read_dir(dir.path().join("mine")).unwrap().count(), 1);
}

#[test]
fn figures_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let output = netarium(dir.path(), &["reproduce", "--list", "--json"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures = list["papers"][0]["figures"].as_array().unwrap().clone();
    assert!(figures.iter().any(|figure| figure["id"] == "3.6c"), "{list}");
    let output = netarium(dir.path(), &["reproduce", "splaynet", "--list"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().count(), figures.len() + 2, "{text}");
}

fn wait(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(begun.elapsed() < TEST_TIMEOUT, "it does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

fn labs(dir: &Path) -> usize {
    let output = netarium(dir, &["ps", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    listed["labs"].as_array().map_or(0, Vec::len)
}

#[test]
fn interrupt_ends_all_runs() {
    let dir = tempfile::tempdir().unwrap();
    if netarium(dir.path(), &["doctor", "--quick"]).status.code() != Some(0) {
        eprintln!("SKIPPED interrupt_ends_all_runs: this machine cannot run labs");
        return;
    }
    let args = ["reproduce", "splaynet", "3.6c", "--clock", "wall", "--model", "hop"];
    let mut child = command(dir.path(), &args).spawn().unwrap();
    let begun = Instant::now();
    while labs(dir.path()) == 0 {
        assert!(begun.elapsed() < TEST_TIMEOUT && child.try_wait().unwrap().is_none(), "no lab");
        thread::sleep(Duration::from_millis(50));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(wait(&mut child), Some(130));
    assert_eq!(labs(dir.path()), 0, "a lab goes on");
    let results = json(&dir.path().join("reproduce-splaynet/results.json"));
    assert_eq!(results["figures"].as_object().unwrap().len(), 0);
}

/// Settings of figures for a lab, or reduced sizes for these tests.
fn settings(lab: &Path) -> &'static [&'static str] {
    if lab.ends_with("slbn/million.toml") {
        return &["sessions.all.count=10000"];
    }
    let text = fs::read_to_string(lab).unwrap();
    if text.contains("[[sessions]]") {
        &["control.protocol=bfyz"]
    } else if text.contains("[[bundle]]") {
        &["lab.model=hop"]
    } else {
        &["lab.model=hop", "lab.model=collapsed"]
    }
}

#[test]
fn each_lab_runs_alone() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs");
    let mut checked = 0;
    for paper in fs::read_dir(labs).unwrap() {
        for file in fs::read_dir(paper.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "toml") {
                let dir = tempfile::tempdir().unwrap();
                for set in settings(&file) {
                    let args = ["check", file.to_str().unwrap(), "--set", set];
                    let output = netarium(dir.path(), &args);
                    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 18, "{checked} labs");
}
