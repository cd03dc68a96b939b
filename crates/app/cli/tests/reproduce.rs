//! Labs of papers, and the command that starts their figures.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command in a folder, with the programs of `path`.
fn netarium(dir: &Path, path: &OsStr, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETARIUM_")) {
        command.env_remove(name);
    }
    command.env("XDG_RUNTIME_DIR", dir).env("NO_COLOR", "1").current_dir(dir).args(args);
    command.env("PATH", path).stdin(Stdio::null()).output().unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program `python3` in a folder, which is the `PATH` of the command.
fn python(dir: &Path, script: &str) {
    let path = dir.join("python3");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn starts_python_package_with_arguments() {
    let dir = tempfile::tempdir().unwrap();
    python(dir.path(), "[ \"$1\" = -c ] && exit 0; echo \"$@\"; exit 3");
    let args = ["reproduce", "slbn", "2a", "--clock", "virtual", "--short", "--out", "a b", "-q"];
    let output = netarium(dir.path(), dir.path().as_os_str(), &args);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let expected = "-m netarium_papers slbn 2a --clock virtual --model both --out a b --short \
                    --quiet\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn missing_package_names_the_command_that_installs_it() {
    let dir = tempfile::tempdir().unwrap();
    for script in [None, Some("exit 1")] {
        if let Some(script) = script {
            python(dir.path(), script);
        }
        let output = netarium(dir.path(), dir.path().as_os_str(), &["reproduce", "--list"]);
        assert_eq!(output.status.code(), Some(4), "{}", err(&output));
        assert!(err(&output).contains("pip install netarium-papers"), "{}", err(&output));
    }
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
fn paper_labs_pass_check() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs");
    let path = std::env::var_os("PATH").unwrap();
    let mut checked = 0;
    for paper in fs::read_dir(labs).unwrap() {
        for file in fs::read_dir(paper.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "toml") {
                let dir = tempfile::tempdir().unwrap();
                for set in settings(&file) {
                    let args = ["check", file.to_str().unwrap(), "--set", set];
                    let output = netarium(dir.path(), &path, &args);
                    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 18, "{checked} labs");
}
