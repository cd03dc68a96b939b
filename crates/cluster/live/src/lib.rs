//! Agents and the coordinator of labs over several machines: the driver of crate `cluster`.
//!
//! ```text
//! coordinator (`netarium run --cluster`)  ── Zenoh ──┬── agent ─ shard ─ lab process of its hosts
//!                                                    ├── agent ─ shard ─ …
//!                                                    └── …         └─ UDP trunks between shards
//! ```
#![forbid(unsafe_code)]
#![allow(missing_docs)]

pub mod address;
pub mod agent;
pub mod authority;
pub mod connection;
pub mod coordinate;
pub mod credentials;
pub mod enrol;
mod error;
mod heartbeat;
pub mod local;
pub mod machines;
mod priority;
mod results;
pub mod session;
pub mod shard;
mod system;
mod trust;

pub use error::{Error, Result};
