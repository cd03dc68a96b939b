//! Any schedule of events of the connections between two sessions, their listener and
//! their applications, including broken frames: no panic, no endless sequence of deadlines, no
//! buffer above the granted credit; bytes arrive once and in order, and both sessions end.

#[path = "../../crates/mctcp/core/tests/schedule/world.rs"]
mod world;

pub(crate) fn target(script: &[u8]) {
    world::run(script);
}
