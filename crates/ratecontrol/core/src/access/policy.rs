//! Configuration of an access router, and the packet fields that it reads.

use base::{Bandwidth, Bytes, Ratio, Span};

/// Configuration of the treatment of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Maximum number of records; packets of further flows pass unshaped.
    pub flows: usize,
    /// Rate before one is assigned. The first packet is always sent at once.
    pub initial: Bandwidth,
    /// Maximum queueing time of a flow at its rate, which determines the limit of its queue.
    pub queue: Span,
    /// Minimum limit of a flow's queue.
    pub queue_least: Bytes,
    /// Maximum limit of a flow's queue.
    pub queue_most: Bytes,
    /// Maximum number of queued bytes of all flows.
    pub buffer: Bytes,
    /// Idle time after which a flow has ended.
    pub idle: Span,
    /// Time after a FIN for which that of the other direction is awaited, and after the end of a
    /// flow for which late packets are recognised.
    pub linger: Span,
    /// Interval at which a flow's use of its rate is evaluated.
    pub window: Span,
    /// Use below this share of the rate is significantly lower.
    pub low: Ratio,
    /// Number of consecutive windows with low use, and without queueing times above `min_wait`,
    /// after which the demand is lowered.
    pub calm: u32,
    /// The new demand is the maximum use in these windows plus this share. While 1 + `headroom` < 1
    /// / `low`, the flow then keeps that demand.
    pub headroom: Ratio,
    /// Minimum demand: the rate determines how fast a source can request more.
    pub floor: Bandwidth,
    /// Queueing time after which a flow requires a higher rate: if its demand was the limit, the
    /// limit is removed.
    pub min_wait: Span,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            flows: 65_536,
            initial: Bandwidth::from_mbits_per_sec(1),
            queue: Span::from_millis(100),
            queue_least: Bytes::new(64 << 10),
            queue_most: Bytes::new(4 << 20),
            buffer: Bytes::new(256 << 20),
            idle: Span::from_secs(10),
            linger: Span::from_secs(1),
            window: Span::from_millis(200),
            low: Ratio::from_parts_per_billion(750_000_000),
            calm: 3,
            headroom: Ratio::from_parts_per_billion(250_000_000),
            floor: Bandwidth::from_bits_per_sec(256_000),
            min_wait: Span::from_millis(10),
        }
    }
}

/// Fields of a packet that the router reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Size on the wire.
    pub bytes: u32,
    /// Initial sequence number, if the packet has SYN.
    pub syn: Option<u32>,
    /// Whether it has FIN.
    pub fin: bool,
    /// Whether it has RST.
    pub rst: bool,
}
