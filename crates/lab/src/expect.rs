//! What must hold at the end of a run.
//!
//! `flow.alice-bob.goodput.mean >= 9 Mbit/s between "5 s" and "10 s"`: a metric, a comparison, a
//! value with its unit, and optionally the part of the run that counts.

use std::fmt;

use base::{Bandwidth, Bytes, Direction, FlowId, LinkId, ProgramId, Ratio, Span, Time};

use crate::plan::BundleState;

mod parse;

pub(crate) use parse::{Names, ParseError, catalogue, parse};

/// Something that must hold at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// As the lab file has it.
    pub text: String,
    /// What is measured.
    pub metric: Metric,
    /// How it is compared.
    pub op: Op,
    /// With what, in the base unit of the metric's [`Quantity`].
    pub value: f64,
}

/// A number that a run can give.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Of what.
    pub subject: Subject,
    /// Which of its numbers.
    pub measure: Measure,
    /// Which statistic of it.
    pub statistic: Statistic,
    /// Only this part of the run; `None`: all of it.
    pub window: Option<(Time, Time)>,
}

/// What a metric belongs to.
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
    /// A program.
    Program(ProgramId),
    /// The run.
    Run,
    /// All rate-controlled sessions.
    Control,
    /// A bundle, by its position in the plan.
    Bundle(usize),
}

/// What is measured. Values come in the base unit of [`Measure::quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Payload that arrived per second (flow).
    Goodput,
    /// Smoothed round-trip time of the sender's TCP (flow), or between the boxes (bundle).
    Rtt,
    /// One-way delay (UDP flow), or time in queue and on the wire (link direction).
    Delay,
    /// Share of datagrams that never arrived (UDP flow), or of bytes, as the boxes see it (bundle).
    Loss,
    /// Segments sent again (TCP flow).
    Retransmits,
    /// From the start to the last byte (finite flow); with a statistic, that of a flow's transfers.
    Completion,
    /// Completion time over that of an unloaded network (transfers).
    Slowdown,
    /// Completed transfers (transfers).
    Transfers,
    /// Retransmission timeouts (TCP flow, virtual clock).
    Timeouts,
    /// Payload handed to the sender's kernel (flow).
    Sent,
    /// Payload that arrived (flow).
    Received,
    /// Answered requests (request-response flow).
    Responses,
    /// From a request to the end of its response (request-response flow).
    Latency,
    /// The longest time without a byte at the receiver while it ran (bulk TCP flow).
    Gap,
    /// Bytes sent again over another path (multipath flow).
    Reinjected,
    /// Bytes that waited at the receiver for earlier ones (multipath flow).
    Reorder,
    /// Share of the rate in use (link direction).
    Utilisation,
    /// Wire bits per second (link direction, or what leaves a bundle's sendbox).
    Throughput,
    /// Packets dropped, whatever the cause (link direction, or the scheduler of a bundle).
    Drops,
    /// Packets marked instead of dropped (link direction).
    Marks,
    /// Wire bytes waiting (link direction).
    Queue,
    /// Exit status (program).
    Exit,
    /// How often it was started again (program).
    Restarts,
    /// How long it ran (program).
    Runtime,
    /// How late packets left (run).
    Lateness,
    /// How long it took (run).
    Duration,
    /// Whether the run is to be trusted: 1 or 0 (run).
    Trusted,
    /// How far assigned rates are from the fair ones, relatively, as a mean over sessions without
    /// sign (control).
    Error,
    /// Share of bottlenecks that are more than 5 % over their capacity (control).
    Over,
    /// From the last change until errors are below 1 % for good (control).
    Convergence,
    /// What the sendbox paces to, while it does (bundle).
    Rate,
    /// What it would pace to where it does not (bundle).
    Proposed,
    /// Rate at which packets left the sendbox, by the boxes' own measure (bundle).
    SendRate,
    /// Rate at which they came to the receivebox (bundle).
    ReceiveRate,
    /// The path's capacity as far as it has shown itself (bundle).
    Capacity,
    /// Time in queues from box to box (bundle).
    Queueing,
    /// The least round trip of the recent past (bundle).
    MinRtt,
    /// Share of acknowledged packets that overtook others (bundle).
    OutOfOrder,
    /// How strongly cross traffic answers to pulses (bundle).
    Elasticity,
    /// Bytes that wait at the sendbox (bundle).
    Backlog,
    /// How long packets wait at the sendbox (bundle).
    Waiting,
    /// Changes of state (bundle).
    Transitions,
    /// Share of the time in this state (bundle).
    TimeIn(BundleState),
}

/// A statistic over samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// Arithmetic mean; of a rate or share, the total over the whole time.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// The total.
    Sum,
    /// The measure is one number.
    Value,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Nanoseconds.
    Time,
    /// bit/s.
    Rate,
    /// Bytes.
    Data,
    /// 1.0 is the whole.
    Share,
    /// Things.
    Count,
    /// 1 or 0.
    Truth,
}

/// A comparison.
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

/// What became of an expectation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It holds.
    Held {
        /// The metric's value, in its base unit.
        measured: f64,
    },
    /// It does not.
    Failed {
        /// The metric's value, in its base unit.
        measured: f64,
    },
    /// The run gave no such number, such as the completion time of a flow that did not end.
    NotMeasured,
}

impl Expectation {
    /// Compares with what `measured` says; `None` means that there is no such number.
    pub fn check(&self, measured: &dyn Fn(&Metric) -> Option<f64>) -> Outcome {
        match measured(&self.metric).filter(|value| !value.is_nan()) {
            None => Outcome::NotMeasured,
            Some(measured) if self.op.holds(measured, self.value) => Outcome::Held { measured },
            Some(measured) => Outcome::Failed { measured },
        }
    }
}

impl Op {
    /// Whether `left op right`. Equality allows for the last digits of arithmetic.
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

    /// As the lab file writes it.
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
    /// The flow that it belongs to, if it belongs to one.
    pub const fn flow(self) -> Option<FlowId> {
        match self {
            Self::Flow(flow) | Self::Subflow(flow, _) | Self::Path(flow, _) => Some(flow),
            _ => None,
        }
    }
}

impl Measure {
    /// What its values count.
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
            | Self::Elasticity
            | Self::Transitions => Quantity::Count,
            Self::Trusted => Quantity::Truth,
        }
    }
}

impl Quantity {
    /// A value in its base unit, for people.
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

/// Four significant digits are enough to see why something failed.
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
