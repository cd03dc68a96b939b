//! Errors of reports.

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run folder cannot be read, or the report cannot be written.
    #[error(transparent)]
    Record(#[from] run::Error),
}
