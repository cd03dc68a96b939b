//! Channels that lose nothing: every packet crosses a link exactly once.
//!
//! **Problem.** Plain SLBN needs its packets to arrive. Where links lose some, each hop can repeat
//! what its neighbour has not confirmed, as reliable link layers do ("classical techniques" in the
//! paper's words).
//!
//! **Machine.** A [`Sender`] at one end of one direction of a link and a [`Receiver`] at the other;
//! acknowledgements return by the opposite direction and may be lost too. Frames are numbered; an
//! [`Ack`] tells the number up to which all have arrived, a bit for each of the 64 after it, and
//! which transmission it answers. Transmissions are numbered apart from frames, so an answer to a
//! repetition is not taken for one to the original: all round trips can be measured, and, since
//! links keep the order, what was sent before an answered transmission and has not arrived is
//! lost and repeated at once. A timer, doubled while nothing is heard, covers the rest.
//!
//! Frames are handed up as they come, not in order: each session has one packet under way, so
//! order means nothing between packets, and a lost one holds up no others.
//!
//! **Costs.** An acknowledgement for each frame and buffers at every node: at most
//! [`Sender::WINDOW`] frames under way and all that waits behind them, up to a packet of each
//! session that crosses the link. That is the state per session that SLBN got rid of. And a source
//! that dies without Leave stays counted: nothing was lost. Nor does a node recover that loses its
//! memory. For both there are [`crate::slbn::epochs`].

mod receiver;
mod sender;

#[cfg(test)]
mod tests;

pub use receiver::Receiver;
pub use sender::{Full, Sender};

/// What crosses the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<P> {
    /// Its place among the frames of this direction, from 0.
    pub number: u64,
    /// Counts transmissions, repetitions included.
    pub transmission: u64,
    /// What is carried.
    pub packet: P,
}

/// What the receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// All frames below have arrived.
    pub next: u64,
    /// Bit *i*: frame `next` + 1 + *i* has arrived.
    pub later: u64,
    /// The transmission that it answers.
    pub transmission: u64,
}
