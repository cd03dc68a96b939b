//! Experiment 2a, figures 7 and 8: 180,000 sessions join a large network within a second.

use super::accuracy::{self, Where};
use super::course::{Course, amount, bottleneck};
use super::{BFYZ, Rival, SLBN, courses_in_turn, job, of};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Job, Result, Stage};

pub(super) const FIGURE: Figure = Figure {
    id: "2a",
    title: "accuracy while 180,000 sessions join 11,000 routers (figures 7 and 8)",
    takes: "15 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("slbn/2a.toml")],
    make,
};

const LAB: &str = "slbn/2a.toml";
/// When the last session joins.
const JOINED_S: f64 = 1.0;
/// Moments of the table, in seconds.
const TABLE_S: [f64; 7] = [0.1, 0.3, 0.6, 0.8, 1.0, 1.2, 1.5];
/// What the plots show, in %: the paper's figures leave out the first samples' tops too.
const SHOWN: (f64, f64) = (-60.0, 120.0);
/// Errors below this many % are the max-min fair rates.
const REACHED: f64 = 1.0;
/// How much of the bottlenecks' capacity may be left over at the end, in %.
const UNUSED: f64 = 5.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let jobs: Vec<(Rival, Job)> = [SLBN, BFYZ].map(|rival| (rival, sized(stage, rival))).to_vec();
    let runs = courses_in_turn(stage, &jobs)?;
    let all: Vec<&Course> = runs.iter().collect();
    let mut evidence = Evidence::default();
    let times = (0.0, runs.first().map_or(0.0, Course::end));
    for (title, whose) in [
        ("Figure 7: errors at sources", Where::Sources),
        ("Figure 8: errors at bottlenecks", Where::Bottlenecks),
    ] {
        evidence.plots.push(accuracy::plot(title, &all, whose, Some(SHOWN), times));
    }
    let queue = Axis::linear("packets in the largest queue").from(0.0);
    let queues = accuracy::over_time("Largest queue", queue, &all, |moment| moment.queue as f64);
    evidence.plots.push(queues);
    evidence.tables.push(accuracy::table(&all, &TABLE_S));
    evidence.tables.push(accuracy::cost(&all));
    claims(&mut evidence, &runs, stage.short());
    evidence.note(
        "A prototype with a random network of its own, SLBN: mean error at sources 31 % at 300 ms, \
         8 % at 600 ms, 3.5 % at 1 s; bottlenecks never over in the mean; largest queue 5,972 \
         packets; 1,775 M events in 781 s.",
    );
    Ok(evidence)
}

fn sized(stage: &Stage<'_>, rival: Rival) -> Job {
    let job = job(stage, LAB, rival);
    if stage.short() { job.set("sessions.all.count", "3000") } else { job }
}

fn claims(evidence: &mut Evidence, runs: &[Course], short: bool) {
    let (Some(slbn), Some(bfyz)) = (of(runs, SLBN), of(runs, BFYZ)) else { return };
    accuracy::as_accurate(evidence, slbn, bfyz);
    let always = (0.0, slbn.end());
    // Few sessions in a small network tell nothing of how BFYZ fares in a large one.
    let told = if short { vec![slbn] } else { vec![slbn, bfyz] };
    for run in told {
        accuracy::not_over(evidence, run, always, "no notable overshoot");
        let off = |moment: &&super::course::Moment| amount(moment).is_some_and(|e| e >= REACHED);
        let last = run.moments.iter().filter(off).map(|moment| moment.at).fold(0.0, f64::max);
        let reached = run.moments.last().and_then(amount).is_some_and(|error| error < REACHED);
        let when = format!("{:.0} ms after the last joined", (last - JOINED_S).max(0.0) * 1e3);
        evidence.claim(
            format!("errors at sources below {REACHED} % in the mean amount ({})", run.label),
            "the max-min fair rates are reached quickly (here: before the end, half a second after \
             the last joins)",
            if reached { when } else { "not before the end".to_owned() },
            reached,
        );
        let end = run.moments.last().and_then(bottleneck).unwrap_or(f64::NAN);
        evidence.claim(
            format!("use of bottlenecks at the end ({})", run.label),
            format!("almost full (here: at most {UNUSED} % unused)"),
            format!("{end:+.2} % of the capacity"),
            end >= -UNUSED,
        );
    }
    if short {
        return;
    }
    let mean = |run: &Course| run.range((0.0, JOINED_S), bottleneck).map(|range| range[1]);
    if let (Some(mine), Some(theirs)) = (mean(slbn), mean(bfyz)) {
        evidence.claim(
            "rates at bottlenecks while sessions join, SLBN beside BFYZ",
            "SLBN a bit more conservative (here: lower by no more than 5 points)",
            format!("{mine:+.2} beside {theirs:+.2} % in the mean over time"),
            mine <= theirs && theirs - mine <= 5.0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn rates_must_be_reached_before_the_end() {
        let quick = [(30.0, -4.0, 9), (8.0, -3.0, 9), (0.5, -1.0, 9)];
        let runs = [course(SLBN.1, &quick), course(BFYZ.1, &[(30.0, -2.0, 9), (8.0, 6.0, 9)])];
        let mut evidence = Evidence::default();
        claims(&mut evidence, &runs, false);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, true, true, true, false, false, true, true]);
    }
}
