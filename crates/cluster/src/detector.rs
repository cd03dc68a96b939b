//! Which agents are alive: who has not been heard of for a while is lost, until heard again.
//!
//! Silence is the only sign that is trusted: a connection that the kernel still holds open says
//! nothing of a process that hangs, and one that is closed may come back.

use std::collections::BTreeMap;

use base::{Span, Time};

/// How often an agent says that it is there.
pub const HEARTBEAT: Span = Span::from_millis(500);

/// After so much silence an agent is lost: three heartbeats in a row, and some delay.
pub const SILENCE: Span = Span::from_secs(2);

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has not been heard of for [`SILENCE`].
    Lost(String),
    /// It is heard of for the first time, or again.
    Heard(String),
    /// Another process has its name now: the one before is lost.
    Replaced(String),
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    instance: u64,
    heard: Time,
    alive: bool,
}

impl Default for Detector {
    fn default() -> Self {
        Self::new()
    }
}

/// Notes who is heard of.
#[derive(Clone, Debug)]
pub struct Detector {
    peers: BTreeMap<String, Peer>,
    silence: Span,
    /// When it was last asked; a longer gap than a heartbeat means that the own process stood
    /// still, and that the others' silence says nothing.
    looked: Option<Time>,
}

impl Detector {
    /// Most agents that are noted; others are not heard.
    pub const MOST: usize = 4096;

    /// Nobody is known yet.
    pub fn new() -> Self {
        Self::patient(SILENCE)
    }

    /// Nobody is known yet; agents are lost after another silence.
    pub fn patient(silence: Span) -> Self {
        Self { peers: BTreeMap::new(), silence, looked: None }
    }

    /// An agent was heard of.
    pub fn hear(&mut self, now: Time, name: &str, instance: u64) -> Option<Change> {
        if let Some(peer) = self.peers.get_mut(name) {
            let before = *peer;
            *peer = Peer { instance, heard: now, alive: true };
            return if before.instance != instance {
                Some(Change::Replaced(name.to_owned()))
            } else if before.alive {
                None
            } else {
                Some(Change::Heard(name.to_owned()))
            };
        }
        if self.peers.len() >= Self::MOST {
            return None;
        }
        self.peers.insert(name.to_owned(), Peer { instance, heard: now, alive: true });
        Some(Change::Heard(name.to_owned()))
    }

    /// An agent has said that it leaves.
    pub fn leave(&mut self, name: &str) -> Option<Change> {
        let peer = self.peers.get_mut(name).filter(|peer| peer.alive)?;
        peer.alive = false;
        Some(Change::Lost(name.to_owned()))
    }

    /// Time has passed: to be called at least once a [`HEARTBEAT`].
    pub fn look(&mut self, now: Time) -> Vec<Change> {
        let gap = self.looked.map_or(Span::ZERO, |looked| now.since(looked));
        self.looked = Some(now);
        let slept = if gap > HEARTBEAT + HEARTBEAT { gap } else { Span::ZERO };
        let mut changes = Vec::new();
        for (name, peer) in &mut self.peers {
            peer.heard += slept;
            if peer.alive && now.since(peer.heard) >= self.silence {
                peer.alive = false;
                changes.push(Change::Lost(name.clone()));
            }
        }
        changes
    }

    /// Whether an agent has been heard of of late.
    pub fn is_alive(&self, name: &str) -> bool {
        self.peers.get(name).is_some_and(|peer| peer.alive)
    }

    /// The process that has a name.
    pub fn instance(&self, name: &str) -> Option<u64> {
        self.peers.get(name).map(|peer| peer.instance)
    }

    /// All agents that were ever heard of, and whether they are alive.
    pub fn known(&self) -> impl Iterator<Item = (&str, bool)> {
        self.peers.iter().map(|(name, peer)| (&**name, peer.alive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn lost(name: &str) -> Vec<Change> {
        vec![Change::Lost(name.to_owned())]
    }

    #[test]
    fn silence_is_noticed_within_three_seconds_and_once() {
        let mut detector = Detector::new();
        assert_eq!(detector.hear(at(0), "a", 1), Some(Change::Heard("a".to_owned())));
        let mut noticed = Vec::new();
        for millis in (0..6000).step_by(250) {
            if millis <= 1000 && millis % 500 == 0 {
                detector.hear(at(millis), "a", 1);
            }
            for change in detector.look(at(millis)) {
                noticed.push((millis, change));
            }
        }
        assert_eq!(noticed, vec![(3000, Change::Lost("a".to_owned()))]);
        assert!(!detector.is_alive("a"));
    }

    #[test]
    fn three_lost_heartbeats_are_no_loss() {
        let mut detector = Detector::new();
        detector.hear(at(0), "a", 1);
        for millis in (0..1999).step_by(250) {
            assert_eq!(detector.look(at(millis)), Vec::new(), "{millis}");
        }
        assert_eq!(detector.hear(at(1999), "a", 1), None);
    }

    #[test]
    fn who_comes_back_is_heard_again() {
        let mut detector = Detector::new();
        detector.hear(at(0), "a", 1);
        for millis in (0..2000).step_by(500) {
            detector.look(at(millis));
        }
        assert_eq!(detector.look(at(2000)), lost("a"));
        assert_eq!(detector.hear(at(2100), "a", 1), Some(Change::Heard("a".to_owned())));
        assert_eq!(detector.hear(at(2200), "a", 1), None);
    }

    #[test]
    fn another_process_of_that_name_replaces_the_first() {
        let mut detector = Detector::new();
        detector.hear(at(0), "a", 1);
        assert_eq!(detector.hear(at(10), "a", 2), Some(Change::Replaced("a".to_owned())));
        assert_eq!(detector.instance("a"), Some(2));
    }

    #[test]
    fn who_slept_itself_blames_nobody() {
        let mut detector = Detector::new();
        detector.look(at(0));
        detector.hear(at(0), "a", 1);
        assert_eq!(detector.look(at(60_000)), Vec::new());
        assert_eq!(detector.look(at(60_500)), Vec::new());
        let rest: Vec<_> =
            (61_000..=63_000).step_by(500).flat_map(|millis| detector.look(at(millis))).collect();
        assert_eq!(rest, lost("a"));
    }

    #[test]
    fn who_leaves_is_lost_at_once() {
        let mut detector = Detector::new();
        detector.hear(at(0), "a", 1);
        assert_eq!(detector.leave("a"), Some(Change::Lost("a".to_owned())));
        assert_eq!(detector.leave("a"), None);
        assert_eq!(detector.leave("b"), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut detector = Detector::new();
        for number in 0..=Detector::MOST {
            detector.hear(at(0), &number.to_string(), 1);
        }
        assert_eq!(detector.known().count(), Detector::MOST);
    }
}
