//! What the coordinator and agents say to each other: JSON, one object a message.
//!
//! Times are nanoseconds, rates bits a second, sizes bytes. An agent's *instance* is drawn when
//! its process starts: an agent that died and came back is another one, with nothing of the lab.

mod piece;

use std::net::SocketAddr;

use base::{Bandwidth, Bytes, Span};
use serde::{Deserialize, Serialize};

use crate::detector::Detector;
use crate::{AgentId, Resources};

pub use piece::{
    FromPiece, PieceProgress, ProgramChange, ProgramEvent, Setup, ToPiece, TrunkState,
};

/// Version of these messages and of what members of a lab say to each other: all agents of a lab
/// and its coordinator have the same.
pub const PROTOCOL: u32 = 3;

/// A lab begins so long after member 0 was told: all others are to know it by then.
pub const HEAD_START: Span = Span::from_millis(500);

/// The name of the resolved lab file, beside the lab's other files.
pub const LAB_FILE: &str = ".netarium-resolved.toml";

/// The name of the [`Membership`] among the results of a piece.
pub const PIECE_FILE: &str = "membership.json";

/// Whether `name` can be an agent's: it is a part of keys, of file names and of lab files.
pub fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(fits) && !name.starts_with(['.', '-'])
}

/// Whether `id` is a lab's identifier, which is also the name of its folder.
pub fn is_lab_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// What a machine has to give, as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// Processors.
    pub cores: f64,
    /// Memory.
    pub memory: u64,
    /// Rate of the trunk's interface, where known.
    pub nic: Option<u64>,
    /// Emulated traffic at most, where limited.
    pub traffic: Option<u64>,
    /// Hosts at most.
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

/// What an agent says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Drawn when it started.
    pub instance: u64,
    /// Of netarium.
    pub version: String,
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// What the machine has.
    pub total: Offer,
    /// What is left beside the labs that run there.
    pub free: Offer,
    /// Where its trunks are reached, but for the port.
    pub trunk: std::net::IpAddr,
    /// Labs that run, or ran and have results that nobody has fetched.
    pub labs: Vec<LabStatus>,
    /// What it knows of the other agents.
    pub peers: Vec<PeerStatus>,
}

/// What an agent sends twice a second, under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Its process.
    pub instance: u64,
    /// Where its clock is asked.
    pub clock: SocketAddr,
    /// It leaves in order.
    pub leaves: bool,
}

/// What an agent sends to one other agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockKey {
    /// Authenticates the pings of the sender.
    pub secret: crate::clock::Secret,
}

/// A piece of a lab on an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabStatus {
    /// Of the lab, the same on all agents.
    pub id: String,
    /// The lab's.
    pub name: String,
    /// How far it is.
    pub phase: Phase,
    /// Hosts here.
    pub hosts: u32,
    /// Names of all members, by [`AgentId`].
    pub members: Vec<String>,
    /// Packed results, once finished.
    pub result_bytes: u64,
}

/// What an agent knows of another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Whether it has been heard of late.
    pub alive: bool,
    /// Its clock less the own one, and how surely; `None` until it is known.
    pub clock: Option<ClockStatus>,
    /// Pings sent to it, and not answered.
    pub pings: u64,
    /// See `pings`.
    pub unanswered: u64,
}

/// How another agent's clock compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStatus {
    /// Its clock less the own one.
    pub offset_ns: i64,
    /// The offset is at most so wrong.
    pub bound_ns: u64,
    /// Least round trip of late.
    pub round_trip_ns: u64,
}

/// What follows when an agent of a lab is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    /// The lab ends.
    #[default]
    Stop,
    /// The others go on.
    Continue,
}

/// Asks an agent to keep room for a piece and to open its trunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reserve {
    /// Of the lab: 16 hexadecimal digits.
    pub lab: String,
    /// The lab's.
    pub name: String,
    /// The agent that is meant: its name may belong to another process by now.
    pub instance: u64,
    /// Which member it will be.
    pub own: AgentId,
    /// All members' names, by [`AgentId`].
    pub members: Vec<String>,
    /// The numbers in the members' certificates, by [`AgentId`].
    pub numbers: Vec<u16>,
    /// What the piece is expected to take.
    pub needs: Offer,
    /// Take it though there is not enough, as its user wants.
    pub overcommit: bool,
    /// What follows when a member, or the coordinator, is lost.
    pub on_loss: OnLoss,
}

