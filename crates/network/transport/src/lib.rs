//! Simulated transports for the virtual clock: TCP endpoints.
//!
//! Sans-IO: every state machine takes `(now, input)` and returns segments and its next deadline.
//! Payload is counted, never stored.
#![forbid(unsafe_code)]

pub mod tcp;

/// An error in a description of TCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Unknown congestion controller.
    #[error(
        "unknown congestion control `{name}`; expected reno, cubic, bbr, bbr3, dctcp or prague"
    )]
    UnknownControl {
        /// The unknown name.
        name: String,
    },
}
