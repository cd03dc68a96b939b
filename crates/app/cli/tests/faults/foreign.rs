//! Untrusted lab files and run folders: their text on the terminal, links to other files, and
//! endless files.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use super::bench::{Bench, Running};

/// Sets the title and the clipboard, clears the screen, colours text, begins a string of a device,
/// changes the direction of text.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}]52;c;b3duZWQ=\u{7}\u{1b}[2J\u{1b}[32m\u{9b}2J\
    \u{90}q\u{7f}\u{8}\u{202e}\u{2066}";

/// [`HOSTILE`] in a TOML string.
const IN_TOML: &str = concat!(
    r"\u001b]0;owned\u0007\u001b]52;c;b3duZWQ=\u0007\u001b[2J\u001b[32m\u009b2J",
    r"\u0090q\u007f\u0008\u202e\u2066"
);

const LAB: &str = "
[lab]
name = \"victim\"
duration = \"1 s\"
seed = 1
[node.a]
[node.b]
[[link]]
name = \"wire\"
ends = [\"a\", \"b\"]
rate = \"10 Mbit/s\"
[[flow]]
name = \"bulk\"
from = \"a\"
to = \"b\"
[[expect]]
that = \"flow.bulk.goodput > 1 Gbit/s\"
";

/// Fails if the output has a character that acts on a terminal; own colours are permitted.
#[track_caller]
fn assert_harmless(what: &str, output: &Output, has_colors: bool) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let mut rest = text.as_str();
        while let Some((_, after)) = rest.split_once('\u{1b}') {
            assert!(has_colors, "{what}: an escape sequence in {text:?}");
            let parameters = after.strip_prefix('[').and_then(|after| after.split_once('m'));
            let is_style = parameters.is_some_and(|(parameters, _)| {
                parameters.chars().all(|c| c.is_ascii_digit() || c == ';')
            });
            assert!(is_style, "{what}: another sequence than a style in {text:?}");
            rest = after;
        }
        let acts = |c: char| match c {
            '\n' | '\t' | '\u{1b}' => false,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
            c => c.is_control(),
        };
        assert!(!text.contains(acts), "{what}: {text:?}");
        assert!(!text.contains("\u{1b}[32m\\x9b"), "{what}: a foreign style in {text:?}");
    }
}

/// Runs a command without and with colours, and as JSON.
#[track_caller]
fn check_all_formats(bench: &Bench, args: &[&str]) {
    let what = args.join(" ");
    let plain = bench.netarium(args);
    assert_harmless(&what, &plain, false);
    assert!(!plain.stdout.is_empty() || !plain.stderr.is_empty(), "{what}");
    assert_harmless(&what, &bench.netarium(&[args, &["--color", "always"]].concat()), true);
    assert_harmless(&what, &bench.netarium(&[args, &["--json"]].concat()), false);
}

#[test]
fn text_of_lab_files_does_not_control_the_terminal() {
    let bench = Bench::new();
    let labs = [
        ("raw", format!("{LAB}# {HOSTILE}\nwrong = {HOSTILE}\n")),
        ("key", LAB.replace("seed = 1", &format!("\"{IN_TOML}\" = 1"))),
        ("name", LAB.replace("\"victim\"", &format!("\"{IN_TOML}\""))),
        ("node", LAB.replace("[node.a]", &format!("[node.\"{IN_TOML}\"]"))),
        ("end", LAB.replace("ends = [\"a\"", &format!("ends = [\"{IN_TOML}\""))),
        ("file", LAB.replace("rate = \"10 Mbit/s\"", &format!("trace = \"{IN_TOML}\""))),
        ("trace", LAB.replace("rate = \"10 Mbit/s\"", "trace = \"hostile.trace\"")),
        ("expectation", LAB.replace("flow.bulk.goodput", IN_TOML)),
        ("program", format!("{LAB}[[program]]\nnode = \"a\"\nrun = \"{IN_TOML} x\"\n")),
        ("user", LAB.replace("[node.a]", &format!("[node.a]\nuser = \"{IN_TOML}\""))),
        ("pattern", format!("{LAB}[[program]]\nnode = \"*{IN_TOML}\"\nrun = \"true\"\n")),
        ("table", format!("{LAB}[[import]]\nfile = \"hostile.csv\"\n")),
        ("valid", format!("{LAB}[[mark]]\ntext = \"{IN_TOML}\"\n")),
    ];
    bench.write("hostile.trace", &format!("{HOSTILE}\n"));
    bench.write("hostile.csv", &format!("{HOSTILE},b\n"));
    for (name, lab) in labs {
        let file = format!("{name}.toml");
        bench.write(&file, &lab);
        check_all_formats(&bench, &["check", &file]);
        check_all_formats(&bench, &["sim", &file]);
    }
    let file = format!("{HOSTILE}.toml");
    bench.write(&file, LAB);
    check_all_formats(&bench, &["check", &file]);
    check_all_formats(&bench, &["check", &format!("no-{HOSTILE}")]);
}

