//! The lab file's sections and keys as data, for the parser, the checks, the
//! documentation and the schema.
//!
//! Each key is declared once, with its type, range, default and text ([`section!`]). The compiler
//! reads it through this declaration ([`Key`]), which includes the default.

use base::{Bandwidth, Bytes, Span};

#[macro_use]
mod key;

mod bundle;
mod cluster;
mod control;
mod elements;
mod flow;
mod link;
mod networks;
#[cfg(test)]
mod tests;

pub use key::{Fields, Key, Kind, Name, Raw, Words, Write};

pub(crate) use bundle::FEEDBACK;
pub use bundle::{BUNDLE, CONSTANT_CONTROL, CONTROL_KINDS};
pub(crate) use cluster::CLUSTER;
pub(crate) use control::{CONTROL, EACH, SESSIONS};
pub(crate) use elements::{AT, EXPECT, LAB, LIMITS, MIRROR, NODE, PROGRAM, TOLERANCE};
pub(crate) use flow::{ARRIVALS, DATAGRAMS, FLOW, PATTERN, SIZES, START, THINK};
pub(crate) use link::{
    BERNOULLI, CODEL, DIRECTION, DROPTAIL, DRR, DUALPI2, FQ, FQ_CODEL, GILBERT_ELLIOTT, JITTER,
    JITTER_KINDS, JITTER_TABLE, LINK, LOSS_KINDS, NORMAL_JITTER, OPPORTUNITIES, PARETO_JITTER, PIE,
    POLICER, PRIORITY, QUEUE_KINDS, RED, REORDER, SET, SFQ, UNIFORM_JITTER,
};
pub(crate) use networks::{
    BARABASI_ALBERT, DUMBBELL, FAT_TREE, GENERATE, GENERATED, GRID, IMPORT, LINE, STAR,
    TRANSIT_STUB, TREE, WAXMAN,
};

/// A table of the file, with its keys.
#[derive(Debug)]
pub struct Section {
    /// The noun for messages: `a link`.
    pub noun: &'static str,
    /// Purpose of the section.
    pub doc: &'static str,
    /// Its keys, in the order of the reference page.
    pub fields: &'static [&'static Field],
}

/// The declaration of a key.
#[derive(Debug)]
pub struct Field {
    /// The key's name in the file.
    pub key: &'static str,
    /// The permitted values.
    pub shape: Shape,
    /// The value or meaning of an absent key.
    pub presence: Presence,
    /// Purpose of the key.
    pub doc: &'static str,
    /// Whether the key's type accepts a default.
    pub takes: fn(&'static str) -> bool,
}

/// The value or meaning of an absent key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The key is required.
    Required,
    /// The key has this default, in the syntax of the file.
    Default(&'static str),
    /// The meaning of absence, as text; empty if it is obvious.
    Unset(&'static str),
}

/// The permitted values of a key.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// An arbitrary text value.
    Text,
    /// `true` or `false`.
    Flag,
    /// An integer within these bounds.
    Whole(i64, i64),
    /// A number within these bounds.
    Number(f64, f64),
    /// A time within these bounds.
    Time(Span, Span),
    /// An amount of data within these bounds.
    Data(Bytes, Bytes),
    /// A data rate.
    Rate,
    /// A share from 0 to 100 %.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of values of one shape.
    List(&'static Shape),
    /// A list of two values with different shapes.
    Pair(&'static [Shape; 2]),
    /// The first shape with the value's TOML type applies.
    Either(&'static [Shape]),
    /// A table with these keys.
    Table(&'static Section),
    /// Tables with a kind, whose other keys depend on it.
    Variant(&'static Variant),
    /// A table with arbitrary keys and values of one shape.
    Map(&'static Shape),
}

/// A table whose keys depend on one key, its kind.
#[derive(Debug)]
pub struct Variant {
    /// The key that selects the kind.
    pub key: &'static str,
    /// Purpose of the table.
    pub doc: &'static str,
    /// Keys of every kind.
    pub shared: &'static [&'static Field],
    /// The word of each kind, and its specific keys.
    pub kinds: &'static [(&'static str, &'static Section)],
}

/// 30 days, longer than any test.
pub(crate) const MAX_TIME: Span = Span::from_secs(30 * 86_400);
/// 1 h, longer than any real path.
pub(crate) const MAX_DELAY: Span = Span::from_secs(3_600);
const TIME: Shape = Shape::Time(Span::ZERO, MAX_TIME);
const POSITIVE_TIME: Shape = Shape::Time(Span::from_nanos(1), MAX_TIME);
const POSITIVE_DATA: Shape = Shape::Data(Bytes::new(1), Bytes::new(1 << 60));
/// A full-size packet takes two minutes at this rate.
pub(crate) const MIN_RATE: Bandwidth = Bandwidth::from_bits_per_sec(100);
pub(crate) const MAX_RATE: Bandwidth = Bandwidth::from_mbits_per_sec(10_000_000);

/// The name of a key whose identifier may be raw, since `box` is a keyword of Rust.
pub const fn name_of(identifier: &'static str) -> &'static str {
    match identifier.as_bytes() {
        [b'r', b'#', ..] => identifier.split_at(2).1,
        _ => identifier,
    }
}

/// A top-level key: its name, whether it repeats (`[[name]]`), and its content.
pub(crate) struct Top {
    pub(crate) key: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) form: Form,
}

pub(crate) enum Form {
    /// `[key]`
    One(&'static Section),
    /// `[key.NAME]`
    Named(&'static Section),
    /// `[[key]]`
    Many(&'static Section),
    /// `[[key]]` with a kind.
    Kinds(&'static Variant),
}

/// All top-level keys of the file.
pub(crate) const FILE: &[Top] = &[
    Top { key: "lab", heading: "[lab]", form: Form::One(LAB.section) },
    Top { key: "node", heading: "[node.NAME]", form: Form::Named(NODE.section) },
    Top { key: "link", heading: "[[link]]", form: Form::Many(LINK.section) },
    Top { key: "generate", heading: "[[generate]]", form: Form::Kinds(&GENERATE) },
    Top { key: "import", heading: "[[import]]", form: Form::Many(IMPORT.section) },
    Top { key: "program", heading: "[[program]]", form: Form::Many(PROGRAM.section) },
    Top { key: "flow", heading: "[[flow]]", form: Form::Many(FLOW.section) },
    Top { key: "control", heading: "[control]", form: Form::One(CONTROL.section) },
    Top { key: "sessions", heading: "[[sessions]]", form: Form::Many(SESSIONS.section) },
    Top { key: "bundle", heading: "[[bundle]]", form: Form::Many(BUNDLE.section) },
    Top { key: "cluster", heading: "[cluster]", form: Form::One(CLUSTER.section) },
    Top { key: "at", heading: "[[at]]", form: Form::Many(AT.section) },
    Top { key: "mirror", heading: "[[mirror]]", form: Form::Many(MIRROR.section) },
    Top { key: "expect", heading: "[[expect]]", form: Form::Many(EXPECT.section) },
];
