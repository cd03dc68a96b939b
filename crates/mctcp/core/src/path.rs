//! Identifiers and TCP state of paths and subflows.

use base::{Bandwidth, Bytes, Span};

/// A path of a session: a pair of addresses. The client's driver chooses the number; only the
/// driver has the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u16);

/// A subflow: one TCP connection of a session. Assigned in ascending order by the client, never
/// reused, the same at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubflowId(pub u32);

/// TCP's state of a subflow (`TCP_INFO`, tcp(7), on the wall clock).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathInfo {
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Mean deviation of the round-trip time.
    pub rtt_var: Option<Span>,
    /// Minimum round-trip time.
    pub min_rtt: Option<Span>,
    /// Congestion window in bytes.
    pub cwnd: Bytes,
    /// Sent and unacknowledged bytes.
    pub in_flight: Bytes,
    /// Written and unsent bytes.
    pub notsent: Bytes,
    /// Bytes acknowledged since the start.
    pub acked: Bytes,
    /// Latest delivery rate.
    pub delivery_rate: Option<Bandwidth>,
    /// Segments retransmitted since the start.
    pub retransmits: u64,
}
