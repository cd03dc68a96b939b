//! `run.json`: one run in one document.

use base::{Distribution, Histogram};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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

/// The machine that a run took place on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel name and release.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors that the run could use.
    pub cores: u32,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Whether real-time scheduling was in force.
    pub realtime: bool,
}

/// Which engine moved packets between the network and the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Why it was chosen.
    pub why: String,
    /// Better ones that were not possible.
    #[serde(default)]
    pub rejected: Vec<RejectedEngine>,
}

/// An engine that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedEngine {
    /// Its name.
    pub name: String,
    /// What stood in the way.
    pub reason: String,
}

/// Whether a run's numbers are the lab's or the machine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// No reason against it was found.
    pub trusted: bool,
    /// What was checked and found, in words; the reasons against trust where there are any.
    pub reasons: Vec<String>,
}

/// How late packets left the emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The usual percentiles; `None` when no packet left.
    pub distribution: Option<Distribution>,
    /// The p99.9 above which the run is not trusted.
    pub tolerance_ns: u64,
    /// Every packet.
    pub histogram: Histogram,
}

/// What the machine lost or was denied during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFaults {
    /// Processor time that the hypervisor gave to others.
    pub steal_s: f64,
    /// Packets that the machine dropped between a program and the network.
    pub dropped_packets: u64,
    /// Packets that passed but are missing from captures.
    pub capture_drops: u64,
    /// Samples and log lines that could not be written in time.
    pub records_lost: u64,
    /// Processor time that the emulation itself used, user and system.
    pub cpu_s: f64,
}

/// How busy the machine was during a run, and with what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostLoad {
    /// Share of the machine's processor time that anything used, 0 to 1.
    pub busy: f64,
    /// The same in the busiest second.
    pub busiest: f64,
    /// Processor time of built-in flows, of recording and of the lab's supervision.
    pub flows_cpu_s: f64,
    /// Processor time of the lab's programs; `None` where the system does not tell.
    pub programs_cpu_s: Option<f64>,
    /// How long the emulation waited for a processor though it could have run; `None` where the
    /// system does not tell.
    pub cpu_wait_s: Option<f64>,
    /// How long the emulation did without its real-time priority, so that others had their turn.
    pub suspended_s: f64,
    /// The most other labs of the same user that ran at once.
    pub other_labs: u32,
    /// How long some program of the machine waited for memory; `None` where the system does not
    /// tell.
    pub memory_stall_s: Option<f64>,
}

/// The network's picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The nodes.
    pub nodes: Vec<TopologyNode>,
    /// The links.
    pub links: Vec<TopologyLink>,
}

/// A node in the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyNode {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: NodeRole,
    /// From the left, 0 to 1.
    pub x: f64,
    /// From the top, 0 to 1.
    pub y: f64,
    /// Its addresses with prefix lengths.
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Runs programs.
    Host,
    /// Forwards at layer 3.
    Router,
    /// Forwards unseen.
    Switch,
    /// Forwards, and holds back the bundles that it sends.
    SendBox,
    /// Forwards, and acknowledges the bundles that it receives.
    ReceiveBox,
}

/// A link in the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// Its name.
    pub name: String,
    /// Names of its first and second end.
    pub ends: [String; 2],
    /// Both directions in words, `up` first, such as `10 Mbit/s, 25 ms, fq-codel`.
    pub text: [String; 2],
    /// Rates at the start, `up` first; `None` where unlimited or a trace.
    pub rate_bit_per_s: [Option<u64>; 2],
    /// Propagation delays at the start, `up` first.
    pub delay_ns: [u64; 2],
}

/// One direction of a link over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// The link's name.
    pub name: String,
    /// `up` (first end to second) or `down`.
    pub direction: String,
    /// Name of the sending end.
    pub from: String,
    /// Name of the receiving end.
    pub to: String,
    /// Packets sent.
    pub sent_packets: u64,
    /// Wire bytes sent.
    pub sent_bytes: u64,
    /// Mean rate of wire bytes over the run.
    pub throughput_bit_per_s: f64,
    /// Share of the capacity that was used, 0 to 1; `None` without a rate.
    pub utilisation: Option<f64>,
    /// Dropped packets by reason; reasons without any are left out.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Packets marked with congestion experienced.
    pub marks: u64,
    /// The most wire bytes that the queue held.
    pub queue_max_bytes: u64,
    /// Times that packets waited in the queue.
    pub queue_delay: Option<Distribution>,
}

