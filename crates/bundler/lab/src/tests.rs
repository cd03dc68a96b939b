use std::path::Path;

use base::{IfaceId, NodeId, RandomStream, Ratio, Span, Time};
use bundler::association::{Association, Role, Sent};
use bundler::digest::{DigestKey, Fields, of_fields};
use bundler::encapsulation::Envelope;
use fabric::{Ecn, Fabric, NodeKind, Output, Packet, Part};
use lab::plan::{Feedback, Plan};
use lab::routes::Routes;
use timeline::{Components, Moment, NextWakes, Rank};

use crate::bundle::Bundle;
use crate::feedback::{FeedbackRng, Late};
use crate::membership::{Membership, Places, Tags};
use crate::{Contents, Driver, Ends, GatewayNodes};

fn plan(text: &str) -> Plan {
    let lab = lab::parse("lab.toml", text, Path::new("."));
    lab.unwrap_or_else(|wrong| panic!("{wrong:?}")).plans.remove(0)
}

/// Body of a packet in these tests: its number, or a message.
#[derive(Clone, Debug, PartialEq)]
enum Body {
    Data(u64),
    Message(IfaceId, Vec<u8>),
}

/// A driver with counters.
struct Bench {
    fabric: Fabric<Body>,
    gateways: GatewayNodes<Body>,
    delivered: Vec<(Time, Packet<Body>)>,
    messages: u64,
}

struct Host<'a>(&'a mut Fabric<Body>, &'a mut u64);

impl Driver<Body> for Host<'_> {
    fn fabric(&mut self) -> &mut Fabric<Body> {
        self.0
    }

    fn digest(&mut self, key: &DigestKey, packet: &Packet<Body>) -> u64 {
        let Body::Data(number) = packet.body else { return 1 };
        let sequence = number << 16 | u64::from(packet.first);
        of_fields(key, &Fields { sequence, length: packet.last, ..Fields::default() })
    }

    fn message(&mut self, at: Time, ends: Ends, payload: Vec<u8>) -> Option<Packet<Body>> {
        *self.1 += 1;
        Some(packet(Body::Message(ends.from, payload), ends.to, 100, at))
    }

    fn enclose(&mut self, _: Time, _: Ends, _: Envelope, _: Packet<Body>) -> Option<Packet<Body>> {
        None
    }

    fn decode(&mut self, _: &Packet<Body>, _: &[u8]) -> Option<Packet<Body>> {
        None
    }

    fn open(&mut self, packet: &Packet<Body>) -> Option<Contents<Body>> {
        match &packet.body {
            Body::Message(source, payload) => {
                Some(Contents::Payload { source: *source, payload: payload.clone() })
            }
            Body::Data(_) => None,
        }
    }
}

fn packet(body: Body, to: IfaceId, bytes: u32, entered: Time) -> Packet<Body> {
    Packet {
        body,
        first: 0,
        count: 1,
        to: Some(to),
        link_scope: false,
        flow: 1,
        segment: bytes,
        last: bytes,
        ttl: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        corrupt: None,
        mirrors: 0,
        part: Part::Datagram,
        tag: 0,
        entered,
    }
}

impl Bench {
    fn new(plan: &Plan) -> Self {
        let gateways = GatewayNodes::try_new(plan).unwrap().unwrap();
        let (delivered, messages) = (Vec::new(), 0);
        Self { fabric: fabric(plan), gateways, delivered, messages }
    }

    /// Runs until `until`, including arrivals, but without deadlines of gateways at that time.
    fn advance(&mut self, until: Time) {
        self.run_before(Moment::new(until, Rank::Gateway));
        self.fabric.advance(until);
    }

    fn drain(&mut self) {
        while let Some(output) = self.fabric.poll() {
            let Output::Deliver { iface, packet, at } = output else { continue };
            if !self.gateways.takes(iface) {
                self.delivered.push((at, packet));
                continue;
            }
            let host = &mut Host(&mut self.fabric, &mut self.messages);
            assert_eq!(self.gateways.deliver(host, at, iface, packet), None);
        }
    }
}

impl Components for Bench {
    fn next_wakes(&self) -> NextWakes {
        NextWakes {
            arrival: self.fabric.next_wake(),
            lab_event: self.gateways.next_event(),
            gateway: self.gateways.next_wake(),
            ..NextWakes::default()
        }
    }

    fn on_arrivals(&mut self, until: Time) -> bool {
        let has_arrived = self.fabric.advance_to_output(until);
        self.drain();
        has_arrived
    }

    fn on_lab_event(&mut self, now: Time) {
        self.gateways.on_event(now);
    }

    fn on_gateway_wake(&mut self, now: Time) {
        let host = &mut Host(&mut self.fabric, &mut self.messages);
        self.gateways.on_wake(host, now);
    }
}

fn fabric(plan: &Plan) -> Fabric<Body> {
    let mut network = plan.network();
    for end in plan.bundles.iter().flat_map(|bundle| [bundle.from, bundle.to]) {
        network.nodes[end.index()] = NodeKind::Middlebox;
    }
    let up = vec![true; plan.links.len()];
    Fabric::try_new(&network, Box::new(Routes::compute(plan, &up)), plan.seed).unwrap()
}

