//! The client's paths: when to open a connection on which path, and when to retry.

use base::{Span, Time};

use crate::frame::Priority;
use crate::{PathId, SubflowId};

/// Delay after which the next path is tried while the first does not answer (RFC 8305 §8).
pub(super) const NEXT_PATH: Span = Span::from_millis(250);
/// Delays before a path is retried; the last one applies to all further retries.
const BACKOFF: [Span; 3] = [Span::from_millis(250), Span::from_millis(500), Span::from_millis(500)];
/// Timeout of an attempt: a new attempt then has better chances than TCP's next SYN.
const ATTEMPT: Span = Span::from_millis(2_000);
/// Lifetime after which a subflow counts as working.
const PROVEN: Span = Span::from_millis(1_000);
/// Time after which a stale path gets a new attempt.
const RENEW: Span = Span::from_millis(1_000);

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No attempt was made yet.
    Idle,
    /// The next attempt is due at this time.
    Waiting { until: Time },
    /// A TCP connection is being opened.
    Connecting { since: Time },
    /// It has a subflow, and possibly a stale one that the new one replaces.
    Up(SubflowId),
}

/// A path of a client.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) priority: Priority,
    pub(super) state: State,
    /// A stale subflow, which ends when a new one works.
    pub(super) stale: Option<(SubflowId, Time)>,
    /// Number of consecutive failed attempts.
    failures: usize,
}

impl Path {
    pub(super) fn new(id: PathId, priority: Priority) -> Self {
        Self { id, priority, state: State::Idle, stale: None, failures: 0 }
    }

    /// Handles a failed attempt, or the end of its subflow.
    pub(super) fn fail(&mut self, now: Time) {
        let wait = BACKOFF[self.failures.min(BACKOFF.len() - 1)];
        self.failures += 1;
        self.state = State::Waiting { until: now + wait };
    }

    /// Handles the end of one of its subflows.
    pub(super) fn on_subflow_end(&mut self, now: Time, subflow: SubflowId, opened: Time) {
        if self.stale.is_some_and(|(stale, _)| stale == subflow) {
            self.stale = None;
        }
        if self.state == State::Up(subflow) {
            // A path that is reset repeatedly must not be retried at once each time.
            if now.since(opened) > PROVEN {
                self.failures = 0;
            }
            self.fail(now);
        }
    }

    /// Handles that its subflow became stale.
    pub(super) fn grow_stale(&mut self, now: Time, subflow: SubflowId) {
        if self.state == State::Up(subflow) {
            self.stale = Some((subflow, now));
            self.state = State::Waiting { until: now + RENEW };
        }
    }

    /// Handles progress of its stale subflow, which needs no replacement. Returns whether to
    /// cancel an attempt.
    pub(super) fn revive(&mut self, subflow: SubflowId) -> bool {
        if self.stale.is_none_or(|(stale, _)| stale != subflow) {
            return false;
        }
        let connecting = matches!(self.state, State::Connecting { .. });
        if connecting || matches!(self.state, State::Waiting { .. } | State::Idle) {
            self.stale = None;
            self.state = State::Up(subflow);
        }
        connecting
    }

    /// Time of its next action.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Connecting { since } => Some(since + ATTEMPT),
            State::Idle | State::Up(_) => None,
        }
    }

    /// Whether an attempt has timed out.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        matches!(self.state, State::Connecting { since } if since + ATTEMPT <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_a_path_with_backoff() {
        let mut path = Path::new(PathId(0), Priority::default());
        let mut waits = Vec::new();
        for _ in 0..5 {
            path.fail(Time::ZERO);
            waits.push(path.deadline().unwrap().since(Time::ZERO).as_nanos() / 1_000_000);
        }
        assert_eq!(waits, [250, 500, 500, 500, 500]);
        let now = Time::ZERO + Span::from_secs(2);
        path.state = State::Up(SubflowId(1));
        path.on_subflow_end(now, SubflowId(1), Time::ZERO);
        assert_eq!(path.deadline(), Some(now + Span::from_millis(250)));
    }

    #[test]
    fn revives_a_stale_subflow_that_moves() {
        let mut path = Path::new(PathId(0), Priority::default());
        path.state = State::Up(SubflowId(3));
        path.grow_stale(Time::ZERO, SubflowId(3));
        path.state = State::Connecting { since: Time::ZERO };
        assert!(path.revive(SubflowId(3)));
        assert_eq!((path.state, path.stale), (State::Up(SubflowId(3)), None));
        assert!(!path.revive(SubflowId(3)));
    }
}
