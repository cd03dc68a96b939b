//! The engines of the virtual clock.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod engine {
    mod bundles;
    mod collapsed;
    mod control;
    mod determinism;
    mod drawn;
    mod labs;
    mod live;
    mod multipath;
    mod network;
    mod requests;
    mod runs;
    mod sweeps;
    mod traffic;
}
mod fluid;
mod physics_tcp;
