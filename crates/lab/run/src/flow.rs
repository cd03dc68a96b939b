//! Results of flows.

use base::{FlowId, Histogram, Span, Time};
use serde::{Deserialize, Serialize};
use workload::Datagrams;

use self::adjusted::AdjustedDelays;
use self::multipath::PathResult;

pub(crate) mod adjusted;
pub(crate) mod counters;
mod join;
pub(crate) mod multipath;
pub(crate) mod path;

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// The run ended before the flow's start.
    NotStarted,
    /// All its data was sent and delivered (for datagrams: or had time to arrive).
    Completed,
    /// Its duration ended first.
    Expired,
    /// An event or the end of the run stopped it.
    Stopped,
    /// An error of the network, the transport or the kernel ended it: a timeout, a reset, no route.
    Failed(String),
}

/// When a flow ran and how it ended.
#[derive(Clone, Debug)]
pub struct FlowLifetime {
    /// The outcome of the last run.
    pub outcome: Outcome,
    /// Time of the first start.
    pub started: Option<Time>,
    /// Time of the last received byte, or of the stop.
    pub ended: Option<Time>,
    /// Total time for which it was active.
    pub active: Span,
    /// Time from start to complete delivery in the last run, if it completed.
    pub completion: Option<Span>,
}

/// The ends of a flow that a result is from: they may be on different agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowEnds {
    /// Both ends, on one agent.
    #[default]
    Both,
    /// The sender or client, which opens connections.
    Opening,
    /// The receiver or server, which accepts connections.
    Accepting,
}

/// The result of a flow over the whole run, made by [`crate::FlowCounters::into_result`]. If the
/// flow ran several times, counts are sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowResult {
    /// The flow's number in the plan.
    pub id: FlowId,
    /// The ends that this result is from.
    pub ends: FlowEnds,
    pub name: String,
    /// The outcome of the last run.
    pub outcome: Outcome,
    /// Time of the first start.
    pub started: Option<Time>,
    /// Time of the last received byte, or of the stop.
    pub ended: Option<Time>,
    /// Total time for which it was active.
    pub active: Span,
    /// Time from start to complete delivery in the last run, if it completed.
    pub completion: Option<Span>,
    /// Payload bytes that the sender (RPC: the client) passed to its transport.
    pub sent_bytes: u64,
    /// Payload bytes received: at the receiver, for RPC at the client.
    pub received_bytes: u64,
    /// Retransmitted TCP segments (of the sender; RPC: of both ends).
    pub retransmits: Option<u64>,
    /// Retransmission timeouts, if the transport reports them.
    pub timeouts: Option<u64>,
    /// Counters of a paced flow.
    pub datagrams: Option<Datagrams>,
    /// Received responses (RPC).
    pub responses: Option<u64>,
    /// Transfers, each over a separate connection.
    pub transfers: Option<Transfers>,
    /// The longest time without a received byte while the flow ran, if known.
    pub gap: Option<Span>,
    /// Bytes that a multipath sender reinjected on another path, if known.
    pub reinjected: Option<u64>,
    /// Maximum of bytes received out of order at a multipath receiver, if known.
    pub reorder: Option<u64>,
    /// Maximum, over all samples, of unread bytes at a multipath receiver, if known.
    pub buffered: Option<u64>,
    /// Paths of a multipath flow, in the order in which they were first used.
    pub paths: Vec<PathResult>,
    /// The sender's smoothed round-trip time at each sample, in nanoseconds.
    pub rtt: Histogram,
    /// One-way delays of datagrams, in nanoseconds.
    pub delay: Histogram,
    /// Times from request to response, in nanoseconds.
    pub latency: Histogram,
    /// These delays without the waits of the host, if the waits are known.
    pub adjusted: Option<Box<AdjustedDelays>>,
    /// Goodput of each whole interval in which the flow ran, in bit/s.
    pub goodput: Histogram,
    /// For one end of a paced flow, by the number of the run: the number of datagrams that had time
    /// to arrive (opening end), or the highest received sequence number plus one (accepting end).
    /// The difference between both ends is the number of lost datagrams.
    pub edges: Vec<(u16, u64)>,
}

impl FlowResult {
    /// Mean rate of received payload while the flow was active, in bit/s.
    pub fn mean_goodput(&self) -> f64 {
        let seconds = self.active.as_secs_f64();
        if seconds > 0.0 { self.received_bytes as f64 * 8.0 / seconds } else { 0.0 }
    }
}

/// Transfers of a flow, each over a separate connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    pub started: u64,
    /// Completely delivered transfers.
    pub completed: u64,
    /// Times from start to complete delivery, in nanoseconds.
    pub completion: Histogram,
    /// Completion time divided by the time on an empty network, in thousandths.
    pub slowdown: Histogram,
}
