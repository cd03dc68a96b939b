//! Counters and estimates of an endpoint.

use base::{Bandwidth, Bytes, Span};

/// Counters and estimates of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Smoothed round-trip time (RFC 6298).
    pub srtt: Option<Span>,
    /// Mean deviation of the round-trip time.
    pub rtt_deviation: Option<Span>,
    /// Minimum round-trip time.
    pub min_rtt: Option<Span>,
    /// Congestion window of the sender.
    pub cwnd: Bytes,
    /// Slow-start threshold; `Bytes::MAX` if there is none yet.
    pub ssthresh: Bytes,
    /// Payload in flight.
    pub in_flight: Bytes,
    /// Payload written and never sent.
    pub not_sent: Bytes,
    /// Total payload acknowledged.
    pub acked: Bytes,
    /// Newest delivery rate that was not limited by the application.
    pub delivery_rate: Option<Bandwidth>,
    /// Segments with payload or FIN that were sent, retransmissions included.
    pub sent: u64,
    /// Number of retransmitted segments.
    pub retransmits: u64,
    /// Total number of retransmission timeouts.
    pub timeouts: u64,
    /// Reductions of the window because of losses that acknowledgements revealed.
    pub recoveries: u64,
    /// Number of undone reductions.
    pub undone: u64,
    /// Number of tail loss probes.
    pub probes: u64,
    /// Segments that the peer reported as duplicates.
    pub spurious: u64,
    /// Acknowledgements with an echoed congestion mark.
    pub echoes: u64,
    /// Received segments whose packets were marked.
    pub marks: u64,
    /// Segments received as duplicates.
    pub duplicates: u64,
}
