use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{DropReason, Jitter, JitterShape, Loss, Refusal, Reorder, Trace};
use base::{MirrorId, Ratio};

#[test]
fn a_packet_takes_serialisation_and_propagation_at_every_hop() {
    let mut fabric = line(&[link("10 Mbit/s", "5 ms"), link("1 Mbit/s", "7 ms")]);
    fabric.inject(Time::ZERO, IfaceId(0), packet(1, 1212, 2));
    // 1250 wire bytes: 1 ms at 10 Mbit/s, 10 ms at 1 Mbit/s.
    assert_eq!(deliveries(&finish(&mut fabric)), [(1, ms(1 + 5 + 10 + 7))]);
}

#[test]
fn ttl_falls_by_one_a_router_and_its_end_is_reported() {
    let links = vec![link("unlimited", "0 ns"); 4];
    let mut fabric = line(&links);
    fabric.inject(Time::ZERO, IfaceId(0), packet(1, 100, 4));
    let Some(Output::Deliver { packet: arrived, .. }) = finish(&mut fabric).pop() else {
        panic!("not delivered")
    };
    assert_eq!(arrived.ttl, 61);
    fabric.inject(ms(1), IfaceId(0), Packet { ttl: 2, ..packet(2, 100, 4) });
    let outputs = finish(&mut fabric);
    let [Output::Refused { node, iface, why, .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((*node, *iface, *why), (NodeId(2), IfaceId(3), Refusal::TtlExceeded));
    assert_eq!(up(&mut fabric, 1).drops[DropReason::TtlExceeded.index()], 1);
}

#[test]
fn a_packet_for_nobody_is_refused_and_counted() {
    let mut fabric = line(&[link("unlimited", "1 ms"), link("unlimited", "1 ms")]);
    fabric.inject(Time::ZERO, IfaceId(0), Packet { to: None, ..packet(1, 100, 2) });
    let outputs = finish(&mut fabric);
    assert!(matches!(&outputs[..], [Output::Refused { why: Refusal::NoRoute, .. }]));
    assert_eq!(up(&mut fabric, 0).drops[DropReason::NoRoute.index()], 1);
}

#[test]
fn routers_refuse_what_the_next_link_cannot_carry() {
    let small = LinkConfig { mtu: Bytes::new(1000), ..link("unlimited", "0 ns") };
    let mut fabric = line(&[link("unlimited", "1 ms"), small]);
    fabric.inject(Time::ZERO, IfaceId(0), packet(1, 1001, 2));
    let outputs = finish(&mut fabric);
    let [Output::Refused { node, why, at, .. }] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!((*node, *why, *at), (NodeId(1), Refusal::TooBig { mtu: 1000 }, ms(1)));
}

#[test]
fn a_super_packet_stays_whole_until_a_link_needs_segments() {
    let big = Packet { count: 10, segment: 1500, last: 700, ..packet(1, 0, 2) };
    let mut fabric = line(&[link("unlimited", "1 ms"), link("unlimited", "1 ms")]);
    fabric.inject(Time::ZERO, IfaceId(0), big.clone());
    let outputs = finish(&mut fabric);
    assert!(matches!(&outputs[..], [Output::Deliver { packet, .. }] if packet.count == 10));

    let mut fabric = line(&[link("unlimited", "1 ms"), link("10 Mbit/s", "1 ms")]);
    fabric.inject(Time::ZERO, IfaceId(0), big);
    let outputs = finish(&mut fabric);
    let sizes: Vec<_> = outputs
        .iter()
        .map(|output| match output {
            Output::Deliver { packet, .. } => (packet.first, packet.count, packet.last),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes.len(), 10);
    assert_eq!((sizes[0], sizes[9]), ((0, 1, 1500), (9, 1, 700)));
    assert_eq!(up(&mut fabric, 1).sent_bytes, 9 * 1538 + 738);
}

#[test]
fn a_full_queue_drops_the_tail_and_the_counters_agree() {
    let config =
        LinkConfig { queue: queue(crate::Discipline::DropTail, 5), ..link("1 Mbit/s", "1 ms") };
    let mut fabric = line(&[config]);
    (0..20).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 1000, 1)));
    assert_eq!(fabric.holds(), 6);
    let bodies: Vec<_> = deliveries(&finish(&mut fabric)).iter().map(|d| d.0).collect();
    // One in transmission and five queued.
    assert_eq!(bodies, [0, 1, 2, 3, 4, 5]);
    let stats = up(&mut fabric, 0);
    assert_eq!((stats.offered_packets, stats.sent_packets, stats.dropped()), (20, 6, 14));
}

