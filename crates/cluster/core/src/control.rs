//! Messages between the coordinator and the agents: one JSON object each.
//!
//! Times are in nanoseconds, rates in bit/s, sizes in bytes. An agent selects its *instance* at
//! random when its process starts: a restarted agent has another instance and no state of the lab.

mod shard;

use std::fmt;
use std::net::SocketAddr;

use base::{Bandwidth, Bytes, Span};
use serde::{Deserialize, Serialize};

use crate::AgentId;
use crate::detector::{Detector, SILENCE_TIMEOUT};

pub use shard::{
    FromShard, OnLoss, ProgramChange, ProgramEvent, Setup, ShardProgress, ToShard, TrunkState,
};

/// Version of these messages and of those between the agents of a lab. All agents of a lab and its
/// coordinator must have the same one.
pub const PROTOCOL: u32 = 3;

/// Time between the start command to agent 0 and the start of the lab. The start time must reach
/// all other agents within it.
pub const HEAD_START: Span = Span::from_millis(500);

/// The resolved lab file, in the folder of the lab's files.
pub const LAB_FILE: &str = ".netarium-resolved.toml";

/// The file with the [`Membership`] in a shard's results.
pub const MEMBERSHIP_FILE: &str = "membership.json";

/// Whether `name` is a valid agent name. Names are part of keys, file names and lab files.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(fits) && !name.starts_with(['.', '-'])
}

/// Whether `id` is a valid lab identifier, which is also the name of the lab's folder.
pub fn is_lab_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The resources that a machine offers, in the units of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    pub cores: f64,
    pub memory: u64,
    /// Rate of the trunk's interface; `None` if the kernel does not report one.
    pub nic: Option<u64>,
    /// Max rate of emulated traffic; `None` if not limited.
    pub traffic: Option<u64>,
    pub hosts: u32,
}

/// The resources of a machine that are not reserved by a lab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resources {
    pub cores: f64,
    pub memory: Bytes,
    /// Rate of the interface of its agent; `None` if the kernel does not report one (virtual
    /// interfaces).
    pub nic: Option<Bandwidth>,
    /// Max rate of emulated traffic, both directions together; `None` if not limited.
    pub traffic: Option<Bandwidth>,
    pub hosts: u32,
}

impl From<Offer> for Resources {
    fn from(offer: Offer) -> Self {
        Self {
            cores: offer.cores,
            memory: Bytes::new(offer.memory),
            nic: offer.nic.map(Bandwidth::from_bits_per_sec),
            traffic: offer.traffic.map(Bandwidth::from_bits_per_sec),
            hosts: offer.hosts,
        }
    }
}

impl From<Resources> for Offer {
    fn from(resources: Resources) -> Self {
        Self {
            cores: resources.cores,
            memory: resources.memory.count(),
            nic: resources.nic.map(Bandwidth::bits_per_sec),
            traffic: resources.traffic.map(Bandwidth::bits_per_sec),
            hosts: resources.hosts,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Unique in the cluster.
    pub name: String,
    pub instance: u64,
    pub version: String,
    /// Version of the agent's messages, see [`PROTOCOL`].
    pub protocol: u32,
    pub total: Offer,
    /// Resources that are not reserved by a lab.
    pub free: Offer,
    /// Address of its trunks; the port differs by lab.
    pub trunk: std::net::IpAddr,
    /// Running labs, and finished labs whose results have not been fetched.
    pub labs: Vec<LabStatus>,
    pub peers: Vec<PeerStatus>,
}

/// Sent by each agent every [`HEARTBEAT_INTERVAL`](crate::detector::HEARTBEAT_INTERVAL).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub instance: u64,
    /// Address of its clock socket.
    pub clock: SocketAddr,
    /// The last heartbeat before an orderly exit.
    pub leaves: bool,
    /// Time in nanoseconds without a heartbeat after which the agent is lost; at most
    /// [`MAX_SILENCE_TIMEOUT`](crate::detector::MAX_SILENCE_TIMEOUT).
    #[serde(default = "default_silence_timeout")]
    pub silence_timeout_ns: u64,
}

const fn default_silence_timeout() -> u64 {
    SILENCE_TIMEOUT.as_nanos()
}

/// Sent by one agent to one other agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockKey {
    /// Authenticates the pings of the sender.
    pub secret: crate::clock::Secret,
}

/// The shard of a lab on an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabStatus {
    /// Identifier of the lab, the same on all agents.
    pub id: String,
    pub name: String,
    pub phase: Phase,
    pub hosts: u32,
    /// Names of the lab's agents, by [`AgentId`].
    #[serde(rename = "members")]
    pub agents: Vec<String>,
    /// Size of the packed results; 0 until the shard has finished.
    pub result_bytes: u64,
}

/// The status of one agent as another one reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    pub name: String,
    /// Whether its heartbeats arrive.
    pub alive: bool,
    /// `None` until the offset of its clock has been measured.
    pub clock: Option<ClockStatus>,
    pub pings: u64,
    /// Pings that it did not answer.
    pub unanswered: u64,
}

/// The measured offset of another agent's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStatus {
    /// Its clock minus the local clock.
    pub offset_ns: i64,
    /// Max error of the offset.
    pub bound_ns: u64,
    /// Recent minimum RTT.
    pub round_trip_ns: u64,
}

