//! Any text as an edge list.

pub(crate) fn target(text: &str) {
    crate::imports::check(text, topology::import::csv(text));
}
