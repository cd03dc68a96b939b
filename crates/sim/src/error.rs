//! Why a plan can't run on the virtual clock, or a run ended early.

use base::Bytes;

/// Why a plan can't run on the virtual clock, or a run ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lab has real programs.
    #[error(
        "program `{program}` is a real program, and those need the wall clock: use `netarium run`"
    )]
    Programs {
        /// The first one's name.
        program: String,
    },
    /// The lab wants what only the wall clock has.
    #[error("{what} need the wall clock: use `netarium run`")]
    WallClockOnly {
        /// What it wants.
        what: &'static str,
    },
    /// A flow asks for a congestion control that is not there.
    #[error("flow `{flow}`: {cause}")]
    UnknownControl {
        /// The flow's name.
        flow: String,
        /// The name, and those that would do.
        cause: transport::Error,
    },
    /// Nothing leads from one end of a flow to the other.
    #[error("flow `{flow}` has no route from `{from}` to `{to}`")]
    NoRoute {
        /// The flow's name.
        flow: String,
        /// Its first end.
        from: String,
        /// Its second end.
        to: String,
    },
    /// A flow can't be what it asks to be.
    #[error("flow `{flow}`: {why}")]
    ImpossibleFlow {
        /// The flow's name.
        flow: String,
        /// What stands in the way.
        why: String,
    },
    /// Rate-controlled sessions can't run over the lab's network.
    #[error("rate-controlled sessions can't run here: {why}")]
    Sessions {
        /// What stands in the way.
        why: String,
    },
    /// The rate control protocol refuses what the lab gives it.
    #[error("rate control: {0}")]
    RateControl(#[from] ratecontrol::Error),
    /// Bundles can't be as the lab has them.
    #[error(transparent)]
    Bundles(#[from] middlebox::Error),
    /// The network can't be built.
    #[error(transparent)]
    Fabric(#[from] fabric::Error),
    /// The run needed more events than it may.
    #[error(
        "the run reached its limit of {limit} events at {at}; raise it with `[lab] limits` or \
         `--max-events`"
    )]
    EventLimit {
        /// The limit.
        limit: u64,
        /// How far the run came.
        at: base::Time,
    },
    /// The run needed more memory than it may.
    #[error(
        "the run reached its limit of {limit} of memory at {at} (it needs {needed}); raise it with \
         `[lab] limits` or `--max-memory`"
    )]
    MemoryLimit {
        /// The limit.
        limit: Bytes,
        /// What packets, flows and pending events take.
        needed: Bytes,
        /// How far the run came.
        at: base::Time,
    },
    /// The recording in a run folder belongs to another run.
    #[error("the recording does not belong to this run: {what}")]
    ForeignRecording {
        /// What tells them apart.
        what: &'static str,
    },
    /// The lab in a recording is not one that this version reads.
    #[error("the lab of the recording cannot be read: {why}")]
    RecordedLab {
        /// All that is wrong with it.
        why: String,
    },
    /// Another sweep works in the same folder.
    #[error(
        "another sweep is at work in {path}: wait for its end, or take another folder",
        path = path.display()
    )]
    Busy {
        /// The folder.
        path: std::path::PathBuf,
    },
    /// Results can't be written.
    #[error(transparent)]
    Record(#[from] record::Error),
    /// A table of finished runs can't be written or read.
    #[error("cannot {verb} {path}: {cause}", path = path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With which file.
        path: std::path::PathBuf,
        /// What came of it.
        cause: std::io::Error,
    },
}

/// The result of what can fail here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The process exit code that goes with it: 2 for a lab that can't run on the virtual clock
    /// or within its limits, 4 where the machine is in the way.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Record(_) | Self::Io { .. } => 4,
            _ => 2,
        }
    }
}
