//! Deadlines: of paths, handshakes, acknowledgements and idle sessions.

use base::{Span, Time};

use super::opening::Client;
use super::paths::{self, NEXT_PATH_DELAY};
use super::subflow::{State, Subflow};
use super::{Output, Phase, Session};
use crate::Reason;
use crate::frame::Frame;
use crate::payload::Payload;

/// Maximum time for which a draining subflow waits for acknowledgements.
pub(super) const DRAIN_TIMEOUT: Span = Span::from_millis(1_000);
/// Bounds of the interval of TCP inspections.
const MIN_INSPECT_INTERVAL: Span = Span::from_millis(10);
const MAX_INSPECT_INTERVAL: Span = Span::from_millis(50);
/// Interval at which the peer is probed for credit if there is none.
const CREDIT_PROBE_INTERVAL: Span = Span::from_millis(2_000);

impl<P: Payload> Session<P> {
    /// The earliest deadline.
    pub fn next_wake(&self) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        // A past deadline waits for another event: room on a subflow, or a further path.
        let is_future = |at: &Time| *at > self.now;
        let joins = (!self.multipath && self.client.is_some() && self.is_transferring())
            .then_some(self.started_at + self.settings.join_delay)
            .filter(is_future);
        let opening = self.client.as_ref().filter(|_| self.phase == Phase::Opening);
        let untried = self.paths.iter().any(|path| path.state == paths::State::Idle);
        let next_path = opening.filter(|_| untried).map(|client| client.next_path);
        let next_path = next_path.filter(is_future);
        let handshake = opening.map(|client| self.opening_deadline(client));
        let proof = (!self.may_deliver).then_some(self.started_at + self.settings.handshake);
        let resume = self.no_subflow_since.map(|since| since + self.settings.resume);
        let idle = (self.phase == Phase::Established).then_some(self.silence_deadline());
        let delay = self.dack_delay();
        let own = [
            joins,
            next_path,
            handshake,
            proof,
            resume,
            idle,
            self.credit_probe_deadline(),
            self.inspect_at,
            self.tail_deadline().filter(is_future),
            self.unanswered_deadline(),
            self.scheduler_wait_until,
            self.acknowledging.deadline(delay).filter(|_| self.urgent_subflow().is_some()),
        ];
        let subflows = self.subflows.iter();
        let subflows = subflows.filter_map(|s| subflow_deadline(s, self.settings.handshake, delay));
        let paths = self.paths.iter().filter_map(paths::Path::deadline).filter(is_future);
        let unanswered =
            self.subflows.iter().filter_map(Subflow::hello_unanswered_at).filter(is_future);
        own.into_iter().flatten().chain(subflows).chain(paths).chain(unanswered).min()
    }

    /// Deadline of the opening: the handshake timeout after TCP has delivered HELLO, or the resume
    /// timeout while it has not. With a proof the handshake timeout starts when HELLO is sent,
    /// because the server then drops a client without proof.
    fn opening_deadline(&self, client: &Client) -> Time {
        let hello_sent = if client.opening.proof { client.since } else { client.delivered };
        match hello_sent {
            Some(hello_sent) => hello_sent + self.settings.handshake,
            None => self.started_at + self.settings.resume,
        }
    }

    /// Deadline of the next probe, or of the idle timeout.
    fn silence_deadline(&self) -> Time {
        let idle = self.idle();
        let probe = self.received_at.max(self.probed_at) + Span::from_nanos(idle.as_nanos() / 3);
        probe.min(self.received_at + idle)
    }

    fn credit_probe_deadline(&self) -> Option<Time> {
        let since = self.credit_blocked_since?;
        Some(since.max(self.probed_at) + CREDIT_PROBE_INTERVAL)
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
        self.mark_unanswered_stale();
        self.end_drained();
        self.end_overdue_handshakes();
        if self.phase == Phase::Opening {
            self.on_opening_wake();
        } else {
            self.check_timeouts();
        }
        if !self.is_over() {
            self.open_paths();
        }
    }

    fn on_opening_wake(&mut self) {
        let now = self.now;
        let Some(client) = &self.client else { return };
        let hello_sent = client.since.is_some();
        if now >= self.opening_deadline(client) {
            self.fail(self.refusal.unwrap_or(Reason::Timeout), false);
            return;
        }
        let is_unanswered = |s: &Subflow<P>| s.hello_unanswered_at().is_none_or(|at| now >= at);
        let unanswered = self.subflows.iter().all(is_unanswered);
        if hello_sent && unanswered {
            match self.find(|subflow| subflow.state == State::Connected) {
                Some(id) => self.send_hello(id),
                None => self.try_next_path(),
            }
        }
    }

    fn check_timeouts(&mut self) {
        let now = self.now;
        if !self.may_deliver && now >= self.started_at + self.settings.handshake {
            // A client without the pre-shared key must not occupy a session.
            self.send_resets(Reason::Authentication, "");
            self.fail(Reason::Authentication, false);
            return;
        }
        if self.no_subflow_since.is_some_and(|since| now >= since + self.settings.resume) {
            self.end_without_peer();
            return;
        }
        if now >= self.received_at + self.idle() {
            self.end_without_peer();
            return;
        }
        let is_probe_due = self.credit_probe_deadline().is_some_and(|at| now >= at);
        if now >= self.silence_deadline() || is_probe_due {
            self.probed_at = now;
            let third = Span::from_nanos(self.idle().as_nanos() / 3);
            if self.client.is_some() && now >= self.received_at + third + third {
                self.mark_all_stale();
            }
            for id in self.ids(Subflow::is_usable) {
                self.send(id, Frame::Ping(now.as_nanos()));
            }
        }
    }

    /// Ends a session without an answer; it fails unless only the last acknowledgement is missing.
    fn end_without_peer(&mut self) {
        let complete = self.incoming.is_complete() && self.outgoing.is_finished();
        if complete && self.outgoing.is_delivered() {
            self.on_unknown_session();
        } else {
            self.fail(Reason::Timeout, false);
        }
    }

    fn end_overdue_handshakes(&mut self) {
        let now = self.now;
        let timeout = self.settings.handshake;
        let is_overdue = |s: &Subflow<P>| match s.state {
            State::JoinSent { since, .. } => now >= since + timeout,
            _ => false,
        };
        while let Some(id) = self.find(is_overdue) {
            self.drop_subflow(id, true);
        }
    }

    /// Schedules an inspection of TCP, because data are in flight.
    pub(super) fn schedule_inspection(&mut self) {
        let due = self.now + self.inspect_interval();
        self.inspect_at = Some(self.inspect_at.map_or(due, |at| at.min(due)));
    }

    fn inspect_interval(&self) -> Span {
        let usable = self.subflows.iter().filter(|subflow| subflow.is_usable());
        let srtt = usable.map(Subflow::srtt).min().unwrap_or(MAX_INSPECT_INTERVAL);
        Span::from_nanos(srtt.as_nanos() / 2).clamp(MIN_INSPECT_INTERVAL, MAX_INSPECT_INTERVAL)
    }

    fn inspect(&mut self) {
        let ids = self.ids(|s| (s.is_usable() || s.is_hello_sent()) && s.has_undelivered);
        if !ids.is_empty() {
            self.outputs.extend(ids.into_iter().map(Output::Inspect));
            self.schedule_inspection();
        }
    }

    /// Whether data are being sent or received.
    fn is_transferring(&self) -> bool {
        let written = self.outgoing.unsent() > 0 || self.outgoing.outstanding() > 0;
        written || (self.incoming.next() > 0 && !self.incoming.is_complete())
    }

    /// Opens connections on the paths that should have one.
    pub(super) fn open_paths(&mut self) {
        if self.client.is_none() || self.is_over() {
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
            let next = self.client.as_ref().map_or(now, |client| client.next_path);
            if self.subflows.is_empty() && now >= next {
                self.try_next_path();
            }
            self.repeat_hello();
        } else {
            self.update_multipath();
        }
        for at in 0..self.paths.len() {
            if self.needs_connection(at) {
                self.open_path(at);
            }
        }
    }

    /// If the subflow with HELLO is lost, repeats HELLO on a connected one.
    fn repeat_hello(&mut self) {
        if !self.subflows.iter().any(Subflow::is_hello_sent)
            && let Some(id) = self.find(|subflow| subflow.state == State::Connected)
        {
            self.send_hello(id);
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
        if let Some(client) = &mut self.client {
            client.next_path = self.now + NEXT_PATH_DELAY;
        }
    }

    fn update_multipath(&mut self) {
        let transferred = self.outgoing.sent() + self.outgoing.unsent() + self.incoming.next();
        let old = self.now >= self.started_at + self.settings.join_delay && self.is_transferring();
        self.multipath |= transferred > self.settings.join_after.count() || old;
    }

    /// Whether a path needs a connection.
    fn needs_connection(&self, at: usize) -> bool {
        let due = match self.paths[at].state {
            paths::State::Idle => {
                let alone = self.active().next().is_none();
                self.phase == Phase::Established && (self.multipath || alone)
            }
            paths::State::Waiting { until } => until <= self.now,
            paths::State::Connecting { .. } | paths::State::Up(_) => false,
        };
        // Once both streams are complete, one subflow is sufficient for the server's answer.
        let is_enough = self.waits_for_close && self.active().next().is_some();
        if !due || is_enough {
            return false;
        }
        let working = self.subflows.iter().filter(|subflow| !subflow.is_stale()).count();
        let connecting = self.paths.iter().filter(|path| path.is_connecting()).count();
        let max = self.settings.max_subflows.min(self.peer.subflows).max(1);
        working + connecting < usize::from(max)
    }
}

fn subflow_deadline<P>(subflow: &Subflow<P>, handshake: Span, delay: Span) -> Option<Time> {
    let own = match subflow.state {
        State::JoinSent { since, .. } => Some(since + handshake),
        State::Draining { since } => Some(since + DRAIN_TIMEOUT),
        State::Connected | State::HelloSent { .. } | State::Active | State::Stale { .. } => None,
    };
    let answers = subflow.is_usable() && !subflow.is_blocked();
    let dack = subflow.dack_due_since.map(|since| since + delay);
    own.into_iter().chain(dack.filter(|_| answers)).min()
}
