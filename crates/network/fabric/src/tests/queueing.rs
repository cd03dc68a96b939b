//! Queues compared with closed forms of queueing theory, and every discipline in one table.

use super::*;
use crate::{Discipline, DropReason, Loss};
use base::{RandomStream, Ratio};

/// A queue's rate, chosen so that a byte takes 1 µs.
const RATE: &str = "8 Mbit/s";

/// Mean waiting time in µs of Poisson arrivals at an unlimited queue, and the half-width of its
/// 99.9 % confidence interval by batch means.
fn waiting(gap: f64, size: impl Fn(&mut RandomStream) -> u32, seed: u64) -> (f64, f64) {
    const BATCHES: usize = 30;
    const PACKETS: usize = 8_000;
    let queue = queue(Discipline::DropTail, u32::MAX);
    let link = LinkConfig { queue, mtu: Bytes::ZERO, ..link(RATE, "0 ms") };
    let mut fabric = line(&[link]);
    let mut rng = RandomStream::new(seed, "waiting");
    let (mut at, mut batches) = (0.0, Vec::new());
    for _ in 0..BATCHES {
        let mut sum = 0.0;
        for _ in 0..PACKETS {
            at -= gap * (1.0 - rng.unit()).ln();
            let bytes = size(&mut rng);
            let now = Time::from_nanos((at * 1e3) as u64);
            fabric.inject(now, IfaceId(0), packet(0, bytes, 1));
            for (entered, sent, arrived) in arrived(&mut fabric) {
                let service = f64::from(sent) + OVERHEAD as f64;
                sum += arrived.since(entered).as_nanos() as f64 / 1e3 - service;
            }
        }
        batches.push(sum / PACKETS as f64);
    }
    let mean = batches.iter().sum::<f64>() / BATCHES as f64;
    let square = |batch: &f64| (batch - mean).powi(2);
    let variance = batches.iter().map(square).sum::<f64>() / (BATCHES - 1) as f64;
    // Student's t with 29 degrees of freedom.
    (mean, 3.66 * (variance / BATCHES as f64).sqrt())
}

/// (entered, layer-3 bytes, arrived) of the delivered packets.
fn arrived(fabric: &mut Fabric<u32>) -> Vec<(Time, u32, Time)> {
    let deliveries = drain(fabric).into_iter().filter_map(|output| match output {
        Output::Deliver { packet, at, .. } => Some((packet.entered, packet.last, at)),
        _ => None,
    });
    deliveries.collect()
}

/// Pollaczek and Khinchine: W = ρ·S/(2(1 − ρ)) for a constant service time S.
#[test]
fn constant_packets_wait_as_in_m_d_1() {
    for percent in [50u8, 80, 90] {
        let load = f64::from(percent) / 100.0;
        let service = 1000.0;
        let (mean, margin) = waiting(service / load, |_| 1000 - OVERHEAD as u32, percent.into());
        let theory = load * service / (2.0 * (1.0 - load));
        assert!((mean - theory).abs() < margin, "{percent} %: {mean} ± {margin}, {theory}");
        assert!(margin < theory * 0.15, "{percent} %: {margin} tells nothing");
    }
}

/// W = ρ·S/(1 − ρ) for exponential service times of mean S.
#[test]
fn exponential_packets_wait_as_in_m_m_1() {
    for percent in [50u8, 80] {
        let load = f64::from(percent) / 100.0;
        // Large compared with the overhead, which truncates the distribution at its lower end.
        let service = 100_000.0;
        let size = |rng: &mut RandomStream| {
            let drawn = -service * (1.0 - rng.unit()).ln() - OVERHEAD as f64;
            drawn.max(1.0).round() as u32
        };
        let (mean, margin) = waiting(service / load, size, percent.into());
        let theory = load * service / (1.0 - load);
        assert!((mean - theory).abs() < margin, "{percent} %: {mean} ± {margin}, {theory}");
        assert!(margin < theory * 0.2, "{percent} %: {margin} tells nothing");
    }
}

/// Bursts of a Gilbert-Elliott chain that loses all in its bad state are geometric with mean 1/r;
/// p/(p + r) of all packets are lost (Gilbert 1960).
#[test]
fn gilbert_elliott_bursts_on_a_link_follow_theory() {
    for (p, r) in [(1.0, 25.0), (0.5, 10.0), (2.0, 50.0)] {
        let ratio = |percent: f64| Ratio::from_parts_per_billion((percent * 1e7) as u64);
        let loss = Loss::GilbertElliott {
            p: ratio(p),
            r: ratio(r),
            loss_good: Ratio::ZERO,
            loss_bad: Ratio::ONE,
        };
        let mut fabric = line(&[LinkConfig { loss, ..link("unlimited", "0 ms") }]);
        let sent = 200_000u32;
        (0..sent).for_each(|body| fabric.inject(Time::ZERO, IfaceId(0), packet(body, 100, 1)));
        let bodies: Vec<u32> = deliveries(&finish(&mut fabric)).iter().map(|d| d.0).collect();
        let gaps = bodies.windows(2).map(|pair| pair[1] - pair[0] - 1).filter(|gap| *gap > 0);
        let gaps: Vec<u32> = gaps.collect();
        let lost: u32 = gaps.iter().sum();
        let share = f64::from(lost) / f64::from(sent);
        let theory = p / (p + r);
        assert!((share / theory - 1.0).abs() < 0.1, "p {p} r {r}: lost {share}, theory {theory}");
        let burst = f64::from(lost) / gaps.len() as f64;
        assert!((burst * r / 100.0 - 1.0).abs() < 0.06, "p {p} r {r}: burst {burst}");
        // Geometric: a share of 1 - r of the bursts is longer than one packet.
        let longer = gaps.iter().filter(|gap| **gap > 1).count() as f64 / gaps.len() as f64;
        assert!((longer - (1.0 - r / 100.0)).abs() < 0.03, "p {p} r {r}: longer {longer}");
    }
}

