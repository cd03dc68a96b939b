//! What the two boxes of a bundle believe of each other.
//!
//! An incarnation is one life of a box: its counters begin at 0, its sequence numbers at 1. Either
//! box believes a new incarnation of the other only if that answers something that this box has
//! itself said since it adopted the present one. What was recorded in an earlier life of either
//! box answers nothing of that kind, so it changes nothing, however it is sent again:
//!
//! | # | from | says | effect |
//! |---|---|---|---|
//! | 1 | sendbox | heartbeat that names no receivebox | none but an answer |
//! | 2 | receivebox | report that names the sendbox and its heartbeat | the sendbox adopts the receivebox |
//! | 3 | sendbox | heartbeat that names the receivebox and its report | the receivebox adopts the sendbox and its period |
//! | 4 | receivebox | reports, congestion ACKs | the sendbox believes them |
//!
//! Within an incarnation a window of sequence numbers refuses what has been received before
//! (RFC 4303 §3.4.3).

#[cfg(test)]
mod tests;
pub(crate) mod window;

use base::{Span, Time};

use crate::digest::Key;
use crate::message::{Ack, Authenticator, Body, Heartbeat, Message, Report};
use crate::rejection::{Rejection, Rejections};
use window::ReplayWindow;

/// Words of the replay window: 2,048 messages, as many as a receivebox that acknowledges every
/// packet of 12 Mbit/s sends in two seconds.
const WINDOW: usize = 33;
/// A report that answers an older heartbeat is refused.
pub const ANSWER_LIFE: Span = Span::from_secs(5);

/// Which box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends heartbeats, takes reports and congestion ACKs.
    SendBox,
    /// The other way round.
    ReceiveBox,
}

/// One box's view of the other, for one bundle.
#[derive(Clone, Debug)]
pub struct Association {
    role: Role,
    bundle: u32,
    authenticator: Authenticator,
    incarnation: u64,
    /// Of the next message sent.
    next: u64,
    peer: Option<Peer>,
    /// Of the first message sent since the peer was adopted: what proves that a new one lives must
    /// answer this one or a later one.
    asked: u64,
    rejections: Rejections,
}

/// The adopted incarnation of the other box.
#[derive(Clone, Debug)]
struct Peer {
    incarnation: u64,
    window: ReplayWindow<WINDOW>,
    /// Of its newest heartbeat or report.
    newest: u64,
}

/// What the sendbox puts into a heartbeat beside what the association knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Binary logarithm of the period, at most [`crate::message::LONGEST_PERIOD`].
    pub period_log2: u8,
    /// Bytes of the bundle that have left the sendbox so far.
    pub bytes: u64,
    /// Packets likewise.
    pub packets: u64,
}

/// A message that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// To a receivebox. It is to be answered with [`Association::report`].
    Heartbeat {
        /// What it says.
        heartbeat: Heartbeat,
        /// Who asks, and with which message: what the report must name.
        question: Question,
        /// Whether its sender is the adopted one; otherwise its content must not be believed.
        adopted: bool,
        /// The sendbox has begun a new incarnation. Told once for each.
        peer_restarted: bool,
    },
    /// To a sendbox.
    Report {
        /// What it says.
        report: Report,
        /// The receivebox has begun a new incarnation, so its counters began anew. Told once for
        /// each. Not told of the first.
        peer_restarted: bool,
    },
    /// To a sendbox. Of the adopted incarnation, once each, in any order.
    Ack(Ack),
}

/// What a report answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    incarnation: u64,
    sequence: u64,
    sent_at: u64,
}

impl Association {
    /// A box that knows nothing of the other. `incarnation` must differ from all earlier ones of
    /// the box; 0 counts as 1.
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

    /// The incarnation of this box.
    pub const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The adopted incarnation of the other box.
    pub fn peer(&self) -> Option<u64> {
        self.peer.as_ref().map(|peer| peer.incarnation)
    }

    /// What was refused so far.
    pub const fn rejections(&self) -> &Rejections {
        &self.rejections
    }

    /// The bytes of the next heartbeat, sent at `now`.
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

    /// The bytes of the answer to a heartbeat, received at `now`.
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

    /// The bytes of a congestion ACK to the adopted sendbox; `None` if there is none.
    pub fn ack(&mut self, ack: Ack) -> Option<Vec<u8>> {
        let peer = self.peer()?;
        Some(self.seal(peer, Body::Ack(ack)))
    }

    /// Takes any bytes that came at `now`. What is refused is counted and changes nothing else.
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

    /// Whether what answers our message `sequence` must have been said since the peer was adopted.
    const fn is_answer(&self, sequence: u64) -> bool {
        sequence >= self.asked && sequence < self.next
    }

    /// Refuses a heartbeat or report of the adopted peer that is not its newest.
    fn newest_of_peer(&self, message: &Message) -> Result<(), Rejection> {
        let Some(peer) = &self.peer else { return Ok(()) };
        peer.window.check(message.sequence)?;
        if message.sequence < peer.newest { Err(Rejection::Overtaken) } else { Ok(()) }
    }

    /// Believes that the sender of the message, which has passed all checks, is the other box.
    /// Returns whether it has taken the place of another.
    fn adopt(&mut self, message: &Message) -> bool {
        let incarnation = message.incarnation;
        let before = self.peer();
        if before != Some(incarnation) {
            self.asked = self.next;
            self.peer = Some(Peer { incarnation, window: ReplayWindow::default(), newest: 0 });
        }
        if let Some(peer) = &mut self.peer {
            peer.newest = message.sequence;
            // Checked before, or the first of its window.
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
