//! Gaps as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::super::moment::{moment_text, unix};
use super::super::table::columns;
use super::{ARCHIVED, CAUSES, Collector, Gaps, Hour, Key, words};

impl Gaps {
    pub fn is_empty(&self) -> bool {
        self.collectors.iter().all(|collector| {
            let hours = collector.account.iter().flat_map(|account| account.hours.values());
            collector.losses.is_empty()
                && collector.absent.is_empty()
                && collector.troubles.is_empty()
                && hours.into_iter().all(Hour::is_whole)
        })
    }

    pub fn json(&self) -> Value {
        let collectors = self.collectors.iter().map(Collector::json);
        json!({ "schema": "netarium.gaps/1", "collectors": collectors.collect::<Vec<_>>() })
    }

    pub fn table(&self) -> String {
        let mut text = String::new();
        for collector in &self.collectors {
            collector.write(&mut text);
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

fn hour((name, peer, peer_as, local, mirror): &Key, of: &Hour) -> Value {
    let gaps = CAUSES.iter().zip(of.gaps).map(|(cause, [count, missing, skipped])| {
        let value = json!({ "count": count, "missing": missing, "skipped": skipped });
        ((*cause).to_owned(), value)
    });
    json!({
        "hour": name,
        "peer": peer,
        "peer_as": peer_as,
        "router": local,
        "mirror": mirror,
        "verdict": of.verdict,
        "blind_seconds": of.blind_seconds,
        "collector_down_seconds": of.down_seconds,
        "up_seconds": of.up_seconds,
        "updates": of.updates,
        "keepalives": of.keepalives,
        "bytes": of.bytes,
        "gaps": gaps.collect::<Map<_, _>>(),
        "resyncs": of.resyncs,
        "undecodable": of.undecodable,
    })
}

impl Collector {
    fn verdicts(&self) -> BTreeMap<&str, u64> {
        let mut verdicts = BTreeMap::new();
        for hour in self.account.iter().flat_map(|account| account.hours.values()) {
            *verdicts.entry(&*hour.verdict).or_insert(0) += 1;
        }
        verdicts
    }

    fn json(&self) -> Value {
        let hours = self
            .account
            .as_ref()
            .map(|account| account.hours.iter().map(|(key, of)| hour(key, of)).collect::<Vec<_>>());
        let absent = self.absent.iter();
        json!({
            "folder": self.folder,
            "accounted": self.account.is_some(),
            "verdicts": self.verdicts(),
            "hours": hours,
            "losses": self.losses,
            "absent": absent
                .map(|(since, until)| json!({ "since": unix(*since), "until": unix(*until) }))
                .collect::<Vec<_>>(),
            "troubles": self.troubles,
            "bad_lines": self.account.as_ref().map(|account| account.bad_lines),
        })
    }

    fn write(&self, text: &mut String) {
        const HEAD: [&str; 15] = [
            "hour", "peer", "AS", "verdict", "blind", "down", "updates", "mirror", "unknown",
            "capture", "cut", "start", "missing", "skipped", "bad",
        ];
        let _ = writeln!(text, "{}", self.folder);
        let hours = self.account.iter().flat_map(|account| &account.hours);
        let rows: Vec<Vec<String>> =
            hours.filter(|(_, of)| !of.is_whole()).map(|(key, of)| row(key, of)).collect();
        if !rows.is_empty() {
            text.push_str(&columns(&HEAD, &rows));
        }
        if self.account.is_some() {
            let all: u64 = self.verdicts().values().sum();
            let parts = self.verdicts().into_iter();
            let parts: Vec<String> =
                parts.map(|(verdict, count)| format!("{count} {verdict}")).collect();
            let _ = writeln!(text, "{all} hours of peers: {}", parts.join(", "));
        } else {
            text.push_str(
                "these files have no integrity account, so quiet peers and a blind collector \
                 cannot be distinguished\n",
            );
        }
        for loss in &self.losses {
            let _ = writeln!(text, "{}", words(loss));
        }
        for (since, until) in &self.absent {
            let (since, until) = (moment_text(*since), moment_text(*until));
            let _ = writeln!(text, "{since} to {until}: there are no files");
        }
        for trouble in &self.troubles {
            let _ = writeln!(text, "{trouble}");
        }
    }
}

fn row((name, peer, peer_as, _, number): &Key, of: &Hour) -> Vec<String> {
    let [mirror, unknown, capture, start, .., cut, _] = of.gaps.map(|gaps| gaps[0].to_string());
    let lost = of.gaps.iter().enumerate().filter(|(at, _)| !ARCHIVED.contains(at));
    let (missing, skipped) =
        lost.fold((0, 0), |(missing, skipped), (_, of)| (missing + of[1], skipped + of[2]));
    vec![
        name.clone(),
        match number {
            0 | 1 => peer.to_string(),
            _ => format!("{peer} (mirror {number})"),
        },
        peer_as.to_string(),
        of.verdict.clone(),
        format!("{} s", of.blind_seconds),
        format!("{} s", of.down_seconds),
        of.updates.to_string(),
        mirror,
        unknown,
        capture,
        cut,
        start,
        missing.to_string(),
        skipped.to_string(),
        of.undecodable.to_string(),
    ]
}
