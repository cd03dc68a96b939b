//! Real Internet paths: from a cloud's region to five others.

use super::boxes::mean;
use super::{Case, times, wall};
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table, quantile,
};

pub(super) const FIGURE: Figure = Figure {
    id: "internet",
    title: "real Internet paths: round trips of small requests beside bulk data, five regions",
    takes: "10 min",
    clocks: &[Clock::Virtual, Clock::Wall],
    files: &[lab_file!("bundler/internet.toml")],
    make: |stage| wall::both(stage, make, check),
};

const LAB: &str = "bundler/internet.toml";
const LOOPS: usize = 10;
/// When bulk data has found its rate, in s.
const SETTLED: f64 = 10.0;
/// A loop's median and third quartile with Bundler are at most so many ms above its base.
const MEDIAN_MS: f64 = 6.0;
const QUARTILE_MS: f64 = 8.0;
/// Third quartiles of the status quo that are so much above the base show a queue to be moved.
const QUEUED_MS: f64 = 30.0;
const THROUGHPUT: f64 = 0.97;

/// A path and what the paper prints of it.
struct Region {
    name: &'static str,
    label: &'static str,
    mbits: u32,
    /// Median of the loops' medians: base, status quo, Bundler, in ms.
    printed: [f64; 3],
    /// Worst third quartile of a loop with Bundler, in ms.
    quartile: f64,
}

const fn region(
    name: &'static str,
    label: &'static str,
    mbits: u32,
    printed: [f64; 3],
    quartile: f64,
) -> Region {
    Region { name, label, mbits, printed, quartile }
}

const REGIONS: [Region; 5] = [
    region("belgium", "Belgium", 100, [99.1, 148.4, 100.2], 110.0),
    region("frankfurt", "Frankfurt", 150, [106.0, 109.8, 106.3], 111.0),
    region("oregon", "Oregon", 200, [33.8, 35.9, 35.9], 40.0),
    region("carolina", "South Carolina", 200, [33.5, 57.4, 34.3], 39.0),
    region("tokyo", "Tokyo", 100, [124.0, 124.3, 123.1], 128.0),
];

/// Round trips of a region's loops in ms, by loop, all seeds together.
type Loops = Vec<Vec<f64>>;

/// A region's loops without load, in the status quo and with Bundler, and what was sent beside.
struct Came {
    loops: [Loops; 3],
    /// Goodput of the bulk data in Mbit/s: status quo, Bundler.
    mean: [f64; 2],
    /// The 99th percentile of its rates by the second.
    peak: [f64; 2],
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for (place, label) in [("egress", "at the cloud's egress"), ("middle", "in the middle")] {
        let came = measure(stage, place)?;
        evidence.tables.push(table(&came, label));
        evidence.plots.push(plot(&came, label));
        claims(&mut evidence, &came, label);
    }
    evidence.note(
        "Rates are a twentieth of the paper's 2 to 4 Gbit/s, queues (60 to 80 ms) and delays as \
         there. A loop's base is its own, on an empty path. Medians and quartiles of loops pool \
         the seeds of a loop, never loops; “pooled” is one median over all samples of all \
         paths, as in the paper's headline of 57 %, to which fast loops contribute more samples. \
         Throughput is goodput in the mean over time; beside it stands the paper's ratio of the \
         99th percentiles of rates by the second.",
    );
    Ok(evidence)
}

/// The first path alone.
fn check(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let seconds = stage.size(40.0, 25.0);
    let name = REGIONS[0].name;
    let never = format!("{} s", seconds - 0.1);
    let [base, quo, ours] = cases("egress", stage);
    let cases = [base.set(format!("flow.bulk-{name}.start"), &never), quo, ours].map(|mut case| {
        for other in &REGIONS[1..] {
            case = case.set(format!("flow.bulk-{}.start", other.name), &never);
            for number in 0..LOOPS {
                case = case.set(format!("flow.loop-{}-{number}.start", other.name), &never);
            }
        }
        case
    });
    let read = |run: &Run| {
        let run = std::slice::from_ref(run);
        let each = (0..LOOPS).map(|number| loops(run, &format!("loop-{name}-{number}")));
        let each = each.collect::<Result<Loops>>()?;
        let quartile = each.iter().map(|times| of(times, 0.75)).fold(f64::MIN, f64::max);
        let (rate, _) = rates(run, &format!("bulk-{name}"))?;
        Ok(vec![median(&each), quartile, rate])
    };
    let heads = ["median of the loops' medians, ms", "worst 75 %", "Mbit/s beside them"];
    let checked = wall::Check { lab: LAB, seed: 1, seconds, heads: &heads, read: &read };
    let checked = checked.run(stage, evidence, &cases)?;
    let [(_, base), (before, quo), (after, ours)] = checked.as_slice() else { return Ok(()) };
    let runs = [(&cases[1], before), (&cases[2], after)];
    let link = format!("egress-{name}");
    evidence.plots.push(wall::waits((&link, f64::from(REGIONS[0].mbits)), &runs)?);
    let what = "Belgium: median above the base in ms";
    wall::claim(evidence, what, "1.1", ours[0] - base[0], -MEDIAN_MS..=2.0 * MEDIAN_MS);
    let what = "Belgium: share of the status quo's that is left";
    let left = (ours[0] - base[0]) / (quo[0] - base[0]);
    wall::claim(evidence, what, "0.02", left, -0.5..=0.5);
    let what = "Belgium: throughput over status quo";
    wall::claim(evidence, what, "within 1 %", ours[2] / quo[2], 0.93..=f64::INFINITY);
    Ok(())
}

