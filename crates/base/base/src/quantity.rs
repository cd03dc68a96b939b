//! Quantities: integers in a fixed unit, parsed and formatted only together with a unit.
//!
//! Text round-trips exactly: a value that is not a whole number of nanoseconds, bits, bytes or
//! parts per billion is an error, and is not rounded.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;

/// A point in logical time: nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(u64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span(u64);

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bytes(u64);

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bandwidth(u64);

/// A share or probability in parts per billion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ratio(u64);

/// Error in the text of a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// A number without a unit.
    #[error("`{text}` needs a unit")]
    MissingUnit {
        /// The rejected input.
        text: String,
        /// Valid units, as listed in the help line.
        units: &'static str,
    },
    /// A unit of another quantity, or an unknown one.
    #[error("`{unit}` is not a unit of {kind}")]
    UnknownUnit {
        /// The unit in the text.
        unit: String,
        /// `a time`, `a data rate`, …
        kind: &'static str,
        /// Valid units, as listed in the help line.
        units: &'static str,
    },
    /// The text does not start with a decimal number.
    #[error("`{text}` does not start with a decimal number")]
    NotANumber {
        /// The rejected input.
        text: String,
        /// Valid units, as listed in the help line.
        units: &'static str,
    },
    /// The value exceeds 64 bits.
    #[error("`{text}` is too large")]
    TooLarge {
        /// The rejected input.
        text: String,
    },
    /// The value is not a multiple of the smallest step.
    #[error("`{text}` is finer than {step}")]
    TooFine {
        /// The rejected input.
        text: String,
        /// The smallest step, such as `1 ns`.
        step: &'static str,
    },
}

impl QuantityError {
    /// A hint at the correct text, for the help line of a diagnostic.
    pub fn help(&self) -> String {
        match self {
            Self::MissingUnit { text, units } => {
                format!("write for example `{text} {}` (units: {units})", usual(units))
            }
            Self::UnknownUnit { unit, units, .. } => match usual_unit(unit, units) {
                Some(unit) => format!("did you mean `{unit}`? (units: {units})"),
                None => format!("units: {units}"),
            },
            Self::NotANumber { units, .. } => {
                format!("write a number and a unit, such as `10 {}`", usual(units))
            }
            Self::TooLarge { .. } => "the value must fit in 64 bits".to_owned(),
            Self::TooFine { step, .. } => format!("the smallest step is {step}"),
        }
    }
}

/// The first of these units.
fn usual(units: &str) -> &str {
    units.split(", ").next().unwrap_or_default()
}

/// Alternative spellings of units, and the corresponding unit.
const UNIT_ALIASES: [(&str, &[&str]); 16] = [
    ("bit/s", &["bps", "b/s", "bits/s"]),
    ("kbit/s", &["kbps", "kb/s", "Kbps", "Kb/s", "kbit", "Kbit", "Kbit/s", "kbits/s"]),
    ("Mbit/s", &["Mbps", "mbps", "Mb/s", "mb/s", "mbit", "Mbit", "mbit/s", "Mbits/s", "M"]),
    ("Gbit/s", &["Gbps", "gbps", "Gb/s", "gb/s", "gbit", "Gbit", "gbit/s", "Gbits/s", "G"]),
    ("Tbit/s", &["Tbps", "tbps", "Tb/s", "tbit", "Tbit"]),
    ("kB/s", &["KB/s", "kBps", "KBps"]),
    ("MB/s", &["MBps"]),
    ("GB/s", &["GBps"]),
    ("s", &["sec", "secs", "second", "seconds", "S"]),
    ("ms", &["msec", "msecs", "millisecond", "milliseconds"]),
    ("us", &["usec", "usecs", "microsecond", "microseconds"]),
    ("min", &["m", "mins", "minute", "minutes"]),
    ("h", &["hr", "hrs", "hour", "hours"]),
    ("kB", &["KB", "kb", "k", "K"]),
    ("MB", &["mb", "Mb", "M"]),
    ("%", &["percent", "pct"]),
];

/// The unit among `units` that `text` most likely means.
fn usual_unit(text: &str, units: &str) -> Option<&'static str> {
    let known = |unit: &str| units.split(", ").any(|known| known == unit);
    let mut aliases = UNIT_ALIASES.iter();
    aliases.find(|(unit, names)| names.contains(&text) && known(unit)).map(|(unit, _)| *unit)
}

struct Kind {
    name: &'static str,
    units: &'static str,
    step: &'static str,
    table: &'static [(&'static str, u64)],
    /// Units for formatting, largest first.
    written: &'static [&'static str],
}

const TIME: Kind = Kind {
    name: "a time",
    units: "ms, ns, us, s, min, h",
    step: "1 ns",
    table: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    written: &["s", "ms", "us", "ns"],
};

const BYTES: Kind = Kind {
    name: "an amount of data",
    units: "kB, B, MB, GB, TB, KiB, MiB, GiB",
    step: "1 B",
    table: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    written: &["GiB", "GB", "MiB", "MB", "KiB", "kB", "B"],
};

