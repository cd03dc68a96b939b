//! Checks a tree against the declared sections: keys, types, units, words, bounds.

use base::{Bandwidth, Bytes, QuantityError, Ratio};

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Sink, suggest};
use crate::fields::{FILE, Field, Form, MAX_RATE, MIN_RATE, Presence, Section, Shape, Variant};
use crate::sweep;
use crate::tree::{At, Data, Table, Value};

/// Checks the whole file.
pub(crate) fn file(root: &Table, sink: &mut Sink) {
    for entry in &root.entries {
        let Some(top) = FILE.iter().find(|top| top.key == entry.key) else {
            let known = FILE.iter().map(|top| top.key);
            sink.report(Code::UnknownKey, &entry.key_at, format!("no section `{}`", entry.key))
                .help(suggest(&entry.key, known, "sections"));
            continue;
        };
        let value = &entry.value;
        match top.form {
            Form::One(section) => table_of(value, &entry.key_at, top.heading, sink, |t, at, s| {
                check_section(t, section, at, s);
            }),
            Form::Named(section) => table_of(value, &entry.key_at, top.heading, sink, |t, _, s| {
                for named in &t.entries {
                    table_of(&named.value, &named.key_at, top.heading, s, |t, at, s| {
                        check_section(t, section, at, s);
                    });
                }
            }),
            Form::Many(section) => list_of(value, &entry.key_at, top.heading, sink, |t, at, s| {
                check_section(t, section, at, s);
            }),
            Form::Kinds(variant) => list_of(value, &entry.key_at, top.heading, sink, |t, at, s| {
                check_variant(t, variant, at, s);
            }),
        }
    }
}

fn table_of(
    value: &Value,
    at: &At,
    heading: &str,
    sink: &mut Sink,
    check: impl FnOnce(&Table, &At, &mut Sink),
) {
    match value.table() {
        Some(table) => check(table, at, sink),
        None => {
            sink.report(Code::WrongType, &value.at, format!("{heading} is a table"))
                .label(format!("this is {}", value.type_name()));
        }
    }
}

fn list_of(
    value: &Value,
    at: &At,
    heading: &str,
    sink: &mut Sink,
    mut check: impl FnMut(&Table, &At, &mut Sink),
) {
    let Some(list) = value.list() else {
        sink.report(Code::WrongType, at, format!("{heading} can be there more than once"))
            .help(format!("write `{heading}` with two brackets"));
        return;
    };
    for item in list {
        table_of(item, &item.at, heading, sink, |table, at, sink| check(table, at, sink));
    }
}

/// Checks one table; `at` is where a missing key is reported.
pub(crate) fn check_section(table: &Table, section: &Section, at: &At, sink: &mut Sink) {
    check_fields(table, &[section.fields], section.noun, at, sink);
}

fn check_variant(table: &Table, variant: &Variant, at: &At, sink: &mut Sink) {
    let kinds = || variant.kinds.iter().map(|kind| kind.0);
    let Some(entry) = table.entry(variant.key) else {
        sink.report(Code::MissingKey, at, format!("`{}` is missing", variant.key))
            .help(format!("one of {}", list_words(kinds())));
        return;
    };
    let Some(word) = entry.value.text() else {
        wrong_type(&entry.value, variant.key, "a text", sink);
        return;
    };
    let Some((_, section)) = variant.kinds.iter().find(|kind| kind.0 == word) else {
        unknown_word(&entry.value, variant.key, word, kinds(), sink);
        return;
    };
    let rest =
        Table { entries: table.entries.iter().filter(|e| e.key != variant.key).cloned().collect() };
    check_fields(&rest, &[section.fields, variant.shared], section.noun, at, sink);
}

