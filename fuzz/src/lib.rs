//! Fuzz targets: what each parser of external bytes guarantees for any input. The test `corpus`
//! runs each target over its corpus; `dev/fuzz-smoke` builds them for libFuzzer and searches.
#![forbid(unsafe_code)]

use arbitrary::{Arbitrary, Unstructured};

mod bgp_families;
mod bgp_message;
mod bmp;
mod bundle_digest;
mod bundle_encapsulation;
mod bundle_message;
mod capture;
mod cluster_messages;
mod cluster_notices;
mod configuration;
mod datagram_trace;
mod decapsulate;
mod fabric_trace;
mod flow_datagram;
mod hosts_file;
mod import_alt;
mod import_csv;
mod import_gml;
mod import_graphml;
mod imports;
mod lab_file;
mod mctcp_frames;
mod mctcp_fronts;
mod mctcp_session;
mod mrt;
mod observations;
mod packed_folder;
mod packet;
mod reassembly;
mod ris_live_requests;
mod routes;
mod sessions;
mod size_distribution;
mod slbn_claims;
mod table;
mod trace_file;
mod trunk_datagram;
mod watch_requests;

/// Runs a target with an input, and panics if a guarantee does not hold.
pub type Target = fn(&[u8]);

macro_rules! targets {
    ($($name:ident)*) => {
        /// All targets by name, which is also that of the corpus.
        pub const TARGETS: &[(&str, Target)] =
            &[$((stringify!($name), |input| run(input, $name::target))),*];
    };
}

targets! {
    bgp_families
    bgp_message
    bmp
    bundle_digest
    bundle_encapsulation
    bundle_message
    capture
    cluster_messages
    cluster_notices
    configuration
    datagram_trace
    decapsulate
    fabric_trace
    flow_datagram
    hosts_file
    import_alt
    import_csv
    import_gml
    import_graphml
    lab_file
    mctcp_frames
    mctcp_fronts
    mctcp_session
    mrt
    observations
    packed_folder
    packet
    reassembly
    ris_live_requests
    routes
    sessions
    size_distribution
    slbn_claims
    table
    trace_file
    trunk_datagram
    watch_requests
}

fn run<'a, T: Arbitrary<'a>>(input: &'a [u8], target: fn(T)) {
    if let Ok(input) = T::arbitrary_take_rest(Unstructured::new(input)) {
        target(input);
    }
}

/// The target with this name. In a constant, so that a binary contains the code of one target only.
///
/// # Panics
/// If there is none.
pub const fn find(name: &str) -> Target {
    let mut at = 0;
    while at < TARGETS.len() {
        if is_equal(TARGETS[at].0.as_bytes(), name.as_bytes()) {
            return TARGETS[at].1;
        }
        at += 1;
    }
    panic!("no fuzz target has this name");
}

/// `==`, which constants do not have.
const fn is_equal(left: &[u8], right: &[u8]) -> bool {
    match (left, right) {
        ([], []) => true,
        ([a, left @ ..], [b, right @ ..]) => *a == *b && is_equal(left, right),
        _ => false,
    }
}
