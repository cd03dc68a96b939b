//! Life cycle of a lab: run, inspect, stop, kill, clean.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Maximum duration on any host; tests end as soon as the awaited event has happened.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

const PAIR: &str = r#"
lab = { name = "pair", duration = "60 s" }
node.alice = {}
node.bob = {}
link = [{ ends = ["alice", "bob"], rate = "10 Mbit/s", delay = "1 ms" }]
"#;

struct Place {
    dir: TempDir,
}

impl Place {
    /// A working folder, or `None` if the host cannot run labs.
    fn new(test: &str) -> Option<Self> {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        let doctor = place.netarium(&["doctor", "--quick", "--json"]);
        if doctor.status.code() == Some(0) {
            return Some(place);
        }
        eprintln!("SKIPPED {test}: {}", String::from_utf8_lossy(&doctor.stdout));
        None
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netarium"));
        command.env("XDG_RUNTIME_DIR", self.path()).current_dir(self.path()).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn netarium(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn lab(&self, text: &str) {
        fs::write(self.path().join("lab.toml"), text).unwrap();
    }

    /// What `ps` lists.
    fn labs(&self) -> Vec<Value> {
        let listed: Value =
            serde_json::from_slice(&self.netarium(&["ps", "--json"]).stdout).unwrap();
        listed["labs"].as_array().unwrap().clone()
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let labs = self.labs();
            if holds(&labs) {
                return labs;
            }
            assert!(Instant::now() < deadline, "still not {what}: {labs:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts a lab that stays, and waits until it is registered.
    fn start(&self) -> (Child, Value) {
        let child = self.command(&["run", "lab.toml", "--stay", "--json"]).spawn().unwrap();
        let pid = child.id();
        let labs = self.wait_for("up", |labs| labs.iter().any(|lab| lab["pid"] == pid));
        let lab = labs.into_iter().find(|lab| lab["pid"] == pid).unwrap();
        (child, lab)
    }
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
    let Some(place) = Place::new("a_run_leaves_its_results") else { return };
    place.lab(&format!(
        "{PAIR}[[program]]\nnode = \"alice\"\nrun = \"head -c 100000 /dev/zero | wc -c\"\n\
         [[flow]]\nfrom = \"alice\"\nto = \"bob\"\nsize = \"100 kB\"\n"
    ));
    let output = place.netarium(&["run", "lab.toml", "--seed", "7", "--runs", "out dir"]);
    let err = text(&output.stderr);
    assert!(ended_well(&output), "{err}");
    assert!(text(&output.stdout).contains("alice-bob"), "{}", text(&output.stdout));
    let last = err.lines().last().unwrap();
    assert!(last.ends_with("netarium run lab.toml --seed 7 --runs 'out dir'"), "{last}");
    let folder = fs::read_dir(place.path().join("out dir")).unwrap().next().unwrap().unwrap();
    for file in ["run.json", "lab.toml", "report.html", "flows.parquet", "log.jsonl"] {
        assert!(folder.path().join(file).exists(), "{file} is missing");
    }
    let program = folder.path().join("programs/alice.head/stdout");
    assert_eq!(fs::read_to_string(program).unwrap().trim(), "100000");
    let again = place.netarium(&["report", folder.path().to_str().unwrap(), "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["run"]["flows"][0]["received_bytes"], 100_000);
    assert!(place.labs().is_empty());
}

/// In a user namespace only a resource limit permits real-time scheduling, or the command outside.
#[test]
fn run_has_the_real_time_scheduling_that_doctor_promises() {
    let test = "run_has_the_real_time_scheduling_that_doctor_promises";
    let Some(place) = Place::new(test) else { return };
    let doctor = place.netarium(&["doctor", "--quick", "--json"]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    place.lab(&PAIR.replace("60 s", "1 s"));
    let output = place.netarium(&["run", "lab.toml", "--json"]);
    let record: Value = serde_json::from_str(text(&output.stdout).lines().next().unwrap()).unwrap();
    let promised = doctor["facts"]["realtime"].is_null();
    assert_eq!(record["machine"]["realtime"], promised, "{record:#}");
    place.lab(&PAIR.replace("60 s\"", "1 s\", realtime = false"));
    let output = place.netarium(&["run", "lab.toml", "--json"]);
    let record: Value = serde_json::from_str(text(&output.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(record["machine"]["realtime"], false, "{record:#}");
}

#[test]
fn slowdowns_are_expected_on_the_wall_clock() {
    let Some(place) = Place::new("slowdowns_are_expected_on_the_wall_clock") else { return };
    place.lab(&format!(
        "{PAIR}[[flow]]\nname = \"web\"\nfrom = \"alice\"\nto = \"bob\"\nsize = \"10 kB\"\n\
         arrivals = {{ every = \"50 ms\" }}\ncount = 20\n\
         [[expect]]\nthat = \"flow.web.slowdown.min >= 0.5\"\n"
    ));
    let output = place.netarium(&["run", "lab.toml", "--json"]);
    assert!(ended_well(&output), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(run["flows"][0]["slowdown"]["p50"].as_f64() >= Some(1.0), "{run}");
    // On a busy host it may be undecided.
    assert_ne!(run["expectations"][0]["outcome"], "failed", "{run}");
}

#[test]
fn exit_codes_match_failures() {
    let Some(place) = Place::new("exit_codes_match_failures") else { return };
    let program = "[[program]]\nname = \"p\"\nnode = \"alice\"\nrun = ";
    for (entry, code) in [
        (format!("{program}\"exit 3\"\n"), 5),
        (format!("{program}\"true\"\n[[expect]]\nthat = \"program.p.exit > 0\"\n"), 1),
        (format!("{program}\"sleep 60\"\nready = \"port 9\"\nready_timeout = \"100 ms\"\n"), 5),
        (format!("{program}\"no-such-program\"\n"), 2),
    ] {
        place.lab(&format!("{PAIR}{entry}"));
        let output = place.netarium(&["run", "lab.toml"]);
        assert_eq!(output.status.code(), Some(code), "{entry}{}", text(&output.stderr));
    }
}

#[test]
fn two_labs_of_one_name_run_and_stop_separately() {
    let Some(place) = Place::new("two_labs_of_a_name") else { return };
    place.lab(PAIR);
    let (first, one) = place.start();
    let (second, two) = place.start();
    assert_eq!((&one["name"], &two["name"]), (&"pair".into(), &"pair-2".into()));
    let inside = place.netarium(&["exec", "pair-2", "alice", "--", "sh", "-c", "hostname; exit 7"]);
    assert_eq!((inside.status.code(), &*text(&inside.stdout)), (Some(7), "alice\n"));
    let unknown = place.netarium(&["exec", "pair", "carol", "--", "true"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("alice, bob"), "{}", text(&unknown.stderr));

    let stopped = place.netarium(&["down", "pair"]);
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped.stderr));
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(record(one["folder"].as_str().unwrap())["status"], "interrupted");
    assert_eq!(place.labs().len(), 1, "the other goes on");
    let stopped = place.netarium(&["down", two["id"].as_str().unwrap()]);
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped.stderr));
    assert_eq!(second.wait_with_output().unwrap().status.code(), Some(130));
    assert!(place.labs().is_empty());
}

#[test]
fn killed_command_ends_its_lab() {
    let Some(place) = Place::new("killed_command_ends_its_lab") else { return };
    place.lab(&format!("{PAIR}[[program]]\nnode = \"bob\"\nrun = \"sleep 1234.5\"\n"));
    let (mut child, lab) = place.start();
    child.kill().unwrap();
    child.wait().unwrap();
    // Its namespaces and programs end with its first process.
    place.wait_for("gone", <[Value]>::is_empty);
    // Not every init reaps; a zombie has no command line.
    let left = fs::read(format!("/proc/{}/cmdline", lab["init_pid"])).unwrap_or_default();
    assert_eq!(text(&left), "");
    let folder = lab["folder"].as_str().unwrap();
    assert_ne!(record(folder)["status"], "running");
    assert!(fs::read_dir(place.path().join("netarium")).unwrap().all(|item| {
        item.unwrap().path().extension().is_none_or(|extension| extension != "json")
    }));
}
