//! Any text gives plans or diagnostics, without a panic.

use std::path::Path;

use lab::{Overrides, TEMPLATES, parse_with, template};
use proptest::prelude::*;

fn trusting() -> Overrides {
    Overrides { trust_programs: true, ..Overrides::default() }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = parse_with("any.toml", &text, Path::new("/nonexistent"), &trusting());
    }

    /// Cuts or changes a valid lab: no panic, and every position is within the text.
    #[test]
    fn a_damaged_lab_is_read_or_refused(
        which in 0..TEMPLATES.len(),
        at in any::<prop::sample::Index>(),
        cut in 0usize..60,
        put in "[a-z0-9\"{}\\[\\]=. ]{0,12}",
    ) {
        let text = template(TEMPLATES[which].0).unwrap();
        let mut text: Vec<char> = text.chars().collect();
        let from = at.index(text.len());
        let to = (from + cut).min(text.len());
        text.splice(from..to, put.chars());
        let text: String = text.into_iter().collect();
        if let Err(errors) = parse_with("any.toml", &text, Path::new("/nonexistent"), &trusting()) {
            prop_assert!(!errors.list().is_empty());
            for error in errors.list() {
                for (place, _) in &error.labels {
                    prop_assert!(place.end <= text.len());
                }
            }
        }
    }

    #[test]
    fn any_trace_is_read_or_refused(text in "[0-9\n#x]{0,80}") {
        if let Ok(trace) = lab::trace::parse_trace(&text) {
            prop_assert!(trace.period >= *trace.opportunities.last().unwrap());
            prop_assert!(trace.opportunities.is_sorted());
        }
        let _ = lab::trace::parse_delays(&text);
    }

    #[test]
    fn any_workload_is_read_or_refused(text in "([0-9.]{0,5}( [0-9.e-]{0,4})?\n|nan|#|\\PC){0,20}") {
        if let Ok(table) = lab::trace::parse_sizes(&text) {
            prop_assert!(table.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
            let whole = table.points.last().map(|point| point.1);
            prop_assert_eq!(whole, Some(1_000_000_000));
        }
        if let Ok(trace) = lab::trace::parse_datagrams(&text) {
            prop_assert!(trace.datagrams.is_sorted_by_key(|datagram| datagram.0));
            prop_assert!(trace.datagrams.last().unwrap().0 <= trace.period);
        }
    }
}
