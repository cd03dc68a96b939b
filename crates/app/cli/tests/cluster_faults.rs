//! Labs over several hosts when one of them, the network or the coordinator fails; no remains of
//! the lab are left.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cluster {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod faults;
    mod harness;
    mod returns;
}
