//! Whether what came out is what must come out.

use std::collections::{BTreeMap, BTreeSet};

use crate::collect::{Outcome, Told};
use crate::mrt;
use crate::oracle::{Expected, Way};

/// Compares all of it; the first difference in words.
pub(crate) fn judge(
    expected: &BTreeMap<Way, Vec<Expected>>,
    outcome: &Outcome,
) -> Result<(), String> {
    let told = outcome.told();
    for (way, connections) in expected {
        let events = told.get(way).map(Vec::as_slice).unwrap_or_default();
        let other = expected.get(&(way.0, way.2, way.1)).map(Vec::as_slice).unwrap_or_default();
        direction(connections, other, events).map_err(|why| format!("{way:?}: {why}"))?;
    }
    if let Some(way) = told.keys().find(|way| !expected.contains_key(way)) {
        return Err(format!("{way:?} sent nothing"));
    }
    let all = || expected.values().flatten();
    let (missing, captured): (u64, u64) =
        (all().map(|one| one.missing).sum(), all().map(|one| one.captured).sum());
    let archived_bytes: usize = told.values().flatten().filter_map(message).map(Vec::len).sum();
    let skipped = captured - archived_bytes as u64;
    let counted = (outcome.statistics.missing_bytes, outcome.statistics.skipped_bytes);
    if counted != (missing, skipped) {
        return Err(format!(
            "in all {counted:?} missing and skipped, not {:?}",
            (missing, skipped)
        ));
    }
    archived(outcome)
}

/// One direction: messages in order, a gap wherever some are missing, and all bytes accounted for.
fn direction(connections: &[Expected], other: &[Expected], events: &[Told]) -> Result<(), String> {
    explained(connections, events)?;
    // Of a connection without any message the account of reassembly tells.
    let heard = |one: &Expected| {
        let answered = other.iter().find(|other| other.connection == one.connection);
        let certain = |one: &Expected| one.certain.contains(&true);
        certain(one) || answered.is_some_and(certain)
    };
    let told = |part: fn(&collector::Gap) -> u64| {
        let gap = |event: &Told| if let Told::Gap(gap) = event { part(gap) } else { 0 };
        events.iter().map(gap).sum::<u64>()
    };
    let bytes: usize = events.iter().filter_map(message).map(Vec::len).sum();
    let captured: u64 = connections.iter().map(|one| one.captured).sum();
    let missing: u64 = connections.iter().map(|one| one.missing).sum();
    let wanted = (missing, captured - bytes as u64);
    let found = (told(|gap| gap.missing), told(|gap| gap.skipped));
    let all = connections.iter().all(heard);
    if found != wanted && (all || found.0 > wanted.0 || found.1 > wanted.1) {
        return Err(format!("{found:?} told missing and skipped, not {wanted:?}"));
    }
    Ok(())
}

/// Whether events are what was sent, without some messages that need not come out; with a gap
/// wherever one is missing.
fn explained(connections: &[Expected], events: &[Told]) -> Result<(), String> {
    let (mut told, mut gaps, mut gap) = (Vec::new(), Vec::new(), false);
    for event in events {
        match event {
            Told::Gap(_) => gap = true,
            Told::Message(_, bytes) => {
                told.push(bytes);
                gaps.push(std::mem::take(&mut gap));
            }
        }
    }
    // How many were found so far, and whether the last one of the stream was.
    let mut reached = BTreeSet::from([(0, true)]);
    for (number, connection) in connections.iter().enumerate() {
        reached = reached.into_iter().map(|(at, _)| (at, true)).collect();
        for (place, sent) in connection.messages.iter().enumerate() {
            let mut next = BTreeSet::new();
            for (at, follows) in &reached {
                let is_next = sent.is_some() && told.get(*at).copied() == sent.as_ref();
                if is_next && (*follows || gaps[*at]) {
                    next.insert((at + 1, true));
                }
                if !connection.certain[place] {
                    next.insert((*at, false));
                }
            }
            if next.is_empty() {
                let at = reached.iter().map(|(at, _)| *at).max();
                let found = at.and_then(|at| told.get(at));
                let found = found.map(|found| {
                    connection.messages.iter().position(|sent| sent.as_ref() == Some(found))
                });
                return Err(format!(
                    "message {place} of connection {number} is not there, or no gap before it; \
                     {at:?} of {} were found, the next one is {found:?}",
                    told.len()
                ));
            }
            reached = next;
        }
    }
    if reached.iter().any(|(at, _)| *at == told.len()) {
        return Ok(());
    }
    let at = reached.iter().map(|(at, _)| *at).max();
    Err(format!("{at:?} of {} messages are those that were sent", told.len()))
}

pub(crate) fn message(event: &Told) -> Option<&Vec<u8>> {
    if let Told::Message(_, bytes) = event { Some(bytes) } else { None }
}

/// The archive has what was told, and no more.
pub(crate) fn archived(outcome: &Outcome) -> Result<(), String> {
    let mut archive = mrt::messages(&outcome.archive);
    for (way, told) in &outcome.collected.from_peers {
        let archived = archive.remove(way).unwrap_or_default();
        if archived.len() != told.len()
            || archived.iter().zip(told).any(|(one, other)| one != other)
        {
            return Err(format!("the archive of {way:?} is not what was told"));
        }
    }
    if archive.is_empty() { Ok(()) } else { Err(format!("{:?} in the archive", archive.keys())) }
}