fn iface(plan: &Plan, node: &str, number: usize) -> IfaceId {
    plan.nodes[plan.node(node).unwrap().index()].ifaces[number]
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Two paths from `x` on, of which only one passes `far`.
const FORK: &str = r#"
[lab]
routing = "hops"
[node.a]
[node.b]
[node.c]
[node.d]
[node.s]
kind = "sendbox"
[node.near]
kind = "receivebox"
[node.far]
kind = "receivebox"
[node.x]
kind = "router"
[node.y]
kind = "router"
[[link]]
ends = ["a", "s"]
[[link]]
ends = ["s", "near"]
[[link]]
ends = ["near", "x"]
[[link]]
ends = ["x", "far"]
[[link]]
ends = ["x", "y"]
[[link]]
ends = ["far", "b"]
[[link]]
ends = ["y", "c"]
[[link]]
ends = ["far", "d"]
[[link]]
ends = ["y", "d"]
[[bundle]]
from = "s"
to = "far"
[[bundle]]
from = "s"
to = "near"
"#;

#[test]
fn assigns_packets_to_bundles_by_path() {
    let plan = plan(FORK);
    let fabric = fabric(&plan);
    let node = |name: &str| plan.node(name).unwrap();
    let ends: Vec<NodeId> = ["s", "far", "near"].map(node).to_vec();
    let ifaces = ends.iter().map(|end| (*end, plan.nodes[end.index()].ifaces.clone())).collect();
    let places = Places { nodes: plan.ifaces.iter().map(|iface| iface.node).collect(), ifaces };
    let mut membership = Membership::new(node("s"), vec![node("far"), node("near")]);
    let (from_a, from_near) = (iface(&plan, "s", 0), iface(&plan, "s", 1));
    let mut find = |came, to| membership.find(&fabric, &places, came, to);
    // The bundle with the most distant receivebox is used.
    assert_eq!(find(from_a, iface(&plan, "b", 0)), Some(0));
    assert_eq!(find(from_a, iface(&plan, "c", 0)), Some(1));
    // Each of d's addresses is reached over a separate link.
    assert_eq!(find(from_a, iface(&plan, "d", 0)), Some(0));
    assert_eq!(find(from_a, iface(&plan, "d", 1)), Some(1));
    // Packets to a gateway itself may still belong to another bundle.
    assert_eq!(find(from_a, iface(&plan, "near", 0)), None);
    assert_eq!(find(from_a, iface(&plan, "far", 0)), Some(1));
    assert_eq!(find(from_a, iface(&plan, "a", 0)), None);
    // The packet comes from the other side.
    assert_eq!(find(from_near, iface(&plan, "b", 0)), None);
    assert_eq!(find(from_near, iface(&plan, "a", 0)), None);
}

#[test]
fn messages_from_other_nodes_are_dropped_and_counted() {
    let plan = plan(FORK);
    let mut bench = Bench::new(&plan);
    bench.advance(at(1));
    let far = Bundle::all(&plan).remove(0).settings;
    let mut sendbox = Association::new(Role::SendBox, far.id, &far.key, 77);
    let sent = Sent { period_log2: 3, bytes: 0, packets: 0 };
    let to = iface(&plan, "far", 0);
    let mut deliver = |source: IfaceId| {
        let body = Body::Message(source, sendbox.heartbeat(at(1), sent));
        let before = bench.messages;
        let host = &mut Host(&mut bench.fabric, &mut bench.messages);
        assert_eq!(bench.gateways.deliver(host, at(1), to, packet(body, to, 100, at(1))), None);
        bench.messages - before
    };
    assert_eq!(deliver(iface(&plan, "c", 0)), 0);
    assert_eq!(deliver(iface(&plan, "s", 1)), 1, "the sendbox's heartbeat is answered");
    let [warning] = &bench.gateways.warnings(&plan)[..] else { panic!("one warning") };
    assert!(warning.starts_with("1 datagrams for the gateways of bundle"), "{warning}");
}

#[test]
fn tags_are_sets() {
    let mut tags = Tags::default();
    let (one, two) = (tags.join(0, 7), tags.join(0, 3));
    let both = tags.join(one, 3);
    assert_eq!(both, tags.join(two, 7));
    assert_eq!(tags.join(both, 3), both);
    assert_eq!(
        (tags.bundles(both), tags.bundles(one), tags.bundles(0)),
        (&[3, 7][..], &[7][..], &[][..])
    );
    assert!(tags.bundles(99).is_empty());
}

#[test]
fn feedback_loss_and_jitter_follow_the_lab() {
    let (loss, jitter) = (Ratio::from_parts_per_billion(100_000_000), Span::from_millis(5));
    let mut rng = FeedbackRng::new(1, "a", Feedback { loss, jitter });
    let sampled: Vec<Option<Span>> = (0..20_000).map(|_| rng.sample()).collect();
    let lost = sampled.iter().filter(|late| late.is_none()).count();
    assert!((1_800..2_200).contains(&lost), "{lost}");
    let late: Vec<Span> = sampled.into_iter().flatten().collect();
    assert!(late.iter().all(|late| *late <= jitter));
    let mean = late.iter().map(|late| late.as_secs_f64()).sum::<f64>() / late.len() as f64;
    assert!((0.0024..0.0026).contains(&mean), "{mean}");
    let mut plain = FeedbackRng::new(1, "a", Feedback::default());
    assert_eq!(plain.sample(), Some(Span::ZERO));
}

#[test]
fn late_messages_leave_in_the_order_of_their_times() {
    let (mut late, mut random) = (Late::default(), RandomStream::new(5, "late"));
    for number in 0..100 {
        late.push(at(random.below(20)), number);
    }
    let mut left = Vec::new();
    while let Some(time) = late.next() {
        assert!(late.pop_until(time).is_some());
        left.push(time);
    }
    assert!(left.is_sorted() && left.len() == 100);
}

/// A site behind a bottleneck, with a scheduler that holds five packets.
const LINE: &str = r#"
[lab]
[node.a]
[node.b]
[node.s]
kind = "sendbox"
[node.r]
kind = "receivebox"
[[link]]
ends = ["a", "s"]
[[link]]
ends = ["s", "r"]
rate = "4 Mbit/s"
delay = "10 ms"
queue = { kind = "droptail", limit = "10000 packets" }
[[link]]
ends = ["r", "b"]
[[bundle]]
from = "s"
to = "r"
control = { kind = "constant", rate = "1 Mbit/s" }
scheduler = { kind = "droptail", limit = "5 packets" }
constants = "start.settling = 0, start.settling_rounds = 0"
"#;

#[test]
fn splits_and_counts_super_packets() {
    let plan = plan(LINE);
    let mut bench = Bench::new(&plan);
    bench.advance(at(500));
    let big = packet(Body::Data(1), iface(&plan, "b", 0), 1500, at(500));
    bench.fabric.inject(at(500), iface(&plan, "a", 0), Packet { count: 4, last: 700, ..big });
    bench.advance(at(1_000));
    let sizes: Vec<(u16, u32)> = bench.delivered.iter().map(|(_, p)| (p.first, p.last)).collect();
    assert_eq!(sizes, [(0, 1500), (1, 1500), (2, 1500), (3, 700)]);
    assert!(bench.delivered.iter().all(|(_, p)| p.ttl == 62 && p.count == 1));
    let status = bench.gateways.statuses()[0].clone().unwrap();
    let receiver = bench.gateways.receivers()[0].unwrap();
    let bytes = 3 * 1538 + 738;
    assert_eq!((status.counters.sent_packets, status.counters.sent_bytes), (4, bytes));
    assert_eq!((receiver.counters.packets, receiver.counters.bytes), (4, bytes));
    assert_eq!(status.counters.acks, receiver.counters.acks);
    assert!(receiver.counters.acks > 0 && bench.messages > 4, "{receiver:?}");
}

#[test]
fn every_packet_is_forwarded_or_counted() {
    let stop = "[[at]]\ntime = \"2 s\"\nbox = \"s\"\naction = \"stop\"\n\
                [[at]]\ntime = \"3 s\"\nbox = \"s\"\naction = \"start\"\n";
    let plan = plan(&format!("{LINE}{stop}"));
    let mut bench = Bench::new(&plan);
    let (from, to) = (iface(&plan, "a", 0), iface(&plan, "b", 0));
    let (mut sent, mut dropped) = (0, 0);
    for millis in 0..4_000 {
        // The process stops at 2 s, before other events.
        if millis == 2_000 {
            bench.advance(Time::from_nanos(at(millis).as_nanos() - 1));
            let counters = bench.gateways.statuses()[0].clone().unwrap().counters;
            dropped += counters.dropped_packets;
        }
        bench.advance(at(millis));
        bench.fabric.inject(at(millis), from, packet(Body::Data(sent), to, 1000, at(millis)));
        sent += 1;
    }
    // Run until no packets except messages are in flight.
    bench.advance(at(30_000));
    let status = bench.gateways.statuses()[0].clone().unwrap();
    dropped += status.counters.dropped_packets;
    let (held, lost) = (bench.gateways.held(), bench.gateways.lost());
    assert_eq!(held, status.backlog_packets);
    assert!(lost > 0 && dropped > 500, "{lost} {dropped}");
    // That packet may have been dropped.
    let accounted = bench.delivered.len() as u64 + dropped + held + lost;
    assert!((sent - 1..=sent).contains(&accounted), "{sent}: {accounted}");
    // While the process was stopped, the network was fully used.
    let between = |(time, _): &&(Time, Packet<Body>)| *time > at(2_050) && *time < at(3_000);
    assert!(bench.delivered.iter().filter(between).count() > 400);
}

#[test]
fn rejects_bundles_in_labs_without_queues() {
    let mut plan = plan(LINE);
    plan.routing = lab::plan::Routing::None;
    let refused = GatewayNodes::<Body>::try_new(&plan).unwrap_err();
    assert!(refused.to_string().contains("routing"), "{refused}");
    plan.bundles.clear();
    assert!(GatewayNodes::<Body>::try_new(&plan).unwrap().is_none());
}