fn check_fields(table: &Table, fields: &[&[&Field]], noun: &str, at: &At, sink: &mut Sink) {
    let all = || fields.iter().flat_map(|fields| fields.iter());
    for entry in &table.entries {
        if let Some(field) = all().find(|field| field.key == entry.key) {
            check_shape(&entry.value, field.key, &field.shape, sink);
        } else {
            let message = format!("{noun} has no key `{}`", entry.key);
            sink.report(Code::UnknownKey, &entry.key_at, message).help(suggest(
                &entry.key,
                all().map(|field| field.key),
                "keys",
            ));
        }
    }
    for field in all().filter(|field| field.presence == Presence::Required) {
        if table.get(field.key).is_none() {
            sink.report(Code::MissingKey, at, format!("{noun} needs `{}`", field.key))
                .help(field.doc);
        }
    }
}

pub(crate) fn check_shape(value: &Value, key: &str, shape: &Shape, sink: &mut Sink) {
    // Valid sweeps of labs have been replaced before, invalid ones were reported.
    let is_sweep = |found: &Diagnostic| {
        found.code == Code::BadSweep && found.labels.iter().any(|(at, _)| *at == value.at)
    };
    if value.table().is_some_and(sweep::is_meant) && sink.list.iter().any(is_sweep) {
        return;
    }
    match (shape, &value.data) {
        (Shape::Text, Data::Text(_)) | (Shape::Flag, Data::Flag(_)) => {}
        (Shape::Whole(min, max), Data::Whole(whole)) => {
            if !(min..=max).contains(&whole) {
                out_of_range(value, key, &min.to_string(), &max.to_string(), sink);
            }
        }
        (Shape::Number(min, max), Data::Whole(_) | Data::Number(_)) => {
            if !value.number().is_some_and(|number| (*min..=*max).contains(&number)) {
                out_of_range(value, key, &min.to_string(), &max.to_string(), sink);
            }
        }
        (Shape::Word(words), Data::Text(word)) => {
            if !words.contains(&word.as_str()) {
                unknown_word(value, key, word, words.iter().copied(), sink);
            }
        }
        (Shape::List(item), Data::List(list)) => {
            for value in list {
                check_shape(value, key, item, sink);
            }
        }
        (Shape::Pair(shapes), Data::List(list)) if list.len() == shapes.len() => {
            for (value, shape) in list.iter().zip(*shapes) {
                check_shape(value, key, shape, sink);
            }
        }
        (Shape::Map(item), Data::Table(table)) => {
            table.entries.iter().for_each(|e| check_shape(&e.value, &e.key, item, sink));
        }
        (Shape::Table(section), Data::Table(table)) => {
            check_section(table, section, &value.at, sink);
        }
        (Shape::Variant(variant), Data::Table(table)) => {
            check_variant(table, variant, &value.at, sink);
        }
        (Shape::Either([Shape::Word(words), quantity]), Data::Text(text))
            if quantity.is_quantity() =>
        {
            check_word_or_quantity(value, key, (words, text), quantity, sink);
        }
        (Shape::Either(shapes), _) => {
            match shapes.iter().find(|shape| shape.takes(&value.data)) {
                Some(shape) => check_shape(value, key, shape, sink),
                // A number without a unit most likely lacks its unit.
                None => match shapes.iter().find(|shape| shape.is_quantity()) {
                    Some(shape) if matches!(value.data, Data::Whole(_) | Data::Number(_)) => {
                        check_shape(value, key, shape, sink);
                    }
                    _ => wrong_type(value, key, &shape.wanted(), sink),
                },
            }
        }
        (_, Data::Text(_) | Data::Whole(_) | Data::Number(_)) if shape.is_quantity() => {
            check_quantity(value, key, shape, sink);
        }
        _ => wrong_type(value, key, &shape.wanted(), sink),
    }
}

/// A text that begins with a letter is checked as a word, another one as a quantity.
fn check_word_or_quantity(
    value: &Value,
    key: &str,
    (words, text): (&[&str], &str),
    quantity: &Shape,
    sink: &mut Sink,
) {
    if words.contains(&text) {
        return;
    }
    if text.trim_start().starts_with(|c: char| c.is_alphabetic()) {
        let kind = format!("it takes {}, or one of", quantity.wanted());
        sink.report(Code::UnknownWord, &value.at, format!("`{key}` cannot be `{text}`"))
            .help(suggest(text, words.iter().copied(), &kind));
    } else {
        check_quantity(value, key, quantity, sink);
    }
}

