//! What `run.json` says of a run over several machines.

use base::{Distribution, Histogram};
use serde::{Deserialize, Serialize};

use crate::run::{Engine, HostFaults, HostLoad, Machine, Status};

/// A lab over several machines: who took part, and what the network between them did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// How members agree on what flows may send, as in the lab file.
    pub sharing: String,
    /// Whether packets between members were encrypted; they are authenticated always.
    pub encrypted: bool,
    /// What follows when an agent is lost: `stop` or `continue`.
    pub on_agent_loss: String,
    /// The members, in the order of their numbers.
    pub members: Vec<Member>,
    /// What went from one member to another, one entry a direction.
    pub trunks: Vec<Trunk>,
    /// From the announcement of a flow's start, end or new rate by one member until another had
    /// taken it in, over all members: the lab's clock, which is as sure as the members' bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice_delay: Option<Distribution>,
    /// The same, every notice.
    pub notice_delays: Histogram,
}

/// One machine's part of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// The agent's name.
    pub name: String,
    /// Version of its program.
    pub version: String,
    /// How far its piece came; `killed` where nothing, or not all, of what it saw is known.
    pub status: Status,
    /// The machine under it.
    pub machine: Machine,
    /// What moved its packets.
    pub engine: Engine,
    /// Names of its hosts.
    pub hosts: Vec<String>,
    /// Names of its programs.
    pub programs: Vec<String>,
    /// Built-in flows that send from it.
    pub flows: u32,
    /// Packets delivered to its hosts.
    pub delivered_packets: u64,
    /// How late packets left there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Distribution>,
    /// How long other members' notices took to get there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice_delay: Option<Distribution>,
    /// Messages that it sent to agree on shares; one for all members counts once.
    pub messages_sent: u64,
    /// Their bytes, without what carries them.
    pub message_bytes_sent: u64,
    /// Messages that it received.
    pub messages_received: u64,
    /// Their bytes.
    pub message_bytes_received: u64,
    /// Messages that it did not send because too many waited; others learn of it by digests.
    pub messages_unsent: u64,
    /// Datagrams of other members that found no room in its trunk's socket: they are among the
    /// lost.
    pub overrun_datagrams: u64,
    /// Its clock less that of the first member, at the end, as far as it is known.
    pub clock_offset_ns: Option<i64>,
    /// By how much the lab's time there may have differed from the first member's, at most.
    pub clock_bound_ns: Option<u64>,
    /// What the machine lost or was denied.
    pub host: HostFaults,
    /// How busy it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<HostLoad>,
    /// When it was not heard.
    pub outages: Vec<Outage>,
}

/// A time in which a member was lost to the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outage {
    /// Noticed when.
    pub at_s: f64,
    /// Heard again when; `None`: never.
    pub until_s: Option<f64>,
}

/// Packets from one member to another over the physical network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trunk {
    /// Name of the sending member.
    pub from: String,
    /// Name of the receiving member.
    pub to: String,
    /// Datagrams that were sent, as the sender counts them.
    pub sent_datagrams: u64,
    /// Bytes of their payload.
    pub sent_bytes: u64,
    /// Emulated packets that were not sent because too many waited.
    pub refused_packets: u64,
    /// Datagrams that came.
    pub datagrams: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Emulated packets that came in them.
    pub packets: u64,
    /// Datagrams that did not come though later ones did.
    pub lost: u64,
    /// Datagrams that others overtook.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicate: u64,
    /// Datagrams that were not the lab's, or not what had been sent.
    pub forged: u64,
    /// Emulated packets that came after they were due.
    pub late: u64,
    /// By how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Distribution>,
    /// Those that came later than the lab tolerates.
    pub too_late: u64,
    /// How much before it is due a packet was handed to the network.
    pub lead_ns: u64,
    /// One-way delay by the lab's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Distribution>,
    /// The same, every datagram.
    pub delays: Histogram,
    /// The least emulated delay from a host of the one to a host of the other; `None`: no path.
    pub path_delay_ns: Option<u64>,
}
