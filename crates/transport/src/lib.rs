//! Simulated transports for the virtual clock: TCP endpoints and traffic sources.
//!
//! Sans-IO: every machine takes `(now, input)` and gives segments and its next deadline. Payload
//! is counted, never stored.
#![forbid(unsafe_code)]

mod error;
pub mod tcp;
pub mod workload;

pub use error::Error;
