//! Figure 7: how long requests take, by what orders them and where.

use super::boxes::{mean, queue};
use super::requests::{Class, DEFINITION, Requests};
use super::{BOTTLENECK_MBITS, Case, bundler, runs, status_quo, times, wall};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Style, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "requests",
    title: "figure 7: slowdown of requests at 84 of 96 Mbit/s",
    takes: "6 min",
    clocks: &[Clock::Virtual, Clock::Wall],
    files: &[lab_file!("bundler/requests.toml")],
    make: |stage| wall::both(stage, make, check),
};

pub(super) const LAB: &str = "bundler/requests.toml";
/// What the median may be of the status quo's, and the 99th percentile.
const MEDIAN: f64 = 0.75;
const TAIL: f64 = 0.6;
/// No class may be slower by more than this.
const WORSE: f64 = 1.05;
/// How far the status quo may be from the paper's, whose seeds are not known: the few largest
/// responses decide how much load a seed has.
const NEAR: f64 = 0.25;

/// The paper's figures: median, 99th percentile, and medians of the classes.
struct Printed {
    median: f64,
    tail: f64,
    classes: [f64; 3],
}

const STATUS_QUO: Printed = Printed { median: 1.76, tail: 79.4, classes: [1.70, 4.53, 9.8] };
const SFQ: Printed = Printed { median: 1.26, tail: 41.4, classes: [1.25, 3.41, 6.7] };
const FIFO: Printed = Printed { median: 2.13, tail: f64::NAN, classes: [2.09, 5.27, 8.7] };
const NETWORK: Printed = Printed { median: 1.07, tail: 27.5, classes: [1.07, 2.90, 4.3] };

/// Fair queueing at the bottleneck, which nobody can have.
fn in_network() -> Case {
    let case = Case::new("in-network", "fair queueing in the network");
    case.set("bundle.site.mode", "observe")
        .set("link.bottleneck.queue", "{ kind = \"sfq\", limit = \"1200 packets\" }")
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let fifo = Case::new("bundler-fifo", "Bundler, FIFO")
        .set("bundle.site.scheduler", "{ kind = \"droptail\", limit = \"1250 packets\" }");
    let sfq = Case { label: "Bundler, SFQ".to_owned(), ..bundler() };
    let cases = [status_quo(), sfq, fifo, in_network()];
    let count = stage.size(100_000, 20_000).to_string();
    let sized: Vec<Case> =
        cases.iter().map(|case| case.clone().set("flow.requests.count", &count)).collect();
    let all = runs(stage, LAB, &sized, stage.size(10, 3))?;
    let read = all.iter().map(|runs| Requests::read(runs, "requests"));
    let requests: Vec<Requests> = read.collect::<Result<_>>()?;
    let printed = [STATUS_QUO, SFQ, FIFO, NETWORK];
    let mut evidence = Evidence::default();
    evidence.plots.push(plot(&cases, &requests, &printed));
    evidence.tables.push(table(&cases, &requests, &printed));
    claims(&mut evidence, &requests, stage.short());
    evidence.note(DEFINITION);
    evidence.note(
        "The bottleneck is a FIFO whose delay CoDel caps near 100 ms, and flows of responses are \
         Cubic with initial windows of 10 segments, as in the paper's configurations. The paper \
         does not say how its 99th percentiles of 27 to 79 come about: one request in a hundred \
         is above 76 kB, and with fair queueing in the network it takes three or four round trips.",
    );
    Ok(evidence)
}

/// A seed whose first minute offers about the load that is asked for: few do.
const WALL_SEED: u64 = 4;

fn check(stage: &mut Stage<'_>, evidence: &mut Evidence) -> Result<()> {
    let seconds = stage.size(60.0, 20.0);
    let cases = [status_quo(), bundler()];
    let read = |run: &Run| {
        let requests = Requests::read(std::slice::from_ref(run), "requests")?;
        let medians = Class::EACH.map(|class| requests.median(class));
        let waits = mean(&queue(run, "bottleneck", BOTTLENECK_MBITS)?, 5.0, seconds);
        let goodput = mean(&run.flow_rate("requests", 1.0)?, 0.0, seconds) / 1e6;
        let tail = requests.quantile(Class::All, 0.99);
        Ok(medians.into_iter().chain([tail, waits, goodput]).collect())
    };
    let heads =
        ["median", "up to 10 kB", "10 kB to 1 MB", "above 1 MB", "99 %", "queue, ms", "Mbit/s"];
    let checked = wall::Check { lab: LAB, seed: WALL_SEED, seconds, heads: &heads, read: &read };
    let checked = checked.run(stage, evidence, &cases)?;
    let [(before, quo), (after, ours)] = checked.as_slice() else { return Ok(()) };
    let x = Axis::log("slowdown").from(1.0).to(100.0);
    let y = Axis::linear("% of requests").to(100.0);
    let mut plot = Plot::new("Slowdown of requests (wall clock)", x, y);
    for (case, run) in cases.iter().zip([before, after]) {
        let requests = Requests::read(std::slice::from_ref(run), "requests")?;
        plot.lines.push(requests.line(&case.label));
    }
    evidence.plots.push(plot);
    let what = "median slowdown, Bundler with SFQ over status quo";
    wall::claim(evidence, what, "0.72 ×", ours[0] / quo[0], 0.0..=0.9);
    let what = "99th percentile, Bundler with SFQ over status quo";
    wall::claim(evidence, what, "0.52 ×", ours[4] / quo[4], 0.0..=0.9);
    let what = "goodput, Bundler with SFQ over status quo";
    wall::claim(evidence, what, "the same", ours[6] / quo[6], 0.9..=1.1);
    Ok(())
}

