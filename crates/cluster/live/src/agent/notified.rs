//! The egress lead times and program events that a shard has been notified of, so that it is only
//! notified of changes.

use std::collections::BTreeMap;

use base::Span;
use cluster::AgentId;
use cluster::clock::is_significant_change;
use cluster::control::{ProgramChange, ProgramEvent};

use super::clocks::Clocks;

/// The current egress lead time for each agent of a lab.
#[derive(Debug, Default)]
pub(super) struct EgressLeads {
    current: Vec<Span>,
}

impl EgressLeads {
    pub(super) fn new(agents: &[String], clocks: &Clocks) -> Self {
        Self { current: agents.iter().map(|name| clocks.egress_lead(name)).collect() }
    }

    pub(super) fn nanos(&self) -> Vec<u64> {
        self.current.iter().map(|lead| lead.as_nanos()).collect()
    }

    /// Updates the lead times that have changed significantly, and returns them.
    pub(super) fn update(&mut self, agents: &[String], clocks: &Clocks) -> Vec<(AgentId, Span)> {
        let mut changed = Vec::new();
        for (at, (current, name)) in self.current.iter_mut().zip(agents).enumerate() {
            let lead = clocks.egress_lead(name);
            // It is zero if the statistics of the path were reset.
            if lead.is_positive() && is_significant_change(*current, lead) {
                *current = lead;
                changed.push((AgentId::at(at), lead));
            }
        }
        changed
    }
}

/// The latest event of each kind for each program.
#[derive(Debug, Default)]
pub(super) struct ProgramEvents {
    latest: BTreeMap<(u32, u8), ProgramEvent>,
}

impl ProgramEvents {
    /// Limit on events from other machines; above the number of programs of any lab.
    const MAX_EVENTS: usize = 3 << 16;

    /// Adds an event. Returns false if it is a duplicate or older than the latest of its kind.
    pub(super) fn insert(&mut self, event: ProgramEvent) -> bool {
        let kind = match event.change {
            ProgramChange::Started => 0,
            ProgramChange::Ready => 1,
            ProgramChange::Ended { .. } => 2,
        };
        let key = (event.program, kind);
        let known = self.latest.get(&key).is_some_and(|known| known.at_ns >= event.at_ns);
        if known || self.latest.len() >= Self::MAX_EVENTS {
            return false;
        }
        self.latest.insert(key, event);
        true
    }

    pub(super) fn all(&self) -> Vec<ProgramEvent> {
        let mut all: Vec<ProgramEvent> = self.latest.values().copied().collect();
        all.sort_by_key(|event| event.at_ns);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_duplicate_and_older_events() {
        let event = |at_ns, change| ProgramEvent { program: 3, at_ns, change };
        let [started, ready] = [event(1, ProgramChange::Started), event(2, ProgramChange::Ready)];
        let ended = event(3, ProgramChange::Ended { well: true });
        let mut programs = ProgramEvents::default();
        for event in [ready, started, ended] {
            assert!(programs.insert(event) && !programs.insert(event));
        }
        assert_eq!(programs.all(), [started, ready, ended]);
        let restarted = event(4, ProgramChange::Started);
        assert!(programs.insert(restarted) && !programs.insert(started));
        assert_eq!(programs.all(), [ready, ended, restarted]);
    }
}
