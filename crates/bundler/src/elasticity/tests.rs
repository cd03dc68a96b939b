use super::Verdict;
use super::bench::{Bench, Requests, Source};

/// Seconds in which the verdict was elastic, of a run without elastic cross traffic.
fn alarms(mbits: u64, rtt: u64, seconds: f64, seed: u64, kind: &str, misjudged: f64) -> (f64, f64) {
    let mut bench = Bench::new(mbits, 100, seed);
    bench.bundle(10, rtt, 0.3);
    bench.bundles[0].misjudged = misjudged;
    match kind {
        "none" => {}
        "cbr" => drop(bench.cross(Source::Constant(0.4), rtt)),
        "poisson" => drop(bench.cross(Source::Poisson(0.4), rtt)),
        "short" => bench.requests = Some(Requests { share: 0.25, rtt }),
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

/// When the elastic flow, there from 20 s to 60 s, is noticed, how much of that time the verdict
/// is elastic, and when its leaving is noticed.
fn visit(
    mbits: u64,
    rtt: u64,
    cross_rtt: u64,
    cubic: bool,
    seed: u64,
    misjudged: f64,
) -> (f64, f64, f64, f64) {
    let mut bench = Bench::new(mbits, 100, seed);
    bench.bundle(10, rtt, 0.5);
    bench.bundles[0].misjudged = misjudged;
    bench.run(20.0, |_, _| {});
    let before = bench.queueing / 20_000.0;
    let flow = bench.cross(Source::Window { cubic }, cross_rtt);
    let (mut first, mut elastic, mut gone) = (99.0f64, 0.0, 99.0f64);
    bench.run(60.0, |now, bundles| {
        if bundles[0].detector.verdict() == Verdict::Elastic {
            first = first.min(now - 20.0);
            elastic += 0.01 / 40.0;
        }
    });
    bench.stop(flow);
    bench.run(90.0, |now, bundles| {
        if bundles[0].detector.verdict() == Verdict::Inelastic {
            gone = gone.min(now - 60.0);
        } else {
            gone = 99.0;
        }
    });
    (first, elastic, gone, before)
}

#[test]
#[ignore = "prints the table of detection"]
fn table() {
    let seeds = 4;
    for mbits in [12, 96, 1000] {
        for rtt in [20, 50, 150, 300] {
            for kind in ["none", "cbr", "poisson", "short", "bundle"] {
                for misjudged in [1.0, 0.5, 2.0] {
                    let run = |seed| alarms(mbits, rtt, 60.0, seed, kind, misjudged);
                    let (elastic, peak) = (0..seeds)
                        .map(run)
                        .fold((0.0, 0.0f64), |a, b| (a.0 + b.0, a.1.max(b.1)));
                    println!("{mbits:5} {rtt:4} {kind:8} x{misjudged}: {elastic:5.1} s {peak:5.1}");
                }
            }
            for (cross, cubic) in [(20, true), (50, true), (200, true), (50, false)] {
                for misjudged in [1.0, 0.5, 2.0] {
                    let mut line = String::new();
                    for seed in 0..seeds {
                        let (first, share, gone, queue) =
                            visit(mbits, rtt, cross, cubic, seed, misjudged);
                        line += &format!("  {first:5.2} {share:4.2} {gone:5.2} {queue:4.1} |");
                    }
                    println!("{mbits:5} {rtt:4} window {cross:3} {cubic} x{misjudged}: {line}");
                }
            }
        }
    }
}
