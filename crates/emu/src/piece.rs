//! What of a lab runs on one of several machines: the hosts that were placed there.
//!
//! A piece is a run like any other, but for this: it knows the whole plan and builds a part of it;
//! packets for other members' hosts leave by the trunk, ahead of the time when they are due; what
//! its flows may send is agreed on with the others; and it begins and ends when the lab does.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use base::{IfaceId, NodeId, Span};
use cluster::control::FromPiece;
use cluster::{AgentId, Assignment};
use lab::plan::Plan;

use crate::enclosure::Engine;
use crate::run::{self, message};
use crate::{Error, Result};

/// A piece of a lab.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The whole lab.
    pub plan: Arc<Plan>,
    /// Of the lab, the same on all machines.
    pub id: String,
    /// Which member this is.
    pub own: AgentId,
    /// Who has which node.
    pub assignment: Assignment,
    /// All members' names, by [`AgentId`].
    pub members: Vec<String>,
    /// Where the members' trunks are reached, by [`AgentId`].
    pub trunks: Vec<SocketAddr>,
    /// Authenticates what members send each other.
    pub key: [u8; 32],
    /// Whether packets between members are encrypted as well.
    pub encrypt: bool,
    /// Largest datagram between members (UDP payload).
    pub datagram: usize,
    /// How long before it is due a packet leaves for each member, at first.
    pub leads: Vec<Span>,
    /// Where run folders are made.
    pub runs_dir: PathBuf,
    /// What relative directories in the lab file start from.
    pub lab_dir: PathBuf,
    /// Keep the lab up until its duration is over: nobody is told that the work is done.
    pub stay: bool,
    /// The engine to use; `None`: the best that works.
    pub engine: Option<Engine>,
}

/// How a piece reaches the others. Both are non-blocking.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// UDP, bound: packets between members.
    pub(crate) trunk: OwnedFd,
    /// Sequenced packets: messages between members, which the agent carries.
    pub(crate) notices: OwnedFd,
}

impl Piece {
    /// Whether a node is taken care of here.
    pub fn is_here(&self, node: NodeId) -> bool {
        self.assignment.is_at(node, self.own)
    }

    /// The other member that has the interface.
    pub(crate) fn elsewhere(&self, iface: IfaceId) -> Option<AgentId> {
        let owner = self.assignment.owner(self.plan.ifaces[iface.index()].node);
        owner.filter(|owner| *owner != self.own)
    }
}

/// Runs a piece of a lab until the lab ends, and says on `control` how it does, by
/// [`FromPiece`]; [`cluster::control::ToPiece`] comes the other way. At end-of-file, which means
/// that the agent is gone, it ends in order.
///
/// The calling process has one thread and holds no other copy of `control`.
///
/// # Errors
/// When the piece could not start or died, which `control` is told too.
pub fn run_piece(
    piece: Piece,
    trunk: OwnedFd,
    notices: OwnedFd,
    control: UnixStream,
) -> Result<()> {
    let news = control.try_clone().map_err(Error::Channel)?;
    for fd in [&trunk, &notices] {
        rustix::io::ioctl_fionbio(fd, true).map_err(|errno| Error::Channel(errno.into()))?;
    }
    let mut news = Some(news);
    let ended = run::piece::run(piece, Sockets { trunk, notices }, control, &mut news);
    let said = match &ended {
        Ok(folder) => FromPiece::Finished { folder: folder.clone() },
        Err(error) => FromPiece::Failed { text: error.to_string(), code: error.exit_code() },
    };
    if let Some(news) = &news {
        message::send(news, &said);
    }
    ended.map(drop)
}
