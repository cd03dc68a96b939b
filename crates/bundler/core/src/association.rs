//! The association of the two gateways of a bundle: each accepts messages of one incarnation of its
//! peer.
//!
//! An incarnation is one run of a gateway: its counters start at 0, its sequence numbers at 1. A
//! gateway adopts a new incarnation of its peer only after an answer from it to a message that this
//! gateway has sent since it adopted the current incarnation. Messages recorded during earlier
//! incarnations of either gateway contain no such answer, so replaying them has no effect:
//!
//! | # | from | message | effect |
//! |---|---|---|---|
//! | 1 | sendbox | heartbeat without a receivebox | only a reply |
//! | 2 | receivebox | report with the sendbox and its heartbeat | the sendbox adopts the receivebox
//! |
//! | 3 | sendbox | heartbeat with the receivebox and its report | the receivebox adopts the sendbox
//! and its period |
//! | 4 | receivebox | reports, congestion ACKs | the sendbox accepts them |
//!
//! Within an incarnation a window of sequence numbers rejects duplicates (RFC 4303 §3.4.3).

#[cfg(test)]
mod tests;
pub(crate) mod window;

use base::{Span, Time};

use crate::digest::Key;
use crate::message::{Ack, Authenticator, Body, Heartbeat, Message, Report};
use crate::rejection::{Rejection, Rejections};
use window::ReplayWindow;

/// Words of the replay window: 2,048 messages. A receivebox that acknowledges every packet of 12
/// Mbit/s sends as many in two seconds.
const WINDOW: usize = 33;
/// Age of a heartbeat above which a report that answers it is rejected.
pub const ANSWER_LIFE: Span = Span::from_secs(5);

/// Type of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends heartbeats, receives reports and congestion ACKs.
    SendBox,
    /// Receives heartbeats, sends reports and congestion ACKs.
    ReceiveBox,
}

/// State of the other gateway, for one bundle.
#[derive(Clone, Debug)]
pub struct Association {
    role: Role,
    bundle: u32,
    authenticator: Authenticator,
    incarnation: u64,
    /// Sequence number of the next message.
    next: u64,
    peer: Option<Peer>,
    /// Sequence number of the first message since the peer was adopted: a new incarnation must
    /// answer this message or a later one.
    asked: u64,
    rejections: Rejections,
}

/// The adopted incarnation of the other gateway.
#[derive(Clone, Debug)]
struct Peer {
    incarnation: u64,
    window: ReplayWindow<WINDOW>,
    /// Sequence number of its newest heartbeat or report.
    newest: u64,
}

/// Content of a heartbeat from the sendbox, in addition to that of the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Binary logarithm of the period, at most [`crate::message::MAX_PERIOD_LOG2`].
    pub period_log2: u8,
    /// Bytes of the bundle sent so far.
    pub bytes: u64,
    /// Packets of the bundle sent so far.
    pub packets: u64,
}

/// An accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// To a receivebox. It must be answered with [`Association::report`].
    Heartbeat {
        /// Content of the heartbeat.
        heartbeat: Heartbeat,
        /// Sender and sequence number of the message, which the report must contain.
        question: Question,
        /// Whether the sender is adopted; otherwise the content is not trustworthy.
        adopted: bool,
        /// The sendbox has a new incarnation. Reported once per incarnation.
        peer_restarted: bool,
    },
    /// To a sendbox.
    Report {
        /// Content of the report.
        report: Report,
        /// The receivebox has a new incarnation, whose counters start at 0. Reported once per
        /// incarnation, except the first.
        peer_restarted: bool,
    },
    /// To a sendbox, from the adopted incarnation. Each is accepted once, in any order.
    Ack(Ack),
}

/// The heartbeat that a report answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    incarnation: u64,
    sequence: u64,
    sent_at: u64,
}

impl Association {
    /// A gateway without a peer. `incarnation` must differ from all earlier ones of this gateway; 0
    /// counts as 1.
    pub fn new(role: Role, bundle: u32, key: &Key, incarnation: u64) -> Self {
        Self {
            role,
            bundle,
            authenticator: Authenticator::new(key),
            incarnation: incarnation.max(1),
            next: 1,
            peer: None,
            asked: 1,
            rejections: Rejections::default(),
        }
    }

    /// The incarnation of this gateway.
    pub const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The adopted incarnation of the other gateway.
    pub fn peer(&self) -> Option<u64> {
        self.peer.as_ref().map(|peer| peer.incarnation)
    }

    /// Counters of rejected messages.
    pub const fn rejections(&self) -> &Rejections {
        &self.rejections
    }

    /// Encodes the next heartbeat, sent at `now`.
    pub fn heartbeat(&mut self, now: Time, sent: Sent) -> Vec<u8> {
        let answers = self.peer.as_ref().map_or(0, |peer| peer.newest);
        self.seal(
            self.peer().unwrap_or(0),
            Body::Heartbeat(Heartbeat {
                period_log2: sent.period_log2,
                bytes_sent: sent.bytes,
                packets_sent: sent.packets,
                sent_at: now.as_nanos(),
                answers,
            }),
        )
    }

