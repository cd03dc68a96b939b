//! Permissions of certificates in a cluster, tested with whole programs on the loopback interface:
//! agents, rogue peers with the same protocol, floods of connections, and enrolment.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod cluster {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod enrolment;
    mod floods;
    mod loopback;
    mod names;
    mod pod;
    mod revocation;
    mod rogue;
    mod rogues;
}
