//! A listener's doorkeeper: tells new sessions from joins, proves joins, keeps the limits.
//!
//! | a connection | says | and is |
//! |---|---|---|
//! | silent | HELLO | [`Open`](Verdict::Open), or [`Again`](Verdict::Again) if its nonce is known |
//! | silent | JOIN with a token that is right and new | sent CHALLENGE, and is unproven |
//! | unproven | PROOF that is right | [`Joined`](Verdict::Joined), or REFUSE if all is delivered |
//! | any | anything else | sent REFUSE, and closed |
//! | any | nothing in time | closed |
//!
//! A burst of clients waits, it is not refused: a connection without a place is opened later
//! ([`Acceptor::open`]), and a HELLO without a place for its session is kept until there is one,
//! for the rest of the handshake time.
//!
//! With a pre-shared key a session counts against the limit of sessions once its client has proven
//! that it knows the key ([`Acceptor::prove`]). Before, two things bound what a client without the
//! key can take: the token of a HELLO is checked without state, and recorded HELLOs, whose token is
//! right, open at most [`Limits::unproven_sessions`] sessions, which end after the handshake time.
//!
//! The token of a JOIN shows that the client knows the session's key and may not be used again: a
//! recorded one makes the server neither work nor wait. The proof shows that this very connection's
//! other end knows the key.

pub mod quota;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use base::{Span, Time};
use bytes::Bytes;

use crate::Reason;
use crate::frame::{self, Challenge, Frame, Hello, HelloAck, Join};
use crate::secret::{self, Nonces, SessionKey};
use quota::{Admission, Quota};
use replay::Window;

/// A connection that has been accepted and is nobody's yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What a listener grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Max sessions at once; with a pre-shared key, those whose client has proven to know it.
    pub sessions: usize,
    /// With a pre-shared key: max sessions whose client has not proven to know it yet, in all.
    pub unproven_sessions: usize,
    /// The same for each source.
    pub unproven_sessions_per_source: usize,
    /// Most connections that have not said yet what they want, in all.
    pub silent: usize,
    /// The same for each source: an IPv4 address or an IPv6 network of 64 bits.
    pub silent_per_source: usize,
    /// Most joins that have not proven themselves, in all.
    pub unproven: usize,
    /// The same for each source.
    pub unproven_per_source: usize,
    /// A connection has to say what it wants, and to prove it, within this.
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

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To be sent on this connection, as its next frame.
    Send(ConnectionId, Frame<Bytes>),
    /// It begins a session, which is now the driver's to make
    /// (`Session::accept`). The `HELLO_ACK` is the session's to send.
    Open(ConnectionId, Hello, HelloAck, SessionKey),
    /// It repeats the HELLO of a session whose client has not heard of it: a further subflow.
    Again(ConnectionId, u64),
    /// It has proven to belong to this session, as this subflow. Frames that follow are the
    /// session's.
    Joined(ConnectionId, Join),
    /// It is to be closed after what was sent.
    Close(ConnectionId),
}

/// Tells what the connections of one listener are for.
///
/// A driver tells it of each connection ([`open`](Self::open)), of the frames on it until there is
/// a verdict, and of its end if that comes first ([`on_lost`](Self::on_lost)). After every call
/// it takes what [`poll`](Self::poll) gives until that is `None`, then looks at
/// [`next_wake`](Self::next_wake).
#[derive(Debug)]
pub struct Acceptor {
    limits: Limits,
    grants: frame::Limits,
    credit: u64,
    psk: Option<Box<[u8]>>,
    nonces: Nonces,
    next: u64,
    /// Without verdict. All have the same time, so the first has the least left.
    connections: BTreeMap<ConnectionId, Connection>,
    silent: Quota<ConnectionId>,
    unproven: Quota<ConnectionId>,
    /// Sessions whose client has not proven to know the pre-shared key.
    unproven_sessions: Quota<u64>,
    /// HELLOs with a right token that wait for a place, by source; and how many.
    waiting: BTreeMap<IpAddr, VecDeque<Waiting>>,
    waiting_count: usize,
    sessions: BTreeMap<u64, Known>,
    /// Those that have ended well, the newest last.
    finished: BTreeMap<u64, Known>,
    finished_in_order: VecDeque<u64>,
    /// Nonces of the sessions whose client may not know of them.
    unconfirmed: BTreeMap<[u8; 32], u64>,
    /// Nonces of other sessions, the newest last: a HELLO that comes late is not to open another.
    used: BTreeSet<[u8; 32]>,
    used_in_order: VecDeque<[u8; 32]>,
    out: VecDeque<Verdict>,
}

/// A silent connection makes room for another one after this share of the handshake time.
const SILENT_SHARE: u64 = 4;
/// So many nonces are kept for each session that there may be.
const NONCES_KEPT: usize = 4;

#[derive(Debug)]
struct Connection {
    source: IpAddr,
    deadline: Time,
    /// What is to be proven, and the nonce of the CHALLENGE.
    join: Option<(Join, [u8; 16])>,
    /// Its HELLO waits for a place.
    is_waiting: bool,
}

