//! Experiment 2b, figures 9 and 10: a third of all sessions is replaced within a second, on the
//! large network.

use super::accuracy::{self, Where};
use super::course::{Course, bottleneck, source};
use super::{BFYZ, Rival, SLBN, courses_in_turn, job, of};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Job, Result, Stage};

pub(super) const FIGURE: Figure = Figure {
    id: "2b",
    title: "accuracy while half of 100,000 sessions are replaced (figures 9 and 10)",
    takes: "10 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("slbn/2b.toml")],
    make,
};

const LAB: &str = "slbn/2b.toml";
/// When sessions begin and end to be replaced.
const CHURN_S: (f64, f64) = (9.0, 10.0);
/// Errors change at first from none to what churn brings.
const ONSET_S: f64 = 0.2;
/// Between its least and its most during churn, an error that is nearly constant moves by no more
/// than so many points.
const CONSTANT: f64 = 5.0;
/// The paper's bound for queues: 3 % of what a link carries in a second, in ms.
const QUEUE_MS: f64 = 30.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let jobs: Vec<(Rival, Job)> = [SLBN, BFYZ].map(|rival| (rival, sized(stage, rival))).to_vec();
    let runs = courses_in_turn(stage, &jobs)?;
    let all: Vec<&Course> = runs.iter().collect();
    let mut evidence = Evidence::default();
    let end = runs.first().map_or(0.0, Course::end);
    for (title, whose) in [
        ("Figure 9: errors at sources", Where::Sources),
        ("Figure 10: errors at bottlenecks", Where::Bottlenecks),
    ] {
        evidence.plots.push(accuracy::plot(title, &all, whose, None, (CHURN_S.0, end)));
    }
    let axis = Axis::linear("ms to send the longest queue").from(0.0);
    let queues = accuracy::over_time("Longest queue", axis, &all, |moment| moment.queue_ms);
    evidence.plots.push(queues);
    evidence.tables.push(accuracy::table(&all, &[1.0, 2.0, 9.0, 9.2, 9.4, 9.6, 9.8, 10.0, 10.6]));
    evidence.tables.push(accuracy::cost(&all));
    claims(&mut evidence, &runs, stage.short());
    evidence.note(
        "Data is a fluid here: its queues are integrated exactly, and what single packets do to \
         each other is left out. A queue's length is the time that its link needs to send it; the \
         paper's 3 % of the link capacity are read as 30 ms.",
    );
    evidence.note(
        "A prototype with a random network of its own and control packets alone, SLBN: mean error \
         at sources −1.5 to −3.7 % during the changes, −8 to −12 % at bottlenecks.",
    );
    Ok(evidence)
}

fn sized(stage: &Stage<'_>, rival: Rival) -> Job {
    let job = job(stage, LAB, rival);
    if !stage.short() {
        return job;
    }
    job.set("sessions.first.count", "1000")
        .set("sessions.first.leave_count", "500")
        .set("sessions.second.count", "500")
}

fn claims(evidence: &mut Evidence, runs: &[Course], short: bool) {
    let (Some(slbn), Some(bfyz)) = (of(runs, SLBN), of(runs, BFYZ)) else { return };
    let changing = (CHURN_S.0 + ONSET_S, CHURN_S.1);
    let second = (CHURN_S.0, slbn.end());
    if let Some([least, mean, most]) = slbn.range(changing, source) {
        evidence.claim(
            "mean error at sources while sessions are replaced (SLBN)",
            format!("nearly constant (here: within {CONSTANT} points)"),
            format!("{least:+.2} to {most:+.2} %, {mean:+.2} % in the mean"),
            most - least <= CONSTANT,
        );
    }
    accuracy::not_over(evidence, slbn, second, "no significant overshoot");
    // Few sessions in a small network tell nothing of how BFYZ fares in a large one.
    if !short {
        accuracy::not_over(evidence, bfyz, second, "higher than SLBN's, always below 5 %");
        let most = |run: &Course| run.range(second, bottleneck).map(|range| range[2]);
        if let (Some(mine), Some(theirs)) = (most(slbn), most(bfyz)) {
            evidence.claim(
                "largest mean error at bottlenecks, SLBN beside BFYZ",
                "BFYZ's is higher",
                format!("{mine:+.2} beside {theirs:+.2} %"),
                theirs >= mine,
            );
        }
    }
    let longest = slbn.between(second.0, second.1).map(|m| m.queue_ms).fold(0.0, f64::max);
    evidence.claim(
        "longest queue in the second phase (SLBN)",
        format!("below 3 % of the link capacity (here: {QUEUE_MS} ms of it)"),
        format!("{longest:.1} ms, {:.1} %", longest / 10.0),
        longest < QUEUE_MS,
    );
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn only_the_second_phase_counts() {
        let mut samples = vec![(50.0, 20.0, 9_000); 90];
        samples.extend(vec![(-2.0, -8.0, 100); 16]);
        let slbn = course(SLBN.1, &samples);
        samples[95].1 = 3.0;
        let bfyz = course(BFYZ.1, &samples);
        let mut evidence = Evidence::default();
        claims(&mut evidence, &[slbn, bfyz], false);
        let wrong: Vec<_> = evidence.claims.iter().filter(|claim| !claim.holds).collect();
        assert!(wrong.is_empty() && evidence.claims.len() == 5, "{wrong:?}");
        samples[95] = (9.0, 7.0, 4_000);
        let moved = course(SLBN.1, &samples);
        let mut evidence = Evidence::default();
        claims(&mut evidence, &[moved, course(BFYZ.1, &[(0.0, 0.0, 0); 100])], false);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [false, false, true, false, false]);
    }
}
