//! Errors of a lab's setup and run.

use std::path::PathBuf;

use base::Span;
use run::Exit;
use run::record::{Failure, FailureKind};
use rustix::io::Errno;

/// An error of a lab's setup, or of a part of its run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Kernel(#[from] sys::Error),
    #[error("cannot create the lab's namespaces on this machine ({step}: {cause})")]
    Namespaces { step: String, cause: std::io::Error },
    /// No namespaces can be created at all.
    #[error("cannot create the lab's namespaces: {why}")]
    NoNamespaces {
        /// The reason, with the kernel's error.
        why: String,
        /// A command or an action that fixes it.
        fix: &'static str,
    },
    #[error("the lab's process ended while it was set up")]
    LostLab,
    #[error("the lab's process sent no report for {0}")]
    SilentLab(base::Span),
    /// A node could not be built.
    #[error("node {node}: {cause}")]
    Node { node: String, cause: sys::Error },
    #[error("the lab needs {needed} open files, and the limit is {limit}")]
    TooManyFiles {
        /// Descriptors for namespaces and ports.
        needed: u64,
        /// The hard limit of the process.
        limit: u64,
    },
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: std::io::Error },
    #[error("node {node} runs programs, but has no network namespace")]
    NoNamespace { node: String },
    #[error("program {program} could not be started: {cause}")]
    NotStarted { program: String, cause: sys::Error },
    #[error("program {program}: `{command}` was not found")]
    NotFound { program: String, command: String },
    #[error("unknown user `{user}`{}: this machine has no such user", position(*declared))]
    UnknownUser {
        user: String,
        /// Line and column in the lab file, from 1; (0, 0): not from a lab file.
        declared: (u32, u32),
    },
    #[error("the lab asks for user `{user}`, but {why}")]
    NoUsers { user: String, why: String },
    #[error("program {program}: cannot change to user `{user}`: {cause}")]
    NoUser { program: String, user: String, cause: std::io::Error },
    #[error("`writable` in `[lab]` lists {}, which is not a folder on this host", path.display())]
    NoWritableFolder { path: PathBuf },
    #[error("node {node} cannot have private files: {cause}{}", private_help(cause))]
    PrivateFiles { node: String, cause: sys::Error },
    #[error("program {program}: `{command}` cannot be executed: {cause}")]
    NotExecutable { program: String, command: String, cause: std::io::Error },
    #[error("program {program}: cannot enter {}: {cause}", dir.display())]
    NoDirectory { program: String, dir: PathBuf, cause: std::io::Error },
    /// A program's capabilities, system calls or view of the host could not be limited.
    #[error(
        "program {program} could not be confined: {cause}; `privileged = true` in its \
         `[[program]]` starts it unconfined"
    )]
    NotConfined { program: String, cause: std::io::Error },
    #[error("program {program} was not ready ({condition}) after {waited}{}", quoted(stderr))]
    NotReady {
        program: String,
        condition: String,
        waited: Span,
        /// Its last lines on standard error.
        stderr: Vec<String>,
    },
    #[error("program {program} ended ({exit}) before it was ready ({condition}){}", quoted(stderr))]
    EndedBeforeReady {
        program: String,
        condition: String,
        exit: sys::process::Exit,
        /// Its last lines on standard error.
        stderr: Vec<String>,
    },
    #[error("no lab runs as process {0}")]
    NotALab(u32),
    #[error(
        "flow {flow}: this kernel has no congestion control `{control}`; it has {}",
        available.join(", ")
    )]
    UnknownControl { flow: String, control: String, available: Vec<String> },
    #[error(
        "flow {flow}: congestion control `{control}` needs privileges here; without them: {} \
         (net.ipv4.tcp_allowed_congestion_control)",
        allowed.join(", ")
    )]
    DeniedControl {
        flow: String,
        control: String,
        /// The controllers without this restriction.
        allowed: Vec<String>,
    },
    #[error(
        "flow {flow}: this kernel has no Multipath TCP (CONFIG_MPTCP, Linux 5.19 or newer), or it \
         is switched off (net.mptcp.enabled); `transport = \"mctcp\"` works without it"
    )]
    NoMptcp { flow: String },
    /// The lab uses a feature that only the virtual clock has.
    #[error("{what} needs the virtual clock: run this lab with `netarium sim`")]
    VirtualOnly {
        /// For example `model = "fluid"`.
        what: &'static str,
    },
    /// A flow's settings cannot be satisfied.
    #[error("flow {flow}: {why}")]
    ImpossibleFlow { flow: String, why: &'static str },
    /// A host needs an uplink, for which a tool is missing.
    #[error(
        "a connection to the machine's network needs pasta, which is not installed (Debian, \
         Ubuntu: apt install passt)"
    )]
    NoPasta,
    /// The uplink tool failed, or did not connect the host in time.
    #[error("pasta could not connect node {node}: {why}")]
    Uplink {
        node: String,
        /// The tool's output, or a note that it had none.
        why: String,
    },
    #[error("the data path could not start: {0}")]
    Datapath(std::io::Error),
    #[error("internal error: the data path panicked")]
    DatapathPanicked,
    /// The run folder could not be written.
    #[error(transparent)]
    Record(#[from] run::Error),
    #[error(transparent)]
    Fabric(fabric::Error),
    #[error(transparent)]
    Bundles(#[from] bundler_lab::Error),
    #[error("this machine could not be examined: {0}{proc}", proc = without_proc())]
    Facts(std::io::Error),
    #[error("no engine can carry packets on this machine: {}", refusals(.0))]
    NoEngine(Vec<(crate::enclosure::Engine, String)>),
    #[error("lost the control connection to the lab process: {0}")]
    Channel(std::io::Error),
    /// The lab's process could not start the lab, or ended early.
    #[error("{}", .0.text)]
    Lab(Failure),
}

impl Error {
    /// The exit code of a command that fails with this error.
    pub fn exit_code(&self) -> Exit {
        self.kind().exit_code()
    }

    /// The failure of a run that ends with this error.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Record(error) => error.failure(),
            _ => Failure { kind: self.kind(), text: self.to_string() },
        }
    }

    fn kind(&self) -> FailureKind {
        match self {
            Self::Lab(failure) => failure.kind,
            Self::Record(error) => error.kind(),
            Self::Kernel(cause) | Self::Node { cause, .. } => kind_of(cause),
            Self::PrivateFiles { cause, .. } if is_missing(cause) => FailureKind::Lab,
            Self::Namespaces { cause, .. }
            | Self::File { cause, .. }
            | Self::Datapath(cause)
            | Self::Facts(cause)
            | Self::Channel(cause) => FailureKind::of(cause),
            Self::NotStarted { cause, .. } => match kind_of(cause) {
                FailureKind::Machine => FailureKind::Program,
                kind => kind,
            },
            Self::NotFound { .. }
            | Self::NotExecutable { .. }
            | Self::NoDirectory { .. }
            | Self::NotConfined { .. }
            | Self::NoUser { .. }
            | Self::NotReady { .. }
            | Self::EndedBeforeReady { .. } => FailureKind::Program,
            Self::VirtualOnly { .. }
            | Self::ImpossibleFlow { .. }
            | Self::UnknownUser { .. }
            | Self::NoWritableFolder { .. }
            | Self::Fabric(_)
            | Self::Bundles(_)
            | Self::NoNamespace { .. } => FailureKind::Lab,
            Self::DatapathPanicked | Self::LostLab | Self::SilentLab(_) => FailureKind::Internal,
            _ => FailureKind::Machine,
        }
    }
}

