//! Every run ends with a final status and the correct reason, for each failure: one write,
//! allocation or system call at a time, full disks, programs with unlimited output or memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod failures {
    #[path = "../programs/bench.rs"]
    mod bench;
    #[path = "../faults/cell.rs"]
    mod cell;
    mod cluster;
    mod disk;
    mod injector;
    #[path = "../cluster/loopback.rs"]
    mod loopback;
    mod memory;
    mod nth;
}
