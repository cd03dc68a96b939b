//! Workload files: distributions of sizes, and traces of datagrams.

use base::{Bytes, Span};
use workload::{DatagramTrace, SizeTable};

use super::TraceError;

/// A distribution needs far fewer points.
const MAX_POINTS: usize = 100_000;
/// About 24 MB in memory.
const MAX_DATAGRAMS: usize = 1_000_000;
/// Maximum size of a transfer.
const MAX_SIZE: f64 = (1u64 << 60) as f64;
/// UDP payload of a datagram: from the size of sequence number and time stamp to
/// the maximum of IPv4.
const DATAGRAM: std::ops::RangeInclusive<u64> = 16..=65_507;

/// Parses the points of a cumulative distribution: each line has a size in bytes and the
/// share of transfers, from 0 to 1, of at most this size. Sizes rise, shares do not fall, the
/// last share is 1.
pub fn parse_sizes(text: &str) -> Result<SizeTable, TraceError> {
    const WANTED: &str = "a size in bytes and a share from 0 to 1, or to 100";
    let mut points: Vec<(Bytes, u32)> = Vec::new();
    let mut last = (0, 0.0);
    let rows = columns(text, WANTED, MAX_POINTS)?;
    // Shares in percent end at 100.
    let whole =
        if rows.last().is_some_and(|row| row.1[1].parse() == Ok(100.0)) { 100.0 } else { 1.0 };
    for (line, [size, share]) in rows {
        let wrong = |text: &str| TraceError::NotTwo { line, wanted: WANTED, text: short(text) };
        let bytes = size.parse::<f64>().ok().filter(|size| (0.0..=MAX_SIZE).contains(size));
        let bytes = Bytes::new(bytes.ok_or_else(|| wrong(size))?.round() as u64);
        let part = share.parse::<f64>().ok().filter(|share| (0.0..=whole).contains(share));
        let part = part.ok_or_else(|| wrong(share))? / whole;
        let point = (bytes, (part * 1e9).round() as u32);
        if points.last().is_some_and(|before| point.0 <= before.0 || point.1 < before.1) {
            return Err(TraceError::NotRising { line });
        }
        points.push(point);
        last = (line, part);
    }
    if points.is_empty() {
        return Err(TraceError::Empty);
    }
    let (line, share) = last;
    SizeTable::try_new(points).map_err(|_| TraceError::NotWhole { line, share: share.to_string() })
}

/// Parses a trace of datagrams: each line has a time in seconds, not decreasing, and the payload
/// bytes of a datagram. The trace repeats one mean gap after its last time.
pub fn parse_datagrams(text: &str) -> Result<DatagramTrace, TraceError> {
    const WANTED: &str = "a moment in seconds and a payload of 16 to 65507 bytes";
    let mut datagrams: Vec<(Span, Bytes)> = Vec::new();
    let mut last = 0;
    for (line, [moment, payload]) in columns(text, WANTED, MAX_DATAGRAMS)? {
        let wrong = |text: &str| TraceError::NotTwo { line, wanted: WANTED, text: short(text) };
        let at: Span = format!("{moment} s").parse().map_err(|_| wrong(moment))?;
        if at > crate::fields::MAX_TIME {
            return Err(wrong(moment));
        }
        let bytes = payload.parse().ok().filter(|bytes| DATAGRAM.contains(bytes));
        let bytes = Bytes::new(bytes.ok_or_else(|| wrong(payload))?);
        if datagrams.last().is_some_and(|before| at < before.0) {
            return Err(TraceError::NotRising { line });
        }
        datagrams.push((at, bytes));
        last = line;
    }
    let Some((end, _)) = datagrams.last() else { return Err(TraceError::Empty) };
    if !text.ends_with('\n') {
        return Err(TraceError::CutShort { line: last });
    }
    let gaps = datagrams.len() as u64 - 1;
    let mean = end.saturating_sub(datagrams[0].0).as_nanos().checked_div(gaps).unwrap_or(0);
    let period = end.saturating_add(Span::from_nanos(mean));
    DatagramTrace::try_new(datagrams, period).map_err(|_| TraceError::NoTime { line: last })
}

