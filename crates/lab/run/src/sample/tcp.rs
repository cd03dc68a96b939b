//! The table of TCP events: one row for each change of a sender's variables.

use base::{Bytes, FlowId, Span, Time};
use parquet::data_type::ByteArray;

use crate::table::{Cell, Column, Kind};

/// The table in the run folder.
pub const FILE: &str = "tcp.parquet";

/// The variables of a TCP sender after a segment that it received or sent, or a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpEvent {
    pub at: Time,
    pub flow: FlowId,
    /// Number of the connection within its flow, from 0 in the order of the first event.
    pub connection: u32,
    /// Whether the sender is the end that opened the connection.
    pub is_client: bool,
    pub cwnd: Bytes,
    /// Slow-start threshold; `None` before the first reduction of the window.
    pub ssthresh: Option<Bytes>,
    /// The newest sample of the round-trip time.
    pub rtt: Option<Span>,
    /// Smoothed round-trip time (RFC 6298).
    pub srtt: Option<Span>,
    /// Payload in flight.
    pub in_flight: Bytes,
    /// Payload acknowledged since the start of the connection.
    pub acked: Bytes,
    /// Number of retransmitted segments since then.
    pub retransmits: u64,
    /// Number of retransmission timeouts since then.
    pub timeouts: u64,
}

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::new("time_ns", "ns", Kind::Integer),
        Column::new("flow", "", Kind::Text),
        Column::new("connection", "", Kind::Integer),
        Column::new("end", "", Kind::Text),
        Column::new("cwnd_bytes", "B", Kind::Integer),
        Column::new("ssthresh_bytes", "B", Kind::Optional),
        Column::new("rtt_ns", "ns", Kind::Optional),
        Column::new("srtt_ns", "ns", Kind::Optional),
        Column::new("in_flight_bytes", "B", Kind::Integer),
        Column::new("acked_bytes", "B", Kind::Integer),
        Column::new("retransmits", "segments", Kind::Integer),
        Column::new("timeouts", "timeouts", Kind::Integer),
    ]
}

pub(crate) fn row(event: &TcpEvent, flow: ByteArray) -> [Cell; 12] {
    [
        Cell::Integer(event.at.as_nanos()),
        Cell::Text(flow),
        Cell::Integer(u64::from(event.connection)),
        Cell::Text(ByteArray::from(if event.is_client { "client" } else { "server" })),
        Cell::Integer(event.cwnd.count()),
        Cell::Optional(event.ssthresh.map(Bytes::count)),
        Cell::Optional(event.rtt.map(Span::as_nanos)),
        Cell::Optional(event.srtt.map(Span::as_nanos)),
        Cell::Integer(event.in_flight.count()),
        Cell::Integer(event.acked.count()),
        Cell::Integer(event.retransmits),
        Cell::Integer(event.timeouts),
    ]
}
