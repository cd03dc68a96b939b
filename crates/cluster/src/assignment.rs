//! Which agent has which node.

use base::NodeId;

use crate::AgentId;

/// The agent of each node of a plan. Nodes without a kernel of their own (routers, switches) are
/// everywhere: each agent emulates the whole paths of what its hosts send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    owners: Vec<Option<AgentId>>,
}

impl Assignment {
    /// By position of the node; `None` for nodes that are everywhere.
    pub fn new(owners: Vec<Option<AgentId>>) -> Self {
        Self { owners }
    }

    /// Everything in one place.
    pub fn alone(nodes: usize) -> Self {
        Self { owners: vec![Some(AgentId(0)); nodes] }
    }

    /// Who has `node`; `None` if it is everywhere.
    pub fn owner(&self, node: NodeId) -> Option<AgentId> {
        self.owners.get(node.index()).copied().flatten()
    }

    /// Whether `agent` takes care of `node`.
    pub fn is_at(&self, node: NodeId, agent: AgentId) -> bool {
        self.owner(node).is_none_or(|owner| owner == agent)
    }

    /// By position of the node.
    pub fn owners(&self) -> &[Option<AgentId>] {
        &self.owners
    }
}
