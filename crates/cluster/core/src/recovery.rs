//! Recovery of an agent's session after a network outage.
//!
//! **Problem.** Two agents that both connect to each other have one Zenoh transport with two links.
//! If an outage lasts about as long as the lease, one agent closes the transport and connects
//! again, while the other agent still has one of the two links. The other agent then adds the new
//! link to its old transport, and neither sends its subscriptions again: the network works, but
//! heartbeats no longer arrive.
//!
//! **Recovery.** An agent probes lost agents through a temporary session. If a probe receives
//! heartbeats of an agent that is still lost in the agent's session some time later, the agent
//! replaces its session. A new session has another identifier, so that no old transport matches it.

use std::collections::BTreeMap;

use base::{RandomStream, Span, Time};

use crate::detector::Detector;

/// Time from the loss of an agent to the first probe. Short outages end earlier.
pub const PROBE_DELAY: Span = Span::from_secs(4);
/// Additional time if most of the known agents are alive: the lost agent probably has the defective
/// session, and replaces it first.
pub const MINORITY_DELAY: Span = Span::from_secs(10);
pub const MIN_PROBE_INTERVAL: Span = Span::from_secs(4);
pub const MAX_PROBE_INTERVAL: Span = Span::from_secs(120);
/// Time after a successful probe in which the agent may return without a new session. A connection
/// attempt that started during the outage takes up to 5 s, and the next one follows after 2 s.
pub const RETURN_TIMEOUT: Span = Span::from_secs(8);
pub const MIN_REPLACE_INTERVAL: Span = Span::from_secs(30);
pub const MAX_REPLACE_INTERVAL: Span = Span::from_secs(600);
/// Limits of the pause after a session could not be opened.
pub const MIN_RETRY_INTERVAL: Span = Span::from_millis(500);
pub const MAX_RETRY_INTERVAL: Span = Span::from_secs(30);
/// Time from the loss of an agent to its last probe.
pub const PROBE_TIMEOUT: Span = Span::from_secs(24 * 3600);

/// A long operation of the driver. It reports the result before the next one starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a temporary session to find one of these agents; report [`Recovery::on_probed`].
    Probe(Vec<String>),
    /// Close the session and open a new one; report [`Recovery::on_replaced`].
    Replace,
}

/// An interval that doubles up to a maximum.
#[derive(Clone, Copy, Debug)]
struct Backoff {
    next: Span,
    max: Span,
}

impl Backoff {
    fn new(min: Span, max: Span) -> Self {
        Self { next: min, max }
    }

    /// The next interval, with up to 50 % of jitter.
    fn step(&mut self, random: &mut RandomStream) -> Span {
        let interval = self.next;
        self.next = (interval * 2).min(self.max);
        jittered(interval, random)
    }
}

fn jittered(interval: Span, random: &mut RandomStream) -> Span {
    interval + Span::from_nanos(random.below(interval.as_nanos() / 2 + 1))
}

#[derive(Debug)]
pub struct Recovery {
    /// Lost agents, with the times of their loss.
    lost: BTreeMap<String, Time>,
    random: RandomStream,
    /// An action is in progress.
    busy: bool,
    next_probe: Time,
    probe_backoff: Backoff,
    /// A lost agent that a probe has found, and the time until which it may return.
    reachable: Option<(String, Time)>,
    /// The earliest time of the next replacement.
    next_replace: Time,
    replace_backoff: Backoff,
    /// Time of the next attempt to open the session, if the latest one has failed.
    retry: Option<Time>,
    retry_backoff: Backoff,
}

impl Recovery {
    /// `seed` must differ between agents, so that they do not replace their sessions at once.
    pub fn new(seed: u64) -> Self {
        Self {
            lost: BTreeMap::new(),
            random: RandomStream::new(seed, "recovery"),
            busy: false,
            next_probe: Time::ZERO,
            probe_backoff: Backoff::new(MIN_PROBE_INTERVAL, MAX_PROBE_INTERVAL),
            reachable: None,
            next_replace: Time::ZERO,
            replace_backoff: Backoff::new(MIN_REPLACE_INTERVAL, MAX_REPLACE_INTERVAL),
            retry: None,
            retry_backoff: Backoff::new(MIN_RETRY_INTERVAL, MAX_RETRY_INTERVAL),
        }
    }

