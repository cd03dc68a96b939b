//! The integrity account as a table.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

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
    /// Evidence of an established session; a short capture may have fewer.
    const MIN_MESSAGES: u64 = 3;
    let mut by = BTreeMap::new();
    for (peering, _, seen) in integrity.hours() {
        // Records have the view of the router that wrote them.
        if peering.mirror.index().is_some() {
            let (_, peer, local) = by.entry(peering.id).or_insert((peering, 0, 0));
            *peer += seen.peer.total();
            *local += seen.local.total();
        }
    }
    let is_known = |local: IpAddr| {
        routers.contains(&local) || by.values().filter(|(one, ..)| one.local == local).count() > 1
    };
    let count = |of: &dyn Fn(u64, u64, IpAddr) -> bool| {
        by.values().filter(|(peering, peer, local)| of(*peer, *local, peering.local)).count() as u64
    };
    [
        count(&|peer, local, _| peer == 0 && local >= MIN_MESSAGES),
        count(&|peer, local, router| peer >= MIN_MESSAGES && local == 0 && !is_known(router)),
    ]
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
