//! Pieces on a network that changes under them: it becomes slower, is cut and mended, and clocks
//! turn out to have been wrong.

use std::time::Duration;

use base::FlowId;
use cluster::AgentId;
use cluster::control::ToPiece;
use outcome::observation::Observation;
use record::FlowSample;

use super::cell::{Cell, Member, plan};
use super::pieces::possible;

pub(crate) const TESTS: &[super::Test] = &[
    ("leads_follow_the_network", leads_follow_the_network),
    ("a_piece_that_was_cut_off_is_taken_in_again", a_piece_that_was_cut_off_is_taken_in_again),
    ("clocks_are_put_right", clocks_are_put_right),
];

/// Two hosts with 10 ms between them, and a third beside the second.
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

/// `a` on the first member, the others on the second.
fn owner(name: &str) -> Option<u16> {
    match name {
        "a" => Some(0),
        "r" => None,
        _ => Some(1),
    }
}

/// Samples of a flow, as one member saw them.
fn samples(member: &Member, text: &str, flow: u32) -> Vec<FlowSample> {
    let seen = member.observations(&plan(text)).into_iter();
    let samples = seen.filter_map(|seen| match seen {
        Observation::Flow(sample) if sample.flow == FlowId(flow) => Some(*sample),
        _ => None,
    });
    samples.collect()
}

/// The smallest delay of a flow's datagrams in some seconds of lab time, in milliseconds.
fn delay(samples: &[FlowSample], from: f64, until: f64) -> f64 {
    let within = samples.iter().filter(|s| (from..until).contains(&s.at.as_secs_f64()));
    let delays = within.filter_map(|sample| sample.delay.as_ref()).map(|delay| delay.min_ns);
    delays.min().unwrap() as f64 / 1e6
}

/// Mbit/s of a flow's payload in some seconds of lab time.
fn rate(samples: &[FlowSample], from: f64, until: f64) -> f64 {
    let within = samples.iter().filter(|s| (from..until).contains(&s.at.as_secs_f64()));
    let bytes: u64 = within.map(|sample| sample.received_bytes).sum();
    bytes as f64 * 8.0 / (until - from) / 1e6
}

const PACED: &str = r#"
[[flow]]
from = "a"
to = "c"
transport = "udp"
rate = "1 Mbit/s"
duration = "6 s"
"#;

fn leads_follow_the_network() {
    if !possible("leads_follow_the_network", &[]) {
        return;
    }
    let text = LINE.to_owned() + PACED;
    let mut cell = Cell::wired(&text, owner);
    cell.begin();
    cell.run_to(2.0);
    cell.wire.as_ref().unwrap().delay(Duration::from_millis(6));
    cell.run_to(4.0);
    cell.members[0].tell(&ToPiece::Lead { agent: AgentId(1), lead_ns: 9_000_000 });
    cell.finish();
    let seen = samples(&cell.members[1], &text, 0);
    // The path takes 10 ms, and its line 1.5 ms for a packet.
    let [before, slow, after] =
        [(0.5, 1.9), (2.6, 3.9), (4.8, 5.9)].map(|(from, until)| delay(&seen, from, until));
    assert!((11.5..12.5).contains(&before), "{before} {slow} {after}");
    assert!(slow > 16.5, "a millisecond is too short a lead: {before} {slow} {after}");
    assert!((11.5..12.5).contains(&after), "{before} {slow} {after}");
    let (_, peers) = cell.members[1].observed(&plan(&text));
    let late = &peers.iter().find(|peer| peer.peer == 0).unwrap().late;
    assert!(late.count() > 50, "what came late is counted: {}", late.count());
    let (_, peers) = cell.members[0].observed(&plan(&text));
    let lead = peers.iter().find(|peer| peer.peer == 1).unwrap().lead;
    assert_eq!(lead.as_nanos(), 9_000_000);
}

fn a_piece_that_was_cut_off_is_taken_in_again() {
    if !possible("a_piece_that_was_cut_off_is_taken_in_again", &[]) {
        return;
    }
    for sharing in ["max-min", "slbn"] {
        let text = LINE.replace("max-min", sharing)
            + r#"
[[flow]]
name = "across"
from = "a"
to = "c"
duration = "14 s"
[[flow]]
name = "beside"
from = "b"
to = "c"
duration = "14 s"
"#;
        let mut cell = Cell::wired(&text, owner);
        cell.begin();
        cell.run_to(3.0);
        cell.wire.as_ref().unwrap().cut(true);
        cell.run_to(4.0);
        for (member, agent) in [(0, 1), (1, 0)] {
            cell.members[member].tell(&ToPiece::Lost { agent: AgentId(agent) });
        }
        cell.run_to(6.5);
        cell.wire.as_ref().unwrap().cut(false);
        for (member, agent) in [(0, 1), (1, 0)] {
            cell.members[member].tell(&ToPiece::Regained { agent: AgentId(agent) });
        }
        cell.run_to(14.0);
        cell.finish();
        let [across, beside] = [0, 1].map(|flow| samples(&cell.members[1], &text, flow));
        let mean = |from, until| [&across, &beside].map(|seen| rate(seen, from, until));
        // Of 8 Mbit/s on the wire each has a half: 3.76 of payload, where TCP gets a CPU in time;
        // or one has all of it, as soon as TCP has found it.
        let (before, cut, after) = (mean(1.5, 3.0), mean(5.5, 6.5), mean(11.0, 14.0));
        let told = format!("{sharing}: {before:.2?} {cut:.2?} {after:.2?}");
        assert!(before.iter().all(|rate| (2.0..6.0).contains(rate)), "{told}");
        assert!(cut[0] == 0.0 && cut[1] > 5.0, "{told}");
        assert!(after.iter().all(|rate| (2.0..6.0).contains(rate)), "{told}");
        println!("{told} Mbit/s");
    }
}

fn clocks_are_put_right() {
    if !possible("clocks_are_put_right", &[]) {
        return;
    }
    let text = LINE.to_owned() + PACED;
    let mut cell = Cell::wired(&text, owner);
    let origin_ns = cell.begin();
    cell.run_to(1.0);
    // The second member has been 1 ms ahead all the time, which it makes good in two seconds.
    cell.members[1].tell(&ToPiece::Clock { origin_ns: origin_ns + 1_000_000, bound_ns: 50_000 });
    cell.finish();
    let seen = samples(&cell.members[1], &text, 0);
    // By its own clock packets are on time before, meanwhile and afterwards.
    for (from, until) in [(0.3, 0.9), (1.5, 2.5), (3.5, 5.5)] {
        let delay = delay(&seen, from, until);
        assert!((11.5..12.3).contains(&delay), "{delay} ms from {from} s on");
    }
    let (ending, peers) = cell.members[1].observed(&plan(&text));
    assert_eq!(ending.clock_bound.unwrap().as_nanos(), 50_000);
    assert!(ending.lateness.percentile(0.5) < 1_000_000, "{}", ending.lateness.percentile(0.5));
    // Without the clock's error the network takes next to nothing.
    let way = &peers.iter().find(|peer| peer.peer == 0).unwrap().delay;
    assert!(way.count() > 100 && way.percentile(0.1) < 500_000, "{way:?}");
}
