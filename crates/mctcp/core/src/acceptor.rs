//! The admission of a listener: distinguishes new sessions from joins, verifies
//! joins, enforces limits.
//!
//! | connection | receives | result |
//! |---|---|---|
//! | silent | HELLO | [`Open`](Verdict::Open), or [`Again`](Verdict::Again) if its nonce is known |
//! | silent | JOIN with a valid, unused token | CHALLENGE is sent; the connection is unproven |
//! | unproven | valid PROOF | [`Joined`](Verdict::Joined), or REFUSE if all is delivered |
//! | any | any other frame | REFUSE is sent; the connection is closed |
//! | any | timeout | the connection is closed |
//!
//! A burst of clients is queued, not refused: a connection without a place is opened later
//! ([`Acceptor::open`]), and a HELLO without a place for its session is held until a place is free,
//! for the rest of the handshake timeout.
//!
//! With a pre-shared key, a session counts against the session limit once its client has proven
//! that it has the key ([`Acceptor::prove`]). Before that, two rules bound the resources of a
//! client without the key: the token of a HELLO is checked without state, and replayed HELLOs,
//! whose token is valid, open at most [`Limits::unproven_sessions`] sessions, which end after
//! the handshake timeout.
//!
//! The token of a JOIN shows that the client has the session's key, and cannot be reused: for a
//! replayed token the server neither computes nor waits. The proof shows that the other end of this
//! connection has the key.

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
    Again(ConnectionId, u64),
    /// The connection belongs to this session, as this subflow. The session receives
    /// all further frames.
    Joined(ConnectionId, Join),
    /// Close the connection after sending queued frames.
    Close(ConnectionId),
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
    next: u64,
    /// Connections without verdict. All have the same timeout, so the first one expires first.
    connections: BTreeMap<ConnectionId, Connection>,
    silent: Quota<ConnectionId>,
    unproven: Quota<ConnectionId>,
    /// Sessions whose client has not proven that it has the pre-shared key.
    unproven_sessions: Quota<u64>,
    /// HELLOs with a valid token that are queued for a place, by source; and their number.
    waiting: BTreeMap<IpAddr, VecDeque<Waiting>>,
    waiting_count: usize,
    sessions: BTreeMap<u64, Known>,
    /// Sessions that ended without error, the newest last.
    finished: BTreeMap<u64, Known>,
    finished_in_order: VecDeque<u64>,
    /// Nonces of sessions whose client may not have received `HELLO_ACK`.
    unconfirmed: BTreeMap<[u8; 32], u64>,
    /// Nonces of other sessions, the newest last: a late HELLO must not open another session.
    used: BTreeSet<[u8; 32]>,
    used_in_order: VecDeque<[u8; 32]>,
    out: VecDeque<Verdict>,
}

/// After this share of the handshake timeout, a silent connection may be replaced by a new one.
const SILENT_SHARE: u64 = 4;
/// Number of nonces kept per allowed session.
const MAX_NONCES: usize = 4;

#[derive(Debug)]
struct Connection {
    source: IpAddr,
    deadline: Time,
    /// The join to be proven, and the nonce of the CHALLENGE.
    join: Option<(Join, [u8; 16])>,
    /// Its HELLO is queued for a place.
    is_waiting: bool,
}

/// A queued HELLO.
#[derive(Debug)]
struct Waiting {
    id: ConnectionId,
    hello: Hello,
    /// Secret exported by TLS.
    tls: Option<Box<[u8]>>,
}