/// The shell can expand `netarium check *` to names of untrusted files.
#[test]
fn names_that_look_like_options_do_not_control_the_terminal() {
    let bench = Bench::new();
    for args in [
        vec![format!("--{HOSTILE}")],
        vec![format!("check{HOSTILE}")],
        vec!["check".to_owned(), format!("--{HOSTILE}=x")],
        vec!["diff".to_owned(), format!("--tolerance={HOSTILE}")],
        vec!["sim".to_owned(), "lab.toml".to_owned(), format!("--set={HOSTILE}")],
    ] {
        let what = args.join(" ");
        for forced in ["0", "1"] {
            let mut command = bench.command(&[]);
            let output = command.args(&args).env("CLICOLOR_FORCE", forced).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{what:?}");
            assert_harmless(&what, &output, false);
        }
    }
}

/// Subcommands that write a file of a fixed or a given name, into an untrusted folder.
#[test]
fn written_files_replace_links() {
    let bench = Bench::new();
    let run = run_folder(&bench);
    let run = run.to_str().unwrap();
    let outside = bench.write("outside", "kept");
    for (name, args) in [
        ("dumbbell.toml", &["new", "dumbbell", "--force"][..]),
        ("pages/netarium.1", &["man", "pages"]),
        ("pages/netarium-run.1", &["man", "pages"]),
        ("base.json", &["diff", run, "--save", "base.json"]),
    ] {
        let file = bench.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&file);
        symlink(&outside, &file).unwrap();
        let output = bench.netarium(args);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{name}");
        assert_eq!(fs::read_to_string(&outside).unwrap(), "kept", "{name}");
    }
    // A stream is written: `/dev/stdout`, and a pipe of the shell.
    let output = bench.netarium(&["diff", run, "--save", "/dev/stdout"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("\"metrics\""), "{text}");
}

