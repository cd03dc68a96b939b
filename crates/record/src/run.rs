//! `run.json`: one run in one document.

mod conclusion;
mod failure;
mod machine;
mod network;
mod traffic;

use std::collections::BTreeMap;

use base::Distribution;
use serde::{Deserialize, Serialize};

pub use conclusion::{Conclusion, RunOutcome};
pub use failure::{Failure, FailureKind};
pub use machine::{Engine, HostFaults, HostLoad, Lateness, Machine, RejectedEngine, Verdict};
pub use network::{LinkSummary, NodeRole, Topology, TopologyLink, TopologyNode};
pub use traffic::{FlowSummary, PathSummary, ProgramEnd, ProgramSummary, Slowdown};

use crate::cluster::Cluster;

/// The value of [`RunRecord::schema`].
pub const SCHEMA: &str = "netarium.run/1";

/// Everything about a run but its samples. Units are in the names of the fields; times within the
/// run are seconds since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Version of the program that ran it.
    pub version: String,
    /// The lab's name.
    pub name: String,
    /// Tells this run from others of its name: six hexadecimal digits.
    pub id: String,
    /// Keys every random stream.
    pub seed: u64,
    /// How far the run came.
    pub status: Status,
    /// The process exit code that goes with this run, once it is over.
    pub exit_code: Option<u8>,
    /// Why the run failed or was killed; `None` for other runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// Wall-clock start, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Wall-clock end, milliseconds since 1970 (UTC).
    pub ended_unix_ms: Option<u64>,
    /// How long the lab was to run.
    pub planned_s: f64,
    /// How long it ran.
    pub elapsed_s: f64,
    /// How often counters were sampled.
    pub interval_s: f64,
    /// The command that repeats the run.
    pub repeat: String,
    /// Hash of the plan: equal for equal labs, whatever their layout and comments.
    pub plan_hash: String,
    /// Which clock the run followed.
    #[serde(default)]
    pub clock: Clock,
    /// Hash of the trace of all deliveries: on the virtual clock, and of a recorded run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace_hash: Option<String>,
    /// What simulating took, on the virtual clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub simulation: Option<Simulation>,
    /// What explicit rate control came to, where a lab has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub control: Option<RateControl>,
    /// Bundles.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub bundles: Vec<BundleSummary>,
    /// The values that a sweep chose.
    #[serde(default)]
    pub sweep: Vec<SweepValue>,
    /// Where it ran.
    pub machine: Machine,
    /// What moved the packets, and why that.
    pub engine: Engine,
    /// Whether to trust the numbers. `None` until the run is over.
    pub verdict: Option<Verdict>,
    /// How late packets left, over all packets and links.
    #[serde(default)]
    pub lateness: Lateness,
    /// In the collapsed model on the wall clock: from the arrival of a packet that told of a flow
    /// (it starts, ends, or wants more) to all shares in force.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub notice_delay: Option<Distribution>,
    /// What the machine itself lost or was denied.
    #[serde(default)]
    pub host: HostFaults,
    /// How busy the machine was, on the wall clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load: Option<HostLoad>,
    /// Members and what went between them, of a lab over several machines.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cluster: Option<Box<Cluster>>,
    /// Nodes and links with their places in the picture.
    pub topology: Topology,
    /// Links, one entry a direction.
    #[serde(default)]
    pub links: Vec<LinkSummary>,
    /// Built-in flows.
    #[serde(default)]
    pub flows: Vec<FlowSummary>,
    /// Real programs.
    #[serde(default)]
    pub programs: Vec<ProgramSummary>,
    /// Events of the lab that took place.
    #[serde(default)]
    pub events: Vec<EventRecord>,
    /// The lab's expectations.
    #[serde(default)]
    pub expectations: Vec<ExpectationRecord>,
    /// What went wrong or deserves attention, in words.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Which clock a run followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The machine's: real programs, real kernels.
    #[default]
    Wall,
    /// One that jumps from deadline to deadline.
    Virtual,
}

/// What a run on the virtual clock took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// `hop`, `collapsed` or `fluid`, as in the lab file.
    pub model: String,
    /// Events that were processed.
    pub events: u64,
    /// Links that packets crossed, summed over all packets.
    pub packet_hops: u64,
    /// Wall-clock time that it took.
    pub wall_s: f64,
    /// Events a wall-clock second.
    pub events_per_s: f64,
    /// Simulated seconds a wall-clock second.
    pub speed_factor: f64,
    /// The most memory that the process held, where the system tells it.
    pub peak_memory_bytes: Option<u64>,
}

