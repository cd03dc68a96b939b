//! Start of sessions and subflows: HELLO, JOIN and their answers.

use base::{Span, Time};

use super::subflow::{State, Subflow};
use super::{Event, Output, Path, Phase, Session};
use crate::error::{Error, Result};
use crate::frame::{Challenge, Frame, Hello, HelloAck, Join};
use crate::payload::Payload;
use crate::secret::{self, SessionKey};
use crate::settings::{EARLY_CREDIT, MAX_SUBFLOWS};
use crate::{PathId, Reason, Settings, SubflowId};

/// Time without an answer to HELLO after which HELLO is repeated on another path.
pub(super) const HELLO_TIMEOUT: Span = Span::from_millis(1_000);

/// Initial limit of unacknowledged bytes on a joined subflow; it grows while data arrive in time.
const INITIAL_BUDGET_BYTES: u64 = 8 << 10;

/// Parameters of a client's session.
#[derive(Clone)]
pub struct Opening {
    /// Seed of the nonces: 32 secret random bytes.
    pub seed: [u8; 32],
    /// The requested target.
    pub target: String,
    /// The shared secret: a pre-shared key, or a secret exported by TLS.
    pub secret: Option<Box<[u8]>>,
    /// Whether to prove after `HELLO_ACK` that the client has the secret: true with
    /// a pre-shared key.
    pub proof: bool,
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opening").field("target", &self.target).finish_non_exhaustive()
    }
}

/// State of a client's end for HELLO and JOIN.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) opening: Opening,
    nonce: [u8; 32],
    /// Next subflow identifier and join index.
    next_subflow: u32,
    next_join: u32,
    /// Time of the first HELLO.
    pub(super) since: Option<Time>,
    /// Time at which TCP had delivered a HELLO to the peer.
    pub(super) delivered: Option<Time>,
    /// Time of the next attempt on another path, while no session is established.
    pub(super) next_path: Time,
}

impl<P: Payload> Session<P> {
    /// The client's end. Paths must be added.
    pub fn connect(settings: Settings, opening: Opening) -> Self {
        let mut session = Self::new(settings, opening.seed, Time::ZERO, EARLY_CREDIT.count());
        let nonce = session.nonces.next_nonce();
        session.client = Some(Client {
            opening,
            nonce,
            next_subflow: 0,
            next_join: 0,
            since: None,
            delivered: None,
            next_path: Time::ZERO,
        });
        session
    }

    /// Sets the secret that TLS exported for the first connection, if it is known only after the
    /// connection: before the first [`connected`](Self::connected).
    pub fn set_secret(&mut self, secret: Box<[u8]>) {
        if let Some(client) = &mut self.client {
            client.opening.secret = Some(secret);
        }
    }

    /// The server's end of a session that its acceptor has opened. `proof`: the client must prove
    /// that it has the pre-shared key before the application gets any data.
    pub fn accept(
        now: Time,
        settings: Settings,
        hello: &Hello,
        ack: &HelloAck,
        key: SessionKey,
        proof: bool,
    ) -> Self {
        let mut session = Self::new(settings, ack.nonce, now, hello.credit);
        session.key = Some(key);
        session.number = ack.session;
        session.server_nonce = ack.nonce;
        session.peer = hello.limits;
        session.may_deliver = !proof;
        session.phase = Phase::Established;
        let slot = session.free_slot().unwrap_or(1);
        let mut subflow = Subflow::new(hello.subflow, None, slot, now);
        subflow.state = State::Active;
        subflow.expected_path_seq = 1;
        session.subflows.push(subflow);
        session.statistics.subflows_opened = 1;
        session.event(Event::Established);
        session.event(Event::SubflowUp(hello.subflow));
        let answer = session.hello_ack();
        session.send(hello.subflow, answer);
        session
    }

    /// The server's answer to HELLO, always the same except for the credit.
    fn hello_ack(&mut self) -> Frame<P> {
        // The key was derived from this nonce, so the answer to a repeated HELLO must
        // contain it too.
        Frame::HelloAck(HelloAck {
            nonce: self.server_nonce,
            credit: self.incoming.grant(),
            limits: self.settings.limits(!self.may_deliver),
            session: self.number,
            proof: self.key.as_ref().map_or([0; 16], SessionKey::hello_ack_proof),
        })
    }

