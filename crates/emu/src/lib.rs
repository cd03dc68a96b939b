//! Labs on the wall clock: real programs in namespaces, packets through the fabric.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod enclosure;
mod error;
pub mod flow;
pub mod launch;
pub mod program;
pub mod registry;
#[cfg(test)]
mod sample;

pub use error::{Error, Result};
