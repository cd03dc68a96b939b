//! Output of reassembly: connections, whole messages, gaps.

use std::net::SocketAddr;

use base::Time;

use crate::MirrorId;

/// One end of a connection, or the direction of the bytes that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    Low,
    High,
}

impl End {
    /// 0 or 1.
    pub const fn index(self) -> usize {
        self as usize
    }

    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Low => Self::High,
            Self::High => Self::Low,
        }
    }
}

/// Number of a connection. Numbers are reused after [`Receiver::closed`] of both ends (that is,
/// after [`Receiver::ended`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    pub mirror: MirrorId,
    /// Addresses of [`End::Low`] and [`End::High`].
    pub ends: [SocketAddr; 2],
    /// The end that sent the SYN, if a SYN was captured; `None` if the capture starts in the middle
    /// of the connection.
    pub opener: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Time of the first byte after the gap, or of the timeout.
    pub time: Time,
    pub since: Time,
    pub missing: u64,
    /// Captured bytes that belong to no whole message: the truncated message before the gap, and
    /// the bytes up to the next certain message boundary.
    pub skipped: u64,
    /// Bytes of messages that are delivered without a certain message boundary: all messages of a
    /// short stream that was captured from the middle.
    pub unconfirmed: u64,
    /// The receiver acknowledged the bytes: the router has them, and the mirror lost the clones.
    pub acknowledged: bool,
    /// Messages can be decoded again after the gap. Not set at the end of a stream.
    pub resynchronised: bool,
    /// The bytes passed the capture, which lacks them for this reason.
    pub limit: Option<Limit>,
}

/// Why a capture lacks bytes that passed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It cuts packets off after a number of bytes.
    Length,
    /// It ends within a message.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    Finished,
    Reset,
    /// A new connection with the same addresses started; the end of this one was not captured.
    Replaced,
    /// Removed after the idle timeout.
    Idle,
    Evicted,
    Ended,
}

/// Receives the output of reassembly. For each connection, `opened` comes first and `ended` last,
/// with the messages of each direction in order in between.
pub trait Receiver {
    /// A new connection; `time` is that of its first segment.
    fn opened(&mut self, time: Time, id: ConnectionId, connection: &Connection);
    /// A whole message of `from`, with valid marker, length and type. `bytes` has exactly the
    /// length in the header. `time` is that of the segment that completed it.
    fn message(&mut self, time: Time, id: ConnectionId, from: End, bytes: &[u8]);
    fn hole(&mut self, id: ConnectionId, from: End, hole: &Hole);
    /// `from` sends no more bytes. A reset or a replacement closes both ends.
    fn closed(&mut self, time: Time, id: ConnectionId, from: End, close: Close);
    /// The connection has ended; its number may be reused.
    fn ended(&mut self, time: Time, id: ConnectionId);
}