fn check_quantity(value: &Value, key: &str, shape: &Shape, sink: &mut Sink) {
    let text = value.plain();
    let bounds = match shape {
        Shape::Time(min, max) => bounds(&text, min, max),
        Shape::Data(min, max) => bounds(&text, min, max),
        Shape::Rate => bounds(&text, &MIN_RATE, &MAX_RATE),
        _ => bounds(&text, &Ratio::ZERO, &Ratio::ONE),
    };
    match bounds {
        Ok(None) => {}
        Ok(Some((min, max))) => out_of_range(value, key, &min, &max, sink),
        Err(error) => {
            let message = match error {
                QuantityError::MissingUnit { .. } => format!("`{key}` needs a unit"),
                _ => format!("`{key}`: {error}"),
            };
            let help = match (&error, &value.data) {
                (QuantityError::MissingUnit { units, .. }, _) => {
                    let likely = with_likely_unit(&text, key, shape);
                    format!("write a text with a unit, for example `\"{likely}\"` (units: {units})")
                }
                _ => error.help(),
            };
            sink.report(Code::Quantity, &value.at, message).help(help);
        }
    }
}

/// A number without a unit, with the most likely unit: `loss = 0.01` is 1 %, `duration = 10` is 10
/// s, `rate = 10000000` is 10 Mbit/s.
fn with_likely_unit(text: &str, key: &str, shape: &Shape) -> String {
    let plain: f64 = text.trim().parse().unwrap_or_default();
    let is_whole = plain.fract() == 0.0 && plain < 1e15;
    match shape {
        Shape::Share if plain < 1.0 => {
            let ratio = Ratio::from_parts_per_billion((plain * 1e9).round() as u64);
            ratio.to_string()
        }
        Shape::Share => format!("{text} %"),
        Shape::Rate if is_whole && plain >= 10_000.0 => {
            Bandwidth::from_bits_per_sec(plain as u64).to_string()
        }
        Shape::Rate => format!("{text} Mbit/s"),
        Shape::Data(..) if is_whole && plain >= 1_000.0 => Bytes::new(plain as u64).to_string(),
        Shape::Data(..) => format!("{text} kB"),
        _ if DELAY_KEYS.contains(&key) => format!("{text} ms"),
        _ => format!("{text} s"),
    }
}

/// Times that are usually in milliseconds; all others are in seconds.
const DELAY_KEYS: [&str; 8] =
    ["delay", "jitter", "spread", "by", "target", "interval", "think", "latency"];

/// The bounds if the quantity is outside them.
fn bounds<T>(text: &str, min: &T, max: &T) -> Result<Option<(String, String)>, QuantityError>
where
    T: std::str::FromStr<Err = QuantityError> + PartialOrd + std::fmt::Display,
{
    let value: T = text.parse()?;
    let outside = value < *min || value > *max;
    Ok(outside.then(|| (min.to_string(), max.to_string())))
}

fn out_of_range(value: &Value, key: &str, min: &str, max: &str, sink: &mut Sink) {
    let text = value.plain();
    let zero = text.parse::<Bandwidth>().is_ok_and(|rate| !rate.is_positive());
    let diagnostic =
        sink.report(Code::OutOfRange, &value.at, format!("`{key}` is out of range: {text}"));
    if zero && key == "demand" {
        diagnostic.help(format!(
            "a session with this demand would send nothing: at least {min}, or none for no limit"
        ));
    } else if zero {
        diagnostic.help(format!(
            "no packet would pass: at least {min}; to cut a link, set `state = \"down\"`"
        ));
    } else {
        diagnostic.help(format!("from {min} to {max}"));
    }
}

fn wrong_type(value: &Value, key: &str, wanted: &str, sink: &mut Sink) {
    sink.report(Code::WrongType, &value.at, format!("`{key}` wants {wanted}"))
        .label(format!("this is {}", value.type_name()));
}

