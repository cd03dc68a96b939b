//! The admission of a listener: distinguishes new sessions from joins, verifies
//! joins, enforces limits.
//!
//! | connection | receives | result |
//! |---|---|---|
//! | silent | HELLO | [`Verdict::Open`], or [`Verdict::RepeatedHello`] if its nonce is known |
//! | silent | JOIN with a valid, unused token | CHALLENGE is sent; the connection is unproven |
//! | unproven | valid PROOF | [`Joined`](Verdict::Joined), or REFUSE if all is delivered |
//! | any | any other frame | REFUSE is sent; the connection is closed |
//! | any | timeout | the connection is closed |
//!
//! A burst of clients is queued, not refused: a connection above the limits is opened later
//! ([`Acceptor::open`]), and a HELLO above the limits of sessions is queued until its session may
//! open, for the rest of the handshake timeout.
//!
//! With a pre-shared key, a session counts against the session limit once its client has proven
//! that it has the key ([`Acceptor::mark_proven`]). Before that, two rules bound the resources of a
//! client without the key: the token of a HELLO is checked without state, and replayed HELLOs,
//! whose token is valid, open at most [`Limits::unproven_sessions`] sessions, which end after
//! the handshake timeout.
//!
//! The token of a JOIN shows that the client has the session's key. It is valid once: a replayed
//! token is refused without a CHALLENGE. The proof shows that the other end of this connection has
//! the key.

mod replay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use base::{Span, Time};
use bytes::Bytes;
use quota::{Admission, Quota};

use crate::Reason;
use crate::frame::{self, Challenge, Frame, Hello, HelloAck, Join};
use crate::secret::{self, Nonces, SessionKey};
use replay::Window;

/// A connection that has been accepted and not yet assigned to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Limits of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Max concurrent sessions; with a pre-shared key, only those whose client has proven that it
    /// has the key.
    pub sessions: usize,
    /// With a pre-shared key: max sessions whose client has not yet proven that it has the
    /// key, in total.
    pub unproven_sessions: usize,
    /// Max such sessions per source.
    pub unproven_sessions_per_source: usize,
    /// Max connections that have not sent HELLO or JOIN yet, in total.
    pub silent: usize,
    /// Max such connections per source: an IPv4 address or an IPv6 network of 64 bits.
    pub silent_per_source: usize,
    /// Max joins without a valid proof, in total.
    pub unproven: usize,
    /// Max such joins per source.
    pub unproven_per_source: usize,
    /// Timeout of HELLO or JOIN and of the proof.
    pub handshake: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 16_384,
            unproven_sessions: 4096,
            unproven_sessions_per_source: 2048,
            silent: 4096,
            silent_per_source: 2048,
            unproven: 1024,
            unproven_per_source: 256,
            handshake: Span::from_secs(2),
        }
    }
}

/// Result for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send this frame on the connection.
    Send(ConnectionId, Frame<Bytes>),
    /// The connection starts a session, which the driver creates (`Session::accept`). The session
    /// sends the `HELLO_ACK`.
    Open(ConnectionId, Hello, HelloAck, SessionKey),
    /// The connection repeats the HELLO of a session whose client has no `HELLO_ACK`: it becomes
    /// a further subflow.
    RepeatedHello(ConnectionId, u64),
    /// The connection belongs to this session, as this subflow. The session receives
    /// all further frames.
    Joined(ConnectionId, Join),
    /// Close the connection after sending queued frames.
    Close(ConnectionId),
}

impl Verdict {
    /// The connection of this verdict.
    pub fn connection(&self) -> ConnectionId {
        match self {
            Self::Send(id, _)
            | Self::Open(id, ..)
            | Self::RepeatedHello(id, _)
            | Self::Joined(id, _)
            | Self::Close(id) => *id,
        }
    }
}

