//! Names of archive files, as used by the public route collectors.

use base::{Span, Time};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Updates,
    Routes,
}

/// Names of folders and files. Times in names are UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// RIPE RIS: `YYYY.MM/updates.YYYYMMDD.HHMM`, `YYYY.MM/bview.YYYYMMDD.HHMM`.
    Ris,
    /// `RouteViews`: `bgpdata/YYYY.MM/UPDATES/updates.YYYYMMDD.HHMM`,
    /// `bgpdata/YYYY.MM/RIBS/rib.YYYYMMDD.HHMM`.
    RouteViews,
}

const SECOND: u64 = 1_000_000_000;

impl Layout {
    /// Path of the file that starts at `start`, relative to the collector's folder, without the
    /// suffix of its compression. Names have seconds only if `interval`, that of its kind, is not
    /// in whole minutes.
    pub(super) fn path(self, kind: Kind, start: Time, interval: Span) -> String {
        let (folder, name) = match (self, kind) {
            (Self::Ris, Kind::Updates) => ("%Y.%m", "updates"),
            (Self::Ris, Kind::Routes) => ("%Y.%m", "bview"),
            (Self::RouteViews, Kind::Updates) => ("bgpdata/%Y.%m/UPDATES", "updates"),
            (Self::RouteViews, Kind::Routes) => ("bgpdata/%Y.%m/RIBS", "rib"),
        };
        let seconds = if interval.as_nanos().is_multiple_of(60 * SECOND) { "" } else { "%S" };
        format(&format!("{folder}/{name}.%Y%m%d.%H%M{seconds}"), start)
    }
}

/// Rejects a relative path with empty, hidden or upward parts.
pub(super) fn check_name(path: &str) -> Result<()> {
    let bad = |part: &str| part.is_empty() || part.starts_with('.') || part.contains('\0');
    if path.split('/').any(bad) { Err(Error::Name(path.to_owned())) } else { Ok(()) }
}

/// `time` in UTC, in a `strftime` format.
fn format(pattern: &str, time: Time) -> String {
    let time = Timestamp::from_nanosecond(time.as_nanos().into());
    time.unwrap_or(Timestamp::MAX).strftime(pattern).to_string()
}

/// A time in RFC 3339 with microseconds.
pub fn rfc3339(time: Time) -> String {
    format("%Y-%m-%dT%H:%M:%S.%6fZ", time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Span = Span::from_nanos(300 * SECOND);

    #[test]
    fn uses_names_of_public_collectors() {
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
    fn formats_dates_over_centuries() {
        let date = |seconds: u64| rfc3339(Time::from_nanos(seconds * SECOND + 1_500));
        assert_eq!(date(0), "1970-01-01T00:00:00.000001Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00.000001Z");
        assert_eq!(date(4_107_542_399), "2100-02-28T23:59:59.000001Z");
        assert_eq!(date(4_107_542_400), "2100-03-01T00:00:00.000001Z");
    }

    #[test]
    fn rejects_names_outside_folder() {
        assert!(check_name("rrc00/north").is_ok());
        for bad in ["../up", "/up", "a//b", ".up", "a/.b", ""] {
            assert!(matches!(check_name(bad), Err(Error::Name(_))), "{bad}");
        }
    }
}
