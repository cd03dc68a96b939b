//! Larger networks: four and eight paths, and paths that meet.

use super::course::{Middle, gap, goodput, reordered_kb};
use super::grid::{BUFFERS, Case, Rival, Times, grid};
use super::sums::{END, LAB, goodputs, over};
use super::verdict::{Wanted, claim, word};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "topologies",
    title: "outlook: four and eight paths, equal and not, and a bottleneck that paths share",
    takes: "15 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml"), lab_file!("mctcp/bottleneck.toml")],
    make,
};

/// The lab of the shared bottleneck, and its links at the server.
pub(super) const SHARED: (&str, &[&str]) = ("mctcp/bottleneck.toml", &["path1", "path2"]);
const SHARED_END: f64 = 60.0;
/// Of the single connections' sum.
const OF_SUM: f64 = 0.95;
/// Two subflows may take up to so many times a single connection's share.
const TIMES_SHARE: f64 = 3.0;

fn cases() -> Vec<Case> {
    // Rates and delays of paths that all differ.
    let mixed = |mut case: Case, paths: usize| {
        for path in 1..=paths {
            let (rate, delay) = (2 + 2 * path, 5 * path);
            case = case
                .set(format!("link.path{path}.rate"), format!("{rate} Mbit/s"))
                .set(format!("link.path{path}.delay"), format!("{delay} ms"));
        }
        case
    };
    let mut cases = Vec::new();
    for paths in [4, 8] {
        let label = |words: &str| format!("{paths} paths{words}");
        let new = |name: &str, words| {
            Case::new(LAB, paths, format!("{name}-{paths}"), label(words)).each_alone()
        };
        cases.push(new("equal", " of 10 Mbit/s"));
        cases.push(mixed(new("mixed", " of 4, 6, 8 … Mbit/s and 5, 10, 15 … ms"), paths));
        let small = new("mixed-small", ", the same, 262,144 B").set("flow.bulk.window", BUFFERS);
        cases.push(mixed(small, paths));
    }
    cases
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let cases = cases();
    let paths = grid(stage, &cases, Times { wall: 3, ..Times::FIVE })?;
    let shared = [Case::new(SHARED, 2, "shared", "a bottleneck of 20 Mbit/s")];
    let shared = grid(stage, &shared, Times { wall: 3, ..Times::FIVE })?;
    let mut evidence = Evidence::default();
    let title = format!(
        "Goodput over {END} s in Mbit/s; of MCTCP the longest gap in s, and the \
         most kB that waited: medians (least to largest)"
    );
    let heads = ["paths", "clock", "MCTCP", "kernel MPTCP", "TCPs, added", "gap", "waited"];
    let mut table = Table::new(title, &heads);
    for clock in stage.clocks() {
        for (at, case) in cases.iter().enumerate() {
            let of = |rival| goodputs(&paths, at, rival, clock);
            let (ours, kernel) = (of(Rival::Mctcp)?, of(Rival::Mptcp)?);
            let mut sum = 0.0;
            for rival in case.rivals.iter().filter(|rival| matches!(rival, Rival::Tcp(_))) {
                sum += of(*rival)?.median;
            }
            let runs = paths.of(at, Rival::Mctcp, clock).unwrap_or_default();
            let gap = Middle::read(runs, |run| gap(run, 0.0, END))?.text();
            let waited = Middle::read(runs, reordered_kb)?.text();
            let cells = [ours.text(), kernel.text(), format!("{sum:.2}"), gap, waited];
            table.row([case.label.clone(), word(clock).to_owned()].into_iter().chain(cells));
            // With little memory eight paths of unequal delay cannot all be full.
            if case.name != "mixed-small-8" {
                let what = format!("{}: over single TCPs' sum", case.label);
                let beside = [("kernel MPTCP", over(kernel, sum))];
                let wanted = Wanted::AtLeast(OF_SUM);
                claim(&mut evidence, clock, &what, wanted, over(ours, sum), &beside);
            }
        }
    }
    evidence.tables.push(table);
    let title = "At a bottleneck of 20 Mbit/s that both paths share with one TCP connection: \
                 Mbit/s of each, medians (least to largest)";
    let mut table = Table::new(title, &["carried by", "clock", "stream", "the other"]);
    for cell in &shared.0 {
        let [ours, other] = shares(&cell.runs)?;
        let words = [cell.rival.label(), word(cell.clock).to_owned()];
        table.row(words.into_iter().chain([ours.text(), other.text()]));
        if cell.rival == Rival::Mctcp {
            claim(
                &mut evidence,
                cell.clock,
                "shared bottleneck: Mbit/s of the stream over one TCP connection's beside it",
                Wanted::AtMost(TIMES_SHARE),
                over(ours, other.median),
                &[],
            );
        }
    }
    evidence.tables.push(table);
    Ok(evidence)
}

/// Goodput of the stream and of the connection beside it, in Mbit/s, once both have begun.
pub(super) fn shares(runs: &[Run]) -> Result<[Middle; 2]> {
    let begun = 10.0;
    let ours = Middle::read(runs, |run| goodput(run, begun, SHARED_END))?;
    let other = Middle::read(runs, |run| {
        let rates = run.flow_rate("beside", 1.0)?;
        let later = rates.iter().filter(|(at, _)| *at > begun && *at < SHARED_END);
        Ok(later.map(|(_, rate)| rate / 1e6).sum::<f64>() / (SHARED_END - begun))
    })?;
    Ok([ours, other])
}
