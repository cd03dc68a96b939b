use base::AgentId;
use thiserror::Error;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A message of another agent that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("message of agent {from}, byte {at}: {what}")]
pub struct Error {
    pub from: AgentId,
    pub at: usize,
    pub what: &'static str,
}
