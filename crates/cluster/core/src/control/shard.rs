//! Messages between an agent and a shard's process: one JSON object per line.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::AgentId;

/// The reaction of a lab to the loss of one of its agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    #[default]
    Stop,
    /// The other shards continue.
    Continue,
}

/// Describes a shard. It is the first message on the process's standard input and carries two
/// descriptors: the trunk's UDP socket and the socket for notices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Identifier of the lab, the same on all agents.
    pub id: String,
    /// The resolved lab file; the lab's other files are in the same folder.
    pub lab: PathBuf,
    pub own: AgentId,
    /// The agent of each node; `None` for nodes that are on all agents.
    pub owners: Vec<Option<AgentId>>,
    /// Names of the lab's agents, by [`AgentId`].
    #[serde(rename = "members")]
    pub agents: Vec<String>,
    /// Addresses of the agents' trunks, by [`AgentId`].
    pub trunks: Vec<SocketAddr>,
    /// The lab's key: 64 hexadecimal digits.
    pub key: String,
    /// Whether packets between agents are encrypted.
    pub encrypt: bool,
    /// Max UDP payload of a trunk.
    pub datagram: u32,
    /// Initial [egress lead times](crate::clock::egress_lead), by [`AgentId`].
    pub leads_ns: Vec<u64>,
    /// Folder for the shard's run folder.
    pub runs_dir: PathBuf,
    /// The reaction to the loss of an agent.
    pub on_loss: OnLoss,
    /// Keep the lab up until its duration has passed.
    pub stay: bool,
    /// The datapath's engine; `None` if the user did not choose one.
    pub engine: Option<String>,
}

/// Sent to a shard after its [`Setup`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToShard {
    Start {
        /// Lab time zero by the own monotonic clock.
        origin_ns: u64,
        /// Max error of `origin_ns` relative to agent 0.
        bound_ns: u64,
    },
    /// A new estimate of lab time zero.
    Clock {
        /// See [`ToShard::Start`].
        origin_ns: u64,
        /// See [`ToShard::Start`].
        bound_ns: u64,
    },
    /// An agent of the lab is lost.
    Lost { agent: AgentId },
    /// A lost agent is alive again.
    Regained { agent: AgentId },
    /// A new [egress lead time](crate::clock::egress_lead) for packets to an agent.
    Lead { agent: AgentId, lead_ns: u64 },
    /// An event of a program on another agent. It may be a duplicate.
    Program(ProgramEvent),
    /// End in an orderly way.
    Stop,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromShard {
    /// Built; waits for its start.
    Ready,
    Progress(ShardProgress),
    Program(ProgramEvent),
    /// It could not be built, or failed while it ran.
    Failed {
        /// The reason, for the user.
        text: String,
        /// Exit code of the command.
        code: u8,
    },
    Finished {
        folder: PathBuf,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardProgress {
    /// Current lab time.
    pub now_ns: u64,
    /// All its programs and flows have ended.
    pub idle: bool,
    /// What it waits for, as text for the user.
    pub waiting_for: String,
    pub packets: u64,
    /// Its trunks, by [`AgentId`]; the own entry is zero.
    #[serde(default)]
    pub trunks: Vec<TrunkState>,
}

/// Counters of the trunk from another agent, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkState {
    pub received: u64,
    pub lost: u64,
    /// Packets that arrived after their due time.
    pub late: u64,
}

/// An event for which programs on other agents may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEvent {
    /// The program, by its position in the plan.
    pub program: u32,
    /// Lab time of the event.
    pub at_ns: u64,
    pub change: ProgramChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramChange {
    Started,
    /// Its `ready` condition holds.
    Ready,
    Ended {
        /// Whether it ended as the lab expects.
        well: bool,
    },
}
