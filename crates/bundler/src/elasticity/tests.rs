use base::{Bandwidth, Time};

use super::bench::{Bench, Bundle, Requests, Source};
use super::{Detector, Regime, Verdict};

/// Seconds in which the verdict was elastic, of a run without elastic cross traffic.
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
            elastic += f64::from(u8::from(bundle.detector.verdict() == Verdict::Elastic)) * 0.01;
            peak = peak.max(bundle.detector.eta().unwrap_or(0.0));
        }
    });
    (elastic, peak)
}

/// What became of an elastic flow that was there from 20 s to 60 s.
#[derive(Debug)]
struct Visit {
    /// Seconds until it was noticed, and until its leaving was.
    noticed: f64,
    left: f64,
    /// Share of the time in between with the right verdict.
    known: f64,
    /// Bytes of the bundle while it was there.
    carried: f64,
    /// Mean queueing before, in ms.
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
    bench.run(20.0, |_, _| {});
    let queueing = bench.queueing / 20_000.0;
    let before = bench.received(0);
    let flow = bench.cross(Source::Window { cubic }, rtts.1);
    let (mut noticed, mut known, mut left) = (99.0f64, 0.0, 99.0f64);
    bench.run(60.0, |now, bundles| {
        if bundles[0].detector.verdict() == Verdict::Elastic {
            noticed = noticed.min(now - 20.0);
            known += 0.01 / 40.0;
        }
    });
    bench.stop(flow);
    let carried = bench.received(0) - before;
    bench.run(76.0, |now, bundles| {
        let gone = bundles[0].detector.verdict() == Verdict::Inelastic;
        left = if gone { left.min(now - 60.0) } else { 99.0 };
    });
    Visit { noticed, left, known: known / (1.0 - noticed / 40.0), carried, queueing }
}

#[test]
fn what_does_not_answer_raises_no_alarm() {
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
fn elastic_flows_are_noticed_and_their_leaving_too() {
    let cases = [
        ((20, 20), true, 1.0),
        ((50, 50), true, 0.5),
        ((50, 20), false, 2.0),
        ((150, 50), true, 1.0),
    ];
    for (rtts, cubic, misjudged) in cases {
        let visit = visit(true, 24, rtts, cubic, 5, misjudged);
        assert!(visit.noticed < 7.0 && visit.left < 15.0, "{rtts:?} x{misjudged}: {visit:?}");
        assert!(visit.known > 0.5 && visit.queueing < 8.0, "{rtts:?} x{misjudged}: {visit:?}");
    }
}

#[test]
fn beside_elastic_flows_the_bundle_keeps_most_of_what_it_would_have() {
    let carried = |paced| visit(paced, 24, (50, 50), true, 1, 1.0).carried;
    let share = carried(true) / carried(false);
    assert!(share > 0.65, "{share}");
}

#[test]
fn two_bundles_leave_pass_through_both() {
    let mut bench = Bench::new(96, 100, 1);
    for _ in 0..2 {
        bench.bundle(10, 150, 0.5);
    }
    bench.run(20.0, |_, _| {});
    let flow = bench.cross(Source::Window { cubic: true }, 50);
    let is = |bundle: &Bundle| bundle.detector.verdict() == Verdict::Elastic;
    let mut elastic = 0.0;
    bench.run(60.0, |_, bundles| elastic += f64::from(bundles.iter().all(is)) * 0.01);
    assert!(elastic > 20.0, "{elastic} s");
    bench.stop(flow);
    bench.run(90.0, |_, _| {});
    bench.run(95.0, |now, bundles| assert!(!bundles.iter().any(is), "{now}"));
}

#[test]
fn pulses_add_nothing_and_leave_the_rate_positive() {
    for regime in [Regime::Delay, Regime::PassThrough] {
        for rate in [2, 20, 96] {
            let mut detector = Detector::new(1);
            let (rate, capacity) =
                (Bandwidth::from_mbits_per_sec(rate), Bandwidth::from_mbits_per_sec(96));
            let share = rate.bits_per_sec() as f64 / capacity.bits_per_sec() as f64;
            let pulse =
                |ms: u64| detector.pulse(Time::from_nanos(ms * 1_000_000), regime, rate, capacity);
            let pulses: Vec<f64> = (0..5120).map(pulse).collect();
            let mean = pulses.iter().sum::<f64>() / 5120.0;
            assert!(mean.abs() < 1e-3 * share, "{mean}");
            assert!(pulses.iter().all(|pulse| share + pulse > 0.0 && *pulse <= 0.25));
            assert!(pulses.iter().any(|pulse| *pulse > 0.1 * share));
        }
    }
}

#[test]
fn seeds_and_regimes_give_different_frequencies() {
    let crossings = |seed, regime| {
        let mut detector = Detector::new(seed);
        let rate = Bandwidth::from_mbits_per_sec(50);
        let pulse =
            |ms: u64| detector.pulse(Time::from_nanos(ms * 1_000_000), regime, rate, rate) > 0.0;
        let pulses: Vec<bool> = (0..20_480).map(pulse).collect();
        pulses.windows(2).filter(|pair| pair[1] && !pair[0]).count()
    };
    let all: std::collections::BTreeSet<usize> =
        (0..20).map(|seed| crossings(seed, Regime::Delay)).collect();
    assert!(all.len() >= 6, "{all:?}");
}
