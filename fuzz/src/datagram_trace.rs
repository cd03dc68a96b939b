//! Any text as a trace of datagrams.

pub(crate) fn target(text: &str) {
    let Ok(trace) = lab::trace::parse_datagrams(text) else { return };
    assert!(trace.datagrams.is_sorted_by_key(|datagram| datagram.0));
    assert!(trace.datagrams.last().is_some_and(|last| last.0 <= trace.period));
    assert!(trace.period.is_positive());
}
