//! What one machine's part of a run saw, before anything is made of it.
//!
//! A piece of a lab over several machines keeps no ledgers: it writes its counters as they are,
//! and whoever has the pieces of all machines makes the run's tables and summaries from their
//! sums. Times are those of the lab, and counters are read at the same times everywhere.
//!
//! The file is one of [`record::frames`]; a frame holds observations one after the other, each in
//! the form of crate `postcard`. They come from other machines: what is read is checked, and takes
//! no more memory than a frame allows.

mod reader;
mod rows;
#[cfg(test)]
mod tests;
mod writer;

use base::{Histogram, Span, Time};
use record::frames::Kind;
use record::run::{
    Engine, EventRecord, Failure, HostFaults, HostLoad, Machine, ProgramSummary, Status,
};
use record::{FlowSample, SubflowSample, Transfer};
use serde::{Deserialize, Serialize};

use crate::FlowResult;

pub use reader::ObservationReader;
pub use rows::{BundleRow, ChangeRow, LinkRow, ShareRow};
pub use writer::ObservationWriter;

/// The file in the piece's folder.
pub const FILE: &str = "observations.bin";

/// What the file begins with. The version is that of [`Observation`] and all that is in it.
pub const KIND: Kind = Kind { magic: b"netarium observations \r\n", version: 1 };

/// Something that a piece saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Observation {
    /// The beginning: the wall-clock time here at lab time zero, in nanoseconds since 1970.
    Begin(u64),
    /// Counters at one moment. Several of the same moment add up.
    Counters(Counters),
    /// An interval of a flow.
    Flow(Box<FlowSample>),
    /// An interval of a subflow.
    Subflow(SubflowSample),
    /// A transfer that has ended.
    Transfer(Transfer),
    /// What a flow, or its half here, came to.
    Result(Box<FlowResult>),
    /// How long packets waited in a link direction's queue, by position as in [`LinkRow`].
    Waited(u32, Histogram),
    /// What another member sent here.
    Peer(Box<Peer>),
    /// What became of a program, by its number in the plan.
    Program(u32, Box<ProgramSummary>),
    /// The end: nothing follows.
    End(Box<Ending>),
}

/// Counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// When.
    pub at: Time,
    /// Links that have changed since the moment before.
    pub links: Vec<LinkRow>,
    /// What flows have of the network.
    pub shares: Vec<ShareRow>,
    /// Bundles whose sendboxes run here.
    pub bundles: Vec<BundleRow>,
    /// Changes of bundles' states.
    pub changes: Vec<ChangeRow>,
}

/// What came from one other member, and what went to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// The other member's number.
    pub peer: u16,
    /// Datagrams sent to it.
    pub sent_datagrams: u64,
    /// Their payload.
    pub sent_bytes: u64,
    /// Emulated packets that were not sent because too many waited.
    pub refused: u64,
    /// Datagrams that came from it.
    pub datagrams: u64,
    /// Their payload.
    pub bytes: u64,
    /// Emulated packets that came in them.
    pub packets: u64,
    /// Datagrams that did not come though later ones did.
    pub lost: u64,
    /// Datagrams that others overtook.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicate: u64,
    /// Datagrams that were not authentic.
    pub forged: u64,
    /// By how much emulated packets came after they were due, those that did.
    pub late: Histogram,
    /// One-way delays of datagrams by the lab's clock.
    pub delay: Histogram,
    /// How much before it is due a packet for it is handed to the network.
    pub lead: Span,
}

/// Messages by which members agree on what flows may send. Bytes are without what carries them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// Sent; one for all members counts once.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Not sent because too many waited: others learn of it by digests.
    pub unsent: u64,
}

/// What a piece knows of its own run at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// How far the lab had come.
    pub at: Time,
    /// How it ended.
    pub status: Status,
    /// Why it failed, with the exit code that says so.
    pub failure: Option<Failure>,
    /// The machine.
    pub machine: Machine,
    /// What moved packets.
    pub engine: Engine,
    /// By how much packets left late.
    pub lateness: Histogram,
    /// How long packets may have waited before they were stamped.
    pub ingress: Histogram,
    /// From a flow's announcement by another member to its share being in force here.
    pub notices: Histogram,
    /// Messages for that.
    pub messages: Messages,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets that a node's kernel rejected as wrong.
    pub rejected: u64,
    /// Packets dropped because the emulation had no memory for them.
    pub memory_drops: u64,
    /// Datagrams of other members that found no room in the trunk's socket.
    pub overrun: u64,
    /// Processor time of the data path.
    pub cpu: Span,
    /// Processors that it could use.
    pub cpus: u32,
    /// What the machine lost or was denied.
    pub host: HostFaults,
    /// How busy it was.
    pub load: HostLoad,
    /// The lab's clock here may have differed from the first member's by so much at most.
    pub clock_bound: Option<Span>,
    /// Events of the lab that took place.
    pub events: Vec<EventRecord>,
    /// What deserves attention, in words.
    pub warnings: Vec<String>,
}