/// What explicit rate control came to. Errors are relative: 0.1 is 10 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateControl {
    /// The protocol's name, as in the lab file.
    pub protocol: String,
    /// Sessions that joined.
    pub joined: u64,
    /// Sessions that sent all that they had to send.
    pub completed: u64,
    /// Sessions that were there at the end.
    pub present: u64,
    /// How often a session changed its path.
    pub rerouted: u64,
    /// Mean |A − A*|/A* over the sessions at the last sample that had any: A is the assigned rate,
    /// A* the fair one.
    pub error: Option<f64>,
    /// When a session last joined, left or changed its path, or a link changed.
    pub last_change_s: f64,
    /// From then until `error` was below 1 % for good, to a sampling interval; `None` if it did
    /// not come to that.
    pub convergence_s: Option<f64>,
    /// The largest queue of any link, in data packets.
    pub queue_max_packets: u64,
    /// The same in wire bytes.
    pub queue_max_bytes: u64,
    /// Control packets' share of all wire bytes, summed over links.
    pub control_share: f64,
    /// Control packets that links lost, because the lab says so or because they were down.
    pub lost: u64,
    /// Directions of links that sessions cross.
    pub links: u64,
    /// Numbers that the protocol keeps at a link, at the end: the mean over these links.
    pub link_numbers_mean: f64,
    /// The most at any.
    pub link_numbers_max: u64,
    /// Memory that they take, mean.
    pub link_bytes_mean: f64,
    /// The most at any.
    pub link_bytes_max: u64,
    /// Memory of what a control packet carries for the protocol.
    pub packet_bytes: u64,
    /// Memory of sessions, their paths and what is under way for them, divided by their number;
    /// what the fair rates are worked out with not counted.
    pub session_bytes: f64,
    /// Processor time of working out fair rates and errors, which is none of the protocol's.
    pub oracle_s: f64,
}

/// A bundle over the whole run. Means are over time, of what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BundleSummary {
    /// Its name.
    pub name: String,
    /// Name of its sendbox.
    pub from: String,
    /// Name of its receivebox.
    pub to: String,
    /// The law that sets its rate, in words.
    pub control: String,
    /// In which order packets leave the sendbox, in a word.
    pub scheduler: String,
    /// `observe`, `dry-run` or `enforce`.
    pub mode: String,
    /// Share of the run that it was in each state; states that it never was in are left out.
    pub time: BTreeMap<String, f64>,
    /// Its changes of state, in order.
    pub transitions: Vec<BundleTransition>,
    /// Mean of the rate while there was one.
    pub rate_bit_per_s: Option<f64>,
    /// Rate of all bytes that left the sendbox, over the run.
    pub throughput_bit_per_s: f64,
    /// Mean time in queues between the boxes.
    pub queueing_mean_ns: Option<f64>,
    /// The least round trip that was told at the end.
    pub min_rtt_ns: Option<u64>,
    /// Mean of bytes that waited at the sendbox.
    pub backlog_mean_bytes: f64,
    /// Most bytes that waited at a sample.
    pub backlog_max_bytes: u64,
    /// Mean time that packets waited at the sendbox.
    pub waiting_mean_ns: f64,
    /// Packets that came to the sendbox.
    pub arrived_packets: u64,
    /// Packets that left it.
    pub sent_packets: u64,
    /// Their bytes, with the bundle's overhead.
    pub sent_bytes: u64,
    /// Packets that its scheduler dropped.
    pub dropped_packets: u64,
    /// Congestion ACKs that extended the measurement.
    pub acks: u64,
    /// Congestion ACKs that a later one had overtaken.
    pub late_acks: u64,
    /// Congestion ACKs of no epoch that the sendbox knows.
    pub unmatched_acks: u64,
    /// Messages that the sendbox refused.
    pub rejected_messages: u64,
}

/// A bundle's change of state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BundleTransition {
    /// When.
    pub at_s: f64,
    /// The new state, as expectations name it.
    pub to: String,
    /// Why, in words.
    pub why: String,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// It is going on (or its process vanished and nobody has noticed yet).
    #[default]
    Running,
    /// It came to its planned end.
    Finished,
    /// Its user ended it; results so far are kept.
    Interrupted,
    /// Its process was killed; what had been written is kept.
    Killed,
    /// It ended by an error.
    Failed,
}

/// One parameter of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepValue {
    /// Where in the lab file: `link.core.delay`.
    pub parameter: String,
    /// The value, with its unit.
    pub value: String,
}

/// An event that took place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// When.
    pub at_s: f64,
    /// What, in words.
    pub text: String,
}

/// An expectation and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectationRecord {
    /// As the lab file has it.
    pub text: String,
    /// What came of it.
    pub outcome: Outcome,
    /// The measured value with its unit, for people; `None` where there is none.
    pub measured: Option<String>,
}

/// What came of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It held.
    Passed,
    /// It did not hold.
    Failed,
    /// There was nothing to measure, which counts as failed.
    Unmeasured,
}
