//! An agent runs labs with exactly the privileges of deploy/kubernetes: the capabilities, seccomp
//! profile and read-only files of a pod, in namespaces of this host.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize as _;
use serde_json::Value;

use super::bench::{NETARIUM, enclosed, installed, is_root, skip, until};
use super::loopback::{Loopback, free_address};

const LAB: &str = r#"
lab = { name = "pod", duration = "10 s", model = "collapsed" }
node = { a = {}, b = {} }
link = [{ ends = ["a", "b"], delay = "5 ms", rate = "20 Mbit/s" }]
flow = [{ from = "a", to = "b", duration = "1 s" }]
program = [{ name = "ping", node = "a", run = "ping -c 3 -i 0.3 b" }]
"#;

/// The file systems of the pod: all except the agent's folders are read-only, and parts of /proc
/// are masked like in container engines.
const POD: &str = r#"
set -eu
mount --make-rprivate /
mount --bind "$FOLDER" "$FOLDER"
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t tmpfs tmpfs /run
mount -o remount,bind,ro /
exec "$@"
"#;

fn context() -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/kubernetes");
    let text = std::fs::read_to_string(folder.join("agents.yaml")).unwrap();
    let mut documents =
        serde_norway::Deserializer::from_str(&text).map(|one| Value::deserialize(one).unwrap());
    let agents = documents.find(|document| document["kind"] == "DaemonSet").unwrap();
    agents["spec"]["template"]["spec"]["containers"][0]["securityContext"].clone()
}

/// A command prefix that runs a program with the privileges of `context`.
fn confined(context: &Value) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = |file: &str| root.join(file).canonicalize().unwrap().to_str().unwrap().to_owned();
    let mut words = vec![path("dev/with_seccomp.py"), path("deploy/seccomp.json")];
    let mut bounding = "--bounding-set=-all".to_owned();
    for capability in context["capabilities"]["add"].as_array().unwrap() {
        bounding += ",+";
        bounding += &capability.as_str().unwrap().to_lowercase();
    }
    words.extend(["setpriv", "--clear-groups", "--inh-caps=-all"].map(str::to_owned));
    if context["allowPrivilegeEscalation"] == false {
        words.push("--no-new-privs".to_owned());
    }
    words.push(bounding);
    words
}

#[test]
fn agent_with_the_privileges_of_a_pod_runs_a_lab() {
    let test = "agent_with_the_privileges_of_a_pod_runs_a_lab";
    let tools = ["ping", "setpriv", "unshare", "mount"];
    if !enclosed(test) || !installed(test, &tools) || (!is_root() && !skip(test, "not root")) {
        return;
    }
    let probe = Command::new("/usr/bin/python3").args(["-c", "import seccomp"]).output();
    if !probe.is_ok_and(|output| output.status.success()) && !skip(test, "no python3-seccomp") {
        return;
    }
    let cluster = Loopback::new();
    let (folder, own) = (cluster.bench.path(), free_address());
    let mut command = Command::new("unshare");
    cluster.bench.prepare(&mut command);
    command.args(["--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["sh", "-c", POD, "pod"]).args(confined(&context()));
    command.args([NETARIUM, "agent", "--name", "m1", "--listen", &own.to_string()]);
    command.arg("--credentials").arg(cluster.agent_credentials("m1"));
    command.arg("--dir").arg(folder.join("dir-m1"));
    command.env("FOLDER", folder).env("TMPDIR", folder).env("XDG_RUNTIME_DIR", folder);
    let log = std::fs::File::create(folder.join("m1.log")).unwrap();
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let mut pod = command.spawn().unwrap();
    until("the agent in the pod", || {
        assert!(pod.try_wait().unwrap().is_none(), "{}", cluster.printed("m1"));
        cluster.status(own)?["agents"].as_array().filter(|agents| agents.len() == 1).map(drop)
    });
    cluster.bench.write("pod.toml", LAB);
    let run = ["run", "pod.toml", "--json", "--no-progress", "--no-report"];
    let output = cluster.coordinator(own, &run).output().unwrap();
    let _ = pod.kill();
    let _ = pod.wait();
    let record: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let dump = String::from_utf8_lossy(&output.stderr);
    assert_eq!(record["status"], "finished", "{dump}\n{}", cluster.printed("m1"));
    assert_eq!(record["programs"][0]["end"]["exit"], 0, "{record}");
    assert!(
        record["flows"][0]["received_bytes"].as_u64().is_some_and(|bytes| bytes > 0),
        "{record}"
    );
}