#[test]
fn a_rate_change_keeps_the_queue_and_the_bits_already_sent() {
    let mut fabric = line(&[link("1 Mbit/s", "0 ns")]);
    // 1250 wire bytes: 10 ms each at 1 Mbit/s.
    (0..3).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 1212, 1)));
    fabric
        .configure(ms(5), LinkId(0), Direction::Up, link("10 Mbit/s", "0 ns"))
        .expect("a good change");
    // Half of the first is left: 0.5 ms; then 1 ms each.
    let times: Vec<_> =
        deliveries(&finish(&mut fabric)).iter().map(|d| d.1.as_nanos() / 1000).collect();
    assert_eq!(times, [5_500, 6_500, 7_500]);
}

#[test]
fn another_discipline_inherits_the_queue() {
    let mut fabric = line(&[link("1 Mbit/s", "0 ns")]);
    (0..10).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 1212, 1)));
    let sfq = crate::Discipline::Sfq { flows: 16, quantum: Bytes::new(1538), perturb: None };
    let config = LinkConfig { queue: queue(sfq, 3), ..link("1 Mbit/s", "0 ns") };
    fabric.configure(ms(1), LinkId(0), Direction::Up, config).expect("a good change");
    assert_eq!(deliveries(&finish(&mut fabric)).len(), 10);
}

#[test]
fn a_link_that_goes_down_loses_what_is_on_it() {
    let mut fabric = line(&[link("1 Mbit/s", "50 ms")]);
    (0..5).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 1212, 1)));
    fabric.set_up(ms(25), LinkId(0), false).expect("there is a link");
    fabric.inject(ms(30), IfaceId(0), packet(9, 1212, 1));
    assert_eq!(finish(&mut fabric), []);
    assert_eq!(up(&mut fabric, 0).drops[DropReason::LinkDown.index()], 6);
    fabric.set_up(ms(100), LinkId(0), true).expect("there is a link");
    fabric.inject(ms(100), IfaceId(0), packet(10, 1212, 1));
    assert_eq!(deliveries(&finish(&mut fabric)), [(10, ms(160))]);
}

fn normal_jitter(keep_order: bool) -> Jitter {
    let shape = JitterShape::Normal { deviation: Span::from_millis(5) };
    Jitter { shape, correlation: Ratio::ZERO, keep_order }
}

#[test]
fn jitter_keeps_order_unless_reordering_is_asked() {
    let jitter = normal_jitter(true);
    let run = |reorder| {
        let config =
            LinkConfig { jitter: Some(jitter.clone()), reorder, ..link("100 Mbit/s", "20 ms") };
        let mut fabric = line(&[config]);
        for body in 0..500 {
            fabric.inject(ms(u64::from(body)), IfaceId(0), packet(body, 1000, 1));
        }
        let outputs = finish(&mut fabric);
        let order: Vec<_> = deliveries(&outputs).iter().map(|d| d.0).collect();
        assert_eq!(order.len(), 500);
        (order.is_sorted(), up(&mut fabric, 0).reordered)
    };
    assert_eq!(run(None), (true, 0));
    let law = Reorder { probability: "10 %".parse().unwrap(), by: Span::from_millis(10) };
    let (sorted, held_back) = run(Some(law));
    assert!(!sorted && (20..90).contains(&held_back), "{held_back}");
}

