//! Compares the output with the expected output.

use std::collections::{BTreeMap, BTreeSet};

use crate::collect::{Outcome, Output};
use crate::mrt;
use crate::oracle::{Expected, Way};

/// Compares the whole output; returns the first difference as text.
pub(crate) fn judge(
    expected: &BTreeMap<Way, Vec<Expected>>,
    outcome: &Outcome,
) -> Result<(), String> {
    let output = outcome.output();
    for (way, connections) in expected {
        let events = output.get(way).map(Vec::as_slice).unwrap_or_default();
        let other = expected.get(&(way.0, way.2, way.1)).map(Vec::as_slice).unwrap_or_default();
        direction(connections, other, events).map_err(|why| format!("{way:?}: {why}"))?;
    }
    if let Some(way) = output.keys().find(|way| !expected.contains_key(way)) {
        return Err(format!("{way:?} sent nothing"));
    }
    let all = || expected.values().flatten();
    let (missing, captured): (u64, u64) =
        (all().map(|one| one.missing).sum(), all().map(|one| one.captured).sum());
    let archived_bytes: usize = output.values().flatten().filter_map(message).map(Vec::len).sum();
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

/// One direction: messages in order, a gap for each missing message, and all bytes accounted for.
fn direction(
    connections: &[Expected],
    other: &[Expected],
    events: &[Output],
) -> Result<(), String> {
    explained(connections, events)?;
    // Connections without messages are in the account of reassembly.
    let has_data = |one: &Expected| {
        let answered = other.iter().find(|other| other.connection == one.connection);
        let certain = |one: &Expected| one.certain.contains(&true);
        certain(one) || answered.is_some_and(certain)
    };
    let output = |part: fn(&collector::Gap) -> u64| {
        let gap = |event: &Output| if let Output::Gap(gap) = event { part(gap) } else { 0 };
        events.iter().map(gap).sum::<u64>()
    };
    let bytes: usize = events.iter().filter_map(message).map(Vec::len).sum();
    let captured: u64 = connections.iter().map(|one| one.captured).sum();
    let missing: u64 = connections.iter().map(|one| one.missing).sum();
    let wanted = (missing, captured - bytes as u64);
    let found = (output(|gap| gap.missing), output(|gap| gap.skipped));
    let all = connections.iter().all(has_data);
    if found != wanted && (all || found.0 > wanted.0 || found.1 > wanted.1) {
        return Err(format!("{found:?} output missing and skipped, not {wanted:?}"));
    }
    Ok(())
}

/// Whether events are the sent messages, possibly without those that are not required, and with a
/// gap for each missing one.
fn explained(connections: &[Expected], events: &[Output]) -> Result<(), String> {
    let (mut output, mut gaps, mut gap) = (Vec::new(), Vec::new(), false);
    for event in events {
        match event {
            Output::Gap(_) => gap = true,
            Output::Message(_, bytes) => {
                output.push(bytes);
                gaps.push(std::mem::take(&mut gap));
            }
        }
    }
    // Number of messages found so far, and whether the last one of the stream was.
    let mut reached = BTreeSet::from([(0, true)]);
    for (number, connection) in connections.iter().enumerate() {
        reached = reached.into_iter().map(|(at, _)| (at, true)).collect();
        for (place, sent) in connection.messages.iter().enumerate() {
            let mut next = BTreeSet::new();
            for (at, follows) in &reached {
                let is_next = sent.is_some() && output.get(*at).copied() == sent.as_ref();
                if is_next && (*follows || gaps[*at]) {
                    next.insert((at + 1, true));
                }
                if !connection.certain[place] {
                    next.insert((*at, false));
                }
            }
            if next.is_empty() {
                let at = reached.iter().map(|(at, _)| *at).max();
                let found = at.and_then(|at| output.get(at));
                let found = found.map(|found| {
                    connection.messages.iter().position(|sent| sent.as_ref() == Some(found))
                });
                return Err(format!(
                    "message {place} of connection {number} is not there, or no gap before it; \
                     {at:?} of {} were found, the next one is {found:?}",
                    output.len()
                ));
            }
            reached = next;
        }
    }
    if reached.iter().any(|(at, _)| *at == output.len()) {
        return Ok(());
    }
    let at = reached.iter().map(|(at, _)| *at).max();
    Err(format!("{at:?} of {} messages are those that were sent", output.len()))
}

pub(crate) fn message(event: &Output) -> Option<&Vec<u8>> {
    if let Output::Message(_, bytes) = event { Some(bytes) } else { None }
}

pub(crate) fn archived(outcome: &Outcome) -> Result<(), String> {
    let mut archive = mrt::messages(&outcome.archive);
    for (way, output) in &outcome.collected.from_peers {
        let archived = archive.remove(way).unwrap_or_default();
        if archived.len() != output.len()
            || archived.iter().zip(output).any(|(one, other)| one != other)
        {
            return Err(format!("the archive of {way:?} is not what was output"));
        }
    }
    if archive.is_empty() { Ok(()) } else { Err(format!("{:?} in the archive", archive.keys())) }
}
