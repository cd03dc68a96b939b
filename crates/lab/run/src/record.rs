//! `run.json`: one run in one document.

pub mod cluster;
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
pub use traffic::{
    FlowSummary, HostEffect, PathSummary, ProgramEnd, ProgramSummary, Slowdown, TrimmedDelays,
};

use crate::Exit;
use crate::record::cluster::Cluster;

/// The value of [`RunRecord::schema`].
pub const SCHEMA: &str = "netarium.run/1";

/// Everything about a run except its samples. Field names include units; times within the run are
/// seconds since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The version of netarium.
    pub version: String,
    pub name: String,
    /// Six hexadecimal digits that distinguish runs of the same name.
    pub id: String,
    /// Seed of every random stream.
    pub seed: u64,
    pub status: Status,
    /// The exit code of the run, once it has ended.
    pub exit_code: Option<Exit>,
    /// Reason why the run failed or was killed; `None` for other runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<Failure>,
    /// Wall-clock start, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Wall-clock end, milliseconds since 1970 (UTC).
    pub ended_unix_ms: Option<u64>,
    pub planned_s: f64,
    pub elapsed_s: f64,
    pub interval_s: f64,
    /// The command that repeats the run.
    pub repeat: String,
    /// Hash of the plan; it does not depend on the layout and comments of the lab file.
    pub plan_hash: String,
    #[serde(default)]
    pub clock: Clock,
    /// Hash of the trace of all deliveries: on the virtual clock, and of a recorded run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace_hash: Option<String>,
    /// Cost of the simulation, on the virtual clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub simulation: Option<Simulation>,
    /// Result of explicit rate control, if the lab has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub control: Option<RateControl>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub bundles: Vec<BundleSummary>,
    /// The sweep's values for this run.
    #[serde(default)]
    pub sweep: Vec<SweepValue>,
    pub machine: Machine,
    /// The packet engine, and the reason for its choice.
    pub engine: Engine,
    /// Whether the results are trusted; `None` until the run has ended.
    pub verdict: Option<Verdict>,
    /// Delay of packets behind their due times, over all packets and links.
    #[serde(default)]
    pub lateness: Lateness,
    /// In the collapsed model on the wall clock: the time from a packet that shows a change of a
    /// flow (start, end or higher demand) until all shares are applied.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub notice_delay: Option<Distribution>,
    #[serde(default)]
    pub host: HostFaults,
    /// CPU load of the host, on the wall clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load: Option<HostLoad>,
    /// Agents and the traffic between them, for a run on several agents.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cluster: Option<Box<Cluster>>,
    /// Nodes and links with their positions in the topology plot.
    pub topology: Topology,
    /// Links, one entry per direction.
    #[serde(default)]
    pub links: Vec<LinkSummary>,
    /// Built-in flows.
    #[serde(default)]
    pub flows: Vec<FlowSummary>,
    #[serde(default)]
    pub programs: Vec<ProgramSummary>,
    /// Events of the lab that took place.
    #[serde(default)]
    pub events: Vec<EventRecord>,
    #[serde(default)]
    pub expectations: Vec<ExpectationRecord>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The host's clock: real programs and kernels.
    #[default]
    Wall,
    /// A clock that jumps from deadline to deadline.
    Virtual,
}

/// The cost of a run on the virtual clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// `hop`, `collapsed` or `fluid`, as in the lab file.
    pub model: String,
    pub events: u64,
    /// Number of link crossings, summed over all packets.
    pub packet_hops: u64,
    pub wall_s: f64,
    pub events_per_s: f64,
    /// Simulated seconds per wall-clock second.
    pub speed_factor: f64,
    /// Peak memory of the process, if the system reports it.
    pub peak_memory_bytes: Option<u64>,
}

