//! Which scheduler reorders least, and what that costs.

use super::course::{Middle, gap, number, reinjected, reordered_kb};
use super::grid::{BUFFERS, Case, Rival, Times, grid};
use super::sums::{END, LAB, goodputs};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Run, Stage, Table, quantile};

pub(super) const FIGURE: Figure = Figure {
    id: "schedulers",
    title: "outlook: which scheduler reorders least, on equal, unequal and lossy paths",
    takes: "5 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml")],
    make,
};

/// The scheduler by default, and the others.
const SCHEDULERS: [&str; 8] =
    ["earliest", "min-rtt", "round-robin", "weighted", "redundant", "backup", "blest", "ecf"];
/// The default may fall behind the best by so much, in goodput.
const NEAR_BEST: f64 = 0.97;

/// Paths: a name, a label, settings.
type Scene = (&'static str, &'static str, Vec<(&'static str, &'static str)>);

fn scenes() -> Vec<Scene> {
    vec![
        ("equal", "10 + 10 Mbit/s", vec![]),
        ("equal-small", "the same, 262,144 B", vec![("flow.bulk.window", BUFFERS)]),
        ("longer", "10 ms + 100 ms", vec![("link.path2.delay", "100 ms")]),
        (
            "longer-small",
            "the same, 262,144 B",
            vec![("link.path2.delay", "100 ms"), ("flow.bulk.window", BUFFERS)],
        ),
        (
            "lossy",
            "5 % loss on the second, 262,144 B",
            vec![("link.path2.loss", "5 %"), ("flow.bulk.window", BUFFERS)],
        ),
        (
            "slower",
            "10 + 2 Mbit/s, 262,144 B",
            vec![("link.path2.rate", "2 Mbit/s"), ("flow.bulk.window", BUFFERS)],
        ),
    ]
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let scenes = scenes();
    let mut cases = Vec::new();
    for (name, label, set) in &scenes {
        for scheduler in SCHEDULERS {
            let case = Case::new(LAB, 2, format!("{name}-{scheduler}"), *label)
                .rivals(&[Rival::Mctcp])
                .own("flow.bulk.scheduler", scheduler);
            cases.push(set.iter().fold(case, |case, (field, value)| case.set(*field, *value)));
        }
    }
    let grid = grid(stage, &cases, Times::FIVE)?;
    let mut evidence = Evidence::default();
    let title = format!(
        "Goodput over {END} s in Mbit/s, most kB that waited for earlier bytes, % \
         sent again over another path, and the 99th percentile and the longest of times without a \
         byte at the receiver in ms: medians of 5"
    );
    let heads = ["paths", "scheduler", "goodput", "waited", "again", "jitter", "gap"];
    let mut table = Table::new(title, &heads);
    for (at, (_, label, _)) in scenes.iter().enumerate() {
        let mut rows = Vec::new();
        for (of, scheduler) in SCHEDULERS.into_iter().enumerate() {
            let index = at * SCHEDULERS.len() + of;
            let runs = grid.of(index, Rival::Mctcp, Clock::Virtual).unwrap_or_default();
            let goodput = goodputs(&grid, index, Rival::Mctcp, Clock::Virtual)?.median;
            let waited = Middle::read(runs, reordered_kb)?.median;
            let again = Middle::read(runs, reinjected)?.median;
            let jitter = Middle::read(runs, jitter_ms)?.median;
            let gap = Middle::read(runs, |run| Ok(gap(run, 0.0, END)? * 1e3))?.median;
            let cells = [goodput, waited, again, jitter, gap].map(number);
            let words = [(*label).to_owned(), scheduler.to_owned()];
            table.row(words.into_iter().chain(cells));
            rows.push((scheduler, goodput, waited));
        }
        let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
        // Those that only ever use one path at a time, or all for the same, have nothing to order.
        let spreads = |name: &str| !["redundant", "backup"].contains(&name);
        let able = rows.iter().filter(|row| spreads(row.0) && row.1 >= NEAR_BEST * most);
        let least = able.min_by(|a, b| a.2.total_cmp(&b.2));
        let (name, waited) = least.map_or(("none", f64::NAN), |row| (row.0, row.2));
        evidence.claim(
            format!("{label}: goodput of the default scheduler over the best one's"),
            format!("not in the paper (expected: at least {NEAR_BEST})"),
            format!(
                "{}; {} kB waited; least reordering at that goodput: {name}, {} kB",
                number(rows[0].1 / most),
                number(rows[0].2),
                number(waited)
            ),
            rows[0].1 >= NEAR_BEST * most,
        );
    }
    evidence.tables.push(table);
    Ok(evidence)
}

/// The 99th percentile of the longest times without a byte in each sampling interval, in ms.
fn jitter_ms(run: &Run) -> Result<f64> {
    let gaps = run.flow_samples(super::course::BULK, "gap_ns")?;
    let gaps: Vec<f64> = gaps.into_iter().map(|(_, ns)| ns as f64 / 1e6).collect();
    Ok(quantile(&gaps, 0.99).unwrap_or(f64::NAN))
}
