//! Labs on the wall clock: real programs in namespaces, connected by the fabric.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub mod clock;
pub mod control;
mod datapath;
pub mod doctor;
pub mod enclosure;
mod error;
pub mod flow;
pub mod launch;
mod oom;
pub mod program;
pub mod registry;
pub mod run;
#[cfg(test)]
mod sample;
pub mod shard;
pub mod uplink;
pub mod users;

pub use error::{Error, Result};
