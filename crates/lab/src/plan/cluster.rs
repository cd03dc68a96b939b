//! What a lab asks of the machines that it is spread over.

use std::collections::BTreeMap;

use base::{Bytes, NodeId};

/// `[cluster]`, and what nodes ask of machines; without effect on one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// What follows when a machine is lost.
    pub on_loss: OnLoss,
    /// Nodes of one group are on different machines.
    pub apart: Vec<Vec<NodeId>>,
    /// Nodes of one group are on the same machine.
    pub together: Vec<Vec<NodeId>>,
    /// How hosts are shared out where nothing else decides.
    pub spread: Spread,
    /// Files that programs need, beside those that their commands name: patterns relative to the
    /// lab file's folder (`apps/**`).
    pub files: Vec<String>,
    /// What nodes ask for; those that ask for nothing are absent.
    pub nodes: BTreeMap<NodeId, Wishes>,
}

/// What follows when a machine of a running lab is lost, or its coordinator is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// The lab ends everywhere.
    #[default]
    Stop,
    /// The others' hosts go on.
    Continue,
}

/// How hosts are shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Over all machines, in proportion to their cores.
    #[default]
    Even,
    /// Over no more machines than it takes.
    Pack,
}

/// What a node asks of the machine that it is on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// The agent whose machine it must be on.
    pub machine: Option<String>,
    /// Cores that its programs need; `None`: not said.
    pub cpus: Option<f64>,
    /// Memory that its programs need; `None`: not said.
    pub memory: Option<Bytes>,
}

impl OnLoss {
    /// As the lab file writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Continue => "continue",
        }
    }
}

impl Spread {
    /// As the lab file writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Pack => "pack",
        }
    }
}

impl Cluster {
    /// What a node asks for.
    pub fn wishes(&self, node: NodeId) -> Wishes {
        self.nodes.get(&node).cloned().unwrap_or_default()
    }
}
