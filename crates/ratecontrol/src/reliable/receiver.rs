//! The end that frames arrive at.

use super::{Ack, Frame};

/// Tells new frames from repeated ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receiver {
    /// All below have arrived.
    next: u64,
    /// Bit *i*: `next` + 1 + *i* has arrived.
    later: u64,
}

impl Receiver {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a frame: its packet if it is new, and the answer to send in any case. A frame from
    /// beyond what an answer can describe is not taken and has to come again.
    pub fn receive<P>(&mut self, frame: Frame<P>) -> (Option<P>, Ack) {
        let new = match frame.number.checked_sub(self.next) {
            Some(0) => {
                // Shifts past what has arrived by now.
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
