//! What can go wrong.

use thiserror::Error;

use crate::AgentId;

/// The crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A message of another agent cannot be read.
    #[error("message of agent {from}, byte {at}: {what}")]
    Malformed {
        /// Who sent it.
        from: AgentId,
        /// Where in the message.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// A hosts file is wrong.
    #[error("{file}:{line}: {what}")]
    HostsFile {
        /// Its name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The field, and what is wrong.
        what: String,
    },
    /// A text is not an address of an agent.
    #[error("`{text}` is not an address of an agent: write HOST or HOST:PORT")]
    Address {
        /// The text.
        text: String,
    },
}
