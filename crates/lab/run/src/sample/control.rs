//! The tables of explicit rate control: samples over all sessions, and one row per session at the
//! end.

use base::{Bandwidth, Bytes, Span, Time};
use parquet::data_type::ByteArray;

use crate::table::{Cell, Column, Kind};

/// The table of samples in the run folder.
pub const FILE: &str = "control.parquet";

/// The table of sessions in the run folder.
pub const SESSIONS_FILE: &str = "sessions.parquet";

/// The distribution of relative errors: 0.1 is 10 % too much, −0.1 is 10 % too little.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    pub mean: f64,
    /// Mean of the absolute values.
    pub mean_abs: f64,
    pub p10: f64,
    pub p90: f64,
}

impl Errors {
    /// The distribution of these values, which are reordered; `None` if there are none. Percentiles
    /// are by nearest rank.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        let last = values.len().checked_sub(1)?;
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let mean_abs = values.iter().map(|value| value.abs()).sum::<f64>() / count;
        let mut rank = |share: f64| {
            let at = (last as f64 * share).round() as usize;
            *values.select_nth_unstable_by(at, f64::total_cmp).1
        };
        Some(Self { mean, mean_abs, p10: rank(0.1), p90: rank(0.9) })
    }
}

/// A sample over all rate-controlled sessions, compared with the exact max-min fair rates at
/// the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlSample {
    /// End of the interval.
    pub at: Time,
    pub interval: Span,
    /// Sessions that have joined and not left.
    pub sessions: u64,
    /// Sessions among them that have a rate.
    pub assigned: u64,
    /// (A − A\*)/A\* over sessions with a rate: A is the assigned rate, A\* the fair one.
    pub source: Option<Errors>,
    /// Links that limit some session's fair rate.
    pub bottlenecks: u64,
    /// (ΣA − C)/C over these links: C is the capacity.
    pub bottleneck: Option<Errors>,
    /// The share of these links whose sessions' rates exceed the capacity by more than 5 %.
    pub over: Option<f64>,
    /// The largest queue of any link within the interval, in data packets.
    pub queue_max_packets: u64,
    /// The largest queue in wire bytes.
    pub queue_max_bytes: Bytes,
    /// Maximum time that any link needed to drain its queue.
    pub queue_max_time: Span,
    /// Wire bytes of control packets within the interval, summed over links.
    pub control_bytes: Bytes,
    /// Wire bytes of data packets within the interval, summed over links.
    pub data_bytes: Bytes,
}

/// A session over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionRow {
    /// The index of its session generator's (or flow's) name.
    pub population: u32,
    /// Time at which it joined; `None` if it did not join.
    pub start: Option<Time>,
    /// Time at which it left.
    pub left: Option<Time>,
    /// Wire bytes to send; `None` if unlimited.
    pub size: Option<Bytes>,
    /// Time at which the last byte was received.
    pub completed: Option<Time>,
    /// The last assigned rate.
    pub rate: Option<Bandwidth>,
    /// The max-min fair rate at the end of the run, if the session was present.
    pub fair: Option<Bandwidth>,
    /// Number of links of its path.
    pub hops: u8,
    /// Propagation delay of both directions.
    pub rtt: Span,
}

pub(crate) fn sample_columns() -> Vec<Column> {
    let integer = |name, unit| Column::new(name, unit, Kind::Integer);
    let real = |name| Column::new(name, "1", Kind::Real);
    vec![
        integer("time_ns", "ns"),
        integer("interval_ns", "ns"),
        integer("sessions", "sessions"),
        integer("assigned", "sessions"),
        real("source_error_mean"),
        real("source_error_abs"),
        real("source_error_p10"),
        real("source_error_p90"),
        integer("bottlenecks", "links"),
        real("bottleneck_error_mean"),
        real("bottleneck_error_abs"),
        real("bottleneck_error_p10"),
        real("bottleneck_error_p90"),
        real("bottlenecks_over"),
        integer("queue_max_packets", "packets"),
        integer("queue_max_bytes", "B"),
        integer("queue_max_ns", "ns"),
        integer("control_bytes", "B"),
        integer("data_bytes", "B"),
    ]
}

pub(crate) fn sample_row(sample: &ControlSample) -> [Cell; 19] {
    let real = |errors: Option<Errors>, pick: fn(Errors) -> f64| Cell::Real(errors.map(pick));
    [
        Cell::Integer(sample.at.as_nanos()),
        Cell::Integer(sample.interval.as_nanos()),
        Cell::Integer(sample.sessions),
        Cell::Integer(sample.assigned),
        real(sample.source, |errors| errors.mean),
        real(sample.source, |errors| errors.mean_abs),
        real(sample.source, |errors| errors.p10),
        real(sample.source, |errors| errors.p90),
        Cell::Integer(sample.bottlenecks),
        real(sample.bottleneck, |errors| errors.mean),
        real(sample.bottleneck, |errors| errors.mean_abs),
        real(sample.bottleneck, |errors| errors.p10),
        real(sample.bottleneck, |errors| errors.p90),
        Cell::Real(sample.over),
        Cell::Integer(sample.queue_max_packets),
        Cell::Integer(sample.queue_max_bytes.count()),
        Cell::Integer(sample.queue_max_time.as_nanos()),
        Cell::Integer(sample.control_bytes.count()),
        Cell::Integer(sample.data_bytes.count()),
    ]
}

pub(crate) fn session_columns() -> Vec<Column> {
    vec![
        Column::new("population", "", Kind::Text),
        Column::new("start_ns", "ns", Kind::Optional),
        Column::new("left_ns", "ns", Kind::Optional),
        Column::new("size_bytes", "B", Kind::Optional),
        Column::new("completed_ns", "ns", Kind::Optional),
        Column::new("rate_bps", "bit/s", Kind::Optional),
        Column::new("fair_bps", "bit/s", Kind::Optional),
        Column::new("hops", "links", Kind::Integer),
        Column::new("rtt_ns", "ns", Kind::Integer),
    ]
}

pub(crate) fn session_row(row: &SessionRow, population: ByteArray) -> [Cell; 9] {
    [
        Cell::Text(population),
        Cell::Optional(row.start.map(Time::as_nanos)),
        Cell::Optional(row.left.map(Time::as_nanos)),
        Cell::Optional(row.size.map(Bytes::count)),
        Cell::Optional(row.completed.map(Time::as_nanos)),
        Cell::Optional(row.rate.map(Bandwidth::bits_per_sec)),
        Cell::Optional(row.fair.map(Bandwidth::bits_per_sec)),
        Cell::Integer(u64::from(row.hops)),
        Cell::Integer(row.rtt.as_nanos()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_distribution_of_relative_errors() {
        assert_eq!(Errors::of(&mut []), None);
        let mut values = vec![0.3, -0.1, 0.0, 0.1, -0.3];
        let errors = Errors::of(&mut values).unwrap();
        assert!(errors.mean.abs() < 1e-12 && (errors.mean_abs - 0.16).abs() < 1e-12);
        let mut many: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let errors = Errors::of(&mut many).unwrap();
        assert!((errors.p10, errors.p90) == (10.0, 90.0), "{errors:?}");
    }
}
