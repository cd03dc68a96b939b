//! The integrity account as JSON.

use base::Time;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CAUSES, Capture, Finished, Gaps, Hour, Integrity, Messages};
use crate::Peering;

const SCHEMA: &str = "netarium.integrity/1";

/// `2026-11-21T17:00Z` for hours since 1970.
pub fn hour_name(hour: u64) -> String {
    let start = i64::try_from(hour)
        .ok()
        .and_then(|hour| Timestamp::from_second(hour.checked_mul(3600)?).ok());
    start.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%MZ").to_string()
}

fn seconds(time: Time) -> f64 {
    (time.as_nanos() / 1000) as f64 / 1e6
}

fn messages(messages: &Messages) -> Value {
    json!({
        "open": messages.open,
        "update": messages.update,
        "notification": messages.notification,
        "keepalive": messages.keepalive,
        "route_refresh": messages.route_refresh,
        "other": messages.other,
        "bytes": messages.bytes,
    })
}

fn gaps(gaps: &Gaps) -> Value {
    json!({ "count": gaps.count, "missing": gaps.missing, "skipped": gaps.skipped })
}

fn hour(number: u64, seen: &Hour) -> Value {
    let causes = CAUSES.iter().zip(&seen.gaps);
    let causes = causes.map(|((_, name), of)| ((*name).to_owned(), gaps(of)));
    json!({
        "hour": hour_name(number),
        "verdict": seen.verdict().name(),
        "blind_seconds": seen.blind_seconds(),
        "up_seconds": seen.up.as_secs_f64(),
        "from_peer": messages(&seen.peer),
        "from_local": messages(&seen.local),
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
        "hour": hour_name(number),
        "frames": counted.frames,
        "bytes": counted.bytes,
        "dropped": counted.dropped,
        "mirror_lost": counted.mirror_lost,
        "bad_checksums": counted.bad_checksums,
        "unverified_checksums": counted.unverified_checksums,
        "unreadable": counted.unreadable,
    })
}

impl Finished {
    /// An object of the schema's list `hours`, with the members of its peering.
    pub fn json(&self) -> Value {
        let mut object = peering(&self.peering);
        let members = [&mut object, &mut hour(self.hour, &self.seen)];
        let members = members.into_iter().filter_map(Value::as_object_mut);
        Value::Object(members.flat_map(std::mem::take).collect())
    }
}

impl Integrity {
    /// All retained hours as `netarium.integrity/1`, in the lists `capture` and `hours`.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_hours() {
        assert_eq!(hour_name(0), "1970-01-01T00:00Z");
        assert_eq!(hour_name(24 * 11_016 + 23), "2000-02-29T23:00Z");
        assert_eq!(hour_name(1_795_280_400 / 3600), "2026-11-21T17:00Z");
        assert_eq!(hour_name(24 * 20_513), "2026-03-01T00:00Z");
    }
}
