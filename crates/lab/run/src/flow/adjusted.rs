//! Delays without the waits of the host.

use std::sync::Arc;

use base::{Histogram, Span};
use lab::plan::{Tolerance, Traffic};
use serde::{Deserialize, Serialize};

use crate::waits::Waits;

/// Waits of a packet that crosses the network: before its time stamp, and after it is due.
const CROSSING: u64 = 2;

/// A packet may be delayed by others that waited, and were sent up to one delay earlier.
const DEPENDS: u64 = 2;

/// A smoothed RTT depends on measurements of the last round trips. The weight of a measurement is
/// 7/8 of that of the next one (RFC 6298), so that of the round trip before the last two is below
/// 2 % if a round trip has 16 measurements or more.
const SMOOTHED_DEPENDS: u64 = 3;

/// The delays of a flow, adjusted one by one. All are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdjustedDelays {
    /// Smoothed round-trip times.
    pub rtt: Adjusted,
    /// One-way delays of datagrams.
    pub delay: Adjusted,
    /// Times from request to response, or completion times of transfers.
    pub latency: Adjusted,
}

/// Adjusted delays of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjusted {
    /// Lower bounds of the delays that the lab alone would have caused: the measured ones minus all
    /// waits of the host that may be in them.
    pub without_waits: Histogram,
    /// The measured delays in which waits are within the tolerance of the lab.
    pub undisturbed: Histogram,
}

impl Adjusted {
    fn record(&mut self, nanos: u64, waits: Span, tolerance: Tolerance) {
        self.without_waits.record(nanos - waits.as_nanos());
        if waits <= tolerance.of_delay(Span::from_nanos(nanos)) {
            self.undisturbed.record(nanos);
        }
    }
}

/// Adjusts the delays of a flow.
#[derive(Debug)]
pub(super) struct Adjuster {
    waits: Arc<Waits>,
    tolerance: Tolerance,
    /// Waits in a latency, if their number is known.
    latency_waits: Option<u64>,
    delays: Box<AdjustedDelays>,
}

impl Adjuster {
    pub(super) fn new(waits: Arc<Waits>, tolerance: Tolerance, traffic: &Traffic) -> Self {
        let latency_waits = matches!(traffic, Traffic::Queries(_)).then_some(2 * CROSSING);
        Self { waits, tolerance, latency_waits, delays: Box::default() }
    }

    pub(super) fn rtt(&mut self, nanos: u64) {
        let rtt = Span::from_nanos(nanos);
        let part = self.waits.largest_part_of(rtt, rtt, SMOOTHED_DEPENDS, Some(2 * CROSSING));
        self.delays.rtt.record(nanos, part, self.tolerance);
    }

    pub(super) fn delay(&mut self, nanos: u64) {
        let part = self.part_of(nanos, Some(CROSSING));
        self.delays.delay.record(nanos, part, self.tolerance);
    }

    pub(super) fn latency(&mut self, nanos: u64) {
        let part = self.part_of(nanos, self.latency_waits);
        self.delays.latency.record(nanos, part, self.tolerance);
    }

    /// The longest wait in the last `interval`, if it is known.
    pub(super) fn longest_wait(&self, interval: Span) -> Option<Span> {
        (interval <= Waits::KEPT).then(|| self.waits.part_of(interval, interval, Some(1)))
    }

    fn part_of(&self, nanos: u64, count: Option<u64>) -> Span {
        let delay = Span::from_nanos(nanos);
        self.waits.part_of(delay, delay * DEPENDS, count)
    }

    pub(super) fn into_delays(self) -> Box<AdjustedDelays> {
        self.delays
    }
}
