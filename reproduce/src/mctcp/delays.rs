//! Delays of 1 to 100 ms, as the seed varied them, with its buffers and with tuned ones.

use super::course::{Middle, goodput};
use super::grid::{BUFFERS, Case, Rival, Times, grid};
use super::losses::{Swept, over_axis};
use super::sums::{LAB, over};
use super::verdict::{Wanted, claim};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Stage};

pub(super) const FIGURE: Figure = Figure {
    id: "delay",
    title: "delays of 1 to 100 ms on both paths, with the seed's buffers and tuned ones",
    takes: "15 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml")],
    make,
};

const DELAYS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
const END: f64 = 30.0;
/// Not asked for at each delay; below this something is wrong.
const OF_SUM: f64 = 0.9;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let delays = stage.size(DELAYS.to_vec(), vec![10.0, 100.0]);
    let mut evidence = Evidence::default();
    for (buffers, words) in [(Some(BUFFERS), "262,144 B"), (None, "tuned buffers")] {
        let case = |delay: &f64| {
            let name =
                format!("delay-{delay}-{}", if buffers.is_some() { "fixed" } else { "tuned" });
            let case = Case::new(LAB, 2, name, format!("{delay} ms, {words}"))
                .each_alone()
                .set("lab.duration", format!("{END} s"))
                .set("link.path1.delay", format!("{delay} ms"))
                .set("link.path2.delay", format!("{delay} ms"));
            match buffers {
                Some(buffers) => case.set("flow.bulk.window", buffers),
                None => case,
            }
        };
        let cases: Vec<Case> = delays.iter().map(case).collect();
        let grid = grid(stage, &cases, Times { wall: 3, ..Times::FIVE })?;
        let swept = Swept { cases: &cases, at: &delays, x: "one-way delay in ms", end: END };
        over_axis(stage, &mut evidence, &swept, &grid)?;
        for clock in stage.clocks() {
            for (at, case) in cases.iter().enumerate() {
                let of = |rival| {
                    let runs = grid.of(at, rival, clock).unwrap_or_default();
                    Middle::read(runs, |run| goodput(run, 0.0, END))
                };
                // The seed's buffers hold no more than they do, however many paths there are.
                if buffers.is_some() && delays[at] >= 50.0 {
                    continue;
                }
                let sum = of(Rival::Tcp(0))?.median + of(Rival::Tcp(1))?.median;
                claim(
                    &mut evidence,
                    clock,
                    &format!("{}: over single TCPs' sum", case.label),
                    Wanted::AtLeast(OF_SUM),
                    over(of(Rival::Mctcp)?, sum),
                    &[("kernel MPTCP", over(of(Rival::Mptcp)?, sum))],
                );
            }
        }
    }
    Ok(evidence)
}
