//! The live view of a run: messages to watchers, and the aggregation of samples into frames.
//!
//! A watcher receives one [`Hello`], then [`Frame`]s, then one [`End`]. Running labs, finished runs
//! and simulations pass their samples and changes to a [`FrameBuilder`], which makes the frames.
//! The messages are JSON objects with a `type`; numbers are in SI units: seconds, bits per second,
//! bytes, fractions.

mod builder;
mod finished;
mod frame;
mod hello;
mod request;
mod system;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use builder::{FrameBuilder, MIN_FRAME_SPAN, Tap, live_span};
pub use finished::{FinishedRun, MAX_FRAMES, renumber};
pub use frame::{
    DirectionRow, EventLine, FlowRow, Frame, LinkChange, LinkRow, LogLine, MachineState,
    ProgramRow, ProgramState, SeriesRow, SystemState,
};
pub use hello::{
    Hello, HelloFlow, HelloLink, HelloNode, HelloProgram, LinkValues, Source, link_numbers,
};
pub use request::{
    ClockChange, MAX_REQUEST_BYTES, Request, TerminalRequest, parse_request, parse_terminal_request,
};
pub use system::{HelloPlot, HelloSystem, Unit};

use crate::record::Status;
use crate::{Error, RunFolder, RunRecord};

/// The value of [`Hello::schema`].
pub const SCHEMA: &str = "netarium.watch/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Message {
    Hello(Box<Hello>),
    Frame(Box<Frame>),
    End(End),
    Answer(Answer),
    Clock(ClockState),
}

/// The pace of a run on the virtual clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockState {
    /// Lab time in seconds.
    pub now: f64,
    pub is_paused: bool,
    /// Virtual time in thousandths of real time; `None` if as fast as possible.
    pub permille: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Lab time in seconds.
    pub t: f64,
    /// `passed`, `failed`, `untrusted` or `interrupted`.
    pub outcome: String,
    pub reasons: Vec<String>,
    pub exit_code: u8,
    /// The report, if it has been written.
    pub report: Option<String>,
}

impl End {
    /// The end of the run in this folder, for watchers of a lab that did not send an end.
    ///
    /// # Errors
    /// If the folder cannot be read, or has no result.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let folder = RunFolder::open(folder)?;
        let end = Self::of(&folder.read_record()?);
        end.ok_or_else(|| Error::Running { path: folder.path().to_owned() })
    }

    /// The end of a run with this record; `None` while it is running.
    pub fn of(record: &RunRecord) -> Option<Self> {
        let conclusion = record.conclusion()?;
        let outcome = match record.status {
            Status::Interrupted => "interrupted",
            _ => conclusion.outcome.as_str(),
        };
        Some(Self {
            t: record.elapsed_s,
            outcome: outcome.to_owned(),
            reasons: conclusion.reasons,
            exit_code: conclusion.exit_code.code(),
            report: None,
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    pub id: u64,
    pub ok: bool,
    /// Lab time at which the request takes effect.
    pub at: f64,
    pub events: Vec<String>,
    pub warnings: Vec<String>,
    pub errors: Vec<Problem>,
    /// The change as `[[at]]` events for the end of the lab file.
    pub at_events: String,
}

impl Answer {
    /// The answer to a request that was refused for this reason.
    pub fn refused(why: impl Into<String>) -> Self {
        let errors = vec![Problem { message: why.into(), help: None }];
        Self { errors, ..Self::default() }
    }
}

/// An error in a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    pub message: String,
    pub help: Option<String>,
}
