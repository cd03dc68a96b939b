//! Any text as `GraphML`.

pub(crate) fn target(text: &str) {
    crate::imports::check(text, topology::import::graphml(text));
}
