//! What the subflows of multipath flows did over time: a row each for every sampling interval.

use base::{FlowId, LinkId, Span, Time};
use parquet::data_type::ByteArray;
use serde::{Deserialize, Serialize};

use crate::table::{Cell, Column, Kind};

/// The table in the run folder.
pub const FILE: &str = "subflows.parquet";

/// One of a few words.
type Word = &'static str;

/// A subflow over one sampling interval. Counters count within the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowSample {
    /// End of the interval.
    pub at: Time,
    /// Length of the interval.
    pub interval: Span,
    /// The flow that it is one of.
    pub flow: FlowId,
    /// Its number within the flow, from 0 in the order of opening.
    pub subflow: u32,
    /// Its path, by the sender's link.
    pub path: LinkId,
    /// Payload bytes that the sender handed to its TCP connection, repetitions included.
    pub sent_bytes: u64,
    /// Payload bytes that the receiver took from its TCP connection, repetitions included.
    pub received_bytes: u64,
    /// Smoothed round-trip time at the end of the interval.
    pub rtt: Option<Span>,
    /// Congestion window at the end of the interval.
    pub cwnd_bytes: Option<u64>,
    /// Segments sent again.
    pub retransmits: u64,
    /// What it was doing at the end of the interval: `connecting`, `active`, `stale`, `closing` or
    /// `closed`.
    #[serde(with = "state")]
    pub state: Word,
}

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::new("time_ns", "ns", Kind::Integer),
        Column::new("interval_ns", "ns", Kind::Integer),
        Column::new("flow", "", Kind::Text),
        Column::new("subflow", "", Kind::Integer),
        Column::new("path", "", Kind::Text),
        Column::new("sent_bytes", "B", Kind::Integer),
        Column::new("received_bytes", "B", Kind::Integer),
        Column::new("rtt_ns", "ns", Kind::Optional),
        Column::new("cwnd_bytes", "B", Kind::Optional),
        Column::new("retransmits", "segments", Kind::Integer),
        Column::new("state", "", Kind::Text),
    ]
}

pub(crate) fn row(sample: &SubflowSample, flow: ByteArray, path: ByteArray) -> [Cell; 11] {
    [
        Cell::Integer(sample.at.as_nanos()),
        Cell::Integer(sample.interval.as_nanos()),
        Cell::Text(flow),
        Cell::Integer(u64::from(sample.subflow)),
        Cell::Text(path),
        Cell::Integer(sample.sent_bytes),
        Cell::Integer(sample.received_bytes),
        Cell::Optional(sample.rtt.map(Span::as_nanos)),
        Cell::Optional(sample.cwnd_bytes),
        Cell::Integer(sample.retransmits),
        Cell::Text(ByteArray::from(sample.state)),
    ]
}

/// A state as its position among all.
mod state {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    const ALL: [&str; 5] = ["connecting", "active", "stale", "closing", "closed"];

    pub(super) fn serialize<S: Serializer>(state: &str, to: S) -> Result<S::Ok, S::Error> {
        let at = ALL.iter().position(|known| *known == state).unwrap_or(ALL.len());
        (at as u8).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<&'static str, D::Error> {
        let at = u8::deserialize(from)?;
        let state = ALL.get(usize::from(at)).copied();
        state.ok_or_else(|| D::Error::custom("a subflow has no such state"))
    }
}
