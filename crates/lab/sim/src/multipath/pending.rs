//! Pending connections of a flow's server, in the acceptor that every connection passes first.

use std::net::{IpAddr, Ipv4Addr};

use base::Time;
use mctcp::acceptor::{Acceptor, ConnectionId, Limits, Verdict};
use mctcp::{Counted, Frame, Settings};

/// A limit that no flow reaches.
const UNLIMITED: usize = u32::MAX as usize;

/// A server's acceptor. Its frames have no payload, so they are the same with real and
/// with counted bytes.
pub(super) struct PendingConnections {
    acceptor: Acceptor,
}

impl std::fmt::Debug for PendingConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingConnections").finish_non_exhaustive()
    }
}

impl PendingConnections {
    /// A lab may have any number of clients: only the handshake time is limited.
    pub(super) fn new(settings: &Settings, credit: u64, seed: [u8; 32]) -> Self {
        let limits = Limits {
            sessions: UNLIMITED,
            silent: UNLIMITED,
            silent_per_source: UNLIMITED,
            unproven: UNLIMITED,
            unproven_per_source: UNLIMITED,
            ..Limits::default()
        };
        Self { acceptor: Acceptor::new(limits, settings.limits(false), credit, None, seed) }
    }

    /// Registers an accepted connection.
    pub(super) fn open(&mut self, now: Time) -> Option<ConnectionId> {
        self.acceptor.open(now, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Handles a frame on a connection that is not yet assigned to a session.
    pub(super) fn on_frame(&mut self, now: Time, id: ConnectionId, frame: Frame<Counted>) {
        self.acceptor.on_frame(now, id, handshake(frame), None);
    }

    pub(super) fn on_lost(&mut self, now: Time, id: ConnectionId) {
        self.acceptor.on_lost(now, id);
    }

    /// Confirms a session: its client has sent more than a HELLO.
    pub(super) fn confirm(&mut self, session: u64) {
        self.acceptor.mark_confirmed(session);
    }

    pub(super) fn forget(&mut self, session: u64) {
        self.acceptor.remove(session);
    }

    /// The server has closed a session, and the client may not have received this.
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

/// Converts a handshake frame to another payload type; the acceptor does not use other frames.
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
