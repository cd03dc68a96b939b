//! The virtual clock: a plan runs from deadline to deadline, deterministic and fast.
//!
//! [`Simulation`] is a plan in memory, and many fit one process. [`run`] makes a run folder of it,
//! exactly as the wall clock does; [`sweep`] runs all combinations of a swept lab.
//!
//! ```text
//! applications (bulk, transfers, paced, rpc)      app/
//!        → TCP endpoints, datagrams               net.rs, crate `transport`
//!        → fabric                                 crate `fabric`
//! ```
//!
//! The engine takes, again and again, the earliest of: a change of the lab, an event of the
//! fabric, a timer. Everything that happens has a place in one total order, and random streams are
//! keyed by names: the same plan and seed give the same trace hash, whatever the order of the lab
//! file and the number of threads.
#![forbid(unsafe_code)]

mod app;
mod boxes;
mod canonical;
mod clockwork;
mod connections;
mod control;
mod engine;
mod error;
mod flow;
pub mod fluid;
mod given;
mod multipath;
mod net;
mod replay;
pub mod run;
pub mod sessions;
pub mod sweep;

pub use engine::Simulation;
pub use error::{Error, Result};
pub use replay::{Replay, replay};
