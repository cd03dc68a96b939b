//! A lab in several shards, with real programs in each.

use std::path::Path;

use base::Time;
use cluster::AgentId;
use cluster::control::ToShard;
use emu::doctor::Facts;
use fabric::Share;
use lab::plan::Plan;
use run::observation::Observation;
use run::record::Status;
use rustix::process::Signal;
use serde_json::Value;

use super::test_cluster::{Member, TestCluster, plan};

pub(crate) const TESTS: &[super::Test] = &[
    ("pings_cross_between_shards", pings_cross_between_shards),
    ("shards_agree_on_shares", shards_agree_on_shares),
    ("slbn_probes_agree_on_shares", slbn_probes_agree_on_shares),
    ("other_shards_continue_after_loss_of_one", other_shards_continue_after_loss_of_one),
    ("reports_killed_and_hung_labs", reports_killed_and_hung_labs),
    ("shards_end_after_agent_disconnects", shards_end_after_agent_disconnects),
];

/// Whether the system has what a test needs; otherwise prints a note.
pub(crate) fn has_requirements(test: &str, commands: &[&str]) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |command: &&str| {
        std::env::split_paths(&search).any(|dir| Path::new(&dir).join(command).exists())
    };
    let refused = Facts::collect().ok().and_then(|facts| facts.namespaces);
    let fine = refused.is_none() && commands.iter().all(is_there);
    if !fine {
        println!("SKIPPED {test}: no namespaces, or not all of {commands:?}");
    }
    fine
}

/// Three hosts around a router.
const STAR: &str = r#"
[lab]
name = "star"
duration = "40 s"
model = "collapsed"
[node.a]
[node.b]
[node.c]
[node.r]
kind = "router"
[[link]]
ends = ["a", "r"]
delay = "8 ms"
[[link]]
ends = ["b", "r"]
delay = "8 ms"
[[link]]
ends = ["r", "c"]
delay = "7 ms"
rate = "8 Mbit/s"
"#;

/// One host per shard.
fn one_host_per_agent(name: &str) -> Option<u16> {
    ["a", "b", "c"].iter().position(|host| *host == name).map(|at| at as u16)
}

fn pings_cross_between_shards() {
    if !has_requirements("pings_cross_between_shards", &["ping"]) {
        return;
    }
    let text = STAR.to_owned()
        + r#"
[[program]]
name = "ping4"
node = "a"
run = "ping -4 -c 20 -i 0.05 -W 10 c"
[[program]]
name = "ping6"
node = "b"
run = "ping -6 -c 20 -i 0.05 -W 10 a"
[[program]]
name = "hops"
node = "c"
run = "ping -c 1 -W 10 -t 1 b || ping -c 3 -i 0.05 -W 10 r"
"#;
    let mut cluster = TestCluster::launch(&text, 3, one_host_per_agent);
    cluster.begin();
    cluster.finish();
    let plan = plan(&text);
    let is_punctual = cluster.members.iter().all(|member| is_punctual(member, &plan));
    for (member, program, least) in [(0, "ping4", 30.0), (1, "ping6", 32.0)] {
        let output = cluster.members[member].output(program);
        assert!(output.contains("20 received, 0% packet loss"), "{output}");
        let shortest = output.rsplit_once("= ").unwrap().1.split('/').next().unwrap();
        let shortest: f64 = shortest.parse().unwrap();
        // On a busy host even the best sample may be late.
        let most = if is_punctual { least * 1.05 } else { f64::INFINITY };
        assert!((least - 0.05..most).contains(&shortest), "{output}");
    }
    // The router's ICMP errors are generated on the agent that sent the packet.
    let output = cluster.members[2].output("hops");
    assert!(output.contains("Time to live exceeded") && output.contains("3 received"), "{output}");
    let state = &cluster.members[0].progress.trunks;
    assert!(state[0].received == 0 && state[1].received > 0 && state[2].received > 0, "{state:?}");
    for member in &cluster.members {
        let (ending, peers) = member.reports(&plan);
        assert_eq!(ending.status, Status::Interrupted, "ended by its agent");
        assert!(ending.delivered > 0 && ending.lateness.count() > 0, "{ending:?}");
        assert!(peers.iter().all(|peer| peer.lost == 0 && peer.forged == 0), "{peers:?}");
    }
}

