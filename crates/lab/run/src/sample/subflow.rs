//! The table of subflow samples: one row per subflow and sampling interval.

use base::{FlowId, LinkId, Span, Time};
use parquet::data_type::ByteArray;
use serde::{Deserialize, Serialize};

use crate::table::{Cell, Column, Kind};

/// The table in the run folder.
pub const FILE: &str = "subflows.parquet";

/// An alias, because serde would borrow a field of type `&'static str` from its input.
type State = &'static str;

/// All states of a subflow.
pub(crate) const STATES: [State; 5] = ["connecting", "active", "stale", "closing", "closed"];

/// A sample of a subflow. Counters cover one sampling interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowSample {
    /// End of the interval.
    pub at: Time,
    pub interval: Span,
    pub flow: FlowId,
    /// Its number within the flow, from 0 in the order of opening.
    pub subflow: u32,
    /// The path, named by the sender's link.
    pub path: LinkId,
    /// Payload bytes that the sender passed to its TCP connection, with retransmissions.
    pub sent_bytes: u64,
    /// Payload bytes that the receiver read from its TCP connection, with duplicates.
    pub received_bytes: u64,
    /// Smoothed round-trip time at the end of the interval.
    pub rtt: Option<Span>,
    /// Congestion window at the end of the interval.
    pub cwnd_bytes: Option<u64>,
    pub retransmits: u64,
    /// `connecting`, `active`, `stale`, `closing` or `closed` at the end of the interval.
    #[serde(with = "state")]
    pub state: State,
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

/// Encodes a state as its position in [`STATES`].
mod state {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    use super::STATES;

    pub(super) fn serialize<S: Serializer>(state: &str, to: S) -> Result<S::Ok, S::Error> {
        let at = STATES.iter().position(|known| *known == state).unwrap_or(STATES.len());
        (at as u8).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<&'static str, D::Error> {
        let at = u8::deserialize(from)?;
        let state = STATES.get(usize::from(at)).copied();
        state.ok_or_else(|| D::Error::custom("invalid subflow state"))
    }
}
