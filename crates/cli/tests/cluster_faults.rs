//! What becomes of a lab over several machines when one of them fails, or its network, or the
//! command that runs the lab; and that nothing of it is left anywhere.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cluster {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod faults;
    mod harness;
    mod returns;
}
