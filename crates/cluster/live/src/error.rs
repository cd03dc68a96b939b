//! Errors of this crate.

use std::io;
use std::path::PathBuf;

use run::Exit;
use thiserror::Error;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// In all variants, `action` is a verb with its object, and `cause` the error of the kernel or
/// of a library.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An invalid option or file; the text names the valid values.
    #[error("{text}")]
    Usage { text: String },
    #[error("cannot {action}: {cause}")]
    Session { action: &'static str, cause: String },
    #[error("no agent of {cluster} answers: {why}")]
    Unreachable {
        /// As the user named it.
        cluster: String,
        why: String,
    },
    /// A key or a certificate could not be made or used.
    #[error("cannot {action}: {cause}")]
    Certificate { action: &'static str, cause: String },
    /// The authority of a cluster did not sign a certificate.
    #[error("cannot enrol at {host}: {why}")]
    Enrolment { host: String, why: String },
    /// An agent has another version than this command.
    #[error("agent {agent} has netarium {theirs}, this command {ours}: install the same version")]
    Version { agent: String, theirs: String, ours: String },
    /// An agent has failed, or has rejected a request.
    #[error("agent {agent}: {text}")]
    Agent { agent: String, text: String, code: u8 },
    /// The lab needs more resources than the cluster has, or cannot be distributed.
    #[error("{text}")]
    DoesNotFit { text: String },
    #[error("interrupted before the lab started")]
    Interrupted,
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    /// A run could not be stored. The agents still have its results.
    #[error("the results of lab {lab} cannot be stored")]
    Unstored {
        lab: String,
        #[source]
        cause: Box<Error>,
    },
    #[error("cannot {action}: {cause}")]
    Machine { action: &'static str, cause: io::Error },
    #[error(transparent)]
    Kernel(#[from] sys::Error),
    /// A cluster on one machine could not be set up.
    #[error("{0}")]
    Local(String),
    /// A run folder could not be written.
    #[error(transparent)]
    Record(#[from] run::Error),
    /// A shard could not run.
    #[error(transparent)]
    Lab(#[from] emu::Error),
}

impl Error {
    pub fn exit_code(&self) -> Exit {
        match self {
            Self::Usage { .. } | Self::DoesNotFit { .. } => Exit::Usage,
            Self::Agent { code, .. } => Exit::from(*code),
            Self::Interrupted => Exit::Interrupted,
            Self::Lab(error) => error.exit_code(),
            _ => Exit::Machine,
        }
    }

    /// Whether a file cannot be stored on this machine, for example because the disk is full.
    pub(crate) fn is_storage_error(&self) -> bool {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        let Self::File { cause, .. } = self else { return false };
        !matches!(cause.kind(), InvalidData | UnexpectedEof)
    }

    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| Self::File { action, path, cause }
    }

    pub(crate) fn machine<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |cause| Self::Machine { action, cause: cause.into() }
    }

    pub(crate) fn session(action: &'static str) -> impl FnOnce(zenoh::Error) -> Self {
        move |cause| Self::Session { action, cause: without_source_locations(&cause.to_string()) }
    }
}

/// Removes the source code locations from an error message of Zenoh.
fn without_source_locations(text: &str) -> String {
    let mut parts = text.split(" at /");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some((place, rest)) = part.split_once(".rs:") {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
            plain.push_str(if place.contains(' ') { part } else { rest });
        } else {
            plain.push_str(" at /");
            plain.push_str(part);
        }
    }
    plain.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_source_locations_of_zenoh() {
        let text = "No listener on 127.0.0.1:1. Keys differ at /a/b-1/src/utils.rs:247. at \
                    /a/src/unicast.rs:426.";
        assert_eq!(without_source_locations(text), "No listener on 127.0.0.1:1. Keys differ");
        let text = "cannot look at /etc/passwd";
        assert_eq!(without_source_locations(text), text);
    }
}