    /// Server: adds a proven subflow. `false`: there are too many; close it.
    pub fn attach(&mut self, now: Time, join: &Join) -> bool {
        self.now = now;
        let max = usize::from(self.settings.max_subflows.clamp(1, MAX_SUBFLOWS));
        let working = self.subflows.iter().filter(|subflow| !subflow.is_stale()).count();
        if working >= max || self.is_over() || self.subflow(join.subflow).is_some() {
            return false;
        }
        if self.subflows.len() >= 2 * max {
            self.drop_oldest_stale();
        }
        let Some(slot) = self.free_slot() else { return false };
        let mut subflow = Subflow::new(join.subflow, None, slot, now);
        subflow.priority = join.priority;
        (subflow.next_path_seq, subflow.expected_path_seq) = (1, 2);
        self.confirmed = true;
        self.allow_delivery();
        self.subflows.push(subflow);
        self.activate(join.subflow);
        true
    }

    /// Server: adds a connection on which the client repeats its HELLO. `false`: close it.
    pub fn attach_repeated_hello(&mut self, now: Time, id: SubflowId) -> bool {
        self.now = now;
        if self.is_over() || self.subflow(id).is_some() {
            return false;
        }
        let Some(slot) = self.free_slot() else { return false };
        let mut subflow = Subflow::new(id, None, slot, now);
        subflow.expected_path_seq = 1;
        self.subflows.push(subflow);
        let ack = self.hello_ack();
        self.send(id, ack);
        self.activate(id);
        true
    }

    /// Client: adds a subflow for a TCP connection that was established on a path. `None`: the path
    /// needs none any more.
    pub fn connected(&mut self, now: Time, path: PathId) -> Option<SubflowId> {
        self.now = now;
        let over = self.is_over();
        let slot = self.free_slot()?;
        let client = self.client.as_mut()?;
        let known = self.paths.iter_mut().find(|known| known.id == path)?;
        if over || !known.is_connecting() {
            return None;
        }
        let id = SubflowId(client.next_subflow);
        client.next_subflow += 1;
        known.state = super::paths::State::Up(id);
        let mut subflow = Subflow::new(id, Some(path), slot, now);
        subflow.priority = known.priority;
        self.subflows.push(subflow);
        // After the timeout of an earlier HELLO this connection repeats it.
        let is_pending = |s: &Subflow<P>| s.hello_unanswered_at().is_some_and(|at| now < at);
        if self.phase == Phase::Established {
            self.join(id);
        } else if !self.subflows.iter().any(is_pending) {
            self.send_hello(id);
        }
        Some(id)
    }

    /// Client: a connection attempt failed.
    pub fn connect_failed(&mut self, now: Time, path: PathId) {
        self.now = now;
        let Some(path) = self.paths.iter_mut().find(|known| known.id == path) else { return };
        if path.is_connecting() {
            path.fail(now);
        }
        if self.phase == Phase::Opening {
            if self.subflows.is_empty() && self.paths.iter().all(Path::is_waiting) {
                self.fail(Reason::Target, false);
                return;
            }
            if let Some(client) = &mut self.client {
                client.next_path = now;
            }
        }
        self.open_paths();
    }

