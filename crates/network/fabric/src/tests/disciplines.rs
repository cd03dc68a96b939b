use super::*;
use crate::{Discipline, DropReason};

/// Offers packets of several flows at a constant interval; returns delivered packets by flow.
fn offer(
    fabric: &mut Fabric<u32>,
    flows: &[(u32, u64)],
    until: u64,
    change: fn(u32) -> u8,
) -> Vec<u64> {
    offer_from(fabric, 0, flows, until, change)
}

fn offer_from(
    fabric: &mut Fabric<u32>,
    from: u64,
    flows: &[(u32, u64)],
    until: u64,
    change: fn(u32) -> u8,
) -> Vec<u64> {
    let mut due: Vec<_> = flows.iter().map(|(flow, gap)| (from, *flow, *gap)).collect();
    let mut counts = vec![0; flows.len()];
    let mut outputs = Vec::new();
    loop {
        due.sort_unstable();
        let (at, flow, gap) = due[0];
        if at >= until {
            break;
        }
        due[0].0 = at + gap;
        let now = Time::ZERO + Span::from_micros(at);
        let ecn = if flow >= 100 { Ecn::Capable } else { Ecn::NotCapable };
        let sent = Packet { dscp: change(flow), ecn, ..packet(flow, 1212, 1) };
        fabric.inject(now, IfaceId(0), sent);
        outputs.extend(drain(fabric));
    }
    for (body, _) in deliveries(&outputs) {
        let index = flows.iter().position(|(flow, _)| *flow == body).unwrap();
        counts[index] += 1;
    }
    counts
}

fn bottleneck(discipline: Discipline, packets: u32, ecn: bool) -> Fabric<u32> {
    let queue = QueueConfig { ecn, ..queue(discipline, packets) };
    line(&[LinkConfig { queue, ..link("10 Mbit/s", "1 ms") }])
}

fn no_class(_: u32) -> u8 {
    0
}

const CODEL: (Span, Span) = (Span::from_millis(5), Span::from_millis(100));

#[test]
fn codel_holds_the_delay_that_droptail_lets_grow() {
    let delay = |discipline| {
        let mut fabric = bottleneck(discipline, 1000, false);
        // 11 Mbit/s offered to 10 Mbit/s.
        offer(&mut fabric, &[(1, 909)], 20_000_000, no_class);
        let level = fabric.take_queue_level(LinkId(0), Direction::Up);
        (level.bytes, up(&mut fabric, 0).drops[DropReason::Early.index()])
    };
    let (target, interval) = CODEL;
    let (standing, early) = delay(Discipline::CoDel { target, interval });
    let (full, none) = delay(Discipline::DropTail);
    assert!(none == 0 && early > 100, "{none} {early}");
    assert!(full > 1_000_000 && standing < full / 10, "{full} {standing}");
}

/// Delay in ms of the packets that left, from the mean since the last call.
fn mean_delay(fabric: &mut Fabric<u32>) -> f64 {
    fabric.take_queue_delays(LinkId(0), Direction::Up).mean() / 1e6
}

fn early_drops(fabric: &mut Fabric<u32>) -> u64 {
    up(fabric, 0).drops[DropReason::Early.index()]
}

const PIE: Discipline = Discipline::Pie {
    target: Span::from_millis(15),
    update: Span::from_millis(15),
    burst: Span::from_millis(150),
};

#[test]
fn pie_drops_the_excess_at_its_target_delay() {
    let mut fabric = bottleneck(PIE, 1000, false);
    // 11 Mbit/s offered to 10 Mbit/s; the controller needs 10 s to find 1/11.
    offer(&mut fabric, &[(1, 909)], 10_000_000, no_class);
    let before = early_drops(&mut fabric);
    mean_delay(&mut fabric);
    offer_from(&mut fabric, 10_000_000, &[(1, 909)], 30_000_000, no_class);
    let share = (early_drops(&mut fabric) - before) as f64 / (20_000_000.0 / 909.0);
    assert!((share - 1.0 / 11.0).abs() < 0.01, "{share}");
    let delay = mean_delay(&mut fabric);
    assert!((12.0..18.0).contains(&delay), "{delay} ms");
    assert_eq!(up(&mut fabric, 0).drops[DropReason::QueueFull.index()], 0);
}

