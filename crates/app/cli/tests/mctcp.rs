//! MCTCP for unmodified programs: the binary's server and proxy in network
//! namespaces with two links between them, real programs at both ends.
//!
//! ```text
//! client —(10.61.1.0/24, 40 Mbit/s)— server: 10.99.0.1
//!        —(10.61.2.0/24, 40 Mbit/s)—
//! ```
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod mctcp {
    #[path = "../programs/bench.rs"]
    mod bench;
    mod floods;
    mod listeners;
    mod options;
    mod outages;
    mod path_failures;
    mod redirection;
    #[path = "../programs/space.rs"]
    mod space;
    mod world;
}
