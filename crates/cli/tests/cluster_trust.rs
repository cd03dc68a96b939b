//! Which certificate may do what in a cluster, with whole programs on the loopback interface:
//! agents, rogue peers that speak the same protocol, and enrolment.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cluster {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod enrolment;
    mod loopback;
    mod names;
    mod pod;
    mod revocation;
    mod rogue;
    mod rogues;
}
