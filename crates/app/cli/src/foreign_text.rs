//! Text of lab files, run folders and programs on a terminal. A terminal executes control
//! characters: they could hide lines, change the window's title or type into the shell. Characters
//! that change the direction of text could make a line read differently.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Whether a terminal would act on the character instead of showing it. Line breaks and tabs are
/// permitted.
fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            true
        }
        c => c.is_control(),
    }
}

/// Whether a terminal would act on a part of the text.
pub(crate) fn has_unsafe(text: &str) -> bool {
    text.contains(is_unsafe)
}

/// Text with unsafe characters in a visible form, such as `\x1b` or `\u{202e}`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    replaced(text, |out, c| match u32::from(c) {
        code @ ..0x100 => write!(out, "\\x{code:02x}"),
        code => write!(out, "\\u{{{code:x}}}"),
    })
}

/// JSON with unsafe characters as escapes of JSON, which mean the same. The serializer escapes only
/// those below U+0020.
pub(crate) fn visible_json(json: &str) -> Cow<'_, str> {
    replaced(json, |out, c| write!(out, "\\u{:04x}", u32::from(c)))
}

fn replaced(text: &str, write: impl Fn(&mut String, char) -> std::fmt::Result) -> Cow<'_, str> {
    if !has_unsafe(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            // The line break of Windows.
            '\r' if characters.peek() == Some(&'\n') => {}
            c if is_unsafe(c) => {
                // Writing to a string cannot fail.
                let _ = write(&mut out, c);
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Replaces the escape character in sequences of this program until the text is written, which
/// distinguishes them from those in foreign text. It is random, so that foreign text cannot contain
/// it.
pub(crate) struct OwnEscape(String);

impl OwnEscape {
    pub(crate) fn new() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self(format!("<{:016x}{:016x}>", random(), random()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Text that `render` styles if its argument is true. A text with foreign escape sequences is
    /// not styled, because its own sequences cannot be distinguished.
    pub(crate) fn styled(&self, color: bool, render: impl Fn(bool) -> String) -> String {
        let plain = render(false);
        if !color || plain.contains('\u{1b}') {
            return plain;
        }
        render(true).replace('\u{1b}', &self.0)
    }

    /// The text as the terminal gets it: foreign text visible, own sequences effective.
    pub(crate) fn finish(&self, text: &str) -> String {
        let parts: Vec<Cow<'_, str>> = text.split(&self.0).map(visible).collect();
        parts.join("\u{1b}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_characters_that_control_a_terminal() {
        let text = "a\u{1b}[2J\u{7}\u{9b}31m\u{7f}\r\u{8}\u{0}\u{202e}b\u{2066}\u{200f}";
        let shown = r"a\x1b[2J\x07\x9b31m\x7f\x0d\x08\x00\u{202e}b\u{2066}\u{200f}";
        assert_eq!(visible(text), shown);
    }

    #[test]
    fn keeps_lines_tabs_and_letters() {
        for text in ["", "a\tb\nc", "µs – ä 中 🌍 ░█ \\x1b"] {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("a\r\nb\u{7}"), "a\nb\\x07");
    }

    #[test]
    fn escaped_json_has_same_value() {
        let value = serde_json::json!({"a\u{9b}": "\u{1b}]0;x\u{7}\u{85}\u{7f}\u{202e}\n"});
        let text = value.to_string();
        let shown = visible_json(&text);
        assert!(!shown.contains(is_unsafe), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn shows_foreign_escape_sequences_as_text() {
        let own = OwnEscape::new();
        let styled = |foreign: &str| {
            own.styled(true, |color| {
                if color { format!("\u{1b}[31m{foreign}\u{1b}[0m") } else { foreign.to_owned() }
            })
        };
        assert_eq!(own.finish(&styled("x")), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(own.finish(&styled("x\u{1b}[32mpassed")), r"x\x1b[32mpassed");
        assert_eq!(own.finish(&styled("x\u{9b}32m")), "\u{1b}[31mx\\x9b32m\u{1b}[0m");
        let other = OwnEscape::new();
        assert!(!own.finish(other.as_str()).contains('\u{1b}'));
    }
}
