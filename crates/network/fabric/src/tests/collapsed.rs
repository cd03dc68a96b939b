//! Paths that packets cross at once.

use base::Ratio;
use proptest::prelude::*;

use super::*;
use crate::{Collapsed, DropReason, Loss, Part, Refusal, Sharing, Window};

/// Window limits would need a sender that reacts.
const GREEDY: Collapsed =
    Collapsed { sharing: Sharing::RttMaxMin, window: Window::Off, acks: false };

/// Wire bits of a full packet.
const FULL: u64 = 1538 * 8;

fn path(links: &[LinkConfig]) -> Fabric<u32> {
    line_by(links, Some(GREEDY))
}

fn segment(flow: u32, part: Part, links: usize) -> Packet<u32> {
    let bytes = if part == Part::Data { 1500 } else { 52 };
    Packet { part, ..packet(flow, bytes, links) }
}

/// Packets of a flow that arrived in `from..until`, in wire Mbit/s.
fn rate(outputs: &[Output<u32>], flow: u32, from: u64, until: u64) -> f64 {
    let bits: u64 = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Deliver { packet, at, .. }
                if packet.flow == flow && *at >= ms(from) && *at < ms(until) =>
            {
                Some((packet.bytes() + OVERHEAD) * 8)
            }
            _ => None,
        })
        .sum();
    bits as f64 / 1e3 / (until - from) as f64
}

/// Sends full packets of a flow, one every `every` microseconds, while other flows do the same.
struct Sender {
    flow: u32,
    part: Part,
    from: u64,
    until: u64,
    every: u64,
}

fn greedy(flow: u32, from: u64, until: u64) -> Sender {
    // Twice the rate of 10 Mbit/s.
    Sender { flow, part: Part::Data, from, until, every: 615 }
}

/// Runs senders side by side until `end` milliseconds; streams start and end.
fn run(fabric: &mut Fabric<u32>, links: usize, senders: &[Sender], end: u64) -> Vec<Output<u32>> {
    let mut calls = Vec::new();
    for sender in senders {
        let stream = sender.part == Part::Data;
        let mut at = sender.from * 1000;
        calls.push((at, sender.flow, if stream { Part::Opening } else { sender.part }));
        while at < sender.until * 1000 {
            calls.push((at, sender.flow, sender.part));
            at += sender.every;
        }
        if stream {
            calls.push((at, sender.flow, Part::Closing));
        }
    }
    calls.sort_by_key(|(at, flow, _)| (*at, *flow));
    for (at, flow, part) in calls {
        let bytes = if matches!(part, Part::Data | Part::Datagram) { 1500 } else { 52 };
        let packet = Packet { part, ..packet(flow, bytes, links) };
        fabric.inject(Time::ZERO + Span::from_micros(at), IfaceId(0), packet);
    }
    fabric.advance(ms(end));
    drain(fabric)
}

