//! The wall clock: kernels' TCP through the same boxes, once each, as a check of what the virtual
//! clock decides.

use std::ops::RangeInclusive;

use super::Case;
use super::boxes::{coarse, queue};
use crate::{Axis, Clock, Evidence, Line, Plot, Result, Run, Stage, Table};

/// How late packets may be in a trusted run: a twentieth of the round trip.
pub(super) const TOLERANCE: &str = "2.5 ms";

const NOTE: &str = "On the wall clock kernels' TCP crosses the emulated network and its boxes in \
     real time, once with each setting and in a size that a small machine carries. These claims \
     are checks that nothing hangs on the simulation's own TCP and clock; their tolerances are \
     wide. Beside them is the same run on the virtual clock.";

/// The figure itself on the virtual clock, and the check on the wall clock, as far as these clocks
/// are wanted.
pub(super) fn both(
    stage: &mut Stage<'_>,
    simulate: fn(&mut Stage<'_>) -> Result<Evidence>,
    check: fn(&mut Stage<'_>, &mut Evidence) -> Result<()>,
) -> Result<Evidence> {
    let clocks = stage.clocks();
    let mut evidence = Evidence::default();
    if clocks.contains(&Clock::Virtual) {
        evidence = simulate(stage)?;
    }
    if clocks.contains(&Clock::Wall) {
        check(stage, &mut evidence)?;
        evidence.note(NOTE);
    }
    Ok(evidence)
}

/// What is run and read.
pub(super) struct Check<'a> {
    pub(super) lab: &'static str,
    pub(super) seed: u64,
    pub(super) seconds: f64,
    /// What is measured of a run, with units.
    pub(super) heads: &'a [&'a str],
    pub(super) read: &'a dyn Fn(&Run) -> Result<Vec<f64>>,
}

impl Check<'_> {
    /// Runs each case on both clocks and tabulates them. The runs of the wall clock and what was
    /// read of them, by case.
    pub(super) fn run(
        &self,
        stage: &mut Stage<'_>,
        evidence: &mut Evidence,
        cases: &[Case],
    ) -> Result<Vec<(Run, Vec<f64>)>> {
        let mut jobs = Vec::new();
        for case in cases {
            let case = case.clone().called("check");
            let case = case
                .set("lab.duration", format!("{} s", self.seconds))
                .set("lab.tolerance", TOLERANCE);
            let on = |clock| case.job(self.lab, clock, self.seed);
            jobs.extend([Clock::Wall, Clock::Virtual].map(on));
        }
        let runs = stage.run(&jobs)?;
        let heads: Vec<&str> = ["boxes", "clock"].iter().chain(self.heads).copied().collect();
        let seconds = self.seconds;
        let title = format!("On the wall clock, {seconds} s, and the same on the virtual clock");
        let mut table = Table::new(title, &heads);
        let mut own = Vec::new();
        for (run, at) in runs.into_iter().zip(0..) {
            let values = (self.read)(&run)?;
            let clock = if run.clock == Clock::Wall { "wall" } else { "virtual" };
            let words = [cases[at / 2].label.clone(), clock.to_owned()];
            table.row(words.into_iter().chain(values.iter().copied().map(number)));
            if run.clock == Clock::Wall {
                own.push((run, values));
            }
        }
        evidence.tables.push(table);
        Ok(own)
    }
}

/// What waits at a link of so many Mbit/s over time in runs of the wall clock.
pub(super) fn waits((link, mbits): (&str, f64), runs: &[(&Case, &Run)]) -> Result<Plot> {
    let x = Axis::linear("time in s").from(0.0);
    let y = Axis::linear("ms to send the queue").from(0.0);
    let mut plot = Plot::new("Queue at the bottleneck (wall clock)", x, y);
    "Means of half a second.".clone_into(&mut plot.note);
    for (case, run) in runs {
        let points = coarse(&queue(run, link, mbits)?, 0.5);
        plot.lines.push(Line::new(&case.label, points));
    }
    Ok(plot)
}

/// A claim on the wall clock.
pub(super) fn claim(
    evidence: &mut Evidence,
    what: &str,
    paper: &str,
    ours: f64,
    expected: RangeInclusive<f64>,
) {
    let (low, high) = (*expected.start(), *expected.end());
    let words = match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{low} to {high}"),
        (true, false) => format!("at least {low}"),
        _ => format!("at most {high}"),
    };
    let what = format!("check on the wall clock: {what}");
    let paper = format!("{paper} (check: {words})");
    evidence.claim(what, paper, number(ours), expected.contains(&ours));
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "–".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_hold_within_their_range_only() {
        let mut evidence = Evidence::default();
        let least = f64::NEG_INFINITY;
        for ours in [0.3, 0.8, 1.3, f64::NAN] {
            claim(&mut evidence, "goodput", "the same", ours, 0.5..=1.0);
            claim(&mut evidence, "goodput", "the same", ours, 0.5..=f64::INFINITY);
            claim(&mut evidence, "goodput", "the same", ours, least..=1.0);
        }
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        let (yes, no) = (true, false);
        assert_eq!(holds, [no, no, yes, yes, yes, yes, no, yes, no, no, no, no]);
        let words: Vec<&str> = evidence.claims.iter().map(|claim| claim.paper.as_str()).collect();
        assert_eq!(words[0], "the same (check: 0.5 to 1)");
        assert_eq!(words[1], "the same (check: at least 0.5)");
        assert_eq!(words[2], "the same (check: at most 1)");
    }
}
