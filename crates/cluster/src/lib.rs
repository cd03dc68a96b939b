//! One lab over several machines, sans-IO: what agents and the coordinator know, say and decide.
//!
//! **Problem.** The hosts of a lab are spread over machines. No machine carries the traffic of all:
//! each shapes what its own hosts send (`model = "collapsed"`), and what flows share links with
//! each other is agreed on by messages.
//!
//! **Actors.** An *agent* on each machine; the *coordinator*, which is the command that runs the
//! lab; on each agent a *piece* of the lab, with the hosts that were placed there.
//!
//! | module | what it decides | source |
//! |---|---|---|
//! | [`placement`] | which machine has which hosts, or why the lab does not fit | `SplayNet` §3.4.3 |
//! | [`agreement`] | what each flow may send, by notices or by claims on links | `SplayNet` §3.3, SLBN |
//! | [`trunk`] | packets between machines: framing, authentication, loss, order, delay | |
//! | [`clock`] | by how much the machines' clocks differ, and how surely | RFC 5905 §8, §10 |
//! | [`detector`] | which agents are alive | |
//! | [`control`] | what agents, the coordinator and pieces say to each other | |
//! | [`hosts`] | the agents and machines that a file lists | |
//! | [`coordinator`] | the phases of a run, and what follows the loss of an agent | |
#![forbid(unsafe_code)]

pub mod agreement;
mod assignment;
pub mod clock;
pub mod control;
pub mod coordinator;
pub mod detector;
mod error;
pub mod hosts;
mod member;
pub mod placement;
pub mod trunk;
mod wire;

pub use assignment::Assignment;
pub use error::{Error, Result};
pub use member::{AgentId, Resources};
