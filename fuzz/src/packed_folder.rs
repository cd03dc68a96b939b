//! Any bytes as a packed folder from another machine: unpacking writes inside of the folder or
//! fails, and after a failure no files remain. Half of the inputs are compressed first.
#![allow(dead_code, reason = "the module can pack, too")]

use std::io::Cursor;
use std::path::PathBuf;

// Only this module: with the message bus, the build for a search takes minutes longer.
#[path = "../../crates/cluster/live/src/results.rs"]
mod results;

/// The parts of the crate that the module uses.
#[derive(Debug, thiserror::Error)]
#[error("the folder cannot be unpacked")]
pub(crate) struct Error;

impl Error {
    fn file(_: &'static str, _: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        |_| Self
    }
}

type Result<T> = std::result::Result<T, Error>;

/// Max bytes of unpacked files.
const LIMIT: u64 = 1 << 16;

pub(crate) fn target(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let bytes = if kind & 1 == 0 {
        rest.to_vec()
    } else {
        let packed = [b"netarium pack 1\n", rest].concat();
        zstd::encode_all(&*packed, 1).expect("compression")
    };
    let dir = tempfile::tempdir().expect("a folder");
    let into = dir.path().join("into");
    let done = results::unpack(Cursor::new(bytes), &into, LIMIT);
    let entries: Vec<_> = dir.path().read_dir().expect("the folder").flatten().collect();
    assert_eq!(entries.len(), usize::from(done.is_ok()));
    assert!(entries.iter().all(|entry| entry.path() == into));
}
