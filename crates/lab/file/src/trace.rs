//! Trace files: packet-delivery traces of Mahimahi, tables of delays, workloads.

use base::{QuantityError, Span};
use fabric::Trace;

mod workload;

pub use self::workload::{parse_datagrams, parse_sizes};

/// The reason why a file is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file has no values.
    #[error("the file is empty")]
    Empty,
    /// A value is not an integer or not a time, whichever is required.
    #[error("line {line}: `{text}` is not an integer number of milliseconds")]
    NotANumber {
        /// Line number, from 1.
        line: usize,
        /// The invalid text, shortened.
        text: String,
    },
    /// An invalid time in a table of delays.
    #[error("line {line}: {error}")]
    NotATime {
        /// Line number, from 1.
        line: usize,
        /// The error of the time.
        error: QuantityError,
    },
    /// An invalid line of a file whose text must not be shown.
    #[error("line {line}: expected {wanted}")]
    Hidden {
        /// Line number, from 1.
        line: usize,
        /// The required content of the line.
        wanted: &'static str,
    },
    /// Times are not in ascending order.
    #[error("line {line}: {moment} ms comes after {before} ms")]
    Decreasing {
        /// Line number, from 1.
        line: usize,
        /// The time, in ms.
        moment: u64,
        /// The previous time, in ms.
        before: u64,
    },
    /// The last line is not terminated, so its number may be incomplete.
    #[error("line {line}: the file is truncated: its last line has no newline")]
    CutShort {
        /// Line number, from 1.
        line: usize,
    },
    /// The trace has a period of zero.
    #[error("line {line}: the trace ends at 0 ms")]
    NoTime {
        /// Line number, from 1.
        line: usize,
    },
    /// A line does not have the two required numbers.
    #[error("line {line}: expected {wanted}, found `{text}`")]
    NotTwo {
        /// Line number, from 1.
        line: usize,
        /// The required content of the line.
        wanted: &'static str,
        /// The invalid text, shortened.
        text: String,
    },
    /// A size that does not rise, a smaller share, or an earlier time.
    #[error("line {line}: the values do not rise")]
    NotRising {
        /// Line number, from 1.
        line: usize,
    },
    /// A distribution that does not end at a share of 1, or that has only the size 0.
    #[error("line {line}: the distribution ends at a share of {share}, or has no size above 0")]
    NotWhole {
        /// Line number, from 1.
        line: usize,
        /// The last share.
        share: String,
    },
    /// The file has too many lines.
    #[error("more than {max} lines")]
    TooMany {
        /// The maximum number of lines.
        max: usize,
    },
    /// A distribution has fewer than two values.
    #[error("a table needs at least two delays")]
    TooFew,
}

impl TraceError {
    /// The error with its line, but without text and numbers of the file, which may be secret: a
    /// lab that someone else has written can name any file as its trace.
    #[must_use]
    pub fn without_text(self) -> Self {
        let (line, wanted) = match self {
            Self::NotANumber { line, .. } => (line, "an integer number of milliseconds"),
            Self::NotATime { line, .. } => (line, "a time with its unit"),
            Self::Decreasing { line, .. } => (line, "a time that is not before the previous one"),
            Self::NotTwo { line, wanted, .. } => (line, wanted),
            Self::NotWhole { line, .. } => (line, "a last share of 1, and a size above 0"),
            Self::Empty
            | Self::Hidden { .. }
            | Self::CutShort { .. }
            | Self::NoTime { .. }
            | Self::NotRising { .. }
            | Self::TooMany { .. }
            | Self::TooFew => return self,
        };
        Self::Hidden { line, wanted }
    }

    /// Suggested correction for the error.
    pub fn help(&self) -> &'static str {
        match self {
            Self::CutShort { .. } => "if the trace is whole, end its last line with a newline",
            Self::NoTime { .. } => "the last line must be above 0",
            Self::NotTwo { .. } => {
                "two numbers a line; the tables of ns-2 have packets, a column to leave out, and \
                 the share: multiply the packets by the bytes of a packet"
            }
            Self::NotRising { .. } => "sizes rise; shares and moments do not fall",
            Self::NotWhole { .. } => "the last line's share is 1, or 100 in percent",
            Self::TooMany { .. } => "use fewer lines",
            Self::NotATime { .. } | Self::TooFew => "one time a line, such as `1.5 ms`",
            _ => "one whole number of milliseconds a line, not decreasing",
        }
    }
}

/// A day; recordings are shorter.
const MAX_DELAY_MS: u64 = 86_400_000;

/// Parses a trace in Mahimahi's format: each line is a time in milliseconds at which
/// [`Trace::OPPORTUNITY`] bytes may leave; the last is also the period.
pub fn parse_trace(text: &str) -> Result<Trace, TraceError> {
    let mut opportunities = Vec::new();
    let mut before = 0;
    let mut last_line = 0;
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let moment = content.parse::<u64>().ok().filter(|moment| *moment <= MAX_DELAY_MS);
        let Some(moment) = moment else {
            let text = content.chars().take(40).collect();
            return Err(TraceError::NotANumber { line, text });
        };
        if moment < before {
            return Err(TraceError::Decreasing { line, moment, before });
        }
        opportunities.push(Span::from_millis(moment));
        (before, last_line) = (moment, line);
    }
    match opportunities.last() {
        None => Err(TraceError::Empty),
        Some(_) if !text.ends_with('\n') => Err(TraceError::CutShort { line: last_line }),
        Some(&period) if period.is_positive() => Ok(Trace { opportunities, period }),
        Some(_) => Err(TraceError::NoTime { line: last_line }),
    }
}

/// Parses a table of delays, one time with its unit per line, and sorts it.
pub fn parse_delays(text: &str) -> Result<Vec<Span>, TraceError> {
    let mut delays = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let delay: Span = content.parse().map_err(|error| TraceError::NotATime { line, error })?;
        delays.push(delay);
    }
    match delays.len() {
        0 => Err(TraceError::Empty),
        1 => Err(TraceError::TooFew),
        _ => {
            delays.sort_unstable();
            Ok(delays)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_and_its_last_line_is_its_period() {
        let trace = parse_trace("0\n0\n3\n10\n").unwrap();
        assert_eq!(trace.opportunities.len(), 4);
        assert_eq!(trace.period, Span::from_millis(10));
    }

    #[test]
    fn a_broken_trace_is_refused_with_its_line() {
        assert_eq!(parse_trace("\n"), Err(TraceError::Empty));
        assert_eq!(parse_trace("1\n5\n12"), Err(TraceError::CutShort { line: 3 }));
        assert_eq!(
            parse_trace("5\n4\n"),
            Err(TraceError::Decreasing { line: 2, moment: 4, before: 5 })
        );
        assert_eq!(parse_trace("0\n0\n"), Err(TraceError::NoTime { line: 2 }));
        assert!(matches!(parse_trace("1\nx\n"), Err(TraceError::NotANumber { line: 2, .. })));
        assert!(matches!(parse_trace("-1\n"), Err(TraceError::NotANumber { line: 1, .. })));
    }

    #[test]
    fn delays_are_sorted() {
        let delays = parse_delays("# samples\n3 ms\n1 ms\n").unwrap();
        assert_eq!(delays, [Span::from_millis(1), Span::from_millis(3)]);
        assert_eq!(parse_delays("1 ms\n"), Err(TraceError::TooFew));
        assert!(matches!(parse_delays("1\n2\n"), Err(TraceError::NotATime { line: 1, .. })));
    }
}
