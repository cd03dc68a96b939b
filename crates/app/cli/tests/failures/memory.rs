//! Processes killed by the kernel for lack of memory, and processes killed by others.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::bench::{Bench, NETARIUM, Running, requires_labs, skip};

const LAB: &str = r#"
lab = { name = "hungry", duration = "80 s" }
node.a = {}
node.b = {}
link = [{ ends = ["a", "b"] }]
program = [{ name = "p", node = "a", run = "PROGRAM" }]
"#;

/// A control group with 200 MB of memory.
struct Group(PathBuf);

impl Group {
    fn new(test: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let (root, limit) = match controllers {
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                "" => ("/sys/fs/cgroup", "memory.max"),
                _ => return None,
            };
            let group = format!("{root}/{path}/netarium-test-{}", std::process::id());
            fs::create_dir(&group).ok()?;
            let limited = fs::write(format!("{group}/{limit}"), "200000000");
            let group = Self(PathBuf::from(group));
            limited.ok().map(|()| group)
        });
        if path.is_none() {
            skip(test, "no control group for memory can be made");
        }
        path
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may not have exited yet.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn reports_program_killed_by_oom() {
    let test = "reports_program_killed_by_oom";
    requires_labs!();
    let Some(group) = Group::new(test) else { return };
    let bench = Bench::new();
    bench.write("lab.toml", &LAB.replace("PROGRAM", "tail /dev/zero"));
    let mut command = Command::new("sh");
    let join = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    command.args(["-c", &join, "sh", NETARIUM, "run", "lab.toml", "--json", "--no-progress"]);
    bench.prepare(&mut command);
    let run = Running::spawn(&mut command).finish();
    assert_eq!(run.code, Some(5), "{}", run.dump());
    assert_eq!(run.record()["programs"][0]["end"], "out_of_memory", "{}", run.dump());
    assert!(run.record()["warnings"].to_string().contains("OOM killer"), "{}", run.dump());
}

#[test]
fn killed_simulation_is_shown_as_killed() {
    let bench = Bench::new();
    let lab = LAB.replace("80 s", "20000 s").replace(
        "program = [{ name = \"p\", node = \"a\", run = \"PROGRAM\" }]",
        "flow = [{ name = \"f\", from = \"a\", to = \"b\" }]",
    );
    bench.write("lab.toml", &lab);
    let mut command = bench.command(&["sim", "lab.toml", "--quiet"]);
    let mut child = command.spawn().unwrap();
    let folder = super::bench::until("a record", || {
        let entry = fs::read_dir(bench.path().join("runs")).ok()?.next()?.unwrap();
        entry.path().join("run.json").is_file().then(|| entry.path())
    });
    let status = || {
        let output = bench.netarium(&["report", folder.to_str().unwrap(), "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (report["run"]["status"].as_str().unwrap().to_owned(), report["run"]["failure"].to_string())
    };
    assert_eq!(status().0, "running");
    child.kill().unwrap();
    child.wait().unwrap();
    let (status, failure) = status();
    assert_eq!(status, "killed");
    assert!(failure.contains("killed"), "{failure}");
}
