//! The table of bundle samples: one row per bundle and sampling interval.

use base::{Bandwidth, Bytes, Ratio, Span, Time};
use parquet::data_type::ByteArray;

use crate::table::{Cell, Column, Kind};

/// The table in the run folder.
pub const FILE: &str = "bundles.parquet";

/// A sample of a bundle. Counters cover one sampling interval; bytes include the bundle's overhead.
/// `None` if not applicable or not measured yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BundleSample {
    /// End of the interval.
    pub at: Time,
    pub interval: Span,
    /// The bundle, by its position in the plan.
    pub bundle: u32,
    /// The state, as in expectations.
    pub state: &'static str,
    /// The pacing rate; `None` if packets are not paced.
    pub rate: Option<Bandwidth>,
    /// The rate that would be set in mode `enforce`.
    pub proposed: Option<Bandwidth>,
    /// Rate at which packets left the sendbox, measured over one RTT.
    pub send_rate: Option<Bandwidth>,
    /// Rate at which the receivebox received the same packets.
    pub receive_rate: Option<Bandwidth>,
    /// RTT between sendbox and receivebox.
    pub rtt: Option<Span>,
    /// Minimum of recent RTTs.
    pub min_rtt: Option<Span>,
    /// Queueing delay from sendbox to receivebox.
    pub queueing: Option<Span>,
    /// Estimate of the path's capacity.
    pub capacity: Option<Bandwidth>,
    /// Share of the bytes of one RTT that were lost.
    pub loss: Option<Ratio>,
    /// Share of acknowledged packets that arrived out of order.
    pub out_of_order: Option<Ratio>,
    /// Bytes queued at the sendbox.
    pub backlog: Bytes,
    /// Packets queued at the sendbox.
    pub backlog_packets: u64,
    /// Queueing delay at the sendbox of the last packet sent.
    pub waiting: Span,
    /// Mean number of packets per epoch.
    pub period: u32,
    pub counts: BundleCounts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BundleCounts {
    /// Packets received by the sendbox.
    pub arrived_packets: u64,
    pub arrived_bytes: u64,
    /// Packets sent by the sendbox.
    pub sent_packets: u64,
    pub sent_bytes: u64,
    /// Packets dropped by its scheduler.
    pub dropped_packets: u64,
    /// Packets ECN-marked by its scheduler.
    pub marked_packets: u64,
    /// Congestion ACKs that extended the measurement.
    pub acks: u64,
    /// Congestion ACKs received after a later one.
    pub late_acks: u64,
    /// Congestion ACKs of unknown epochs.
    pub unmatched_acks: u64,
    /// Messages rejected by the sendbox: forged, replayed or damaged.
    pub rejected_messages: u64,
    /// Messages sent by the sendbox.
    pub messages: u64,
}

const REAL_COLUMNS: [&str; 2] = ["loss", "out_of_order"];

pub(crate) fn columns() -> Vec<Column> {
    let integer = |name: &&str, unit| Column::new(name, unit, Kind::Integer);
    let optional = |name: &&str, unit| Column::new(name, unit, Kind::Optional);
    let mut columns = vec![
        Column::new("time_ns", "ns", Kind::Integer),
        Column::new("interval_ns", "ns", Kind::Integer),
        Column::new("bundle", "", Kind::Text),
        Column::new("state", "", Kind::Text),
    ];
    let rates = ["rate_bps", "proposed_bps", "send_rate_bps", "receive_rate_bps", "capacity_bps"];
    columns.extend(rates.iter().map(|name| optional(name, "bit/s")));
    columns.extend(["rtt_ns", "min_rtt_ns", "queueing_ns"].iter().map(|name| optional(name, "ns")));
    columns.extend(REAL_COLUMNS.iter().map(|name| Column::new(name, "1", Kind::Real)));
    columns.push(integer(&"backlog_bytes", "B"));
    columns.push(integer(&"backlog_packets", "packets"));
    columns.push(integer(&"waiting_ns", "ns"));
    columns.push(integer(&"period_packets", "packets"));
    let (packets, acks) = ("packets", "ACKs");
    let counters = [
        ("arrived_packets", packets),
        ("arrived_bytes", "B"),
        ("sent_packets", packets),
        ("sent_bytes", "B"),
        ("dropped_packets", packets),
        ("marked_packets", packets),
        ("acks", acks),
        ("late_acks", acks),
        ("unmatched_acks", acks),
        ("rejected_messages", "messages"),
        ("messages", "messages"),
    ];
    columns.extend(counters.iter().map(|(name, unit)| integer(name, unit)));
    columns
}