/// Puts hostile text into every text of a record that does not decide how it is read.
fn insert_control_characters(value: &mut Value) {
    match value {
        Value::String(text) => {
            let is_word =
                text.chars().all(|c| c.is_ascii_lowercase() || "-_./0123456789".contains(c));
            if !is_word || ["victim", "wire", "bulk", "a", "b"].contains(&text.as_str()) {
                text.push_str(HOSTILE);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(insert_control_characters),
        Value::Object(map) => map.values_mut().for_each(insert_control_characters),
        _ => {}
    }
}

fn run_folder(bench: &Bench) -> PathBuf {
    bench.write("lab.toml", LAB);
    let output = bench.netarium(&["sim", "lab.toml", "--json"]);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    PathBuf::from(record["folder"].as_str().unwrap())
}

#[test]
fn text_of_run_folders_does_not_control_the_terminal() {
    let bench = Bench::new();
    let (run, other) = (run_folder(&bench), bench.path().join("other"));
    let copied = Command::new("cp").arg("-r").arg(&run).arg(&other).status().unwrap();
    assert!(copied.success());
    let file = other.join("run.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    record["warnings"] = serde_json::json!(["a warning"]);
    insert_control_characters(&mut record);
    fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
    fs::write(other.join("log.jsonl"), format!("{HOSTILE}\n")).unwrap();
    let (run, other) = (run.to_str().unwrap(), other.to_str().unwrap());
    for args in [
        &["report", other][..],
        &["report", "-v", other],
        &["report", "-vv", other],
        &["diff", run, other],
        &["diff", "--all", run, other],
        &["diff", run, other, "--metric", &format!("none{HOSTILE}")],
        &["replay", other],
    ] {
        check_all_formats(&bench, args);
    }
    let report = bench.netarium(&["report", other]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    fs::write(&file, format!("{{\"{HOSTILE}\"")).unwrap();
    check_all_formats(&bench, &["report", other]);
}

#[test]
fn rejects_special_files_in_run_folders() {
    let bench = Bench::new();
    let run = run_folder(&bench);
    let report = || {
        let mut command = bench.command(&["report", run.to_str().unwrap()]);
        let output = Running::spawn(&mut command).output();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let parts = [("run.json", 2), ("lab.toml", 4), ("flows.parquet", 4), ("links.parquet", 4)];
    for (name, code) in parts {
        let (file, outside) = (run.join(name), bench.path().join(name).with_extension("outside"));
        fs::rename(&file, &outside).unwrap();
        for kind in ["link", "pipe", "socket", "folder"] {
            match kind {
                "link" => symlink(&outside, &file).unwrap(),
                "pipe" => assert!(Command::new("mkfifo").arg(&file).status().unwrap().success()),
                "socket" => drop(UnixListener::bind(&file).unwrap()),
                _ => fs::create_dir(&file).unwrap(),
            }
            let (exit, error) = report();
            assert_eq!(exit, Some(code), "{kind} {name}: {error}");
            assert!(error.contains(name), "{kind} {name}: {error}");
            if kind == "folder" {
                fs::remove_dir(&file).unwrap();
            } else {
                fs::remove_file(&file).unwrap();
            }
        }
        fs::rename(&outside, &file).unwrap();
    }
    // Links in place of written files are replaced.
    let outside = bench.write("outside", "kept");
    for name in ["report.html", "report.html.tmp"] {
        let _ = fs::remove_file(run.join(name));
        symlink(&outside, run.join(name)).unwrap();
        let (exit, error) = report();
        assert_eq!(exit, Some(0), "{name}: {error}");
    }
    fs::remove_file(run.join("report.html")).unwrap();
    fs::hard_link(&outside, run.join("report.html")).unwrap();
    assert_eq!(report().0, Some(0));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
}

#[test]
fn rejects_endless_files() {
    let bench = Bench::new();
    let run = run_folder(&bench);
    let fifo = bench.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    fs::remove_file(run.join("run.json")).unwrap();
    fs::rename(&fifo, run.join("run.json")).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    symlink("fifo", bench.path().join("fifo.toml")).unwrap();
    let _socket = UnixListener::bind(bench.path().join("socket")).unwrap();
    let run = run.to_str().unwrap();
    for args in [
        &["check", "fifo"][..],
        &["sim", "fifo"],
        &["check", "/dev/zero"],
        &["check", "socket"],
        &["check", "runs"],
        &["sim", "/dev/zero"],
        &["report", run],
        &["report", "fifo"],
        &["diff", run, run],
        &["diff", run, "--baseline", "fifo"],
        &["report", "fifo", "--format", "github", "--lab", "fifo"],
        &["cluster", "plan", "lab.toml", "--offline", "fifo"],
        &["cluster", "plan", "lab.toml", "--offline", "/dev/zero"],
        &["cluster", "status", "--cluster", "fifo.toml"],
        &["bundle", "send", "--config", "fifo"],
        &["bundle", "receive", "--config", "/dev/zero"],
    ] {
        let output = Running::spawn(&mut bench.command(args)).output();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = if args[0] == "cluster" { 4 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(!text.is_empty(), "{args:?}");
    }
}
