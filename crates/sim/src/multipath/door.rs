//! The server of a flow: its acceptor, which every connection has to pass.

use std::net::{IpAddr, Ipv4Addr};

use base::Time;
use mctcp::acceptor::{Acceptor, ConnectionId, Limits, Verdict};
use mctcp::{Counted, Frame, Settings};

/// As good as no limit.
const MANY: usize = u32::MAX as usize;

/// A server's acceptor. Its frames have no payload, so that they are the same with and without
/// bytes.
pub(super) struct Door {
    acceptor: Acceptor,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").finish_non_exhaustive()
    }
}

impl Door {
    /// Simulated clients are as many as the lab has: only the time for a handshake is limited.
    pub(super) fn new(settings: &Settings, credit: u64, seed: [u8; 32]) -> Self {
        let limits = Limits {
            sessions: MANY,
            silent: MANY,
            silent_per_source: MANY,
            unproven: MANY,
            unproven_per_source: MANY,
            ..Limits::default()
        };
        Self { acceptor: Acceptor::new(limits, settings.limits(false), credit, None, seed) }
    }

    /// A connection has been accepted.
    pub(super) fn open(&mut self, now: Time) -> Option<ConnectionId> {
        self.acceptor.open(now, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// A frame has come on a connection that is nobody's yet.
    pub(super) fn on_frame(&mut self, now: Time, id: ConnectionId, frame: Frame<Counted>) {
        self.acceptor.on_frame(now, id, handshake(frame), None);
    }

    pub(super) fn on_lost(&mut self, now: Time, id: ConnectionId) {
        self.acceptor.on_lost(now, id);
    }

    /// The client of a session has been heard of beyond its HELLO.
    pub(super) fn confirm(&mut self, session: u64) {
        self.acceptor.confirm(session);
    }

    pub(super) fn forget(&mut self, session: u64) {
        self.acceptor.forget(session);
    }

    /// The server's end of a session has closed, and the client may not know.
    pub(super) fn finish(&mut self, session: u64) {
        self.acceptor.finish(session);
    }

    pub(super) fn poll(&mut self) -> Option<Verdict> {
        self.acceptor.poll()
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.acceptor.next_wake()
    }

    pub(super) fn on_wake(&mut self, now: Time) {
        self.acceptor.on_wake(now);
    }
}

/// A frame of a handshake, whatever the payload of others; those are none of the acceptor's.
pub(super) fn handshake<P, Q>(frame: Frame<P>) -> Frame<Q> {
    match frame {
        Frame::Hello(hello) => Frame::Hello(hello),
        Frame::HelloAck(ack) => Frame::HelloAck(ack),
        Frame::Join(join) => Frame::Join(join),
        Frame::Challenge(challenge) => Frame::Challenge(challenge),
        Frame::Proof(proof) => Frame::Proof(proof),
        Frame::Refuse(reason) => Frame::Refuse(reason),
        _ => Frame::Ignored,
    }
}
