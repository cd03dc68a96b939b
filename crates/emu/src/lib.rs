//! Labs on the wall clock: real programs in namespaces, packets through the fabric.
#![forbid(unsafe_code)]

pub mod clock;
mod datapath;
pub mod doctor;
pub mod enclosure;
mod error;
pub mod flow;
pub mod launch;
mod oom;
pub mod piece;
pub mod program;
pub mod registry;
pub mod run;
#[cfg(test)]
mod sample;
pub mod uplink;

pub use error::{Error, Result};