#[test]
fn a_packet_takes_the_sum_of_delays_and_the_ttl_of_every_router() {
    let mut fabric = path(&[link("unlimited", "10 ms"), link("unlimited", "7 ms"), {
        link("unlimited", "5 ms")
    }]);
    fabric.inject(ms(3), IfaceId(0), packet(1, 100, 3));
    let outputs = finish(&mut fabric);
    let [Output::Deliver { iface, packet, at }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((*iface, packet.ttl, *at), (last_iface(3), 62, ms(25)));
    for link in 0..3 {
        assert_eq!((up(&mut fabric, link).delivered_packets, fabric.holds()), (1, 0));
    }
    assert_eq!(fabric.packet_hops(), 3);
}

#[test]
fn a_lone_stream_gets_the_lowest_rate_and_no_burst() {
    let links = [link("100 Mbit/s", "1 ms"), link("10 Mbit/s", "1 ms"), link("40 Mbit/s", "1 ms")];
    let mut fabric = path(&links);
    (0..100).for_each(|_| fabric.inject(Time::ZERO, IfaceId(0), segment(1, Part::Data, 3)));
    let arrivals = deliveries(&finish(&mut fabric));
    assert_eq!(arrivals.len(), 100);
    for (sent, (_, at)) in (1..).zip(&arrivals) {
        assert_eq!(at.as_nanos(), 3_000_000 + FULL * 100 * sent, "packet {sent}");
    }
}

#[test]
fn streams_share_from_syn_to_fin() {
    let mut fabric = path(&[link("10 Mbit/s", "5 ms"), link("10 Mbit/s", "5 ms")]);
    let senders = [greedy(1, 0, 6_000), greedy(2, 1_000, 3_000)];
    let outputs = run(&mut fabric, 2, &senders, 9_000);
    assert!((rate(&outputs, 1, 100, 1_000) - 10.0).abs() < 0.05);
    for flow in [1, 2] {
        assert!((rate(&outputs, flow, 1_100, 3_000) - 5.0).abs() < 0.05, "flow {flow}");
    }
    // The second flow has a queue to send after its last arrival, then the first gets everything.
    assert!((rate(&outputs, 1, 5_000, 6_000) - 10.0).abs() < 0.05);
    assert_eq!((fabric.holds(), fabric.next_wake()), (0, None));
    let stats = up(&mut fabric, 1).clone();
    assert_eq!(stats.offered_packets, stats.delivered_packets + stats.dropped());
}

#[test]
fn a_window_of_a_fixed_size_caps_a_stream() {
    let law = Collapsed { window: Window::Fixed(Bytes::new(65_536)), ..GREEDY };
    let mut fabric = line_by(&[link("10 Mbit/s", "75 ms"), link("10 Mbit/s", "75 ms")], Some(law));
    let outputs = run(&mut fabric, 2, &[greedy(1, 0, 4_000)], 4_000);
    // 64 KiB in each 300 ms: 1.748 Mbit/s.
    assert!((rate(&outputs, 1, 1_000, 4_000) - 1.748).abs() < 0.01);
}

#[test]
fn gives_unused_share_of_a_slow_stream_to_the_others() {
    let law = Collapsed { window: Window::Auto, ..GREEDY };
    let mut fabric = line_by(&[link("10 Mbit/s", "1 ms")], Some(law));
    // One packet per 12.3 ms is 1 Mbit/s.
    let slow = Sender { every: 12_304, ..greedy(2, 0, 8_000) };
    let outputs = run(&mut fabric, 1, &[greedy(1, 0, 8_000), slow], 8_000);
    assert!((rate(&outputs, 2, 1_000, 8_000) - 1.0).abs() < 0.05);
    let rest = rate(&outputs, 1, 1_000, 8_000);
    assert!((8.6..9.05).contains(&rest), "{rest}");
}

#[test]
fn datagrams_count_by_what_they_send_and_lose_what_exceeds_their_share() {
    let mut fabric = path(&[link("10 Mbit/s", "1 ms")]);
    let udp = |every, from| Sender { part: Part::Datagram, every, ..greedy(2, from, 6_000) };
    let outputs = run(&mut fabric, 1, &[greedy(1, 0, 6_000), udp(6_152, 500)], 6_000);
    let (tcp, modest) = (rate(&outputs, 1, 1_000, 6_000), rate(&outputs, 2, 1_000, 6_000));
    assert!((modest - 2.0).abs() < 0.05 && (7.5..8.05).contains(&tcp), "{modest} {tcp}");

    let mut fabric = path(&[link("10 Mbit/s", "1 ms")]);
    let outputs = run(&mut fabric, 1, &[greedy(1, 0, 6_000), udp(615, 500)], 6_000);
    assert!((rate(&outputs, 2, 1_000, 6_000) - 5.0).abs() < 0.1);
    assert!(up(&mut fabric, 0).drops[DropReason::QueueFull.index()] > 1_000);
}

#[test]
fn without_sharing_each_flow_has_the_path_for_itself() {
    let law = Collapsed { sharing: Sharing::None, ..GREEDY };
    let mut fabric = line_by(&[link("10 Mbit/s", "1 ms")], Some(law));
    let outputs = run(&mut fabric, 1, &[greedy(1, 0, 2_000), greedy(2, 0, 2_000)], 2_000);
    for flow in [1, 2] {
        assert!((rate(&outputs, flow, 100, 2_000) - 10.0).abs() < 0.05);
    }
}

#[test]
fn a_ttl_ends_at_its_router_after_the_delay_to_it() {
    let links = [link("unlimited", "10 ms"), link("unlimited", "7 ms"), link("unlimited", "5 ms")];
    let mut fabric = path(&links);
    for ttl in 1..=3 {
        fabric.inject(Time::ZERO, IfaceId(0), Packet { ttl, ..packet(u32::from(ttl), 60, 3) });
    }
    let seen: Vec<_> = finish(&mut fabric)
        .into_iter()
        .map(|output| match output {
            Output::Refused { node, iface, why: Refusal::TtlExceeded, at, .. } => {
                (node.0, iface.0, at)
            }
            Output::Deliver { iface, at, .. } => (3, iface.0, at),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [(1, 1, ms(10)), (2, 3, ms(17)), (3, 5, ms(22))]);
}

#[test]
fn a_packet_too_large_is_refused_in_front_of_the_link() {
    let small = LinkConfig { mtu: Bytes::new(1_000), ..link("unlimited", "1 ms") };
    let mut fabric = path(&[link("unlimited", "10 ms"), small.clone()]);
    fabric.inject(Time::ZERO, IfaceId(0), packet(1, 1_001, 2));
    let outputs = finish(&mut fabric);
    let [Output::Refused { node, why, at, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((node.0, *why, *at), (1, Refusal::TooBig { mtu: 1_000 }, ms(10)));

    let mut fabric = path(&[small, link("unlimited", "10 ms")]);
    fabric.inject(Time::ZERO, IfaceId(0), packet(1, 1_001, 2));
    assert!(finish(&mut fabric).is_empty());
    assert_eq!(up(&mut fabric, 0).drops[DropReason::TooBig.index()], 1);
}

/// Two hosts with two direct links: `a` sends over the first, `b` over the second, which is slower.
fn asymmetric(there: &str, back: &str) -> Fabric<u32> {
    let routes = Routes(BTreeMap::from([((0, 1), vec![IfaceId(0)]), ((1, 0), vec![IfaceId(3)])]));
    let wire = |name: &str, delay: &str| Wire {
        name: name.to_owned(),
        ends: [NodeId(0), NodeId(1)],
        directions: [link("10 Mbit/s", delay), link("10 Mbit/s", delay)],
        up: true,
    };
    let law = Collapsed { window: Window::Fixed(Bytes::new(65_536)), ..GREEDY };
    let network = Network {
        nodes: vec![NodeKind::Edge; 2],
        links: vec![wire("there", there), wire("back", back)],
        overhead: Bytes::new(OVERHEAD),
        collapsed: Some(law),
    };
    Fabric::try_new(&network, Box::new(routes), 1).unwrap()
}

#[test]
fn the_way_back_counts_for_the_round_trip() {
    let mut fabric = asymmetric("10 ms", "290 ms");
    let outputs = run(&mut fabric, 1, &[greedy(1, 0, 4_000)], 4_000);
    assert!((rate(&outputs, 1, 1_000, 4_000) - 1.748).abs() < 0.01);
    // Also after a change.
    fabric.configure(ms(4_000), LinkId(1), Direction::Down, link("10 Mbit/s", "140 ms")).unwrap();
    let outputs = run(&mut fabric, 1, &[greedy(1, 4_000, 8_000)], 8_000);
    assert!((rate(&outputs, 1, 5_000, 8_000) - 3.495).abs() < 0.02);
}

#[test]
fn bare_segments_count_if_they_are_to() {
    for acks in [false, true] {
        let law = Collapsed { acks, window: Window::Auto, ..GREEDY };
        let mut fabric = line_by(&[link("1 Mbit/s", "1 ms")], Some(law));
        // 90 B on the wire every 3.6 ms are 200 kbit/s.
        let bare = Sender { part: Part::Bare, every: 3_600, ..greedy(2, 0, 8_000) };
        let data = Sender { every: 6_150, ..greedy(1, 0, 8_000) };
        let outputs = run(&mut fabric, 1, &[data, bare], 8_000);
        let (data, bare) = (rate(&outputs, 1, 1_000, 8_000), rate(&outputs, 2, 1_000, 8_000));
        assert!((bare - 0.2).abs() < 0.01, "{bare}");
        let left = if acks { 0.76..0.8 } else { 0.98..1.01 };
        assert!(left.contains(&data), "{data} with acks = {acks}");
    }
}

#[test]
fn losses_join() {
    let lossy = LinkConfig {
        loss: Loss::Bernoulli(Ratio::from_parts_per_billion(100_000_000)),
        ..link("unlimited", "1 ms")
    };
    let mut fabric = path(&[lossy.clone(), lossy.clone(), lossy]);
    (0..20_000).for_each(|at| fabric.inject(ms(at), IfaceId(0), packet(1, 100, 3)));
    let share = 1.0 - finish(&mut fabric).len() as f64 / 20_000.0;
    // 1 − 0.9³, four standard deviations of a share of 20,000.
    assert!((share - 0.271).abs() < 4.0 * (0.271 * 0.729f64 / 20_000.0).sqrt(), "{share}");
}

#[test]
fn a_flow_that_pauses_meets_no_old_fate() {
    let lossy = LinkConfig {
        loss: Loss::Bernoulli(Ratio::from_parts_per_billion(500_000_000)),
        ..link("unlimited", "1 ms")
    };
    let mut fabric = path(&[lossy]);
    (0..400).for_each(|at| fabric.inject(ms(2_000 * at), IfaceId(0), packet(1, 100, 1)));
    let arrived = finish(&mut fabric).len();
    // Five standard deviations.
    assert!((150..=250).contains(&arrived), "{arrived}");
}

#[test]
fn a_switch_tells_nobody_of_large_packets() {
    let mut nodes = vec![NodeKind::Edge, NodeKind::Switch, NodeKind::Edge];
    let small = LinkConfig { mtu: Bytes::new(1_000), ..link("unlimited", "1 ms") };
    let wire = |name: &str, ends: [u32; 2], config: &LinkConfig| Wire {
        name: name.to_owned(),
        ends: ends.map(NodeId),
        directions: [config.clone(), config.clone()],
        up: true,
    };
    let links = vec![wire("a", [0, 1], &link("unlimited", "1 ms")), wire("b", [1, 2], &small)];
    let network = |nodes: &[NodeKind]| Network {
        nodes: nodes.to_vec(),
        links: links.clone(),
        overhead: Bytes::new(OVERHEAD),
        collapsed: Some(GREEDY),
    };
    for (kind, refused) in [(NodeKind::Switch, 0), (NodeKind::Router, 1)] {
        nodes[1] = kind;
        let routes = Routes(BTreeMap::from([((1, 3), vec![IfaceId(2)])]));
        let mut fabric = Fabric::try_new(&network(&nodes), Box::new(routes), 1).unwrap();
        // Independent of their sizes: they share a tunnel to the router.
        for size in 1_001..1_501 {
            fabric.inject(ms(u64::from(size)), IfaceId(0), packet(1, size, 2));
        }
        let outputs = finish(&mut fabric);
        assert_eq!(outputs.len(), refused * 500, "{kind:?}");
        let drops = up(&mut fabric, 1).drops[DropReason::TooBig.index()];
        assert_eq!(drops, if refused == 0 { 500 } else { 0 });
    }
}

#[test]
fn counts_packets_at_the_bottleneck_of_their_time() {
    let mut fabric = path(&[link("1 Mbit/s", "1 ms"), link("2 Mbit/s", "1 ms")]);
    let flood = |from, until| Sender { part: Part::Datagram, ..greedy(1, from, until) };
    run(&mut fabric, 2, &[flood(0, 5_000)], 5_000);
    fabric.configure(ms(5_000), LinkId(0), Direction::Up, link("9 Mbit/s", "1 ms")).unwrap();
    let full =
        |fabric: &mut Fabric<u32>, link| up(fabric, link).drops[DropReason::QueueFull.index()];
    let (first, second) = (full(&mut fabric, 0), full(&mut fabric, 1));
    assert!(first > 1_000 && second == 0, "{first} {second}");
    run(&mut fabric, 2, &[flood(5_000, 10_000)], 10_000);
    assert_eq!(full(&mut fabric, 0), first);
    assert!(full(&mut fabric, 1) > 1_000);
}

#[test]
fn changes_of_links_reach_the_flows_on_them() {
    let mut fabric = path(&[link("10 Mbit/s", "1 ms"), link("10 Mbit/s", "1 ms")]);
    let mut outputs = run(&mut fabric, 2, &[greedy(1, 0, 1_000)], 1_000);
    let slower = link("2 Mbit/s", "21 ms");
    fabric.configure(ms(1_000), LinkId(1), Direction::Up, slower).unwrap();
    outputs.extend(run(&mut fabric, 2, &[greedy(1, 1_000, 2_000)], 2_000));
    assert!((rate(&outputs, 1, 100, 1_000) - 10.0).abs() < 0.05);
    assert!((rate(&outputs, 1, 1_100, 2_000) - 2.0).abs() < 0.05);
    fabric.set_up(ms(2_000), LinkId(0), false).unwrap();
    let outputs = run(&mut fabric, 2, &[greedy(1, 2_000, 2_100)], 2_200);
    assert_eq!((deliveries(&outputs).len(), fabric.holds()), (0, 0));
    assert!(up(&mut fabric, 0).drops[DropReason::LinkDown.index()] > 160);
    fabric.set_up(ms(2_200), LinkId(0), true).unwrap();
    let outputs = run(&mut fabric, 2, &[greedy(1, 2_200, 3_000)], 3_000);
    assert!((rate(&outputs, 1, 2_300, 3_000) - 2.0).abs() < 0.05);
}

proptest! {
    /// For any flows: no packet disappears without being counted, and no link carries more than its
    /// capacity plus one packet per flow in any 10 ms, once shares have followed the flows.
    #[test]
    fn packets_are_conserved_and_links_not_exceeded(
        flows in prop::collection::vec(
            (0u64..500, 1u64..1_000, 300u64..5_000, any::<bool>()),
            1..8,
        ),
        rates in prop::collection::vec(1u64..50, 1..4),
    ) {
        let links: Vec<LinkConfig> =
            rates.iter().map(|rate| link(&format!("{rate} Mbit/s"), "1 ms")).collect();
        let mut fabric = path(&links);
        let senders: Vec<Sender> = (1u32..).zip(&flows).map(|(flow, (from, length, every, tcp))| {
            let part = if *tcp { Part::Data } else { Part::Datagram };
            Sender { flow, part, from: *from, until: from + length, every: *every }
        }).collect();
        let outputs = run(&mut fabric, links.len(), &senders, 60_000);
        let first = up(&mut fabric, 0).clone();
        let last = up(&mut fabric, links.len() as u32 - 1).clone();
        let dropped: u64 =
            (0..links.len() as u32).map(|link| up(&mut fabric, link).dropped()).sum();
        let arrived = deliveries(&outputs).len() as u64;
        prop_assert_eq!((fabric.holds(), fabric.next_wake()), (0, None));
        prop_assert_eq!(first.offered_packets, arrived + dropped);
        prop_assert_eq!(last.delivered_packets, arrived);
        // Streams only: datagram flows are measured by their earlier rate.
        if flows.iter().all(|flow| flow.3) {
            let narrowest = *rates.iter().min().expect("at least one") as f64;
            for from in (0..1_900).step_by(10) {
                let all: f64 =
                    (1..=flows.len() as u32).map(|f| rate(&outputs, f, from, from + 10)).sum();
                let slack = (flows.len() as u64 * 2 * FULL) as f64 / 1e4;
                prop_assert!(all <= narrowest + slack, "{all} of {narrowest} Mbit/s at {from}");
            }
        }
    }
}