/// The result of explicit rate control. Errors are relative: 0.1 is 10 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateControl {
    /// The protocol's name, as in the lab file.
    pub protocol: String,
    /// Sessions that joined.
    pub joined: u64,
    /// Sessions that sent all their data.
    pub completed: u64,
    /// Sessions present at the end.
    pub present: u64,
    /// Number of path changes of sessions.
    pub rerouted: u64,
    /// Mean |A − A*|/A* over the sessions at the last sample with any sessions: A is the assigned
    /// rate, A* the fair rate.
    pub error: Option<f64>,
    /// Time of the last change: a session joined, left or changed its path, or a link changed.
    pub last_change_s: f64,
    /// Time from the last change until `error` stayed below 1 %, to one sampling interval; `None`
    /// if it did not.
    pub convergence_s: Option<f64>,
    /// The largest queue of any link, in data packets.
    pub queue_max_packets: u64,
    /// The largest queue of any link, in wire bytes.
    pub queue_max_bytes: u64,
    /// Control packets' share of all wire bytes, summed over links.
    pub control_share: f64,
    /// Control packets lost on links, by configured loss or because the link was down.
    pub lost: u64,
    /// Link directions that sessions cross.
    pub links: u64,
    /// Stored numbers of the protocol's state per link at the end, mean over these links.
    pub link_numbers_mean: f64,
    /// Stored numbers of the protocol's state per link at the end, maximum.
    pub link_numbers_max: u64,
    /// Memory of this state per link, mean.
    pub link_bytes_mean: f64,
    /// Memory of this state per link, maximum.
    pub link_bytes_max: u64,
    /// Memory of the protocol's fields in a control packet.
    pub packet_bytes: u64,
    /// Memory per session, with its path and packets in flight, without the oracle for fair rates.
    pub session_bytes: f64,
    /// CPU time of the oracle for fair rates and errors, which is not part of the protocol.
    pub oracle_s: f64,
}

/// A bundle over the whole run. Means are weighted by time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BundleSummary {
    pub name: String,
    /// Name of its sendbox.
    pub from: String,
    /// Name of its receivebox.
    pub to: String,
    /// Its congestion controller.
    pub control: String,
    pub scheduler: String,
    /// `observe`, `dry-run` or `enforce`.
    pub mode: String,
    /// Share of the run in each state; states with a share of 0 are omitted.
    pub time: BTreeMap<String, f64>,
    pub transitions: Vec<BundleTransition>,
    /// Mean of the rate while one was set.
    pub rate_bit_per_s: Option<f64>,
    /// Mean rate of all bytes sent by the sendbox, over the run.
    pub throughput_bit_per_s: f64,
    /// Mean queueing delay between sendbox and receivebox.
    pub queueing_mean_ns: Option<f64>,
    /// Minimum RTT at the end.
    pub min_rtt_ns: Option<u64>,
    /// Mean of bytes queued at the sendbox.
    pub backlog_mean_bytes: f64,
    /// Maximum of bytes queued at the sendbox, over all samples.
    pub backlog_max_bytes: u64,
    /// Mean queueing delay at the sendbox.
    pub waiting_mean_ns: f64,
    /// Packets received by the sendbox.
    pub arrived_packets: u64,
    /// Packets sent by the sendbox.
    pub sent_packets: u64,
    /// Bytes sent by the sendbox, with the bundle's overhead.
    pub sent_bytes: u64,
    /// Packets dropped by its scheduler.
    pub dropped_packets: u64,
    /// Congestion ACKs that extended the measurement.
    pub acks: u64,
    /// Congestion ACKs received after a later one.
    pub late_acks: u64,
    /// Congestion ACKs of unknown epochs.
    pub unmatched_acks: u64,
    /// Messages rejected by the sendbox.
    pub rejected_messages: u64,
}

/// A state change of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BundleTransition {
    pub at_s: f64,
    /// The new state, as in expectations.
    pub to: String,
    pub why: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// It is running, or its process was killed and this has not been detected yet.
    #[default]
    Running,
    /// It reached its planned end.
    Finished,
    /// The user interrupted it; results so far are kept.
    Interrupted,
    /// Its process was killed; the files written so far are kept.
    Killed,
    /// It ended with an error.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepValue {
    /// Its key in the lab file, for example `link.core.delay`.
    pub parameter: String,
    /// The value, with its unit.
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    pub at_s: f64,
    pub text: String,
    /// Fields and values of a change that `netarium set` made; empty for events of the lab file.
    /// Always written, because observations of shards have a format without field names.
    #[serde(default)]
    pub set: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectationRecord {
    /// The text in the lab file.
    pub text: String,
    pub outcome: Outcome,
    /// The measured value with its unit; `None` if nothing was measured.
    pub measured: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    Failed,
    /// Nothing was measured, which counts as failed.
    Unmeasured,
    /// The host may have changed the value by more than its distance from the limit.
    Undecided,
}

impl Outcome {
    /// Whether the expectation was not met, for another reason than the host.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Unmeasured)
    }
}
