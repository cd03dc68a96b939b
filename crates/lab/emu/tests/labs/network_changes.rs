//! Shards on a changing network: it becomes slower, fails and recovers, and clocks are corrected.

use std::time::Duration;

use base::{FlowId, Time};
use cluster::AgentId;
use cluster::control::ToShard;
use run::FlowSample;
use run::observation::Observation;

use super::shards::{has_requirements, is_punctual, median_share};
use super::test_cluster::{Member, TestCluster, plan};

pub(crate) const TESTS: &[super::Test] = &[
    ("egress_lead_time_changes_packet_delay", egress_lead_time_changes_packet_delay),
    ("reconnects_a_shard_after_a_partition", reconnects_a_shard_after_a_partition),
    ("slews_clock_after_correction", slews_clock_after_correction),
];

/// Two hosts with a path of 10 ms, and a third host next to the second.
const LINE: &str = r#"
[lab]
name = "line"
duration = "40 s"
model = "collapsed"
window = "off"
sharing = "max-min"
interval = "100 ms"
[node.a]
[node.b]
[node.c]
[node.r]
kind = "router"
[[link]]
ends = ["a", "r"]
delay = "6 ms"
[[link]]
ends = ["b", "r"]
delay = "6 ms"
[[link]]
ends = ["r", "c"]
delay = "4 ms"
rate = "8 Mbit/s"
"#;

/// `a` on the first agent, the others on the second.
fn owner(name: &str) -> Option<u16> {
    match name {
        "a" => Some(0),
        "r" => None,
        _ => Some(1),
    }
}

/// Samples of a flow, as recorded by one agent.
fn samples(member: &Member, text: &str, flow: u32) -> Vec<FlowSample> {
    let seen = member.observations(&plan(text)).into_iter();
    let samples = seen.filter_map(|seen| match seen {
        Observation::Flow(sample) if sample.flow == FlowId(flow) => Some(*sample),
        _ => None,
    });
    samples.collect()
}

/// Minimum delay of a flow's datagrams in an interval of lab time in seconds, in milliseconds.
fn delay(samples: &[FlowSample], from: f64, until: f64) -> f64 {
    let within = samples.iter().filter(|s| (from..until).contains(&s.at.as_secs_f64()));
    let delays = within.filter_map(|sample| sample.delay.as_ref()).map(|delay| delay.min_ns);
    delays.min().unwrap() as f64 / 1e6
}

/// Received bytes of a flow in an interval of lab time in seconds.
fn received(samples: &[FlowSample], from: f64, until: f64) -> u64 {
    let within = samples.iter().filter(|s| (from..until).contains(&s.at.as_secs_f64()));
    within.map(|sample| sample.received_bytes).sum()
}

fn lab_time(origin_ns: u64) -> f64 {
    sys::clock::monotonic().saturating_sub(origin_ns) as f64 / 1e9
}

const PACED: &str = r#"
[[flow]]
from = "a"
to = "c"
transport = "udp"
rate = "1 Mbit/s"
"#;

fn egress_lead_time_changes_packet_delay() {
    if !has_requirements("egress_lead_time_changes_packet_delay", &[]) {
        return;
    }
    let text = LINE.to_owned() + PACED;
    let mut cluster = TestCluster::with_wire(&text, owner);
    let origin = cluster.begin();
    cluster.run_to(2.0);
    // The test may be late, so the phases end when it changes something.
    let mut phases = vec![(0.3, lab_time(origin))];
    cluster.wire.as_ref().unwrap().delay(Duration::from_millis(6));
    let mut begun = lab_time(origin);
    cluster.run_to(begun + 2.5);
    phases.push((begun + 0.6, lab_time(origin)));
    cluster.members[0].send(&ToShard::Lead { agent: AgentId(1), lead_ns: 9_000_000 });
    begun = lab_time(origin);
    cluster.run_to(begun + 2.5);
    phases.push((begun + 0.8, lab_time(origin)));
    cluster.stop();
    let seen = samples(&cluster.members[1], &text, 0);
    // The path has a delay of 10 ms and a transmission time of 1.5 ms per packet. The network adds
    // 5 ms to the lead of 1 ms, and nothing to the lead of 9 ms.
    let [before, slow, after] = [0, 1, 2].map(|at: usize| delay(&seen, phases[at].0, phases[at].1));
    assert!((11.5..16.5).contains(&before), "{before} {slow} {after}");
    assert!(slow > 16.5, "a millisecond is too short a lead: {before} {slow} {after}");
    assert!((11.5..16.5).contains(&after), "{before} {slow} {after}");
    let (_, peers) = cluster.members[1].reports(&plan(&text));
    let late = &peers.iter().find(|peer| peer.peer == 0).unwrap().late;
    assert!(late.count() > 50, "only {} late datagrams", late.count());
    let (_, peers) = cluster.members[0].reports(&plan(&text));
    let lead = peers.iter().find(|peer| peer.peer == 1).unwrap().lead;
    assert_eq!(lead.as_nanos(), 9_000_000);
}