/// Assigns the connections of one listener to sessions.
///
/// A driver reports each connection ([`open`](Self::open)), the frames on it until there is a
/// verdict, and its end if that comes first ([`on_lost`](Self::on_lost)). After every call it calls
/// [`poll`](Self::poll) until that returns `None`, then checks [`next_wake`](Self::next_wake).
#[derive(Debug)]
pub struct Acceptor {
    limits: Limits,
    grants: frame::Limits,
    credit: u64,
    psk: Option<Box<[u8]>>,
    nonces: Nonces,
    next_connection: u64,
    /// Connections without verdict. All have the same timeout, so the first one expires first.
    connections: BTreeMap<ConnectionId, Connection>,
    silent: Quota<ConnectionId>,
    unproven: Quota<ConnectionId>,
    /// Sessions whose client has not proven that it has the pre-shared key.
    unproven_sessions: Quota<u64>,
    /// HELLOs with a valid token above the limits of sessions, by source; and their number.
    queued: BTreeMap<IpAddr, VecDeque<QueuedHello>>,
    queued_count: usize,
    sessions: BTreeMap<u64, SessionEntry>,
    /// Sessions that ended without error, the newest last.
    finished: BTreeMap<u64, SessionEntry>,
    finished_in_order: VecDeque<u64>,
    /// Nonces of sessions whose client may not have received `HELLO_ACK`.
    unconfirmed: BTreeMap<[u8; 32], u64>,
    /// Nonces of other sessions, the newest last: a late HELLO must not open another session.
    used_nonces: BTreeSet<[u8; 32]>,
    used_in_order: VecDeque<[u8; 32]>,
    verdicts: VecDeque<Verdict>,
}

/// After a fourth of the handshake timeout, a new connection may replace a silent one.
const SILENT_TIMEOUT_DIVISOR: u64 = 4;
/// Number of nonces kept per allowed session.
const NONCES_PER_SESSION: usize = 4;

#[derive(Debug)]
struct Connection {
    source: IpAddr,
    deadline: Time,
    /// The join to be proven, and the nonce of the CHALLENGE.
    join: Option<(Join, [u8; 16])>,
    /// Its HELLO is in [`Acceptor::queued`].
    is_queued: bool,
}

/// A queued HELLO.
#[derive(Debug)]
struct QueuedHello {
    id: ConnectionId,
    hello: Hello,
    /// Secret exported by TLS.
    tls: Option<Box<[u8]>>,
}

/// State of a session for joins.
#[derive(Debug)]
struct SessionEntry {
    key: SessionKey,
    joins: Window,
    hello_nonce: [u8; 32],
    uses_tls: bool,
    source: IpAddr,
}

impl Acceptor {
    /// A listener that gives each session `grants` and an initial credit of `credit` bytes.
    /// With a pre-shared key, clients must prove that they have it. `seed` must be
    /// unpredictable and unused.
    pub fn new(
        limits: Limits,
        grants: frame::Limits,
        credit: u64,
        psk: Option<Box<[u8]>>,
        seed: [u8; 32],
    ) -> Self {
        Self {
            silent: Quota::new(limits.silent, limits.silent_per_source),
            unproven: Quota::new(limits.unproven, limits.unproven_per_source),
            unproven_sessions: Quota::new(
                limits.unproven_sessions,
                limits.unproven_sessions_per_source,
            ),
            grants: frame::Limits { proof: psk.is_some(), ..grants },
            limits,
            credit,
            psk,
            nonces: Nonces::new(seed),
            next_connection: 0,
            connections: BTreeMap::new(),
            queued: BTreeMap::new(),
            queued_count: 0,
            sessions: BTreeMap::new(),
            finished: BTreeMap::new(),
            finished_in_order: VecDeque::new(),
            unconfirmed: BTreeMap::new(),
            used_nonces: BTreeSet::new(),
            used_in_order: VecDeque::new(),
            verdicts: VecDeque::new(),
        }
    }

