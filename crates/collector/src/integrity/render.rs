//! The account as JSON and as a table for people.

use std::fmt::Write;

use base::Time;
use serde_json::{Value, json};

use super::{CAUSES, Capture, Finished, Gaps, Heard, Hour, Integrity};
use crate::Peering;

/// What the JSON says it is.
const SCHEMA: &str = "netarium.integrity/1";

/// `2026-11-21T17:00Z` for hours since 1970.
fn name(hour: u64) -> String {
    let (year, month, day) = date(hour / 24);
    format!("{year:04}-{month:02}-{day:02}T{:02}:00Z", hour % 24)
}

/// Year, month and day of days since 1970, in the Gregorian calendar: years begin in March, so
/// that the day that is not always there comes last.
const fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + (month <= 2) as u64, month, day)
}

fn seconds(time: Time) -> f64 {
    (time.as_nanos() / 1000) as f64 / 1e6
}

fn heard(heard: &Heard) -> Value {
    json!({
        "open": heard.open,
        "update": heard.update,
        "notification": heard.notification,
        "keepalive": heard.keepalive,
        "route_refresh": heard.route_refresh,
        "other": heard.other,
        "bytes": heard.bytes,
    })
}

fn gaps(gaps: &Gaps) -> Value {
    json!({ "count": gaps.count, "missing": gaps.missing, "skipped": gaps.skipped })
}

fn hour(number: u64, seen: &Hour) -> Value {
    let causes = CAUSES.iter().zip(&seen.gaps);
    let causes = causes.map(|((_, name), of)| ((*name).to_owned(), gaps(of)));
    json!({
        "hour": name(number),
        "verdict": seen.verdict().name(),
        "blind_seconds": seen.blind_seconds(),
        "up_seconds": seen.up.as_secs_f64(),
        "from_peer": heard(&seen.peer),
        "from_local": heard(&seen.local),
        "gaps": causes.collect::<serde_json::Map<_, _>>(),
        "local_gaps": gaps(&seen.local_gaps),
        "resyncs": seen.resyncs,
        "undecodable": seen.undecodable(),
        "states": seen.states,
        "inferred": seen.inferred,
        "reread": seen.reread,
        "first": seen.seen.map(|(first, _)| seconds(first)),
        "last": seen.seen.map(|(_, last)| seconds(last)),
    })
}

fn peering(peering: &Peering) -> Value {
    json!({
        "peering": peering.id.0,
        "mirror": peering.mirror.0,
        "peer": peering.peer.to_string(),
        "peer_as": peering.peer_as.0,
        "local": peering.local.to_string(),
        "local_as": peering.local_as.0,
    })
}

fn capture(number: u64, counted: &Capture) -> Value {
    json!({
        "hour": name(number),
        "frames": counted.frames,
        "bytes": counted.bytes,
        "dropped": counted.dropped,
        "mirror_lost": counted.mirror_lost,
        "bad_checksums": counted.bad_checksums,
        "unreadable": counted.unreadable,
    })
}

impl Finished {
    /// As an object of the schema's list `hours`, with the members of its peering.
    pub fn json(&self) -> Value {
        let mut object = peering(&self.peering);
        let members = [&mut object, &mut hour(self.hour, &self.seen)];
        let members = members.into_iter().filter_map(Value::as_object_mut);
        Value::Object(members.flat_map(std::mem::take).collect())
    }
}

impl Integrity {
    /// All hours that are kept, as `netarium.integrity/1`: `capture` and `hours`, a list each.
    pub fn json(&self) -> Value {
        let hours = self.hours().map(|(peering, hour, seen)| {
            Finished { peering: *peering, hour, seen: seen.clone() }.json()
        });
        json!({
            "schema": SCHEMA,
            "forgotten": self.forgotten(),
            "capture": self.capture_hours().map(|(at, of)| capture(at, of)).collect::<Vec<_>>(),
            "hours": hours.collect::<Vec<_>>(),
        })
    }

    /// All hours that are kept, as a table.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<17} {:<39} {:>10} {:<7} {:>6} {:>9} {:>9} {:>12} {:>5} {:>10} {:>10} {:>7} {:>6}\n",
            "hour",
            "peer",
            "AS",
            "verdict",
            "blind",
            "updates",
            "alive",
            "bytes",
            "gaps",
            "missing",
            "skipped",
            "resyncs",
            "bad",
        );
        for (peering, hour, seen) in self.hours() {
            let lost = seen.gaps[..4].iter();
            let (count, missing, skipped) = lost.fold((0, 0, 0), |sum, of| {
                (sum.0 + of.count, sum.1 + of.missing, sum.2 + of.skipped)
            });
            let blind = format!("{} s", seen.blind_seconds());
            let _ = writeln!(
                text,
                "{:<17} {:<39} {:>10} {:<7} {blind:>6} {:>9} {:>9} {:>12} {count:>5} \
                 {missing:>10} {skipped:>10} {:>7} {:>6}",
                name(hour),
                peering.peer.to_string(),
                peering.peer_as.0,
                seen.verdict().name(),
                seen.peer.update,
                seen.peer.keepalive,
                seen.peer.bytes,
                seen.resyncs,
                seen.undecodable(),
            );
        }
        for (hour, of) in self.capture_hours() {
            let _ = writeln!(
                text,
                "{:<17} capture: {} frames, {} dropped, {} lost by the mirror, {} with a wrong \
                 checksum, {} unreadable",
                name(hour),
                of.frames,
                of.dropped,
                of.mirror_lost,
                of.bad_checksums,
                of.unreadable,
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_have_names() {
        assert_eq!(name(0), "1970-01-01T00:00Z");
        assert_eq!(name(24 * 11_016 + 23), "2000-02-29T23:00Z");
        assert_eq!(name(1_795_280_400 / 3600), "2026-11-21T17:00Z");
        assert_eq!(name(24 * 20_513), "2026-03-01T00:00Z");
    }
}