fn unknown_word<'a>(
    value: &Value,
    key: &str,
    word: &str,
    known: impl Iterator<Item = &'a str>,
    sink: &mut Sink,
) {
    sink.report(Code::UnknownWord, &value.at, format!("`{key}` cannot be `{word}`"))
        .help(suggest(word, known, "it takes"));
}

/// Formats a list: `a`, `b` or `c`.
pub(crate) fn list_words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

impl Shape {
    pub(crate) const fn is_quantity(&self) -> bool {
        matches!(self, Self::Time(..) | Self::Data(..) | Self::Rate | Self::Share)
    }

    /// Whether the shape accepts a TOML type.
    const fn takes(&self, data: &Data) -> bool {
        match self {
            Self::Text | Self::Word(_) => matches!(data, Data::Text(_)),
            Self::Time(..) | Self::Data(..) | Self::Rate | Self::Share => {
                matches!(data, Data::Text(_))
            }
            Self::Flag => matches!(data, Data::Flag(_)),
            Self::Whole(..) => matches!(data, Data::Whole(_)),
            Self::Number(..) => matches!(data, Data::Whole(_) | Data::Number(_)),
            Self::List(_) | Self::Pair(_) => matches!(data, Data::List(_)),
            Self::Table(_) | Self::Variant(_) | Self::Map(_) => matches!(data, Data::Table(_)),
            Self::Either(_) => true,
        }
    }

    /// Text of the shape, with an article.
    pub(crate) fn wanted(&self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Whole(..) => "a whole number".to_owned(),
            Self::Number(..) => "a number".to_owned(),
            Self::Time(..) => "a time (`\"10 ms\"`)".to_owned(),
            Self::Data(..) => "an amount of data (`\"64 KiB\"`)".to_owned(),
            Self::Rate => "a data rate (`\"10 Mbit/s\"`)".to_owned(),
            Self::Share => "a share (`\"0.1 %\"`)".to_owned(),
            Self::Word(words) => {
                let words: Vec<String> = words.iter().map(|w| format!("`\"{w}\"`")).collect();
                match words.as_slice() {
                    [one] => one.clone(),
                    _ => format!("one of {}", words.join(", ")),
                }
            }
            Self::List(item) => format!("a list of: {}", item.wanted()),
            Self::Pair([first, second]) => {
                format!("two values: {} and {}", first.wanted(), second.wanted())
            }
            Self::Either(shapes) => {
                shapes.iter().map(Self::wanted).collect::<Vec<_>>().join(", or ")
            }
            Self::Table(_) | Self::Variant(_) | Self::Map(_) => "a table".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{Bytes, Span};

    use super::*;

    #[test]
    fn no_quantity_takes_what_is_no_number() {
        let shapes = [
            Shape::Time(Span::ZERO, Span::from_secs(1)),
            Shape::Data(Bytes::ZERO, Bytes::new(1 << 40)),
            Shape::Rate,
            Shape::Share,
        ];
        let texts = ["nan", "NaN", "inf", "-inf", "infinity", "-1 ms", "-1 B", "-1 Mbit/s", "-1 %"];
        let more =
            ["1e309 s", "1e3 B", "1e999 bit/s", "nan %", "0x10 B", "", "99999999999999999999 B"];
        for shape in &shapes {
            for text in texts.into_iter().chain(more) {
                let value = Value { at: 0..0, data: Data::Text(text.to_owned()) };
                let mut sink = Sink::default();
                check_shape(&value, "key", shape, &mut sink);
                assert!(sink.has_errors(), "{text} is taken for {}", shape.wanted());
            }
            for number in [f64::NAN, f64::INFINITY, -1.0] {
                let value = Value { at: 0..0, data: Data::Number(number) };
                let mut sink = Sink::default();
                check_shape(&value, "key", shape, &mut sink);
                check_shape(&value, "key", &Shape::Number(0.0, 1e300), &mut sink);
                assert!(sink.list.len() == 2, "{number} is taken for {}", shape.wanted());
            }
        }
    }
}
