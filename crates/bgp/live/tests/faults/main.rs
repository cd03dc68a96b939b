//! The whole path of packets, from capture files to archived records: compared with the known
//! result of captures and, under faults of clones, with the result of a simple oracle.
//!
//! `FAULT_SEEDS` is the number of seeds for each type of fault.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod collect;
mod damage;
mod encapsulate;
mod field;
mod generated;
mod hostile;
mod judge;
mod modes;
mod mrt;
mod oracle;
mod packet;
mod readers;
mod reference;
mod routers;
mod samples;

use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp").join(name)
}

/// The seeds: `few`, or as many as the environment variable states.
fn seeds(few: u64) -> std::ops::Range<u64> {
    let many = std::env::var("FAULT_SEEDS").ok().and_then(|text| text.parse().ok());
    0..many.unwrap_or(few)
}
