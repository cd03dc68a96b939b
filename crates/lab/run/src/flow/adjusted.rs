//! Delays without the waits of the host.

use base::{Bytes, Histogram, Span};
use lab::plan::{Tolerance, Traffic};
use serde::{Deserialize, Serialize};
use workload::Sizes;

use crate::waits::{HostWaits, Waits};

/// Waits of a packet in the data path per crossing of the network: before its time stamp, and after
/// its due time.
const WAITS_PER_CROSSING: u64 = 2;

/// Waits of the flow thread in the delay of a datagram. After a wait of W, the thread sends all due
/// datagrams at once, and the last of them queues for at most W.
const DATAGRAM_FLOW_WAITS: u64 = 1;

/// Waits of the flow thread in an exchange of small messages: before the server answers, and before
/// the client reads the response.
const EXCHANGE_FLOW_WAITS: u64 = 2;

/// Messages up to this size fit the smallest send buffer of a TCP socket (`net.ipv4.tcp_wmem`), so
/// that one turn of the thread writes all of it.
const MAX_SMALL_MESSAGE: Bytes = Bytes::new(16 << 10);

/// A delay depends on waits within this number of delays: packets that were sent up to one delay
/// earlier and waited may delay it.
const DEPENDENT_DELAYS: u64 = 2;

/// A smoothed RTT depends on measurements of this number of round trips. The weight of a
/// measurement is 7/8 of that of the next one (RFC 6298), so that of the round trip before the last
/// two is below 2 % if a round trip has 16 measurements or more.
const SMOOTHED_RTT_ROUND_TRIPS: u64 = 3;

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

/// The number of waits in a delay, or `None` if it is unknown.
#[derive(Clone, Copy, Debug)]
struct WaitCounts {
    datapath: Option<u64>,
    flows: Option<u64>,
}

/// Subtracts the waits of the host from the delays of a flow.
#[derive(Debug)]
pub(super) struct Adjuster {
    waits: HostWaits,
    tolerance: Tolerance,
    latency_waits: WaitCounts,
    delays: Box<AdjustedDelays>,
}

impl Adjuster {
    pub(super) fn new(waits: HostWaits, tolerance: Tolerance, traffic: &Traffic) -> Self {
        let is_small =
            |sizes: &Sizes| matches!(sizes, Sizes::Fixed(size) if *size <= MAX_SMALL_MESSAGE);
        let (datapath, flows) = match traffic {
            Traffic::Queries(_) => (Some(2 * WAITS_PER_CROSSING), Some(EXCHANGE_FLOW_WAITS)),
            Traffic::Rpc { spec, .. } if is_small(&spec.request) && is_small(&spec.response) => {
                (None, Some(EXCHANGE_FLOW_WAITS))
            }
            _ => (None, None),
        };
        let latency_waits = WaitCounts { datapath, flows };
        Self { waits, tolerance, latency_waits, delays: Box::default() }
    }

    /// Records an RTT. The kernel answers segments, so it has no waits of the flow thread.
    pub(super) fn rtt(&mut self, nanos: u64) {
        let rtt = Span::from_nanos(nanos);
        let waits = &self.waits.datapath;
        let part =
            waits.largest_part_of(rtt, rtt, SMOOTHED_RTT_ROUND_TRIPS, Some(2 * WAITS_PER_CROSSING));
        self.delays.rtt.record(nanos, part, self.tolerance);
    }

    pub(super) fn delay(&mut self, nanos: u64) {
        let counts =
            WaitCounts { datapath: Some(WAITS_PER_CROSSING), flows: Some(DATAGRAM_FLOW_WAITS) };
        let part = self.part_of(nanos, counts);
        self.delays.delay.record(nanos, part, self.tolerance);
    }

    pub(super) fn latency(&mut self, nanos: u64) {
        let part = self.part_of(nanos, self.latency_waits);
        self.delays.latency.record(nanos, part, self.tolerance);
    }

    /// The longest wait in the last `interval`, if it is known.
    pub(super) fn longest_wait(&self, interval: Span) -> Option<Span> {
        let longest = |waits: &Waits| waits.part_of(interval, interval, Some(1));
        let HostWaits { datapath, flows } = &self.waits;
        (interval <= Waits::MIN_RETAINED_SPAN).then(|| longest(datapath).max(longest(flows)))
    }

    fn part_of(&self, nanos: u64, counts: WaitCounts) -> Span {
        let delay = Span::from_nanos(nanos);
        let part = |waits: &Waits, count| waits.part_of(delay, delay * DEPENDENT_DELAYS, count);
        let HostWaits { datapath, flows } = &self.waits;
        (part(datapath, counts.datapath) + part(flows, counts.flows)).min(delay)
    }

    pub(super) fn into_delays(self) -> Box<AdjustedDelays> {
        self.delays
    }
}
