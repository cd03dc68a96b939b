//! A shard of a lab: the hosts placed on one of several agents.
//!
//! A shard differs from a local run in four ways: it has the whole plan but builds only its own
//! part; packets for hosts of other shards leave through the trunk before they are due; the shards
//! agree on the rates of flows; and all shards start and end together.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use base::{IfaceId, NodeId, Span};
use cluster::{AgentId, Assignment};
use lab::plan::Plan;

use crate::enclosure::Engine;

#[derive(Clone, Debug)]
pub struct Shard {
    /// The whole lab.
    pub plan: Arc<Plan>,
    /// The lab's identifier, the same on all agents.
    pub id: String,
    /// The agent that runs this shard.
    pub own: AgentId,
    pub assignment: Assignment,
    /// Names of all agents, by [`AgentId`].
    pub members: Vec<String>,
    /// Addresses of the agents' trunks, by [`AgentId`].
    pub trunks: Vec<SocketAddr>,
    /// Key that authenticates packets between agents.
    pub key: [u8; 32],
    /// Whether packets between agents are also encrypted.
    pub encrypt: bool,
    /// Maximum datagram between agents (UDP payload).
    pub datagram: usize,
    /// Initial egress lead time to each agent.
    pub leads: Vec<Span>,
    /// The folder in which run folders are created.
    pub runs_dir: PathBuf,
    /// Base of relative directories in the lab file.
    pub lab_dir: PathBuf,
    /// Whether to keep the lab until its duration is over, even if all work is done.
    pub stay: bool,
    /// The engine to use; `None`: the best one that works.
    pub engine: Option<Engine>,
}

/// Sockets to the other shards. Both are non-blocking.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// A bound UDP socket for packets between agents.
    pub(crate) trunk: OwnedFd,
    /// A socket of sequenced packets for messages between shards, which the agent forwards.
    pub(crate) notices: OwnedFd,
}

impl Shard {
    /// Whether the node belongs to this shard.
    pub fn is_here(&self, node: NodeId) -> bool {
        self.assignment.is_at(node, self.own)
    }

    /// The agent of an interface, if it is another agent.
    pub(crate) fn remote_agent(&self, iface: IfaceId) -> Option<AgentId> {
        let owner = self.assignment.owner(self.plan.ifaces[iface.index()].node);
        owner.filter(|owner| *owner != self.own)
    }
}
