//! Who takes part, and what each has to give.

use std::fmt;

use base::{Bandwidth, Bytes};
use serde::{Deserialize, Serialize};

/// An agent, by its position among the members of one lab.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AgentId(pub u16);

impl AgentId {
    /// The agent at a position.
    pub fn at(index: usize) -> Self {
        Self(index as u16)
    }

    /// Its position.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a machine can hold, less what the labs on it have already been promised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resources {
    /// Processors.
    pub cores: f64,
    /// Memory.
    pub memory: Bytes,
    /// Rate of the interface that its agent speaks through; `None` where the kernel does not say
    /// (virtual interfaces).
    pub nic: Option<Bandwidth>,
    /// Emulated traffic that it carries at most, in and out together, as its operator or a
    /// measurement says.
    pub traffic: Option<Bandwidth>,
    /// Hosts that it takes at most.
    pub hosts: u32,
}
