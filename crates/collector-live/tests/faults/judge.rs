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
    let (missing, skipped): (u64, u64) =
        (all().map(|one| one.missing).sum(), all().map(|one| one.skipped).sum());
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
    let messages: Vec<&Vec<u8>> = events.iter().filter_map(message).collect();
    let count: usize = connections.iter().map(|one| one.messages.len()).sum();
    if messages.len() != count {
        return Err(format!(
            "{} messages, not {count}{}",
            messages.len(),
            first(connections, &messages)
        ));
    }
    let wanted = connections.iter().flat_map(|one| &one.messages);
    if let Some(at) = wanted.zip(&messages).position(|((_, one), other)| one != *other) {
        return Err(format!("message {at} is another one"));
    }
    gaps(connections, events)?;
    // Of a connection without any message the account of reassembly tells.
    let heard = |one: &&Expected| {
        let answered = other.iter().find(|other| other.connection == one.connection);
        !one.messages.is_empty() || answered.is_some_and(|other| !other.messages.is_empty())
    };
    let sum = |part: fn(&Expected) -> u64| connections.iter().filter(heard).map(part).sum::<u64>();
    let told = |part: fn(&collector::Gap) -> u64| {
        let gap = |event: &Told| if let Told::Gap(gap) = event { part(gap) } else { 0 };
        events.iter().map(gap).sum::<u64>()
    };
    let wanted = (sum(|one| one.missing), sum(|one| one.skipped));
    let found = (told(|gap| gap.missing), told(|gap| gap.skipped));
    let all = connections.iter().all(|one| heard(&one));
    if found != wanted && (all || found.0 < wanted.0 || found.1 < wanted.1) {
        return Err(format!("{found:?} told missing and skipped, not {wanted:?}"));
    }
    Ok(())
}

pub(crate) fn message(event: &Told) -> Option<&Vec<u8>> {
    if let Told::Message(_, bytes) = event { Some(bytes) } else { None }
}

/// Where two lists of different length part.
fn first(connections: &[Expected], messages: &[&Vec<u8>]) -> String {
    let wanted = connections.iter().flat_map(|one| &one.messages);
    let same = wanted.clone().zip(messages).take_while(|((_, one), other)| one == **other).count();
    let known: BTreeSet<&Vec<u8>> = wanted.map(|(_, bytes)| bytes).collect();
    let strange = messages.iter().filter(|message| !known.contains(**message)).count();
    format!("; they part at {same}, {strange} were never sent")
}

/// Wherever messages are missing between two others, a gap is told there.
fn gaps(connections: &[Expected], events: &[Told]) -> Result<(), String> {
    let mut events = events.iter();
    for connection in connections {
        let mut next = 0;
        for (number, _) in &connection.messages {
            let mut gap = false;
            for event in events.by_ref() {
                match event {
                    Told::Gap(_) => gap = true,
                    Told::Message(..) => break,
                }
            }
            if *number != next && !gap {
                return Err(format!("messages {next} to {number} are missing without a word"));
            }
            next = number + 1;
        }
    }
    Ok(())
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
