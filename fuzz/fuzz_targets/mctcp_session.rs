//! Any schedule of what can happen to the connections between two sessions, their listener and
//! their applications, broken frames included: nothing panics, no deadline comes without end, no
//! more is kept than was granted, bytes arrive once and in order, and both sessions end.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/mctcp/tests/schedule/connection.rs"]
mod connection;
#[path = "../../crates/mctcp/tests/schedule/world.rs"]
mod world;

fuzz_target!(|script: &[u8]| world::run(script));