    /// Registers an accepted connection. `None`: the limits are reached. The driver must then not
    /// read from the connection, and must call this again when another connection has left.
    pub fn open(&mut self, now: Time, source: IpAddr) -> Option<ConnectionId> {
        self.expire(now);
        match self.silent.look(source) {
            Admission::Free => {}
            Admission::InsteadOf(other) => self.close(other),
            Admission::Full => {
                let mut all = self.connections.iter();
                let (oldest, _) = all.find(|(_, it)| it.join.is_none() && !it.is_queued)?;
                self.close_if_idle(now, *oldest)?;
            }
            Admission::SourceFull(oldest) => self.close_if_idle(now, oldest?)?,
        }
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.silent.take(source, id);
        let deadline = now + self.limits.handshake;
        self.connections.insert(id, Connection { source, deadline, join: None, is_queued: false });
        Some(id)
    }

    /// Closes a connection that has been silent for a fourth of the handshake timeout: clients send
    /// HELLO or JOIN at once. `None`: it has not.
    fn close_if_idle(&mut self, now: Time, id: ConnectionId) -> Option<()> {
        let Connection { deadline, is_queued: false, .. } = *self.connections.get(&id)? else {
            return None;
        };
        let handshake = self.limits.handshake.as_nanos();
        let left = Span::from_nanos(handshake - handshake / SILENT_TIMEOUT_DIVISOR);
        (deadline <= now + left).then(|| self.close(id))
    }

    /// Processes a received frame. `tls`: the secret that TLS exports for this connection, if
    /// it uses TLS.
    pub fn on_frame(
        &mut self,
        now: Time,
        id: ConnectionId,
        frame: Frame<Bytes>,
        tls: Option<&[u8]>,
    ) {
        self.expire(now);
        let Some(connection) = self.connections.get(&id) else { return };
        let result = match (frame, connection.join) {
            (Frame::Hello(hello), None) if !connection.is_queued => self.on_hello(id, hello, tls),
            (Frame::Join(join), None) => self.on_join(id, join),
            (Frame::Proof(proof), Some((join, nonce))) => self.on_proof(id, join, nonce, &proof),
            _ => Err(Reason::Protocol),
        };
        if let Err(reason) = result {
            self.refuse(id, reason);
        }
    }

    /// Removes a connection without verdict that has ended, or uses another protocol.
    pub fn on_lost(&mut self, now: Time, id: ConnectionId) {
        self.expire(now);
        self.release(id);
    }

    /// Records that the session's client has received `HELLO_ACK`, and will not repeat HELLO. Data
    /// right after a HELLO do not show this: see
    /// [`Session::is_confirmed`](crate::Session::is_confirmed).
    pub fn mark_confirmed(&mut self, session: u64) {
        let Some(known) = self.sessions.get(&session) else { return };
        if self.unconfirmed.get(&known.hello_nonce) == Some(&session) {
            self.unconfirmed.remove(&known.hello_nonce);
            self.used_nonces.insert(known.hello_nonce);
            self.used_in_order.push_back(known.hello_nonce);
        }
        if self.used_in_order.len() > self.limits.sessions.saturating_mul(NONCES_PER_SESSION)
            && let Some(oldest) = self.used_in_order.pop_front()
        {
            self.used_nonces.remove(&oldest);
        }
    }

    /// Records that the session's client has proven that it has the pre-shared key.
    pub fn mark_proven(&mut self, session: u64) {
        if let Some(known) = self.sessions.get(&session) {
            self.unproven_sessions.give_back(known.source, session);
        }
        self.open_queued();
    }

    /// Removes an ended session: further joins are refused.
    pub fn remove(&mut self, session: u64) {
        self.mark_confirmed(session);
        self.mark_proven(session);
        self.sessions.remove(&session);
        if self.finished.remove(&session).is_some() {
            self.finished_in_order.retain(|known| *known != session);
        }
        self.open_queued();
    }

