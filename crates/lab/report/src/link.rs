//! The summary of a run with one link and a command of the user.

use std::fmt::Write as _;

use run::RunRecord;
use run::record::LinkSummary;

use crate::layout::Layout;
use crate::{columns, format, terminal};

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

/// One row for each direction of each link, then lateness and outcome.
pub(crate) fn render(record: &RunRecord, layout: &Layout) -> String {
    let rows: Vec<Vec<String>> = record.links.iter().map(row).collect();
    let mut out = columns(&HEADS, &rows, 1..5) + "\n";
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
        let expected =
            ["up (here → outside)", "12", "1.65 kB", "13.2 kbit/s", "–", "3 loss", "–", "–"];
        assert_eq!(row, expected, "{text}");
    }
}
