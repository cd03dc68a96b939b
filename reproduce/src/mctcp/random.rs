//! A thousand transfers while anything may happen to their paths.

use base::RandomStream;

use super::course::{BULK, Middle, gap, reordered_kb};
use super::grid::{Case, Rival, Times, grid};
use super::verdict::word;
use crate::paper::lab_file;
use crate::{Clock, Evidence, Figure, Result, Run, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "random",
    title: "1,000 transfers with random events, loss up to 20 %, buffers from 64 KiB",
    takes: "60 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("mctcp/random.toml")],
    make,
};

const LAB: (&str, &[&str]) = ("mctcp/random.toml", &["path1", "path2"]);
const TRANSFERS: usize = 1000;
/// So many of them on the wall clock too, each by MCTCP and the kernel's MPTCP.
const ON_WALL: usize = 120;
/// So long some receivers read nothing.
const PAUSE_MS: u64 = 30_000;
/// Of the credit, with a fifth for what is about it.
const MEMORY: f64 = 1.2;
/// Events of the lab; the last of each path leave it in a state in which it works.
const EVENTS: u32 = 12;

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let count = stage.size(TRANSFERS, 40);
    let on_wall = stage.size(ON_WALL, 6);
    let heads = [
        "clock",
        "carried by",
        "transfers",
        "completed",
        "hung",
        "wrong",
        "s",
        "longest gap",
        "waited at most",
    ];
    let title = "Transfers of 1 to 10 MB: how many were whole within 300 s, how many hung or \
                 failed; s they took, their longest gaps in s, kB that waited for earlier bytes: \
                 medians (least to largest)";
    let mut table = Table::new(title, &heads);
    for clock in stage.clocks() {
        let count = if clock == Clock::Wall { on_wall } else { count };
        let drawn = (1..=count).map(|number| drawn(number as u64));
        let (cases, buffers): (Vec<Case>, Vec<u64>) = drawn.unzip();
        let once = Times {
            simulated: u64::from(clock == Clock::Virtual),
            wall: u64::from(clock == Clock::Wall),
        };
        let grid = grid(stage, &cases, once)?;
        for rival in [Rival::Mctcp, Rival::Mptcp] {
            let own = grid.0.iter().filter(|cell| cell.rival == rival);
            let runs: Vec<Run> = own.flat_map(|cell| cell.runs.clone()).collect();
            if runs.is_empty() {
                continue;
            }
            let sum = Sum::of(&runs)?;
            table.row([word(clock).to_owned(), rival.label()].into_iter().chain(sum.row(&runs)?));
            if rival == Rival::Mctcp {
                let most = memory(&runs, &buffers)?;
                evidence.claim(
                    format!(
                        "{} random transfers: bytes that were kept, over the credit ({})",
                        runs.len(),
                        word(clock)
                    ),
                    format!("required: at most {MEMORY}"),
                    format!("{most:.2}"),
                    most <= MEMORY,
                );
                evidence.claim(
                    format!("{} random transfers: hung ({})", runs.len(), word(clock)),
                    "required: 0",
                    sum.names(&sum.hung),
                    sum.hung.is_empty(),
                );
                evidence.claim(
                    format!("{} random transfers: wrong bytes ({})", runs.len(), word(clock)),
                    "required: 0",
                    sum.names(&sum.wrong),
                    sum.wrong.is_empty(),
                );
            }
        }
    }
    evidence.tables.push(table);
    evidence.note(
        "Each transfer draws its size, both paths' rates (1 to 20 Mbit/s), delays (1 to 150 ms), \
         losses (to 20 %), its buffers (64 KiB to 1 MiB), and twelve events in its first 20 s, \
         half of which silence a path or mend it. At the end both paths work. One receiver of four \
         reads nothing for 30 s. A transfer that is not whole after 300 s has hung.",
    );
    Ok(evidence)
}

/// The largest share of a receiver's credit, twice its buffers, that it kept.
fn memory(runs: &[Run], buffers: &[u64]) -> Result<f64> {
    let mut most = 0.0_f64;
    for (run, buffer) in runs.iter().zip(buffers) {
        let flow = run.flow(BULK)?;
        let kept = flow.reorder_max_bytes.max(flow.buffered_max_bytes).unwrap_or(0);
        most = most.max(kept as f64 / (2 * buffer) as f64);
    }
    Ok(most)
}

