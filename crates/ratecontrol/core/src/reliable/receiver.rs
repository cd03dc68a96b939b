//! The receiving end of a channel.

use super::{Ack, Frame};

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