fn reconnects_a_shard_after_a_partition() {
    if !has_requirements("reconnects_a_shard_after_a_partition", &[]) {
        return;
    }
    for sharing in ["max-min", "slbn"] {
        let text = LINE.replace("max-min", sharing)
            + r#"
[[flow]]
name = "across"
from = "a"
to = "c"
duration = "16 s"
[[flow]]
name = "beside"
from = "b"
to = "c"
duration = "16 s"
"#;
        let mut cluster = TestCluster::with_wire(&text, owner);
        cluster.begin();
        cluster.run_to(5.0);
        cluster.wire.as_ref().unwrap().cut(true);
        cluster.run_to(6.0);
        for (member, agent) in [(0, 1), (1, 0)] {
            cluster.members[member].send(&ToShard::Lost { agent: AgentId(agent) });
        }
        cluster.run_to(8.5);
        cluster.wire.as_ref().unwrap().cut(false);
        for (member, agent) in [(0, 1), (1, 0)] {
            cluster.members[member].send(&ToShard::Regained { agent: AgentId(agent) });
        }
        cluster.run_to(16.0);
        cluster.finish();
        let seen = [0, 1].map(|flow| samples(&cluster.members[1], &text, flow));
        let bytes = |from, until| seen.each_ref().map(|samples| received(samples, from, until));
        let plan = plan(&text);
        let share = |member: usize, host, from, until| {
            let within = |at: Time, _| (from..until).contains(&at.as_secs_f64());
            median_share(&cluster.members[member], &plan, host, within)
        };
        let both = |from, until| [share(0, "a", from, until), share(1, "b", from, until)];
        // Each flow has half of 8 Mbit/s, or one has all of it; TCP sends less on a busy host.
        let (before, alone, after) = (both(2.0, 5.0), share(1, "b", 7.0, 8.5), both(13.0, 16.0));
        let bytes = [bytes(0.0, 5.0), bytes(7.5, 8.5), bytes(11.0, 16.0)];
        let summary = format!("{sharing}: shares {before:.2?} {alone:.2} {after:.2?} B {bytes:?}");
        assert!(before.iter().all(|share| (3.6..4.4).contains(share)), "{summary}");
        assert!(alone > 7.0, "{summary}");
        assert!(after.iter().all(|share| (3.6..4.4).contains(share)), "{summary}");
        let [first, cut, last] = bytes;
        assert!(first.iter().chain(&last).all(|bytes| *bytes > 10_000), "{summary}");
        assert!(cut[0] < cut[1], "{summary}");
        println!("{summary}");
    }
}

fn slews_clock_after_correction() {
    if !has_requirements("slews_clock_after_correction", &[]) {
        return;
    }
    let text = LINE.to_owned() + PACED;
    let mut cluster = TestCluster::with_wire(&text, owner);
    let origin_ns = cluster.begin();
    cluster.run_to(1.5);
    // The second agent's clock has been 1 ms ahead, which it corrects within 2 s.
    cluster.members[1].send(&ToShard::Clock { origin_ns: origin_ns + 1_000_000, bound_ns: 50_000 });
    cluster.run_to(6.0);
    cluster.stop();
    let seen = samples(&cluster.members[1], &text, 0);
    let is_punctual = cluster.members.iter().all(|member| is_punctual(member, &plan(&text)));
    // By its own clock, packets are on time before, during and after the correction.
    for (from, until) in [(0.3, 1.5), (2.0, 3.0), (4.0, 5.5)] {
        let delay = delay(&seen, from, until);
        let most = if is_punctual { 12.3 } else { f64::INFINITY };
        assert!((11.5..most).contains(&delay), "{delay} ms from {from} s on");
    }
    let (ending, peers) = cluster.members[1].reports(&plan(&text));
    assert_eq!(ending.clock_bound.unwrap().as_nanos(), 50_000);
    // Without the clock error the network delay is close to zero.
    let way = &peers.iter().find(|peer| peer.peer == 0).unwrap().delay;
    assert!(way.count() > 50, "{way:?}");
    assert!(way.percentile(0.1) < 500_000 || !is_punctual, "{way:?}");
}