    pub(super) fn send_hello(&mut self, id: SubflowId) {
        let now = self.now;
        let credit = self.incoming.grant();
        let Some(client) = &mut self.client else { return };
        client.since.get_or_insert(now);
        let Opening { secret, target, proof, .. } = &client.opening;
        let nonce = client.nonce;
        let token = match secret {
            Some(secret) if *proof => secret::hello_token(secret, &nonce, id.0, target),
            _ => [0; 16],
        };
        let (limits, target) = (self.settings.limits(*proof), target.clone());
        let hello = Hello { nonce, subflow: id, credit, limits, target, token };
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.state = State::HelloSent { since: now };
        }
        self.send(id, Frame::Hello(hello));
    }

    fn join(&mut self, id: SubflowId) {
        let (now, number) = (self.now, self.number);
        let nonce = self.nonces.next_short_nonce();
        let (Some(client), Some(key)) = (&mut self.client, &self.key) else { return };
        let index = client.next_join;
        client.next_join += 1;
        let token = key.token(index);
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.state = State::JoinSent { nonce, since: now };
        let priority = subflow.priority;
        let join = Join { session: number, index, subflow: id, priority, nonce, token };
        self.send(id, Frame::Join(join));
    }

    pub(super) fn on_hello_ack(&mut self, id: SubflowId, ack: &HelloAck) -> Result<()> {
        let Some(client) = &self.client else {
            return Err(Error::Unexpected { what: "HELLO_ACK from a client" });
        };
        if !self.subflow(id).is_some_and(Subflow::is_hello_sent) {
            return Err(Error::Unexpected { what: "HELLO_ACK without HELLO" });
        }
        if self.phase == Phase::Established {
            let known = self.key.as_ref().is_some_and(|key| key.is_hello_ack_proof(&ack.proof));
            if ack.session != self.number || !known {
                return Err(Error::Unexpected { what: "HELLO_ACK of another session" });
            }
            self.outgoing.raise_credit(ack.credit);
            self.activate(id);
            return Ok(());
        }
        let secret = client.opening.secret.as_deref().unwrap_or_default();
        let key = SessionKey::derive(secret, &client.nonce, &ack.nonce);
        let proof = client.opening.proof.then(|| key.hello_proof());
        let is_proof_missing = ack.limits.proof && proof.is_none();
        if is_proof_missing || !key.is_hello_ack_proof(&ack.proof) {
            return Err(Error::Authentication);
        }
        self.key = Some(key);
        self.number = ack.session;
        self.peer = ack.limits;
        self.phase = Phase::Established;
        self.outgoing.raise_credit(ack.credit);
        self.event(Event::Established);
        if let Some(proof) = proof {
            self.send_reliably(id, Frame::Proof(proof));
        }
        self.activate(id);
        // Data that followed HELLO on another subflow were not acknowledged in time.
        let unanswered = self.slots(Subflow::is_hello_sent);
        if unanswered != 0 {
            self.outgoing.mark_due(unanswered);
        }
        for id in self.ids(|subflow| subflow.state == State::Connected) {
            self.join(id);
        }
        Ok(())
    }

    pub(super) fn on_challenge(&mut self, id: SubflowId, challenge: &Challenge) -> Result<()> {
        let state = self.subflow(id).map(|subflow| subflow.state);
        let (Some(State::JoinSent { nonce, .. }), Some(key)) = (state, &self.key) else {
            return Err(Error::Unexpected { what: "CHALLENGE without JOIN" });
        };
        if !key.is_server_proof(&nonce, &challenge.nonce, &challenge.proof) {
            // This path leads to another server; the session continues without it.
            self.drop_subflow(id, true);
            return Ok(());
        }
        let proof = key.client_proof(&nonce, &challenge.nonce);
        self.send(id, Frame::Proof(proof));
        self.activate(id);
        Ok(())
    }

    pub(super) fn on_hello_proof(&mut self, proof: &[u8; 32]) -> Result<()> {
        let is_valid = self.key.as_ref().is_some_and(|key| key.is_hello_proof(proof));
        if !is_valid {
            return Err(Error::Authentication);
        }
        self.allow_delivery();
        Ok(())
    }

    /// The client has proven that it has the key, by PROOF or by a join.
    fn allow_delivery(&mut self) {
        let before = std::mem::replace(&mut self.may_deliver, true);
        if !before && (self.incoming.is_readable() || self.incoming.is_complete()) {
            self.event(Event::Readable);
        }
    }

    pub(super) fn on_refuse(&mut self, id: SubflowId, reason: Reason) -> Result<()> {
        if reason == Reason::Finished {
            return self.on_finished(id);
        }
        let alone = self.subflows.iter().all(|subflow| subflow.id == id || !subflow.is_usable());
        match self.phase {
            Phase::Opening => self.fail(reason, true),
            Phase::Established if reason == Reason::UnknownSession && alone => {
                self.on_unknown_session();
            }
            _ => self.drop_subflow(id, true),
        }
        Ok(())
    }

    /// Handles the server's report that the session has ended without error.
    fn on_finished(&mut self, id: SubflowId) -> Result<()> {
        if !self.subflow(id).is_some_and(Subflow::is_usable) {
            // This peer has not proven that it is the server.
            if self.phase == Phase::Opening {
                return Err(Error::Unexpected { what: "end of a session before it was opened" });
            }
            self.drop_subflow(id, true);
            return Ok(());
        }
        if !self.incoming.is_complete() || !self.outgoing.is_finished() {
            return Err(Error::Unexpected { what: "end of a session with open streams" });
        }
        self.close();
        Ok(())
    }

    /// Starts to use a subflow for data.
    fn activate(&mut self, id: SubflowId) {
        let alone = !self.subflows.iter().any(Subflow::is_active);
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.state = State::Active;
        // The path may be slow: its initial window does not show its rate.
        subflow.budget = (!alone).then_some(INITIAL_BUDGET_BYTES);
        let path = subflow.path;
        self.no_subflow_since = None;
        self.statistics.subflows_opened += 1;
        self.event(Event::SubflowUp(id));
        self.outputs.push_back(Output::Inspect(id));
        let replaced = self.paths.iter_mut().find(|known| Some(known.id) == path);
        if let Some(stale) = replaced.and_then(|path| path.stale.take()) {
            self.drop_subflow(stale, true);
        }
        for frame in std::mem::take(&mut self.pending_controls) {
            self.send_reliably(id, frame);
        }
        self.acknowledging.send_immediately();
        self.open_paths();
    }
}
