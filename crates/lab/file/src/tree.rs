//! The lab file as an owned tree with the position of each value.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fields::{Key, Kind, Name};

/// A range of bytes of the lab file.
pub type At = Range<usize>;

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Value {
    /// Position in the file.
    pub at: At,
    pub(crate) data: Data,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    Text(String),
    Whole(i64),
    Number(f64),
    Flag(bool),
    Moment,
    List(Vec<Value>),
    Table(Table),
}

/// Keys and values in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Keys are unique.
    pub entries: Vec<Entry>,
}

/// An entry of a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the key.
    pub key: String,
    /// Position of the key.
    pub key_at: At,
    /// Value of the key.
    pub value: Value,
}

pub(crate) struct SyntaxError {
    pub(crate) at: Option<At>,
    pub(crate) message: String,
}

/// Parses `text` as far as possible.
pub(crate) fn read(text: &str) -> Result<Table, Vec<SyntaxError>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(Table::own(document.get_ref()));
    }
    let errors = errors
        .iter()
        .map(|error| SyntaxError { at: error.span(), message: error.message().to_owned() });
    Err(errors.collect())
}

impl Value {
    fn own(value: &Spanned<DeValue<'_>>) -> Self {
        let data = match value.get_ref() {
            DeValue::String(text) => Data::Text(text.to_string()),
            DeValue::Integer(whole) => i64::from_str_radix(whole.as_str(), whole.radix())
                .map_or_else(|_| Data::Text(whole.to_string()), Data::Whole),
            DeValue::Float(number) => Data::Number(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(flag) => Data::Flag(*flag),
            DeValue::Datetime(_) => Data::Moment,
            DeValue::Array(list) => Data::List(list.iter().map(Self::own).collect()),
            DeValue::Table(table) => Data::Table(Table::own(table)),
        };
        Self { at: value.span(), data }
    }

    /// Parses a default, which is in the syntax of the file except that texts have no quotes.
    pub fn of_default(text: &str) -> Self {
        let data = if let Ok(flag) = text.parse::<bool>() {
            Data::Flag(flag)
        } else if let Ok(whole) = text.parse::<i64>() {
            Data::Whole(whole)
        } else if let Ok(number) = text.parse::<f64>() {
            Data::Number(number)
        } else if text.starts_with(['[', '{']) {
            let list = read(&format!("list = {text}")).ok().and_then(|mut it| it.entries.pop());
            list.map_or(Data::List(Vec::new()), |list| list.value.data)
        } else {
            Data::Text(text.to_owned())
        };
        Self { at: 0..0, data }
    }

    /// Sets the position of the whole value to `at`.
    pub(crate) fn moved_to(mut self, at: &At) -> Self {
        self.at = at.clone();
        self.data = match self.data {
            Data::List(list) => Data::List(list.into_iter().map(|v| v.moved_to(at)).collect()),
            Data::Table(mut table) => {
                table.entries = table
                    .entries
                    .into_iter()
                    .map(|e| Entry { key_at: at.clone(), value: e.value.moved_to(at), ..e })
                    .collect();
                Data::Table(table)
            }
            other => other,
        };
        self
    }

    /// The TOML type name, for messages.
    pub(crate) const fn type_name(&self) -> &'static str {
        match self.data {
            Data::Text(_) => "a text",
            Data::Whole(_) => "a whole number",
            Data::Number(_) => "a number",
            Data::Flag(_) => "true or false",
            Data::Moment => "a date",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
        }
    }

    /// The text of a string value.
    pub fn text(&self) -> Option<&str> {
        if let Data::Text(text) = &self.data { Some(text) } else { None }
    }

    /// The table of a table value.
    pub fn table(&self) -> Option<&Table> {
        if let Data::Table(table) = &self.data { Some(table) } else { None }
    }

    /// The elements of an array value.
    pub fn list(&self) -> Option<&[Self]> {
        if let Data::List(list) = &self.data { Some(list) } else { None }
    }

    /// The value of an integer.
    pub const fn whole(&self) -> Option<i64> {
        if let Data::Whole(whole) = self.data { Some(whole) } else { None }
    }

