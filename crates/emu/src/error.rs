//! What can go wrong while a lab is put on the machine.

use std::path::PathBuf;

/// Why a lab could not be set up, or a part of it not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused something.
    #[error(transparent)]
    Kernel(#[from] sys::Error),
    /// The namespaces of a lab cannot be made.
    #[error("this machine does not let us make the lab's namespaces ({step}: {cause})")]
    Namespaces {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// The process that sets up the lab ended before it said how it went.
    #[error("the lab's process ended while it was set up")]
    LostLab,
    /// A node could not be built.
    #[error("node {node}: {cause}")]
    Node {
        /// Its name.
        node: String,
        /// What went wrong.
        cause: sys::Error,
    },
    /// A lab needs more open files than this process may have.
    #[error("the lab needs {needed} open files, and the limit is {limit}")]
    TooManyFiles {
        /// Descriptors for namespaces and ports.
        needed: u64,
        /// The hard limit of the process.
        limit: u64,
    },
    /// A file of the lab could not be made or read.
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// The verb.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// The process that was named is not a lab.
    #[error("no lab runs as process {0}")]
    NotALab(u32),
    /// Hosts were promised the machine's own network, which needs a tool that is missing.
    #[error(
        "uplink = true needs pasta, which is not installed (Debian, Ubuntu: apt install passt)"
    )]
    NoPasta,
    /// The uplink tool did not connect the host in time, or failed.
    #[error("pasta could not connect node {node}: {why}")]
    Uplink {
        /// The node's name.
        node: String,
        /// What it said, or that it said nothing.
        why: String,
    },
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
