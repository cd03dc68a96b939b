//! Bundles and their gateways in the packet engine.

use base::{Span, Time};
use bundler::sendbox::{State, Status};
use bundler_lab::Change;
use lab::plan::Plan;
use run::FlowResult;
use sim::{Engine as _, Simulation};

use super::labs::{plan, run};

/// Two sites with a bundle in each direction, and a host whose packets pass no sendbox.
const NODES: &[&str] = &[
    "[node.alice]",
    "[node.bob]",
    "[node.carol]",
    "[node.west]\nkind = \"router\"",
    "[node.east]\nkind = \"router\"",
    "[node.out-a]\nkind = \"sendbox\"",
    "[node.in-a]\nkind = \"receivebox\"",
    "[node.out-b]\nkind = \"sendbox\"",
    "[node.in-b]\nkind = \"receivebox\"",
    "[[link]]\nends = [\"alice\", \"out-a\"]\ndelay = \"100 us\"",
    "[[link]]\nends = [\"out-a\", \"in-a\"]",
    "[[link]]\nends = [\"in-a\", \"west\"]\nrate = \"1 Gbit/s\"",
    "[[link]]\nends = [\"carol\", \"west\"]\nrate = \"1 Gbit/s\"",
    "[[link]]\nname = \"core\"\nends = [\"west\", \"east\"]\nrate = \"20 Mbit/s\"\n\
     delay = \"20 ms\"\nqueue = { kind = \"droptail\", limit = \"4 bdp\" }",
    "[[link]]\nends = [\"east\", \"in-b\"]\nrate = \"1 Gbit/s\"",
    "[[link]]\nends = [\"in-b\", \"out-b\"]",
    "[[link]]\nends = [\"out-b\", \"bob\"]\ndelay = \"100 us\"",
    "[[flow]]\nname = \"bulk\"\nfrom = \"alice\"\nto = \"bob\"\nstreams = 4",
    "[[flow]]\nname = \"back\"\nfrom = \"bob\"\nto = \"alice\"\ntransport = \"udp\"\n\
     rate = \"2 Mbit/s\"",
    "[[flow]]\nname = \"beside\"\nfrom = \"carol\"\nto = \"bob\"\ntransport = \"udp\"\n\
     rate = \"1 Mbit/s\"",
];

const THERE: &str = "[[bundle]]\nfrom = \"out-a\"\nto = \"in-b\"";
const BACK: &str = "[[bundle]]\nfrom = \"out-b\"\nto = \"in-a\"";

fn lab(seconds: u64, blocks: &[&str], rest: &str) -> Plan {
    let blocks = blocks.join("\n");
    plan(&format!("[lab]\nduration = \"{seconds} s\"\nseed = 3\n{blocks}\n{rest}"))
}

fn secs(secs: u64) -> Time {
    Time::ZERO + Span::from_secs(secs)
}

/// A run whose bundles are sampled every 100 ms.
struct Watched {
    simulation: Simulation,
    statuses: Vec<(Time, Vec<Option<Status>>)>,
    changes: Vec<Change>,
}

fn watch(plan: &Plan) -> Watched {
    let mut simulation = Simulation::try_new(plan).unwrap();
    let (mut statuses, mut changes) = (Vec::new(), Vec::new());
    let end = Time::ZERO + plan.duration;
    let mut at = Time::ZERO;
    while at < end {
        at = (at + Span::from_millis(100)).min(end);
        simulation.advance(at);
        changes.extend(simulation.bundle_changes());
        statuses.push((at, simulation.bundles()));
    }
    Watched { simulation, statuses, changes }
}

fn numbers(results: &[FlowResult]) -> Vec<(String, u64, u64, Option<u64>)> {
    let of = |r: &FlowResult| (r.name.clone(), r.sent_bytes, r.received_bytes, r.retransmits);
    results.iter().map(of).collect()
}

#[test]
fn the_order_of_the_lab_file_changes_nothing() {
    let both = format!(
        "{THERE}\nfeedback = {{ loss = \"10 %\", jitter = \"5 ms\" }}\n{BACK}\n\
         [[at]]\ntime = \"2 s\"\nbox = \"in-b\"\naction = \"restart\"\n\
         [[at]]\ntime = \"3 s\"\nbox = \"out-b\"\naction = \"restart\"\n"
    );
    let first = run(&lab(5, NODES, &both));
    let mut reversed = NODES.to_vec();
    reversed.reverse();
    let mut rotated = NODES.to_vec();
    rotated.rotate_left(7);
    for order in [NODES.to_vec(), reversed, rotated] {
        let again = run(&lab(5, &order, &both));
        assert_eq!((again.hash, again.processed), (first.hash, first.processed), "{order:?}");
    }
}

