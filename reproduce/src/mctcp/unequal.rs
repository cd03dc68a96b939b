//! Unequal paths: never worse than the best alone.

use super::course::{Middle, gap, reinjected, reordered_kb};
use super::grid::{BUFFERS, Case, Rival, Times, grid};
use super::sums::{END, LAB, goodputs, over};
use super::verdict::{Wanted, claim, word};
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "unequal",
    title: "paths of unequal delay and rate, with the seed's buffers and without limit",
    takes: "10 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/paths.toml")],
    make,
};

/// What a case must reach.
#[derive(Clone, Copy)]
enum Must {
    /// So much of the single connections' sum.
    OfSum(f64),
    /// So much of the best of them.
    OfBest(f64),
}

fn cases() -> Vec<(Case, Must)> {
    let two = |name: &str, label: &str| Case::new(LAB, 2, name, label).each_alone();
    let longer = |name, label| two(name, label).set("link.path2.delay", "100 ms");
    let fast = |name, label| {
        two(name, label)
            .set("link.path1.rate", "100 Mbit/s")
            .set("link.path1.queue", "1 bdp")
            .set("link.path2.rate", "2 Mbit/s")
            .set("link.path2.delay", "1 ms")
    };
    let slow = |name, label| two(name, label).set("link.path2.rate", "2 Mbit/s");
    vec![
        (longer("longer", "10 ms + 100 ms"), Must::OfSum(0.95)),
        (
            longer("longer-small", "10 ms + 100 ms, 262,144 B").set("flow.bulk.window", BUFFERS),
            Must::OfBest(1.4),
        ),
        (slow("slower", "10 + 2 Mbit/s"), Must::OfBest(0.98)),
        (
            slow("slower-small", "10 + 2 Mbit/s, 262,144 B").set("flow.bulk.window", BUFFERS),
            Must::OfBest(0.98),
        ),
        (
            slow("slower-longer", "10 Mbit/s 10 ms + 2 Mbit/s 100 ms, 262,144 B")
                .set("link.path2.delay", "100 ms")
                .set("flow.bulk.window", BUFFERS),
            Must::OfBest(0.98),
        ),
        (fast("fast-slow", "100 Mbit/s 10 ms + 2 Mbit/s 1 ms"), Must::OfBest(0.98)),
        (
            fast("fast-slow-middle", "100 Mbit/s 10 ms + 2 Mbit/s 1 ms, 1 MiB")
                .set("flow.bulk.window", "1 MiB"),
            Must::OfBest(0.98),
        ),
        (
            fast("fast-slow-shallow", "100 Mbit/s 10 ms, 60 kB queue + 2 Mbit/s 1 ms, 1 MiB")
                .set("link.path1.queue", "60 kB")
                .set("flow.bulk.window", "1 MiB"),
            Must::OfBest(0.98),
        ),
        (
            fast("fast-slow-small", "100 Mbit/s 10 ms + 2 Mbit/s 1 ms, 262,144 B")
                .set("flow.bulk.window", BUFFERS),
            Must::OfBest(0.98),
        ),
    ]
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let (cases, musts): (Vec<Case>, Vec<Must>) = cases().into_iter().unzip();
    let grid = grid(stage, &cases, Times::FIVE)?;
    let mut evidence = Evidence::default();
    let heads = [
        "paths",
        "clock",
        "MCTCP",
        "kernel MPTCP",
        "TCP, path 1",
        "TCP, path 2",
        "longest gap",
        "waited",
        "again",
    ];
    let title = format!(
        "Goodput over the first {END} s in Mbit/s: medians (least to largest); \
         of MCTCP the longest gap in s, the most kB that waited at the receiver, and % of bytes \
         sent again over another path"
    );
    let mut table = Table::new(title, &heads);
    for clock in stage.clocks() {
        for (at, (case, must)) in cases.iter().zip(&musts).enumerate() {
            let of = |rival| goodputs(&grid, at, rival, clock);
            let (ours, kernel) = (of(Rival::Mctcp)?, of(Rival::Mptcp)?);
            let single = [of(Rival::Tcp(0))?, of(Rival::Tcp(1))?];
            let runs = grid.of(at, Rival::Mctcp, clock).unwrap_or_default();
            let of_ours = [
                Middle::read(runs, |run| gap(run, 0.0, END))?,
                Middle::read(runs, reordered_kb)?,
                Middle::read(runs, reinjected)?,
            ];
            let goodputs = [ours, kernel, single[0], single[1]];
            let cells = goodputs.into_iter().chain(of_ours).map(Middle::text);
            table.row([case.label.clone(), word(clock).to_owned()].into_iter().chain(cells));
            let best = single[0].median.max(single[1].median);
            let (what, least, one) = match must {
                Must::OfSum(least) => ("sum", *least, single[0].median + single[1].median),
                Must::OfBest(least) => ("best", *least, best),
            };
            claim(
                &mut evidence,
                clock,
                &format!("{}: over single TCPs' {what}", case.label),
                Wanted::AtLeast(least),
                over(ours, one),
                &[("kernel MPTCP", over(kernel, one))],
            );
        }
    }
    evidence.tables.push(table);
    Ok(evidence)
}
