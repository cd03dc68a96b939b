//! Numbers and names as people read them.

/// Three significant digits, no exponent below 10^15, no trailing zeros after the point.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    // 999.7 rounds up to one digit more than it has.
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A step of a unit: its size in the base unit, and its name.
pub(crate) type Step = (f64, &'static str);

/// Steps of bit/s.
pub(crate) const RATE: &[Step] =
    &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
/// Steps of seconds.
pub(crate) const TIME: &[Step] = &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
/// Steps of bytes.
pub(crate) const DATA: &[Step] = &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];

/// The step in which `value` reads best.
pub(crate) fn step(value: f64, steps: &[Step]) -> Step {
    let smallest = steps.last().copied().unwrap_or((1.0, ""));
    if value == 0.0 {
        return smallest;
    }
    // A hair below a step belongs to it: 999.9999 kbit/s is 1 Mbit/s.
    steps.iter().copied().find(|(size, _)| value.abs() >= size * 0.9995).unwrap_or(smallest)
}

fn with_unit(value: f64, steps: &[Step]) -> String {
    let (size, unit) = step(value, steps);
    format!("{} {unit}", number(value / size))
}

/// A data rate.
pub(crate) fn rate(bit_per_s: f64) -> String {
    with_unit(bit_per_s, RATE)
}

/// A time in seconds.
pub fn seconds(s: f64) -> String {
    if s == 0.0 {
        return "0 s".to_owned();
    }
    with_unit(s, TIME)
}

/// A time in nanoseconds.
pub(crate) fn nanos(ns: u64) -> String {
    seconds(ns as f64 / 1e9)
}

/// An amount of data.
pub(crate) fn bytes(bytes: u64) -> String {
    with_unit(bytes as f64, DATA)
}

/// A share from 0 to 1.
pub(crate) fn share(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// A factor.
pub(crate) fn times(factor: f64) -> String {
    format!("{} x", number(factor))
}

/// A number of things in few digits: `3.2 M`.
pub(crate) fn large(value: f64) -> String {
    let (size, prefix) = step(value, &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")]);
    format!("{}{prefix}", number(value / size))
}

/// A count with thin groups of thousands.
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

/// Text for HTML content and attributes.
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

/// A word as a POSIX shell reads it back.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A moment in UTC, as `2026-11-21 05:02:14 UTC`.
pub fn utc(unix_ms: u64) -> String {
    let (days, rest) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    // Whole cycles of 400 years have the same number of days, which bounds the loop.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(shell_word("link.core.rate=5"), "link.core.rate=5");
        assert_eq!(shell_word("delay=10 ms"), "'delay=10 ms'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn quantities_read_as_people_write_them() {
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
    fn markup_is_escaped() {
        assert_eq!(escape("<a b=\"c\">&'\u{1b}"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;\u{fffd}");
    }
}
