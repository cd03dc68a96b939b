//! Reports of runs: a self-contained HTML page, tables for the terminal, summaries of several runs,
//! the difference of two, and tables for other programs. Only reads run folders.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

use std::path::PathBuf;

use run::{RunFolder, RunRecord};

mod annotations;
mod axes;
mod bundle;
mod cluster;
mod columns;
mod control;
pub mod diff;
mod document;
mod error;
mod export;
mod figure;
pub mod format;
mod junit;
mod layout;
mod link;
mod markdown;
mod multipath;
mod page;
mod plot;
mod series;
pub mod summary;
mod terminal;
mod topology;

pub use annotations::{LabSource, Severity, annotation, annotations};
pub use axes::{Axis, Scale};
pub use columns::{columns, columns_within};
pub use document::Document;
pub use error::Error;
pub use export::{ExportError, Format, export};
pub use figure::{Figure, Line, Style};
pub use junit::junit;
pub use layout::{Layout, hanging, shorten, wrap};
pub use markdown::markdown;
pub use terminal::LabRow;

/// Writes `report.html` into the run's folder and returns its path.
pub fn write_html(folder: &RunFolder) -> Result<PathBuf, Error> {
    let record = folder.read_record()?;
    let samples = series::Samples::read(folder)?;
    let lab = folder.read_start(RunFolder::RESOLVED_LAB, page::MAX_LAB_BYTES)?;
    let lab = lab.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let html = page::render(&record, &samples, lab.as_deref());
    Ok(folder.write("report.html", html.as_bytes())?)
}

/// The summary of a run for a terminal: outcome, failures, flows, links, programs, expectations.
pub fn table(record: &RunRecord, layout: &Layout) -> String {
    terminal::render(record, layout)
}

/// The summary of a run with one link and a command of the user, for a terminal.
pub fn link_table(record: &RunRecord, layout: &Layout) -> String {
    link::render(record, layout)
}

/// The table of a sweep for a terminal: one row per run.
pub fn sweep_table(records: &[RunRecord], layout: &Layout) -> String {
    terminal::render_sweep(records, layout)
}

/// The table of parallel labs for a terminal: one row per lab, and reasons for failures below.
pub fn labs_table(labs: &[LabRow], layout: &Layout) -> String {
    terminal::render_labs(labs, layout)
}
