//! Simulated transports for the virtual clock: TCP endpoints.
//!
//! Sans-IO: every state machine takes `(now, input)` and returns segments and its next deadline.
//! Payload is counted, never stored.
#![forbid(unsafe_code)]

mod error;
pub mod tcp;

pub use error::Error;