/// Mean and standard deviation of the delays in ms of 100,000 packets at this interval.
fn delays_with_jitter(interval: Span, keep_order: bool) -> (f64, f64) {
    const PACKETS: u32 = 100_000;
    let jitter = Some(normal_jitter(keep_order));
    let mut fabric = line(&[LinkConfig { jitter, ..link("unlimited", "50 ms") }]);
    let sent = |body: u32| Time::ZERO + interval * u64::from(body);
    let mut delays = Vec::new();
    for body in 0..PACKETS {
        fabric.inject(sent(body), IfaceId(0), packet(body, 100, 1));
    }
    for (body, arrival) in deliveries(&finish(&mut fabric)) {
        delays.push(arrival.since(sent(body)).as_secs_f64() * 1e3);
    }
    let mean = delays.iter().sum::<f64>() / f64::from(PACKETS);
    let square = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>();
    (mean, (square / f64::from(PACKETS)).sqrt())
}

/// Mean and standard deviation of the product of Φ(x + k·step) over all k ≥ 0.
fn maximum_of_earlier_samples(step: f64) -> (f64, f64) {
    const H: f64 = 0.01;
    let (mut mean, mut square) = (0.0, 0.0);
    for x in (-900..900).map(|i| (f64::from(i) + 0.5) * H) {
        let factors = (0..).map(|k| x + f64::from(k) * step).take_while(|y| *y < 6.0);
        let below: f64 = factors.map(crate::jitter::normal_cdf).product();
        // ∫ (1 - F) over x > 0, and -∫ F over x < 0.
        let rest = if x > 0.0 { 1.0 - below } else { -below };
        mean += rest * H;
        square += 2.0 * x * rest * H;
    }
    (mean, (square - mean * mean).sqrt())
}

/// The numbers of the book (pipeline.md), in standard deviations.
#[test]
fn jitter_that_keeps_order_has_the_documented_distribution() {
    let book = [(10_000, 0.05, 0.95), (1_000, 0.90, 0.64), (100, 1.87, 0.47)];
    for (micros, mean, deviation) in book {
        let interval = Span::from_micros(micros);
        let formula = maximum_of_earlier_samples(micros as f64 / 5_000.0);
        assert!((formula.0 - mean).abs() < 0.006, "{micros} µs: {formula:?}");
        assert!((formula.1 - deviation).abs() < 0.006, "{micros} µs: {formula:?}");
        let (measured, spread) = delays_with_jitter(interval, true);
        assert!((measured - (50.0 + 5.0 * formula.0)).abs() < 0.2, "{micros} µs: {measured}");
        assert!((spread - 5.0 * formula.1).abs() < 0.1, "{micros} µs: {spread}");
        let (measured, spread) = delays_with_jitter(interval, false);
        assert!((measured - 50.0).abs() < 0.1, "{micros} µs: {measured}");
        assert!((spread - 5.0).abs() < 0.05, "{micros} µs: {spread}");
    }
}

#[test]
fn duplicates_and_flipped_bits_are_counted_and_delivered() {
    let config = LinkConfig {
        duplicate: "10 %".parse().unwrap(),
        corrupt: "20 %".parse().unwrap(),
        ..link("100 Mbit/s", "1 ms")
    };
    let mut fabric = line(&[config]);
    (0..1000).for_each(|body| {
        fabric.inject(ms(u64::from(body)), IfaceId(0), packet(body, 500, 1));
    });
    let outputs = finish(&mut fabric);
    let stats = up(&mut fabric, 0);
    assert!((60..140).contains(&stats.duplicated) && (150..250).contains(&stats.corrupted));
    assert_eq!(outputs.len() as u64, 1000 + stats.duplicated);
    let flipped = outputs
        .iter()
        .filter(|o| matches!(o, Output::Deliver { packet, .. } if packet.corrupt.is_some()));
    assert_eq!(flipped.count() as u64, stats.corrupted);
}

#[test]
fn mirrors_copy_what_matches_as_it_leaves() {
    let mut fabric = line(&[link("1 Mbit/s", "20 ms")]);
    fabric.mirror(MirrorId(3), LinkId(0), Direction::Up);
    fabric.inject(Time::ZERO, IfaceId(0), Packet { mirrors: 1 << 3, ..packet(1, 1212, 1) });
    fabric.inject(Time::ZERO, IfaceId(0), Packet { mirrors: 1 << 2, ..packet(2, 1212, 1) });
    let outputs = finish(&mut fabric);
    let copies: Vec<_> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Mirrored { mirror, packet, at } => Some((mirror.0, packet.body, *at)),
            _ => None,
        })
        .collect();
    assert_eq!(copies, [(3, 1, ms(10))]);
    assert_eq!(deliveries(&outputs).len(), 2);
}

