//! Conditions that must hold at the end of a run.
//!
//! `flow.alice-bob.goodput.mean >= 9 Mbit/s between "5 s" and "10 s"`: a metric, a comparison, a
//! value with its unit, and optionally a part of the run.

use std::fmt;

use base::{Bandwidth, Bytes, Direction, FlowId, LinkId, ProgramId, Ratio, Span, Time};

use crate::plan::BundleState;

mod parser;

pub(crate) use parser::{Names, ParseError, catalogue, parse};
pub use parser::{SubjectKind, metrics};

/// A condition that must hold at the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The text in the lab file.
    pub text: String,
    /// The measured metric.
    pub metric: Metric,
    /// The comparison operator.
    pub op: Op,
    /// The value to compare with, in the base unit of the metric's [`Quantity`].
    pub value: f64,
}

/// A number that a run measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The measured object.
    pub subject: Subject,
    /// The measured property.
    pub measure: Measure,
    /// The statistic of the samples.
    pub statistic: Statistic,
    /// The part of the run that counts; `None`: the whole run.
    pub window: Option<(Time, Time)>,
}

/// The object that a metric belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A built-in flow.
    Flow(FlowId),
    /// One subflow of a multipath flow, by its number.
    Subflow(FlowId, u32),
    /// All subflows of a multipath flow over one path, by the sender's link.
    Path(FlowId, LinkId),
    /// One direction of a link.
    Link(LinkId, Direction),
    /// A real program.
    Program(ProgramId),
    /// The whole run.
    Run,
    /// All rate-controlled sessions.
    Control,
    /// A bundle, by its position in the plan.
    Bundle(usize),
}

/// The measured property. Values are in the base unit of [`Measure::quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Received payload per second (flow).
    Goodput,
    /// Smoothed RTT of the sender's TCP (flow), or between the gateways (bundle).
    Rtt,
    /// One-way delay (UDP flow), or time in queue and on the wire (link direction).
    Delay,
    /// Loss rate of datagrams (UDP flow), or of bytes as measured by the gateways (bundle).
    Loss,
    /// Retransmitted segments (TCP flow).
    Retransmits,
    /// Time from the start to the last byte (finite flow); with a statistic, of a flow's transfers.
    Completion,
    /// Completion time relative to that in an unloaded network (transfers).
    Slowdown,
    /// Completed transfers (transfers).
    Transfers,
    /// Retransmission timeouts (TCP flow, virtual clock).
    Timeouts,
    /// Payload passed to the sender's kernel (flow).
    Sent,
    /// Received payload (flow).
    Received,
    /// Answered requests (request-response flow).
    Responses,
    /// Time from a request to the end of its response (request-response flow).
    Latency,
    /// Maximum time without received data while the flow is active (bulk TCP flow).
    Gap,
    /// Bytes retransmitted over another path (multipath flow).
    Reinjected,
    /// Bytes in the receiver's reorder buffer (multipath flow).
    Reorder,
    /// Utilisation of the rate (link direction).
    Utilisation,
    /// Wire bits per second (link direction, or egress of a bundle's sendbox).
    Throughput,
    /// Packets dropped for any reason except an expired TTL (link direction, or the scheduler of a
    /// bundle).
    Drops,
    /// Packets marked instead of dropped (link direction).
    Marks,
    /// Queue length in wire bytes (link direction).
    Queue,
    /// Exit status (program).
    Exit,
    /// Number of restarts (program).
    Restarts,
    /// Time for which it ran (program).
    Runtime,
    /// Lateness of packets (run).
    Lateness,
    /// Duration of the run (run).
    Duration,
    /// Whether the run is trusted: 1 or 0 (run).
    Trusted,
    /// Relative error of assigned rates compared with fair ones, as the mean of absolute
    /// values over sessions (control).
    Error,
    /// Share of bottlenecks with assigned rates more than 5 % above their capacity (control).
    Over,
    /// Time from the last change until errors stay below 1 % (control).
    Convergence,
    /// Pacing rate of the sendbox while it paces (bundle).
    Rate,
    /// Pacing rate that the sendbox would use, while it does not pace (bundle).
    Proposed,
    /// Egress rate of the sendbox, as measured by the gateways (bundle).
    SendRate,
    /// Arrival rate at the receivebox (bundle).
    ReceiveRate,
    /// The path's capacity as measured so far (bundle).
    Capacity,
    /// Queueing delay between the gateways (bundle).
    Queueing,
    /// Minimum RTT of the recent past (bundle).
    MinRtt,
    /// Share of acknowledged packets that arrived out of order (bundle).
    OutOfOrder,
    /// Bytes queued at the sendbox (bundle).
    Backlog,
    /// Queueing delay at the sendbox (bundle).
    Waiting,
    /// Number of state changes (bundle).
    Transitions,
    /// Share of time in this state (bundle).
    TimeIn(BundleState),
}

/// A statistic over samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// Arithmetic mean; of a rate or share, over the whole time.
    Mean,
    /// The minimum of all samples.
    Min,
    /// The maximum of all samples.
    Max,
    /// The median (50th percentile).
    P50,
    /// The 90th percentile, p90.
    P90,
    /// The 99th percentile, p99.
    P99,
    /// The 99.9th percentile, p99.9.
    P999,
    /// The sum of all samples.
    Sum,
    /// The measure has a single value.
    Value,
}

