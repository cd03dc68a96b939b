//! A file of routes that is being written.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Time;

use super::finish::{Sealed, Shared, lock, partial_path, remove};
use super::layout::Kind;
use super::scan::{self, Extent};
use super::store::Store;
use crate::{Error, Result};

/// A file of routes that is being written by any thread, beside the updates. It appears when it is
/// complete; otherwise it is removed.
pub struct Snapshot {
    shared: Arc<Shared>,
    name: String,
    path: PathBuf,
    file: BufWriter<File>,
    extent: Extent,
    mirrors: Vec<u32>,
    complete: bool,
}

impl Snapshot {
    pub(super) fn create(store: &Store, time: Time, mirrors: Vec<u32>) -> Result<Self> {
        let shared = Arc::clone(&store.shared);
        let name = store.free_name(Kind::Routes, time);
        let path = partial_path(&shared.folder, &name);
        let create = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            File::create_new(&path)
        };
        let file = create().map_err(|e| Error::file("create", &path, e))?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { shared, name, path, file, extent: Extent::default(), mirrors, complete: false })
    }

    pub fn append(&mut self, records: &[u8]) -> Result<()> {
        self.extent.append(scan::whole(records));
        self.file.write_all(records).map_err(|e| Error::file("write", &self.path, e))
    }

    /// Completes the file. Another thread syncs it.
    pub fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|e| Error::file("write", &self.path, e))?;
        self.complete = true;
        let name = std::mem::take(&mut self.name);
        let mirrors = std::mem::take(&mut self.mirrors);
        let sealed = Sealed { name, kind: Kind::Routes, extent: self.extent, mirrors };
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        lock(&self.shared.routes).push(sealed);
        Ok(())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.complete {
            // The next collector removes it otherwise.
            let _ = remove(&self.path);
        }
    }
}
