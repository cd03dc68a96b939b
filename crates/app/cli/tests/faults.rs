//! Invalid input and faults: messages to the user, exit codes, and no remains.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod faults {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod cell;
    mod cycles;
    mod foreign;
    mod foreign_objects;
    mod input;
    mod machine;
    mod programs;
    mod together;
}
