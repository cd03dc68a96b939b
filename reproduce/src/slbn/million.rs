//! Beyond the paper: a million sessions on the large network, and what they cost.

use super::accuracy::{self, Where};
use super::course::{Course, amount};
use super::{Rival, SLBN, courses_in_turn, job};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Job, Result, Stage};

pub(super) const FIGURE: Figure = Figure {
    id: "million",
    title: "beyond the paper: a million sessions on the large network, and what they cost",
    takes: "15 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("slbn/million.toml")],
    make,
};

const LAB: &str = "slbn/million.toml";
/// Sessions, and those of the short form.
const SESSIONS: u64 = 1_000_000;
const FEW: u64 = 4_000;
/// Errors at the end, mean amount in %.
const REACHED: f64 = 2.0;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let wanted = stage.size(SESSIONS, FEW);
    let jobs: [(Rival, Job); 1] =
        [(SLBN, job(stage, LAB, SLBN).set("sessions.all.count", wanted.to_string()))];
    let runs = courses_in_turn(stage, &jobs)?;
    let all: Vec<&Course> = runs.iter().collect();
    let mut evidence = Evidence::default();
    for run in &runs {
        for (title, whose) in
            [("Errors at sources", Where::Sources), ("Errors at bottlenecks", Where::Bottlenecks)]
        {
            let plot = accuracy::plot(title, &all, whose, Some((-60.0, 150.0)), (0.0, run.end()));
            evidence.plots.push(plot);
        }
        claims(&mut evidence, run, wanted);
    }
    evidence.tables.push(accuracy::table(&all, &[0.4, 1.0, 1.6, 2.0, 2.4, 3.0, 4.0]));
    evidence.tables.push(accuracy::cost(&all));
    Ok(evidence)
}

fn claims(evidence: &mut Evidence, run: &Course, wanted: u64) {
    let joined = run.sum.joined;
    evidence.claim(
        "sessions that joined",
        format!("not in the paper (expected: {wanted})"),
        joined.to_string(),
        joined == wanted,
    );
    if let Some(error) = run.moments.last().and_then(amount) {
        evidence.claim(
            "mean amount of the errors at sources at the end",
            format!("not in the paper (expected: at most {REACHED} %)"),
            format!("{error:.2} %"),
            error <= REACHED,
        );
    }
    let numbers = run.sum.link_numbers_max;
    evidence.claim(
        "numbers that a link keeps",
        "three, whatever the number of sessions",
        format!("at most {numbers}"),
        numbers == 3,
    );
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn all_must_join_and_get_their_rates() {
        let mut run = course(SLBN.1, &[(90.0, 0.0, 1), (1.0, 0.0, 1)]);
        (run.sum.joined, run.sum.link_numbers_max) = (10, 3);
        let mut evidence = Evidence::default();
        claims(&mut evidence, &run, 10);
        claims(&mut evidence, &run, 11);
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, true, true, false, true, true]);
    }
}