    /// Encodes the report for a heartbeat that was received at `now`.
    pub fn report(
        &mut self,
        now: Time,
        question: Question,
        period_log2: Option<u8>,
        (bytes, packets): (u64, u64),
    ) -> Vec<u8> {
        self.seal(
            question.incarnation,
            Body::Report(Report {
                answers: question.sequence,
                sent_at: question.sent_at,
                period_log2,
                received_at: now.as_nanos(),
                bytes_received: bytes,
                packets_received: packets,
            }),
        )
    }

    /// Encodes a congestion ACK to the adopted sendbox; `None` if there is none.
    pub fn ack(&mut self, ack: Ack) -> Option<Vec<u8>> {
        let peer = self.peer()?;
        Some(self.seal(peer, Body::Ack(ack)))
    }

    /// Processes bytes received at `now`. Rejected bytes are only counted.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> Result<Received, Rejection> {
        let received = self.judge(now, bytes);
        if let Err(rejection) = received {
            self.rejections.count(rejection);
        }
        received
    }

    fn judge(&mut self, now: Time, bytes: &[u8]) -> Result<Received, Rejection> {
        let message = Message::open(&self.authenticator, bytes)?;
        if message.bundle != self.bundle {
            return Err(Rejection::UnknownBundle(message.bundle));
        }
        match (self.role, message.body) {
            (Role::ReceiveBox, Body::Heartbeat(heartbeat)) => {
                self.take_heartbeat(&message, heartbeat)
            }
            (Role::SendBox, Body::Report(report)) => self.take_report(now, &message, report),
            (Role::SendBox, Body::Ack(ack)) => self.take_ack(&message, ack),
            _ => Err(Rejection::WrongDirection),
        }
    }

    fn take_heartbeat(
        &mut self,
        message: &Message,
        heartbeat: Heartbeat,
    ) -> Result<Received, Rejection> {
        let names_us = message.peer == self.incarnation;
        let adopted = if self.peer() == Some(message.incarnation) {
            self.newest_of_peer(message)?;
            names_us
        } else {
            names_us && self.is_answer(heartbeat.answers)
        };
        let peer_restarted = adopted && self.adopt(message);
        let question = Question {
            incarnation: message.incarnation,
            sequence: message.sequence,
            sent_at: heartbeat.sent_at,
        };
        Ok(Received::Heartbeat { heartbeat, question, adopted, peer_restarted })
    }

    fn take_report(
        &mut self,
        now: Time,
        message: &Message,
        report: Report,
    ) -> Result<Received, Rejection> {
        if message.peer != self.incarnation {
            return Err(Rejection::StaleIncarnation);
        }
        if self.peer() == Some(message.incarnation) {
            self.newest_of_peer(message)?;
        } else if !self.is_answer(report.answers) {
            return Err(Rejection::StaleIncarnation);
        }
        if now.as_nanos().saturating_sub(report.sent_at) > ANSWER_LIFE.as_nanos() {
            return Err(Rejection::StaleAnswer);
        }
        Ok(Received::Report { report, peer_restarted: self.adopt(message) })
    }

    fn take_ack(&mut self, message: &Message, ack: Ack) -> Result<Received, Rejection> {
        match &mut self.peer {
            Some(peer)
                if peer.incarnation == message.incarnation && message.peer == self.incarnation =>
            {
                peer.window.take(message.sequence)?;
                Ok(Received::Ack(ack))
            }
            _ => Err(Rejection::StaleIncarnation),
        }
    }

    /// Whether an answer to our message `sequence` proves that its sender is alive since the
    /// peer was adopted.
    const fn is_answer(&self, sequence: u64) -> bool {
        sequence >= self.asked && sequence < self.next
    }

    /// Rejects a heartbeat or report of the adopted peer that is not its newest.
    fn newest_of_peer(&self, message: &Message) -> Result<(), Rejection> {
        let Some(peer) = &self.peer else { return Ok(()) };
        peer.window.check(message.sequence)?;
        if message.sequence < peer.newest { Err(Rejection::Overtaken) } else { Ok(()) }
    }

    /// Adopts the sender of the message, which has passed all checks. Returns whether it
    /// replaces another incarnation.
    fn adopt(&mut self, message: &Message) -> bool {
        let incarnation = message.incarnation;
        let before = self.peer();
        if before != Some(incarnation) {
            self.asked = self.next;
            self.peer = Some(Peer { incarnation, window: ReplayWindow::default(), newest: 0 });
        }
        if let Some(peer) = &mut self.peer {
            peer.newest = message.sequence;
            // Checked before, or the first number of its window.
            let _ = peer.window.take(message.sequence);
        }
        before.is_some_and(|before| before != incarnation)
    }

    fn seal(&mut self, peer: u64, body: Body) -> Vec<u8> {
        let sequence = self.next;
        self.next += 1;
        let (bundle, incarnation) = (self.bundle, self.incarnation);
        Message { bundle, incarnation, peer, sequence, body }.seal(&self.authenticator)
    }
}
