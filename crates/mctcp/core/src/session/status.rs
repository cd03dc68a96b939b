//! Status of a session for its driver.

use base::{Bytes, Span};

use super::subflow::State;
use super::{Phase, Session};
use crate::frame::Priority;
use crate::payload::Payload;
use crate::secret::SessionKey;
use crate::{PathId, PathInfo, Reason, SubflowId};

/// State of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubflowState {
    /// The handshake is in progress.
    Opening,
    /// The subflow carries data.
    Active,
    /// The subflow makes no progress.
    Stale,
    /// The subflow is being closed.
    Draining,
}

/// Status of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowStatus {
    /// Identifier of the subflow, the same at both ends.
    pub id: SubflowId,
    /// The client's path.
    pub path: Option<PathId>,
    /// State of the subflow.
    pub state: SubflowState,
    /// Priority of the subflow.
    pub priority: Priority,
    /// The last values from TCP.
    pub info: PathInfo,
    /// Payload sent on it, including copies.
    pub sent: Bytes,
    /// Part of `sent` that other subflows had carried before.
    pub reinjected: Bytes,
    /// Payload received on it.
    pub received: Bytes,
    /// Payload on it that the peer has not acknowledged.
    pub outstanding: Bytes,
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of the stream that were sent at least once.
    pub sent: u64,
    /// Bytes of the stream that the peer has acknowledged in order.
    pub acked: u64,
    /// Bytes of the peer's stream received in order.
    pub received: u64,
    /// Bytes retransmitted on other subflows.
    pub reinjected: u64,
    /// Bytes received more than once.
    pub duplicate: u64,
    /// Maximum number of bytes stored after a gap.
    pub reorder_peak: u64,
    /// Bytes currently buffered for the application.
    pub buffered: u64,
    /// Total time with data to send and without credit.
    pub credit_blocked: Span,
    /// Subflows that carried data.
    pub subflows_opened: u64,
    /// Subflows that ended before the session.
    pub subflows_lost: u64,
    /// Segments that TCP retransmitted on ended subflows.
    pub retransmits: u64,
}

impl<P: Payload> Session<P> {
    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Server: whether the client has received `HELLO_ACK`, so that it will not repeat HELLO
    /// ([`Acceptor::mark_confirmed`](crate::Acceptor::mark_confirmed)).
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Whether both streams have ended.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether both streams were delivered. The server is then closed; the client stays until the
    /// server has closed too.
    pub fn is_done(&self) -> bool {
        self.waits_for_close || self.is_closed()
    }

    /// Reason for which the session failed, if it did.
    pub fn failed(&self) -> Option<Reason> {
        if let Phase::Failed(reason) = self.phase { Some(reason) } else { None }
    }

    /// The session's key, once it is known.
    pub fn key(&self) -> Option<&SessionKey> {
        self.key.as_ref()
    }

    /// The session's number, once it is known.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Status of all subflows.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowStatus> {
        self.subflows.iter().map(|subflow| SubflowStatus {
            id: subflow.id,
            path: subflow.path,
            state: match subflow.state {
                State::Connected | State::HelloSent { .. } | State::JoinSent { .. } => {
                    SubflowState::Opening
                }
                State::Active => SubflowState::Active,
                State::Stale { .. } => SubflowState::Stale,
                State::Draining { .. } => SubflowState::Draining,
            },
            priority: subflow.priority,
            info: subflow.info,
            sent: Bytes::new(subflow.sent),
            reinjected: Bytes::new(subflow.reinjected),
            received: Bytes::new(subflow.received),
            outstanding: Bytes::new(subflow.outstanding),
        })
    }

    /// Counters since the start.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        statistics.sent = self.outgoing.sent();
        statistics.acked = self.outgoing.acked().min(self.outgoing.sent());
        statistics.received = self.incoming.next();
        statistics.duplicate = self.incoming.duplicate_bytes;
        statistics.reorder_peak = self.incoming.early_peak;
        statistics.buffered = self.incoming.buffered();
        if let Some(since) = self.credit_blocked_since {
            statistics.credit_blocked += self.now.since(since);
        }
        statistics
    }

    /// Unsent data, for lack of room or credit.
    pub fn unsent(&self) -> Bytes {
        Bytes::new(self.outgoing.unsent())
    }

    /// Whether the peer has acknowledged all data and the end of the stream.
    pub fn is_delivered(&self) -> bool {
        self.outgoing.is_done()
    }

    /// Returns all unacknowledged data, in order, to send them over plain TCP if the peer does
    /// not support MCTCP.
    pub fn reclaim(&mut self) -> Vec<P> {
        self.outgoing.reclaim()
    }
}