impl Reserve {
    /// Whether an agent can act on it: names are parts of keys and of file names.
    pub fn is_valid(&self) -> bool {
        is_lab_id(&self.lab)
            && self.own.index() < self.members.len()
            && self.members.len() <= Detector::MOST
            && self.numbers.len() == self.members.len()
            && self.members.iter().all(|member| is_name(member))
            && self.needs.cores.is_finite()
            && self.needs.cores >= 0.0
    }
}

/// The agent's answer to [`Reserve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// Where the piece's trunk is reached.
    pub trunk: SocketAddr,
    /// Largest datagram that the trunk's interface takes whole (UDP payload).
    pub datagram: u32,
}

/// Asks an agent to build its piece. The files that the lab needs come along, packed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The lab.
    pub lab: String,
    /// The lab's text, resolved.
    pub text: String,
    /// The agent of each node; `None`: everywhere.
    pub owners: Vec<Option<AgentId>>,
    /// The members' trunks, by [`AgentId`].
    pub trunks: Vec<SocketAddr>,
    /// Largest datagram between members.
    pub datagram: u32,
    /// Authenticates the lab's packets and messages: 64 hexadecimal digits.
    pub key: String,
    /// Whether packets between members are encrypted as well.
    pub encrypt: bool,
    /// Keep the lab up until its duration is over.
    pub stay: bool,
    /// The datapath's engine, where the user chose one.
    pub engine: Option<String>,
}

impl Prepare {
    /// Whether it is for the lab that `terms` describe.
    pub fn fits(&self, terms: &Reserve) -> bool {
        let members = terms.members.len();
        self.lab == terms.lab
            && self.trunks.len() == members
            && self.owners.iter().flatten().all(|owner| owner.index() < members)
            && self.key.len() == 64
            && self.key.bytes().all(|digit| digit.is_ascii_hexdigit())
    }
}

/// What a piece's results say of the lab as a whole, in [`PIECE_FILE`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Membership {
    /// All members' names, by [`AgentId`].
    pub members: Vec<String>,
    /// The agent of each node; `None`: everywhere.
    pub owners: Vec<Option<AgentId>>,
    /// Whether packets between members were encrypted.
    pub encrypt: bool,
}

/// Lets a lab begin: lab time zero, by the clock of member 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The lab.
    pub lab: String,
    /// Lab time zero by member 0's monotonic clock; `None` asks member 0 to choose it.
    pub origin_ns: Option<u64>,
}

/// The answer to [`Start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Lab time zero by member 0's monotonic clock.
    pub origin_ns: u64,
}

/// What else is asked of an agent for a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// End the piece in order; its results are kept until they are fetched.
    Stop,
    /// End the piece now, and keep nothing.
    Drop,
    /// Send these bytes of the packed results.
    Fetch {
        /// From here.
        offset: u64,
        /// So many at most.
        length: u32,
    },
}

/// An [`Order`] for a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// The lab.
    pub lab: String,
    /// What is asked.
    pub order: Order,
}

/// Why an agent did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// In words, with what would be right.
    pub text: String,
    /// The exit code that fits.
    pub code: u8,
}

/// How far a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Room is kept.
    Reserved,
    /// It is being built.
    Preparing,
    /// It stands and waits for its start.
    Ready,
    /// It runs.
    Running,
    /// It was told to end.
    Stopping,
    /// It has ended, and its results can be fetched.
    Finished,
    /// It could not be built, or died.
    Failed,
}

/// What an agent says of a piece, twice a second and whenever the phase changes. It is the whole
/// state, so that nothing is missed when one is lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Who says it.
    pub agent: AgentId,
    /// The agent's process.
    pub instance: u64,
    /// Counts up.
    pub sequence: u64,
    /// How far the piece is.
    pub phase: Phase,
    /// Why, where it has failed or was ended by the agent.
    pub failure: Option<Refusal>,
    /// The last that the piece has said.
    pub progress: Option<PieceProgress>,
    /// The member whose loss has ended it; `failure` says how that was lost.
    #[serde(default)]
    pub lost: Option<AgentId>,
    /// What has happened to its programs last.
    #[serde(default)]
    pub programs: Vec<ProgramEvent>,
    /// Packed results, once finished.
    pub result_bytes: u64,
}
