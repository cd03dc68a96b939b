//! Parses times of day.

use base::Time;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::archive::rfc3339;

/// A UTC calendar time; `None` before 1970 and after 2554.
pub(super) fn utc(time: DateTime) -> Option<Time> {
    since_1970(TimeZone::UTC.to_timestamp(time).ok()?)
}

fn since_1970(time: Timestamp) -> Option<Time> {
    u64::try_from(time.as_nanosecond()).ok().map(Time::from_nanos)
}

/// A time in UTC: RFC 3339, `YYYY-MM-DD HH:MM` with or without seconds, or seconds since 1970.
/// `None` if it is none of these.
pub fn moment(text: &str) -> Option<Time> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        // Fewer digits are a date or a year rather than seconds since 1970.
        let right = (9..=11).contains(&whole.len()) && (1..=9).contains(&fraction.len());
        let nanos = right.then(|| format!("{whole}{fraction:0<9}").parse().ok()).flatten();
        return nanos.map(Time::from_nanos);
    }
    let (_, clock) = text.split_once(['T', 't', ' '])?;
    // The parsers accept a date or an hour alone, and names of time zones, which are not supported.
    if !clock.contains(':') || clock.contains('[') {
        return None;
    }
    match text.parse() {
        Ok(time) => since_1970(time),
        Err(_) => utc(text.parse().ok()?),
    }
}

/// Prints a time: RFC 3339, with a fraction only if it is not zero.
pub fn moment_text(time: Time) -> String {
    let text = rfc3339(time);
    match text.strip_suffix(".000000Z") {
        Some(whole) => format!("{whole}Z"),
        None => text,
    }
}

pub(super) fn unix(time: Time) -> f64 {
    (time.as_nanos() / 1000) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn parses_time_formats() {
        let nanos = |text| moment(text).map(Time::as_nanos);
        let noon = Some(1_795_262_400 * SECOND);
        assert_eq!(nanos("2026-11-21T12:00:00Z"), noon);
        assert_eq!(nanos("2026-11-21 12:00"), noon);
        assert_eq!(nanos("2026-11-21 12:00:00"), noon);
        assert_eq!(nanos("2026-11-21t12:00:00z"), noon);
        assert_eq!(nanos("2026-11-21T13:30:00+01:30"), noon);
        assert_eq!(nanos("2026-11-21T11:00:00-01:00"), noon);
        assert_eq!(nanos("1795262400"), noon);
        assert_eq!(nanos("1795262400.25"), noon.map(|noon| noon + 250_000_000));
        assert_eq!(nanos("2026-11-21T12:00:00.5Z"), noon.map(|noon| noon + 500_000_000));
        assert_eq!(nanos("2024-02-29 00:00"), Some(1_709_164_800 * SECOND));
        assert_eq!(nanos("1970-01-01 00:00"), Some(0));
        for wrong in [
            "",
            "now",
            "2026",
            "20261121",
            "2026-11-21",
            "2026-13-01 00:00",
            "2026-02-29 00:00",
            "2026-11-21 24:00",
            "2026-11-21 12",
            "2026-11-21 12:00:00:00",
            "12:00",
            "1e9",
            "2026-11-21T12:00:00+1",
            "2026-11-21 12:00[Europe/Paris]",
            "1969-12-31 23:59",
            "99999999999999999999",
        ] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parses_printed_times() {
        for seconds in [0, 951_782_400, 1_795_262_400, 4_107_542_399] {
            let time = Time::from_nanos(seconds * SECOND);
            assert_eq!(moment(&moment_text(time)), Some(time));
        }
        assert_eq!(moment_text(Time::from_nanos(1_500_000_000)), "1970-01-01T00:00:01.500000Z");
    }
}
