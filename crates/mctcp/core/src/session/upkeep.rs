//! Deadlines: of paths, handshakes, acknowledgements and idle sessions.

use base::{Span, Time};

use super::opening::{Greeting, UNANSWERED};
use super::paths::{self, NEXT_PATH};
use super::subflow::{State, Subflow};
use super::{Output, Phase, Session};
use crate::Reason;
use crate::frame::Frame;
use crate::payload::Payload;

/// Maximum time for which a draining subflow waits for acknowledgements.
pub(super) const DRAIN: Span = Span::from_millis(1_000);
/// Bounds of the interval of TCP inspections.
const MIN_INSPECT_INTERVAL: Span = Span::from_millis(10);
const MAX_INSPECT_INTERVAL: Span = Span::from_millis(50);
/// Interval at which the peer is probed for credit if there is none.
const CREDIT_PROBE: Span = Span::from_millis(2_000);

impl<P: Payload> Session<P> {
    /// The earliest deadline.
    pub fn next_wake(&self) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        // Overdue work waits for another event: room on a subflow, or a further path.
        let ahead = |at: &Time| *at > self.now;
        let joins = (!self.multipath && self.greeting.is_some() && self.is_moving())
            .then_some(self.born + self.settings.join_delay)
            .filter(ahead);
        let opening = self.greeting.as_ref().filter(|_| self.phase == Phase::Opening);
        let untried = self.paths.iter().any(|path| path.state == paths::State::Idle);
        let next_path = opening.filter(|_| untried).map(|greeting| greeting.next_path);
        let next_path = next_path.filter(ahead);
        let handshake = opening.map(|greeting| self.opening_deadline(greeting));
        let proof = (!self.released).then_some(self.born + self.settings.handshake);
        let lost = self.lost.map(|since| since + self.settings.resume);
        let idle = (self.phase == Phase::Established).then_some(self.silence_at());
        let credit = self.blocked_since.map(|since| since.max(self.probed) + CREDIT_PROBE);
        let delay = self.dack_delay();
        let own = [
            joins,
            next_path,
            handshake,
            proof,
            lost,
            idle,
            credit,
            self.inspect_at,
            self.tail_deadline().filter(ahead),
            self.unanswered_deadline(),
            self.scheduler_wait,
            self.acknowledging.deadline(delay).filter(|_| self.answering().is_some()),
        ];
        let subflows = self.subflows.iter();
        let subflows = subflows.filter_map(|s| subflow_deadline(s, self.settings.handshake, delay));
        let paths = self.paths.iter().filter_map(paths::Path::deadline).filter(ahead);
        let unanswered =
            self.subflows.iter().filter_map(Subflow::hello_unanswered_at).filter(ahead);
        own.into_iter().flatten().chain(subflows).chain(paths).chain(unanswered).min()
    }

    /// Timeout of the opening. A peer that has received HELLO answers at once; before that, TCP and
    /// the paths decide. A server drops a client without proof after the handshake timeout.
    fn opening_deadline(&self, greeting: &Greeting) -> Time {
        let greeted = if greeting.is_proof_pending() { greeting.since } else { greeting.delivered };
        match greeted {
            Some(greeted) => greeted + self.settings.handshake,
            None => self.born + self.settings.resume,
        }
    }

    /// Deadline of the next probe, or of the idle timeout.
    fn silence_at(&self) -> Time {
        let idle = self.idle();
        let probe = self.received_at.max(self.probed) + Span::from_nanos(idle.as_nanos() / 3);
        probe.min(self.received_at + idle)
    }

    /// The smaller idle timeout of both ends.
    fn idle(&self) -> Span {
        self.settings.idle.min(Span::from_secs(self.peer.idle.into()))
    }

    /// Handles expired deadlines.
    pub fn on_wake(&mut self, now: Time) {
        self.now = now;
        if self.is_over() {
            return;
        }
        if self.inspect_at.is_some_and(|at| at <= now) {
            self.inspect_at = None;
            self.inspect();
        }
        self.leave_unanswered();
        self.end_drained();
        self.end_overdue_handshakes();
        if self.phase == Phase::Opening {
            self.on_opening_wake();
        } else {
            self.on_silence();
        }
        if !self.is_over() {
            self.open_paths();
        }
    }

    fn on_opening_wake(&mut self) {
        let now = self.now;
        let Some(greeting) = &self.greeting else { return };
        let greeted = greeting.since.is_some();
        if now >= self.opening_deadline(greeting) {
            self.fail(self.refusal.unwrap_or(Reason::Timeout), false);
            return;
        }
        let unanswered = self.subflows.iter().all(|subflow| match subflow.state {
            State::Greeting { since } => now >= since + UNANSWERED,
            _ => true,
        });
        if greeted && unanswered {
            let held = self.subflows.iter().find(|subflow| subflow.state == State::Held);
            if let Some(id) = held.map(|subflow| subflow.id) {
                self.greet(id);
            } else {
                self.try_next_path();
            }
        }
    }

    fn on_silence(&mut self) {
        let now = self.now;
        if !self.released && now >= self.born + self.settings.handshake {
            // A client without the secret must not occupy a session.
            self.tell_reset(Reason::Authentication, "");
            self.fail(Reason::Authentication, false);
            return;
        }
        if self.lost.is_some_and(|since| now >= since + self.settings.resume) {
            self.give_up();
            return;
        }
        if now >= self.received_at + self.idle() {
            self.give_up();
            return;
        }
        let waits = self.blocked_since.is_some_and(|at| now >= at.max(self.probed) + CREDIT_PROBE);
        if now >= self.silence_at() || waits {
            self.probed = now;
            let third = Span::from_nanos(self.idle().as_nanos() / 3);
            if self.greeting.is_some() && now >= self.received_at + third + third {
                self.leave_silent();
            }
            let usable: Vec<_> =
                self.subflows.iter().filter(|s| s.is_usable()).map(|s| s.id).collect();
            for id in usable {
                self.send(id, Frame::Ping(now.as_nanos()));
            }
        }
    }

    /// Ends a session whose peer has ended. It closes without error if only the last
    /// acknowledgement is missing.
    fn give_up(&mut self) {
        let complete = self.incoming.is_complete() && self.outgoing.is_finished();
        if complete && self.outgoing.is_delivered() {
            self.on_unknown();
        } else {
            self.fail(Reason::Timeout, false);
        }
    }

    fn end_overdue_handshakes(&mut self) {
        let now = self.now;
        let timeout = self.settings.handshake;
        let overdue = |s: &&Subflow<P>| match s.state {
            State::Joining { since, .. } => now >= since + timeout,
            _ => false,
        };
        while let Some(id) = self.subflows.iter().find(overdue).map(|s| s.id) {
            self.drop_subflow(id, true);
        }
    }

    /// Schedules an inspection of TCP, because data are in flight.
    pub(super) fn inspect_soon(&mut self) {
        let due = self.now + self.inspect_interval();
        self.inspect_at = Some(self.inspect_at.map_or(due, |at| at.min(due)));
    }

    fn inspect_interval(&self) -> Span {
        let usable = self.subflows.iter().filter(|subflow| subflow.is_usable());
        let srtt = usable.map(Subflow::srtt).min().unwrap_or(MAX_INSPECT_INTERVAL);
        Span::from_nanos(srtt.as_nanos() / 2).clamp(MIN_INSPECT_INTERVAL, MAX_INSPECT_INTERVAL)
    }

    fn inspect(&mut self) {
        let mut waiting = false;
        let asked = |s: &&Subflow<P>| s.is_usable() || s.hello_unanswered_at().is_some();
        for subflow in self.subflows.iter().filter(asked).filter(|s| s.waiting) {
            waiting = true;
            self.outputs.push_back(Output::Inspect(subflow.id));
        }
        if waiting {
            self.inspect_soon();
        }
    }

    /// Whether data are being sent or received.
    fn is_moving(&self) -> bool {
        let written = self.outgoing.unsent() > 0 || self.outgoing.outstanding() > 0;
        written || (self.incoming.next() > 0 && !self.incoming.is_complete())
    }

    /// Opens connections on the paths that should have one.
    pub(super) fn open_paths(&mut self) {
        if self.greeting.is_none() || self.is_over() {
            return;
        }
        let now = self.now;
        for at in 0..self.paths.len() {
            if self.paths[at].is_overdue(now) {
                self.outputs.push_back(Output::Abandon(self.paths[at].id));
                self.paths[at].fail(now);
            }
        }
        if self.phase == Phase::Opening {
            let next = self.greeting.as_ref().map_or(now, |greeting| greeting.next_path);
            if self.subflows.is_empty() && now >= next {
                self.try_next_path();
            }
            self.greet_held();
        } else {
            self.judge();
        }
        for at in 0..self.paths.len() {
            if self.wants(at) {
                self.open_path(at);
            }
        }
    }

    /// If the subflow with HELLO is lost, repeats HELLO on a connected one.
    fn greet_held(&mut self) {
        let greeted = |s: &Subflow<P>| matches!(s.state, State::Greeting { .. });
        if self.subflows.iter().any(greeted) {
            return;
        }
        let held = self.subflows.iter().find(|subflow| subflow.state == State::Held);
        if let Some(id) = held.map(|subflow| subflow.id) {
            self.greet(id);
        }
    }

    fn open_path(&mut self, at: usize) {
        self.paths[at].state = paths::State::Connecting { since: self.now };
        self.outputs.push_back(Output::Connect(self.paths[at].id));
    }

    /// Before the session is established: tries one more path.
    pub(super) fn try_next_path(&mut self) {
        let next = self.paths.iter().position(|path| path.state == paths::State::Idle);
        if let Some(at) = next {
            self.open_path(at);
        }
        if let Some(greeting) = &mut self.greeting {
            greeting.next_path = self.now + NEXT_PATH;
        }
    }

    /// Determines whether there are enough data for further subflows.
    fn judge(&mut self) {
        let moved = self.outgoing.sent() + self.outgoing.unsent() + self.incoming.next();
        let old = self.now >= self.born + self.settings.join_delay && self.is_moving();
        self.multipath |= moved > self.settings.join_after.count() || old;
    }

    /// Whether a path needs a connection.
    fn wants(&self, at: usize) -> bool {
        let due = match self.paths[at].state {
            paths::State::Idle => {
                let alone = !self.subflows.iter().any(Subflow::is_active);
                self.phase == Phase::Established && (self.multipath || alone)
            }
            paths::State::Waiting { until } => until <= self.now,
            paths::State::Connecting { .. } | paths::State::Up(_) => false,
        };
        // Once both streams are complete, one subflow is sufficient for the server's answer.
        let enough = self.done && self.subflows.iter().any(Subflow::is_active);
        if !due || enough {
            return false;
        }
        let working = self.subflows.iter().filter(|subflow| !subflow.is_stale()).count();
        let connecting =
            |path: &&paths::Path| matches!(path.state, paths::State::Connecting { .. });
        let connecting = self.paths.iter().filter(connecting).count();
        let most = self.settings.max_subflows.min(self.peer.subflows).max(1);
        working + connecting < usize::from(most)
    }
}

fn subflow_deadline<P>(subflow: &Subflow<P>, handshake: Span, delay: Span) -> Option<Time> {
    let own = match subflow.state {
        State::Joining { since, .. } => Some(since + handshake),
        State::Draining { since } => Some(since + DRAIN),
        State::Held | State::Greeting { .. } | State::Active | State::Stale { .. } => None,
    };
    let answers = subflow.is_usable() && !subflow.is_clogged();
    let dack = subflow.owes_dack.map(|since| since + delay);
    own.into_iter().chain(dack.filter(|_| answers)).min()
}
