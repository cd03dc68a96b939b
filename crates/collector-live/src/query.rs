//! Questions to archives: ours, and those that public route collectors offer for download.
//!
//! What is asked is answered from the archive's MRT files, also those that a collector is still
//! writing, and from what ours keeps beside them: [`crate::archive::GAPS`] and the account of
//! integrity. Where these are missing, the answer says what nobody can know.

mod census;
mod files;
mod gaps;
mod interest;
mod moment;
mod peers;
mod routes;
mod table;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use crate::Result;

pub(crate) use files::{Shelf, State, shelves};
pub use gaps::{Gaps, gaps};
pub use moment::{moment, moment_text};
pub use peers::{Peers, peers};
pub use routes::{Question, Routes, routes};
pub(crate) use table::hex;

/// Archives that were found: one for each collector.
#[derive(Debug)]
pub struct Archives {
    shelves: Vec<Shelf>,
}

impl Archives {
    /// Looks what there is in folders, and takes files as they are.
    ///
    /// # Errors
    /// If a path cannot be read, or there is no archive file at it.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let shelves = shelves(paths)?;
        for shelf in &shelves {
            if shelf.files.is_empty() {
                let cause = "there are no archive files here".to_owned();
                return Err(crate::Error::Content { path: shelf.folder.clone(), cause });
            }
        }
        Ok(Self { shelves })
    }
}