const BANDWIDTH: Kind = Kind {
    name: "a data rate",
    units: "Mbit/s, bit/s, kbit/s, Gbit/s, Tbit/s, B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s",
    step: "1 bit/s",
    table: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
        ("B/s", 8),
        ("kB/s", 8_000),
        ("MB/s", 8_000_000),
        ("GB/s", 8_000_000_000),
        ("KiB/s", 8 << 10),
        ("MiB/s", 8 << 20),
        ("GiB/s", 8 << 30),
    ],
    written: &["Gbit/s", "Mbit/s", "kbit/s", "bit/s"],
};

const RATIO: Kind = Kind {
    name: "a share",
    units: "%, ‰, ppm",
    step: "0.0000001 %",
    table: &[("%", 10_000_000), ("‰", 1_000_000), ("ppm", 1_000)],
    written: &["%"],
};

impl Kind {
    fn parse(&self, text: &str) -> Result<u64, QuantityError> {
        let text = text.trim();
        let split = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim_start());
        let owned = || text.to_owned();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if !whole.starts_with(|c: char| c.is_ascii_digit()) || fraction.contains('.') {
            return Err(QuantityError::NotANumber { text: owned(), units: self.units });
        }
        if unit.is_empty() {
            return Err(QuantityError::MissingUnit { text: owned(), units: self.units });
        }
        let Some(&(_, scale)) = self.table.iter().find(|(name, _)| *name == unit) else {
            return Err(QuantityError::UnknownUnit {
                unit: unit.to_owned(),
                kind: self.name,
                units: self.units,
            });
        };
        let mut value = 0u128;
        let mut divisor = 1u128;
        let too_large = || QuantityError::TooLarge { text: owned() };
        let digits = |part: &str| part.bytes().filter(u8::is_ascii_digit).collect::<Vec<_>>();
        let fraction = digits(fraction.trim_end_matches(['0', '_']));
        if fraction.len() > 18 {
            return Err(QuantityError::TooFine { text: owned(), step: self.step });
        }
        for digit in digits(whole) {
            value = value * 10 + u128::from(digit - b'0');
            if value > u128::from(u64::MAX) {
                return Err(too_large());
            }
        }
        for digit in fraction {
            value = value * 10 + u128::from(digit - b'0');
            divisor *= 10;
        }
        let scaled = value.checked_mul(u128::from(scale)).ok_or_else(too_large)?;
        if scaled % divisor != 0 {
            return Err(QuantityError::TooFine { text: owned(), step: self.step });
        }
        u64::try_from(scaled / divisor).map_err(|_| too_large())
    }

    /// Writes the shortest exact text: the unit with the fewest digits, the largest of equals.
    fn write(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut best: Option<(String, &str)> = None;
        for unit in self.written {
            let scale = self.table.iter().find(|(name, _)| name == unit).map_or(1, |(_, s)| *s);
            let Some(text) = exact_decimal(value, scale) else { continue };
            // `0.001 s` is exact but unusual.
            let readable = !text.starts_with("0.") || scale == self.smallest_written();
            let shorter = best.as_ref().is_none_or(|(b, _)| text.len() < b.len());
            if readable && shorter {
                best = Some((text, unit));
            }
            if value == 0 {
                best = Some(("0".to_owned(), self.written[self.written.len() - 1]));
            }
        }
        let (text, unit) = best.unwrap_or_else(|| (value.to_string(), self.table[0].0));
        f.pad(&format!("{text} {unit}"))
    }

    fn smallest_written(&self) -> u64 {
        let last = self.written[self.written.len() - 1];
        self.table.iter().find(|(name, _)| *name == last).map_or(1, |(_, s)| *s)
    }
}

/// `value / scale` as a decimal fraction, if it is exact within the digits of `scale`.
fn exact_decimal(value: u64, scale: u64) -> Option<String> {
    let (whole, mut rest) = (value / scale, value % scale);
    let mut text = whole.to_string();
    if rest == 0 {
        return Some(text);
    }
    text.push('.');
    for _ in 0..9 {
        let next = u128::from(rest) * 10;
        text.push(char::from(b'0' + (next / u128::from(scale)) as u8));
        rest = (next % u128::from(scale)) as u64;
        if rest == 0 {
            return Some(text);
        }
    }
    None
}

macro_rules! quantity {
    ($name:ident, $kind:ident) => {
        impl $name {
            /// The zero value, which is also the smallest.
            pub const ZERO: Self = Self(0);
            /// The largest representable value.
            pub const MAX: Self = Self(u64::MAX);

            /// The sum, limited to the largest value.
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// The difference, or zero if it would be negative.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Whether the value is not zero.
            pub const fn is_positive(self) -> bool {
                self.0 > 0
            }
        }

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                $kind.parse(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $kind.write(self.0, f)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Mul<u64> for $name {
            type Output = Self;
            fn mul(self, factor: u64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Self::saturating_add)
            }
        }
    };
}