    /// Records that the session has ended, and both ends have received everything. If the client
    /// has lost the last acknowledgement with its connection, its JOIN is refused as finished.
    pub fn finish(&mut self, session: u64) {
        self.mark_confirmed(session);
        self.mark_proven(session);
        let Some(known) = self.sessions.remove(&session) else { return };
        self.finished.insert(session, known);
        self.finished_in_order.push_back(session);
        if self.finished_in_order.len() > self.limits.sessions
            && let Some(oldest) = self.finished_in_order.pop_front()
        {
            self.finished.remove(&oldest);
        }
        self.open_queued();
    }

    /// The next verdict.
    pub fn poll(&mut self) -> Option<Verdict> {
        self.verdicts.pop_front()
    }

    /// Deadline of the next [`on_wake`](Self::on_wake).
    pub fn next_wake(&self) -> Option<Time> {
        self.connections.first_key_value().map(|(_, connection)| connection.deadline)
    }

    /// Closes connections whose handshake timed out.
    pub fn on_wake(&mut self, now: Time) {
        self.expire(now);
    }

    fn expire(&mut self, now: Time) {
        while let Some((&id, connection)) = self.connections.first_key_value()
            && connection.deadline <= now
        {
            if connection.is_queued {
                self.refuse(id, Reason::Limit);
            } else {
                self.close(id);
            }
        }
    }

    fn refuse(&mut self, id: ConnectionId, reason: Reason) {
        self.verdicts.push_back(Verdict::Send(id, Frame::Refuse(reason)));
        self.close(id);
    }

    fn close(&mut self, id: ConnectionId) {
        self.release(id);
        self.verdicts.push_back(Verdict::Close(id));
    }

