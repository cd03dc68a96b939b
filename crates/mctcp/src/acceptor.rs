//! A listener's doorkeeper: tells new sessions from joins, proves joins, keeps the limits.

use base::Span;

use crate::frame::{Frame, Hello, HelloAck, Join};
use crate::secret::SessionKey;

/// A connection that has been accepted and is nobody's yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What a listener grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions at once.
    pub sessions: usize,
    /// Most connections that have not proven themselves, in all.
    pub unproven: usize,
    /// The same for each source address.
    pub unproven_per_source: usize,
    /// A connection has to prove itself within this.
    pub handshake: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 1024,
            unproven: 64,
            unproven_per_source: 16,
            handshake: Span::from_secs(2),
        }
    }
}

/// What became of a connection.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// To be sent on this connection, as its next frame.
    Send(ConnectionId, Frame<bytes::Bytes>),
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
