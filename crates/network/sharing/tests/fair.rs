//! Shares compared with a simple reference solver, with another simulator, and with a formula.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod fair {
    mod agreement;
    mod changes;
    mod corners;
    mod examples;
    mod instances;
    mod kollaps;
    mod oracle;
    mod simgrid;
}
