//! The lab file as a tree that owns its texts and knows where each value stands.

use std::ops::Range;

use base::{Bandwidth, Bytes, Ratio, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A range of bytes of the lab file.
pub(crate) type At = Range<usize>;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) at: At,
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
pub(crate) struct Table {
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_at: At,
    pub(crate) value: Value,
}

/// Something wrong with the file as TOML.
pub(crate) struct SyntaxError {
    pub(crate) at: Option<At>,
    pub(crate) message: String,
}

/// Reads `text` as far as it goes.
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

    /// Says that the whole value stands at `at`.
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

    /// What TOML calls it, for messages.
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

    pub(crate) fn text(&self) -> Option<&str> {
        if let Data::Text(text) = &self.data { Some(text) } else { None }
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        if let Data::Table(table) = &self.data { Some(table) } else { None }
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        if let Data::List(list) = &self.data { Some(list) } else { None }
    }

    pub(crate) const fn whole(&self) -> Option<i64> {
        if let Data::Whole(whole) = self.data { Some(whole) } else { None }
    }

    pub(crate) const fn number(&self) -> Option<f64> {
        match self.data {
            Data::Number(number) => Some(number),
            Data::Whole(whole) => Some(whole as f64),
            _ => None,
        }
    }

    pub(crate) const fn flag(&self) -> Option<bool> {
        if let Data::Flag(flag) = self.data { Some(flag) } else { None }
    }

    /// One value or a list of them.
    pub(crate) fn one_or_more(&self) -> &[Self] {
        if let Data::List(list) = &self.data { list } else { std::slice::from_ref(self) }
    }

    /// A scalar as the file would write it, texts without their quotes.
    pub(crate) fn plain(&self) -> String {
        match &self.data {
            Data::Text(text) => text.clone(),
            Data::Whole(whole) => whole.to_string(),
            Data::Number(number) => number.to_string(),
            Data::Flag(flag) => flag.to_string(),
            Data::Moment | Data::List(_) | Data::Table(_) => self.type_name().to_owned(),
        }
    }

    /// The value on one line, so that `--set` takes it back: texts on their own without quotes,
    /// tables and lists in TOML.
    pub(crate) fn inline(&self) -> String {
        match &self.data {
            Data::List(_) | Data::Table(_) => self.quoted(),
            _ => self.plain(),
        }
    }

    fn quoted(&self) -> String {
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

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.flag()
    }

    pub(crate) fn whole(&self, key: &str) -> Option<i64> {
        self.get(key)?.whole()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.get(key)?.number()
    }

    pub(crate) fn table(&self, key: &str) -> Option<&Self> {
        self.get(key)?.table()
    }

    pub(crate) fn span(&self, key: &str) -> Option<Span> {
        self.text(key)?.parse().ok()
    }

    pub(crate) fn bandwidth(&self, key: &str) -> Option<Bandwidth> {
        self.text(key)?.parse().ok()
    }

    pub(crate) fn bytes(&self, key: &str) -> Option<Bytes> {
        self.text(key)?.parse().ok()
    }

    pub(crate) fn ratio(&self, key: &str) -> Option<Ratio> {
        self.text(key)?.parse().ok()
    }

    /// The tables of `[[key]]`, each with its place.
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