#[test]
fn pie_passes_a_burst_after_an_idle_period() {
    let mut fabric = bottleneck(PIE, 1000, false);
    // 100 ms at 20 Mbit/s: 100 ms of queue, within the burst allowance of 150 ms.
    offer(&mut fabric, &[(1, 500)], 100_000, no_class);
    assert_eq!(up(&mut fabric, 0).dropped(), 0);
}

#[test]
fn fq_pie_shields_a_modest_flow_from_a_greedy_one() {
    let (ms15, ms150) = (Span::from_millis(15), Span::from_millis(150));
    let quantum = Bytes::new(1538);
    let fair = Discipline::FqPie { target: ms15, update: ms15, burst: ms150, flows: 1024, quantum };
    let mut fabric = bottleneck(fair, 1000, false);
    // 2 Mbit/s and 40 Mbit/s through 10 Mbit/s.
    let got = offer(&mut fabric, &[(1, 4_973), (2, 250)], 5_000_000, no_class);
    assert!(got[0] >= 990, "{got:?}");
    assert!((3_500..4_100).contains(&got[1]), "{got:?}");
}

/// A light L4S flow waits for at most a packet beside a classic load of 110 %.
#[test]
fn dualpi2_isolates_l4s_from_classic_traffic() {
    let dual = Discipline::DualPi2 { target: Span::from_millis(15), step: Span::from_millis(1) };
    let queue = QueueConfig { ecn: true, ..queue(dual, 10_000) };
    let mut fabric = line(&[LinkConfig { queue, ..link("10 Mbit/s", "1 ms") }]);
    let mut longest = Span::ZERO;
    for step in 0_u64..22_000 {
        let now = Time::ZERO + Span::from_micros(step * 909);
        fabric.inject(now, IfaceId(0), packet(1, 1212, 1));
        if step % 10 == 0 {
            let l4s = Packet { ecn: Ecn::L4s, ..packet(2, 1212, 1) };
            fabric.inject(now, IfaceId(0), l4s);
        }
        for output in drain(&mut fabric) {
            if let Output::Deliver { packet, at, .. } = output
                && packet.body == 2
            {
                longest = longest.max(at.since(packet.entered));
            }
        }
    }
    // 1 ms of propagation, and twice the transmission time of 1250 wire bytes.
    assert!(longest <= Span::from_micros(3_100), "{longest}");
    let delay = mean_delay(&mut fabric);
    assert!((8.0..20.0).contains(&delay), "{delay} ms");
    assert!(early_drops(&mut fabric) > 2_000);
}

#[test]
fn codel_marks_instead_of_dropping_where_it_may() {
    let (target, interval) = CODEL;
    let mut fabric = bottleneck(Discipline::CoDel { target, interval }, 5000, true);
    offer(&mut fabric, &[(100, 909)], 10_000_000, no_class);
    let stats = up(&mut fabric, 0);
    assert!(stats.marked > 50 && stats.dropped() == 0, "{stats:?}");
}

#[test]
fn fq_codel_and_sfq_shield_a_modest_flow_from_a_greedy_one() {
    let (target, interval) = CODEL;
    let quantum = Bytes::new(1538);
    let fair = [
        Discipline::FqCoDel { target, interval, flows: 1024, quantum },
        Discipline::Sfq { flows: 1024, quantum, perturb: None },
        Discipline::Sfq { flows: 1024, quantum, perturb: Some(Span::from_millis(100)) },
    ];
    for discipline in fair {
        let mut fabric = bottleneck(discipline.clone(), 1000, false);
        // 2 Mbit/s and 40 Mbit/s through 10 Mbit/s.
        let got = offer(&mut fabric, &[(1, 4_973), (2, 250)], 5_000_000, no_class);
        assert!(got[0] >= 990, "{discipline:?}: {got:?}");
        assert!((3_700..4_100).contains(&got[1]), "{discipline:?}: {got:?}");
    }
    let mut fabric = bottleneck(Discipline::DropTail, 1000, false);
    let got = offer(&mut fabric, &[(1, 4_973), (2, 250)], 5_000_000, no_class);
    assert!(got[0] < 500, "{got:?}");
}

