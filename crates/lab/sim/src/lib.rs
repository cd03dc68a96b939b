//! Simulation on the virtual clock: a plan runs from deadline to deadline, deterministically.
//!
//! [`Simulation`] is a plan in memory; a process can have many. [`run`] runs a plan and writes a
//! run folder in the format of the wall clock; [`sweep`] runs all combinations of a swept lab.
//!
//! ```text
//! applications (bulk, transfers, paced, rpc)      app/
//!        → TCP endpoints, datagrams               net.rs, crate `transport`
//!        → fabric                                 crate `fabric`
//! ```
//!
//! All engines use the event loop of crate `timeline`, which defines the total order of events, and
//! random streams are keyed by names: the same plan and seed give the same trace hash, independent
//! of the order of the lab file and the number of threads.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod app;
mod canonical;
mod capture;
mod connections;
mod control;
mod engine;
mod error;
mod flow;
pub mod fluid;
mod gateways;
pub mod live;
mod multipath;
mod net;
mod pace;
mod packets;
mod parameters;
mod replay;
pub mod run;
pub mod sessions;
pub mod sweep;
mod tcp_events;
mod tickets;
mod trace;

pub use engine::Engine;
pub use error::{Error, Result};
pub use pace::ABSENCE_TIMEOUT;
pub use packets::Simulation;
pub use replay::{Replay, replay};
