//! Positions in a text.

use crate::{Error, Problem};

/// Maximum length of a text in bytes.
pub const MAX_TEXT: usize = 64 << 20;

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Place {
    pub(super) const START: Self = Self { line: 1, column: 1 };

    pub(super) fn error(self, problem: Problem) -> Error {
        Error::Import { line: self.line, column: self.column, problem }
    }

    pub(super) fn step(&mut self, character: char) {
        if character == '\n' {
            *self = Self { line: self.line.saturating_add(1), column: 1 };
        } else {
            self.column = self.column.saturating_add(1);
        }
    }
}

pub(super) fn check_length(text: &str) -> Result<(), Error> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    let problem = Problem::TooMany { what: "bytes", limit: MAX_TEXT as u64 };
    Err(Place::START.error(problem))
}

/// Converts ascending byte offsets, so that the text is scanned only once.
pub(super) struct Locator<'a> {
    rest: &'a str,
    offset: usize,
    place: Place,
}

impl<'a> Locator<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, offset: 0, place: Place::START }
    }

    /// The position of the first character that begins at or after `offset`.
    pub(super) fn at(&mut self, offset: usize) -> Place {
        let mut characters = self.rest.chars();
        while self.offset < offset {
            let Some(character) = characters.next() else { break };
            self.offset += character.len_utf8();
            self.place.step(character);
        }
        self.rest = characters.as_str();
        self.place
    }
}

/// The words of a line, separated by white space, with their positions.
pub(super) fn words(line: u32, text: &str) -> impl Iterator<Item = (Place, &str)> {
    let mut locator = Locator::new(text);
    text.split_ascii_whitespace().map(move |word| {
        let offset = word.as_ptr() as usize - text.as_ptr() as usize;
        (Place { line, column: locator.at(offset).column }, word)
    })
}