fn plot(cases: &[Case], requests: &[Requests], printed: &[Printed]) -> Plot {
    let x = Axis::log("slowdown").from(1.0).to(100.0);
    let mut plot = Plot::new("Slowdown of requests", x, Axis::linear("% of requests").to(100.0));
    "Dots are the paper's medians and 99th percentiles.".clone_into(&mut plot.note);
    for (case, requests) in cases.iter().zip(requests) {
        plot.lines.push(requests.line(&case.label));
    }
    for (case, printed) in cases.iter().zip(printed) {
        let points = vec![(printed.median, 50.0), (printed.tail, 99.0)];
        let label = format!("{} (paper)", case.label);
        plot.lines.push(Line::new(label, points).style(Style::Dots));
    }
    plot
}

fn table(cases: &[Case], requests: &[Requests], printed: &[Printed]) -> Table {
    let heads =
        ["", "median", "by seed", "99 %", "up to 10 kB", "its 75 %", "10 kB to 1 MB", "above 1 MB"];
    let mut table = Table::new("Slowdown, the paper's / ours; classes are medians", &heads);
    for ((case, requests), printed) in cases.iter().zip(requests).zip(printed) {
        let both = |paper: f64, ours: f64| {
            let paper = if paper.is_nan() { "–".to_owned() } else { format!("{paper:.2}") };
            format!("{paper} / {ours:.2}")
        };
        let (low, high) = requests.medians(Class::All);
        let class = |at: usize, class| both(printed.classes[at], requests.median(class));
        table.row([
            case.label.clone(),
            both(printed.median, requests.median(Class::All)),
            format!("{low:.2} to {high:.2}"),
            both(printed.tail, requests.quantile(Class::All, 0.99)),
            class(0, Class::Small),
            format!("{:.2}", requests.quantile(Class::Small, 0.75)),
            class(1, Class::Medium),
            class(2, Class::Large),
        ]);
    }
    table
}

fn claims(evidence: &mut Evidence, requests: &[Requests], short: bool) {
    let [quo, sfq, fifo, network] = requests else { return };
    let of = |requests: &Requests| requests.median(Class::All);
    if !short {
        evidence.claim(
            "median slowdown, status quo",
            format!("1.76 (here: within {:.0} %)", NEAR * 100.0),
            format!("{:.2}", of(quo)),
            (of(quo) / STATUS_QUO.median - 1.0).abs() <= NEAR,
        );
    }
    evidence.claim(
        "median slowdown, fair queueing in the network",
        "1.07 (here: within 10 %)",
        format!("{:.2}", of(network)),
        (of(network) / NETWORK.median - 1.0).abs() <= 0.1,
    );
    let ratio = of(sfq) / of(quo);
    evidence.claim(
        "median slowdown, Bundler with SFQ over status quo",
        format!("0.72 × (here: at most {MEDIAN} ×)"),
        format!("{}: {:.2} over {:.2}", times(ratio), of(sfq), of(quo)),
        ratio <= MEDIAN,
    );
    let tail = |requests: &Requests| requests.quantile(Class::All, 0.99);
    let ratio = tail(sfq) / tail(quo);
    evidence.claim(
        "99th percentile, Bundler with SFQ over status quo",
        format!("0.52 × (here: at most {TAIL} ×)"),
        format!("{}: {:.1} over {:.1}", times(ratio), tail(sfq), tail(quo)),
        ratio <= TAIL,
    );
    for class in Class::EACH {
        let ratio = sfq.median(class) / quo.median(class);
        evidence.claim(
            format!("median slowdown of responses ({}), Bundler over status quo", class.label()),
            format!("no class is worse (here: at most {WORSE} ×)"),
            times(ratio),
            ratio <= WORSE,
        );
    }
    let ratio = of(fifo) / of(quo);
    evidence.claim(
        "median slowdown, Bundler with a FIFO over status quo",
        "1.21 ×: scheduling is what helps (here: at least 0.97 ×)",
        format!("{}: {:.2} over {:.2}", times(ratio), of(fifo), of(quo)),
        ratio >= 0.97,
    );
}

#[cfg(test)]
mod tests {
    use super::super::requests::tests::small;
    use super::*;

    #[test]
    fn better_for_all_is_what_is_asked_for() {
        let quo = small(&[1.7; 100]);
        let judged = |sfq: f64, fifo: f64| {
            let mut evidence = Evidence::default();
            let all = [quo.clone(), small(&[sfq; 100]), small(&[fifo; 100]), small(&[1.07; 100])];
            claims(&mut evidence, &all, false);
            evidence.claims.iter().filter(|claim| !claim.holds).count()
        };
        // No large responses here: their ratio is not a number, and does not hold.
        assert_eq!(judged(1.0, 2.0), 2);
        assert_eq!(judged(1.25, 2.0), 3);
        assert_eq!(judged(1.0, 1.5), 3);
    }
}
