//! The summary of a run with one link and a command of the user.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::LinkSummary;

use crate::columns::Grid;
use crate::layout::Layout;
use crate::{format, terminal};

const HEADS: [&str; 8] = [
    "direction",
    "packets",
    "bytes",
    "mean rate",
    "utilisation",
    "dropped",
    "wait p50",
    "wait p99",
];

/// A narrow terminal omits bytes, then the median, then the utilisation.
const RANKS: [u8; 8] = [0, 0, 3, 0, 1, 0, 2, 0];

/// One row for each direction of each link, then lateness and outcome.
pub(crate) fn render(record: &RunRecord, layout: &Layout) -> String {
    let rows: Vec<Vec<String>> = record.links.iter().map(row).collect();
    let table = Grid { heads: &HEADS, rows: &rows, numbers: 1..5, ranks: &RANKS };
    let mut out = table.lines(layout.table_width()).join("\n") + "\n";
    if let Some(d) = record.lateness.distribution {
        let (p50, p999) = (format::nanos(d.p50_ns), format::nanos(d.p999_ns));
        let _ = writeln!(out, "lateness {p50} at p50, {p999} at p99.9");
    }
    out.push_str(terminal::outcome_lines(record, layout).trim_end());
    out
}

fn row(link: &LinkSummary) -> Vec<String> {
    let wait = |value: fn(base::Distribution) -> u64| {
        link.queue_delay.map_or_else(|| "–".to_owned(), |delay| format::nanos(value(delay)))
    };
    vec![
        format!("{} ({} → {})", link.direction, link.from, link.to),
        format::count(link.sent_packets),
        format::bytes(link.sent_bytes),
        format::rate(link.throughput_bit_per_s),
        link.utilisation.map_or_else(|| "–".to_owned(), format::share),
        drops(link),
        wait(|delay| delay.p50_ns),
        wait(|delay| delay.p99_ns),
    ]
}

/// The dropped packets of a direction by reason.
fn drops(link: &LinkSummary) -> String {
    let reasons: Vec<_> =
        link.causes().map(|(reason, n)| format!("{} {reason}", format::count(n))).collect();
    if reasons.is_empty() { "0".to_owned() } else { reasons.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_packets_and_drops_of_both_directions() {
        let up = LinkSummary {
            direction: "up".to_owned(),
            from: "here".to_owned(),
            to: "outside".to_owned(),
            sent_packets: 12,
            sent_bytes: 1650,
            throughput_bit_per_s: 13_200.0,
            drops: [("loss".to_owned(), 3)].into(),
            ..LinkSummary::default()
        };
        let record = RunRecord { links: vec![up], ..RunRecord::default() };
        let text = render(&record, &Layout::default());
        let row: Vec<&str> = text.lines().nth(1).unwrap().split("  ").map(str::trim).collect();
        let row: Vec<&str> = row.into_iter().filter(|cell| !cell.is_empty()).collect();
        let expected = ["up (here → outside)", "12", "1.65 kB", "13.2 kbit/s", "3 loss"];
        assert_eq!(row, expected, "{text}");
    }

    #[test]
    fn fits_80_columns() {
        let delay = Some(base::Distribution {
            p50_ns: 104_857_600,
            p99_ns: 113_246_208,
            ..Default::default()
        });
        let direction = |direction: &str| LinkSummary {
            direction: direction.to_owned(),
            from: "here".to_owned(),
            to: "outside".to_owned(),
            sent_packets: 123_456,
            sent_bytes: 186_418_560,
            throughput_bit_per_s: 9_480_000.0,
            utilisation: Some(0.948),
            queue_delay: delay,
            drops: [("queue full".to_owned(), 1_234)].into(),
            ..LinkSummary::default()
        };
        let links = vec![direction("up"), direction("down")];
        let record = RunRecord { links, ..RunRecord::default() };
        let text = render(&record, &Layout { width: 80, ..Layout::default() });
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(text.contains("9.48 Mbit/s") && text.contains("queue full"), "{text}");
    }
}
