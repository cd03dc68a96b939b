//! Any text as GT-ITM's format.

pub(crate) fn target(text: &str) {
    crate::imports::check(text, topology::import::alt(text));
}
