//! Errors that prevent a run on the virtual clock or end it early.

use base::Bytes;
use run::Exit;

/// An error that prevents a run on the virtual clock or ends it early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "program `{program}` is a real program, which needs the wall clock: use `netarium run`"
    )]
    Programs {
        /// The first program's name.
        program: String,
    },
    /// The lab uses a feature that only the wall clock has.
    #[error("{what} need the wall clock: use `netarium run`")]
    WallClockOnly { what: &'static str },
    /// A flow specifies an unknown congestion controller.
    #[error("flow `{flow}`: {cause}")]
    UnknownControl {
        flow: String,
        /// The name, and the known ones.
        cause: transport::Error,
    },
    /// A flow whose two ends have no route between them.
    #[error("flow `{flow}` has no route from `{from}` to `{to}`")]
    NoRoute { flow: String, from: String, to: String },
    /// The flow's settings cannot be satisfied.
    #[error("flow `{flow}`: {why}")]
    ImpossibleFlow { flow: String, why: String },
    /// Rate-controlled sessions cannot run on the lab's network.
    #[error("rate-controlled sessions cannot run in this lab: {why}")]
    Sessions { why: String },
    /// The rate control protocol rejects the lab's settings.
    #[error("rate control: {0}")]
    RateControl(#[from] ratecontrol::Error),
    #[error(transparent)]
    Bundles(#[from] bundler_lab::Error),
    #[error(transparent)]
    Fabric(#[from] fabric::Error),
    /// The run exceeded its event limit.
    #[error(
        "the run reached its limit of {limit} events at {at}; raise it with `[lab] limits` or \
         `--max-events`"
    )]
    EventLimit {
        limit: u64,
        /// The virtual time reached.
        at: base::Time,
    },
    /// Packets cross the network endlessly at one time.
    #[error(
        "packets cross the network endlessly at {at}, because their path has no rate and no \
         delay: give one of its links a `rate` or a `delay`"
    )]
    Standstill {
        /// The virtual time at which the clock stands still.
        at: base::Time,
    },
    /// The run exceeded its memory limit.
    #[error(
        "the run reached its limit of {limit} of memory at {at} (it needs {needed}); raise it with \
         `[lab] limits` or `--max-memory`"
    )]
    MemoryLimit {
        limit: Bytes,
        /// Memory of packets, flows and pending events.
        needed: Bytes,
        /// The virtual time reached.
        at: base::Time,
    },
    /// The recording in a run folder belongs to another run.
    #[error("the recording does not belong to this run: {what}")]
    ForeignRecording {
        /// The property that differs.
        what: &'static str,
    },
    /// This version cannot read the recorded lab.
    #[error("the lab of the recording cannot be read: {why}")]
    RecordedLab {
        /// All errors in the lab.
        why: String,
    },
    /// Another sweep uses the same folder.
    #[error(
        "another sweep uses {path}: wait until it ends, or use another folder",
        path = path.display()
    )]
    Busy { path: std::path::PathBuf },
    #[error(transparent)]
    Record(#[from] run::Error),
    /// A table of finished runs cannot be written or read.
    #[error("cannot {verb} {path}: {cause}", path = path.display())]
    Io { verb: &'static str, path: std::path::PathBuf, cause: std::io::Error },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The process exit code: 2 for a lab that cannot run on the virtual clock or within its
    /// limits, 4 for an error of the host.
    pub const fn exit_code(&self) -> Exit {
        match self {
            Self::Record(_) | Self::Io { .. } => Exit::Machine,
            _ => Exit::Usage,
        }
    }
}
