//! The seed's slides 7 and 8: two paths, three events, and a datagram flow beside.

use super::course::{Middle, course, gap, goodput, link_course, mean_course, stalled};
use super::grid::{BUFFERS, Case, Grid, Rival, Times, grid};
use super::sums::over;
use super::verdict::{Wanted, claim, word};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, File, Line, Plot, Result, Stage, Table};

const FILES: &[File] = &[lab_file!("mctcp/seed.toml")];
/// The lab of the seed's schedule, and its links at the server.
pub(super) const LAB: (&str, &[&str]) = ("mctcp/seed.toml", &["left-out", "right-out"]);
/// Its links at the client: what each path carried.
const ARRIVING: [(&str, &str); 2] = [("left-in", "left path"), ("right-in", "right path")];
const LOSSES: [u32; 4] = [0, 2, 5, 10];
const BOTH: [Clock; 2] = [Clock::Wall, Clock::Virtual];

const fn figure(
    id: &'static str,
    title: &'static str,
    takes: &'static str,
    make: fn(&mut Stage<'_>) -> Result<Evidence>,
) -> Figure {
    Figure { id, title, takes, clocks: &BOTH, files: FILES, make }
}

pub(super) const TEN: Figure = figure(
    "schedule",
    "slide 7: loss on both paths, on one, longer delay on the other; 10 Mbit/s offered",
    "30 min",
    |stage| of_rate(stage, "10 Mbit/s"),
);
pub(super) const TWENTY: Figure =
    figure("schedule-20", "the same with 20 Mbit/s offered", "30 min", |stage| {
        of_rate(stage, "20 Mbit/s")
    });
pub(super) const UNLIMITED: Figure =
    figure("schedule-unlimited", "the same with as much as goes", "30 min", |stage| {
        of_rate(stage, "100 Mbit/s")
    });
pub(super) const BESIDE_UDP: Figure = figure(
    "schedule-udp",
    "slide 8: the same with 2 Mbit/s of datagrams beside it on one path, 0 and 10 % loss",
    "15 min",
    beside_udp,
);

/// The seed's phases of ten seconds.
const PHASES: [(f64, &str); 7] = [
    (0.0, "0–10 s"),
    (10.0, "both lose"),
    (20.0, "20–30 s"),
    (30.0, "left loses"),
    (40.0, "40–50 s"),
    (50.0, "right longer"),
    (60.0, "60–70 s"),
];
const PHASE: f64 = 10.0;
const END: f64 = 70.0;
/// A stream that has been still for so many seconds at the end counts as stalled.
const STILL: f64 = 5.0;
/// The kernel's must be reached to one per cent, the resolution of goodputs over ten seconds.
const REACHED: f64 = 0.99;
/// Of the clean link's goodput, where the other loses 5 %.
const OF_CLEAN: f64 = 1.1;
/// The phase in which the left path loses, and the loss at which that is asked for.
const LEFT_LOSES: usize = 3;
const ASKED: u32 = 5;

fn case(rate: &str, loss: u32, buffers: &str) -> Case {
    let name = format!("{}-{loss}-{buffers}", rate.replace([' ', '/'], ""));
    let label = format!("{loss} %, {buffers} buffers");
    let mut case = Case::new(LAB, 2, name, label).set("flow.bulk.rate", rate);
    for event in [1, 2, 5] {
        case = case.set(format!("at.{event}.set.loss"), format!("{loss} %"));
    }
    if buffers == "fixed" { case.set("flow.bulk.window", BUFFERS) } else { case }
}

fn of_rate(stage: &mut Stage<'_>, rate: &str) -> Result<Evidence> {
    let losses = stage.size(LOSSES.to_vec(), vec![0, ASKED]);
    let mut cases = Vec::new();
    for loss in &losses {
        cases.push(case(rate, *loss, "fixed").each_alone());
    }
    for loss in &losses {
        cases.push(case(rate, *loss, "tuned"));
    }
    let grid = grid(stage, &cases, Times::FIVE)?;
    let mut evidence = Evidence::default();
    for clock in stage.clocks() {
        evidence.tables.push(phases(&cases, &grid, clock)?);
    }
    for clock in stage.clocks() {
        for (at, case) in cases.iter().enumerate() {
            against_kernel(&mut evidence, case, at, &grid, clock)?;
        }
        let asked = losses.iter().position(|loss| *loss == ASKED && rate == "20 Mbit/s");
        if let Some(at) = asked {
            against_clean(&mut evidence, at, &grid, clock)?;
        }
    }
    plots(stage, &mut evidence, &cases[..losses.len()], &grid)?;
    evidence.note(NOTE);
    Ok(evidence)
}

const NOTE: &str = "The delay of a path is one way; event 3 makes it 100 ms both ways. \
     Throughput of a path is what arrived over it, on the wire. Where less is offered than the \
     paths carry, a stream that has lagged catches up in the phase after: there, having brought \
     as much until then counts as reaching the kernel's. What a peer does not finish ends with \
     the run: a stream that stands still for the last 5 s is counted as stalled.";

fn beside_udp(stage: &mut Stage<'_>) -> Result<Evidence> {
    let cases: Vec<Case> = [0, 10]
        .map(|loss| {
            let case = case("20 Mbit/s", loss, "fixed").rivals(&[
                Rival::Mctcp,
                Rival::Mptcp,
                Rival::Tcp(0),
            ]);
            case.set("flow.beside.start", "0 s")
        })
        .into();
    let grid = grid(stage, &cases, Times::FIVE)?;
    let mut evidence = Evidence::default();
    for clock in stage.clocks() {
        evidence.tables.push(phases(&cases, &grid, clock)?);
        for (at, case) in cases.iter().enumerate() {
            against_kernel(&mut evidence, case, at, &grid, clock)?;
        }
    }
    plots(stage, &mut evidence, &cases, &grid)?;
    evidence.note(
        "2 Mbit/s of payload on the left path: 2.1 Mbit/s of its 10 are taken. A path's throughput \
         is the stream's alone.",
    );
    Ok(evidence)
}

/// Goodput in each phase, for each case and rival.
fn phases(cases: &[Case], grid: &Grid, clock: Clock) -> Result<Table> {
    let mut heads = vec!["case", "carried by"];
    heads.extend(PHASES.iter().map(|(_, what)| *what));
    heads.extend(["all", "longest gap", "stalled"]);
    let title = format!(
        "Goodput in Mbit/s in the phases, medians; the median of longest gaps in s, and runs that \
         stalled ({} clock)",
        word(clock)
    );
    let mut table = Table::new(title, &heads);
    for (at, case) in cases.iter().enumerate() {
        for rival in &case.rivals {
            let Some(runs) = grid.of(at, *rival, clock) else { continue };
            let mut row = vec![case.label.clone(), rival.label()];
            for (from, _) in PHASES {
                let middle = Middle::read(runs, |run| goodput(run, from, from + PHASE))?;
                row.push(format!("{:.2}", middle.median));
            }
            let all = Middle::read(runs, |run| goodput(run, 0.0, END))?;
            let gap = Middle::read(runs, |run| gap(run, 0.0, END))?;
            row.extend([format!("{:.2}", all.median), format!("{:.2}", gap.median)]);
            let mut still = 0;
            for run in runs {
                still += u32::from(stalled(run, STILL)?);
            }
            row.push(format!("{still} of {}", runs.len()));
            table.row(row);
        }
    }
    Ok(table)
}

/// Each phase beside the kernel's.
fn against_kernel(
    evidence: &mut Evidence,
    case: &Case,
    at: usize,
    grid: &Grid,
    clock: Clock,
) -> Result<()> {
    let of = |rival| grid.of(at, rival, clock);
    let (Some(ours), Some(kernel)) = (of(Rival::Mctcp), of(Rival::Mptcp)) else { return Ok(()) };
    for (from, what) in PHASES.into_iter().take(PHASES.len() - 1) {
        let own = Middle::read(ours, |run| goodput(run, from, from + PHASE))?;
        let other = Middle::read(kernel, |run| goodput(run, from, from + PHASE))?;
        let until = |run: &crate::Run| goodput(run, 0.0, from + PHASE);
        let (own_all, other_all) = (Middle::read(ours, until)?, Middle::read(kernel, until)?);
        evidence.claim(
            format!("{}, {what}: goodput ({})", case.label, word(clock)),
            format!(
                "required: kernel MPTCP's {} ({:.2} until then)",
                other.text(),
                other_all.median
            ),
            format!("{} ({:.2} until then)", own.text(), own_all.median),
            reaches(own.median, other.median, own_all.median, other_all.median),
        );
    }
    Ok(())
}

/// In the phase itself, or, having lagged less, in all until its end.
fn reaches(own: f64, other: f64, own_all: f64, other_all: f64) -> bool {
    own >= REACHED * other || own_all >= REACHED * other_all && own_all > 0.0 && own < other
}

/// Where the left path loses, beside a single connection on the right one.
fn against_clean(evidence: &mut Evidence, at: usize, grid: &Grid, clock: Clock) -> Result<()> {
    let from = PHASES[LEFT_LOSES].0;
    let of = |rival| -> Result<Middle> {
        let runs = grid.of(at, rival, clock).unwrap_or_default();
        Middle::read(runs, |run| goodput(run, from, from + PHASE))
    };
    let clean = of(Rival::Tcp(1))?.median;
    let kernel = over(of(Rival::Mptcp)?, clean);
    claim(
        evidence,
        clock,
        "20 Mbit/s, the left path loses 5 %: over a single TCP on the clean path",
        Wanted::AtLeast(OF_CLEAN),
        over(of(Rival::Mctcp)?, clean),
        &[("kernel MPTCP", kernel)],
    );
    Ok(())
}

/// Throughput of each path over time, for each loss and rival; on the wall clock if it was wanted.
fn plots(stage: &Stage<'_>, evidence: &mut Evidence, cases: &[Case], grid: &Grid) -> Result<()> {
    let clocks = stage.clocks();
    let clock = if clocks.contains(&Clock::Wall) { Clock::Wall } else { Clock::Virtual };
    for (at, case) in cases.iter().enumerate() {
        for rival in [Rival::Mctcp, Rival::Mptcp, Rival::Tcp(0)] {
            let Some(runs) = grid.of(at, rival, clock) else { continue };
            let x = Axis::linear("time in s").from(0.0).to(END);
            let y = Axis::linear("Mbit/s").from(0.0).to(20.0);
            let title = format!("{}, {}", rival.label(), case.label);
            let mut plot = Plot::new(title, x, y);
            plot.note = format!("{} clock, mean and range of {} runs.", word(clock), runs.len());
            for (link, label) in ARRIVING {
                let of = |run: &crate::Run| link_course(run, link, 1.0);
                let courses = runs.iter().map(of).collect::<Result<Vec<_>>>()?;
                let (mean, spread) = mean_course(&courses);
                if mean.iter().any(|(_, rate)| *rate > 0.01) {
                    plot.lines.push(Line::new(label, mean).spread(spread));
                }
            }
            let courses = runs.iter().map(|run| course(run, 1.0)).collect::<Result<Vec<_>>>()?;
            plot.lines.push(Line::new("goodput", mean_course(&courses).0));
            evidence.plots.push(plot);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_lagged_less_need_not_catch_up() {
        // As much in the phase.
        assert!(reaches(9.95, 10.0, 5.0, 9.0));
        // Less in the phase, but no less until its end.
        assert!(reaches(15.6, 16.4, 9.99, 10.0));
        assert!(!reaches(15.6, 16.4, 8.0, 10.0));
        assert!(!reaches(0.0, 16.4, 0.0, 0.0) && !reaches(f64::NAN, 1.0, f64::NAN, 1.0));
    }
}
