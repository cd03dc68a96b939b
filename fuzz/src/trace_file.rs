//! Any text as a trace, and as a table of delays.

pub(crate) fn target(text: &str) {
    if let Ok(trace) = lab::trace::parse_trace(text) {
        assert!(trace.opportunities.is_sorted());
        assert!(trace.opportunities.last().is_some_and(|last| *last <= trace.period));
    }
    if let Ok(delays) = lab::trace::parse_delays(text) {
        assert!(delays.is_sorted() && delays.len() >= 2);
    }
}
