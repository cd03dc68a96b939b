//! Times as people write them.

use base::Time;

use crate::archive::rfc3339;

const SECOND: u64 = 1_000_000_000;

/// Days from 1970-01-01 to a day of the Gregorian calendar. Counting years from March puts the day
/// of the leap year at the end.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month + 2) / 5 + day - 1;
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    (before + of_year).checked_sub(719_468)
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let right = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    right.then(|| text.parse().ok()).flatten()
}

/// Whole seconds of a day in UTC.
pub(super) fn seconds(date: [u64; 3], clock: [u64; 3]) -> Option<u64> {
    let ([year, month, day], [hour, minute, second]) = (date, clock);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let right = (1..=longest).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    let days =
        if right && (1970..3000).contains(&year) { days(year, month, day)? } else { return None };
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Nanoseconds of a fraction's digits.
fn fraction(digits: &str) -> Option<u64> {
    let right = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value: u64 = right.then(|| digits.parse().ok()).flatten()?;
    Some(value * 10_u64.pow(9 - digits.len() as u32))
}

/// The part of a text before a point, and the nanoseconds behind it.
fn split_fraction(text: &str) -> Option<(&str, u64)> {
    match text.split_once('.') {
        Some((whole, digits)) => Some((whole, fraction(digits)?)),
        None => Some((text, 0)),
    }
}

/// Seconds that a zone is ahead of UTC, and the text before it.
fn split_zone(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = clock.rfind(['+', '-']) else { return Some((clock, 0)) };
    let (hours, minutes) = clock[at + 1..].split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let ahead = (hours < 24 && minutes < 60).then_some((hours * 3600 + minutes * 60) as i64)?;
    Some((&clock[..at], if clock[at..].starts_with('-') { -ahead } else { ahead }))
}

/// A time in UTC: RFC 3339, `YYYY-MM-DD HH:MM` with or without seconds, or seconds since 1970.
/// `None` if it is none of these.
pub fn moment(text: &str) -> Option<Time> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let (whole, nanos) = split_fraction(text)?;
        // Fewer digits are a date or a year rather than 1970.
        let seconds: u64 = (9..=11).contains(&whole.len()).then(|| whole.parse().ok())??;
        return Some(Time::from_nanos(seconds.checked_mul(SECOND)?.checked_add(nanos)?));
    }
    let (date, clock) = text.split_once(['T', 't', ' '])?;
    let mut date = date.split('-');
    let date = [number(date.next()?, 4)?, number(date.next()?, 2)?, number(date.next()?, 2)?];
    let (clock, ahead) = split_zone(clock)?;
    let (clock, nanos) = split_fraction(clock)?;
    let mut parts = clock.split(':');
    let clock = [
        number(parts.next()?, 2)?,
        number(parts.next()?, 2)?,
        parts.next().map_or(Some(0), |second| number(second, 2))?,
    ];
    if parts.next().is_some() {
        return None;
    }
    let seconds = i64::try_from(seconds(date, clock)?).ok()? - ahead;
    Some(Time::from_nanos(u64::try_from(seconds).ok()?.checked_mul(SECOND)? + nanos))
}

/// A time as it is printed: RFC 3339, with a fraction only where there is one.
pub fn moment_text(time: Time) -> String {
    let text = rfc3339(time);
    match text.strip_suffix(".000000Z") {
        Some(whole) => format!("{whole}Z"),
        None => text,
    }
}

/// Seconds since 1970 for JSON.
pub(super) fn unix(time: Time) -> f64 {
    (time.as_nanos() / 1000) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_times_in_several_ways() {
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
            "1969-12-31 23:59",
            "99999999999999999999",
        ] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_is_read() {
        for seconds in [0, 951_782_400, 1_795_262_400, 4_107_542_399] {
            let time = Time::from_nanos(seconds * SECOND);
            assert_eq!(moment(&moment_text(time)), Some(time));
        }
        assert_eq!(moment_text(Time::from_nanos(1_500_000_000)), "1970-01-01T00:00:01.500000Z");
    }
}