#[test]
fn the_queue_moves_to_the_sendbox() {
    let standing = |mode: &str| {
        let mut watched = watch(&lab(20, NODES, &format!("{THERE}\nmode = \"{mode}\"\n")));
        let links = watched.simulation.link_counters(&[]);
        let delays = watched.simulation.take_queue_delays();
        // The fifth link, `core`, in the up direction.
        let (delivered, wait) = (links[8].1.delivered_bytes, delays[8].percentile(0.5));
        let (_, last) = watched.statuses.last().unwrap().clone();
        (delivered, Span::from_nanos(wait), last[0].clone().unwrap())
    };
    let (status_quo, bundled) = (standing("observe"), standing("enforce"));
    assert!(status_quo.1 > Span::from_millis(40), "{:?}", status_quo.1);
    assert!(bundled.1 < Span::from_millis(15), "{:?}", bundled.1);
    let ratio = bundled.0 as f64 / status_quo.0 as f64;
    assert!(ratio > 0.9, "{ratio}");
    assert_eq!(status_quo.2.rate, None);
    assert_eq!(status_quo.2.backlog_packets, 0);
    assert!(bundled.2.counters.acks > 100, "{:?}", bundled.2.counters);
}

#[test]
fn packets_are_sent_dropped_or_still_inside() {
    let short = "scheduler = { kind = \"sfq\", limit = \"50 packets\" }";
    let plan = lab(10, NODES, &format!("{THERE}\n{short}\n{BACK}\n"));
    let watched = watch(&plan);
    let (_, last) = watched.statuses.last().unwrap();
    let mut dropped = 0;
    for status in last.iter().flatten() {
        let counters = &status.counters;
        assert!(counters.arrived_packets > 1000, "{counters:?}");
        let out = counters.sent_packets + counters.dropped_packets;
        assert_eq!(counters.arrived_packets, out + status.backlog_packets, "{counters:?}");
        dropped += counters.dropped_packets;
    }
    assert!(dropped > 0, "the queue is too short for the flows");
    assert_eq!(watched.simulation.warnings(&plan), Vec::<String>::new());
}

#[test]
fn boxes_that_only_observe_change_nothing_but_their_messages() {
    let silent = format!("{THERE}\nmode = \"observe\"\nfeedback = {{ loss = \"100 %\" }}\n");
    let (without, observed) = (run(&lab(8, NODES, "")), run(&lab(8, NODES, &silent)));
    assert_eq!(numbers(&observed.results), numbers(&without.results));
    let talking = run(&lab(8, NODES, &format!("{THERE}\nmode = \"observe\"\n")));
    let total = |ran: &[FlowResult]| ran.iter().map(|r| r.received_bytes).sum::<u64>() as f64;
    let ratio = total(&talking.results) / total(&without.results);
    assert!((0.99..1.01).contains(&ratio), "{ratio}");
}

/// The state of the bundle, every 100 ms.
fn states(seconds: u64, beside: &str) -> Vec<(f64, State)> {
    // A run ends with its last finite flow.
    let clock = format!(
        "[[flow]]\nfrom = \"carol\"\nto = \"bob\"\nduration = \"{seconds} s\"\n\
                         transport = \"udp\"\nrate = \"10 kbit/s\"\npacket = \"100 B\"\n"
    );
    let watched = watch(&lab(seconds, NODES, &format!("{THERE}\n{beside}\n{clock}")));
    let state = |(at, all): &(Time, Vec<Option<Status>>)| {
        (at.as_secs_f64(), all[0].as_ref().unwrap().state)
    };
    watched.statuses.iter().map(state).collect()
}

#[test]
fn hosts_compete_with_elastic_traffic_while_it_is_there() {
    let beside = "[[flow]]\nname = \"elastic\"\nfrom = \"carol\"\nto = \"bob\"\nstreams = 4\n\
                  start = \"15 s\"\nduration = \"20 s\"\n";
    let states = states(60, beside);
    let passes = |from: f64, to: f64| {
        let within = states.iter().filter(|(at, _)| (from..to).contains(at));
        within.filter(|(_, state)| *state == State::PassThrough).count() as f64 / 10.0 / (to - from)
    };
    assert!(passes(0.0, 15.0) == 0.0, "{states:?}");
    assert!(passes(15.0, 25.0) > 0.0 && passes(25.0, 35.0) > 0.5, "{states:?}");
    assert!(passes(50.0, 60.0) == 0.0, "{states:?}");
}

#[test]
fn constant_traffic_is_no_reason_to_compete() {
    let beside = "[[flow]]\nname = \"constant\"\nfrom = \"carol\"\nto = \"bob\"\n\
                  transport = \"udp\"\nrate = \"7 Mbit/s\"\nstart = \"15 s\"\n";
    let states = states(60, beside);
    assert!(states.iter().all(|(_, state)| *state != State::PassThrough), "{states:?}");
    assert_eq!(states.last().unwrap().1, State::Delay);
}

