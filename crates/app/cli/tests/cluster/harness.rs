//! Tests inside a local cluster: `netarium cluster local` runs the test program again for one test,
//! next to agents that the test can use for labs, kill and disconnect.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bench::{Bench, Run, Running, enclosed, entries, installed, network_namespaces};

/// Environment variable that is set inside the cluster.
const CLUSTER_VARIABLE: &str = "NETARIUM_LOCAL";

/// Maximum time for a cluster to return to its previous state: agents detect losses after seconds.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A test that runs the ignored test next to it in a cluster with options such as `["3",
/// "--restart"]`.
macro_rules! in_cluster {
    ($outer:ident, $inner:ident, $options:expr) => {
        #[test]
        fn $outer() {
            let inner = concat!(module_path!(), "::", stringify!($inner));
            crate::cluster::harness::run(stringify!($outer), inner, $options);
        }
    };
}
pub(crate) use in_cluster;

/// Runs the ignored test `inner`, given by its path from the crate root, in a cluster.
pub(crate) fn run(test: &str, inner: &str, options: &[&str]) {
    if !enclosed(test) || !installed(test, &["ip", "kill"]) {
        return;
    }
    let inner = inner.split_once("::").unwrap().1;
    let bench = Bench::new();
    let mut command = bench.command(&["cluster", "local"]);
    command.args(options).arg("--log").arg(bench.path()).arg("--");
    if env!("CARGO_CRATE_NAME") == "cluster" {
        // These tests must not lose an agent on a busy machine.
        command.env("NETARIUM_SILENCE_TIMEOUT", "10 s");
    }
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", inner, "--ignored", "--nocapture", "--test-threads", "1"]);
    // No timeout here: each step inside has one.
    let output = command.output().unwrap();
    let mut printed = String::new();
    if !output.status.success() {
        for log in fs::read_dir(bench.path()).unwrap().filter_map(|entry| Some(entry.ok()?.path()))
        {
            if log.extension().is_some_and(|extension| extension == "log") {
                let text = fs::read_to_string(&log).unwrap();
                let _ = writeln!(printed, "--- {}\n{text}", log.display());
            }
        }
    }
    // The failed assertion comes last: reports of failures are cut at their start.
    printed += &String::from_utf8_lossy(&output.stdout);
    printed += &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("1 passed"), "no test {inner}: {printed}");
    // The output of a test that passes is not shown, except why it decided nothing.
    for line in printed.lines().filter(|line| line.starts_with("INCONCLUSIVE")) {
        eprintln!("{line}");
    }
}

/// The cluster in which a test runs.
pub(crate) struct Cluster {
    pub(crate) bench: Bench,
    place: PathBuf,
}

impl Cluster {
    /// `None` outside of one.
    pub(crate) fn inside() -> Option<Self> {
        let place = PathBuf::from(std::env::var_os(CLUSTER_VARIABLE)?);
        Some(Self { bench: Bench::new(), place })
    }

    /// A command line of the binary with the option for the cluster.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bench.command(args);
        for (name, value) in std::env::vars_os() {
            if ["NETARIUM_CLUSTER", "NETARIUM_CREDENTIALS", CLUSTER_VARIABLE]
                .iter()
                .any(|own| name == *own)
            {
                command.env(name, value);
            }
        }
        command
    }

    pub(crate) fn start(&self, lab: &str, args: &[&str]) -> Running {
        let number = fs::read_dir(self.bench.path()).unwrap().count();
        let name = format!("lab-{number}.toml");
        self.bench.write(&name, lab);
        let hosts = std::env::var("NETARIUM_CLUSTER").unwrap();
        let mut command = self.command(&["run", &name, "--json", "--no-progress"]);
        command.args(["--cluster", &hosts]).args(args);
        Running::spawn(&mut command)
    }

    /// Runs a lab on the cluster until it ends.
    pub(crate) fn run(&self, lab: &str, args: &[&str]) -> Run {
        self.start(lab, args).finish()
    }

    pub(crate) fn status(&self) -> Value {
        let output = self.command(&["cluster", "status", "--json"]).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn agent_pid(&self, name: &str) -> u32 {
        let text = fs::read_to_string(self.place.join(name).join("pid")).unwrap();
        text.trim().parse().unwrap()
    }

    /// The folder of an agent's labs.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.place.join(name).join("work")
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.place).unwrap().map(|entry| entry.unwrap().path());
        let agents = entries.filter(|path| path.join("pid").is_file());
        let mut names: Vec<String> =
            agents.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The processes of an agent's shards, each with that of its lab, once programs run in so many.
    pub(crate) fn shards<const N: usize>(
        &self,
        agent: &str,
        running: &mut Running,
    ) -> [(u32, u32); N] {
        let agent = self.agent_pid(agent);
        running.until("programs ran", || {
            let shards = children(agent).into_iter();
            let both =
                shards.flat_map(|shard| children(shard).into_iter().map(move |l| (shard, l)));
            // The process that creates the lab is its parent for a moment.
            let run = both.filter(|(_, lab)| is_first(*lab) && !children(*lab).is_empty());
            run.collect::<Vec<_>>().try_into().ok()
        })
    }

    /// Disconnects an agent, or connects it again.
    pub(crate) fn cable(agent: &str, state: &str) {
        let status = Command::new("ip").args(["link", "set", "dev", agent, state]).status();
        assert!(status.unwrap().success(), "ip link set {agent} {state}");
    }

    /// Possible remains of labs: processes, network namespaces, files of agents.
    pub(crate) fn inventory(&self) -> Inventory {
        let mut found = Inventory::default();
        for process in entries(Path::new("/proc")) {
            let Some(pid) = number(&process) else { continue };
            let Some((name, state, _)) = stat(pid) else { continue };
            if state == 'Z' {
                continue;
            }
            found.processes.push(name);
            found.namespaces.extend(network_namespaces(&process));
        }
        for name in self.names() {
            found.files.extend(entries(&self.work(&name)));
            found.files.extend(entries(&self.place.join(&name).join("run/netarium")));
        }
        found.processes.sort();
        found.files.retain(|path| !path.ends_with("lock") && !path.ends_with(".lock"));
        found
    }

    /// Waits until the inventory equals `before`.
    #[track_caller]
    pub(crate) fn returns_to(&self, before: &Inventory, after: &str) {
        let start = Instant::now();
        loop {
            let now = self.inventory();
            if now == *before {
                return;
            }
            assert!(
                start.elapsed() < CLEANUP_TIMEOUT,
                "left behind {after}:\n{now:#?}\nbefore it was:\n{before:#?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Possible remains of labs in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inventory {
    /// Names of the processes, because restarted agents have other numbers.
    processes: Vec<String>,
    namespaces: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
}

pub(crate) fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state, _)| state != 'Z')
}

pub(crate) fn children(parent: u32) -> Vec<u32> {
    let pids = entries(Path::new("/proc")).filter_map(|process| number(&process));
    pids.filter(|pid| stat(*pid).is_some_and(|(_, state, of)| of == parent && state != 'Z'))
        .collect()
}

/// Whether the process is number 1 of its pid namespace (proc(5), `NSpid`).
fn is_first(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = text.lines();
    lines.any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
}

/// Name, state and parent of a process.
fn stat(pid: u32) -> Option<(String, char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = tail.split(' ');
    Some((name, fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn number(process: &Path) -> Option<u32> {
    process.file_name()?.to_str()?.parse().ok()
}