/// A HELLO that waits.
#[derive(Debug)]
struct Waiting {
    id: ConnectionId,
    hello: Hello,
    /// What TLS exports.
    tls: Option<Box<[u8]>>,
}

/// A session as far as joins are concerned.
#[derive(Debug)]
struct Known {
    key: SessionKey,
    joins: Window,
    hello: [u8; 32],
    tls: bool,
    source: IpAddr,
}

impl Acceptor {
    /// A listener that grants each session `grants` and a first credit of `credit` bytes. With a
    /// pre-shared key, sessions have to prove that they know it. `seed` has to be unpredictable
    /// and never used before.
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

    /// A connection was accepted. `None`: there is no place for it now. The driver reads nothing of
    /// it and asks again when another connection has left.
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

    /// Closes a silent connection that has had a share of the handshake time: clients send HELLO or
    /// JOIN at once. `None`: it has not.
    fn close_if_idle(&mut self, now: Time, id: ConnectionId) -> Option<()> {
        let Connection { deadline, is_waiting: false, .. } = *self.connections.get(&id)? else {
            return None;
        };
        let handshake = self.limits.handshake.as_nanos();
        let left = Span::from_nanos(handshake - handshake / SILENT_SHARE);
        (deadline <= now + left).then(|| self.close(id))
    }

    /// A frame came. `tls`: what TLS exports for this connection, if it is under TLS.
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

    /// A connection without verdict has ended, or turned out to be something else.
    pub fn on_lost(&mut self, now: Time, id: ConnectionId) {
        self.expire(now);
        self.release(id);
    }

    /// The session's client knows of it, and will not say HELLO for it again. Data may follow a
    /// HELLO at once and tell nothing: see [`Session::is_confirmed`](crate::Session::is_confirmed).
    pub fn confirm(&mut self, session: u64) {
        let Some(known) = self.sessions.get(&session) else { return };
        if self.unconfirmed.get(&known.hello) == Some(&session) {
            self.unconfirmed.remove(&known.hello);
            self.used.insert(known.hello);
            self.used_in_order.push_back(known.hello);
        }
        if self.used_in_order.len() > self.limits.sessions.saturating_mul(NONCES_KEPT)
            && let Some(oldest) = self.used_in_order.pop_front()
        {
            self.used.remove(&oldest);
        }
    }

    /// The session's client has proven that it knows the pre-shared key.
    pub fn prove(&mut self, session: u64) {
        if let Some(known) = self.sessions.get(&session) {
            self.unproven_sessions.give_back(known.source, session);
        }
        self.open_waiting();
    }

    /// The session is over: nobody joins it any more.
    pub fn forget(&mut self, session: u64) {
        self.confirm(session);
        self.prove(session);
        self.sessions.remove(&session);
        if self.finished.remove(&session).is_some() {
            self.finished_in_order.retain(|known| *known != session);
        }
        self.open_waiting();
    }

    /// The session is over, and both ends have everything. Its client may not know, if the last
    /// acknowledgement was lost with its connection: when it joins, it is told.
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

    /// When [`on_wake`](Self::on_wake) is due.
    pub fn next_wake(&self) -> Option<Time> {
        self.connections.first_key_value().map(|(_, connection)| connection.deadline)
    }

    /// Closes what has not proven itself in time.
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
        // Recorded HELLOs wait, too: places stay for others.
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

    /// Whether there is a place for a session from `source`.
    fn has_place(&self, source: IpAddr) -> bool {
        let proven = self.sessions.len() - self.unproven_sessions.taken();
        let is_unproven = self.psk.is_some();
        proven < self.limits.sessions
            && (!is_unproven || self.unproven_sessions.look(source) == Admission::Free)
    }

    /// Whether a HELLO came before, so that it takes no place.
    fn is_known(&self, hello: &Hello) -> bool {
        self.unconfirmed.contains_key(&hello.nonce) || self.used.contains(&hello.nonce)
    }

    /// Opens the sessions that have waited for a place, of each source the oldest first.
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

    /// Opens the session of a HELLO, or adds a connection to it.
    fn begin(&mut self, id: ConnectionId, hello: Hello, tls: Option<&[u8]>) -> Result<(), Reason> {
        let source = self.connections.get(&id).ok_or(Reason::Protocol)?.source;
        let shared = secret::shared(self.psk.as_deref(), tls);
        let has_psk = self.psk.is_some();
        if let Some(&session) = self.unconfirmed.get(&hello.nonce) {
            // The key of a session under TLS comes from its first connection, and a client that
            // says HELLO again does not know which one that was.
            if tls.is_some() || self.sessions.get(&session).is_none_or(|known| known.tls) {
                return Err(Reason::UnknownSession);
            }
            self.release(id);
            self.out.push_back(Verdict::Again(id, session));
            return Ok(());
        }
        if self.used.contains(&hello.nonce) {
            // What followed the first one may not be taken twice.
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
