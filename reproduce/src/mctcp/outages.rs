//! Paths fall silent, stay so, come back, or never answered.

use super::course::{Middle, course, first_byte, gap, link_course, mean_course, stalled};
use super::grid::{Case, Grid, Rival, Times, grid};
use super::verdict::{Wanted, claim, word};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "outages",
    title: "one path falls silent, both do, one comes back after 5 and 60 s, one never answered",
    takes: "20 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/outages.toml")],
    make,
};

const LAB: (&str, &[&str]) = ("mctcp/outages.toml", &["path1", "path2"]);
/// When paths fall silent, in s.
const SILENT: f64 = 4.0;
const GAP: f64 = 0.5;
const RESUMED: f64 = 2.0;
const CONNECTED: f64 = 1.0;
/// A path that has come back carries so much of its 10 Mbit/s …
const USED_MBITS: f64 = 3.0;
/// … within so many seconds.
const USED: f64 = 5.0;
/// Events meet each run at another moment of its own.
const STEP_MS: u64 = 7;
/// A stream that has been still for so many seconds at the end counts as stalled.
const STILL: f64 = 3.0;

/// What is asked of a case.
#[derive(Clone, Copy)]
enum Asked {
    /// The longest gap from the silence on.
    Gap,
    /// Bytes arrive again after a return at this time.
    Resumes(f64),
    /// The first byte arrives.
    Connects,
    /// This path is used again after a return at this time.
    Used(&'static str, f64),
}

fn cases() -> Vec<(Case, Asked)> {
    let two = |name: &str, label: &str| Case::new(LAB, 2, name, label).stepped(STEP_MS);
    let gone = |case: Case, path: u32| case.set(format!("at.{path}.set.loss"), "100 %");
    let never = |case: Case, path: u32| case.set(format!("at.{}.set.loss", path + 2), "100 %");
    let back = |case: Case, path: u32, at: f64| {
        case.set(format!("at.{}.time", path + 2), format!("{at} s"))
    };
    let both = |name, label| gone(gone(two(name, label), 1), 2);
    let small = |case: Case| case.set("flow.bulk.window", super::grid::BUFFERS);
    let long = |case: Case| case.set("lab.duration", "80 s");
    vec![
        (never(gone(two("first", "the first path for good"), 1), 1), Asked::Gap),
        (never(gone(two("second", "the second path for good"), 2), 2), Asked::Gap),
        (small(never(gone(two("first-small", "the first path, 262,144 B"), 1), 1)), Asked::Gap),
        (never(both("both-second", "both, the second returns after 5 s"), 1), Asked::Resumes(9.0)),
        (never(both("both-first", "both, the first returns after 5 s"), 2), Asked::Resumes(9.0)),
        (
            never(two("dead", "the first path before the start"), 1)
                .set("link.path1.loss", "100 %")
                .set("at.1.set.loss", "100 %"),
            Asked::Connects,
        ),
        (gone(two("back-first", "the first path, back after 5 s"), 1), Asked::Used("path1", 9.0)),
        (gone(two("back-second", "the second path, back after 5 s"), 2), Asked::Used("path2", 9.0)),
        (
            long(back(gone(two("late-first", "the first path, back after 60 s"), 1), 1, 64.0)),
            Asked::Used("path1", 64.0),
        ),
        (
            long(back(gone(two("late-second", "the second path, back after 60 s"), 2), 2, 64.0)),
            Asked::Used("path2", 64.0),
        ),
    ]
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let (mut cases, mut asked): (Vec<Case>, Vec<Asked>) = cases().into_iter().unzip();
    if stage.short() {
        cases.truncate(8);
        asked.truncate(8);
    }
    let grid = grid(stage, &cases, Times { simulated: 9, wall: 5 })?;
    let mut evidence = Evidence::default();
    let title = "Longest gap at the receiver, in all and from the silence on, in s; s from a \
                 return (or the start) to the next byte, and until the path carries 30 % of its \
                 rate: medians (least to largest). Runs that had stalled, and that failed";
    let heads = ["case", "clock", "carried by", "gap", "heard after", "used after", "stalled"];
    let mut table = Table::new(title, &heads);
    for clock in stage.clocks() {
        for (at, (case, asked)) in cases.iter().zip(&asked).enumerate() {
            let mut beside = Vec::new();
            for rival in [Rival::Mctcp, Rival::Mptcp] {
                let Some(runs) = grid.of(at, rival, clock) else { continue };
                let name = [case.label.clone(), word(clock).to_owned(), rival.label()];
                table.row(name.into_iter().chain(row(runs, *asked)?));
                beside.push(Middle::read(runs, |run| value(run, *asked))?);
            }
            let Some((ours, others)) = beside.split_first() else { continue };
            let others: Vec<(&str, Middle)> =
                others.iter().map(|middle| ("kernel MPTCP", *middle)).collect();
            let (what, wanted) = match asked {
                Asked::Gap => ("longest gap in s", GAP),
                Asked::Resumes(_) => ("s from the return to the next byte", RESUMED),
                Asked::Connects => ("s from the start to the first byte", CONNECTED),
                Asked::Used(..) => ("s from the return to 30 % of its rate", USED),
            };
            let what = format!("{}: {what}", case.label);
            // The slowest of all runs must do, not only the one in the middle.
            let worst = Middle { median: ours.max, ..*ours };
            claim(&mut evidence, clock, &what, Wanted::AtMost(wanted), worst, &others);
            whole(&mut evidence, case, grid.of(at, Rival::Mctcp, clock), clock)?;
        }
    }
    evidence.tables.push(table);
    plots(stage, &mut evidence, &cases, &grid)?;
    evidence.note(
        "A silent path loses every packet both ways; nobody is told. Claims are about the slowest \
         run: it stands first, before the range. Each byte is compared on the wall clock, where \
         a stream that differs from what was sent fails.",
    );
    Ok(evidence)
}

/// Nothing is lost or comes twice: a flow whose bytes differ has failed.
fn whole(evidence: &mut Evidence, case: &Case, runs: Option<&[Run]>, clock: Clock) -> Result<()> {
    let mut failed = Vec::new();
    for run in runs.unwrap_or_default() {
        failed.extend(run.flow(super::course::BULK)?.error.clone());
    }
    evidence.claim(
        format!("{}: no byte lost or twice ({})", case.label, word(clock)),
        "required: 0 failures",
        failed.first().map_or_else(|| "0".to_owned(), |why| format!("{}: {why}", failed.len())),
        failed.is_empty(),
    );
    Ok(())
}

/// What is asked for of a run.
fn value(run: &Run, asked: Asked) -> Result<f64> {
    match asked {
        Asked::Gap => gap(run, SILENT, run.record.elapsed_s),
        Asked::Resumes(at) => {
            let heard = first_byte(run, at)?;
            Ok(heard.map_or(f64::INFINITY, |heard| heard - at))
        }
        Asked::Connects => {
            let started = run.flow(super::course::BULK)?.started_s.unwrap_or(0.0);
            let heard = first_byte(run, 0.0)?;
            Ok(heard.map_or(f64::INFINITY, |heard| heard - started))
        }
        Asked::Used(path, at) => {
            let rates = link_course(run, path, 0.5)?;
            let used = rates.into_iter().find(|(t, rate)| *t > at && *rate >= USED_MBITS);
            Ok(used.map_or(f64::INFINITY, |(t, _)| t + 0.25 - at))
        }
    }
}

fn row(runs: &[Run], asked: Asked) -> Result<[String; 4]> {
    let end = |run: &Run| run.record.elapsed_s;
    let gap = Middle::read(runs, |run| gap(run, SILENT, end(run)))?;
    let none = || "–".to_owned();
    let own = Middle::read(runs, |run| value(run, asked))?.text();
    let (heard, used) = match asked {
        Asked::Gap => (none(), none()),
        Asked::Resumes(_) | Asked::Connects => (own, none()),
        Asked::Used(..) => (none(), own),
    };
    let mut still = 0;
    for run in runs {
        still += u32::from(stalled(run, STILL)?);
    }
    Ok([gap.text(), heard, used, format!("{still} of {}", runs.len())])
}

/// Goodput about the event.
fn plots(stage: &Stage<'_>, evidence: &mut Evidence, cases: &[Case], grid: &Grid) -> Result<()> {
    let clocks = stage.clocks();
    let clock = if clocks.contains(&Clock::Wall) { Clock::Wall } else { Clock::Virtual };
    for (at, case) in cases.iter().enumerate() {
        let x = Axis::linear("time in s").from(0.0);
        let mut plot = Plot::new(case.label.clone(), x, Axis::linear("Mbit/s").from(0.0).to(25.0));
        plot.note = format!("Goodput, mean and range ({} clock).", word(clock));
        for rival in [Rival::Mctcp, Rival::Mptcp] {
            let Some(runs) = grid.of(at, rival, clock) else { continue };
            let courses = runs.iter().map(|run| course(run, 0.5)).collect::<Result<Vec<_>>>()?;
            let (mean, spread) = mean_course(&courses);
            plot.lines.push(Line::new(rival.label(), mean).spread(spread));
        }
        evidence.plots.push(plot);
    }
    Ok(())
}