/// A transfer, by its number, and its buffers in bytes.
fn drawn(number: u64) -> (Case, u64) {
    let mut random = RandomStream::new(number, "mctcp/random");
    let mut between = |low: u64, high: u64| low + random.below(high - low + 1);
    let mut case = Case::new(LAB, 2, format!("random-{number}"), format!("{number}"));
    let buffer = 64 << between(0, 4);
    case = case
        .set("lab.seed", number.to_string())
        .set("flow.bulk.size", format!("{} kB", between(1_000, 10_000)))
        .set("flow.bulk.window", format!("{buffer} KiB"));
    for path in 1..=2 {
        let (rate, delay, loss) = (between(1, 20), between(1, 150), between(0, 20));
        let loss = if between(0, 1) == 0 { 0 } else { loss };
        case = case
            .set(format!("link.path{path}.rate"), format!("{rate} Mbit/s"))
            .set(format!("link.path{path}.delay"), format!("{delay} ms"))
            .set(format!("link.path{path}.loss"), format!("{loss} %"));
    }
    let mut times: Vec<u64> = (0..EVENTS).map(|_| between(100, 20_000)).collect();
    times.sort_unstable();
    for (event, time) in (1..=EVENTS).zip(times) {
        let last = event + 2 > EVENTS;
        // The lab's events take turns, so that the last two are of different paths.
        let loss = match between(0, 3) {
            0 if !last => 100,
            1 if !last => between(0, 20),
            2 => between(0, 5),
            _ => 0,
        };
        let (rate, delay) = (between(1, 20), between(1, 150));
        case = case.set(format!("at.{event}.time"), format!("{time} ms")).set(
            format!("at.{event}.set"),
            format!("{{ loss = \"{loss} %\", delay = \"{delay} ms\", rate = \"{rate} Mbit/s\" }}"),
        );
    }
    if between(0, 3) == 0 {
        let from = between(100, 20_000);
        let pause = format!("[\"{from} ms\", \"{} ms\"]", from + PAUSE_MS);
        case = case.set("flow.bulk.pause", pause);
    }
    (case, buffer << 10)
}

/// What came of transfers.
#[derive(Debug, Default)]
struct Sum {
    completed: usize,
    hung: Vec<String>,
    wrong: Vec<String>,
}

impl Sum {
    fn of(runs: &[Run]) -> Result<Self> {
        let mut sum = Self::default();
        for run in runs {
            let flow = run.flow(BULK)?;
            if flow.error.is_some() {
                sum.wrong.push(run.name.clone());
            } else if flow.completion_s.is_some() {
                sum.completed += 1;
            } else {
                sum.hung.push(run.name.clone());
            }
        }
        Ok(sum)
    }

    /// How many, and the first of them.
    fn names(&self, runs: &[String]) -> String {
        let of = self.completed + self.hung.len() + self.wrong.len();
        match runs.first() {
            Some(first) => format!("{} of {of} ({first} …)", runs.len()),
            None => format!("0 of {of}"),
        }
    }

    fn row(&self, runs: &[Run]) -> Result<[String; 7]> {
        let whole: Vec<f64> =
            runs.iter().filter_map(|run| run.flow(BULK).ok()?.completion_s).collect();
        let end = |run: &Run| run.record.elapsed_s;
        Ok([
            runs.len().to_string(),
            self.completed.to_string(),
            self.hung.len().to_string(),
            self.wrong.len().to_string(),
            Middle::of(&whole).text(),
            Middle::read(runs, |run| gap(run, 0.0, end(run)))?.text(),
            Middle::read(runs, reordered_kb)?.text(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_differ_repeat_and_end_with_paths_that_work() {
        let words = |number| format!("{:?}", drawn(number).0);
        assert_eq!(words(3), words(3));
        assert_ne!(words(3), words(4));
        for number in 1..200 {
            let case = words(number);
            for event in [EVENTS - 1, EVENTS] {
                let from = case.find(&format!("at.{event}.set\"")).unwrap();
                let loss = case[from..].split("loss = ").nth(1).unwrap();
                let loss: String =
                    loss.chars().take_while(|c| *c != '%').filter(char::is_ascii_digit).collect();
                assert!(loss.parse::<u32>().unwrap() <= 5, "{number}: {loss}");
            }
        }
    }
}
