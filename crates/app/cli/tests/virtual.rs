//! The virtual clock from the command line: `sim`, `sweep` and `replay`, without any privilege.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod r#virtual {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod captures;
    mod cell;
    mod diff;
    mod export;
    mod sim;
    mod sweep;
    mod waits;
}
