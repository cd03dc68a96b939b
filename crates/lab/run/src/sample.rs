//! Records that a driver sends to the recorder during a run.

use base::{Bytes, Direction, Distribution, FlowId, LinkId, Span, Time};
use serde::{Deserialize, Serialize};

use crate::CaptureId;

pub mod bundle;
pub mod control;
mod join;
pub mod shares;
pub mod subflow;
pub mod tcp;

/// Why the emulated network or the host dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    QueueFull,
    /// Active queue management (RED, `CoDel`, …) signalled congestion.
    Early,
    /// It exceeded the policer's token bucket.
    Policed,
    /// The link's random loss.
    Loss,
    /// The link was down, or went down during transmission.
    LinkDown,
    /// It was larger than the link's MTU.
    TooBig,
    /// There was no route to its destination.
    NoRoute,
    TtlExceeded,
    /// The host was too slow; the run is untrusted.
    Machine,
}

impl DropReason {
    pub const COUNT: usize = 9;

    /// All reasons, in the order of [`DropReason::index`]: the fabric's first.
    pub const ALL: [Self; Self::COUNT] = [
        Self::QueueFull,
        Self::Early,
        Self::Policed,
        Self::Loss,
        Self::LinkDown,
        Self::TooBig,
        Self::NoRoute,
        Self::TtlExceeded,
        Self::Machine,
    ];

    /// Position in arrays of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in captures, reports and `run.json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue full",
            Self::Early => "aqm",
            Self::Policed => "policed",
            Self::Loss => "loss",
            Self::LinkDown => "link down",
            Self::TooBig => "too big",
            Self::NoRoute => "no route",
            Self::TtlExceeded => "ttl exceeded",
            Self::Machine => "machine",
        }
    }

    /// The name of its column in the table of link samples.
    pub const fn column(self) -> &'static str {
        match self {
            Self::QueueFull => "dropped_queue_full",
            Self::Early => "dropped_aqm",
            Self::Policed => "dropped_policed",
            Self::Loss => "dropped_loss",
            Self::LinkDown => "dropped_link_down",
            Self::TooBig => "dropped_too_big",
            Self::NoRoute => "dropped_no_route",
            Self::TtlExceeded => "dropped_ttl_exceeded",
            Self::Machine => "dropped_machine",
        }
    }
}

impl From<fabric::DropReason> for DropReason {
    fn from(reason: fabric::DropReason) -> Self {
        Self::ALL[reason.index()]
    }
}

/// A sample of one direction of a link. Counters cover one sampling interval. Intervals without
/// sent, queued or dropped packets may be omitted.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSample {
    /// End of the interval.
    pub at: Time,
    pub interval: Span,
    pub link: LinkId,
    pub direction: Direction,
    /// Packets whose transmission ended.
    pub sent_packets: u64,
    /// Wire bytes of these packets, with overhead.
    pub sent_bytes: u64,
    /// Packets in the queue at the end of the interval.
    pub queue_packets: u64,
    /// Wire bytes in the queue at the end of the interval.
    pub queue_bytes: u64,
    /// Maximum queue length in wire bytes.
    pub queue_max_bytes: u64,
    /// Maximum queueing delay of the packets sent in the interval; `None` if none was sent.
    pub queue_delay_max: Option<Span>,
    /// Dropped packets, by [`DropReason::index`].
    pub drops: [u64; DropReason::COUNT],
    /// Packets marked as congestion experienced (ECN CE).
    pub marks: u64,
}

impl LinkSample {
    pub const fn empty(at: Time, interval: Span, link: LinkId, direction: Direction) -> Self {
        Self {
            at,
            interval,
            link,
            direction,
            sent_packets: 0,
            sent_bytes: 0,
            queue_packets: 0,
            queue_bytes: 0,
            queue_max_bytes: 0,
            queue_delay_max: None,
            drops: [0; DropReason::COUNT],
            marks: 0,
        }
    }

    /// Packets dropped for any reason, without those whose TTL expired.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum::<u64>() - self.drops[DropReason::TtlExceeded.index()]
    }
}

/// A sample of a built-in flow. Counters cover one sampling interval; `None` if they do not apply
/// to the transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSample {
    /// End of the interval.
    pub at: Time,
    pub interval: Span,
    pub flow: FlowId,
    /// Payload bytes that the sender passed to its transport.
    pub sent_bytes: u64,
    /// Payload bytes that the receiver read from its transport (goodput).
    pub received_bytes: u64,
    /// Smoothed round-trip time at the end of the interval (TCP; the mean over streams).
    pub rtt: Option<Span>,
    /// Congestion window in bytes at the end of the interval (TCP; the sum over streams).
    pub cwnd_bytes: Option<u64>,
    /// Retransmitted segments (TCP).
    pub retransmits: Option<u64>,
    /// One-way delays of received datagrams (paced UDP).
    pub delay: Option<Distribution>,
    /// Lost datagrams: not received although later ones were (paced UDP).
    pub lost: Option<u64>,
    /// Times from request to response (RPC), or from start to completion (transfers).
    pub latency: Option<Distribution>,
    /// Received responses (RPC), or completed transfers.
    pub responses: Option<u64>,
    /// The longest time without a received byte; it may start before the interval (bulk TCP).
    pub gap: Option<Span>,
    /// Bytes reinjected on another subflow (multipath).
    pub reinjected_bytes: Option<u64>,
    /// Maximum of bytes received out of order (multipath).
    pub reorder_bytes: Option<u64>,
    /// The longest wait of a packet in the host (wall clock, one host).
    pub wait_max: Option<Span>,
}

impl FlowSample {
    pub const fn empty(at: Time, interval: Span, flow: FlowId) -> Self {
        Self {
            at,
            interval,
            flow,
            sent_bytes: 0,
            received_bytes: 0,
            rtt: None,
            cwnd_bytes: None,
            retransmits: None,
            delay: None,
            lost: None,
            latency: None,
            responses: None,
            gap: None,
            reinjected_bytes: None,
            reorder_bytes: None,
            wait_max: None,
        }
    }
}

/// A transfer over a separate connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    pub flow: FlowId,
    pub start: Time,
    pub size: Bytes,
    /// Time from the start until the last byte was received; `None` if the run ended before.
    pub completion: Option<Span>,
    /// The same on an empty network, if known.
    pub ideal: Option<Span>,
    pub retransmits: Option<u64>,
}

impl Transfer {
    /// Completion time divided by the time on an empty network, in thousandths.
    pub fn slowdown_milli(&self) -> Option<u64> {
        let (took, ideal) = (self.completion?.as_nanos(), self.ideal?.as_nanos());
        let milli = u128::from(took) * 1000 / u128::from(ideal.max(1));
        Some(u64::try_from(milli).unwrap_or(u64::MAX))
    }
}

/// A captured packet. The recorder copies its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord<'a> {
    /// Time of capture.
    pub at: Time,
    pub capture: CaptureId,
    /// Whether the interface's node sent it; `false` if it received it.
    pub outbound: bool,
    /// Why the network dropped it; `None` if it did not.
    pub dropped: Option<DropReason>,
    /// The packet, starting with the IP header; possibly only its first bytes.
    pub bytes: &'a [u8],
    /// Length of the whole packet in bytes.
    pub length: u32,
}

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Info,
    /// A problem that may affect the results.
    Warn,
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_reasons_have_fabric_names() {
        for reason in fabric::DropReason::ALL {
            assert_eq!(DropReason::from(reason).as_str(), reason.as_str());
        }
    }
}