/// The two columns of each line that is neither empty nor a comment.
fn columns<'t>(
    text: &'t str,
    wanted: &'static str,
    max: usize,
) -> Result<Vec<(usize, [&'t str; 2])>, TraceError> {
    let mut rows = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let mut words = content.split_whitespace();
        let (Some(first), Some(second), None) = (words.next(), words.next(), words.next()) else {
            return Err(TraceError::NotTwo { line, wanted, text: short(content) });
        };
        if rows.len() == max {
            return Err(TraceError::TooMany { max });
        }
        rows.push((line, [first, second]));
    }
    Ok(rows)
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use workload::Sizes;

    use super::*;

    #[test]
    fn a_distribution_is_read() {
        let table = parse_sizes("# bytes, share\n100 0.5\n\n2500.0 0.75\n1e6 1\n").unwrap();
        let points: Vec<(u64, u32)> = table.points.iter().map(|p| (p.0.count(), p.1)).collect();
        assert_eq!(points, [(100, 500_000_000), (2500, 750_000_000), (1_000_000, 1_000_000_000)]);
    }

    #[test]
    fn a_distribution_in_percent_equals_the_same_in_shares() {
        // Web search, as HPCC's traffic generator and others have it.
        let sizes = [1e4, 2e4, 3e4, 5e4, 8e4, 2e5, 1e6, 2e6, 5e6, 1e7, 3e7];
        let percent = [15, 20, 30, 40, 53, 60, 70, 80, 90, 97, 100];
        let text = |whole: f64| -> String {
            let rows = sizes.iter().zip(percent);
            let line = |(size, share)| format!("{size} {}\n", f64::from(share) * whole / 100.0);
            rows.map(line).fold("0 0\n".to_owned(), |text, row| text + &row)
        };
        let table = parse_sizes(&text(100.0)).unwrap();
        assert_eq!(table, parse_sizes(&text(1.0)).unwrap());
        assert!((Sizes::Table(table.into()).mean() - 1_711_250.0).abs() < 1.0);
    }

    #[test]
    fn a_broken_distribution_is_refused_with_its_line() {
        let two = |text, line| {
            assert!(
                matches!(parse_sizes(text), Err(TraceError::NotTwo { line: at, .. }) if at == line),
                "{text}: {:?}",
                parse_sizes(text)
            );
        };
        two("1 0.5\n2\n", 2);
        two("1 0.5 7\n", 1);
        two("1 0.5\n10 nan\n", 2);
        two("inf 0.5\n", 1);
        two("-1 0.5\n", 1);
        two("1 15\n", 1);
        two("1 150\n2 100\n", 1);
        two("1 1 0\n6 1 1\n", 1);
        assert_eq!(parse_sizes("5 0.5\n5 1\n"), Err(TraceError::NotRising { line: 2 }));
        assert_eq!(parse_sizes("5 0.5\n6 0.4\n"), Err(TraceError::NotRising { line: 2 }));
        assert!(matches!(parse_sizes("5 0.5\n"), Err(TraceError::NotWhole { line: 1, .. })));
        assert!(matches!(parse_sizes("0 1\n"), Err(TraceError::NotWhole { line: 1, .. })));
        assert_eq!(parse_sizes("#\n"), Err(TraceError::Empty));
    }

    #[test]
    fn datagrams_are_read_and_repeat_a_mean_gap_after_the_last() {
        let trace = parse_datagrams("0 100\n0.5 200\n1.5 300\n").unwrap();
        assert_eq!(trace.datagrams[1], (Span::from_millis(500), Bytes::new(200)));
        assert_eq!(trace.period, Span::from_millis(2250));
    }

    #[test]
    fn broken_datagrams_are_refused_with_their_line() {
        let line = |text| match parse_datagrams(text) {
            Err(TraceError::NotTwo { line, .. }) => line,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(line("0 100\n1 15\n"), 2);
        assert_eq!(line("0 65508\n"), 1);
        assert_eq!(line("nan 100\n"), 1);
        assert_eq!(line("-1 100\n"), 1);
        assert_eq!(line("1e309 100\n"), 1);
        assert_eq!(parse_datagrams("1 100\n0 100\n"), Err(TraceError::NotRising { line: 2 }));
        assert_eq!(
            parse_datagrams("1 100\n2 10"),
            Err(TraceError::NotTwo {
                line: 2,
                wanted: "a moment in seconds and a payload of 16 to 65507 bytes",
                text: "10".to_owned(),
            })
        );
        assert_eq!(parse_datagrams("1 100\n2 100"), Err(TraceError::CutShort { line: 2 }));
        assert_eq!(parse_datagrams("0 100\n"), Err(TraceError::NoTime { line: 1 }));
    }
}
