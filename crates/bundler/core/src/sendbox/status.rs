//! Status of a bundle.

use base::{Bandwidth, Bytes, Ratio, Span, Time};

use super::state::State;

/// Status of a bundle at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// State of the control.
    pub state: State,
    /// Time of the last change of state.
    pub since: Time,
    /// The rate of the pacer; `None`: not limited.
    pub rate: Option<Bandwidth>,
    /// The rate that control would set, in modes that do not set it.
    pub proposed: Option<Bandwidth>,
    /// Round trip between the gateways; `None` before the first measurement, as for
    /// the following fields.
    pub rtt: Option<Span>,
    /// Minimum round trip of the recent past.
    pub min_rtt: Option<Span>,
    /// Queueing delay between the gateways towards the receivebox.
    pub queueing: Option<Span>,
    /// Send rate over about a round trip.
    pub send_rate: Option<Bandwidth>,
    /// Receive rate over the same packets.
    pub receive_rate: Option<Bandwidth>,
    /// Estimated capacity of the path.
    pub capacity: Option<Bandwidth>,
    /// Share of lost bytes over about a round trip.
    pub loss: Option<Ratio>,
    /// Share of acknowledged packets that are out of order.
    pub out_of_order: Option<Ratio>,
    /// Bytes queued at the sendbox, including overhead.
    pub backlog: Bytes,
    /// Packets queued at the sendbox.
    pub backlog_packets: u64,
    /// Maximum queueing time of the packets that left last.
    pub sojourn: Span,
    /// Mean number of packets per epoch.
    pub period: u32,
    /// Counters since the start.
    pub counters: Counters,
}

/// Counters of a bundle. Bytes include the overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received from the site.
    pub arrived_packets: u64,
    /// Bytes of these packets.
    pub arrived_bytes: u64,
    /// Packets sent to the receivebox's site.
    pub sent_packets: u64,
    /// Bytes of these packets.
    pub sent_bytes: u64,
    /// Packets that the scheduler dropped.
    pub dropped_packets: u64,
    /// Packets that the scheduler marked.
    pub marked_packets: u64,
    /// Packets that ended an epoch.
    pub epochs: u64,
    /// Acknowledgements that extended the measurement.
    pub acks: u64,
    /// Acknowledgements of packets older than an already acknowledged one.
    pub late_acks: u64,
    /// Acknowledgements of packets that ended no epoch here.
    pub unmatched_acks: u64,
    /// Rejected messages: forged, replayed, damaged.
    pub rejected_messages: u64,
    /// Messages sent to the receivebox.
    pub messages: u64,
    /// Number of restarts of the receivebox.
    pub peer_restarts: u64,
    /// Number of times that the path's delay was found to be longer.
    pub rebases: u64,
    /// Changes of state.
    pub transitions: u64,
}
