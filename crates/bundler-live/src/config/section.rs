//! Sections of a configuration: values with their places, and what was not asked for.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, suggest};

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(super) struct Sink(RefCell<Vec<Mistake>>);

impl Sink {
    pub(super) fn report(
        &self,
        at: Option<Range<usize>>,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        let (message, help) = (message.into(), help.into());
        self.0.borrow_mut().push(Mistake { message, help, at, position: (0, 0) });
    }

    pub(super) fn into_list(self) -> Vec<Mistake> {
        self.0.into_inner()
    }
}

/// A table, and which keys it may have.
pub(super) struct Section<'a> {
    table: &'a DeTable<'a>,
    at: Range<usize>,
    sink: &'a Sink,
}

/// A value and its place.
pub(super) type Value<'a> = &'a Spanned<DeValue<'a>>;

impl<'a> Section<'a> {
    /// Reports keys that are none of `known`.
    pub(super) fn new(
        table: &'a DeTable<'a>,
        at: Range<usize>,
        known: &[&str],
        sink: &'a Sink,
    ) -> Self {
        for (key, _) in table {
            let word = key.get_ref();
            if !known.contains(&word.as_ref()) {
                let help = suggest(word, known.iter().copied());
                sink.report(Some(key.span()), format!("unknown key `{word}`"), help);
            }
        }
        Self { table, at, sink }
    }

    pub(super) fn value(&self, key: &str) -> Option<Value<'a>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn wrong(&self, value: Value<'_>, key: &str, wanted: &str) {
        let message = format!("`{key}` must be {wanted}, not {}", kind(value.get_ref()));
        self.sink.report(Some(value.span()), message, None);
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Option<(&'a str, Range<usize>)> {
        let value = self.value(key)?;
        let DeValue::String(text) = value.get_ref() else {
            self.wrong(value, key, "a text");
            return None;
        };
        Some((text.as_ref(), value.span()))
    }

    pub(super) fn sink(&self) -> &'a Sink {
        self.sink
    }

    /// Reports that what a key says cannot be.
    pub(super) fn conflict(&self, key: &str, message: &str) {
        self.sink.report(Some(self.place(key)), message, None);
    }

    /// As [`Self::conflict`], with what would be right.
    pub(super) fn conflict_with(&self, key: &str, message: &str, help: &str) {
        self.sink.report(Some(self.place(key)), message, help.to_owned());
    }

    fn place(&self, key: &str) -> Range<usize> {
        self.value(key).map_or_else(|| self.at.clone(), Spanned::span)
    }

    /// Reports that a key is missing.
    pub(super) fn missing(&self, key: &str, help: &str) {
        let message = format!("`{key}` is missing");
        self.sink.report(Some(self.at.clone()), message, help.to_owned());
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        let DeValue::Boolean(flag) = value.get_ref() else {
            self.wrong(value, key, "true or false");
            return None;
        };
        Some(*flag)
    }

    /// A whole number from 1 to `most`.
    pub(super) fn whole(&self, key: &str, most: u32) -> Option<u32> {
        let value = self.value(key)?;
        let DeValue::Integer(whole) = value.get_ref() else {
            self.wrong(value, key, "a whole number");
            return None;
        };
        let number = i64::from_str_radix(whole.as_str(), whole.radix()).ok();
        let number = number.and_then(|number| u32::try_from(number).ok());
        if number.is_none_or(|number| number == 0 || number > most) {
            let message = format!("`{key}` must be 1 to {most}");
            self.sink.report(Some(value.span()), message, None);
            return None;
        }
        number
    }

    /// A text that is read as a `T`; `help` tells how to write one.
    pub(super) fn parsed<T: FromStr>(&self, key: &str, help: &str) -> Option<T>
    where
        T::Err: Display,
    {
        let (text, at) = self.text(key)?;
        self.parse(text, at, help)
    }

    fn parse<T: FromStr>(&self, text: &str, at: Range<usize>, help: &str) -> Option<T>
    where
        T::Err: Display,
    {
        text.parse()
            .map_err(|e: T::Err| self.sink.report(Some(at), e.to_string(), help.to_owned()))
            .ok()
    }

    /// One text or a list of them, each read as a `T`.
    pub(super) fn list<T: FromStr>(&self, key: &str, help: &str) -> Option<Vec<T>>
    where
        T::Err: Display,
    {
        let value = self.value(key)?;
        let one = |value: Value<'_>| {
            if let DeValue::String(text) = value.get_ref() {
                return self.parse(text, value.span(), help);
            }
            self.wrong(value, key, "a list of texts");
            None
        };
        Some(match value.get_ref() {
            DeValue::Array(list) => list.iter().filter_map(one).collect(),
            _ => one(value).into_iter().collect(),
        })
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let (text, at) = self.text(key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let help = suggest(text, words.iter().map(|(word, _)| *word));
            self.sink.report(Some(at), format!("`{key}` cannot be `{text}`"), help);
        }
        found
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