impl LinkSummary {
    /// Dropped packets, whatever the reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}

/// A built-in flow over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// The node that opened the connection.
    pub from: String,
    /// The node that accepted it.
    pub to: String,
    /// What it did, in words: `TCP cubic`, `transfers, TCP cubic`, `UDP 5 Mbit/s`, `RPC`.
    pub kind: String,
    /// When it started; `None` if it did not.
    pub started_s: Option<f64>,
    /// When its last byte arrived, or it was stopped.
    pub ended_s: Option<f64>,
    /// Time from start to complete delivery of a finite amount; `None` if it did not complete.
    pub completion_s: Option<f64>,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Mean rate of received payload from start to end.
    pub goodput_bit_per_s: f64,
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts, where the transport tells them.
    #[serde(default)]
    pub timeouts: Option<u64>,
    /// Datagrams sent.
    pub sent_datagrams: Option<u64>,
    /// Datagrams that never arrived.
    pub lost_datagrams: Option<u64>,
    /// Datagrams that later-sent ones had overtaken.
    pub reordered_datagrams: Option<u64>,
    /// Datagrams that arrived again.
    pub duplicate_datagrams: Option<u64>,
    /// Responses received.
    pub responses: Option<u64>,
    /// Transfers that began, each over a connection of its own.
    #[serde(default)]
    pub transfers_started: Option<u64>,
    /// Transfers that were delivered whole.
    #[serde(default)]
    pub transfers_completed: Option<u64>,
    /// Completion times of transfers.
    #[serde(default)]
    pub completion: Option<Distribution>,
    /// Slowdowns of transfers.
    #[serde(default)]
    pub slowdown: Option<Slowdown>,
    /// The longest time without a byte at the receiver while it ran.
    #[serde(default)]
    pub gap_s: Option<f64>,
    /// Bytes that a multipath sender sent again over another path.
    #[serde(default)]
    pub reinjected_bytes: Option<u64>,
    /// The most bytes that waited at a multipath receiver for earlier ones.
    #[serde(default)]
    pub reorder_max_bytes: Option<u64>,
    /// The most bytes, at any sample, that a multipath receiver kept unread.
    #[serde(default)]
    pub buffered_max_bytes: Option<u64>,
    /// The paths of a multipath flow.
    #[serde(default)]
    pub paths: Vec<PathSummary>,
    /// Round-trip times as the sender's TCP smoothed them.
    pub rtt: Option<Distribution>,
    /// One-way delays of datagrams.
    pub delay: Option<Distribution>,
    /// Times from request to response.
    pub latency: Option<Distribution>,
    /// What ended it early.
    pub error: Option<String>,
}

/// A path of a multipath flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSummary {
    /// The sender's link.
    pub link: String,
    /// Subflows there were on it.
    pub subflows: u64,
    /// Payload bytes that the sender handed to them, repetitions included.
    pub sent_bytes: u64,
    /// Payload bytes that arrived over them, repetitions included.
    pub received_bytes: u64,
    /// TCP segments sent again.
    pub retransmits: u64,
}

/// Completion times of transfers over the times that they would have taken alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

/// A real program over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramSummary {
    /// Its name; its output is in `programs/<name>/`.
    pub name: String,
    /// The node it ran on.
    pub node: String,
    /// What ran.
    pub command: String,
    /// When it first started; `None` if it did not.
    pub started_s: Option<f64>,
    /// When it was ready; `None` without a ready condition.
    pub ready_s: Option<f64>,
    /// When it ended for the last time.
    pub ended_s: Option<f64>,
    /// How it ended; `None` if it never started.
    pub end: Option<ProgramEnd>,
    /// Whether it ended as the lab expects.
    pub as_expected: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// Its last lines on standard error.
    #[serde(default)]
    pub last_stderr: Vec<String>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramEnd {
    /// By itself, with this exit status.
    Exit(i32),
    /// By this signal, which the lab did not send.
    Signal(i32),
    /// The lab stopped or killed it.
    Stopped,
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
