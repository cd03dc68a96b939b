//! Labs over several machines: agents in network namespaces on this one.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cluster {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod harness;
    mod physical;
    mod runs;
}
