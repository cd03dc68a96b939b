//! Any text as a distribution of sizes: a parsed distribution can be sampled.

pub(crate) fn target(text: &str) {
    let Ok(table) = lab::trace::parse_sizes(text) else { return };
    assert!(table.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    assert!(table.points.last().is_some_and(|last| last.1 == 1_000_000_000));
}
