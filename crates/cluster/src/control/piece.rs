//! What an agent and a piece's process say to each other: a JSON object a line.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::OnLoss;
use crate::AgentId;

/// What a piece is. The first message on the piece's standard input, along with two descriptors:
/// the trunk's UDP socket and the notices' socket. The lab's file is `lab` beside its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Of the lab, the same on all agents.
    pub id: String,
    /// The resolved lab file.
    pub lab: PathBuf,
    /// Which member it is.
    pub own: AgentId,
    /// The agent of each node; `None`: everywhere.
    pub owners: Vec<Option<AgentId>>,
    /// All members' names, by [`AgentId`].
    pub members: Vec<String>,
    /// The members' trunks, by [`AgentId`].
    pub trunks: Vec<SocketAddr>,
    /// The lab's key: 64 hexadecimal digits.
    pub key: String,
    /// Whether packets between members are encrypted.
    pub encrypt: bool,
    /// Largest datagram of a trunk (UDP payload).
    pub datagram: u32,
    /// How long before it is due a packet leaves for each member, at first.
    pub leads_ns: Vec<u64>,
    /// Where the run folder of the piece is made.
    pub runs_dir: PathBuf,
    /// What follows the loss of a member.
    pub on_loss: OnLoss,
    /// Keep the lab up until its duration is over.
    pub stay: bool,
    /// The datapath's engine, where the user chose one.
    pub engine: Option<String>,
}

/// To a piece, after its [`Setup`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToPiece {
    /// Begin at lab time zero, which is at this time of the own monotonic clock.
    Start {
        /// Lab time zero.
        origin_ns: u64,
        /// It is at most so wrong, beside member 0's.
        bound_ns: u64,
    },
    /// Lab time zero is now known better, or the clocks have drifted.
    Clock {
        /// Lab time zero.
        origin_ns: u64,
        /// It is at most so wrong.
        bound_ns: u64,
    },
    /// A member is gone.
    Lost {
        /// Which.
        agent: AgentId,
    },
    /// A member that was gone is there again.
    Regained {
        /// Which.
        agent: AgentId,
    },
    /// Packets for a member are to leave so long before they are due from now on.
    Lead {
        /// For which.
        agent: AgentId,
        /// How long.
        lead_ns: u64,
    },
    /// Something has happened to a program elsewhere. What is known already may be said again.
    Program(ProgramEvent),
    /// End now, in order.
    Stop,
}

/// From a piece.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromPiece {
    /// It stands and waits for its start.
    Ready,
    /// How far it is.
    Progress(PieceProgress),
    /// Something has happened to a program here.
    Program(ProgramEvent),
    /// It could not be built, or died.
    Failed {
        /// Why.
        text: String,
        /// The exit code that fits.
        code: u8,
    },
    /// It has ended.
    Finished {
        /// Where its results are.
        folder: PathBuf,
    },
}

/// How far a piece is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PieceProgress {
    /// Lab time.
    pub now_ns: u64,
    /// All its programs and flows have ended.
    pub idle: bool,
    /// What it waits for, in words.
    pub waiting_for: String,
    /// Packets delivered so far.
    pub packets: u64,
    /// Its trunks, by [`AgentId`] (the own one is all zero).
    #[serde(default)]
    pub trunks: Vec<TrunkState>,
}

/// What came over the trunk from another member so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkState {
    /// Datagrams.
    pub received: u64,
    /// Datagrams that did not come.
    pub lost: u64,
    /// Packets that came after they were due.
    pub late: u64,
}

/// Something that other members' programs may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEvent {
    /// The program, by its position in the plan.
    pub program: u32,
    /// When, in lab time.
    pub at_ns: u64,
    /// What.
    pub change: ProgramChange,
}

/// What happens to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramChange {
    /// It runs.
    Started,
    /// Its `ready` holds.
    Ready,
    /// It has ended, well or not.
    Ended {
        /// Whether it ended as the lab expects.
        well: bool,
    },
}
