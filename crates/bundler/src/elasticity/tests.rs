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
    bench.run(90.0, |now, bundles| {
        let gone = bundles[0].detector.verdict() == Verdict::Inelastic;
        left = if gone { left.min(now - 60.0) } else { 99.0 };
    });
    Visit { noticed, left, known: known / (1.0 - noticed / 40.0), carried, queueing }
}

#[test]
#[ignore = "prints the table of detection"]
fn table() {
    let seeds = 4;
    for mbits in [12, 96, 1000] {
        for rtt in [20, 50, 150, 300] {
            for kind in ["none", "cbr", "poisson", "short", "mixed", "bundle"] {
                for misjudged in [1.0, 0.5, 2.0] {
                    let run = |seed| alarms(mbits, rtt, 60.0, seed, kind, misjudged);
                    let (elastic, peak) =
                        (0..seeds).map(run).fold((0.0, 0.0f64), |a, b| (a.0 + b.0, a.1.max(b.1)));
                    println!("{mbits:5} {rtt:4} {kind:8} x{misjudged}: {elastic:5.1} s {peak:5.1}");
                }
            }
            for (cross, cubic) in [(20, true), (50, true), (200, true), (50, false)] {
                for misjudged in [1.0, 0.5, 2.0] {
                    let visits = |paced| {
                        let visit =
                            move |seed| visit(paced, mbits, (rtt, cross), cubic, seed, misjudged);
                        (0..seeds).map(visit).collect::<Vec<_>>()
                    };
                    let (ours, plain) = (visits(true), visits(false));
                    let most = |what: fn(&Visit) -> f64| ours.iter().map(what).fold(0.0, f64::max);
                    let sum =
                        |of: &[Visit], what: fn(&Visit) -> f64| of.iter().map(what).sum::<f64>();
                    println!(
                        "{mbits:5} {rtt:4} window {cross:3} {cubic} x{misjudged}: noticed {:5.2} \
                         known {:4.2} left {:5.2} queue {:4.1} carried {:4.2}",
                        most(|v| v.noticed),
                        sum(&ours, |v| v.known) / seeds as f64,
                        most(|v| v.left),
                        most(|v| v.queueing),
                        sum(&ours, |v| v.carried) / sum(&plain, |v| v.carried),
                    );
                }
            }
        }
    }
}
