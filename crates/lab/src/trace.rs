//! Trace files: Mahimahi's packet-delivery traces, tables of delays, workloads.

use base::{QuantityError, Span};
use fabric::Trace;

mod workload;

pub use workload::{parse_datagrams, parse_sizes};

/// Why a file is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No line has a value.
    #[error("the file is empty")]
    Empty,
    /// Neither a whole number nor a time, whichever is asked for.
    #[error("line {line}: `{text}` is no whole number of milliseconds")]
    NotANumber {
        /// From 1.
        line: usize,
        /// What stands there, shortened.
        text: String,
    },
    /// A time in a table of delays is wrong.
    #[error("line {line}: {error}")]
    NotATime {
        /// From 1.
        line: usize,
        /// Why.
        error: QuantityError,
    },
    /// An earlier moment after a later one.
    #[error("line {line}: {moment} ms comes after {before} ms")]
    Decreasing {
        /// From 1.
        line: usize,
        /// The moment, ms.
        moment: u64,
        /// The one before, ms.
        before: u64,
    },
    /// The last line does not end, so its number may lack digits.
    #[error("line {line}: the file is cut short, its last line does not end")]
    CutShort {
        /// From 1.
        line: usize,
    },
    /// The period would be zero.
    #[error("line {line}: the trace ends at 0 ms")]
    NoTime {
        /// From 1.
        line: usize,
    },
    /// A line without the two numbers that it needs.
    #[error("line {line}: `{text}`, where {wanted} should be")]
    NotTwo {
        /// From 1.
        line: usize,
        /// What the line should have.
        wanted: &'static str,
        /// What stands there, shortened.
        text: String,
    },
    /// A size no larger than the one before, a smaller share, or an earlier moment.
    #[error("line {line}: the values do not rise")]
    NotRising {
        /// From 1.
        line: usize,
    },
    /// A distribution that does not cover everything, or only nothing.
    #[error("line {line}: the distribution ends at a share of {share}, or has no size above 0")]
    NotWhole {
        /// From 1.
        line: usize,
        /// The last share.
        share: String,
    },
    /// More lines than are kept.
    #[error("more than {most} lines")]
    TooMany {
        /// The most.
        most: usize,
    },
    /// A distribution needs two values.
    #[error("a table needs at least two delays")]
    TooFew,
}

impl TraceError {
    /// What would be right.
    pub fn help(&self) -> &'static str {
        match self {
            Self::CutShort { .. } => "if the trace is whole, end its last line with a newline",
            Self::NoTime { .. } => "the last line must be above 0",
            Self::NotTwo { .. } => "two numbers a line",
            Self::NotRising { .. } => "sizes rise; shares and moments do not fall",
            Self::NotWhole { .. } => "the last line's share is 1",
            Self::TooMany { .. } => "thin it out",
            Self::NotATime { .. } | Self::TooFew => "one time a line, such as `1.5 ms`",
            _ => "one whole number of milliseconds a line, not decreasing",
        }
    }
}

/// A day; no recording is longer.
const LONGEST_MS: u64 = 86_400_000;

/// Reads a trace in Mahimahi's format: each line is a millisecond at which
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
        let moment = content.parse::<u64>().ok().filter(|moment| *moment <= LONGEST_MS);
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

/// Reads a table of delays, one time with its unit a line, and sorts it.
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