pub(crate) fn row(sample: &BundleSample, name: ByteArray) -> [Cell; 29] {
    let rate = |rate: Option<Bandwidth>| Cell::Optional(rate.map(Bandwidth::bits_per_sec));
    let time = |span: Option<Span>| Cell::Optional(span.map(Span::as_nanos));
    let share = |ratio: Option<Ratio>| Cell::Real(ratio.map(Ratio::as_f64));
    let counts = &sample.counts;
    [
        Cell::Integer(sample.at.as_nanos()),
        Cell::Integer(sample.interval.as_nanos()),
        Cell::Text(name),
        Cell::Text(ByteArray::from(sample.state)),
        rate(sample.rate),
        rate(sample.proposed),
        rate(sample.send_rate),
        rate(sample.receive_rate),
        rate(sample.capacity),
        time(sample.rtt),
        time(sample.min_rtt),
        time(sample.queueing),
        share(sample.loss),
        share(sample.out_of_order),
        Cell::Integer(sample.backlog.count()),
        Cell::Integer(sample.backlog_packets),
        Cell::Integer(sample.waiting.as_nanos()),
        Cell::Integer(u64::from(sample.period)),
        Cell::Integer(counts.arrived_packets),
        Cell::Integer(counts.arrived_bytes),
        Cell::Integer(counts.sent_packets),
        Cell::Integer(counts.sent_bytes),
        Cell::Integer(counts.dropped_packets),
        Cell::Integer(counts.marked_packets),
        Cell::Integer(counts.acks),
        Cell::Integer(counts.late_acks),
        Cell::Integer(counts.unmatched_acks),
        Cell::Integer(counts.rejected_messages),
        Cell::Integer(counts.messages),
    ]
}

impl BundleSample {
    /// A sample with a state only, for example of a stopped sendbox.
    pub fn empty(at: Time, interval: Span, bundle: u32, state: &'static str) -> Self {
        Self {
            at,
            interval,
            bundle,
            state,
            rate: None,
            proposed: None,
            send_rate: None,
            receive_rate: None,
            rtt: None,
            min_rtt: None,
            queueing: None,
            capacity: None,
            loss: None,
            out_of_order: None,
            backlog: Bytes::ZERO,
            backlog_packets: 0,
            waiting: Span::ZERO,
            period: 0,
            counts: BundleCounts::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn rows_match_columns() {
        let mut table = Table::new(columns());
        let at = Time::from_nanos(200);
        let mut sample = BundleSample::empty(at, Span::from_nanos(100), 0, "stopped");
        table.push(row(&sample, ByteArray::from("a")));
        sample.state = "pass-through";
        sample.rate = Some(Bandwidth::from_mbits_per_sec(9));
        sample.loss = Some(Ratio::from_parts_per_billion(500_000_000));
        sample.counts.messages = 7;
        table.push(row(&sample, ByteArray::from("a")));
        assert_eq!(table.texts("state").unwrap(), ["stopped", "pass-through"]);
        assert_eq!(table.integers("rate_bps").unwrap(), [None, Some(9_000_000)]);
        assert_eq!(table.reals("loss").unwrap(), [None, Some(0.5)]);
        assert_eq!(table.integers("messages").unwrap(), [Some(0), Some(7)]);
    }
}