/// Whether the shard's packets were on time, so that delays of programs are exact.
pub(crate) fn is_punctual(member: &Member, plan: &Plan) -> bool {
    const MAX_LATENESS_NANOS: u64 = 200_000;
    let (ending, peers) = member.reports(plan);
    let late: u64 = peers.iter().map(|peer| peer.late.count()).sum();
    ending.lateness.percentile(0.99) < MAX_LATENESS_NANOS && late < ending.delivered / 100
}

/// Two servers, and clients on other agents that wait for them.
const STREAMS: &str = r#"
[[program]]
name = "server1"
node = "c"
run = "iperf3 -s -1 -p 5201"
ready = "port 5201"
[[program]]
name = "server2"
node = "c"
run = "iperf3 -s -1 -p 5202"
ready = "port 5202"
[[program]]
name = "first"
node = "a"
after = ["server1", "server2"]
run = "iperf3 -c c -p 5201 -t 4 -J"
[[program]]
name = "second"
node = "b"
after = ["server1", "server2"]
run = "iperf3 -c c -p 5202 -t 4 -J"
"#;

/// Bytes that an iperf3 server has received.
fn received(json: &str) -> u64 {
    let output: Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"));
    output["end"]["sum_received"]["bytes"].as_u64().unwrap_or_else(|| panic!("{json}"))
}

/// Median share in Mbit/s of the largest stream from a host in the middle of its run.
fn share(member: &Member, plan: &Plan, host: &str) -> f64 {
    // Between 25 % and 75 % of the bytes that half of the link carries in 4 s.
    median_share(member, plan, host, |_, sent| (500_000..1_500_000).contains(&sent))
}

/// Median share in Mbit/s of the largest stream from a host in those samples that have a suitable
/// time and number of sent bytes.
pub(crate) fn median_share(
    member: &Member,
    plan: &Plan,
    host: &str,
    suits: impl Fn(Time, u64) -> bool,
) -> f64 {
    let node = plan.nodes.iter().find(|node| node.name == host).unwrap();
    let mut shares: Vec<f64> = Vec::new();
    for seen in member.observations(plan) {
        let Observation::Counters(counters) = seen else { continue };
        let streams = counters.shares.iter().map(|row| Share::from(*row));
        let streams = streams.filter(|share| share.stream && share.from == node.ifaces[0]);
        let largest = streams.max_by_key(|share| share.sent);
        let sent = largest.as_ref().map_or(0, |share| share.sent);
        if suits(counters.at, sent) {
            shares.extend(largest.and_then(|l| l.share).map(|s| s.bits_per_sec() as f64 / 1e6));
        }
    }
    shares.sort_by(f64::total_cmp);
    assert!(!shares.is_empty(), "no suitable sample of {host}");
    shares[shares.len() / 2]
}

fn streams_share(test: &str, sharing: &str) {
    if !has_requirements(test, &["iperf3"]) {
        return;
    }
    let lab = STAR.replace("model =", &format!("sharing = \"{sharing}\"\nmodel ="));
    let text = lab + STREAMS;
    let mut cluster = TestCluster::launch(&text, 3, one_host_per_agent);
    cluster.begin();
    cluster.finish();
    let bytes = [
        received(&cluster.members[0].output("first")),
        received(&cluster.members[1].output("second")),
    ];
    let plan = plan(&text);
    let shares = [(0, "a"), (1, "b")].map(|(at, host)| share(&cluster.members[at], &plan, host));
    assert!(shares.iter().all(|share| (3.8..4.2).contains(share)), "{shares:?} of 8 Mbit/s");
    // Half of 8 Mbit/s is 2 MB in 4 s; TCP sends less on a busy host.
    assert!(bytes.iter().all(|bytes| *bytes > 100_000), "{bytes:?}");
    let (ending, _) = cluster.members[0].reports(&plan);
    assert!(ending.notices.count() > 0 && ending.messages.sent > 0, "{:?}", ending.messages);
    // The same hosts on one agent.
    let folder = tempfile::tempdir().unwrap();
    let options = emu::run::Options {
        runs_dir: folder.path().to_owned(),
        lab_dir: folder.path().to_owned(),
        repeat: String::new(),
        engine: None,
        stay: false,
        starter: None,
        up: None,
    };
    let record = emu::run::run(&plan, &options, &mut |_| ()).unwrap();
    assert_eq!(record.status, Status::Finished, "{:?}", record.warnings);
    let at = |id: &str, program: &str| {
        let path = folder.path().join(format!("{}-{id}", plan.name));
        received(
            &std::fs::read_to_string(path.join("programs").join(program).join("stdout")).unwrap(),
        )
    };
    let alone = ["first", "second"].map(|program| at(&record.id, program));
    assert!(alone.iter().all(|bytes| *bytes > 100_000), "{alone:?}");
    println!(
        "{test}: {bytes:?} B, alone {alone:?} B; notices took {} us at the median, {} us at p99",
        ending.notices.percentile(0.5) / 1_000,
        ending.notices.percentile(0.99) / 1_000,
    );
}

