//! Full disks of agents and coordinators: each run ends with the reason or succeeds, leaves no
//! incomplete files, and the agent can serve the next run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::bench::{NETARIUM, enclosed, installed, is_root, requires_labs, skip, until};
use super::loopback::{Loopback, free_address};

const LAB: &str = r#"
lab = { name = "small", duration = "60 s", interval = "100 ms", model = "collapsed" }
node = { a = {}, b = {} }
link = [{ ends = ["a", "b"], rate = "10 Mbit/s" }]
program = [{ name = "p", node = "a", run = "head -c 300000 /dev/urandom" }]
"#;

/// Runs the lab on the agent. Files of the coordinator have at most this many blocks of 512 bytes.
fn run(cluster: &Loopback, agent: SocketAddr, blocks: Option<u32>) -> Output {
    cluster.bench.write("lab.toml", LAB);
    let limit = blocks.map_or("unlimited".to_owned(), |blocks| blocks.to_string());
    let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
    let mut command = Command::new("sh");
    cluster.bench.prepare(&mut command);
    command.args(["-c", &script, "sh", NETARIUM, "run", "lab.toml", "--no-progress"]);
    command.args(["--no-report", "--cluster", &agent.to_string(), "--credentials"]);
    command.arg(cluster.coordinator_credentials()).output().unwrap()
}

/// The error in how a run has ended, if there is one, given the permitted reason; and
/// its exit code.
fn check_end(cluster: &Loopback, output: &Output, reason: &str) -> (i32, Option<String>) {
    let code = output.status.code().unwrap_or(-1);
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    // Lines are wrapped.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let folders: Vec<PathBuf> = std::fs::read_dir(cluster.bench.path().join("runs"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    let fault = match (code, &*folders) {
        // A run may be distorted on a busy host.
        (0 | 3, [folder]) => half_written(folder).or_else(|| {
            let whole = folder.join("programs/p/stdout").metadata();
            let whole = whole.is_ok_and(|about| about.len() == 300_000);
            (!whole).then(|| "exit code 0 or 3 without the whole output".to_owned())
        }),
        (4, []) if text.contains(reason) => None,
        (4 | 5, [folder]) if text.contains(reason) => half_written(folder),
        _ => Some(format!("exit code {code}, folders {folders:?}")),
    };
    for folder in folders {
        std::fs::remove_dir_all(folder).unwrap();
    }
    (code, fault.map(|fault| format!("{fault}: {text}")))
}

/// Missing or additional files of a run folder.
fn half_written(folder: &Path) -> Option<String> {
    let text = std::fs::read(folder.join("run.json")).unwrap_or_default();
    let record: Value = serde_json::from_slice(&text).unwrap_or_default();
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let hidden: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    let unfinished = ["running", ""].contains(&record["status"].as_str().unwrap_or_default());
    (unfinished || !hidden.is_empty())
        .then(|| format!("status {}, left behind: {hidden:?}", record["status"]))
}

/// Waits until the agent has no labs.
fn await_idle(cluster: &Loopback, agent: SocketAddr) {
    until("the agent to be idle", || {
        let status = cluster.status(agent)?;
        let agents = status["agents"].as_array()?;
        (agents.len() == 1 && agents[0]["labs"].as_array()?.is_empty()).then_some(())
    });
}

#[test]
fn coordinator_with_full_disk_stores_nothing_and_reports_it() {
    let test = "coordinator_with_full_disk_stores_nothing_and_reports_it";
    requires_labs!("sh", "head");
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    let mut codes = Vec::new();
    for blocks in [0, 1, 2, 4, 8, 16, 32, 128, 512, 4096] {
        let (code, fault) =
            check_end(&cluster, &run(&cluster, agent, Some(blocks)), "File too large");
        assert_eq!(fault, None, "{blocks} blocks");
        codes.push(code);
        // Agents retain results that could not be stored.
        for _ in 0..usize::from(code == 4) {
            let collect = ["cluster", "collect", "small", "--no-report"];
            let output = cluster.coordinator(agent, &collect).output().unwrap();
            assert!(matches!(check_end(&cluster, &output, "-"), (0 | 3, None)), "{blocks} blocks");
        }
        await_idle(&cluster, agent);
    }
    eprintln!("{test}: exit codes {codes:?}");
    assert!(codes.first() == Some(&4) && codes.last() != Some(&4), "{codes:?}");
}

/// An agent whose folder is on a disk of this size.
fn start_with_small_disk(cluster: &Loopback, size: &str) -> (Child, SocketAddr) {
    let own = free_address();
    let folder = cluster.bench.path().join("small");
    std::fs::create_dir_all(&folder).unwrap();
    let script =
        format!("mount --make-rprivate /; mount -t tmpfs -o size={size} tmpfs \"$0\"; exec \"$@\"");
    let mut command = Command::new("unshare");
    cluster.bench.prepare(&mut command);
    command.args(["--mount", "sh", "-ec", &script]).arg(&folder).arg(NETARIUM).arg("agent");
    command.args(["--listen", &own.to_string(), "--credentials"]);
    command.arg(cluster.agent_credentials("m1")).arg("--dir").arg(folder.join("work"));
    let log = std::fs::File::create(cluster.bench.path().join("small.log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    (command.spawn().unwrap(), own)
}

#[test]
fn agent_with_full_disk_fails_its_labs_and_stores_nothing() {
    let test = "agent_with_full_disk_fails_its_labs_and_stores_nothing";
    let tools = ["unshare", "mount", "head"];
    if !enclosed(test) || !installed(test, &tools) || (!is_root() && !skip(test, "not root")) {
        return;
    }
    let cluster = Loopback::new();
    let mut codes = Vec::new();
    for size in ["8k", "16k", "32k", "64k", "128k", "256k", "384k", "512k", "64m"] {
        let (mut agent, own) = start_with_small_disk(&cluster, size);
        await_idle(&cluster, own);
        let work = PathBuf::from(format!("/proc/{}/root", agent.id()))
            .join(cluster.bench.path().join("small/work").strip_prefix("/").unwrap());
        let files = || -> Vec<_> {
            let entries = std::fs::read_dir(&work).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.filter(|name| name != "lock").collect()
        };
        for _ in 0..2 {
            let output = run(&cluster, own, None);
            let (code, fault) = check_end(&cluster, &output, "o space left");
            await_idle(&cluster, own);
            let left = files();
            codes.push(code);
            if fault.is_some() || !left.is_empty() {
                let _ = agent.kill();
                let _ = agent.wait();
                panic!("{size}: {fault:?}, left behind: {left:?}\n{}", cluster.printed("small"));
            }
        }
        agent.kill().unwrap();
        agent.wait().unwrap();
    }
    eprintln!("{test}: exit codes {codes:?}");
    assert!(codes.first() == Some(&4) && codes.last() != Some(&4), "{codes:?}");
}
