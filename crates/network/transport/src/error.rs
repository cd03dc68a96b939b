//! Errors in a description of TCP.

/// An error in a description of TCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Unknown congestion controller.
    #[error("unknown congestion control `{name}`; expected reno, cubic, bbr or bbr3")]
    UnknownControl {
        /// The unknown name.
        name: String,
    },
}
