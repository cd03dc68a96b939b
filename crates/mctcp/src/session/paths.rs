//! The client's paths: when to open a connection on which, and again.

use base::{Span, Time};

use crate::frame::Priority;
use crate::{PathId, SubflowId};

/// While the first path does not answer, the next is tried this much later (RFC 8305 §8).
pub(super) const NEXT_PATH: Span = Span::from_millis(250);
/// Waits before a path is tried again, the last for ever.
const BACKOFF: [Span; 3] = [Span::from_millis(250), Span::from_millis(500), Span::from_millis(500)];
/// After this a new attempt has better chances than TCP's own next SYN.
const ATTEMPT: Span = Span::from_millis(2_000);
/// A subflow that lived this long has worked.
const PROVEN: Span = Span::from_millis(1_000);
/// A stale path is tried anew after this.
const RENEW: Span = Span::from_millis(1_000);

/// What happens on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing yet.
    Idle,
    /// It is tried again then.
    Waiting { until: Time },
    /// TCP is being opened.
    Connecting { since: Time },
    /// It has a subflow, and perhaps a stale one that the new one is to replace.
    Up(SubflowId),
}

/// A path of a client.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) priority: Priority,
    pub(super) state: State,
    /// A stale subflow, to end when a new one works.
    pub(super) stale: Option<(SubflowId, Time)>,
    /// Attempts in a row that led to nothing.
    failures: usize,
}

impl Path {
    pub(super) fn new(id: PathId, priority: Priority) -> Self {
        Self { id, priority, state: State::Idle, stale: None, failures: 0 }
    }

    /// An attempt has led to nothing, or its subflow is gone.
    pub(super) fn fail(&mut self, now: Time) {
        let wait = BACKOFF[self.failures.min(BACKOFF.len() - 1)];
        self.failures += 1;
        self.state = State::Waiting { until: now + wait };
    }

    /// A subflow of it is gone.
    pub(super) fn on_subflow_end(&mut self, now: Time, subflow: SubflowId, opened: Time) {
        if self.stale.is_some_and(|(stale, _)| stale == subflow) {
            self.stale = None;
        }
        if self.state == State::Up(subflow) {
            // One that is reset again and again is not to be tried without end at once.
            if now.since(opened) > PROVEN {
                self.failures = 0;
            }
            self.fail(now);
        }
    }

    /// Its subflow has become stale.
    pub(super) fn grow_stale(&mut self, now: Time, subflow: SubflowId) {
        if self.state == State::Up(subflow) {
            self.stale = Some((subflow, now));
            self.state = State::Waiting { until: now + RENEW };
        }
    }

    /// Its stale subflow moves again: no other is needed. Tells whether an attempt is to be given
    /// up.
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

    /// When something is to be done about it.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Connecting { since } => Some(since + ATTEMPT),
            State::Idle | State::Up(_) => None,
        }
    }

    /// Whether an attempt takes too long.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        matches!(self.state, State::Connecting { since } if since + ATTEMPT <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_tried_again_at_growing_distances() {
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
    fn a_subflow_that_moves_again_is_kept() {
        let mut path = Path::new(PathId(0), Priority::default());
        path.state = State::Up(SubflowId(3));
        path.grow_stale(Time::ZERO, SubflowId(3));
        path.state = State::Connecting { since: Time::ZERO };
        assert!(path.revive(SubflowId(3)));
        assert_eq!((path.state, path.stale), (State::Up(SubflowId(3)), None));
        assert!(!path.revive(SubflowId(3)));
    }
}
