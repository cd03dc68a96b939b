//! `netarium cluster revoke`.

use std::fs;

use cluster_live::credentials::CRL_FILE;
use serde_json::Value;

use super::bench::{Run, requires_labs, until};
use super::loopback::Loopback;

const LAB: &str = r#"
lab = { name = "revoked", duration = "2 s", model = "collapsed" }
node = { a = {}, b = {} }
link = [{ ends = ["a", "b"], delay = "5 ms", rate = "20 Mbit/s" }]
flow = [{ from = "a", to = "b", duration = "1 s" }]
"#;

/// The names of the agents that answer, if the first one receives from no other agent.
fn isolated_agents(status: &Value) -> Option<Vec<String>> {
    let agents = status["agents"].as_array()?;
    let has_no_live_peer =
        agents.first()?["peers"].as_array()?.iter().all(|peer| peer["alive"] == false);
    let names = agents.iter().map(|agent| agent["name"].as_str().unwrap_or_default().to_owned());
    has_no_live_peer.then(|| names.collect())
}

#[test]
fn revoked_agent_is_refused_by_running_agents_and_in_later_runs() {
    requires_labs!("true");
    let mut cluster = Loopback::new();
    let first = cluster.start("m1", None);
    let second = cluster.start("m2", Some(first));
    cluster.await_pair(first);
    cluster.authority(&["revoke", "m2"]);
    // It still runs, and m1 has the list.
    let names = until("m1 to lose all other agents", || isolated_agents(&cluster.status(first)?));
    assert_eq!(names, ["m1"], "the coordinator has the list");
    if let Some(status) = cluster.status(second) {
        let agents = status["agents"].as_array().unwrap();
        assert!(agents.iter().all(|agent| agent["name"] != "m2"), "{status:#}");
    }
    cluster.kill_last();
    let credentials = cluster.agent_credentials("m2");
    let mut command = cluster.bench.command(&["agent", "--listen", "127.0.0.1:0"]);
    let output = command.arg("--credentials").arg(&credentials).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("is revoked"), "{text}");
    // A stolen key is used without the list.
    fs::remove_file(credentials.join(CRL_FILE)).unwrap();
    let second = cluster.start("m2", Some(first));
    until("a link to m1", || cluster.printed("m2").contains("agent m1 is alive").then_some(()));
    let both = format!("agents = ['{first}', '{second}']\n");
    cluster.bench.write("hosts.toml", &both);
    cluster.bench.write("revoked.toml", LAB);
    let run = ["run", "revoked.toml", "--json", "--no-progress", "--no-report"];
    let mut command = cluster.bench.command(&run);
    command.args(["--cluster", "hosts.toml", "--credentials"]);
    let run = Run::of(command.arg(cluster.coordinator_credentials()).output().unwrap()).passed();
    let members = run.record()["cluster"]["members"].clone();
    assert_eq!(members.as_array().map(Vec::len), Some(1), "{members}");
    assert_eq!(members[0]["name"], "m1", "{members}");
}

#[test]
fn revoked_coordinator_gets_no_answer_from_a_running_agent() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    until("the agent to answer", || cluster.status(agent));
    cluster.authority(&["revoke", "coordinator"]);
    let credentials = cluster.coordinator_credentials();
    let error = || {
        let output = cluster.coordinator(agent, &["cluster", "status"]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = error();
    assert!(code == Some(2) && text.contains("is revoked"), "{text}");
    fs::remove_file(credentials.join(CRL_FILE)).unwrap();
    let text = until("the agent to read the list", || {
        let (code, text) = error();
        (code == Some(4)).then_some(text)
    });
    assert!(text.contains("not revoked?"), "{text}");
}
