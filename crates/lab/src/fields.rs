//! The lab file's sections and keys, as data: what reads, checks, documents and describes them
//! all works from these tables.

use base::{Bandwidth, Bytes, Span};

mod bundle;
mod cluster;
mod control;
mod elements;
mod flow;
mod link;
mod networks;

pub(crate) use bundle::{BUNDLE, CONTROL_KINDS};
pub(crate) use cluster::CLUSTER;
pub(crate) use control::{CONTROL, PROTOCOLS, SESSIONS};
pub(crate) use elements::{AT, EXPECT, LAB, MIRROR, NODE, PROGRAM};
pub(crate) use flow::FLOW;
pub(crate) use link::{LINK, QUEUE_KINDS, SET};
pub(crate) use networks::{GENERATE, IMPORT};

/// A table of the file.
#[derive(Debug)]
pub(crate) struct Section {
    /// As a message names it: `a link`.
    pub(crate) noun: &'static str,
    /// What it is for.
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A key.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
    pub(crate) doc: &'static str,
}

/// What happens without the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    /// The default in words or as the file would write it; empty where absence speaks for itself.
    Default(&'static str),
}

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    Flag,
    Whole(i64, i64),
    Number(f64, f64),
    Time(Span, Span),
    Data(Bytes, Bytes),
    Rate,
    Share,
    Word(&'static [&'static str]),
    List(&'static Shape),
    /// A list of two, each of its own shape.
    Pair(&'static [Shape; 2]),
    /// The first that has the value's TOML type counts.
    Either(&'static [Shape]),
    Table(&'static Section),
    /// Tables that differ by the word under a key.
    Variant(&'static Variant),
    /// Any keys, values alike.
    Map(&'static Shape),
}

/// A table whose keys depend on one of them.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) key: &'static str,
    pub(crate) doc: &'static str,
    /// Keys of every kind.
    pub(crate) shared: &'static [Field],
    pub(crate) kinds: &'static [(&'static str, &'static Section)],
}

/// A day is more than any test, a month more than any machine stays up undisturbed.
pub(crate) const LONGEST: Span = Span::from_secs(30 * 86_400);
/// Longer than to the Moon and back, by far.
pub(crate) const LONGEST_DELAY: Span = Span::from_secs(3_600);
const TIME: Shape = Shape::Time(Span::ZERO, LONGEST);
const SOME_TIME: Shape = Shape::Time(Span::from_nanos(1), LONGEST);
const SOME_DATA: Shape = Shape::Data(Bytes::new(1), Bytes::new(1 << 60));
/// A full-size packet takes two minutes at the slowest.
pub(crate) const SLOWEST: Bandwidth = Bandwidth::from_bits_per_sec(100);
pub(crate) const FASTEST: Bandwidth = Bandwidth::from_mbits_per_sec(10_000_000);

const fn required(key: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { key, shape, presence: Presence::Required, doc }
}

const fn optional(
    key: &'static str,
    shape: Shape,
    default: &'static str,
    doc: &'static str,
) -> Field {
    Field { key, shape, presence: Presence::Default(default), doc }
}

/// A top-level key: its name, whether it repeats (`[[name]]`), and what it holds.
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
    /// `[[key]]` with kinds.
    Kinds(&'static Variant),
}

/// All of the file.
pub(crate) const FILE: &[Top] = &[
    Top { key: "lab", heading: "[lab]", form: Form::One(&LAB) },
    Top { key: "node", heading: "[node.NAME]", form: Form::Named(&NODE) },
    Top { key: "link", heading: "[[link]]", form: Form::Many(&LINK) },
    Top { key: "generate", heading: "[[generate]]", form: Form::Kinds(&GENERATE) },
    Top { key: "import", heading: "[[import]]", form: Form::Many(&IMPORT) },
    Top { key: "program", heading: "[[program]]", form: Form::Many(&PROGRAM) },
    Top { key: "flow", heading: "[[flow]]", form: Form::Many(&FLOW) },
    Top { key: "control", heading: "[control]", form: Form::One(&CONTROL) },
    Top { key: "sessions", heading: "[[sessions]]", form: Form::Many(&SESSIONS) },
    Top { key: "bundle", heading: "[[bundle]]", form: Form::Many(&BUNDLE) },
    Top { key: "cluster", heading: "[cluster]", form: Form::One(&CLUSTER) },
    Top { key: "at", heading: "[[at]]", form: Form::Many(&AT) },
    Top { key: "mirror", heading: "[[mirror]]", form: Form::Many(&MIRROR) },
    Top { key: "expect", heading: "[[expect]]", form: Form::Many(&EXPECT) },
];