/// State of a session for joins.
#[derive(Debug)]
struct Known {
    key: SessionKey,
    joins: Window,
    hello: [u8; 32],
    tls: bool,
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
            next: 0,
            connections: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_count: 0,
            sessions: BTreeMap::new(),
            finished: BTreeMap::new(),
            finished_in_order: VecDeque::new(),
            unconfirmed: BTreeMap::new(),
            used: BTreeSet::new(),
            used_in_order: VecDeque::new(),
            out: VecDeque::new(),
        }
    }

    /// Registers an accepted connection. `None`: no place is free. The driver must not read from
    /// the connection, and must call this again when another connection has left.
    pub fn open(&mut self, now: Time, source: IpAddr) -> Option<ConnectionId> {
        self.expire(now);
        match self.silent.look(source) {
            Admission::Free => {}
            Admission::InsteadOf(other) => self.close(other),
            Admission::Full => {
                let mut all = self.connections.iter();
                let (oldest, _) = all.find(|(_, it)| it.join.is_none() && !it.is_waiting)?;
                self.close_if_idle(now, *oldest)?;
            }
            Admission::SourceFull(oldest) => self.close_if_idle(now, oldest?)?,
        }
        let id = ConnectionId(self.next);
        self.next += 1;
        self.silent.take(source, id);
        let deadline = now + self.limits.handshake;
        self.connections.insert(id, Connection { source, deadline, join: None, is_waiting: false });
        Some(id)
    }

    /// Closes a silent connection after a share of the handshake timeout, since clients send HELLO
    /// or JOIN at once. `None`: it is not idle for that long.
    fn close_if_idle(&mut self, now: Time, id: ConnectionId) -> Option<()> {
        let Connection { deadline, is_waiting: false, .. } = *self.connections.get(&id)? else {
            return None;
        };
        let handshake = self.limits.handshake.as_nanos();
        let left = Span::from_nanos(handshake - handshake / SILENT_SHARE);
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
            (Frame::Hello(hello), None) if !connection.is_waiting => self.hello(id, hello, tls),
            (Frame::Join(join), None) => self.join(id, join),
            (Frame::Proof(proof), Some((join, nonce))) => self.proof(id, join, nonce, &proof),
            _ => Err(Reason::Protocol),
        };
        if let Err(reason) = result {
            self.out.push_back(Verdict::Send(id, Frame::Refuse(reason)));
            self.close(id);
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
    pub fn confirm(&mut self, session: u64) {
        let Some(known) = self.sessions.get(&session) else { return };
        if self.unconfirmed.get(&known.hello) == Some(&session) {
            self.unconfirmed.remove(&known.hello);
            self.used.insert(known.hello);
            self.used_in_order.push_back(known.hello);
        }
        if self.used_in_order.len() > self.limits.sessions.saturating_mul(MAX_NONCES)
            && let Some(oldest) = self.used_in_order.pop_front()
        {
            self.used.remove(&oldest);
        }
    }

    /// Records that the session's client has proven that it has the pre-shared key.
    pub fn prove(&mut self, session: u64) {
        if let Some(known) = self.sessions.get(&session) {
            self.unproven_sessions.give_back(known.source, session);
        }
        self.open_waiting();
    }

    /// The session has ended: further joins are rejected.
    pub fn forget(&mut self, session: u64) {
        self.confirm(session);
        self.prove(session);
        self.sessions.remove(&session);
        if self.finished.remove(&session).is_some() {
            self.finished_in_order.retain(|known| *known != session);
        }
        self.open_waiting();
    }

    /// The session has ended, and both ends have received everything. The client may have
    /// missed this if the last acknowledgement was lost with its connection: its JOIN is
    /// answered with FINISHED.
    pub fn finish(&mut self, session: u64) {
        self.confirm(session);
        self.prove(session);
        let Some(known) = self.sessions.remove(&session) else { return };
        self.finished.insert(session, known);
        self.finished_in_order.push_back(session);
        if self.finished_in_order.len() > self.limits.sessions
            && let Some(oldest) = self.finished_in_order.pop_front()
        {
            self.finished.remove(&oldest);
        }
        self.open_waiting();
    }

    /// The next verdict.
    pub fn poll(&mut self) -> Option<Verdict> {
        self.out.pop_front()
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
            if connection.is_waiting {
                self.out.push_back(Verdict::Send(id, Frame::Refuse(Reason::Limit)));
            }
            self.close(id);
        }
    }

    fn close(&mut self, id: ConnectionId) {
        self.release(id);
        self.out.push_back(Verdict::Close(id));
    }

    fn release(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            if connection.is_waiting
                && let Some(all) = self.waiting.get_mut(&connection.source)
            {
                all.retain(|waiting| waiting.id != id);
                self.waiting_count -= 1;
            }
            self.silent.give_back(connection.source, id);
            self.unproven.give_back(connection.source, id);
        }
    }

    fn hello(&mut self, id: ConnectionId, hello: Hello, tls: Option<&[u8]>) -> Result<(), Reason> {
        let shared = secret::shared(self.psk.as_deref(), tls);
        let has_psk = self.psk.is_some();
        if has_psk && !(hello.limits.proof && secret::is_hello_token(&shared, &hello)) {
            return Err(Reason::Authentication);
        }
        let source = self.connections.get(&id).ok_or(Reason::Protocol)?.source;
        if self.has_place(source) || self.is_known(&hello) {
            return self.begin(id, hello, tls);
        }
        // Replayed HELLOs may be queued too: reserve half of the places for other connections.
        if self.waiting_count >= self.limits.silent / 2 {
            return Err(Reason::Limit);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.is_waiting = true;
            let waiting = Waiting { id, hello, tls: tls.map(Box::from) };
            self.waiting.entry(source).or_default().push_back(waiting);
            self.waiting_count += 1;
        }
        Ok(())
    }

    /// Whether a place for a session from `source` is free.
    fn has_place(&self, source: IpAddr) -> bool {
        let proven = self.sessions.len() - self.unproven_sessions.taken();
        let is_unproven = self.psk.is_some();
        proven < self.limits.sessions
            && (!is_unproven || self.unproven_sessions.look(source) == Admission::Free)
    }

    /// Whether this HELLO was received before; then it needs no place.
    fn is_known(&self, hello: &Hello) -> bool {
        self.unconfirmed.contains_key(&hello.nonce) || self.used.contains(&hello.nonce)
    }

    /// Opens the queued sessions that have a place, the oldest of each source first.
    fn open_waiting(&mut self) {
        if self.waiting_count == 0 {
            return;
        }
        let sources: Vec<IpAddr> = self.waiting.keys().copied().collect();
        for source in sources {
            while self.has_place(source) {
                let Some(all) = self.waiting.get_mut(&source) else { break };
                let Some(Waiting { id, hello, tls }) = all.pop_front() else {
                    self.waiting.remove(&source);
                    break;
                };
                self.waiting_count -= 1;
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_waiting = false;
                }
                if let Err(reason) = self.begin(id, hello, tls.as_deref()) {
                    self.out.push_back(Verdict::Send(id, Frame::Refuse(reason)));
                    self.close(id);
                }
            }
        }
    }

    /// Opens the session of a HELLO, or adds the connection to it.
    fn begin(&mut self, id: ConnectionId, hello: Hello, tls: Option<&[u8]>) -> Result<(), Reason> {
        let source = self.connections.get(&id).ok_or(Reason::Protocol)?.source;
        let shared = secret::shared(self.psk.as_deref(), tls);
        let has_psk = self.psk.is_some();
        if let Some(&session) = self.unconfirmed.get(&hello.nonce) {
            // With TLS the session's key depends on its first connection, and a client that repeats
            // HELLO does not know which connection that was.
            if tls.is_some() || self.sessions.get(&session).is_none_or(|known| known.tls) {
                return Err(Reason::UnknownSession);
            }
            self.release(id);
            self.out.push_back(Verdict::Again(id, session));
            return Ok(());
        }
        if self.used.contains(&hello.nonce) {
            // Data after the first HELLO must not be processed twice.
            return Err(Reason::Replayed);
        }
        let nonce = self.nonces.draw();
        let session = self.free_number();
        let key = SessionKey::derive(&shared, &hello.nonce, &nonce);
        self.unconfirmed.insert(hello.nonce, session);
        if has_psk {
            self.unproven_sessions.take(source, session);
        }
        self.sessions.insert(
            session,
            Known {
                key: key.clone(),
                joins: Window::default(),
                hello: hello.nonce,
                tls: tls.is_some(),
                source,
            },
        );
        let proof = key.hello_ack_proof();
        let ack = HelloAck { nonce, credit: self.credit, limits: self.grants, session, proof };
        self.release(id);
        self.out.push_back(Verdict::Open(id, hello, ack, key));
        Ok(())
    }

    fn free_number(&mut self) -> u64 {
        loop {
            let drawn = self.nonces.draw_short();
            let number =
                drawn.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte));
            if !self.sessions.contains_key(&number) && !self.finished.contains_key(&number) {
                return number;
            }
        }
    }

    fn join(&mut self, id: ConnectionId, join: Join) -> Result<(), Reason> {
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
        let nonce = self.nonces.draw_short();
        let proof = known.key.server_proof(&join.nonce, &nonce);
        match self.unproven.look(source) {
            Admission::Free => {}
            Admission::InsteadOf(other) => {
                self.out.push_back(Verdict::Send(other, Frame::Refuse(Reason::Limit)));
                self.close(other);
            }
            Admission::Full | Admission::SourceFull(_) => return Err(Reason::Limit),
        }
        self.silent.give_back(source, id);
        self.unproven.take(source, id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.join = Some((join, nonce));
        }
        let challenge = Frame::Challenge(Challenge { nonce, proof });
        self.out.push_back(Verdict::Send(id, challenge));
        Ok(())
    }

    fn proof(
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
        self.confirm(join.session);
        self.prove(join.session);
        self.release(id);
        self.out.push_back(Verdict::Joined(id, join));
        Ok(())
    }
}
