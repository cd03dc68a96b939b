//! Raw observations of one shard of a run.
//!
//! A shard of a run on several agents has no ledgers: it writes its raw counters, and the
//! coordinator sums the counters of all shards and makes the run's tables and summaries. Times are
//! lab times, and all shards read counters at the same times.
//!
//! The file has the format of [`crate::frames`]; a frame holds observations encoded by crate
//! `postcard`. Files from other agents are not trusted: the reader validates every value and bounds
//! memory by the frame size.

mod reader;
mod rows;
#[cfg(test)]
mod tests;
mod writer;

use crate::frames::Kind;
use crate::record::{
    Engine, EventRecord, Failure, HostFaults, HostLoad, Machine, ProgramSummary, Status,
};
use crate::stalls::Stalls;
use crate::{FlowSample, SubflowSample, Transfer};
use base::{Histogram, Span, Time};
use serde::{Deserialize, Serialize};

use crate::FlowResult;

pub use reader::ObservationReader;
pub use rows::{BundleRow, ChangeRow, LinkRow, ShareRow};
pub use writer::ObservationWriter;

/// The file in the shard's folder.
pub const FILE: &str = "observations.bin";

/// The file header. The version covers [`Observation`] and all types in it.
pub const KIND: Kind = Kind { magic: b"netarium observations \r\n", version: 1 };

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Observation {
    /// The start: the local wall-clock time at lab time zero, in nanoseconds since 1970.
    Begin(u64),
    /// Counters at one time. Several of the same time are summed.
    Counters(Counters),
    Flow(Box<FlowSample>),
    Subflow(SubflowSample),
    Transfer(Transfer),
    /// The result of a flow, or of its local end.
    Result(Box<FlowResult>),
    /// Queueing delays of a link direction, by position as in [`LinkRow`].
    QueueDelay(u32, Histogram),
    /// Traffic from and to another agent.
    Peer(Box<Peer>),
    /// The outcome of a program, by its number in the plan.
    Program(u32, Box<ProgramSummary>),
    End(Box<Ending>),
}

/// Counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    pub at: Time,
    /// Links with changes since the previous time.
    pub links: Vec<LinkRow>,
    pub shares: Vec<ShareRow>,
    /// Bundles whose sendboxes are in this shard.
    pub bundles: Vec<BundleRow>,
    /// State changes of bundles.
    pub changes: Vec<ChangeRow>,
}

/// Traffic from and to one other agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// The other agent's number.
    pub peer: u16,
    /// Datagrams sent to it.
    pub sent_datagrams: u64,
    /// Payload bytes of these datagrams.
    pub sent_bytes: u64,
    /// Emulated packets dropped because the send queue was full.
    pub refused: u64,
    /// Datagrams received from it.
    pub datagrams: u64,
    /// Payload bytes of these datagrams.
    pub bytes: u64,
    /// Emulated packets in the received datagrams.
    pub packets: u64,
    /// Lost datagrams: not received although later ones were.
    pub lost: u64,
    pub reordered: u64,
    pub duplicate: u64,
    /// Datagrams that failed authentication.
    pub forged: u64,
    /// Lateness of emulated packets that arrived after they were due.
    pub late: Histogram,
    /// One-way delays of datagrams by the lab clock.
    pub delay: Histogram,
    /// The egress lead time: how long before it is due a packet is sent to the agent.
    pub lead: Span,
}

/// Messages of the agreement on shares. Bytes do not include transport headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// Messages sent; a message to all agents counts once.
    pub sent: u64,
    pub sent_bytes: u64,
    pub received: u64,
    pub received_bytes: u64,
    /// Messages dropped because the send queue was full; digests repair the loss.
    pub unsent: u64,
}

/// The summary of a shard at the end of its run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The lab time at the end.
    pub at: Time,
    pub status: Status,
    /// Why it failed, with the exit code.
    pub failure: Option<Failure>,
    pub machine: Machine,
    pub engine: Engine,
    /// Lateness of packets that left the emulated network.
    pub lateness: Histogram,
    /// Upper bounds of the time that packets waited before they were time-stamped.
    pub ingress: Histogram,
    /// Stalls of the data path.
    pub stalls: Stalls,
    /// Time for which the flow thread waited for a CPU before each of its events.
    pub flow_waits: Histogram,
    /// Times from another agent's announcement of a flow until its share was applied here.
    pub notices: Histogram,
    /// Messages of the agreement.
    pub messages: Messages,
    pub delivered: u64,
    /// Delivered packets that waited longer than the lab tolerates for their own delay.
    pub distorted: u64,
    /// Packets that a node's kernel rejected as invalid.
    pub rejected: u64,
    /// Packets dropped for lack of memory.
    pub memory_drops: u64,
    /// Datagrams of other agents dropped because the trunk's socket buffer was full.
    pub overrun: u64,
    /// CPU time of the data path.
    pub cpu: Span,
    /// CPUs available to the data path.
    pub cpus: u32,
    pub host: HostFaults,
    pub load: HostLoad,
    /// Maximum difference between the lab clock here and on the first agent.
    pub clock_bound: Option<Span>,
    /// Events of the lab that took place.
    pub events: Vec<EventRecord>,
    pub warnings: Vec<String>,
}
