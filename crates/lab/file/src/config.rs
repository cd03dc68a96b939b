//! The basis of lab files for use by other configuration files: sections of typed keys, checked as
//! a whole, with all errors and their positions.

pub use crate::compile::Surroundings;
pub use crate::diagnostic::{Sink, suggest};
pub use crate::fields::{
    BUNDLE, CONSTANT_CONTROL, CONTROL_KINDS, Field, Fields, Key, Kind, Name, Presence, Raw,
    Section, Shape, Variant, Words, Write, name_of,
};
pub use crate::tree::{At, Entry, Table, Value};

use crate::diagnostic::Diagnostics;
use crate::{load, reference, validate};

/// Reads a file that consists of one section, and builds the result from its table.
///
/// # Errors
/// All errors in the file, including those that `build` reported.
pub fn read<T>(
    source_name: &str,
    text: &str,
    section: &Section,
    build: impl FnOnce(&Table, &mut Sink) -> T,
) -> Result<T, Diagnostics> {
    let mut sink = Sink::default();
    let root = load::tree(text, &mut sink);
    let built = root.map(|root| {
        validate::check_section(&root, section, &(0..0), &mut sink);
        build(&root, &mut sink)
    });
    built
        .filter(|_| !sink.has_errors())
        .ok_or_else(|| Diagnostics::new(source_name, text, sink.list))
}

/// The keys of a section in Markdown, including those of its tables.
pub fn reference(section: &Section) -> String {
    let mut page = format!("{}\n", section.doc);
    reference::section(&mut page, section);
    page
}
