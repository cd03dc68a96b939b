//! What reassembly says: connections, whole messages, holes.

use std::net::SocketAddr;

use base::Time;

use crate::MirrorId;

/// One end of a connection, or the direction of what that end sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// The end with the lower address and port.
    Low,
    /// The other.
    High,
}

impl End {
    /// 0 or 1.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }
}

/// A connection while it lasts. Numbers are used again after [`Receiver::closed`] of both ends
/// (that is, after [`Receiver::ended`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// As an index into a table of connections.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The stream of clones that shows it.
    pub mirror: MirrorId,
    /// [`End::Low`] and [`End::High`].
    pub ends: [SocketAddr; 2],
    /// The end whose SYN without ACK was seen, or whose peer's SYN with ACK was; `None` if the
    /// connection was met in the middle.
    pub opener: Option<End>,
}

/// Bytes of a stream that will not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// When the first byte behind the hole was seen, or the hole was given up.
    pub time: Time,
    /// When the last byte before it was seen.
    pub since: Time,
    /// Bytes of the stream that were never captured.
    pub missing: u64,
    /// Bytes that were captured and belong to no whole message: the cut message before the hole,
    /// and what follows it up to the next certain message boundary.
    pub skipped: u64,
    /// Bytes of messages that are handed out although no certain boundary says that they are
    /// messages: all there is of a short stream that was met in the middle.
    pub unconfirmed: u64,
    /// The receiver acknowledged them: the router has them, the mirror lost them. Otherwise
    /// nobody knows.
    pub acknowledged: bool,
    /// Messages may be decoded again behind it. Not set at the end of a stream.
    pub resynchronised: bool,
}

/// How a direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// FIN, and all before it.
    Finished,
    /// RST within the window.
    Reset,
    /// A new SYN took the addresses over: its end was not seen.
    Replaced,
    /// Nothing came for so long that the limit of idle time forgot it.
    Idle,
    /// The limit of connections or memory forgot it.
    Evicted,
    /// The input ended.
    Ended,
}

/// Who listens to reassembly. For each connection: `opened` first, `ended` last; in between the
/// messages of each direction in the order of its stream.
pub trait Receiver {
    /// A connection is there. `time` is that of its first segment.
    fn opened(&mut self, time: Time, id: ConnectionId, connection: &Connection);
    /// A whole message that `from` sent: marker, length and type hold; `bytes` is exactly as long
    /// as its length field says. `time` is that of the segment that completed it.
    fn message(&mut self, time: Time, id: ConnectionId, from: End, bytes: &[u8]);
    /// Something is missing in what `from` sent.
    fn hole(&mut self, id: ConnectionId, from: End, hole: &Hole);
    /// `from` sends no more. For a reset or a replacement both ends are closed.
    fn closed(&mut self, time: Time, id: ConnectionId, from: End, close: Close);
    /// Nothing more comes of the connection; its number may be used again.
    fn ended(&mut self, time: Time, id: ConnectionId);
}