#[test]
fn watched_interfaces_show_packets_and_drops() {
    let config = LinkConfig { loss: Loss::Bernoulli(Ratio::ONE), ..link("1 Mbit/s", "20 ms") };
    let mut fabric = line(&[config]);
    fabric.watch(IfaceId(0));
    fabric.inject(Time::ZERO, IfaceId(0), packet(1, 1212, 1));
    let outputs = finish(&mut fabric);
    assert!(matches!(
        &outputs[..],
        [
            Output::Seen { iface: IfaceId(0), sent: true, .. },
            Output::Dropped { reason: DropReason::Loss, .. },
        ]
    ));
}

#[test]
fn a_trace_sets_the_pace() {
    let opportunities = (1..=12).map(Span::from_millis).collect();
    let trace = Trace { opportunities, period: Span::from_millis(12) };
    let config = LinkConfig { rate: Rate::Trace(Arc::new(trace)), ..link("unlimited", "0 ns") };
    let mut fabric = line(&[config]);
    (0..30).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 1500, 1)));
    let times: Vec<_> = deliveries(&finish(&mut fabric)).iter().map(|d| d.1).collect();
    assert_eq!(times, (1..=30).map(ms).collect::<Vec<_>>());
    // Exactly the bytes of the opportunities, whatever the network's overhead: full use is 100 %.
    assert_eq!(up(&mut fabric, 0).sent_bytes, 30 * 1504);
}

#[test]
fn a_packet_that_waits_for_a_trace_leaves_at_the_rate_that_replaces_it() {
    let period = Span::from_millis(9);
    let trace = Trace { opportunities: vec![period], period };
    let traced = LinkConfig { rate: Rate::Trace(Arc::new(trace)), ..link("unlimited", "0 ns") };
    let mut fabric = line(std::slice::from_ref(&traced));
    (0..3).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 20, 1)));
    let (id, up) = (LinkId(0), Direction::Up);
    fabric.configure(Time::ZERO, id, up, link("1 Mbit/s", "0 ns")).unwrap();
    (3..5).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 20, 1)));
    assert_eq!(deliveries(&finish(&mut fabric)).len(), 5);
    fabric.configure(ms(20), id, up, traced).unwrap();
    fabric.inject(ms(20), IfaceId(0), packet(5, 20, 1));
    assert_eq!(deliveries(&finish(&mut fabric)).len(), 1);
}

#[test]
fn equal_cost_ways_share_flows_but_never_split_one() {
    let mut routes = Routes::default();
    let ways = vec![IfaceId(2), IfaceId(4)];
    routes.0.insert((1, 3), ways.clone());
    routes.0.insert((1, 5), ways);
    let wire = |ends: [u32; 2]| Wire {
        name: format!("{}-{}", ends[0], ends[1]),
        ends: ends.map(NodeId),
        directions: [link("unlimited", "1 ms"), link("unlimited", "1 ms")],
        up: true,
    };
    let links = vec![wire([0, 1]), wire([1, 2]), wire([1, 2])];
    let nodes = vec![NodeKind::Edge, NodeKind::Router, NodeKind::Edge];
    let network = Network { nodes, links, overhead: Bytes::new(OVERHEAD), collapsed: None };
    let mut fabric = Fabric::try_new(&network, Box::new(routes), 1).unwrap();
    for flow in 0..1000u32 {
        for _ in 0..2 {
            let to = Some(IfaceId(3));
            let flow = flow.wrapping_mul(0x9e37_79b9);
            fabric.inject(Time::ZERO, IfaceId(0), Packet { to, flow, ..packet(flow, 100, 2) });
        }
    }
    finish(&mut fabric);
    let first = up(&mut fabric, 1).sent_packets;
    assert!((900..1100).contains(&first), "{first}");
    assert_eq!(first % 2, 0, "a flow was split");
}

