//! Paths and subflows: how they are named, and what their drivers tell of them.

use base::{Bandwidth, Bytes, Span};

/// A path of a session: a pair of addresses that its driver knows. Chosen by the client's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u16);

/// A subflow: one TCP connection of a session. Counted up by the client, never used again; both
/// ends call it the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubflowId(pub u32);

/// What TCP knows of a subflow (`TCP_INFO`, tcp(7), on the wall clock).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathInfo {
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Its mean deviation.
    pub rtt_var: Option<Span>,
    /// The smallest round-trip time.
    pub min_rtt: Option<Span>,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Sent and not acknowledged.
    pub in_flight: Bytes,
    /// Written and not sent yet.
    pub notsent: Bytes,
    /// Acknowledged since the beginning.
    pub acked: Bytes,
    /// Newest delivery rate.
    pub delivery_rate: Option<Bandwidth>,
    /// Segments sent again since the beginning.
    pub retransmits: u64,
}
