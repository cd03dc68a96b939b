//! An agent that is disconnected for a few seconds.

use std::time::Duration;

use super::bench::{Run, conclusive, until};
use super::harness::{Cluster, in_cluster};

/// Two senders share a link, and a program waits for one that starts on a disconnected agent.
const LAB: &str = r#"
lab = { name = "cut", duration = "19 s", model = "collapsed", sharing = "max-min", window = "off" }
cluster = { on_agent_loss = "continue" }
link = [
    { ends = ["a", "left"], rate = "100 Mbit/s", delay = "5 ms" },
    { ends = ["b", "left"], rate = "100 Mbit/s", delay = "5 ms" },
    { ends = ["left", "right"], rate = "12 Mbit/s", delay = "5 ms", name = "line" },
    { ends = ["right", "c"], rate = "100 Mbit/s", delay = "5 ms" },
]
flow = [
    { name = "one", from = "a", to = "c", control = "cubic" },
    { name = "two", from = "b", to = "c", control = "cubic" },
]
node.a.machine = "m1"
node.b.machine = "m2"
node.c.machine = "m3"
node.left.kind = "router"
node.right.kind = "router"
expect = [
    # Of 12 Mbit/s each has a half, less headers; or all of it, while the other is away. TCP
    # itself backs off exponentially. A busy host delays data, but not for a whole interval.
    { that = "flow.one.goodput.max >= 9 Mbit/s between 3 s and 10 s" },
    { that = "flow.one.goodput.max >= 4 Mbit/s between 16 s and 19 s" },
    { that = "flow.one.goodput.mean <= 9 Mbit/s between 16 s and 19 s" },
    { that = "flow.two.goodput.max >= 4 Mbit/s between 16 s and 19 s" },
    { that = "flow.two.goodput.mean <= 9 Mbit/s between 16 s and 19 s" },
]
[[program]]
name = "begins"
node = "b"
start = "4 s"
run = "sleep 4711"
service = true
[[program]]
name = "waits"
node = "a"
after = ["begins"]
run = "true"
[[program]]
name = "on-c"
node = "c"
run = "sleep 4711"
service = true
[[program]]
name = "on-a"
node = "a"
run = "sleep 4711"
service = true
"#;

in_cluster!(returning_agent_rejoins_lab, disconnect_for_5_s, &["3"]);

#[test]
#[ignore = "runs in a cluster, started by returning_agent_rejoins_lab"]
fn disconnect_for_5_s() {
    let Some(cluster) = Cluster::inside() else { return };
    conclusive("disconnect_for_5_s", || run(&cluster), Run::expectations_passed);
}

fn run(cluster: &Cluster) -> Run {
    let mut running = cluster.start(LAB, &["--stay"]);
    let _ = ["m1", "m3"].map(|agent| cluster.shards::<1>(agent, &mut running));
    std::thread::sleep(Duration::from_secs(2));
    Cluster::cable("m2", "down");
    // Agents detect a loss after 2 s, later on a busy host. TCP repeats a packet after 3.0 s and
    // 6.2 s, so a longer outage up to 6 s does not delay the return.
    std::thread::sleep(Duration::from_secs(5));
    Cluster::cable("m2", "up");
    let run = running.finish();
    assert_eq!(run.program("waits")["end"]["exit"], 0, "{}", run.dump());
    let members = run.record()["cluster"]["members"].as_array().unwrap();
    let outages = members.iter().find(|member| member["name"] == "m2").unwrap()["outages"].clone();
    assert_eq!(outages.as_array().unwrap().len(), 1, "{outages}");
    assert!(outages[0]["until_s"].is_number(), "it came back: {outages}");
    let verdict = &run.record()["verdict"];
    assert!(verdict["trusted"] == false && verdict.to_string().contains("m2"), "{verdict}");
    run
}

in_cluster!(agents_find_each_other_after_outage_of_one_lease, disconnect_for_one_lease, &["2"]);

/// Time without messages after which agents close a connection.
const LEASE: Duration = Duration::from_secs(5);

/// Whether both agents receive the heartbeats of the other one.
fn are_connected(cluster: &Cluster) -> bool {
    let status = cluster.status();
    let agents = status["agents"].as_array().unwrap();
    let alive = agents.iter().filter(|agent| agent["peers"][0]["alive"] == true);
    alive.count() == 2
}

#[test]
#[ignore = "runs in a cluster, started by agents_find_each_other_after_outage_of_one_lease"]
fn disconnect_for_one_lease() {
    let Some(cluster) = Cluster::inside() else { return };
    assert!(are_connected(&cluster), "before the outage");
    Cluster::cable("m2", "down");
    std::thread::sleep(LEASE);
    Cluster::cable("m2", "up");
    until("the agents to find each other", || are_connected(&cluster).then_some(()));
}
