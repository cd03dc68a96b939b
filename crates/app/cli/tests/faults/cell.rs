//! An isolated environment for one test: new user, process, mount and network namespaces, in which
//! all remains of a lab can be counted.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::bench::{Bench, NETARIUM, entries, installed, network_namespaces, skip};

/// Environment variable that is set inside a cell.
const CELL_VARIABLE: &str = "NETARIUM_CELL";

/// Labs in a cell need three network namespaces at a time; the kernel frees them a little later.
const MAX_NETWORK_NAMESPACES: u32 = 40;

pub(crate) fn is_inside() -> bool {
    std::env::var_os(CELL_VARIABLE).is_some()
}

/// A command in new namespaces, as their root.
pub(crate) fn unshared(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork"]);
    command.args(["--mount-proc", "sh", "-ec", script, "sh"]);
    command
}

/// Whether such a command works; prints the reason if not.
pub(crate) fn possible(test: &str) -> bool {
    if !installed(test, &["unshare", "sh", "mount"]) {
        return false;
    }
    let output = unshared(
        "mount -t tmpfs tmpfs /mnt; ! test -e /proc/sys/user || test -w \
                           /proc/sys/user/max_net_namespaces",
    )
    .output()
    .unwrap();
    output.status.success()
        || skip(test, &format!("no namespaces: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Leaves the test, with a message, unless such a command works.
macro_rules! requires_cell {
    () => {{
        fn test() {}
        if !super::cell::possible(super::bench::caller(&test)) {
            return;
        }
    }};
}
pub(crate) use requires_cell;

/// Runs the ignored test `inner` of this program in a cell.
pub(crate) fn run(test: &str, inner: &str) {
    if !possible(test) {
        return;
    }
    // The first process must reap orphans, so it does not become the test itself. The limit detects
    // leaked namespaces without processes.
    // A separate /tmp excludes files of others; programs below it stay reachable.
    let script = format!(
        "dir=$(dirname {NETARIUM})
         mount --bind \"$dir\" /mnt
         mount -t tmpfs tmpfs /tmp
         case $dir in /tmp/*) mkdir -p \"$dir\"; mount --bind /mnt \"$dir\" ;; esac
         echo {MAX_NETWORK_NAMESPACES} > /proc/sys/user/max_net_namespaces
         \"$@\" || exit $?"
    );
    let output = unshared(&script)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", inner, "--ignored", "--nocapture", "--test-threads", "1"])
        .env(CELL_VARIABLE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("1 passed"), "no test {inner}: {printed}");
}

/// Possible remains in a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inventory {
    processes: BTreeSet<String>,
    network_namespaces: BTreeSet<PathBuf>,
    devices: BTreeSet<String>,
    mounts: Vec<String>,
    temporary: BTreeSet<PathBuf>,
    registered: BTreeSet<PathBuf>,
}

impl Inventory {
    pub(crate) fn take(bench: &Bench) -> Self {
        let mut taken = Self {
            processes: BTreeSet::new(),
            network_namespaces: BTreeSet::new(),
            devices: devices(),
            mounts: mounts(),
            temporary: entries(Path::new("/tmp")).collect(),
            registered: entries(&bench.path().join("netarium"))
                .filter(|path| path.extension().is_some_and(|e| e == "json"))
                .collect(),
        };
        for process in entries(Path::new("/proc")) {
            let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
            let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
            if tail.starts_with('Z') {
                continue;
            }
            taken.processes.insert(head.to_owned());
            taken.network_namespaces.extend(network_namespaces(&process));
        }
        taken
    }

    /// Waits until the inventory is as before: a lab whose command was killed ends a little later.
    #[track_caller]
    pub(crate) fn returns(&self, bench: &Bench, after: &str) {
        let start = Instant::now();
        loop {
            let now = Self::take(bench);
            if now == *self {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "left behind {after}:\n{now:#?}\nbefore it was:\n{self:#?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn devices() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap();
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

fn mounts() -> Vec<String> {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().map(str::to_owned).collect()
}
