//! Real programs on emulated networks: the binary runs labs, and the output of the
//! programs is checked.
//!
//! No test depends on the timing of the host: an untrusted run passes if its numbers do not
//! depend on time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod programs {
    mod bench;
    mod bundles;
    mod carrier;
    mod collector;
    mod events;
    mod failover;
    mod files;
    mod flows;
    mod hostile;
    mod impairments;
    mod jobs;
    mod labs;
    mod lifecycle;
    mod link;
    mod link_local;
    mod metrics;
    mod mirrors;
    mod parity;
    mod replay;
    mod rootless;
    mod routers;
    mod routing;
    mod sharing;
    mod terminal;
    mod tools;
    mod top;
    mod up;
    mod watch;
}