/// The dimension of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time in nanoseconds.
    Time,
    /// A rate in bit/s.
    Rate,
    /// A number of bytes.
    Data,
    /// A share; 1.0 is the whole.
    Share,
    /// A number of objects.
    Count,
    /// A boolean: 1 or 0.
    Truth,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `<`
    Below,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

/// A measured value, and the range in which the value of the lab alone lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The measured value.
    pub value: f64,
    /// Lowest value of the lab without the effect of the host.
    pub min: f64,
    /// Highest value of the lab without the effect of the host.
    pub max: f64,
}

impl Measurement {
    /// A value that the host did not change.
    pub const fn exact(value: f64) -> Self {
        Self { value, min: value, max: value }
    }
}

/// The result of an expectation, with the metric's value in its base unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The condition holds.
    Held(Measurement),
    /// The condition does not hold.
    Failed(Measurement),
    /// The host may have changed the value by more than its distance from the limit.
    Undecided(Measurement),
    /// The run did not measure the metric, such as the completion time of an unfinished flow.
    NotMeasured,
}

impl Expectation {
    /// Compares with the result of `measured`; `None` if nothing was measured.
    pub fn check(&self, measured: &dyn Fn(&Metric) -> Option<Measurement>) -> Outcome {
        let Some(found) = measured(&self.metric).filter(|found| !found.value.is_nan()) else {
            return Outcome::NotMeasured;
        };
        let holds = |value| self.op.holds(value, self.value);
        let is_held = holds(found.value);
        let is_decided = match self.op {
            // Names a value, which no measurement of a time or a rate meets exactly.
            Op::Equal | Op::NotEqual => true,
            _ => holds(found.min) == is_held && holds(found.max) == is_held,
        };
        match (is_decided, is_held) {
            (false, _) => Outcome::Undecided(found),
            (true, true) => Outcome::Held(found),
            (true, false) => Outcome::Failed(found),
        }
    }
}

impl Op {
    /// Whether `left op right` holds. Equality tolerates rounding errors.
    pub fn holds(self, left: f64, right: f64) -> bool {
        let equal = (left - right).abs() <= 1e-9 * left.abs().max(right.abs());
        match self {
            Self::AtLeast => left >= right,
            Self::AtMost => left <= right,
            Self::Above => left > right,
            Self::Below => left < right,
            Self::Equal => equal,
            Self::NotEqual => !equal,
        }
    }

    /// The operator's text in lab files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::Below => "<",
            Self::Equal => "==",
            Self::NotEqual => "!=",
        }
    }
}

impl Subject {
    /// The flow that it belongs to, if any.
    pub const fn flow(self) -> Option<FlowId> {
        match self {
            Self::Flow(flow) | Self::Subflow(flow, _) | Self::Path(flow, _) => Some(flow),
            _ => None,
        }
    }
}

impl Measure {
    /// The dimension of its values.
    pub const fn quantity(self) -> Quantity {
        match self {
            Self::Goodput
            | Self::Throughput
            | Self::Rate
            | Self::Proposed
            | Self::SendRate
            | Self::ReceiveRate
            | Self::Capacity => Quantity::Rate,
            Self::Rtt
            | Self::Delay
            | Self::Completion
            | Self::Latency
            | Self::Runtime
            | Self::Lateness
            | Self::Duration
            | Self::Convergence
            | Self::Queueing
            | Self::MinRtt
            | Self::Gap
            | Self::Waiting => Quantity::Time,
            Self::Loss
            | Self::Utilisation
            | Self::Error
            | Self::Over
            | Self::OutOfOrder
            | Self::TimeIn(_) => Quantity::Share,
            Self::Sent
            | Self::Received
            | Self::Queue
            | Self::Backlog
            | Self::Reinjected
            | Self::Reorder => Quantity::Data,
            Self::Retransmits
            | Self::Slowdown
            | Self::Transfers
            | Self::Timeouts
            | Self::Responses
            | Self::Drops
            | Self::Marks
            | Self::Exit
            | Self::Restarts
            | Self::Transitions => Quantity::Count,
            Self::Trusted => Quantity::Truth,
        }
    }
}

impl Quantity {
    /// Text of a value in its base unit.
    pub fn text(self, value: f64) -> String {
        let whole = value.max(0.0).round() as u64;
        match self {
            Self::Time => Rounded(value, Span::from_nanos, whole).to_string(),
            Self::Rate => Rounded(value, Bandwidth::from_bits_per_sec, whole).to_string(),
            Self::Data => Rounded(value, Bytes::new, whole).to_string(),
            Self::Share => {
                let parts = (value.max(0.0) * 1e9).round() as u64;
                Rounded(value, Ratio::from_parts_per_billion, parts).to_string()
            }
            Self::Count => format!("{value}"),
            Self::Truth => (value != 0.0).to_string(),
        }
    }
}

/// Rounds to four significant digits, which are enough to see why a condition failed.
struct Rounded<T>(f64, fn(u64) -> T, u64);

impl<T: fmt::Display> fmt::Display for Rounded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, quantity, whole) = self;
        if *value < 0.0 {
            return f.write_str("below zero");
        }
        let digits = whole.checked_ilog10().unwrap_or(0);
        let step = 10u64.pow(digits.saturating_sub(3));
        let rounded =
            (whole / step + u64::from(whole % step * 2 >= step && step > 1)).saturating_mul(step);
        quantity(rounded).fmt(f)
    }
}

#[cfg(test)]
mod tests;
