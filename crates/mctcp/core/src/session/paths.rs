//! The client's paths: when to open a connection on which path, and when to retry.

use base::{Span, Time};

use crate::frame::Priority;
use crate::{PathId, SubflowId};

/// Delay between attempts on different paths until one is connected (RFC 8305 §8).
pub(super) const NEXT_PATH_DELAY: Span = Span::from_millis(250);
/// Delays before a path is retried; the last one applies to all further retries.
const RETRY_DELAYS: [Span; 3] =
    [Span::from_millis(250), Span::from_millis(500), Span::from_millis(500)];
/// Timeout of an attempt. TCP retransmits SYN 1 s and 3 s after the first one (RFC 6298 §2), so a
/// new attempt after 2 s sends the next SYN earlier.
const CONNECT_TIMEOUT: Span = Span::from_millis(2_000);
/// Lifetime of a subflow after which the delays of retries start again from the first one.
const MIN_WORKING_LIFETIME: Span = Span::from_millis(1_000);
/// Delay of the first attempt to replace a stale subflow.
const STALE_RETRY_DELAY: Span = Span::from_millis(1_000);

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
    pub(super) stale: Option<SubflowId>,
    /// Number of consecutive failed attempts.
    failures: usize,
}

impl Path {
    pub(super) fn new(id: PathId, priority: Priority) -> Self {
        Self { id, priority, state: State::Idle, stale: None, failures: 0 }
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting { .. })
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Schedules a retry after a failed attempt, or the end of its subflow.
    pub(super) fn fail(&mut self, now: Time) {
        let wait = RETRY_DELAYS[self.failures.min(RETRY_DELAYS.len() - 1)];
        self.failures += 1;
        self.state = State::Waiting { until: now + wait };
    }

    /// Handles the end of one of its subflows.
    pub(super) fn on_subflow_end(&mut self, now: Time, subflow: SubflowId, opened: Time) {
        if self.stale == Some(subflow) {
            self.stale = None;
        }
        if self.state == State::Up(subflow) {
            // A path that is reset repeatedly must not be retried at once each time.
            if now.since(opened) > MIN_WORKING_LIFETIME {
                self.failures = 0;
            }
            self.fail(now);
        }
    }

    /// Schedules the replacement of its stale subflow.
    pub(super) fn mark_stale(&mut self, now: Time, subflow: SubflowId) {
        if self.state == State::Up(subflow) {
            self.stale = Some(subflow);
            self.state = State::Waiting { until: now + STALE_RETRY_DELAY };
        }
    }

    /// Cancels the replacement of a stale subflow that makes progress. Returns whether there is an
    /// attempt to cancel.
    pub(super) fn revive(&mut self, subflow: SubflowId) -> bool {
        if self.stale != Some(subflow) {
            return false;
        }
        let is_connecting = self.is_connecting();
        if !matches!(self.state, State::Up(_)) {
            self.stale = None;
            self.state = State::Up(subflow);
        }
        is_connecting
    }

    /// Time of its next action.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Connecting { since } => Some(since + CONNECT_TIMEOUT),
            State::Idle | State::Up(_) => None,
        }
    }

    /// Whether an attempt has timed out.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        matches!(self.state, State::Connecting { since } if since + CONNECT_TIMEOUT <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_retries_of_a_path() {
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
    fn cancels_the_replacement_of_a_revived_subflow() {
        let mut path = Path::new(PathId(0), Priority::default());
        path.state = State::Up(SubflowId(3));
        path.mark_stale(Time::ZERO, SubflowId(3));
        path.state = State::Connecting { since: Time::ZERO };
        assert!(path.revive(SubflowId(3)));
        assert_eq!((path.state, path.stale), (State::Up(SubflowId(3)), None));
        assert!(!path.revive(SubflowId(3)));
    }
}
