//! Files referenced by a lab: traces, tables of delays, topologies, programs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;
use std::sync::Arc;

use base::Span;
use fabric::Trace;
use rustix::fs::OFlags;
use transport::tcp::control::Control;
use workload::{DatagramTrace, SizeTable};

use crate::code::Code;
use crate::diagnostic::Sink;
use crate::trace::{TraceError, parse_datagrams, parse_delays, parse_sizes, parse_trace};
use crate::tree::At;

/// Part of the help for errors in files outside the lab's folder.
pub(crate) const TEXT_NOT_SHOWN: &str =
    "the file is outside the folder of the lab, so its text is not shown";

/// Maximum file size.
pub(crate) const MAX_FILE_BYTES: u64 = 64 << 20;

/// Reads each file once, even if it is referenced several times.
#[derive(Debug)]
pub(crate) struct Files {
    base: PathBuf,
    /// Search path for programs; `None`: programs are not looked up.
    pub(crate) path: Option<OsString>,
    traces: BTreeMap<PathBuf, Option<Arc<Trace>>>,
    delays: BTreeMap<PathBuf, Option<Arc<Vec<Span>>>>,
    sizes: BTreeMap<PathBuf, Option<Arc<SizeTable>>>,
    datagrams: BTreeMap<PathBuf, Option<Arc<DatagramTrace>>>,
    congestion_controls: Option<Arc<[String]>>,
    /// The text of `/etc/passwd`.
    users: Option<String>,
}

/// TCP congestion controllers of Linux 6.x, by their names in `net/ipv4`.
const LINUX_CONGESTION_CONTROLS: &[&str] = &[
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "dctcp-reno",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// Controllers that this system's kernel has loaded, including those from
/// outside the kernel source.
const LOADED_CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

impl Files {
    pub(crate) fn new(base: &Path, path: Option<OsString>) -> Self {
        let base = base.to_owned();
        Self {
            base,
            path,
            traces: BTreeMap::new(),
            delays: BTreeMap::new(),
            sizes: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            congestion_controls: None,
            users: None,
        }
    }

    /// Whether `/etc/passwd` has this user; true if the programs run on another machine.
    pub(crate) fn may_have_user(&mut self, name: &str) -> bool {
        if self.path.is_none() {
            return true;
        }
        let read = || std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let users = self.users.get_or_insert_with(read);
        users.lines().any(|line| line.split(':').next() == Some(name))
    }

    /// Names of TCP congestion controllers of simulations, of Linux, and of
    /// this system's kernel, sorted.
    pub(crate) fn congestion_controls(&mut self) -> Arc<[String]> {
        let known = self.congestion_controls.get_or_insert_with(|| {
            let loaded = std::fs::read_to_string(LOADED_CONGESTION_CONTROLS).unwrap_or_default();
            let simulated = Control::ALL.map(Control::name);
            let names = LINUX_CONGESTION_CONTROLS.iter().copied().chain(simulated);
            let names: BTreeSet<&str> = names.chain(loaded.split_whitespace()).collect();
            names.into_iter().map(str::to_owned).collect()
        });
        Arc::clone(known)
    }

    /// Resolves a path of the lab file relative to its folder.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    /// Like [`Self::resolve`], for a [`Path`].
    pub(crate) fn resolve_path(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    pub(crate) fn trace(&mut self, path: &str, at: &At, sink: &mut Sink) -> Option<Arc<Trace>> {
        let full = self.resolve(path);
        if let Some(known) = self.traces.get(&full) {
            return known.clone();
        }
        let trace = self.parsed(path, at, sink, parse_trace);
        self.traces.insert(full, trace.clone());
        trace
    }

    pub(crate) fn delays(
        &mut self,
        path: &str,
        at: &At,
        sink: &mut Sink,
    ) -> Option<Arc<Vec<Span>>> {
        let full = self.resolve(path);
        if let Some(known) = self.delays.get(&full) {
            return known.clone();
        }
        let delays = self.parsed(path, at, sink, parse_delays);
        self.delays.insert(full, delays.clone());
        delays
    }

    pub(crate) fn sizes(&mut self, path: &str, at: &At, sink: &mut Sink) -> Option<Arc<SizeTable>> {
        let full = self.resolve(path);
        if let Some(known) = self.sizes.get(&full) {
            return known.clone();
        }
        let sizes = self.parsed(path, at, sink, parse_sizes);
        self.sizes.insert(full, sizes.clone());
        sizes
    }

    pub(crate) fn datagrams(
        &mut self,
        path: &str,
        at: &At,
        sink: &mut Sink,
    ) -> Option<Arc<DatagramTrace>> {
        let full = self.resolve(path);
        if let Some(known) = self.datagrams.get(&full) {
            return known.clone();
        }
        let datagrams = self.parsed(path, at, sink, parse_datagrams);
        self.datagrams.insert(full, datagrams.clone());
        datagrams
    }

    fn parsed<T>(
        &self,
        path: &str,
        at: &At,
        sink: &mut Sink,
        parse: fn(&str) -> Result<T, TraceError>,
    ) -> Option<Arc<T>> {
        match parse(&self.read(path, at, sink)?) {
            Ok(parsed) => Some(Arc::new(parsed)),
            Err(error) if self.is_outside(path) => {
                let help = format!("{}; {TEXT_NOT_SHOWN}", error.help());
                let error = error.without_text();
                sink.report(Code::BadTrace, at, format!("{path}: {error}")).help(help);
                None
            }
            Err(error) => {
                sink.report(Code::BadTrace, at, format!("{path}: {error}")).help(error.help());
                None
            }
        }
    }

    /// Whether a file is outside the lab's folder, also by a symbolic link. A lab that someone else
    /// has written can name secret files, so errors do not quote files outside.
    pub(crate) fn is_outside(&self, path: &str) -> bool {
        leads_outside(&self.base, &self.resolve(path))
    }

    /// Reads a topology file. Returns its text, and whether it was decoded from Latin-1, which GML
    /// specifies and spreadsheets write.
    pub(crate) fn read_topology(
        &self,
        path: &str,
        at: &At,
        sink: &mut Sink,
    ) -> Option<(String, bool)> {
        let read = read_bytes(&self.resolve(path)).and_then(|bytes| match utf8(bytes) {
            Ok(text) => Ok((text, false)),
            Err(bytes) if is_utf16(&bytes) => Err("it is UTF-16; save it as UTF-8".to_owned()),
            Err(bytes) if bytes.contains(&0) => Err("it is not text".to_owned()),
            Err(bytes) => Ok((bytes.into_iter().map(char::from).collect(), true)),
        });
        read.map_err(|why| unreadable(path, &why, at, sink)).ok()
    }

    /// Reads a text file.
    pub(crate) fn read(&self, path: &str, at: &At, sink: &mut Sink) -> Option<String> {
        let read = read_bounded(&self.resolve(path));
        read.map_err(|why| unreadable(path, &why, at, sink)).ok()
    }
}

/// Whether a file is outside a folder, also by a symbolic link, or cannot be found.
pub fn leads_outside(folder: &Path, file: &Path) -> bool {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => !file.starts_with(folder),
        _ => true,
    }
}

fn unreadable(path: &str, why: &str, at: &At, sink: &mut Sink) {
    sink.report(Code::Unreadable, at, format!("cannot read `{path}`: {why}"))
        .help("paths are relative to the folder of the lab file");
}

/// Reads a text file up to the maximum size.
pub(crate) fn read_bounded(path: &Path) -> Result<String, String> {
    utf8(read_bytes(path)?).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The text without a byte order mark.
fn utf8(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let mut text = String::from_utf8(bytes).map_err(FromUtf8Error::into_bytes)?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Whether it has a byte order mark of UTF-16.
fn is_utf16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

/// Reads a file up to the maximum size.
fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let why = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::PermissionDenied => "no permission".to_owned(),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    };
    read_regular(path).map_err(why)
}

/// Reads a regular file of text, up to the maximum size of a lab's files.
///
/// # Errors
/// If it cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    utf8(read_regular(path)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    Ok(bytes)
}