    /// An agent is lost, and `alive` others are not.
    pub fn on_loss(&mut self, now: Time, name: &str, alive: usize) {
        if self.lost.len() >= Detector::MAX_AGENTS {
            return;
        }
        let first = self.lost.is_empty();
        self.lost.insert(name.to_owned(), now);
        let mut delay = jittered(PROBE_DELAY, &mut self.random);
        if self.lost.len() <= alive {
            delay += MINORITY_DELAY;
        }
        let probe = now + delay;
        self.next_probe = if first { probe } else { self.next_probe.min(probe) };
        self.probe_backoff = Backoff::new(MIN_PROBE_INTERVAL, MAX_PROBE_INTERVAL);
    }

    /// An agent is alive again, or has left in an orderly way.
    pub fn on_return(&mut self, name: &str) {
        self.lost.remove(name);
        if self.reachable.as_ref().is_some_and(|(agent, _)| agent == name) {
            self.reachable = None;
        }
        if self.lost.is_empty() {
            self.replace_backoff = Backoff::new(MIN_REPLACE_INTERVAL, MAX_REPLACE_INTERVAL);
        }
    }

    /// The result of a probe: a lost agent whose heartbeats arrive in a temporary session.
    pub fn on_probed(&mut self, now: Time, found: Option<&str>) {
        self.busy = false;
        self.next_probe = now + self.probe_backoff.step(&mut self.random);
        if let Some(found) = found.filter(|found| self.lost.contains_key(*found)) {
            self.reachable = Some((found.to_owned(), now + RETURN_TIMEOUT));
        }
    }

    /// The session was replaced; or the old one is closed, and no new one could be opened.
    pub fn on_replaced(&mut self, now: Time, is_open: bool) {
        self.busy = false;
        self.reachable = None;
        if is_open {
            self.retry = None;
            self.retry_backoff = Backoff::new(MIN_RETRY_INTERVAL, MAX_RETRY_INTERVAL);
            self.next_replace = now + self.replace_backoff.step(&mut self.random);
            self.probe_backoff = Backoff::new(MIN_PROBE_INTERVAL, MAX_PROBE_INTERVAL);
            self.next_probe = now + jittered(RETURN_TIMEOUT, &mut self.random);
        } else {
            self.retry = Some(now + self.retry_backoff.step(&mut self.random));
        }
    }