fn shards_agree_on_shares() {
    streams_share("shards_agree_on_shares", "rtt-max-min");
}

fn slbn_probes_agree_on_shares() {
    streams_share("slbn_probes_agree_on_shares", "slbn");
}

fn other_shards_continue_after_loss_of_one() {
    if !has_requirements("other_shards_continue_after_loss_of_one", &["ping"]) {
        return;
    }
    // Shard 0 runs to the end of the lab without shard 1.
    let text = STAR.replace("40 s", "12 s")
        + r#"
[[program]]
name = "far"
node = "a"
run = "ping -c 200 -i 0.1 c"
service = true
[[program]]
name = "near"
node = "a"
run = "ping -c 40 -i 0.05 b"
start = "5 s"
"#;
    let plan = plan(&text);
    assert_eq!(plan.programs.len(), 2);
    let mut cluster = TestCluster::launch(&text, 2, |name| match name {
        "c" => Some(1),
        "r" => None,
        _ => Some(0),
    });
    cluster.begin();
    cluster.run_until(|cluster| cluster.members[1].progress.now_ns > 3_000_000_000);
    let trunk = cluster.members[1].trunk;
    cluster.members[1].kill();
    cluster.run_until(|cluster| cluster.members[1].ended.is_some());
    cluster.members[0].send(&ToShard::Lost { agent: AgentId(1) });
    // The lab's process had the only copy of its socket.
    cluster.run_until(|_| std::net::UdpSocket::bind(trunk).is_ok());
    cluster.finish();
    let output = cluster.members[0].output("near");
    assert!(output.contains("40 received, 0% packet loss"), "{output}");
    let output = cluster.members[0].output("far");
    assert!(output.contains("bytes from"), "{output}");
}

fn reports_killed_and_hung_labs() {
    if !has_requirements("reports_killed_and_hung_labs", &[]) {
        return;
    }
    let mut cluster = TestCluster::launch(STAR, 3, one_host_per_agent);
    cluster.begin();
    cluster.run_until(|cluster| cluster.members.iter().all(|member| member.progress.now_ns > 0));
    cluster.members[0].signal_lab(Signal::KILL);
    cluster.members[1].signal_lab(Signal::STOP);
    cluster.run_until(|cluster| cluster.members[..2].iter().all(|member| member.ended.is_some()));
    let why = |at: usize| cluster.members[at].ended.as_ref().unwrap().as_ref().unwrap_err();
    assert!(why(0).contains("killed by SIGKILL"), "{}", why(0));
    assert!(why(1).contains("sent no report"), "{}", why(1));
    cluster.send(&ToShard::Stop);
    cluster.run_until(|cluster| cluster.members[2].ended.is_some());
    assert!(cluster.members[2].ended.as_ref().unwrap().is_ok());
}

fn shards_end_after_agent_disconnects() {
    if !has_requirements("shards_end_after_agent_disconnects", &["sleep"]) {
        return;
    }
    let text = STAR.to_owned() + "[[program]]\nname = \"long\"\nnode = \"a\"\nrun = \"sleep 1000\"";
    let mut cluster = TestCluster::launch(&text, 3, one_host_per_agent);
    cluster.begin();
    cluster.run_until(|cluster| cluster.members.iter().all(|member| member.progress.now_ns > 0));
    for member in &mut cluster.members {
        assert_eq!(member.abandon().code(), 0);
    }
}
