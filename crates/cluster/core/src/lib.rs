//! One lab over several machines, sans-IO: the state machines and messages of a cluster.
//!
//! **Problem.** The hosts of a lab are spread over machines. No machine carries the traffic of all
//! hosts: each shapes the traffic that its own hosts send (`model = "collapsed"`), and agents
//! exchange messages to agree on the rates of flows that share links.
//!
//! **Processes.** Each machine runs an *agent*. The *coordinator* is the command that runs the lab.
//! Each agent of the lab runs a *shard* of it: the hosts that were placed on this agent.
//!
//! | module | contents | source |
//! |---|---|---|
//! | [`trunk`] | packets between machines: framing, authentication, loss, order, delay | |
//! | [`clock`] | offsets between the machines' clocks and their max errors | RFC 5905 §8, §10 |
//! | [`detector`] | failure detector for agents | |
//! | [`control`] | messages between agents, coordinator and shards | |
//! | [`recovery`] | replacement of a defective session after an outage | |
//! | [`coordinator`] | phases of a run, and reactions to the loss of an agent | |
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod assignment;
pub mod clock;
pub mod control;
pub mod coordinator;
pub mod detector;
pub mod recovery;
pub mod trunk;

pub use assignment::Assignment;
pub use base::AgentId;
pub use control::Resources;