#[test]
fn rejects_bad_links() {
    let config = LinkConfig { rate: Rate::Constant(Bandwidth::ZERO), ..Default::default() };
    let wire = Wire {
        name: "a-b".to_owned(),
        ends: [NodeId(0), NodeId(1)],
        directions: [config.clone(), config],
        up: true,
    };
    let nodes = vec![NodeKind::Edge; 2];
    let network = Network { nodes, links: vec![wire], overhead: Bytes::ZERO, collapsed: None };
    let refused = Fabric::<u32>::try_new(&network, Box::new(Routes::default()), 1);
    assert_eq!(refused.err().unwrap().to_string(), "link a-b: its rate is zero");
}

proptest! {
    /// Packets in = delivered + dropped + queued or in flight, at any time; flows stay in order;
    /// equal seeds give equal runs.
    #[test]
    fn accounts_for_every_packet(
        arrivals in prop::collection::vec((0u64..5_000, 40u32..1500, 0u32..4), 1..200),
        loss in 0u64..300_000_000,
        stop in 0u64..20_000,
    ) {
        let run = |watched: bool, aqm: bool| {
            let codel = crate::Discipline::CoDel {
                target: Span::from_millis(2),
                interval: Span::from_millis(10),
            };
            let discipline = if aqm { codel } else { crate::Discipline::DropTail };
            let lossy = LinkConfig {
                loss: Loss::Bernoulli(Ratio::from_parts_per_billion(loss)),
                queue: queue(discipline, 20),
                ..link("5 Mbit/s", "3 ms")
            };
            let mut fabric = line(&[link("20 Mbit/s", "1 ms"), lossy]);
            if watched {
                fabric.watch(IfaceId(0));
                fabric.watch(IfaceId(2));
            }
            let mut now = Time::ZERO;
            let mut outputs = Vec::new();
            for (body, (gap, bytes, flow)) in (0u32..).zip(&arrivals) {
                now += Span::from_micros(*gap);
                let sent = Packet { flow: *flow, ..packet(body, *bytes, 2) };
                fabric.inject(now, IfaceId(0), sent);
                outputs.extend(drain(&mut fabric));
            }
            fabric.advance(now + Span::from_micros(stop));
            outputs.extend(drain(&mut fabric));
            let dropped = up(&mut fabric, 0).dropped() + up(&mut fabric, 1).dropped();
            (deliveries(&outputs), dropped, fabric.holds(), fabric.trace_hash())
        };
        let (delivered, dropped, held, hash) = run(false, false);
        prop_assert_eq!(delivered.len() as u64 + dropped + held, arrivals.len() as u64);
        prop_assert!(delivered.iter().map(|d| d.0).is_sorted());
        prop_assert!(delivered.iter().map(|d| d.1).is_sorted());
        prop_assert_eq!(run(false, false).3, hash);
        // A watched transmitter acts at once, an unwatched one lazily: the results are equal.
        prop_assert_eq!(run(true, false), (delivered, dropped, held, hash));
        prop_assert_eq!(run(true, true), run(false, true));
    }

    /// In any interval the link carries at most rate × interval plus one packet.
    #[test]
    fn the_rate_is_never_exceeded(sizes in prop::collection::vec(40u32..1500, 2..200)) {
        let mut fabric = line(&[link("7 Mbit/s", "2 ms")]);
        for (body, bytes) in (0u32..).zip(&sizes) {
            fabric.inject(Time::ZERO, IfaceId(0), packet(body, *bytes, 1));
        }
        let times: Vec<_> = deliveries(&finish(&mut fabric)).iter().map(|d| d.1).collect();
        for (i, window) in times.windows(2).enumerate() {
            let wire = Bytes::new(u64::from(sizes[i + 1]) + OVERHEAD);
            let least = mbit(7).time_for(wire).as_nanos();
            prop_assert!(window[1].since(window[0]).as_nanos() + 1 >= least);
        }
    }
}
