use base::{Bandwidth, Time};

use super::Detector;
use super::bench::{Bench, Requests, Source, detector};

/// Seconds with a false detection, in a run without elastic cross traffic.
fn alarms(mbits: u64, rtt: u64, seconds: f64, seed: u64, kind: &str, misjudged: f64) -> (f64, f64) {
    let mut bench = Bench::new(mbits, 100, seed);
    if kind == "idle" {
        let bundle = bench.bundle(0, rtt, 0.3);
        bench.offer(bundle, Source::Poisson(0.5), rtt);
    } else {
        bench.bundle(10, rtt, 0.3);
    }
    bench.bundles[0].misjudged = misjudged;
    match kind {
        "none" | "idle" => {}
        "cbr" => drop(bench.cross(Source::Constant(0.4), rtt)),
        "poisson" => drop(bench.cross(Source::Poisson(0.4), rtt)),
        "short" => bench.requests = Some(Requests { share: 0.4, rtt, longest: 1e6 }),
        "mixed" => bench.requests = Some(Requests { share: 0.25, rtt, longest: 1e8 }),
        "bundle" => drop(bench.bundle(10, rtt, 0.3)),
        _ => unreachable!(),
    }
    let (mut elastic, mut peak) = (0.0, 0.0f64);
    bench.run(seconds, |_, bundles| {
        for bundle in bundles {
            elastic += f64::from(u8::from(bundle.detector.is_elastic())) * 0.01;
            peak = peak.max(bundle.detector.eta().unwrap_or(0.0));
        }
    });
    (elastic, peak)
}

/// Result for an elastic flow that starts after 20 s.
#[derive(Debug)]
struct Visit {
    /// Seconds until it was detected.
    noticed: f64,
    /// Bytes of the bundle within 40 s of the flow.
    carried: f64,
    /// Mean queueing delay before, in ms.
    queueing: f64,
}

fn visit(
    paced: bool,
    mbits: u64,
    rtts: (u64, u64),
    cubic: bool,
    seed: u64,
    misjudged: f64,
) -> Visit {
    let mut bench = Bench::new(mbits, 100, seed);
    bench.bundle(10, rtts.0, 0.5);
    bench.bundles[0].misjudged = misjudged;
    bench.bundles[0].paced = paced;
    bench.run(20.0, |_, bundles| assert!(!paced || bundles[0].paced));
    let queueing = bench.queueing / 20_000.0;
    let before = bench.received(0);
    bench.cross(Source::Window { cubic }, rtts.1);
    let mut noticed = 99.0f64;
    bench.run(60.0, |now, bundles| {
        if !bundles[0].paced {
            noticed = noticed.min(now - 20.0);
        }
    });
    Visit { noticed, carried: bench.received(0) - before, queueing }
}

#[test]
fn inelastic_traffic_raises_no_alarm() {
    for (mbits, rtt, misjudged) in [(12, 20, 2.0), (24, 150, 0.5), (96, 50, 1.0)] {
        for kind in ["none", "cbr", "poisson", "short", "idle"] {
            let (elastic, peak) = alarms(mbits, rtt, 25.0, 7, kind, misjudged);
            assert!(elastic == 0.0, "{mbits} {rtt} {kind} x{misjudged}: {elastic} s, {peak}");
        }
    }
}

#[test]
fn another_bundle_raises_no_alarm() {
    for (mbits, rtt) in [(12, 20), (48, 50), (24, 150)] {
        let (elastic, peak) = alarms(mbits, rtt, 30.0, 3, "bundle", 1.0);
        assert!(elastic == 0.0, "{mbits} {rtt}: {elastic} s, {peak}");
    }
}

#[test]
fn detects_elastic_flows() {
    let cases = [
        ((20, 20), true, 1.0),
        ((50, 50), true, 0.5),
        ((50, 20), false, 2.0),
        ((150, 50), true, 1.0),
    ];
    for (rtts, cubic, misjudged) in cases {
        let visit = visit(true, 24, rtts, cubic, 5, misjudged);
        let is_fine = visit.noticed < 7.0 && visit.queueing < 8.0;
        assert!(is_fine, "{rtts:?} x{misjudged}: {visit:?}");
    }
}

#[test]
fn keeps_65_percent_beside_elastic_flows() {
    let carried = |paced| visit(paced, 24, (50, 50), true, 1, 1.0).carried;
    let share = carried(true) / carried(false);
    assert!(share > 0.65, "{share}");
}

#[test]
fn pulses_have_zero_mean_and_leave_the_rate_positive() {
    for rate in [2, 20, 96] {
        let mut detector = detector(1);
        detector.begin(Time::ZERO);
        let (rate, capacity) =
            (Bandwidth::from_mbits_per_sec(rate), Bandwidth::from_mbits_per_sec(96));
        let share = rate.bits_per_sec() as f64 / capacity.bits_per_sec() as f64;
        let pulse = |ms: u64| detector.pulse(Time::from_nanos(ms * 1_000_000), rate, capacity);
        let pulses: Vec<f64> = (0..5120).map(pulse).collect();
        let mean = pulses.iter().sum::<f64>() / 5120.0;
        assert!(mean.abs() < 1e-3 * share, "{mean}");
        assert!(pulses.iter().all(|pulse| share + pulse > 0.0 && *pulse <= 0.125));
        assert!(pulses.iter().any(|pulse| *pulse > 0.1 * share));
    }
}

#[test]
fn seed_and_restart_change_the_pulse_frequency() {
    let crossings = |detector: &mut Detector| {
        detector.begin(Time::ZERO);
        let rate = Bandwidth::from_mbits_per_sec(50);
        let pulse = |ms: u64| detector.pulse(Time::from_nanos(ms * 1_000_000), rate, rate) > 0.0;
        let pulses: Vec<bool> = (0..20_480).map(pulse).collect();
        pulses.windows(2).filter(|pair| pair[1] && !pair[0]).count()
    };
    let all: std::collections::BTreeSet<usize> =
        (0..20).map(|seed| crossings(&mut detector(seed))).collect();
    assert!(all.len() >= 6, "{all:?}");
    let mut one = detector(1);
    let again: Vec<usize> = (0..6).map(|_| crossings(&mut one)).collect();
    assert!(again.windows(2).all(|pair| pair[0] != pair[1]), "{again:?}");
}
