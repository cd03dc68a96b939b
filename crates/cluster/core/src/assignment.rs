//! The assignment of a plan's nodes to agents.

use base::NodeId;

use crate::AgentId;

/// The agent of each node of a plan. Routers and switches are on all agents: each agent emulates
/// the whole path of its hosts' traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    owners: Vec<Option<AgentId>>,
}

impl Assignment {
    /// `owners` is by position of the node; `None` for nodes that are on all agents.
    pub fn new(owners: Vec<Option<AgentId>>) -> Self {
        Self { owners }
    }

    /// All nodes on one agent.
    pub fn alone(nodes: usize) -> Self {
        Self { owners: vec![Some(AgentId(0)); nodes] }
    }

    /// The agent of `node`; `None` if it is on all agents.
    pub fn owner(&self, node: NodeId) -> Option<AgentId> {
        self.owners.get(node.index()).copied().flatten()
    }

    /// Whether `agent` emulates `node`.
    pub fn is_at(&self, node: NodeId, agent: AgentId) -> bool {
        self.owner(node).is_none_or(|owner| owner == agent)
    }

    pub fn owners(&self) -> &[Option<AgentId>] {
        &self.owners
    }
}
