//! An output file that is complete or absent.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::archive::{Compression, Compressor};
use crate::{Error, Result};

const STANDARD: &str = "-";

fn compression(path: &Path) -> Compression {
    match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("gz") => Compression::Gzip(6),
        Some("bz2") => Compression::Bzip2,
        Some("zst") => Compression::Zstd(3),
        _ => Compression::None,
    }
}

/// A file without a name, removed unless it is named.
struct Nameless(PathBuf);

impl Drop for Nameless {
    fn drop(&mut self) {
        // It has its name, or never existed.
        let _ = fs::remove_file(&self.0);
    }
}

pub(super) struct Output {
    path: PathBuf,
    nameless: Option<Nameless>,
    compressor: Compressor<File>,
    written: u64,
    /// The reader of a pipe has closed it.
    gone: bool,
}

impl Output {
    /// Output to `path`, compressed as its suffix states; a path other than a regular file
    /// is not compressed.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let refused = |e| Error::file("create", path, e);
        let exists = fs::metadata(path);
        let mut nameless = None;
        let file = if path == Path::new(STANDARD) {
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else if exists.as_ref().is_ok_and(fs::Metadata::is_dir) {
            Err(ErrorKind::IsADirectory.into())
        } else if exists.is_ok_and(|data| !data.is_file()) {
            File::options().write(true).open(path)
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let part = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
            let file = File::create_new(&part);
            nameless = file.is_ok().then_some(Nameless(part));
            file
        };
        let compressor = file.and_then(|file| Compressor::new(compression(path), file));
        let compressor = compressor.map_err(refused)?;
        Ok(Self { path: path.to_owned(), nameless, compressor, written: 0, gone: false })
    }

    /// Writes a part. Returns false if the reader has closed.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        match self.compressor.writer().write_all(bytes) {
            Ok(()) => self.written += bytes.len() as u64,
            Err(e) if e.kind() == ErrorKind::BrokenPipe => self.gone = true,
            Err(e) => return Err(Error::file("write", &self.path, e)),
        }
        Ok(!self.gone)
    }

    /// Completes and names the file. Returns its length before compression.
    pub(super) fn finish(self) -> Result<u64> {
        let Self { path, nameless, compressor, written, gone } = self;
        let failed = |e| Error::file("write", &path, e);
        match compressor.finish() {
            Err(_) if gone => return Ok(written),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(written),
            Err(e) => return Err(failed(e)),
            Ok(file) if nameless.is_some() => file.sync_all().map_err(failed)?,
            Ok(_) => {}
        }
        if let Some(part) = nameless {
            fs::rename(&part.0, &path).map_err(failed)?;
        }
        Ok(written)
    }
}
