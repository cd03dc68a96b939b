//! The part of `run.json` about a run on several agents.

use base::{Distribution, Histogram};
use serde::{Deserialize, Serialize};

use crate::record::{Engine, HostFaults, HostLoad, Machine, Status};

/// A run on several agents, and the network between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// The `sharing` key of the lab file.
    pub sharing: String,
    /// Whether packets between agents were encrypted; they are always authenticated.
    pub encrypted: bool,
    /// The reaction to the loss of an agent: `stop` or `continue`.
    pub on_agent_loss: String,
    /// The agents, in the order of their numbers.
    pub members: Vec<Member>,
    /// Traffic between agents, one entry per direction.
    pub trunks: Vec<Trunk>,
    /// Time from the announcement of a flow's start, end or new rate by one agent until another
    /// agent has processed it, over all agents, by the lab clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice_delay: Option<Distribution>,
    /// The same for every notice.
    pub notice_delays: Histogram,
}

/// One agent's shard of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    pub name: String,
    /// The version of netarium on it.
    pub version: String,
    /// The status of its shard; `killed` if its observations are incomplete.
    pub status: Status,
    pub machine: Machine,
    /// Its packet engine.
    pub engine: Engine,
    /// Names of its emulated hosts.
    pub hosts: Vec<String>,
    pub programs: Vec<String>,
    /// Built-in flows that send from it.
    pub flows: u32,
    /// Packets delivered to its hosts.
    pub delivered_packets: u64,
    /// Lateness of packets that left the emulated network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Distribution>,
    /// Delays of notices from other agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice_delay: Option<Distribution>,
    /// Messages of the agreement on shares that it sent; a message to all agents counts once.
    pub messages_sent: u64,
    /// Bytes of these messages, without transport headers.
    pub message_bytes_sent: u64,
    /// Messages of the agreement that it received.
    pub messages_received: u64,
    /// Bytes of these messages, without transport headers.
    pub message_bytes_received: u64,
    /// Messages dropped because the send queue was full; digests repair the loss.
    pub messages_unsent: u64,
    /// Datagrams of other agents dropped because its trunk's socket buffer was full; part
    /// of the lost datagrams.
    pub overrun_datagrams: u64,
    /// Its clock minus the first agent's at the end, if known.
    pub clock_offset_ns: Option<i64>,
    /// Maximum difference between the lab clock there and on the first agent.
    pub clock_bound_ns: Option<u64>,
    /// Faults of the agent host.
    pub host: HostFaults,
    /// CPU load of the agent host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<HostLoad>,
    /// Times during which the other agents received no message from it.
    pub outages: Vec<Outage>,
}

/// A time during which the other agents did not receive from an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outage {
    /// Time of detection.
    pub at_s: f64,
    /// Time of the next received message; `None` if there was none.
    pub until_s: Option<f64>,
}

/// Packets from one agent to another over the physical network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trunk {
    /// Name of the sending agent.
    pub from: String,
    /// Name of the receiving agent.
    pub to: String,
    /// Datagrams counted by the sender.
    pub sent_datagrams: u64,
    /// Bytes of their payload.
    pub sent_bytes: u64,
    /// Emulated packets dropped because the send queue was full.
    pub refused_packets: u64,
    pub datagrams: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Emulated packets in the received datagrams.
    pub packets: u64,
    /// Lost datagrams: not received although later ones were.
    pub lost: u64,
    pub reordered: u64,
    pub duplicate: u64,
    /// Datagrams that failed authentication.
    pub forged: u64,
    /// Emulated packets that arrived after they were due.
    pub late: u64,
    /// Lateness of these packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Distribution>,
    /// Packets that were later than the lab's tolerance.
    pub too_late: u64,
    /// The egress lead time: how long before it is due a packet is sent.
    pub lead_ns: u64,
    /// One-way delay by the lab clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Distribution>,
    /// One-way delays of all datagrams by the lab clock, in nanoseconds.
    pub delays: Histogram,
    /// The minimum emulated delay between hosts of the two agents; `None` without a path.
    pub path_delay_ns: Option<u64>,
}
