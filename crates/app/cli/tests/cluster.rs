//! Labs over several hosts: agents in network namespaces of this host.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cluster {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod harness;
    mod physical;
    mod runs;
}