    fn release(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            if connection.is_queued
                && let Some(all) = self.queued.get_mut(&connection.source)
            {
                all.retain(|hello| hello.id != id);
                self.queued_count -= 1;
            }
            self.silent.give_back(connection.source, id);
            self.unproven.give_back(connection.source, id);
        }
    }

    fn on_hello(
        &mut self,
        id: ConnectionId,
        hello: Hello,
        tls: Option<&[u8]>,
    ) -> Result<(), Reason> {
        let shared = secret::shared(self.psk.as_deref(), tls);
        if self.psk.is_some() && !(hello.limits.proof && secret::is_hello_token(&shared, &hello)) {
            return Err(Reason::Authentication);
        }
        let source = self.connections.get(&id).ok_or(Reason::Protocol)?.source;
        if self.has_room(source) || self.is_known(&hello) {
            return self.open_session(id, hello, tls);
        }
        // Replayed HELLOs may be queued too: they get at most half of the silent connections.
        if self.queued_count >= self.limits.silent / 2 {
            return Err(Reason::Limit);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_queued = true;
            let queued = QueuedHello { id, hello, tls: tls.map(Box::from) };
            self.queued.entry(source).or_default().push_back(queued);
            self.queued_count += 1;
        }
        Ok(())
    }

    /// Whether the limits allow another session from `source`.
    fn has_room(&self, source: IpAddr) -> bool {
        let proven = self.sessions.len() - self.unproven_sessions.taken();
        proven < self.limits.sessions
            && (self.psk.is_none() || self.unproven_sessions.look(source) == Admission::Free)
    }

    /// Whether this HELLO was received before, so that it opens no session.
    fn is_known(&self, hello: &Hello) -> bool {
        self.unconfirmed.contains_key(&hello.nonce) || self.used_nonces.contains(&hello.nonce)
    }

    /// Opens queued sessions within the limits, the oldest of each source first.
    fn open_queued(&mut self) {
        if self.queued_count == 0 {
            return;
        }
        let sources: Vec<IpAddr> = self.queued.keys().copied().collect();
        for source in sources {
            while self.has_room(source) {
                let Some(all) = self.queued.get_mut(&source) else { break };
                let Some(QueuedHello { id, hello, tls }) = all.pop_front() else {
                    self.queued.remove(&source);
                    break;
                };
                self.queued_count -= 1;
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_queued = false;
                }
                if let Err(reason) = self.open_session(id, hello, tls.as_deref()) {
                    self.refuse(id, reason);
                }
            }
        }
    }

    /// Opens the session of a HELLO, or adds the connection to it.
    fn open_session(
        &mut self,
        id: ConnectionId,
        hello: Hello,
        tls: Option<&[u8]>,
    ) -> Result<(), Reason> {
        let source = self.connections.get(&id).ok_or(Reason::Protocol)?.source;
        let shared = secret::shared(self.psk.as_deref(), tls);
        if let Some(&session) = self.unconfirmed.get(&hello.nonce) {
            // With TLS the session's key depends on its first connection. A client that repeats
            // HELLO cannot tell which of its connections that was.
            if tls.is_some() || self.sessions.get(&session).is_none_or(|known| known.uses_tls) {
                return Err(Reason::UnknownSession);
            }
            self.release(id);
            self.verdicts.push_back(Verdict::RepeatedHello(id, session));
            return Ok(());
        }
        if self.used_nonces.contains(&hello.nonce) {
            // Data after the first HELLO must not be processed twice.
            return Err(Reason::Replayed);
        }
        let nonce = self.nonces.next_nonce();
        let session = self.free_number();
        let key = SessionKey::derive(&shared, &hello.nonce, &nonce);
        self.unconfirmed.insert(hello.nonce, session);
        if self.psk.is_some() {
            self.unproven_sessions.take(source, session);
        }
        self.sessions.insert(
            session,
            SessionEntry {
                key: key.clone(),
                joins: Window::default(),
                hello_nonce: hello.nonce,
                uses_tls: tls.is_some(),
                source,
            },
        );
        let proof = key.hello_ack_proof();
        let ack = HelloAck { nonce, credit: self.credit, limits: self.grants, session, proof };
        self.release(id);
        self.verdicts.push_back(Verdict::Open(id, hello, ack, key));
        Ok(())
    }

    fn free_number(&mut self) -> u64 {
        loop {
            let random = self.nonces.next_short_nonce();
            let number = random[..8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
            if !self.sessions.contains_key(&number) && !self.finished.contains_key(&number) {
                return number;
            }
        }
    }

    fn on_join(&mut self, id: ConnectionId, join: Join) -> Result<(), Reason> {
        let source = self.connections.get(&id).ok_or(Reason::Protocol)?.source;
        let known = self.sessions.get_mut(&join.session);
        let known = known.or_else(|| self.finished.get_mut(&join.session));
        let known = known.ok_or(Reason::UnknownSession)?;
        if !known.key.is_token(join.index, &join.token) {
            return Err(Reason::Authentication);
        }
        if !known.joins.take(join.index) {
            return Err(Reason::Replayed);
        }
        let nonce = self.nonces.next_short_nonce();
        let proof = known.key.server_proof(&join.nonce, &nonce);
        match self.unproven.look(source) {
            Admission::Free => {}
            Admission::InsteadOf(other) => self.refuse(other, Reason::Limit),
            Admission::Full | Admission::SourceFull(_) => return Err(Reason::Limit),
        }
        self.silent.give_back(source, id);
        self.unproven.take(source, id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.join = Some((join, nonce));
        }
        let challenge = Frame::Challenge(Challenge { nonce, proof });
        self.verdicts.push_back(Verdict::Send(id, challenge));
        Ok(())
    }

    fn on_proof(
        &mut self,
        id: ConnectionId,
        join: Join,
        nonce: [u8; 16],
        proof: &[u8; 32],
    ) -> Result<(), Reason> {
        let known = self.sessions.get(&join.session);
        let known = known.or_else(|| self.finished.get(&join.session));
        let known = known.ok_or(Reason::UnknownSession)?;
        if !known.key.is_client_proof(&join.nonce, &nonce, proof) {
            return Err(Reason::Authentication);
        }
        if self.finished.contains_key(&join.session) {
            return Err(Reason::Finished);
        }
        self.mark_confirmed(join.session);
        self.mark_proven(join.session);
        self.release(id);
        self.verdicts.push_back(Verdict::Joined(id, join));
        Ok(())
    }
}