#[test]
fn priority_serves_the_urgent_class_first() {
    let mut fabric = bottleneck(Discipline::Priority { bands: 3 }, 100, false);
    let class = |flow| if flow == 1 { 46 } else { 0 };
    let got = offer(&mut fabric, &[(1, 2_000), (2, 500)], 5_000_000, class);
    assert!(got[0] >= 2_490, "{got:?}");
    assert!((2_300..2_600).contains(&got[1]), "{got:?}");
}

#[test]
fn drr_shares_by_its_quanta() {
    let quanta = vec![Bytes::new(4500), Bytes::new(1500)];
    let mut fabric = bottleneck(Discipline::Drr { quanta }, 100, false);
    let class = |flow| if flow == 1 { 46 } else { 0 };
    let got = offer(&mut fabric, &[(1, 500), (2, 500)], 10_000_000, class);
    let share = got[0] as f64 / got[1] as f64;
    assert!((share - 3.0).abs() < 0.1, "{got:?}");
}

#[test]
fn red_drops_early_and_marks_capable_packets() {
    let red = || Discipline::Red {
        min: Bytes::new(15_000),
        max: Bytes::new(45_000),
        probability: "10 %".parse().unwrap(),
        weight: "0.2 %".parse().unwrap(),
        harddrop: true,
    };
    let mut fabric = bottleneck(red(), 200, true);
    offer(&mut fabric, &[(1, 950)], 20_000_000, no_class);
    let stats = up(&mut fabric, 0);
    assert!(stats.drops[DropReason::Early.index()] > 100, "{stats:?}");
    assert_eq!(stats.drops[DropReason::QueueFull.index()], 0);
    let mut fabric = bottleneck(red(), 200, true);
    offer(&mut fabric, &[(100, 950)], 20_000_000, no_class);
    assert!(up(&mut fabric, 0).marked > 100, "{:?}", up(&mut fabric, 0));
}

#[test]
fn a_policer_passes_its_burst_and_then_its_rate() {
    let policer = Discipline::Policer { rate: mbit(5), burst: Bytes::new(12_500) };
    let mut fabric = bottleneck(policer, 100, false);
    let got = offer(&mut fabric, &[(1, 1_000)], 10_000_000, no_class);
    // 5,000 packets at half the offered rate, and the ten of the burst.
    assert!((4_995..=5_015).contains(&got[0]), "{got:?}");
    assert_eq!(up(&mut fabric, 0).drops[DropReason::QueueFull.index()], 0);
}

#[test]
fn a_policer_works_without_a_rate() {
    let discipline = Discipline::Policer { rate: mbit(5), burst: Bytes::new(12_500) };
    let queue = queue(discipline, 100);
    let mut fabric = line(&[LinkConfig { queue, ..link("unlimited", "1 ms") }]);
    let got = offer(&mut fabric, &[(1, 1_000)], 10_000_000, no_class);
    assert!((4_995..=5_015).contains(&got[0]), "{got:?}");
}

#[test]
fn drop_head_keeps_the_newest() {
    let mut fabric = bottleneck(Discipline::DropHead, 3, false);
    (0..10).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 1212, 1)));
    let bodies: Vec<_> = deliveries(&finish(&mut fabric)).iter().map(|d| d.0).collect();
    assert_eq!(bodies, [0, 7, 8, 9]);
}
