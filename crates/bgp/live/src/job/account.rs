//! The integrity account as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use collector::Peering;
use collector::integrity::{Integrity, hour_name};

use crate::query::columns;

pub(super) fn table(integrity: &Integrity) -> String {
    let heads = [
        "hour", "peer", "AS", "verdict", "blind", "updates", "alive", "bytes", "gaps", "missing",
        "skipped", "resyncs", "bad",
    ];
    let rows = integrity.hours().map(|(peering, hour, seen)| {
        let lost = seen.missing();
        vec![
            hour_name(hour),
            peering.peer.to_string(),
            peering.peer_as.0.to_string(),
            seen.verdict().name().to_owned(),
            format!("{} s", seen.blind_seconds()),
            seen.peer.update.to_string(),
            seen.peer.keepalive.to_string(),
            seen.peer.bytes.to_string(),
            lost.count.to_string(),
            lost.missing.to_string(),
            lost.skipped.to_string(),
            seen.resyncs.to_string(),
            seen.undecodable().to_string(),
        ]
    });
    let mut text = columns(&heads, &rows.collect::<Vec<_>>());
    for (hour, of) in integrity.capture_hours() {
        let _ = writeln!(
            text,
            "{}  capture: {} frames, {} dropped, {} lost by the mirror, {} with a wrong checksum, \
             {} with an unverifiable checksum, {} unreadable",
            hour_name(hour),
            of.frames,
            of.dropped,
            of.mirror_lost,
            of.bad_checksums,
            of.unverified_checksums,
            of.unreadable,
        );
    }
    text
}

/// Numbers of sessions of which only the router's messages were captured, and of those of which
/// one direction was captured, without evidence that its sender is the peer.
pub(super) fn one_sided(integrity: &Integrity, routers: &[IpAddr]) -> [u64; 2] {
    /// Messages that show a session in any case; a short capture may have fewer.
    const MIN_MESSAGES: u64 = 3;
    let mut by = BTreeMap::new();
    for (peering, _, seen) in integrity.hours() {
        // Records have the view of the router that wrote them.
        if peering.mirror.index().is_some() {
            let (_, peer, local) = by.entry(peering.id).or_insert((peering, [0; 4], [0; 4]));
            for (sum, sent) in [(peer, &seen.peer), (local, &seen.local)] {
                let more = [sent.total(), sent.open, sent.keepalive, sent.update];
                *sum = std::array::from_fn(|at| sum[at] + more[at]);
            }
        }
    }
    // An end sends a KEEPALIVE after its OPEN only if it received the OPEN of the other end.
    let is_session = |[total, opens, keepalives, updates]: [u64; 4]| {
        total >= MIN_MESSAGES || updates > 0 || opens > 0 && keepalives > 0
    };
    // An end of several sessions of a mirror is its router.
    let is_known = |own: &Peering| {
        let known = (own.mirror, own.local);
        let same = by.values().filter(|(one, ..)| (one.mirror, one.local) == known);
        routers.contains(&own.local) || same.count() > 1
    };
    let sides = by.values().map(|&(peering, peer, local)| {
        let is_unheard = peer[0] == 0 && is_session(local);
        [is_unheard, local[0] == 0 && is_session(peer) && !is_known(peering)]
    });
    sides.fold([0; 2], |[unheard, unknown], [is_unheard, is_unknown]| {
        [unheard + u64::from(is_unheard), unknown + u64::from(is_unknown)]
    })
}

#[cfg(test)]
mod tests {
    use base::Time;
    use collector::integrity::{Capture, Settings};

    use super::*;

    #[test]
    fn shows_losses_of_the_capture() {
        let mut account = Integrity::new(Settings::default());
        let hour = Time::from_nanos(1_795_280_400_000_000_000);
        account.capture(
            hour,
            Capture { frames: 7, mirror_lost: 1, unverified_checksums: 5, ..Capture::default() },
        );
        let text = table(&account);
        assert!(text.starts_with("hour  peer  AS"), "{text}");
        let row = "2026-11-21T17:00Z  capture: 7 frames, 0 dropped, 1 lost by the mirror,";
        assert!(text.contains(row), "{text}");
        assert!(text.contains(" 5 with an unverifiable checksum, 0 unreadable"), "{text}");
    }
}
