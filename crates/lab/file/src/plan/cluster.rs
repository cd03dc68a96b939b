//! Requirements of a lab on its placement in a cluster.

use std::collections::BTreeMap;

use base::{Bytes, NodeId};

use crate::fields::Words;

/// `[cluster]`, and the requirements of nodes; without effect on a single host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// The action on the loss of an agent.
    pub on_loss: OnLoss,
    /// Nodes of one group are on different agents.
    pub apart: Vec<Vec<NodeId>>,
    /// Nodes of one group are on the same agent.
    pub together: Vec<Vec<NodeId>>,
    /// Distribution of hosts that no other rule places.
    pub spread: Spread,
    /// Additional files that programs need: patterns relative to the lab file's folder (`apps/**`).
    pub files: Vec<String>,
    /// Requirements of nodes; nodes without requirements are absent.
    pub nodes: BTreeMap<NodeId, PlacementRequirements>,
}

/// The action if an agent of a running lab, or its coordinator, is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// The lab ends on all agents.
    #[default]
    Stop,
    /// The hosts of the other agents continue.
    Continue,
}

/// Distribution of hosts over agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Over all agents, in proportion to their cores.
    #[default]
    Even,
    /// Over as few agents as possible.
    Pack,
}

/// Requirements of a node on its agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementRequirements {
    /// The required agent.
    pub machine: Option<String>,
    /// Cores that its programs need; `None`: unspecified.
    pub cpus: Option<f64>,
    /// Memory that its programs need; `None`: unspecified.
    pub memory: Option<Bytes>,
}

impl OnLoss {
    /// The word in lab files.
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}

impl Spread {
    /// The word in lab files.
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}

impl Cluster {
    /// The requirements of a node.
    pub fn wishes(&self, node: NodeId) -> PlacementRequirements {
        self.nodes.get(&node).cloned().unwrap_or_default()
    }
}
