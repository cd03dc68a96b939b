//! Beyond the paper: a link of the core fails and returns while sessions go on.

use super::accuracy::{self, Where};
use super::course::{Course, amount_of_all};
use super::{BFYZ, EPOCHS, Rival, SLBN, courses, of};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Job, Result, Stage};

pub(super) const FIGURE: Figure = Figure {
    id: "failure",
    title: "beyond the paper: a link of the core fails and returns",
    takes: "3 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("slbn/failure.toml")],
    make,
};

const LAB: &str = "slbn/failure.toml";
/// When the link fails, and when it is back.
const FAILS_S: f64 = 2.0;
const BACK_S: f64 = 5.0;
/// Two epochs later links have counted anew.
const RECOVERED_S: f64 = 2.5;
/// The mean amount of errors of all sessions by then, in %.
const SMALL: f64 = 5.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let jobs: Vec<(Rival, Job)> =
        [EPOCHS, SLBN, BFYZ].map(|rival| (rival, sized(stage, rival))).to_vec();
    let runs = courses(stage, &jobs)?;
    let all: Vec<&Course> = runs.iter().collect();
    let end = runs.first().map_or(0.0, Course::end);
    let mut evidence = Evidence::default();
    for (title, whose) in
        [("Errors at sources", Where::Sources), ("Errors at bottlenecks", Where::Bottlenecks)]
    {
        evidence.plots.push(accuracy::plot(title, &all, whose, Some((-60.0, 60.0)), (1.0, end)));
    }
    evidence.plots.push(accuracy::over_time(
        "Mean amount of the errors of all sessions",
        Axis::log("error in %"),
        &all,
        |moment| amount_of_all(moment).unwrap_or(f64::NAN),
    ));
    let times = [FAILS_S, 2.05, 2.1, 2.2, 2.5, 3.0, 4.0, BACK_S, 5.05, 5.1, 5.2, 5.5, 6.0, end];
    evidence.tables.push(accuracy::table(&all, &times));
    evidence.tables.push(accuracy::cost(&all));
    claims(&mut evidence, &runs);
    evidence.note(
        "Sessions that crossed the link take the next shortest path at once and join there as \
         others; their old packets are lost with the link, and what its neighbours had counted of \
         them nobody takes back. With epochs links forget that by themselves. With the other \
         protocols all links forget all sessions, and everybody joins again.",
    );
    Ok(evidence)
}

fn sized(stage: &Stage<'_>, rival: Rival) -> Job {
    let job = Job::new(LAB, rival.0, Clock::Virtual).set("control.protocol", rival.0);
    if stage.short() { super::smaller(job).set("sessions.all.count", "1000") } else { job }
}

fn claims(evidence: &mut Evidence, runs: &[Course]) {
    let Some(epochs) = of(runs, EPOCHS) else { return };
    let rerouted = epochs.sum.rerouted;
    evidence.claim(
        "changes of path",
        "not in the paper (expected: sessions leave the failed link and return)",
        rerouted.to_string(),
        rerouted > 0,
    );
    for run in runs {
        for (since, what) in [(FAILS_S, "the link failed"), (BACK_S, "it returned")] {
            // A sample at the moment of the return finds sessions on new paths, without a rate.
            let until = if since < BACK_S { BACK_S - 1e-3 } else { run.end() };
            let after = (since + RECOVERED_S, until);
            let most = run.range(after, amount_of_all).map(|[_, _, most]| most);
            evidence.claim(
                format!(
                    "mean amount of the errors of all sessions, {RECOVERED_S} s after {what} ({})",
                    run.label
                ),
                format!("not in the paper (expected: at most {SMALL} %)"),
                most.map_or("no samples".to_owned(), |most| format!("at most {most:.2} %")),
                most.is_some_and(|most| most <= SMALL),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn recovery_is_asked_for_after_both_events() {
        let mut samples = vec![(0.1, 0.0, 1); 80];
        let mut with = course(EPOCHS.1, &samples);
        with.sum.rerouted = 4;
        samples[79] = (7.0, -3.0, 1);
        let mut evidence = Evidence::default();
        claims(&mut evidence, &[with, course(SLBN.1, &samples)]);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, true, true, true, false]);
        let mut evidence = Evidence::default();
        claims(&mut evidence, &[course(EPOCHS.1, &samples[..60])]);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [false, true, false]);
    }
}
