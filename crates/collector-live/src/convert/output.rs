//! A result that is there as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;

use crate::{Error, Result};

/// The name that stands for standard output.
const STANDARD: &str = "-";

enum Packing {
    None(File),
    Gzip(GzEncoder<File>),
    Bzip2(BzEncoder<File>),
    Zstd(zstd::Encoder<'static, File>),
}

impl Packing {
    fn of(path: &Path, file: File) -> io::Result<Self> {
        Ok(match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("gz") => Self::Gzip(GzEncoder::new(file, flate2::Compression::new(6))),
            Some("bz2") => Self::Bzip2(BzEncoder::new(file, bzip2::Compression::best())),
            Some("zst") => Self::Zstd(zstd::Encoder::new(file, 3)?),
            _ => Self::None(file),
        })
    }

    fn finish(self) -> io::Result<File> {
        match self {
            Self::None(file) => Ok(file),
            Self::Gzip(packer) => packer.finish(),
            Self::Bzip2(packer) => packer.finish(),
            Self::Zstd(packer) => packer.finish(),
        }
    }
}

/// A file that has no name yet; it goes if it never gets one.
struct Nameless(PathBuf);

impl Drop for Nameless {
    fn drop(&mut self) {
        // Where it got its name, or never was, there is nothing.
        let _ = fs::remove_file(&self.0);
    }
}

/// Where a result goes.
pub(super) struct Output {
    path: PathBuf,
    nameless: Option<Nameless>,
    packing: Packing,
    written: u64,
    /// The reader of a pipe has left: it has what it wanted.
    gone: bool,
}

impl Output {
    /// To `path`, compressed as its suffix says; what is no regular file is written as it is.
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
        let packing = file.and_then(|file| Packing::of(path, file)).map_err(refused)?;
        Ok(Self { path: path.to_owned(), nameless, packing, written: 0, gone: false })
    }

    /// Writes some of it. False if nobody wants any more.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        let written = match &mut self.packing {
            Packing::None(file) => file.write_all(bytes),
            Packing::Gzip(packer) => packer.write_all(bytes),
            Packing::Bzip2(packer) => packer.write_all(bytes),
            Packing::Zstd(packer) => packer.write_all(bytes),
        };
        match written {
            Ok(()) => self.written += bytes.len() as u64,
            Err(e) if e.kind() == ErrorKind::BrokenPipe => self.gone = true,
            Err(e) => return Err(Error::file("write", &self.path, e)),
        }
        Ok(!self.gone)
    }

    /// Completes it and gives it its name. Answers how much was written, before compression.
    pub(super) fn finish(self) -> Result<u64> {
        let Self { path, nameless, packing, written, gone } = self;
        let failed = |e| Error::file("write", &path, e);
        match packing.finish() {
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