fn cases(place: &str, stage: &Stage<'_>) -> [Case; 3] {
    let mut cases = [
        Case::new("base", "base"),
        Case::new("status-quo", "status quo"),
        Case::new("bundler", "Bundler"),
    ];
    for (at, case) in cases.iter_mut().enumerate() {
        let mut own = case.clone().called(place);
        let (duration, last) = stage.size(("70 s", "69.9 s"), ("25 s", "24.9 s"));
        own = own.set("lab.duration", duration);
        for Region { name, mbits, .. } in REGIONS {
            if at < 2 {
                own = own.set(format!("bundle.{name}.mode"), "observe");
            }
            if at == 0 {
                own = own.set(format!("flow.bulk-{name}.start"), last);
            }
            if place == "middle" {
                own = own
                    .set(format!("link.egress-{name}.rate"), "10 Gbit/s")
                    .set(format!("link.middle-{name}.rate"), format!("{mbits} Mbit/s"));
            }
        }
        *case = own;
    }
    cases
}

fn measure(stage: &mut Stage<'_>, place: &str) -> Result<Vec<Came>> {
    let cases = cases(place, stage);
    let all = super::runs(stage, LAB, &cases, 3)?;
    let mut regions = Vec::new();
    for Region { name, .. } in REGIONS {
        let mut came = Came { loops: Default::default(), mean: [0.0; 2], peak: [0.0; 2] };
        for (at, runs) in all.iter().enumerate() {
            came.loops[at] = (0..LOOPS)
                .map(|number| loops(runs, &format!("loop-{name}-{number}")))
                .collect::<Result<_>>()?;
            if at > 0 {
                let (mean, peak) = rates(runs, &format!("bulk-{name}"))?;
                (came.mean[at - 1], came.peak[at - 1]) = (mean, peak);
            }
        }
        regions.push(came);
    }
    Ok(regions)
}

fn loops(runs: &[Run], flow: &str) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for run in runs {
        // In order: those of start-up come first.
        let times = run.round_trips(flow)?;
        let total: f64 = times.iter().sum();
        let skip = SETTLED / total.max(SETTLED);
        let skip = (times.len() as f64 * skip) as usize;
        all.extend(times.iter().skip(skip).map(|seconds| seconds * 1e3));
    }
    Ok(all)
}

fn rates(runs: &[Run], flow: &str) -> Result<(f64, f64)> {
    let (mut sum, mut all) = (0.0, Vec::new());
    for run in runs {
        let rate = run.flow_rate(flow, 1.0)?;
        sum += mean(&rate, SETTLED, 1e9) / 1e6 / runs.len() as f64;
        all.extend(rate.iter().filter(|(at, _)| *at > SETTLED).map(|(_, rate)| rate / 1e6));
    }
    Ok((sum, quantile(&all, 0.99).unwrap_or(f64::NAN)))
}

fn of(values: &[f64], share: f64) -> f64 {
    quantile(values, share).unwrap_or(f64::NAN)
}

/// The median of the loops' medians.
fn median(loops: &Loops) -> f64 {
    let medians: Vec<f64> = loops.iter().map(|times| of(times, 0.5)).collect();
    of(&medians, 0.5)
}

/// The largest difference of a loop's quantile from its base's median.
fn excess(came: &Came, way: usize, share: f64) -> f64 {
    let each = came.loops[way].iter().zip(&came.loops[0]);
    each.map(|(times, base)| of(times, share) - of(base, 0.5)).fold(f64::MIN, f64::max)
}

fn table(came: &[Came], place: &str) -> Table {
    let heads = [
        "path",
        "base",
        "status quo",
        "Bundler",
        "its worst 75 %",
        "worst above base, 50 % and 75 %",
        "Mbit/s",
        "ratio",
        "of peaks",
    ];
    let title = format!(
        "Bottleneck {place}: median of the loops' median round trips in ms, the paper's / ours; \
         goodput beside them, status quo and Bundler"
    );
    let mut table = Table::new(title, &heads);
    for (region, came) in REGIONS.iter().zip(came) {
        let both =
            |at: usize| format!("{:.1} / {:.1}", region.printed[at], median(&came.loops[at]));
        let quartile = came.loops[2].iter().map(|times| of(times, 0.75)).fold(0.0, f64::max);
        table.row([
            region.label.to_owned(),
            both(0),
            both(1),
            both(2),
            format!("{:.0} / {quartile:.1}", region.quartile),
            format!("{:.1}, {:.1}", excess(came, 2, 0.5), excess(came, 2, 0.75)),
            format!("{:.1}, {:.1}", came.mean[0], came.mean[1]),
            format!("{:.3}", came.mean[1] / came.mean[0]),
            format!("{:.3}", came.peak[1] / came.peak[0]),
        ]);
    }
    table
}

