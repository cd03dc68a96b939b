//! Real programs on emulated networks: the binary runs labs, and what the programs say is read.
//!
//! No test depends on the machine's punctuality: a run that is not trusted passes where its
//! numbers do not say when something happened.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod programs {
    mod bench;
    mod bundles;
    mod collector;
    mod events;
    mod flows;
    mod hostile;
    mod impairments;
    mod jobs;
    mod labs;
    mod lifecycle;
    mod mirrors;
    mod parity;
    mod replay;
    mod rootless;
    mod routers;
    mod tools;
}
