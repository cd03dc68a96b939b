//! Congestion control of a whole bundle: how fast the sendbox may send.

pub mod delay_target;

use std::fmt::Debug;

use base::{Bandwidth, Bytes, Span, Time};

/// What is known of a bundle's path at one tick of the control loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// When.
    pub now: Time,
    /// Since the tick before.
    pub elapsed: Span,
    /// Round trip of the newest acknowledged epochs, averaged over about one round trip.
    pub rtt: Span,
    /// The least round trip of the recent past.
    pub min_rtt: Span,
    /// How long packets wait in the network on their way to the receivebox: their one-way delay
    /// beyond the least of the recent past, of the newest epochs. Queues on the way back do not
    /// count.
    pub queueing: Span,
    /// Rate at which the packets of the newest acknowledged epochs, one round trip's worth, left
    /// the sendbox.
    pub send_rate: Bandwidth,
    /// Rate at which the same packets reached the receivebox.
    pub receive_rate: Bandwidth,
    /// Of these packets, bytes that did not arrive.
    pub lost: Bytes,
    /// The path's capacity, as far as it has shown itself.
    pub capacity: Bandwidth,
    /// Bytes that wait at the sendbox.
    pub backlog: Bytes,
    /// Whether the rate held packets back while the packets of these epochs were sent. Otherwise
    /// the rates say what the site offers, not what the network takes.
    pub limited: bool,
    /// Whether an acknowledgement has come since the tick before.
    pub fresh: bool,
}

/// A law that sets the rate of a bundle.
pub trait CongestionControl: Debug + Send {
    /// Starts from this rate: what the path carried when control began, or began again.
    fn start(&mut self, rate: Bandwidth, seen: &Observation);
    /// The rate from this tick on. The caller keeps it between the bundle's floor and ceiling and
    /// tells by [`Self::start`] where it overruled it for good.
    fn on_tick(&mut self, seen: &Observation) -> Bandwidth;
}
