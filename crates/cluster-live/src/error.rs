//! What can go wrong.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// What the user asked for cannot be; with what would be right.
    #[error("{text}")]
    Usage {
        /// In words.
        text: String,
    },
    /// The session with other agents could not be opened.
    #[error("cannot {action}: {cause}")]
    Session {
        /// The verb.
        action: &'static str,
        /// Zenoh's words.
        cause: String,
    },
    /// Nobody answers.
    #[error("no agent of {cluster} answers: {why}")]
    Unreachable {
        /// As the user named it.
        cluster: String,
        /// What is known of it.
        why: String,
    },
    /// A key or a certificate could not be made or used.
    #[error("cannot {action}: {cause}")]
    Certificate {
        /// The verb.
        action: &'static str,
        /// The library's message.
        cause: String,
    },
    /// The authority of a cluster did not sign a certificate.
    #[error("cannot enrol at {host}: {why}")]
    Enrolment {
        /// Where.
        host: String,
        /// Its answer.
        why: String,
    },
    /// Agents and the command are not of one version.
    #[error("agent {agent} is netarium {theirs}, and this is {ours}: use the same everywhere")]
    Version {
        /// Its name.
        agent: String,
        /// Its version.
        theirs: String,
        /// The own version.
        ours: String,
    },
    /// An agent could not do its part.
    #[error("agent {agent}: {text}")]
    Agent {
        /// Its name.
        agent: String,
        /// Its words.
        text: String,
        /// The exit code that fits.
        code: u8,
    },
    /// The cluster cannot hold the lab, or a part of it cannot be done by several machines.
    #[error("{text}")]
    DoesNotFit {
        /// With numbers.
        text: String,
    },
    /// The user ended it before it began.
    #[error("interrupted before the lab began")]
    Interrupted,
    /// A file could not be made, read or written.
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// The verb.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        cause: io::Error,
    },
    /// A run could not be stored here; the agents still have what it gave.
    #[error("the results of lab {lab} cannot be stored")]
    Unstored {
        /// Its identifier.
        lab: String,
        /// What failed.
        #[source]
        cause: Box<Error>,
    },
    /// Something failed on this machine.
    #[error("cannot {action}: {cause}")]
    Machine {
        /// The verb.
        action: &'static str,
        /// Its answer.
        cause: io::Error,
    },
    /// The kernel refused something.
    #[error(transparent)]
    Kernel(#[from] sys::Error),
    /// A cluster on one machine could not be set up, or not as asked.
    #[error("{0}")]
    Local(String),
    /// A run folder could not be written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A piece could not be run.
    #[error(transparent)]
    Lab(#[from] emu::Error),
}

impl Error {
    /// The exit code that fits.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::DoesNotFit { .. } => 2,
            Self::Agent { code, .. } => *code,
            Self::Interrupted => 130,
            Self::Lab(error) => error.exit_code(),
            _ => 4,
        }
    }

    /// Whether it says that something cannot be stored here, such as on a full disk.
    pub(crate) fn is_of_storage(&self) -> bool {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        let Self::File { cause, .. } = self else { return false };
        !matches!(cause.kind(), InvalidData | UnexpectedEof)
    }

    /// A file could not be had.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |cause| Self::File { action, path, cause }
    }

    /// The machine did not do something.
    pub(crate) fn machine<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |cause| Self::Machine { action, cause: cause.into() }
    }

    /// Zenoh did not do something.
    pub(crate) fn session(action: &'static str) -> impl FnOnce(zenoh::Error) -> Self {
        move |cause| Self::Session { action, cause: without_places(&cause.to_string()) }
    }
}

/// Zenoh's words without the places of its source that it names.
fn without_places(text: &str) -> String {
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
    fn foreign_source_files_are_left_out() {
        let text = "No listener on 127.0.0.1:1. Keys differ at /a/b-1/src/utils.rs:247. at \
                    /a/src/unicast.rs:426.";
        assert_eq!(without_places(text), "No listener on 127.0.0.1:1. Keys differ");
        let text = "cannot look at /etc/passwd";
        assert_eq!(without_places(text), text);
    }
}
