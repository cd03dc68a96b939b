//! Options and status of an archive.

use std::time::Duration;

use base::Span;

use super::compress::Compression;
use super::layout::Layout;

/// Interval at which the kernel is asked to sync to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    AtRotation,
    Every(Span),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Folder of this collector within the archive; may be empty.
    pub collector: String,
    pub layout: Layout,
    /// Duration of one file: whole seconds, counted from midnight UTC 1970.
    pub interval: Span,
    pub compression: Compression,
    pub sync: Sync,
    /// Maximum number of complete plain files waiting for compression before the collector waits.
    pub backlog: usize,
    /// Maximum bytes of records held while the disk accepts no writes.
    pub hold: usize,
}

impl Default for Options {
    /// As RIPE RIS: five minutes, gzip.
    fn default() -> Self {
        Self {
            collector: String::new(),
            layout: Layout::Ris,
            interval: Span::from_secs(300),
            compression: Compression::Gzip(6),
            sync: Sync::Every(Span::from_secs(1)),
            backlog: 64,
            hold: 16 << 20,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub records: u64,
    pub content: u64,
    pub files: u64,
    pub bytes: u64,
    pub waiting: u64,
    /// Number of times that the collector waited for compression.
    pub waits: u64,
    pub waited: Duration,
    pub lost: u64,
    /// Current error of the disk, or of a file that cannot be finished.
    pub trouble: Option<String>,
}
