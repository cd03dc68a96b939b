//! Any text as GML.

pub(crate) fn target(text: &str) {
    crate::imports::check(text, topology::import::gml(text));
}