    /// The value of an integer or float.
    pub const fn number(&self) -> Option<f64> {
        match self.data {
            Data::Number(number) => Some(number),
            Data::Whole(whole) => Some(whole as f64),
            _ => None,
        }
    }

    /// The value of a boolean.
    pub const fn flag(&self) -> Option<bool> {
        if let Data::Flag(flag) = self.data { Some(flag) } else { None }
    }

    /// The elements of an array, or the value itself.
    pub fn one_or_more(&self) -> &[Self] {
        if let Data::List(list) = &self.data { list } else { std::slice::from_ref(self) }
    }

    /// Text of a scalar in the syntax of the file, but strings without quotes.
    pub(crate) fn plain(&self) -> String {
        match &self.data {
            Data::Text(text) => text.clone(),
            Data::Whole(whole) => whole.to_string(),
            Data::Number(number) => number.to_string(),
            Data::Flag(flag) => flag.to_string(),
            Data::Moment | Data::List(_) | Data::Table(_) => self.type_name().to_owned(),
        }
    }

    /// The value on one line, as `--set` accepts it: a string without quotes, tables
    /// and arrays in TOML.
    pub(crate) fn inline(&self) -> String {
        match &self.data {
            Data::List(_) | Data::Table(_) => self.quoted(),
            _ => self.plain(),
        }
    }

    /// The value on one line, in TOML.
    pub(crate) fn quoted(&self) -> String {
        match &self.data {
            Data::Text(text) => crate::resolved::text(text),
            Data::List(list) => {
                let items: Vec<String> = list.iter().map(Self::quoted).collect();
                format!("[{}]", items.join(", "))
            }
            Data::Table(table) => {
                let entry = |entry: &Entry| {
                    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                    let key = if !entry.key.is_empty() && entry.key.chars().all(bare) {
                        entry.key.clone()
                    } else {
                        crate::resolved::text(&entry.key)
                    };
                    format!("{key} = {}", entry.value.quoted())
                };
                let entries: Vec<String> = table.entries.iter().map(entry).collect();
                format!("{{ {} }}", entries.join(", "))
            }
            _ => self.plain(),
        }
    }
}

impl Table {
    /// A table without keys.
    pub const EMPTY: &'static Self = &Self { entries: Vec::new() };

    fn own(table: &DeTable<'_>) -> Self {
        let mut entries: Vec<Entry> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                key_at: key.span(),
                value: Value::own(value),
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_at.start);
        Self { entries }
    }

    /// The entry of a key.
    pub fn entry(&self, key: impl Name) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key.name())
    }

    /// The value of a key.
    pub fn get(&self, key: impl Name) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The value of a key, or its default.
    pub fn read<T: Kind>(&self, key: Key<T>) -> T::Out<'_> {
        self.given(key).unwrap_or_else(|| key.default())
    }

    /// Like [`Self::read`], but in the form of the file.
    pub fn value<T: Kind>(&self, key: Key<T>) -> Cow<'_, Value> {
        self.get(key).map_or_else(|| Cow::Owned(key.default_value()), Cow::Borrowed)
    }

    /// The value of a key if the table contains it.
    pub fn given<T: Kind>(&self, key: Key<T>) -> Option<T::Out<'_>> {
        T::read(self.get(key)?)
    }

    /// The text of a key's value.
    pub fn text(&self, key: impl Name) -> Option<&str> {
        self.get(key)?.text()
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.flag()
    }

    pub(crate) fn table(&self, key: &str) -> Option<&Self> {
        self.get(key)?.table()
    }

    /// The tables of `[[key]]`, with their positions.
    pub(crate) fn entries_of(&self, key: &str) -> Vec<(At, &Self)> {
        let list = self.get(key).and_then(Value::list).unwrap_or_default();
        list.iter().filter_map(|value| Some((value.at.clone(), value.table()?))).collect()
    }

    /// Sets or adds a key.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.value = value;
        } else {
            let key_at = value.at.clone();
            self.entries.push(Entry { key: key.to_owned(), key_at, value });
        }
    }
}
