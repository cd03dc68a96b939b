//! Beyond the paper: errors by how many sessions come and go in a second.

use super::course::{Course, amount, bottleneck};
use super::{BFYZ, Rival, SLBN, courses};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Job, Line, Plot, Result, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "churn",
    title: "beyond the paper: errors by how many sessions are replaced in a second",
    takes: "5 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("slbn/churn.toml")],
    make,
};

const LAB: &str = "slbn/churn.toml";
const SESSIONS: u32 = 20_000;
const FEW: u32 = 2_000;
/// How many of a hundred sessions are replaced within the second.
const PERCENT: [u32; 6] = [1, 5, 10, 25, 50, 100];
const FEWER: [u32; 2] = [5, 50];
/// The second of churn, once errors are what it brings.
const CHURN_S: (f64, f64) = (1.2, 2.0);
/// SLBN's mean amount of errors may exceed BFYZ's by so many points.
const BESIDE: f64 = 2.0;
/// Bottlenecks may be over in the mean by so many %.
const OVER: f64 = 5.0;

/// A protocol under a rate of churn.
struct Measured {
    /// Sessions that come, and that go, in a second.
    replaced: u32,
    /// Mean amount of the errors at sources, in %.
    amount: f64,
    /// Mean errors at bottlenecks, and the most of them, in %.
    bottleneck: f64,
    over: f64,
    queue_ms: f64,
}

impl Measured {
    fn new(course: &Course, replaced: u32) -> Option<Self> {
        let [_, at_links, over] = course.range(CHURN_S, bottleneck)?;
        let waited = course.between(CHURN_S.0, CHURN_S.1).map(|moment| moment.queue_ms);
        Some(Self {
            replaced,
            amount: course.range(CHURN_S, amount)?[1],
            bottleneck: at_links,
            over,
            queue_ms: waited.fold(0.0, f64::max),
        })
    }
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let sessions = stage.size(SESSIONS, FEW);
    let shares: &[u32] = if stage.short() { &FEWER } else { &PERCENT };
    let rates: Vec<u32> = shares.iter().map(|percent| sessions * percent / 100).collect();
    let mut all = Vec::new();
    for rival in [SLBN, BFYZ] {
        let jobs: Vec<(Rival, Job)> =
            rates.iter().map(|replaced| (rival, sized(stage, rival, *replaced))).collect();
        let runs = courses(stage, &jobs)?;
        let measured = runs.iter().zip(&rates).filter_map(|(run, n)| Measured::new(run, *n));
        all.push((rival, measured.collect::<Vec<Measured>>()));
    }
    let mut evidence = Evidence { plots: plots(&all), ..Evidence::default() };
    evidence.tables.push(table(&all));
    claims(&mut evidence, &all);
    evidence.note(format!(
        "{sessions} sessions; between the first and the second second of the run as many leave as \
         join, evenly spread. Values are means over the samples from {} to {} s.",
        CHURN_S.0, CHURN_S.1
    ));
    Ok(evidence)
}

fn sized(stage: &Stage<'_>, rival: Rival, replaced: u32) -> Job {
    let mut job = Job::new(LAB, format!("{}-{replaced}", rival.0), Clock::Virtual)
        .set("control.protocol", rival.0);
    if stage.short() {
        job = super::smaller(job).set("sessions.first.count", FEW.to_string());
    }
    job.set("sessions.first.leave_count", replaced.to_string())
        .set("sessions.second.count", replaced.to_string())
}

fn plots(all: &[(Rival, Vec<Measured>)]) -> Vec<Plot> {
    let plot = |title: &str, what: &str, value: fn(&Measured) -> f64| {
        let x = Axis::log("sessions that come, and that go, in a second");
        let mut plot = Plot::new(title, x, Axis::linear(what));
        for (rival, measured) in all {
            let points = measured.iter().map(|of| (f64::from(of.replaced), value(of))).collect();
            plot.lines.push(Line::new(rival.1, points));
        }
        plot
    };
    vec![
        plot("Errors at sources by churn", "mean amount of the error in %", |of| of.amount),
        plot("Errors at bottlenecks by churn", "mean error in %", |of| of.bottleneck),
    ]
}

fn table(all: &[(Rival, Vec<Measured>)]) -> Table {
    let heads = ["protocol", "replaced/s", "sources", "bottlenecks", "at most", "longest queue"];
    let mut table = Table::new("Errors during churn in %", &heads);
    for (rival, measured) in all {
        for of in measured {
            table.row([
                rival.1.to_owned(),
                of.replaced.to_string(),
                format!("{:.2}", of.amount),
                format!("{:+.2}", of.bottleneck),
                format!("{:+.2}", of.over),
                format!("{:.1} ms", of.queue_ms),
            ]);
        }
    }
    table
}

fn claims(evidence: &mut Evidence, all: &[(Rival, Vec<Measured>)]) {
    let [(_, slbn), (_, bfyz)] = all else { return };
    let pairs = slbn.iter().zip(bfyz);
    let worst =
        pairs.max_by(|a, b| (a.0.amount - a.1.amount).total_cmp(&(b.0.amount - b.1.amount)));
    if let Some((mine, theirs)) = worst {
        evidence.claim(
            "mean amount of the errors at sources, SLBN beside BFYZ, at every rate of churn",
            format!("not in the paper (expected: at most {BESIDE} points more)"),
            format!(
                "at most {:+.2} points, {:.2} beside {:.2} % at {}/s",
                mine.amount - theirs.amount,
                mine.amount,
                theirs.amount,
                mine.replaced
            ),
            mine.amount - theirs.amount <= BESIDE,
        );
    }
    let over = slbn.iter().map(|of| of.over).fold(f64::NEG_INFINITY, f64::max);
    evidence.claim(
        "rates at bottlenecks over their capacity, in the mean (SLBN), at every rate of churn",
        format!("the pattern of churn does not matter (here: at most {OVER} %)"),
        format!("at most {over:+.2} %"),
        over <= OVER,
    );
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn the_second_of_churn_counts() {
        let mut samples = vec![(50.0, 20.0, 9_000); 12];
        samples.extend(vec![(-3.0, -2.0, 100); 8]);
        samples.extend(vec![(50.0, 20.0, 9_000); 3]);
        let of = |name| Measured::new(&course(name, &samples), 100).unwrap();
        let (slbn, mut bfyz) = (of("a"), of("b"));
        assert!((slbn.amount - 3.0).abs() < 1e-9 && (slbn.over + 2.0).abs() < 1e-9);
        bfyz.amount = 0.5;
        let mut evidence = Evidence::default();
        claims(&mut evidence, &[(SLBN, vec![slbn]), (BFYZ, vec![bfyz])]);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [false, true]);
    }
}
