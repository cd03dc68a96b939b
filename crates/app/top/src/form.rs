//! Fields for texts, and the form that changes a link.

use base::{Bandwidth, Bytes, QuantityError, Ratio, Span};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use run::live::LinkValues;

/// Keys and values of `netarium set`.
pub(crate) type Fields = Vec<(String, String)>;

const MAX_CHARACTERS: usize = 200;

/// A line of text with a cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) text: String,
    /// The cursor, in bytes.
    pub(crate) cursor: usize,
}

impl Input {
    /// Edits the text; returns whether the key was for it.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let before = &self.text[..self.cursor];
        let previous = before.char_indices().next_back().map_or(0, |(at, _)| at);
        let next = self.text[self.cursor..].chars().next().map_or(0, char::len_utf8);
        match key.code {
            KeyCode::Char('u') if has_control => *self = Self::default(),
            KeyCode::Char('w') if has_control => {
                let word = before.trim_end().rfind(' ').map_or(0, |at| at + 1);
                self.text.replace_range(word..self.cursor, "");
                self.cursor = word;
            }
            KeyCode::Char('a') if has_control => self.cursor = 0,
            KeyCode::Char('e') if has_control => self.cursor = self.text.len(),
            KeyCode::Char(c) if !has_control => {
                if !c.is_control() && self.text.chars().count() < MAX_CHARACTERS {
                    self.text.insert(self.cursor, c);
                    self.cursor += c.len_utf8();
                }
            }
            KeyCode::Backspace => {
                self.text.replace_range(previous..self.cursor, "");
                self.cursor = previous;
            }
            KeyCode::Delete => self.text.replace_range(self.cursor..self.cursor + next, ""),
            KeyCode::Left => self.cursor = previous,
            KeyCode::Right => self.cursor += next,
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }
}

/// The keys of a link that the form changes.
pub(crate) const KEYS: [&str; 4] = ["rate", "delay", "loss", "queue"];

/// The fields of the form: the direction, [`KEYS`], the state.
pub(crate) const FIELDS: usize = KEYS.len() + 2;
pub(crate) const DIRECTION: usize = 0;
pub(crate) const STATE: usize = FIELDS - 1;

/// Changes of a link; empty fields change nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    pub(crate) link: u32,
    name: String,
    /// The values when the form was opened.
    pub(crate) values: LinkValues,
    /// 0: both directions, 1: the first, 2: the second.
    pub(crate) direction: usize,
    pub(crate) inputs: [Input; KEYS.len()],
    /// Whether the link changes to the other state.
    pub(crate) toggles: bool,
    pub(crate) field: usize,
    /// An error, and advice.
    pub(crate) problem: Option<(String, Option<String>)>,
    /// The number of the request that has been sent.
    pub(crate) sent: Option<u64>,
}

impl Form {
    pub(crate) fn new(link: u32, name: &str, values: &LinkValues) -> Self {
        Self {
            link,
            name: name.to_owned(),
            values: values.clone(),
            direction: 0,
            inputs: Default::default(),
            toggles: false,
            field: 1,
            problem: None,
            sent: None,
        }
    }

    /// Handles all keys except Enter and Esc.
    pub(crate) fn key(&mut self, key: KeyEvent) {
        let is_edited = match self.field {
            DIRECTION => match key.code {
                KeyCode::Left => Self::step(&mut self.direction, 3, 2),
                KeyCode::Right | KeyCode::Char(' ') => Self::step(&mut self.direction, 3, 1),
                _ => false,
            },
            STATE => match key.code {
                KeyCode::Left | KeyCode::Right | KeyCode::Char(' ') => {
                    self.toggles = !self.toggles;
                    true
                }
                _ => false,
            },
            field => self.inputs[field - 1].key(key),
        };
        if is_edited {
            self.problem = None;
            return;
        }
        match key.code {
            KeyCode::Up | KeyCode::BackTab => Self::step(&mut self.field, FIELDS, FIELDS - 1),
            KeyCode::Down | KeyCode::Tab => Self::step(&mut self.field, FIELDS, 1),
            _ => false,
        };
    }

    const fn step(value: &mut usize, count: usize, by: usize) -> bool {
        *value = (*value + by) % count;
        true
    }

    /// The fields of `netarium set`, or the error in a value.
    pub(crate) fn fields(&mut self) -> Result<Fields, (String, Option<String>)> {
        let side = ["", ".up", ".down"][self.direction];
        let mut fields = Vec::new();
        for (at, (key, input)) in KEYS.iter().zip(&self.inputs).enumerate() {
            let value = input.text.trim();
            if value.is_empty() {
                continue;
            }
            if let Err(error) = check(key, value) {
                self.field = at + 1;
                return Err((format!("{key}: {error}"), Some(error.help())));
            }
            fields.push((format!("link.{}{side}.{key}", self.name), value.to_owned()));
        }
        if self.toggles {
            let state = if self.values.up { "down" } else { "up" };
            fields.push((format!("link.{}.state", self.name), state.to_owned()));
        }
        if fields.is_empty() {
            return Err(("nothing to change: all fields are empty".to_owned(), None));
        }
        Ok(fields)
    }
}

/// Checks a quantity. Other forms of values, such as tables, are checked by the lab.
fn check(key: &str, value: &str) -> Result<(), QuantityError> {
    if value.starts_with('{') || value == "unlimited" {
        return Ok(());
    }
    match key {
        "rate" => value.parse::<Bandwidth>().map(drop),
        "delay" => value.parse::<Span>().map(drop),
        "loss" => value.parse::<Ratio>().map(drop),
        _ if value.starts_with(char::is_alphabetic) => Ok(()),
        _ if value.ends_with("packets") || value.ends_with("bdp") => Ok(()),
        _ => value.parse::<Bytes>().map(drop),
    }
}
