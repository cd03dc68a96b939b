//! Failure detector: an agent without heartbeats for a while is lost until the next one arrives.
//!
//! It ignores the state of connections: the kernel keeps the connection of a hanging process open,
//! and a closed connection may be opened again.

use std::collections::BTreeMap;

use base::{Span, Time};

/// Interval of an agent's heartbeats.
pub const HEARTBEAT_INTERVAL: Span = Span::from_millis(500);

/// Time without a heartbeat after which an agent is lost, unless it sets another one: three lost
/// heartbeats, and some delay.
pub const SILENCE_TIMEOUT: Span = Span::from_secs(2);

/// Limits of a timeout that an agent sets.
pub const MIN_SILENCE_TIMEOUT: Span = Span::from_secs(1);
pub const MAX_SILENCE_TIMEOUT: Span = Span::from_secs(60);

/// A lost agent is forgotten after this time.
pub const FORGET_TIMEOUT: Span = Span::from_secs(600);

/// A change of an agent's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// No heartbeat within the timeout, or its orderly exit.
    Lost(String),
    /// The first heartbeat, or the first one after a loss.
    Alive(String),
    /// Another process has its name now; the previous process is lost.
    Replaced(String),
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    instance: u64,
    last_heartbeat: Time,
    alive: bool,
    timeout: Span,
}

#[derive(Clone, Debug)]
pub struct Detector {
    peers: BTreeMap<String, Peer>,
    timeout: Span,
    /// The previous call of [`Self::expire`]. A gap of more than two heartbeat intervals means that
    /// this process was suspended, so missing heartbeats do not count.
    last_check: Option<Time>,
}

impl Default for Detector {
    fn default() -> Self {
        Self::new()
    }
}

impl Detector {
    /// Max tracked agents; heartbeats of further ones are ignored.
    pub const MAX_AGENTS: usize = 4096;

    /// A detector with [`SILENCE_TIMEOUT`].
    pub fn new() -> Self {
        Self::with_timeout(SILENCE_TIMEOUT)
    }

    pub fn with_timeout(timeout: Span) -> Self {
        Self { peers: BTreeMap::new(), timeout, last_check: None }
    }

    pub fn on_heartbeat(&mut self, now: Time, name: &str, instance: u64) -> Option<Change> {
        if let Some(peer) = self.peers.get_mut(name) {
            let current = Peer { instance, last_heartbeat: now, alive: true, ..*peer };
            let before = std::mem::replace(peer, current);
            return if before.instance != instance {
                Some(Change::Replaced(name.to_owned()))
            } else if before.alive {
                None
            } else {
                Some(Change::Alive(name.to_owned()))
            };
        }
        if self.peers.len() >= Self::MAX_AGENTS {
            return None;
        }
        let timeout = self.timeout;
        let peer = Peer { instance, last_heartbeat: now, alive: true, timeout };
        self.peers.insert(name.to_owned(), peer);
        Some(Change::Alive(name.to_owned()))
    }

    /// Sets the timeout of an agent, within the limits.
    pub fn set_timeout(&mut self, name: &str, timeout: Span) {
        if let Some(peer) = self.peers.get_mut(name) {
            peer.timeout = timeout.clamp(MIN_SILENCE_TIMEOUT, MAX_SILENCE_TIMEOUT);
        }
    }

    /// Records the orderly exit of an agent.
    pub fn leave(&mut self, name: &str) -> Option<Change> {
        let peer = self.peers.get_mut(name).filter(|peer| peer.alive)?;
        peer.alive = false;
        Some(Change::Lost(name.to_owned()))
    }

    /// The agents whose timeout has passed. Call it at least every [`HEARTBEAT_INTERVAL`].
    pub fn expire(&mut self, now: Time) -> Vec<Change> {
        let gap = self.last_check.map_or(Span::ZERO, |last| now.since(last));
        self.last_check = Some(now);
        let suspended = if gap > HEARTBEAT_INTERVAL * 2 { gap } else { Span::ZERO };
        let mut changes = Vec::new();
        for (name, peer) in &mut self.peers {
            peer.last_heartbeat += suspended;
            if peer.alive && now.since(peer.last_heartbeat) >= peer.timeout {
                peer.alive = false;
                changes.push(Change::Lost(name.clone()));
            }
        }
        changes
    }

    /// Forgets agents that have been lost for [`FORGET_TIMEOUT`]; of more than half of
    /// [`Self::MAX_AGENTS`], those that have been lost for the longest time. Returns their names.
    pub fn forget(&mut self, now: Time) -> Vec<String> {
        let mut lost: Vec<(Time, String)> = (self.peers.iter())
            .filter(|(_, peer)| !peer.alive)
            .map(|(name, peer)| (peer.last_heartbeat, name.clone()))
            .collect();
        lost.sort_unstable();
        let mut excess = self.peers.len().saturating_sub(Self::MAX_AGENTS / 2);
        lost.retain(|(last_heartbeat, name)| {
            let forgotten = excess > 0 || now.since(*last_heartbeat) >= FORGET_TIMEOUT;
            excess = excess.saturating_sub(1);
            if forgotten {
                self.peers.remove(name);
            }
            forgotten
        });
        lost.into_iter().map(|(_, name)| name).collect()
    }

    pub fn is_alive(&self, name: &str) -> bool {
        self.peers.get(name).is_some_and(|peer| peer.alive)
    }

    /// The latest instance of an agent.
    pub fn instance(&self, name: &str) -> Option<u64> {
        self.peers.get(name).map(|peer| peer.instance)
    }

