//! Formats numbers, quantities and names.

use jiff::Timestamp;
use run::record::{ProgramSummary, Status};

/// Three significant digits, no exponent below 10^15, no trailing zeros after the point.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    // 999.7 rounds to a number without a point.
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A scaled unit: its size in the base unit, and its name.
pub(crate) type Step = (f64, &'static str);

/// Steps of bit/s.
pub(crate) const RATE: &[Step] =
    &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
/// Steps of seconds.
pub(crate) const TIME: &[Step] = &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
/// Steps of bytes.
pub(crate) const DATA: &[Step] = &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];

/// The largest unit in which `value` is at least 1.
pub(crate) fn step(value: f64, steps: &[Step]) -> Step {
    let smallest = steps.last().copied().unwrap_or((1.0, ""));
    if value == 0.0 {
        return smallest;
    }
    // Values that round up use the larger unit: 999.9999 kbit/s is 1 Mbit/s.
    steps.iter().copied().find(|(size, _)| value.abs() >= size * 0.9995).unwrap_or(smallest)
}

pub(crate) fn with_unit(value: f64, steps: &[Step]) -> String {
    let (size, unit) = step(value, steps);
    format!("{} {unit}", number(value / size))
}

pub fn rate(bit_per_s: f64) -> String {
    with_unit(bit_per_s, RATE)
}

pub fn seconds(s: f64) -> String {
    if s == 0.0 {
        return "0 s".to_owned();
    }
    with_unit(s, TIME)
}

pub(crate) fn nanos(ns: u64) -> String {
    seconds(ns as f64 / 1e9)
}

pub fn bytes(bytes: u64) -> String {
    with_unit(bytes as f64, DATA)
}

/// A share from 0 to 1.
pub fn share(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

pub(crate) fn times(factor: f64) -> String {
    format!("{} x", number(factor))
}

/// A number with three significant digits: `3.2 M`.
pub fn large(value: f64) -> String {
    let (size, prefix) = step(value, &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")]);
    format!("{}{prefix}", number(value / size))
}

/// A noun with its number: `1 link`, `2 links`.
pub fn plural(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", self::count(count as u64))
}

/// A count with thin spaces between groups of three digits.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Replaces characters that are invisible or that XML does not permit: control characters except
/// line breaks and tabs, characters that change the direction of text, and noncharacters.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| match c {
        '\n' | '\t' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control() || u32::from(c) & 0xfffe == 0xfffe,
    };
    text.replace(hidden, "\u{fffd}")
}

/// Escapes text for HTML content and attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Other control characters are not allowed in HTML.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Quotes a word for a POSIX shell.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A time in UTC, as `2026-11-21 05:02:14 UTC`.
pub fn utc(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Finished => "finished",
        Status::Interrupted => "interrupted; results so far are kept",
        Status::Killed => "killed; the files written so far are kept",
        Status::Failed => "failed",
        _ => "unknown",
    }
}

pub(crate) fn program_exit(program: &ProgramSummary) -> String {
    match program.end {
        None if program.started_s.is_none() => "never started".to_owned(),
        None => "–".to_owned(),
        Some(end) => end.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_words_for_the_shell() {
        assert_eq!(shell_word("link.core.rate=5"), "link.core.rate=5");
        assert_eq!(shell_word("delay=10 ms"), "'delay=10 ms'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn formats_quantities_with_units() {
        assert_eq!(rate(9_415_000.0), "9.41 Mbit/s");
        assert_eq!(rate(1e9), "1 Gbit/s");
        assert_eq!(rate(0.0), "0 bit/s");
        assert_eq!(nanos(52_340), "52.3 µs");
        assert_eq!(seconds(30.0), "30 s");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(share(0.9876), "98.8 %");
        assert_eq!(number(1234.5), "1234");
        assert_eq!((large(5_210_000.0), times(1.5)), ("5.21 M".to_owned(), "1.5 x".to_owned()));
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn dates_are_gregorian() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_237_334_000), "2026-11-21 05:02:14 UTC");
        assert!(utc(u64::MAX).ends_with(" UTC"));
    }

    #[test]
    fn replaces_invisible_characters() {
        let text = "a\u{0}\u{1b}\u{7f}\u{85}\u{202e}\u{fffe}\u{1ffff}\n\tä";
        assert_eq!(visible(text), format!("a{}\n\tä", "\u{fffd}".repeat(7)));
    }

    #[test]
    fn escapes_markup() {
        assert_eq!(escape("<a b=\"c\">&'\u{1b}"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\u{fffd}");
    }
}