/// Opens a regular file to read it. Pipes and devices can block or never end.
///
/// # Errors
/// If the file cannot be opened or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a device can have an effect, so the type is checked before as well.
    check_regular(path.metadata()?.file_type())?;
    // Without NONBLOCK, opening a FIFO and reading some files of the kernel would block.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    check_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn check_regular(kind: FileType) -> io::Result<()> {
    let kind = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {kind}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_regular_files() {
        open_regular(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))).unwrap();
        let error = |path: &str| open_regular(Path::new(path)).unwrap_err();
        assert_eq!(error("/").kind(), ErrorKind::IsADirectory);
        assert_eq!(error("/dev/zero").to_string(), "it is a device, not a regular file");
        let (reader, _writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(error(&path).to_string(), "it is a pipe, not a regular file");
    }

    #[test]
    fn knows_files_outside_the_folder_of_the_lab() {
        let base = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = |base: &Path| Files::new(base, None);
        for inside in ["Cargo.toml", "src/../Cargo.toml", "src/lib.rs"] {
            assert!(!files(base).is_outside(inside), "{inside}");
            assert!(!files(Path::new("")).is_outside(inside), "{inside}");
        }
        let absolute = base.join("Cargo.toml");
        assert!(!files(base).is_outside(absolute.to_str().unwrap()));
        for outside in ["/etc/passwd", "../file/../run/Cargo.toml", "/proc/self/status", "none"] {
            assert!(files(base).is_outside(outside), "{outside}");
        }
        // A name that begins like the folder's.
        assert!(files(&base.join("src")).is_outside("../Cargo.toml"));
    }
}
