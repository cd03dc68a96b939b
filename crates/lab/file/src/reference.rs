//! Generates pages of the book from the tables: lab files, error codes.

use std::fmt::Write;

use crate::code::Code;
use crate::expect::catalogue;
use crate::fields::{FILE, Field, Form, Presence, Section, Shape, Variant};

const HEAD: &str = "\
# Lab file

A lab file is TOML. Quantities are texts with a unit: times (`\"10 ms\"`), rates (`\"100 Mbit/s\"`),
amounts of data (`\"64 KiB\"`, `\"1500 B\"`), shares (`\"0.1 %\"`). All errors of a file are reported
at once, each with its position; [error codes](errors.md) explains the codes.

This page is generated from the tables with which Netarium reads lab files. Editors can use
`schemas/lab.schema.json`: put `#:schema ` and its path into the file's first line.

A sweep can replace any value: `{ sweep = [\"1 ms\", \"10 ms\"] }`, or
`{ range = \"1 ms..1 s\", log = 7 }` (seven values at equal ratios), or
`{ range = \"1..9\", steps = 5 }` (at equal distances). The lab then runs once for each
combination.

In the names of nodes for programs, flows and captures, `*` and `?` are wildcards: `\"h*\"`. Links
are named by their name or by their two ends, `[\"r1\", \"r2\"]`. A link's `up` is from its first end
to its second.
";

const ADDRESSES: &str = "
## Addresses

Every link has an IPv4 subnet of 10.0.0.0/8 (a /30, or larger where switches join links) and an
IPv6 subnet (/64) of fd6e:6574::/32. Interfaces are `eth0`, `eth1`, … in the order of the links of
their node: first those of `[[generate]]`, then of `[[import]]`, then of `[[link]]`. Every host
resolves the names of all others. Fixed addresses keep the rest of their subnet on the same segment.

## Namespaces

Every host has a separate network namespace. A router has one if it runs a program, ends a flow
or takes a mirror's copies, and every router has one with `routing = \"none\"`; other routers exist
in the emulation only.
";

const METRICS: &str = "
## Metrics of expectations

An expectation is `METRIC OP VALUE`. OP is one of `>=`, `<=`, `>`, `<`, `==`, `!=`. To select a part
of the run, add `between 5 s and 10 s`. The default statistic is the first of the list. Links have
`up` and `down`.

| metric | statistics |
|---|---|
";

/// The page on lab files: `docs/src/reference/lab-file.md`.
pub fn lab_file_page() -> String {
    let mut page = HEAD.to_owned();
    for top in FILE {
        let (doc, many) = match top.form {
            Form::One(section) | Form::Named(section) | Form::Many(section) => (section.doc, None),
            Form::Kinds(kinds) => (kinds.doc, Some(kinds)),
        };
        push(&mut page, &format!("\n## `{}`\n\n{doc}\n", top.heading));
        match (top.form_section(), many) {
            (Some(section), _) => self::section(&mut page, section),
            (None, Some(kinds)) => variant(&mut page, "", kinds),
            (None, None) => {}
        }
    }
    page.push_str(ADDRESSES);
    page.push_str(METRICS);
    for (subject, measure, statistics) in catalogue() {
        let whole = statistics.first().is_none_or(|first| first.is_empty());
        let words: Vec<String> =
            statistics.iter().filter(|s| !s.is_empty()).map(|s| format!("`{s}`")).collect();
        let statistics = match (whole, words.is_empty()) {
            (true, true) => "one number".to_owned(),
            (true, false) => format!("one number; of the flow's transfers {}", words.join(", ")),
            (false, _) => words.join(", "),
        };
        push(&mut page, &format!("| `{subject}.{measure}` | {statistics} |\n"));
    }
    page
}

