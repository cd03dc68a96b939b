//! What a run shows for itself: a self-contained HTML page, a table for the terminal, and the
//! difference between two runs. Reads run folders only; nothing here touches a network.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use record::{RunFolder, RunRecord};

mod bundle;
mod cluster;
mod control;
mod diff;
mod document;
mod figure;
pub mod format;
mod multipath;
mod page;
mod plot;
mod series;
mod terminal;
mod topology;

pub use diff::{Change, Diff};
pub use document::Document;
pub use figure::{Axis, Figure, Line, Scale, Style};

/// What can go wrong with a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run folder cannot be read, or the report not be written.
    #[error(transparent)]
    Record(#[from] record::Error),
}

/// Writes `report.html` into the run's folder and says where it is.
pub fn write_html(folder: &RunFolder) -> Result<PathBuf, Error> {
    let record = folder.read_record()?;
    let samples = series::Samples::read(folder)?;
    let lab = folder.read_start(RunFolder::RESOLVED_LAB, page::LAB_LIMIT)?;
    let lab = lab.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let html = page::render(&record, &samples, lab.as_deref());
    Ok(folder.write("report.html", html.as_bytes())?)
}

/// The summary of a run for a terminal: flows, links, programs, expectations, verdict.
pub fn table(record: &RunRecord) -> String {
    terminal::render(record)
}

/// The runs of a sweep side by side for a terminal: a row each.
pub fn sweep_table(records: &[RunRecord]) -> String {
    terminal::render_sweep(records)
}

/// One of several labs that ran at once.
#[derive(Clone, Debug)]
pub struct LabRow {
    /// What tells it from the others.
    pub name: String,
    /// Its record; `None` where it never began.
    pub record: Option<RunRecord>,
    /// How it ended, in a word or two.
    pub ended: String,
}

/// Labs that ran at once side by side for a terminal: a row each, and why some are not trusted.
pub fn labs_table(labs: &[LabRow]) -> String {
    terminal::render_labs(labs)
}

/// What changed from run `a` to run `b`, as numbers.
pub fn diff(a: &RunRecord, b: &RunRecord) -> Diff {
    diff::compare(a, b)
}
