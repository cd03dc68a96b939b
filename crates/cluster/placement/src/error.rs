//! Errors of this crate.

use thiserror::Error;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{file}:{line}: {what}")]
    HostsFile {
        file: String,
        /// Line number, from 1.
        line: usize,
        /// The key and its error.
        what: String,
    },
    #[error("`{text}` is not an address of an agent: write HOST or HOST:PORT")]
    Address { text: String },
}