/// A greedy flow in bursts, a modest flow of small packets and an ECN-capable one share 10 Mbit/s.
#[test]
fn each_discipline_delays_and_drops_as_it_did() {
    let (target, interval) = (Span::from_millis(5), Span::from_millis(100));
    let quantum = Bytes::new(1538);
    let kb = |count: u64| Bytes::new(count * 1000);
    let red = Discipline::Red {
        min: kb(15),
        max: kb(45),
        probability: "10 %".parse().unwrap(),
        weight: "0.2 %".parse().unwrap(),
        harddrop: true,
    };
    let burst = kb(30);
    let disciplines = [
        ("droptail", Discipline::DropTail),
        ("drophead", Discipline::DropHead),
        ("red", red),
        ("codel", Discipline::CoDel { target, interval }),
        ("fq-codel", Discipline::FqCoDel { target, interval, flows: 1024, quantum }),
        ("pie", Discipline::Pie { target, update: target, burst: interval }),
        (
            "fq-pie",
            Discipline::FqPie { target, update: target, burst: interval, flows: 1024, quantum },
        ),
        ("dualpi2", Discipline::DualPi2 { target, step: Span::from_millis(1) }),
        ("sfq", Discipline::Sfq { flows: 128, quantum, perturb: None }),
        ("priority", Discipline::Priority { bands: 2 }),
        ("drr", Discipline::Drr { quanta: vec![kb(3), kb(1)] }),
        ("policer", Discipline::Policer { rate: mbit(8), burst }),
    ];
    let mut table = String::from(
        "             greedy           modest           ECN-capable\n\
         discipline   mean ms  lost %  mean ms  lost %  mean ms  lost %  full  early  marks\n",
    );
    for (name, discipline) in disciplines {
        table += &row(name, discipline);
    }
    insta::assert_snapshot!(table);
}

fn row(name: &str, discipline: Discipline) -> String {
    let mut fabric = bottleneck(discipline);
    let mut rng = RandomStream::new(1, "offered");
    // (flow, mean gap in µs, layer-3 bytes, packets at a time, DSCP, ECN)
    let flows = [
        (1u32, 12_000.0, 1462u32, 12u32, 0u8, Ecn::NotCapable),
        (2, 2_000.0, 162, 1, 40, Ecn::NotCapable),
        (3, 6_000.0, 1462, 1, 0, Ecn::Capable),
    ];
    let (mut due, mut sent) = ([0.0f64; 3], [0u64; 3]);
    let (mut sums, mut got) = ([0.0f64; 3], [0u64; 3]);
    loop {
        let next = (0..3).min_by(|a, b| due[*a].total_cmp(&due[*b])).unwrap();
        let (flow, gap, bytes, count, dscp, ecn) = flows[next];
        if due[next] > 20e6 {
            break;
        }
        let now = Time::from_nanos((due[next] * 1e3) as u64);
        for _ in 0..count {
            let packet = Packet { flow, dscp, ecn, ..packet(next as u32, bytes, 1) };
            fabric.inject(now, IfaceId(0), packet);
            sent[next] += 1;
        }
        due[next] -= gap * (1.0 - rng.unit()).ln();
        for output in drain(&mut fabric) {
            if let Output::Deliver { packet, at, .. } = output {
                sums[packet.body as usize] += at.since(packet.entered).as_nanos() as f64 / 1e6;
                got[packet.body as usize] += 1;
            }
        }
    }
    let stats = up(&mut fabric, 0);
    let drop = |reason: DropReason| stats.drops[reason.index()];
    let (full, early) = (drop(DropReason::QueueFull), drop(DropReason::Early));
    let early = early + drop(DropReason::Policed);
    let cell = |i: usize| {
        let lost = 100.0 * (1.0 - got[i] as f64 / sent[i] as f64);
        format!("{:7.2}  {lost:6.2}", sums[i] / got[i] as f64)
    };
    let cells = [0, 1, 2].map(cell).join("  ");
    format!("{name:11}  {cells}  {full:4}  {early:5}  {:5}\n", stats.marked)
}

fn bottleneck(discipline: Discipline) -> Fabric<u32> {
    let queue = QueueConfig { ecn: true, ..queue(discipline, 60) };
    line(&[LinkConfig { queue, ..link("10 Mbit/s", "1 ms") }])
}
