//! What a driver hands to the recorder while a run goes on.

use base::{Bytes, Direction, Distribution, FlowId, LinkId, Span, Time};
use serde::{Deserialize, Serialize};

use crate::CaptureId;

/// Why a packet was dropped: by the emulated network, or by the machine under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The queue was at its limit.
    QueueFull,
    /// Active queue management (RED, `CoDel`, …) signalled congestion.
    Early,
    /// It exceeded a policer's bucket.
    Policed,
    /// The link's loss process took it.
    Loss,
    /// The link was, or went, out of service.
    LinkDown,
    /// It was larger than the link's MTU.
    TooBig,
    /// No route led to its destination.
    NoRoute,
    /// Its time to live ran out.
    TtlExceeded,
    /// The machine could not keep up. Such a run is not trusted.
    Machine,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = 9;

    /// All reasons, in the order of [`DropReason::index`]: the fabric's own first.
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

/// One direction of a link over one sampling interval. Counters count within the interval.
/// Intervals in which nothing was sent, queued or dropped may be left out.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSample {
    /// End of the interval.
    pub at: Time,
    /// Length of the interval.
    pub interval: Span,
    /// The link.
    pub link: LinkId,
    /// The direction.
    pub direction: Direction,
    /// Packets whose transmission ended.
    pub sent_packets: u64,
    /// Their bytes on the wire, overhead included.
    pub sent_bytes: u64,
    /// Packets in the queue at the end of the interval.
    pub queue_packets: u64,
    /// Wire bytes in the queue at the end of the interval.
    pub queue_bytes: u64,
    /// The most wire bytes that the queue held.
    pub queue_max_bytes: u64,
    /// The longest time that a packet sent in the interval had waited; `None` if none was sent.
    pub queue_delay_max: Option<Span>,
    /// Packets that were dropped, by [`DropReason::index`].
    pub drops: [u64; DropReason::COUNT],
    /// Packets that were marked with congestion experienced.
    pub marks: u64,
}

impl LinkSample {
    /// A sample with nothing in it.
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
}

/// A built-in flow over one sampling interval. Counters count within the interval; `None` where
/// the transport has no such thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSample {
    /// End of the interval.
    pub at: Time,
    /// Length of the interval.
    pub interval: Span,
    /// The flow.
    pub flow: FlowId,
    /// Payload bytes that the sender handed to its transport.
    pub sent_bytes: u64,
    /// Payload bytes that the receiver took from its transport: the goodput.
    pub received_bytes: u64,
    /// Smoothed round-trip time at the end of the interval (TCP; the mean over streams).
    pub rtt: Option<Span>,
    /// Congestion window in bytes at the end of the interval (TCP; the sum over streams).
    pub cwnd_bytes: Option<u64>,
    /// Segments sent again (TCP).
    pub retransmits: Option<u64>,
    /// One-way delays of the datagrams that arrived (paced UDP).
    pub delay: Option<Distribution>,
    /// Datagrams that are lost: not arrived when later ones had (paced UDP).
    pub lost: Option<u64>,
    /// Times from request to response (RPC), or from start to completion (transfers).
    pub latency: Option<Distribution>,
    /// Responses that arrived (RPC), or transfers that completed.
    pub responses: Option<u64>,
    /// The longest time without a byte at the receiver, reckoned from its beginning, which may lie
    /// before the interval (bulk TCP).
    pub gap: Option<Span>,
    /// Bytes that were sent again over another subflow (multipath).
    pub reinjected_bytes: Option<u64>,
    /// The most bytes that waited at the receiver for earlier ones (multipath).
    pub reorder_bytes: Option<u64>,
}

impl FlowSample {
    /// A sample with nothing in it.
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
        }
    }
}

/// One transfer over a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// The flow that it belongs to.
    pub flow: FlowId,
    /// When it began.
    pub start: Time,
    /// Its payload.
    pub size: Bytes,
    /// From its start until the last byte had arrived; `None`: the run ended before.
    pub completion: Option<Span>,
    /// The same on an empty network, where that is known.
    pub ideal: Option<Span>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
}

impl Transfer {
    /// How many times as long as on an empty network it took, in thousandths.
    pub fn slowdown_milli(&self) -> Option<u64> {
        let (took, ideal) = (self.completion?.as_nanos(), self.ideal?.as_nanos());
        let milli = u128::from(took) * 1000 / u128::from(ideal.max(1));
        Some(u64::try_from(milli).unwrap_or(u64::MAX))
    }
}

/// A captured packet, borrowed: the recorder copies what it can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord<'a> {
    /// When it passed.
    pub at: Time,
    /// Into which capture file.
    pub capture: CaptureId,
    /// Whether the interface's node sent it (`false`: it arrived there).
    pub outbound: bool,
    /// Why the network dropped it, if it did.
    pub dropped: Option<DropReason>,
    /// The packet from its IP header on.
    pub bytes: &'a [u8],
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// What happened.
    Info,
    /// Check this before you trust the result.
    Warn,
    /// Something failed.
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabrics_reasons_keep_their_names() {
        for reason in fabric::DropReason::ALL {
            assert_eq!(DropReason::from(reason).as_str(), reason.as_str());
        }
    }
}
