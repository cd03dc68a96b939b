//! The whole way of packets, from capture files to archived records: the truth on captures whose
//! truth is known, and under all that can happen to clones what a naive oracle says.
//!
//! `FAULT_SEEDS` says how many seeds each kind of damage is tried with.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod collect;
mod damage;
mod encapsulate;
mod hostile;
mod judge;
mod modes;
mod mrt;
mod oracle;
mod packet;
mod readers;
mod routers;
mod samples;
mod truth;

use std::path::{Path, PathBuf};

/// A file of the project's data.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/bgp").join(name)
}

/// How many seeds to try: `few`, or as many as the environment says.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let many = std::env::var("FAULT_SEEDS").ok().and_then(|text| text.parse().ok());
    0..many.unwrap_or(few)
}
