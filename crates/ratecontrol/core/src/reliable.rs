//! Reliable channels: every packet crosses a link exactly once.
//!
//! **Problem.** Plain SLBN requires that its packets arrive. If links lose packets, each hop can
//! retransmit packets that its neighbour has not acknowledged, like reliable link layers
//! ("classical techniques" in the paper's words).
//!
//! **State machines.** A [`Sender`] at one end of one direction of a link and a [`Receiver`] at the
//! other; acknowledgements use the opposite direction and may be lost too. Frames are numbered. An
//! [`Ack`] contains the number up to which all have arrived, a bit for each of the 64 after it, and
//! the transmission that it answers. Transmissions are numbered separately from frames, so that the
//! answer to a retransmission is not mistaken for one to the original. Therefore all round trips
//! can be measured, and, since links preserve the order, frames that were sent before an answered
//! transmission and have not arrived are lost and retransmitted at once. A timer, doubled while
//! nothing arrives, handles the rest.
//!
//! Frames are delivered on arrival, not in order: each session has one packet in flight, so the
//! order between packets is irrelevant, and a lost one does not delay others.
//!
//! **Costs.** One acknowledgement per frame, and buffers at every node: at most [`Sender::WINDOW`]
//! frames in flight and all frames queued behind them, up to one packet per session that crosses
//! the link. This is the per-session state that SLBN avoids. And a source that fails without Leave
//! stays counted, because nothing was lost; nor does a node recover that loses its memory.
//! [`crate::slbn::epochs`] handles both.

mod sender;

#[cfg(test)]
mod tests;

pub use sender::{Full, Sender};

/// Distinguishes new frames from retransmitted ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiver {
    /// All frames with lower numbers have arrived.
    next: u64,
    /// Bit *i*: frame `next` + 1 + *i* has arrived.
    later: u64,
}

impl Receiver {
    /// A receiver before the first frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes a frame: returns its packet if it is new, and the acknowledgement to send in any
    /// case. A frame beyond the range of an acknowledgement is dropped and must be retransmitted.
    pub fn receive<P>(&mut self, frame: Frame<P>) -> (Option<P>, Ack) {
        let new = match frame.number.checked_sub(self.next) {
            Some(0) => {
                // Skip the frames that have arrived by now.
                let run = self.later.trailing_ones();
                self.next += u64::from(run) + 1;
                self.later = self.later.checked_shr(run + 1).unwrap_or(0);
                true
            }
            Some(ahead @ 1..=64) => {
                let bit = 1 << (ahead - 1);
                let new = self.later & bit == 0;
                self.later |= bit;
                new
            }
            _ => false,
        };
        let ack = Ack { next: self.next, later: self.later, transmission: frame.transmission };
        (new.then_some(frame.packet), ack)
    }
}

/// A frame on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<P> {
    /// Number among the frames of this direction, from 0.
    pub number: u64,
    /// Number of the transmission, including retransmissions.
    pub transmission: u64,
    /// The packet that it carries.
    pub packet: P,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// All frames with lower numbers have arrived.
    pub next: u64,
    /// Bit *i*: frame `next` + 1 + *i* has arrived.
    pub later: u64,
    /// The transmission that it acknowledges.
    pub transmission: u64,
}