#[test]
fn a_receivebox_that_stops_opens_the_way() {
    let events = "[[at]]\ntime = \"6 s\"\nbox = \"in-b\"\naction = \"stop\"\n\
                  [[at]]\ntime = \"12 s\"\nbox = \"in-b\"\naction = \"start\"\n";
    let watched = watch(&lab(20, NODES, &format!("{THERE}\n{events}")));
    let states: Vec<State> = watched.changes.iter().map(|change| change.transition.to).collect();
    assert!(states.contains(&State::FailOpen), "{states:?}");
    let at = |time: Time| {
        let (_, statuses) = watched.statuses.iter().find(|(at, _)| *at >= time).unwrap();
        statuses[0].clone().unwrap()
    };
    let (open, again) = (at(secs(11)), at(secs(20)));
    assert_eq!((open.state, open.rate), (State::FailOpen, None));
    assert_ne!(again.state, State::FailOpen, "{again:?}");
    assert!(again.counters.acks > open.counters.acks + 50, "{again:?}");
    // Traffic never stopped.
    let sent = |from: u64, until: u64| {
        at(secs(until)).counters.sent_bytes - at(secs(from)).counters.sent_bytes
    };
    assert!(sent(6, 12) > 6 * 15_000_000 / 8, "{}", sent(6, 12));
}

#[test]
fn a_sendbox_that_stops_loses_what_it_holds_and_nothing_after() {
    let events = "[[at]]\ntime = \"10 s\"\nbox = \"out-a\"\naction = \"stop\"\n\
                  [[at]]\ntime = \"13 s\"\nbox = \"out-a\"\naction = \"start\"\n";
    let plan = lab(19, NODES, &format!("{THERE}\n{events}"));
    let watched = watch(&plan);
    for (at, statuses) in &watched.statuses {
        let stopped = *at >= secs(10) && *at < secs(13);
        assert_eq!(statuses[0].is_none(), stopped, "{at}");
    }
    let (_, last) = watched.statuses.last().unwrap();
    let status = last[0].as_ref().unwrap();
    assert!(status.since >= secs(13) && status.counters.acks > 50, "{status:?}");
    let [warning] = &watched.simulation.warnings(&plan)[..] else { panic!("one warning") };
    assert!(warning.ends_with("lost in sendboxes that stopped"), "{warning}");
    let mut simulation = watched.simulation;
    let received = simulation.link_counters(&[])[8].1.delivered_bytes;
    assert!(received > 19 * 15_000_000 / 8, "{received}");
}

/// The nodes, with space for headers behind the first sendbox.
fn small() -> Vec<String> {
    let blocks = NODES.iter().map(|block| {
        if block.contains("[\"alice\", \"out-a\"]") {
            format!("{block}\nmtu = \"1432 B\"")
        } else {
            (*block).to_owned()
        }
    });
    blocks.collect()
}

#[test]
fn packets_go_without_headers_that_nobody_takes_off() {
    let marked = format!("{THERE}\nmarking = \"encapsulation\"\n");
    let stop = "[[at]]\ntime = \"4 s\"\nbox = \"in-b\"\naction = \"stop\"\n";
    let small = small();
    let small: Vec<&str> = small.iter().map(String::as_str).collect();
    let received = |seconds: u64| {
        let mut watched = watch(&lab(seconds, &small, &format!("{marked}{stop}")));
        let is_open = watched.changes.iter().any(|it| it.transition.to == State::FailOpen);
        assert!(is_open, "{:?}", watched.changes);
        watched.simulation.results()[0].received_bytes
    };
    let (before, after) = (received(8), received(14));
    assert!(after - before > 6 * 10_000_000 / 8, "{before} {after}");
}

#[test]
fn encapsulated_bundles_carry_what_fits() {
    let marked = format!("{THERE}\nmarking = \"encapsulation\"\n");
    let full = Simulation::try_new(&lab(1, NODES, &marked)).err().unwrap().to_string();
    assert!(full.contains("mtu = \"1432 B\""), "{full}");
    let small = small();
    let small: Vec<&str> = small.iter().map(String::as_str).collect();
    let mut watched = watch(&lab(10, &small, &marked));
    let (_, last) = watched.statuses.last().unwrap();
    let status = last[0].clone().unwrap();
    assert!(status.counters.acks > 100, "{status:?}");
    assert!(watched.changes.iter().any(|change| change.transition.to == State::Delay));
    let results = watched.simulation.results();
    assert!(results[0].received_bytes > 10 * 14_000_000 / 8, "{results:?}");
}
