//! What a driver may ask.

use base::{Bytes, Span};

use super::subflow::{State, Subflow};
use super::{Phase, Session};
use crate::frame::Priority;
use crate::payload::Payload;
use crate::secret::SessionKey;
use crate::{PathId, PathInfo, Reason, SubflowId};

/// How far a subflow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubflowState {
    /// Its handshake goes on.
    Opening,
    /// It carries data.
    Active,
    /// It makes no progress.
    Stale,
    /// It is about to end.
    Draining,
}

/// What is known of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowStatus {
    /// Its name.
    pub id: SubflowId,
    /// The client's path.
    pub path: Option<PathId>,
    /// How far it is.
    pub state: SubflowState,
    /// How it is used.
    pub priority: Priority,
    /// What TCP told last.
    pub info: PathInfo,
    /// Payload given to it, copies included.
    pub sent: Bytes,
    /// Payload of these that other subflows had carried before.
    pub reinjected: Bytes,
    /// Payload that came on it.
    pub received: Bytes,
    /// Payload that it carries and the peer has not acknowledged.
    pub outstanding: Bytes,
}

/// What a session has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of the stream that were sent at least once.
    pub sent: u64,
    /// Bytes of the stream that the peer has acknowledged in order.
    pub acked: u64,
    /// Bytes of the peer's stream that came in order.
    pub received: u64,
    /// Bytes sent again on other subflows.
    pub reinjected: u64,
    /// Bytes that came more than once.
    pub duplicate: u64,
    /// Most bytes that waited beyond a gap at once.
    pub reorder_peak: u64,
    /// Bytes that are kept for the application now.
    pub buffered: u64,
    /// For how long there was something to send and no credit.
    pub credit_blocked: Span,
    /// Subflows that carried data.
    pub subflows_opened: u64,
    /// Subflows that ended before the session.
    pub subflows_lost: u64,
    /// Segments that the TCP connections sent again, those of past subflows.
    pub retransmits: u64,
}

impl Statistics {
    /// Takes in what a subflow has counted that is gone.
    pub(super) fn add<P>(&mut self, subflow: &Subflow<P>) {
        self.retransmits += subflow.info.retransmits;
    }
}

impl<P: Payload> Session<P> {
    /// Whether both ends have heard of each other.
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Server: whether the client has shown that it knows of the session, so that it will not say
    /// HELLO for it again ([`Acceptor::confirm`](crate::Acceptor::confirm)).
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Whether both streams have come to their ends.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether both streams were delivered. The server is closed then; the client stays until the
    /// server knows.
    pub fn is_done(&self) -> bool {
        self.done || self.is_closed()
    }

    /// Why the session failed, if it did.
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

    /// The subflows there are.
    pub fn subflows(&self) -> impl Iterator<Item = SubflowStatus> {
        self.subflows.iter().map(|subflow| SubflowStatus {
            id: subflow.id,
            path: subflow.path,
            state: match subflow.state {
                State::Held | State::Greeting { .. } | State::Joining { .. } => {
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

    /// What the session has counted so far.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        statistics.sent = self.outgoing.sent();
        statistics.acked = self.outgoing.acked().min(self.outgoing.sent());
        statistics.received = self.incoming.next();
        statistics.duplicate = self.incoming.duplicate;
        statistics.reorder_peak = self.incoming.peak;
        statistics.buffered = self.incoming.buffered();
        if let Some(since) = self.blocked_since {
            statistics.credit_blocked += self.now.since(since);
        }
        statistics
    }

    /// What was written and never sent, for want of room or credit.
    pub fn unsent(&self) -> Bytes {
        Bytes::new(self.outgoing.unsent())
    }

    /// Whether the peer has everything that was written, and knows that it is everything.
    pub fn is_delivered(&self) -> bool {
        self.outgoing.is_done()
    }

    /// Gives back everything that was written and not acknowledged, in order, for whoever goes on
    /// without the session (plain TCP, where the peer does not speak MCTCP).
    pub fn reclaim(&mut self) -> Vec<P> {
        self.outgoing.reclaim()
    }
}