    /// All agents that are not forgotten, and whether they are alive.
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

    fn alive(name: &str) -> Change {
        Change::Alive(name.to_owned())
    }

    #[test]
    fn reports_loss_once_within_three_seconds() {
        let mut detector = Detector::new();
        assert_eq!(detector.on_heartbeat(at(0), "a", 1), Some(alive("a")));
        let mut changes = Vec::new();
        for millis in (0..6000).step_by(250) {
            if millis <= 1000 && millis % 500 == 0 {
                detector.on_heartbeat(at(millis), "a", 1);
            }
            for change in detector.expire(at(millis)) {
                changes.push((millis, change));
            }
        }
        assert_eq!(changes, vec![(3000, Change::Lost("a".to_owned()))]);
        assert!(!detector.is_alive("a"));
    }

    #[test]
    fn tolerates_three_lost_heartbeats() {
        let mut detector = Detector::new();
        detector.on_heartbeat(at(0), "a", 1);
        for millis in (0..1999).step_by(250) {
            assert_eq!(detector.expire(at(millis)), Vec::new(), "{millis}");
        }
        assert_eq!(detector.on_heartbeat(at(1999), "a", 1), None);
    }

    #[test]
    fn agents_set_their_timeouts_within_limits() {
        let mut detector = Detector::new();
        for (name, timeout) in [("none", 0), ("long", 5_000), ("endless", u64::MAX / 1_000_000)] {
            detector.on_heartbeat(at(0), name, 1);
            detector.set_timeout(name, Span::from_millis(timeout));
            // The same timeout applies after later heartbeats.
            assert_eq!(detector.on_heartbeat(at(0), name, 1), None);
        }
        let mut changes = Vec::new();
        for millis in (0..70_000).step_by(500) {
            changes.extend(detector.expire(at(millis)).into_iter().map(|change| (millis, change)));
        }
        let lost = |name: &str| Change::Lost(name.to_owned());
        let expected = [(1_000, lost("none")), (5_000, lost("long")), (60_000, lost("endless"))];
        assert_eq!(changes, expected);
    }

    #[test]
    fn reports_return_of_lost_agent() {
        let mut detector = Detector::new();
        detector.on_heartbeat(at(0), "a", 1);
        for millis in (0..2000).step_by(500) {
            detector.expire(at(millis));
        }
        assert_eq!(detector.expire(at(2000)), lost("a"));
        assert_eq!(detector.on_heartbeat(at(2100), "a", 1), Some(alive("a")));
        assert_eq!(detector.on_heartbeat(at(2200), "a", 1), None);
    }

    #[test]
    fn reports_replacement_by_another_process() {
        let mut detector = Detector::new();
        detector.on_heartbeat(at(0), "a", 1);
        let change = detector.on_heartbeat(at(10), "a", 2);
        assert_eq!(change, Some(Change::Replaced("a".to_owned())));
        assert_eq!(detector.instance("a"), Some(2));
    }

    #[test]
    fn own_suspension_does_not_count_as_silence() {
        let mut detector = Detector::new();
        detector.expire(at(0));
        detector.on_heartbeat(at(0), "a", 1);
        assert_eq!(detector.expire(at(60_000)), Vec::new());
        assert_eq!(detector.expire(at(60_500)), Vec::new());
        let rest: Vec<_> =
            (61_000..=63_000).step_by(500).flat_map(|millis| detector.expire(at(millis))).collect();
        assert_eq!(rest, lost("a"));
    }

    #[test]
    fn leaving_agent_is_lost_at_once() {
        let mut detector = Detector::new();
        detector.on_heartbeat(at(0), "a", 1);
        assert_eq!(detector.leave("a"), Some(Change::Lost("a".to_owned())));
        assert_eq!(detector.leave("a"), None);
        assert_eq!(detector.leave("b"), None);
    }

    #[test]
    fn forgets_lost_agents_after_timeout_or_in_excess() {
        let mut detector = Detector::new();
        detector.on_heartbeat(at(0), "alive", 1);
        detector.on_heartbeat(at(0), "gone", 1);
        detector.leave("gone");
        let timeout = FORGET_TIMEOUT.as_nanos() / 1_000_000;
        assert!(detector.forget(at(timeout - 1)).is_empty());
        assert_eq!(detector.forget(at(timeout)), ["gone"]);
        assert_eq!(detector.known().collect::<Vec<_>>(), [("alive", true)]);
        // Agents that have left do not count towards the limit.
        for number in 0..Detector::MAX_AGENTS as u64 {
            detector.on_heartbeat(at(number), &number.to_string(), 1);
            detector.leave(&number.to_string());
        }
        assert_eq!(detector.on_heartbeat(at(9_000), "new", 1), None);
        let forgotten = detector.forget(at(9_000));
        assert_eq!(forgotten.len(), Detector::MAX_AGENTS / 2);
        assert_eq!(forgotten[..2], ["0", "1"], "the longest lost");
        assert_eq!(detector.on_heartbeat(at(9_000), "new", 1), Some(alive("new")));
        assert!(detector.is_alive("alive"));
    }

    #[test]
    fn tracks_at_most_max_agents() {
        let mut detector = Detector::new();
        for number in 0..=Detector::MAX_AGENTS {
            detector.on_heartbeat(at(0), &number.to_string(), 1);
        }
        assert_eq!(detector.known().count(), Detector::MAX_AGENTS);
    }
}
