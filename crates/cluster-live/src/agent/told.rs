//! What pieces have been told, so that they are told news only.

use std::collections::BTreeMap;

use base::Span;
use cluster::AgentId;
use cluster::clock::is_news;
use cluster::control::{ProgramChange, ProgramEvent};

use super::clocks::Clocks;

/// How long before it is due a packet leaves for each member.
#[derive(Debug, Default)]
pub(super) struct Leads {
    told: Vec<Span>,
}

impl Leads {
    pub(super) fn of(members: &[String], clocks: &Clocks) -> Self {
        Self { told: members.iter().map(|name| clocks.lead(name)).collect() }
    }

    pub(super) fn nanos(&self) -> Vec<u64> {
        self.told.iter().map(|lead| lead.as_nanos()).collect()
    }

    /// The leads that have changed so much that the piece should know.
    pub(super) fn news(&mut self, members: &[String], clocks: &Clocks) -> Vec<(AgentId, Span)> {
        let mut news = Vec::new();
        for (at, (told, name)) in self.told.iter_mut().zip(members).enumerate() {
            let lead = clocks.lead(name);
            // Nothing is known of a path any more whose pings were forgotten.
            if lead.is_positive() && is_news(*told, lead) {
                *told = lead;
                news.push((AgentId::at(at), lead));
            }
        }
        news
    }
}

/// What has happened to programs last: their start, their readiness, their end.
#[derive(Debug, Default)]
pub(super) struct Programs {
    last: BTreeMap<(u32, u8), ProgramEvent>,
}

impl Programs {
    /// Nobody has more programs than this: events come from other machines.
    const MOST: usize = 3 << 16;

    /// Keeps an event; whether it was not known yet, nor a later one of its kind.
    pub(super) fn is_news(&mut self, event: ProgramEvent) -> bool {
        let kind = match event.change {
            ProgramChange::Started => 0,
            ProgramChange::Ready => 1,
            ProgramChange::Ended { .. } => 2,
        };
        let key = (event.program, kind);
        let known = self.last.get(&key).is_some_and(|known| known.at_ns >= event.at_ns);
        if known || self.last.len() >= Self::MOST {
            return false;
        }
        self.last.insert(key, event);
        true
    }

    /// All of them, in the order in which they took place.
    pub(super) fn all(&self) -> Vec<ProgramEvent> {
        let mut all: Vec<ProgramEvent> = self.last.values().copied().collect();
        all.sort_by_key(|event| event.at_ns);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_news_once() {
        let event = |at_ns, change| ProgramEvent { program: 3, at_ns, change };
        let [started, ready] = [event(1, ProgramChange::Started), event(2, ProgramChange::Ready)];
        let ended = event(3, ProgramChange::Ended { well: true });
        let mut programs = Programs::default();
        for event in [ready, started, ended] {
            assert!(programs.is_news(event) && !programs.is_news(event));
        }
        assert_eq!(programs.all(), [started, ready, ended]);
        let again = event(4, ProgramChange::Started);
        assert!(programs.is_news(again) && !programs.is_news(started));
        assert_eq!(programs.all(), [ready, ended, again]);
    }
}
