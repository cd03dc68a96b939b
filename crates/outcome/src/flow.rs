//! What a flow achieved.

use base::{FlowId, Histogram, Span, Time};
use serde::{Deserialize, Serialize};

use crate::multipath::PathResult;

/// How a flow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Outcome {
    /// Its start never came.
    NotStarted,
    /// All that it had to send was sent and delivered (datagrams: or has had time to arrive).
    Completed,
    /// Its duration passed first.
    Expired,
    /// An event or the end of the run stopped it.
    Stopped,
    /// The network, the transport or the kernel ended it: a timeout, a reset, no route.
    Failed(String),
}

/// When a flow ran and how it ended.
#[derive(Clone, Debug)]
pub struct Course {
    /// How it ended (the last time).
    pub outcome: Outcome,
    /// When it first started.
    pub started: Option<Time>,
    /// When its last byte arrived, or it was stopped.
    pub ended: Option<Time>,
    /// How long it ran.
    pub active: Span,
    /// From start to complete delivery, if it came to that (the last time).
    pub completion: Option<Span>,
}

/// Whose view of a flow a result is: the two ends may be on different machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Half {
    /// Both ends'.
    #[default]
    Whole,
    /// That of the sender, or the client: who opens connections.
    Opening,
    /// That of the receiver, or the server.
    Accepting,
}

/// A flow over the whole run. Where it ran several times, amounts are sums. Made by
/// [`crate::Tally::into_result`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FlowResult {
    /// Its number in the plan.
    pub id: FlowId,
    /// Of which of its ends this is the result.
    pub half: Half,
    /// Its name.
    pub name: String,
    /// How it ended (the last time).
    pub outcome: Outcome,
    /// When it first started.
    pub started: Option<Time>,
    /// When its last byte arrived, or it was stopped.
    pub ended: Option<Time>,
    /// How long it ran.
    pub active: Span,
    /// From start to complete delivery, if it came to that (the last time).
    pub completion: Option<Span>,
    /// Payload bytes that the sender (RPC: the client) handed to its transport.
    pub sent_bytes: u64,
    /// Payload bytes that arrived: at the receiver, for RPC at the client.
    pub received_bytes: u64,
    /// TCP segments sent again (by the sender; RPC: by both ends).
    pub retransmits: Option<u64>,
    /// Retransmission timeouts, where the transport tells them.
    pub timeouts: Option<u64>,
    /// Counts of a paced flow.
    pub datagrams: Option<Datagrams>,
    /// Responses that arrived (RPC).
    pub responses: Option<u64>,
    /// Transfers over connections of their own.
    pub transfers: Option<Transfers>,
    /// The longest time without a byte at the receiver while it ran, where that is known.
    pub gap: Option<Span>,
    /// Bytes that a multipath sender sent again over another path, where that is known.
    pub reinjected: Option<u64>,
    /// The most bytes that waited at a multipath receiver for earlier ones, where that is known.
    pub reorder: Option<u64>,
    /// The most bytes, at any sample, that a multipath receiver kept and its application had not
    /// read, where that is known.
    pub buffered: Option<u64>,
    /// Paths of a multipath flow, in the order in which they were first used.
    pub paths: Vec<PathResult>,
    /// The sender's smoothed round-trip time at each sample, in nanoseconds.
    pub rtt: Histogram,
    /// One-way delays of datagrams, in nanoseconds.
    pub delay: Histogram,
    /// From request to response, in nanoseconds.
    pub latency: Histogram,
    /// Goodput of each whole interval in which the flow ran, in bit/s.
    pub goodput: Histogram,
    /// Half of a paced flow, by the number of the run: datagrams that were sent long enough before
    /// its end to arrive (opening), or one more than the newest that arrived (accepting). What
    /// lies between is lost, which neither half knows alone.
    pub edges: Vec<(u16, u64)>,
}

impl FlowResult {
    /// Mean rate of arriving payload while the flow ran, in bit/s.
    pub fn mean_goodput(&self) -> f64 {
        let seconds = self.active.as_secs_f64();
        if seconds > 0.0 { self.received_bytes as f64 * 8.0 / seconds } else { 0.0 }
    }
}

/// Datagrams of a paced flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagrams {
    /// The sender's transport took these.
    pub sent: u64,
    /// These arrived, each counted once.
    pub received: u64,
    /// Never arrived. Not among them: the newest ones, if the run ended before they could.
    pub lost: u64,
    /// Overtaken by one sent later (RFC 4737).
    pub reordered: u64,
    /// Arrivals of what had arrived before.
    pub duplicates: u64,
    /// Arrivals that cannot be the flow's (damaged on the way).
    pub damaged: u64,
    /// The sender's kernel refused these: no route, no buffer. They count as not sent.
    pub refused: u64,
    /// Not sent because this machine was more than 100 ms behind the flow's schedule.
    pub skipped: u64,
    /// Arrived, but the receiver's socket buffer was full: this machine's fault, not the
    /// network's. They are among the lost.
    pub overrun: u64,
}

impl std::ops::AddAssign for Datagrams {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.lost += other.lost;
        self.reordered += other.reordered;
        self.duplicates += other.duplicates;
        self.damaged += other.damaged;
        self.refused += other.refused;
        self.skipped += other.skipped;
        self.overrun += other.overrun;
    }
}

/// Transfers of a flow, each over a connection of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// These began.
    pub started: u64,
    /// These were delivered whole.
    pub completed: u64,
    /// From start to complete delivery, in nanoseconds.
    pub completion: Histogram,
    /// Completion times over the time that the transfer would have taken alone, in thousandths.
    pub slowdown: Histogram,
}