/// The remedy if `/proc`, which shows namespaces and processes, is not mounted.
fn without_proc() -> &'static str {
    let is_mounted = std::path::Path::new("/proc/self").exists();
    if is_mounted { "" } else { " (/proc is not mounted: mount -t proc proc /proc)" }
}

/// Whether a folder is missing, or not a folder.
fn is_missing(cause: &sys::Error) -> bool {
    let errno = cause.errno().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR))
}

/// The remedy for a failed view of private files.
fn private_help(cause: &sys::Error) -> &'static str {
    if is_missing(cause) {
        return "; create the folder, or make all files private with `files = \"private\"`";
    }
    match cause.errno().map(Errno::from_raw_os_error) {
        Some(Errno::INVAL) => "; overlayfs does not support the file system of this folder",
        _ => "; `netarium doctor` shows whether this machine supports overlayfs in labs",
    }
}

fn position(declared: (u32, u32)) -> String {
    match declared {
        (0, _) => String::new(),
        (line, column) => format!(" (line {line}, column {column} of the lab file)"),
    }
}

fn kind_of(cause: &sys::Error) -> FailureKind {
    cause.errno().map_or(FailureKind::Machine, |errno| {
        FailureKind::of(&std::io::Error::from_raw_os_error(errno))
    })
}

fn refusals(refused: &[(crate::enclosure::Engine, String)]) -> String {
    let texts: Vec<String> =
        refused.iter().map(|(engine, why)| format!("{} ({why})", engine.as_str())).collect();
    texts.join("; ")
}

pub type Result<T> = std::result::Result<T, Error>;

/// The cause of a program's error `EROFS`, with the fix.
pub(crate) const READ_ONLY_HELP: &str = "most files are read-only in a lab: let the program write \
     to its run folder (`$NETARIUM_RUN_DIR`) or /tmp, or name its folder in `writable` of `[lab]`";

/// Whether a program has reported `EROFS`.
pub(crate) fn is_read_only(stderr: &[String]) -> bool {
    stderr.iter().any(|line| line.contains("Read-only file system"))
}

/// The last line of a program's output, as the end of a message.
fn quoted(stderr: &[String]) -> String {
    let line = stderr.last().map_or_else(String::new, |line| format!("; last output: {line}"));
    if is_read_only(stderr) { format!("{line}; {READ_ONLY_HELP}") } else { line }
}
