//! The rate of each flow of a lab whose hosts are spread over several agents, sans-IO.
//!
//! An agent's data path reports its own flows to its [`Agreement`] as [`Notice`]s. The agreement
//! answers with notices of other agents' flows, from which the fabric computes shares
//! ([`Output::RemoteNotice`]), or with the shares themselves ([`Output::Share`]). The driver
//! transports the messages between agents; they may be late, duplicated, reordered or lost.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod client;
mod notices;
pub mod simulation;
pub mod slbn;
mod wire;

use base::{AgentId, Bandwidth, Time};
use fabric::Announced;
use sharing::{FlowName, Notice};

pub use client::{AgreementClient, Traffic, build};
pub use notices::Notices;
pub use slbn::Slbn;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A message of another agent that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message of agent {from}, byte {at}: {what}")]
pub struct Error {
    pub from: AgentId,
    pub at: usize,
    pub what: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// All other agents.
    All,
    One(AgentId),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Send {
        to: Recipient,
        bytes: Vec<u8>,
    },
    /// A notice of another agent's flow, for the fabric.
    RemoteNotice {
        notice: Notice,
        /// Lab time at which that agent announced it.
        announced: Time,
    },
    /// The rate of a flow of this agent.
    Share {
        flow: FlowName,
        /// `None`: its path is unlimited.
        share: Option<Bandwidth>,
        /// The rate up to which it may send, above `share` if it requested less than it could have.
        allowance: Option<Bandwidth>,
    },
}

/// The algorithm by which the agents of a lab agree on rates.
pub trait Agreement: Send {
    /// Flows of this agent have started, ended or changed their requested rate.
    fn announce(&mut self, now: Time, announced: &[Announced]);

    /// Handles a message of another agent.
    ///
    /// # Errors
    /// If it cannot be decoded; the state is then unchanged.
    fn on_message(&mut self, now: Time, from: AgentId, bytes: &[u8]) -> Result<()>;

    /// Removes an agent; its flows end.
    fn on_agent_lost(&mut self, now: Time, agent: AgentId);

    /// Restores an agent that was lost.
    fn on_agent_restored(&mut self, now: Time, agent: AgentId);

    /// Handles a change of links or routes. `capacities` has the capacity of each link direction
    /// (`None`: no limit), indexed by [`sharing::LinkKey`].
    fn set_capacities(&mut self, now: Time, capacities: &[Option<Bandwidth>]);

    fn next_wake(&self) -> Option<Time>;

    fn on_wake(&mut self, now: Time);

    fn poll(&mut self) -> Option<Output>;
}
