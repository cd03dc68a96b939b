//! The setup of the data path, and the messages between its thread and the main thread.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::{Histogram, Span, Time};
use cluster::AgentId;
use cluster::control::TrunkState;
use cluster::trunk::TrunkStatistics;
use fabric::{Forwarding, LinkStats, QueueLevel};
use lab::plan::Plan;
use run::Change;
use run::calls::{CallReport, CallWriter};
use run::live::MachineState;
use run::stalls::Stalls;
use run::verdict::MAX_DISTORTED_SHARE;
use run::waits::{WaitRecorder, Waits};
use run::{CaptureId, RecorderHandle};

use super::agreement::AgreementTraffic;
use crate::clock::LabClock;
use crate::enclosure::Enclosure;
use crate::shard::{Shard, Sockets};

/// Share of a CPU above which real-time scheduling is suspended, so that the programs under test
/// get CPU time and the kernel's own throttle (95 %) is never reached.
pub(crate) const REALTIME_SHARE: f64 = 0.7;

pub(crate) struct Setup {
    /// The emulated network.
    pub(crate) plan: Arc<Plan>,
    pub(crate) enclosure: Arc<Enclosure>,
    pub(crate) forwarding: Box<dyn Forwarding + Send>,
    /// The writer of captures.
    pub(crate) recorder: RecorderHandle,
    /// The capture of each interface, by `IfaceId`; `None` where it is not captured.
    pub(crate) captures: Vec<Option<CaptureId>>,
    /// The capture of each mirror session that goes to a file, by `MirrorId`.
    pub(crate) mirror_captures: Vec<Option<CaptureId>>,
    pub(crate) clock: LabClock,
    /// The writer of the fabric's calls, if they are recorded.
    pub(crate) calls: Option<CallWriter>,
    /// This shard of the lab, and the sockets to the others; `None` for a lab on one host.
    pub(crate) shard: Option<(Arc<Shard>, Sockets)>,
}

/// State that the thread shares with other threads while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) waits: Arc<Waits>,
    /// Set if the thread may not set its own real-time priority, see
    /// [`Datapath::requests_realtime`].
    ///
    /// [`Datapath::requests_realtime`]: super::Datapath::requests_realtime
    pub(crate) requests_realtime: Arc<AtomicBool>,
    /// Whether batches contain the lateness.
    pub(crate) is_watched: Arc<AtomicBool>,
}

/// Commands from the main thread.
pub(super) enum Command {
    Change(Change),
    AgentLost(AgentId),
    AgentRestored(AgentId),
    SetLead(AgentId, Span),
    Realtime(f64),
    Finish,
}

/// Counters of all links at one time.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Time at which they were read.
    pub(crate) at: Time,
    /// Counters since the start: up and down of link 0, up and down of link 1, …
    pub(crate) links: Vec<(LinkStats, QueueLevel)>,
    /// Shares of the flows of the collapsed model.
    pub(crate) shares: Vec<fabric::Share>,
    /// The status of each bundle, in the order of the plan; `None` while a sendbox is stopped.
    pub(crate) bundles: Vec<Option<bundler::sendbox::Status>>,
    /// State changes of bundles since the previous batch.
    pub(crate) bundle_changes: Vec<bundler_lab::Change>,
    /// Packets delivered so far.
    pub(crate) delivered: u64,
    /// The state of the trunks, by agent; empty without trunks.
    pub(crate) trunks: Vec<TrunkState>,
    /// Lateness of packets so far; only while the lab is watched, at most ten times a second.
    pub(crate) machine: Option<MachineState>,
}

/// The final report of the data path.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Lateness of packets that left, relative to the emulated network.
    pub(crate) lateness: Histogram,
    /// Packets that waited longer than the lab tolerates for their own delay.
    pub(crate) distorted: u64,
    /// The maximum time that packets may have waited before they were stamped.
    pub(crate) ingress: Histogram,
    /// The times at which packets waited.
    pub(crate) waits: WaitRecorder,
    /// Stalls: times of 1 ms or more by which the earliest deadline was missed.
    pub(crate) stalls: Stalls,
    /// Time from the arrival of a flow's first packet to the use of its new shares; with other
    /// agents: from the announcement of a flow to the use of the resulting shares on this agent.
    pub(crate) notices: Histogram,
    /// Messages of the agreement on shares.
    pub(crate) agreement: AgreementTraffic,
    /// Packets from and to other agents, by `AgentId`.
    pub(crate) trunks: Vec<TrunkStatistics>,
    /// The last egress lead time to each agent.
    pub(crate) leads: Vec<Span>,
    /// Datagrams of other agents dropped because the socket's receive buffer was full.
    pub(crate) overrun: u64,
    /// Packets of other agents for interfaces that belong to other shards.
    pub(crate) misrouted: u64,
    /// Packets (segments) delivered.
    pub(crate) delivered: u64,
    /// Writes to ports; segments written together count once.
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    /// Packets of no known family or layout.
    pub(crate) malformed: u64,
    /// Packets that a node's kernel did not accept because the interface was down.
    pub(crate) refused: u64,
    /// Packets that a node's kernel rejected as invalid, which indicates a bug.
    pub(crate) rejected: u64,
    /// Packets dropped because the emulation was out of memory.
    pub(crate) memory_drops: u64,
    /// CPU time of the data path.
    pub(crate) cpu: Span,
    /// Share of the time in which releases were aligned to the grid.
    pub(crate) gathered: f64,
    /// The minimum wake-up time, which was subtracted from arrival times.
    pub(crate) wake_up: Span,
    /// Time that the thread waited for a CPU, if the kernel reports it.
    pub(crate) cpu_wait: Option<Span>,
    /// Whether real-time scheduling was available.
    pub(crate) realtime: bool,
    /// Time for which real-time scheduling was suspended.
    pub(crate) suspended: Span,
    /// Queueing delays of each link direction, as counted in the batches.
    pub(crate) queue_delays: Vec<Histogram>,
    pub(crate) events: u64,
    /// Hash over all deliveries.
    pub(crate) trace_hash: u64,
    /// Warnings of the Bundler gateways.
    pub(crate) warnings: Vec<String>,
    /// Result of the recording, if there is one.
    pub(crate) calls: Option<CallReport>,
}

impl Report {
    /// The effect of the host so far; `None` before the first packet.
    pub(super) fn machine(&self) -> Option<MachineState> {
        let late = self.lateness.distribution()?;
        let faults = self.rejected + self.memory_drops;
        let distorted = self.distorted as f64 / self.delivered.max(1) as f64;
        Some(MachineState {
            late_p50_s: late.p50_ns as f64 / 1e9,
            late_p99_s: late.p99_ns as f64 / 1e9,
            late_max_s: late.max_ns as f64 / 1e9,
            stalls: self.stalls.lengths().count(),
            stalled_s: self.stalls.sum().as_secs_f64(),
            trusted: faults == 0 && distorted <= MAX_DISTORTED_SHARE,
        })
    }
}