/// The page on error codes: `docs/src/reference/errors.md`.
pub fn errors_page() -> String {
    let mut page = String::from(
        "# Error codes\n\nWhat `netarium check`, `run` and `sim` report about a lab file, and \
         `netarium bundle` about its\nconfiguration. Codes with `W` are warnings.\n",
    );
    for code in Code::ALL {
        let (name, title) = (code.as_str(), code.title());
        push(&mut page, &format!("\n## {name}: {title}\n\n{}\n", code.explanation()));
    }
    page
}

fn push(page: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = write!(page, "{text}");
}

impl crate::fields::Top {
    fn form_section(&self) -> Option<&'static Section> {
        match self.form {
            Form::One(section) | Form::Named(section) | Form::Many(section) => Some(section),
            Form::Kinds(_) => None,
        }
    }
}

/// The keys of a section, and those of tables in it.
pub(crate) fn section(page: &mut String, section: &Section) {
    fields(page, &[section.fields]);
    for field in section.fields {
        below(page, field.key, &field.shape);
    }
}

fn fields(page: &mut String, fields: &[&[&Field]]) {
    let mut rows = fields.iter().flat_map(|fields| fields.iter()).peekable();
    if rows.peek().is_none() {
        return;
    }
    page.push_str("\n| key | value | default | |\n|---|---|---|---|\n");
    for field in rows {
        let default = match field.presence {
            Presence::Required => "required".to_owned(),
            Presence::Default(default) | Presence::Unset(default) => default.to_owned(),
        };
        let cells = [kind(&field.shape), default, field.doc.to_owned()];
        let [kind, default, doc] = cells.map(|cell| cell.replace('|', "\\|"));
        push(page, &format!("| `{}` | {kind} | {default} | {doc} |\n", field.key));
    }
}

/// Sections of tables within a section; properties of links are documented once.
fn below(page: &mut String, key: &str, shape: &Shape) {
    match shape {
        Shape::Either(shapes) => shapes.iter().for_each(|shape| below(page, key, shape)),
        Shape::Map(item) => below(page, &format!("{key}.NAME"), item),
        Shape::Table(section) if !section.doc.is_empty() && !matches!(key, "up" | "down") => {
            push(page, &format!("\n### `{key} = {{ … }}`\n\n{}\n", section.doc));
            fields(page, &[section.fields]);
        }
        Shape::Variant(kinds) => {
            push(page, &format!("\n### `{key} = {{ {} = …, … }}`\n\n{}\n", kinds.key, kinds.doc));
            variant(page, key, kinds);
        }
        _ => {}
    }
}

fn variant(page: &mut String, key: &str, kinds: &Variant) {
    if !kinds.shared.is_empty() {
        page.push_str("\nAll kinds:\n");
        fields(page, &[kinds.shared]);
    }
    for (word, section) in kinds.kinds {
        let before = if key.is_empty() { String::new() } else { format!("{key}, ") };
        push(page, &format!("\n**{before}`{} = \"{word}\"`**: {}\n", kinds.key, section.doc));
        fields(page, &[section.fields]);
    }
}

fn kind(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".to_owned(),
        Shape::Flag => "`true` or `false`".to_owned(),
        Shape::Whole(min, max) if *max >= 1 << 53 => format!("whole number from {min}"),
        Shape::Whole(min, max) => format!("whole number, {min} to {max}"),
        Shape::Number(min, max) => format!("number, {min} to {max}"),
        Shape::Time(..) => "time".to_owned(),
        Shape::Data(..) => "amount of data".to_owned(),
        Shape::Rate => "rate".to_owned(),
        Shape::Share => "share".to_owned(),
        Shape::Word(words) => {
            words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
        }
        Shape::List(item) => format!("list: {}", kind(item)),
        Shape::Pair([first, second]) => format!("pairs of {} and {}", kind(first), kind(second)),
        Shape::Either(shapes) => shapes.iter().map(kind).collect::<Vec<_>>().join("; or "),
        Shape::Table(_) | Shape::Variant(_) => "table".to_owned(),
        Shape::Map(item) => format!("table: {}", kind(item)),
    }
}
