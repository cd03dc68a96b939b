//! What can go wrong while a lab is put on the machine.

use std::path::PathBuf;

use base::Span;
use record::run::{Failure, FailureKind};

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
        step: String,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// No namespaces can be made at all; why not.
    #[error("this machine does not let us make namespaces, without which no program runs ({0})")]
    NoNamespaces(String),
    /// The process that sets up the lab ended before it said how it went.
    #[error("the lab's process ended while it was set up")]
    LostLab,
    /// The lab's process says nothing any more.
    #[error("the lab's process has said nothing for {0}")]
    SilentLab(base::Span),
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
    /// A program's node has no namespace of its own.
    #[error("node {node} runs programs, but has no network namespace")]
    NoNamespace {
        /// The node's name.
        node: String,
    },
    /// A program could not be started by the kernel.
    #[error("program {program} could not be started: {cause}")]
    NotStarted {
        /// Its name.
        program: String,
        /// The kernel's answer.
        cause: sys::Error,
    },
    /// There is no such command.
    #[error("program {program}: `{command}` was not found")]
    NotFound {
        /// Its name.
        program: String,
        /// What was to be executed.
        command: String,
    },
    /// The command cannot be executed.
    #[error("program {program}: `{command}` cannot be executed: {cause}")]
    NotExecutable {
        /// Its name.
        program: String,
        /// What was to be executed.
        command: String,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// A program's working directory cannot be entered.
    #[error("program {program}: cannot enter {}: {cause}", dir.display())]
    NoDirectory {
        /// Its name.
        program: String,
        /// The directory.
        dir: PathBuf,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// A program's capabilities, system calls or view of the machine could not be limited.
    #[error(
        "program {program} could not be confined: {cause}; `privileged = true` in its \
         `[[program]]` starts it without"
    )]
    NotConfined {
        /// Its name.
        program: String,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// A program did not become ready.
    #[error("program {program} was not ready ({condition}) after {waited}{}", quoted(stderr))]
    NotReady {
        /// Its name.
        program: String,
        /// What was waited for.
        condition: String,
        /// How long.
        waited: Span,
        /// Its last lines on standard error.
        stderr: Vec<String>,
    },
    /// A program ended before it was ready.
    #[error("program {program} ended ({exit}) before it was ready ({condition}){}", quoted(stderr))]
    EndedBeforeReady {
        /// Its name.
        program: String,
        /// What was waited for.
        condition: String,
        /// How it ended.
        exit: sys::process::Exit,
        /// Its last lines on standard error.
        stderr: Vec<String>,
    },
    /// The process that was named is not a lab.
    #[error("no lab runs as process {0}")]
    NotALab(u32),
    /// A flow's congestion control is not in this kernel.
    #[error(
        "flow {flow}: this kernel has no congestion control `{control}`; it has {}",
        available.join(", ")
    )]
    UnknownControl {
        /// The flow's name.
        flow: String,
        /// What it asks for.
        control: String,
        /// What there is.
        available: Vec<String>,
    },
    /// A flow's congestion control is reserved for privileged users.
    #[error(
        "flow {flow}: congestion control `{control}` needs privileges here; without them: {} \
         (net.ipv4.tcp_allowed_congestion_control)",
        allowed.join(", ")
    )]
    DeniedControl {
        /// The flow's name.
        flow: String,
        /// What it asks for.
        control: String,
        /// What anybody may use.
        allowed: Vec<String>,
    },
    /// The kernel has no Multipath TCP.
    #[error(
        "flow {flow}: this kernel has no Multipath TCP (CONFIG_MPTCP, Linux 5.19 or newer), or it \
         is switched off (net.mptcp.enabled); `transport = \"mctcp\"` needs nothing of the kernel"
    )]
    NoMptcp {
        /// The flow's name.
        flow: String,
    },
    /// The lab asks for what only the virtual clock has.
    #[error("{what} needs the virtual clock: run this lab with `netarium sim`")]
    VirtualOnly {
        /// Such as `model = "fluid"`.
        what: &'static str,
    },
    /// A flow cannot be what its description says.
    #[error("flow {flow}: {why}")]
    ImpossibleFlow {
        /// Its name.
        flow: String,
        /// What is impossible about it.
        why: &'static str,
    },
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
    /// The data path could not start.
    #[error("the data path could not start: {0}")]
    Datapath(std::io::Error),
    /// The data path's thread panicked.
    #[error("internal error: the data path panicked")]
    DatapathPanicked,
    /// The run folder could not be written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// The fabric refused the plan.
    #[error(transparent)]
    Fabric(fabric::Error),
    /// Bundles can't be as the lab has them.
    #[error(transparent)]
    Bundles(#[from] middlebox::Error),
    /// The machine's facts could not be collected.
    #[error("this machine could not be examined: {0}")]
    Facts(std::io::Error),
    /// No engine can move packets here.
    #[error("no engine can carry packets on this machine: {}", refusals(.0))]
    NoEngine(Vec<(crate::enclosure::Engine, String)>),
    /// The command and the lab's process lost each other.
    #[error("the way between the command and its lab failed: {0}")]
    Channel(std::io::Error),
    /// The lab's process could not start the lab, or ended early.
    #[error("{}", .0.text)]
    Lab(Failure),
}

impl Error {
    /// The exit code of a command that fails with this.
    pub fn exit_code(&self) -> u8 {
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
            | Self::NotReady { .. }
            | Self::EndedBeforeReady { .. } => FailureKind::Program,
            Self::VirtualOnly { .. }
            | Self::ImpossibleFlow { .. }
            | Self::Fabric(_)
            | Self::Bundles(_)
            | Self::NoNamespace { .. } => FailureKind::Lab,
            Self::DatapathPanicked | Self::LostLab | Self::SilentLab(_) => FailureKind::Internal,
            _ => FailureKind::Machine,
        }
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

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// The last line that a program wrote, to stand behind a message.
fn quoted(stderr: &[String]) -> String {
    stderr.last().map_or_else(String::new, |line| format!("; it said: {line}"))
}