fn plot(came: &[Came], place: &str) -> Plot {
    let title = format!("Round trips of each loop, bottleneck {place}");
    let x = Axis::linear("loop: ten each of Belgium, Frankfurt, Oregon, South Carolina, Tokyo");
    let mut plot = Plot::new(title, x, Axis::linear("round trip in ms").from(0.0));
    "Medians; bands reach from the first to the third quartile.".clone_into(&mut plot.note);
    for (way, label) in ["base", "status quo", "Bundler"].into_iter().enumerate() {
        let times: Vec<&Vec<f64>> = came.iter().flat_map(|came| &came.loops[way]).collect();
        let points = times.iter().zip(1..).map(|(times, at)| (f64::from(at), of(times, 0.5)));
        let band = times.iter().map(|times| (of(times, 0.25), of(times, 0.75))).collect();
        plot.lines.push(Line::new(label, points.collect()).spread(band));
    }
    for (way, label) in ["base", "status quo", "Bundler"].into_iter().enumerate() {
        let regions = REGIONS.iter().zip(0..);
        let points = regions.map(|(region, at)| (5.5 + 10.0 * f64::from(at), region.printed[way]));
        let line = Line::new(format!("{label} (paper)"), points.collect());
        plot.lines.push(line.style(Style::Dots));
    }
    plot
}

fn claims(evidence: &mut Evidence, came: &[Came], place: &str) {
    for (region, came) in REGIONS.iter().zip(came) {
        let which = format!("{}, bottleneck {place}", region.label);
        let [base, quo, ours] = region.printed;
        for (what, share, most, paper) in [
            ("median", 0.5, MEDIAN_MS, ours - base),
            ("third quartile", 0.75, QUARTILE_MS, region.quartile - base),
        ] {
            let excess = excess(came, 2, share);
            evidence.claim(
                format!("worst loop's {what} over its base, {which}"),
                format!("about {paper:.0} ms (here: at most {most} ms)"),
                format!("{excess:.1} ms; status quo {:.1} ms", self::excess(came, 1, share)),
                excess <= most,
            );
        }
        let queued = came.loops[1].iter().zip(&came.loops[0]);
        let queued = queued.filter(|(times, base)| of(times, 0.75) - of(base, 0.5) >= QUEUED_MS);
        let queued = queued.count();
        evidence.claim(
            format!("loops that queue in the status quo, {which}"),
            format!("half or more; {:.0} ms in their median", quo - base),
            format!("{queued} of {LOOPS} by {QUEUED_MS} ms or more"),
            queued * 2 >= LOOPS,
        );
        let ratio = came.mean[1] / came.mean[0];
        evidence.claim(
            format!("throughput over status quo, {which}"),
            format!("1.00 × of peaks (here: at least {THROUGHPUT} × in the mean)"),
            times(ratio),
            ratio >= THROUGHPUT,
        );
    }
    let pooled = |way: usize| {
        let all: Vec<f64> =
            came.iter().flat_map(|came| came.loops[way].iter().flatten()).copied().collect();
        of(&all, 0.5)
    };
    let (base, quo, ours) = (pooled(0), pooled(1), pooled(2));
    evidence.claim(
        format!("pooled median of all round trips, bottleneck {place}"),
        "57 % less (here: below status quo)",
        format!(
            "{:.0} % less: {quo:.1} to {ours:.1} ms, base {base:.1} ms",
            (1.0 - ours / quo) * 1e2
        ),
        ours < quo,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loop_is_held_to_its_own_base() {
        let loops = |add: f64| (0..10).map(|at| vec![100.0 + f64::from(at) + add; 4]).collect();
        let came = |ours: f64| Came {
            loops: [loops(0.0), loops(50.0), loops(ours)],
            mean: [90.0, 89.0],
            peak: [95.0, 95.0],
        };
        let wrong = |ours: f64| {
            let mut evidence = Evidence::default();
            let all: Vec<Came> = (0..5).map(|_| came(ours)).collect();
            claims(&mut evidence, &all, "in the middle");
            evidence.claims.iter().filter(|claim| !claim.holds).count()
        };
        assert_eq!(wrong(5.9), 0);
        // All five medians.
        assert_eq!(wrong(7.0), 5);
        assert_eq!(wrong(9.0), 10);
    }
}
