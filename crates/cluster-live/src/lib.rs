//! Agents and the coordinator of labs over several machines: the driver of crate `cluster`.
//!
//! ```text
//! coordinator (`netarium run --cluster`)  ── Zenoh ──┬── agent ─ piece ─ lab process of its hosts
//!                                                    ├── agent ─ piece ─ …
//!                                                    └── …         └─ UDP trunks between pieces
//! ```
#![forbid(unsafe_code)]

pub mod address;
pub mod agent;
pub mod authority;
mod beats;
pub mod coordinate;
pub mod credentials;
pub mod enrol;
mod error;
pub mod local;
pub mod machines;
pub mod manifest;
pub mod piece;
pub mod reach;
mod results;
pub mod session;
mod trust;
mod urgent;

pub use error::{Error, Result};