    /// The action that is due; `None` while one is in progress.
    pub fn next_action(&mut self, now: Time) -> Option<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        if self.retry.is_none() && self.reachable.is_none() {
            self.lost.retain(|_, since| now.since(*since) < PROBE_TIMEOUT);
            if self.lost.is_empty() {
                return None;
            }
            self.busy = true;
            return Some(Action::Probe(self.lost.keys().cloned().collect()));
        }
        self.busy = true;
        Some(Action::Replace)
    }

    /// Time of the next action; `None` if none is planned.
    pub fn deadline(&self) -> Option<Time> {
        match (&self.retry, &self.reachable) {
            _ if self.busy => None,
            (Some(retry), _) => Some(*retry),
            (None, Some((_, by))) => Some((*by).max(self.next_replace)),
            (None, None) => (!self.lost.is_empty()).then_some(self.next_probe),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn probe(names: &[&str]) -> Action {
        Action::Probe(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn advance(recovery: &mut Recovery) -> (Time, Action) {
        let deadline = recovery.deadline().unwrap();
        let before = Time::from_nanos(deadline.as_nanos().saturating_sub(1));
        assert_eq!(recovery.next_action(before), None, "not before the deadline");
        (deadline, recovery.next_action(deadline).unwrap())
    }

    #[test]
    fn agent_that_returns_in_time_causes_no_action() {
        let mut recovery = Recovery::new(1);
        assert_eq!(recovery.deadline(), None);
        recovery.on_loss(at(0), "b", 0);
        assert_eq!(recovery.next_action(at(3_999)), None);
        recovery.on_return("b");
        assert_eq!((recovery.deadline(), recovery.next_action(at(60_000))), (None, None));
    }

    #[test]
    fn replaces_session_if_probed_agent_stays_lost() {
        let mut recovery = Recovery::new(1);
        recovery.on_loss(at(0), "b", 0);
        let (now, action) = advance(&mut recovery);
        assert_eq!(action, probe(&["b"]));
        assert!((at(4_000)..=at(6_000)).contains(&now), "{now}");
        assert_eq!((recovery.deadline(), recovery.next_action(at(99_000))), (None, None), "busy");
        recovery.on_probed(now, Some("b"));
        let (later, action) = advance(&mut recovery);
        assert_eq!((later, action), (now + RETURN_TIMEOUT, Action::Replace));
        recovery.on_replaced(later, true);
        recovery.on_return("b");
        assert_eq!(recovery.deadline(), None);
    }

    #[test]
    fn keeps_session_if_reachable_agent_returns() {
        let mut recovery = Recovery::new(1);
        recovery.on_loss(at(0), "b", 0);
        recovery.on_loss(at(0), "c", 0);
        let (now, _) = advance(&mut recovery);
        recovery.on_probed(now, Some("b"));
        recovery.on_return("b");
        let (_, action) = advance(&mut recovery);
        assert_eq!(action, probe(&["c"]), "only the other one is probed");
        recovery.on_return("c");
        recovery.on_probed(at(20_000), Some("c"));
        assert_eq!(recovery.deadline(), None, "the result is out of date");
    }

    #[test]
    fn unreachable_agent_is_probed_with_bounded_backoff_and_session_kept() {
        let mut recovery = Recovery::new(1);
        recovery.on_loss(at(0), "b", 0);
        let (mut last, mut intervals) = (at(0), Vec::new());
        while let Some(now) = recovery.deadline() {
            let Some(action) = recovery.next_action(now) else { break };
            assert_eq!(action, probe(&["b"]));
            recovery.on_probed(now, None);
            intervals.push(now.since(last));
            last = now;
        }
        assert!(last.since(at(0)) >= PROBE_TIMEOUT - MAX_PROBE_INTERVAL * 2, "{last}");
        assert_eq!(recovery.deadline(), None, "not probed for ever");
        let max = MAX_PROBE_INTERVAL + Span::from_secs(60);
        assert!(intervals.iter().all(|interval| (MIN_PROBE_INTERVAL..=max).contains(interval)));
        assert!(intervals[8..].iter().all(|interval| *interval >= MAX_PROBE_INTERVAL));
        assert!(intervals[8] != intervals[9], "jitter");
    }

    #[test]
    fn replacements_without_effect_become_rare() {
        let mut recovery = Recovery::new(1);
        recovery.on_loss(at(0), "b", 0);
        let (mut last, mut count) = (None::<Time>, 0);
        while recovery.deadline().unwrap() < at(24 * 3_600_000) {
            let (now, action) = advance(&mut recovery);
            if action == Action::Replace {
                let interval = last.map(|last| now.since(last));
                assert!(interval.is_none_or(|interval| interval >= MIN_REPLACE_INTERVAL));
                (last, count) = (Some(now), count + 1);
                recovery.on_replaced(now, true);
            } else {
                recovery.on_probed(now, Some("b"));
            }
        }
        // 24 h divided by 10 to 15 min, and a few at the start.
        assert!((90..=160).contains(&count), "{count}");
    }

    #[test]
    fn lost_agent_replaces_its_session_before_the_others() {
        let [mut lost, mut other] = [1, 2].map(Recovery::new);
        lost.on_loss(at(0), "b", 1);
        lost.on_loss(at(10), "c", 0);
        other.on_loss(at(0), "a", 1);
        assert!(lost.deadline().unwrap() <= at(6_010));
        assert!(other.deadline().unwrap() >= at(14_000));
    }

    #[test]
    fn opens_closed_session_again_until_it_succeeds() {
        let mut recovery = Recovery::new(1);
        recovery.on_loss(at(0), "b", 0);
        let (mut now, _) = advance(&mut recovery);
        recovery.on_probed(now, Some("b"));
        for attempt in 0..20 {
            let (due, action) = advance(&mut recovery);
            assert_eq!(action, Action::Replace);
            let max = MAX_RETRY_INTERVAL + Span::from_secs(15);
            assert!(due.since(now) <= max, "attempt {attempt} after {}", due.since(now));
            now = due;
            recovery.on_replaced(now, false);
            // The session is closed, even if the agent was alive in the meantime.
            recovery.on_return("b");
        }
        let (due, _) = advance(&mut recovery);
        recovery.on_replaced(due, true);
        assert_eq!(recovery.deadline(), None);
    }

    #[test]
    fn tracks_at_most_max_agents() {
        let mut recovery = Recovery::new(1);
        for number in 0..=Detector::MAX_AGENTS {
            recovery.on_loss(at(0), &number.to_string(), 0);
        }
        let (_, action) = advance(&mut recovery);
        assert!(matches!(action, Action::Probe(names) if names.len() == Detector::MAX_AGENTS));
    }
}
