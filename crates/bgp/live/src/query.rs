//! Queries of archives: those of this collector, and those of public route collectors.
//!
//! Answers come from the MRT files of the archive, including files that a collector is still
//! writing, and from the lists beside them: [`crate::archive::GAPS`] and the integrity account.
//! Without these lists, the answer states what is unknown.

mod census;
mod files;
mod gaps;
mod interest;
mod moment;
mod peers;
mod routes;
mod table;
mod updates;

#[cfg(test)]
mod tests;

pub use files::Archives;
pub(crate) use files::{ArchiveFolder, State, shelves};
pub use gaps::{Gaps, gaps};
pub use moment::{moment, moment_text};
pub use peers::{Peers, peers};
pub use routes::{Question, Routes, routes};
pub(crate) use table::{columns, hex};
pub use updates::{Update, UpdateFilter, UpdateKind, UpdateText, updates};