quantity!(Span, TIME);
quantity!(Bytes, BYTES);
quantity!(Bandwidth, BANDWIDTH);
quantity!(Ratio, RATIO);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// The largest time, after any event.
    pub const MAX: Self = Self(u64::MAX);

    /// `nanos` ns after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run, for output.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Duration since `earlier`; zero if that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

impl Span {
    /// `nanos` ns.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` µs.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// `millis` ms.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// `secs` s.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The duration in seconds, for output.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The duration in the type of the standard library.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl From<std::time::Duration> for Span {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Bytes {
    /// `count` bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The number of bytes.
    pub const fn count(self) -> u64 {
        self.0
    }
}

impl Bandwidth {
    /// `rate` bit/s.
    pub const fn from_bits_per_sec(rate: u64) -> Self {
        Self(rate)
    }

    /// `rate` Mbit/s (10⁶ bit/s).
    pub const fn from_mbits_per_sec(rate: u64) -> Self {
        Self(rate * 1_000_000)
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// Number of bytes transmitted in `span`, rounded down.
    pub fn bytes_in(self, span: Span) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.0) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Transmission time of `bytes`, rounded up to a nanosecond; the largest span if the
    /// rate is zero.
    pub fn time_for(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let nanos = (u128::from(bytes.0) * 8_000_000_000).div_ceil(u128::from(self.0));
        Span(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Ratio {
    /// The whole: 100 %.
    pub const ONE: Self = Self(1_000_000_000);

    /// `parts` of 10⁹.
    pub const fn from_parts_per_billion(parts: u64) -> Self {
        Self(parts)
    }

    /// Parts of 10⁹.
    pub const fn parts_per_billion(self) -> u64 {
        self.0
    }

    /// The share as a number (1.0 is 100 %).
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This share of `value`, rounded down.
    pub fn of(self, value: u64) -> u64 {
        (u128::from(value) * u128::from(self.0) / 1_000_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_has_units() {
        assert_eq!("10 ms".parse(), Ok(Span::from_millis(10)));
        assert_eq!("1.5s".parse(), Ok(Span::from_millis(1500)));
        assert_eq!("100 Mbit/s".parse(), Ok(Bandwidth::from_mbits_per_sec(100)));
        assert_eq!("64 KiB".parse(), Ok(Bytes::new(65_536)));
        assert_eq!("0.1 %".parse(), Ok(Ratio::from_parts_per_billion(1_000_000)));
    }

    #[test]
    fn errors_name_the_wrong_part() {
        let text = |r: Result<Span, QuantityError>| r.unwrap_err().to_string();
        assert_eq!(text("100".parse()), "`100` needs a unit");
        assert_eq!(text("10 Mbit/s".parse()), "`Mbit/s` is not a unit of a time");
        assert_eq!(text("0.1 ns".parse()), "`0.1 ns` is finer than 1 ns");
        assert_eq!(text("-1 ms".parse()), "`-1 ms` does not start with a decimal number");
        assert_eq!(text("1.2.3 ms".parse()), "`1.2.3 ms` does not start with a decimal number");
        assert_eq!(
            text("99999999999999999999999 h".parse()),
            "`99999999999999999999999 h` is too large"
        );
    }

    #[test]
    fn display_is_what_people_write() {
        assert_eq!(Span::from_millis(10).to_string(), "10 ms");
        assert_eq!(Span::from_millis(1500).to_string(), "1.5 s");
        assert_eq!(Span::ZERO.to_string(), "0 ns");
        assert_eq!(Bandwidth::from_bits_per_sec(1_500_000).to_string(), "1.5 Mbit/s");
        assert_eq!(Bytes::new(65_536).to_string(), "64 KiB");
        assert_eq!(Bytes::new(50_000_000).to_string(), "50 MB");
        assert_eq!(Ratio::from_parts_per_billion(1_000_000).to_string(), "0.1 %");
    }

    #[test]
    fn rates_and_spans_agree() {
        let rate = Bandwidth::from_mbits_per_sec(10);
        assert_eq!(rate.bytes_in(Span::from_secs(1)), Bytes::new(1_250_000));
        assert_eq!(rate.time_for(Bytes::new(1_250)), Span::from_millis(1));
        assert_eq!(Bandwidth::ZERO.time_for(Bytes::new(1)), Span::MAX);
    }

    proptest! {
        #[test]
        fn text_round_trips(value in any::<u64>()) {
            prop_assert_eq!(Span(value).to_string().parse(), Ok(Span(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(Bandwidth(value).to_string().parse(), Ok(Bandwidth(value)));
            prop_assert_eq!(Ratio(value).to_string().parse(), Ok(Ratio(value)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
            let _ = text.parse::<Span>();
            let _ = text.parse::<Ratio>();
        }
    }
}
