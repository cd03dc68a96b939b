//! What can be seen of a bundle from outside.

use base::{Bandwidth, Bytes, Ratio, Span, Time};

use super::state::State;

/// A bundle at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Its state …
    pub state: State,
    /// … and since when.
    pub since: Time,
    /// The rate that it is paced to; `None`: nothing is held back.
    pub rate: Option<Bandwidth>,
    /// The rate that the control would set, where the mode is to set none.
    pub proposed: Option<Bandwidth>,
    /// Round trip between the boxes; `None` before one was measured, as for what follows.
    pub rtt: Option<Span>,
    /// The least round trip of the recent past.
    pub min_rtt: Option<Span>,
    /// Time in queues between the boxes on the way there.
    pub queueing: Option<Span>,
    /// Rate at which packets left, over about a round trip.
    pub send_rate: Option<Bandwidth>,
    /// Rate at which they came.
    pub receive_rate: Option<Bandwidth>,
    /// The path's capacity as far as it has shown itself.
    pub capacity: Option<Bandwidth>,
    /// Share of the bytes of about a round trip that did not come.
    pub loss: Option<Ratio>,
    /// Share of acknowledged packets that overtook others.
    pub out_of_order: Option<Ratio>,
    /// How strongly cross traffic answers to pulses, as a multiple of other variation.
    pub elasticity: Option<f64>,
    /// Bytes that wait at the sendbox, overhead included.
    pub backlog: Bytes,
    /// Packets that wait.
    pub backlog_packets: u64,
    /// How long the oldest packet of those that left last had waited.
    pub sojourn: Span,
    /// Packets from one epoch to the next, on average.
    pub period: u32,
    /// What has happened so far.
    pub counters: Counters,
}

/// What has happened to a bundle so far. Bytes include the overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came from the site.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets that went on.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that the scheduler dropped.
    pub dropped_packets: u64,
    /// Packets that the scheduler marked.
    pub marked_packets: u64,
    /// Packets that ended an epoch.
    pub epochs: u64,
    /// Acknowledgements that extended the measurement.
    pub acks: u64,
    /// Acknowledgements of packets older than one acknowledged before.
    pub late_acks: u64,
    /// Acknowledgements of packets that ended no epoch here.
    pub unmatched_acks: u64,
    /// Messages that were refused: forged, replayed, damaged.
    pub rejected_messages: u64,
    /// Messages sent to the receivebox.
    pub messages: u64,
    /// How often the receivebox began a new life.
    pub peer_restarts: u64,
    /// How often the path was found to have a longer delay.
    pub rebases: u64,
    /// Changes of state.
    pub transitions: u64,
}