/// Asks an agent to reserve resources for a shard and to open its trunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reserve {
    /// Identifier of the lab: 16 hexadecimal digits.
    pub lab: String,
    pub name: String,
    /// Instance of the agent. A restarted agent has another one, and rejects the request.
    pub instance: u64,
    /// Identifier of the receiving agent in the lab.
    pub own: AgentId,
    /// Names of the lab's agents, by [`AgentId`].
    #[serde(rename = "members")]
    pub agents: Vec<String>,
    /// The numbers in the agents' certificates, by [`AgentId`].
    pub numbers: Vec<u16>,
    /// Expected use of resources by the shard.
    pub needs: Offer,
    /// Accept the shard even if the free resources do not suffice.
    pub overcommit: bool,
    /// The reaction to the loss of an agent or of the coordinator.
    pub on_loss: OnLoss,
}

impl Reserve {
    /// Whether an agent can process it: names are parts of keys and of file names.
    pub fn is_valid(&self) -> bool {
        is_lab_id(&self.lab)
            && self.own.index() < self.agents.len()
            && self.agents.len() <= Detector::MAX_AGENTS
            && self.numbers.len() == self.agents.len()
            && self.agents.iter().all(|agent| is_name(agent))
            && self.needs.cores.is_finite()
            && self.needs.cores >= 0.0
    }
}

/// The agent's answer to [`Reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Address of the shard's trunk.
    pub trunk: SocketAddr,
    /// Max UDP payload that the trunk's interface sends without fragmentation.
    pub datagram: u32,
}

/// Asks an agent to build its shard. The lab's files are attached, packed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    pub lab: String,
    /// Text of the resolved lab file.
    pub text: String,
    /// The agent of each node; `None` for nodes that are on all agents.
    pub owners: Vec<Option<AgentId>>,
    /// Addresses of the agents' trunks, by [`AgentId`].
    pub trunks: Vec<SocketAddr>,
    /// Max UDP payload between the agents.
    pub datagram: u32,
    /// Authenticates the lab's packets and messages: 64 hexadecimal digits.
    pub key: String,
    /// Whether packets between agents are also encrypted.
    pub encrypt: bool,
    /// Keep the lab up until its duration has passed.
    pub stay: bool,
    /// The datapath's engine; `None` if the user did not choose one.
    pub engine: Option<String>,
}

impl Prepare {
    /// Whether it belongs to the lab of this reservation.
    pub fn fits(&self, terms: &Reserve) -> bool {
        let agents = terms.agents.len();
        self.lab == terms.lab
            && self.trunks.len() == agents
            && self.owners.iter().flatten().all(|owner| owner.index() < agents)
            && self.key.len() == 64
            && self.key.bytes().all(|digit| digit.is_ascii_hexdigit())
    }
}

/// The distribution of a lab over agents. Each shard's results have it in [`MEMBERSHIP_FILE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Membership {
    /// Names of the lab's agents, by [`AgentId`].
    #[serde(rename = "members")]
    pub agents: Vec<String>,
    /// The agent of each node; `None` for nodes that are on all agents.
    pub owners: Vec<Option<AgentId>>,
    /// Whether packets between agents were encrypted.
    pub encrypt: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub lab: String,
    /// Lab time zero by agent 0's monotonic clock; `None` asks agent 0 to choose it.
    pub origin_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Lab time zero by agent 0's monotonic clock.
    pub origin_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// End the shard in an orderly way. The agent keeps its results until they are fetched.
    Stop,
    /// End the shard now and delete its results.
    Drop,
    /// Send a range of the packed results.
    Fetch {
        offset: u64,
        /// Max bytes of the answer.
        length: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabOrder {
    pub lab: String,
    pub order: Order,
}

/// The reason why an agent rejected a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, and what to do.
    pub text: String,
    /// Exit code of the command.
    pub code: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Reserved,
    Preparing,
    /// Built; waits for its start.
    Ready,
    Running,
    /// Ordered to stop, not yet finished.
    Stopping,
    /// Finished; its results can be fetched.
    Finished,
    /// It could not be built, or its process died.
    Failed,
}

/// What a shard in [`Phase::Preparing`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// The start of its process.
    Process,
    /// Its process to build the lab.
    Lab,
    /// The first offset to the clock of agent 0.
    Clock,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "its process has not started",
            Self::Lab => "its process still builds the lab",
            Self::Clock => "its clock offset to the first agent is not known",
        })
    }
}

/// Sent by an agent for each shard every 500 ms and whenever the phase changes. It has the whole
/// state, so that a lost report does no harm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub agent: AgentId,
    pub instance: u64,
    /// Increases with each report.
    pub sequence: u64,
    pub phase: Phase,
    #[serde(default)]
    pub awaited: Option<Awaited>,
    /// The reason, if the shard has failed or the agent ended it.
    pub failure: Option<Refusal>,
    pub progress: Option<ShardProgress>,
    /// The agent whose loss ended this shard; `failure` has the reason.
    #[serde(default)]
    pub lost: Option<AgentId>,
    /// The latest events of the shard's programs.
    #[serde(default)]
    pub programs: Vec<ProgramEvent>,
    /// Size of the packed results; 0 until the shard has finished.
    pub result_bytes: u64,
}
