//! Names of archive files, as the public route collectors give them.

use base::{Span, Time};

use crate::{Error, Result};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Messages and state changes of one interval.
    Updates,
    /// All routes at one instant.
    Routes,
}

/// How folders and files are named. Times in names are UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// RIPE RIS: `YYYY.MM/updates.YYYYMMDD.HHMM`, `YYYY.MM/bview.YYYYMMDD.HHMM`.
    Ris,
    /// `RouteViews`: `bgpdata/YYYY.MM/UPDATES/updates.YYYYMMDD.HHMM`,
    /// `bgpdata/YYYY.MM/RIBS/rib.YYYYMMDD.HHMM`.
    RouteViews,
    /// Relative paths with `%Y %m %d %H %M %S`.
    Custom {
        /// Of updates.
        updates: String,
        /// Of routes.
        routes: String,
    },
}

const SECOND: u64 = 1_000_000_000;

impl Layout {
    /// The path of the file that begins at `start`, relative to the collector's folder, without
    /// the suffix of its compression. `interval` is that of its kind: names tell the seconds only
    /// where an interval is no whole number of minutes.
    pub(super) fn path(&self, kind: Kind, start: Time, interval: Span) -> String {
        let (folder, name) = match (self, kind) {
            (Self::Ris, Kind::Updates) => ("%Y.%m", "updates"),
            (Self::Ris, Kind::Routes) => ("%Y.%m", "bview"),
            (Self::RouteViews, Kind::Updates) => ("bgpdata/%Y.%m/UPDATES", "updates"),
            (Self::RouteViews, Kind::Routes) => ("bgpdata/%Y.%m/RIBS", "rib"),
            (Self::Custom { updates, .. }, Kind::Updates) => return format(updates, start),
            (Self::Custom { routes, .. }, Kind::Routes) => return format(routes, start),
        };
        let seconds = if interval.as_nanos().is_multiple_of(60 * SECOND) { "" } else { "%S" };
        format(&format!("{folder}/{name}.%Y%m%d.%H%M{seconds}"), start)
    }

    /// Refuses names that would lie outside of the collector's folder, or be hidden.
    pub(super) fn check(&self) -> Result<()> {
        let Self::Custom { updates, routes } = self else { return Ok(()) };
        check_name(updates)?;
        check_name(routes)
    }
}

/// Refuses a relative path with empty, hidden or upward parts.
pub(super) fn check_name(path: &str) -> Result<()> {
    let bad = |part: &str| part.is_empty() || part.starts_with('.') || part.contains('\0');
    if path.split('/').any(bad) { Err(Error::Name(path.to_owned())) } else { Ok(()) }
}

/// Date and time of a moment.
struct Moment {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Moment {
    fn of(time: Time) -> Self {
        let seconds = time.as_nanos() / SECOND;
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // The Gregorian calendar repeats after 400 years of 146,097 days; counting years from
        // March puts the day of the leap year at the end.
        let day = days + 719_468;
        let (era, of_era) = (day / 146_097, day % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let march = (5 * of_year + 2) / 153;
        let month = if march < 10 { march + 3 } else { march - 9 };
        Self {
            year: era * 400 + year + u64::from(month <= 2),
            month,
            day: of_year - (153 * march + 2) / 5 + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }
}

/// Fills `%Y %m %d %H %M %S`.
fn format(pattern: &str, time: Time) -> String {
    let moment = Moment::of(time);
    let mut text = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars();
    while let Some(char) = rest.next() {
        if char != '%' {
            text.push(char);
            continue;
        }
        let part = match rest.next() {
            Some('Y') => format!("{:04}", moment.year),
            Some('m') => format!("{:02}", moment.month),
            Some('d') => format!("{:02}", moment.day),
            Some('H') => format!("{:02}", moment.hour),
            Some('M') => format!("{:02}", moment.minute),
            Some('S') => format!("{:02}", moment.second),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
        text.push_str(&part);
    }
    text
}

/// A moment as RFC 3339 writes it, with microseconds.
pub fn rfc3339(time: Time) -> String {
    let micros = time.as_nanos() % SECOND / 1_000;
    format!("{}.{micros:06}Z", format("%Y-%m-%dT%H:%M:%S", time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Span = Span::from_nanos(300 * SECOND);

    #[test]
    fn names_are_those_of_the_public_collectors() {
        let start = Time::from_nanos(1_709_251_140 * SECOND);
        let ris = |kind| Layout::Ris.path(kind, start, FIVE);
        assert_eq!(ris(Kind::Updates), "2024.02/updates.20240229.2359");
        assert_eq!(ris(Kind::Routes), "2024.02/bview.20240229.2359");
        let views = |kind| Layout::RouteViews.path(kind, start, FIVE);
        assert_eq!(views(Kind::Updates), "bgpdata/2024.02/UPDATES/updates.20240229.2359");
        assert_eq!(views(Kind::Routes), "bgpdata/2024.02/RIBS/rib.20240229.2359");
        let short = Layout::Ris.path(Kind::Updates, start, Span::from_nanos(20 * SECOND));
        assert_eq!(short, "2024.02/updates.20240229.235900");
    }

    #[test]
    fn dates_hold_over_centuries() {
        let date = |seconds: u64| rfc3339(Time::from_nanos(seconds * SECOND + 1_500));
        assert_eq!(date(0), "1970-01-01T00:00:00.000001Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00.000001Z");
        assert_eq!(date(4_107_542_399), "2100-02-28T23:59:59.000001Z");
        assert_eq!(date(4_107_542_400), "2100-03-01T00:00:00.000001Z");
    }

    #[test]
    fn own_names_stay_inside() {
        let custom = |updates: &str| Layout::Custom {
            updates: updates.to_owned(),
            routes: "rib-%Y".to_owned(),
        };
        assert!(custom("%Y/%m/up-%d%H%M").check().is_ok());
        for bad in ["../up", "/up", "a//b", ".up", "a/.b", ""] {
            assert!(matches!(custom(bad).check(), Err(Error::Name(_))), "{bad}");
        }
        let named = custom("%Y/%m/up-%d%H%M-%x%").path(Kind::Updates, Time::from_nanos(0), FIVE);
        assert_eq!(named, "1970/01/up-010000-%x%");
    }
}
