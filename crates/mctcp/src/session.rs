//! One end of a stream over several subflows.
//!
//! A driver owns the TCP connections. It tells the session what happens to them and what arrives,
//! and carries out what `Session::poll` answers. After every call that takes `now`, and after
//! `write`, `read` and `finish`, call `poll`
//! until it gives `None`, then look at `next_wake`.

use crate::frame::Frame;
use crate::{PathId, Reason, SubflowId};

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// Client: open a TCP connection on this path; tell
    /// `connected` or `connect_failed`.
    Connect(PathId),
    /// Client: give up opening a connection on this path.
    Abandon(PathId),
    /// Send a frame on a subflow, after those before.
    Send {
        /// The subflow.
        subflow: SubflowId,
        /// The frame's number there.
        path_seq: u32,
        /// The frame.
        frame: Frame<P>,
    },
    /// Close a subflow: once what was sent has left, or at once with a reset of TCP.
    Close {
        /// The subflow.
        subflow: SubflowId,
        /// At once.
        abort: bool,
    },
    /// Tell what TCP knows of this subflow now (`on_path_info`).
    Inspect(SubflowId),
    /// Something that the application or the operator may want to know.
    Event(Event),
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Both ends have heard of each other.
    Established,
    /// There is something to read, or the peer's stream has come to its end.
    Readable,
    /// There is room to write again.
    Writable,
    /// Both streams have come to their ends, and everything was acknowledged.
    Closed,
    /// The session is over; what was not delivered is lost.
    Failed {
        /// Why.
        reason: Reason,
        /// Whether the peer said so.
        by_peer: bool,
    },
    /// A subflow carries data.
    SubflowUp(SubflowId),
    /// A subflow makes no progress: what it carried is sent elsewhere.
    SubflowStale(SubflowId),
    /// A subflow makes progress again.
    SubflowRevived(SubflowId),
    /// A subflow is gone.
    SubflowDown(SubflowId),
    /// The peer has told a further address: paths to it may be added.
    AddressAdded(u8, std::net::SocketAddr),
    /// The peer's address is gone.
    AddressRemoved(u8),
}

/// How a TCP connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sent FIN, and all before it has arrived.
    Finished,
    /// It was reset, or broke.
    Failed,
}
