//! Files that a lab refers to: traces, tables of delays, topologies, programs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Span;
use fabric::Trace;

use crate::code::Code;
use crate::diagnostic::Sink;
use crate::trace::{parse_delays, parse_trace};
use crate::tree::At;

/// Larger files are a mistake.
pub(crate) const LARGEST: u64 = 64 << 20;

/// Reads files once, however often they are named.
#[derive(Debug)]
pub(crate) struct Files {
    base: PathBuf,
    /// Where programs are looked for; `None`: not at all.
    pub(crate) path: Option<OsString>,
    traces: BTreeMap<PathBuf, Option<Arc<Trace>>>,
    delays: BTreeMap<PathBuf, Option<Arc<Vec<Span>>>>,
}

impl Files {
    pub(crate) fn new(base: &Path, path: Option<OsString>) -> Self {
        let base = base.to_owned();
        Self { base, path, traces: BTreeMap::new(), delays: BTreeMap::new() }
    }

    /// A path of the lab file.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    /// The same for a path.
    pub(crate) fn resolve_path(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }

    pub(crate) fn trace(&mut self, path: &str, at: &At, sink: &mut Sink) -> Option<Arc<Trace>> {
        let full = self.resolve(path);
        if let Some(known) = self.traces.get(&full) {
            return known.clone();
        }
        let trace = self.read(path, at, sink).and_then(|text| match parse_trace(&text) {
            Ok(trace) => Some(Arc::new(trace)),
            Err(error) => {
                sink.report(Code::BadTrace, at, format!("{path}: {error}")).help(error.help());
                None
            }
        });
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
        let delays = self.read(path, at, sink).and_then(|text| match parse_delays(&text) {
            Ok(delays) => Some(Arc::new(delays)),
            Err(error) => {
                sink.report(Code::BadTrace, at, format!("{path}: {error}")).help(error.help());
                None
            }
        });
        self.delays.insert(full, delays.clone());
        delays
    }

    /// A file's text.
    pub(crate) fn read(&self, path: &str, at: &At, sink: &mut Sink) -> Option<String> {
        match read_bounded(&self.resolve(path)) {
            Ok(text) => Some(text),
            Err(why) => {
                sink.report(Code::Unreadable, at, format!("cannot read `{path}`: {why}"))
                    .help("paths are relative to the folder of the lab file");
                None
            }
        }
    }
}

/// A text file that is not absurdly large.
pub(crate) fn read_bounded(path: &Path) -> Result<String, String> {
    let why = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        _ => error.to_string(),
    };
    let file = File::open(path).map_err(why)?;
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(why)?;
    if text.len() as u64 > LARGEST {
        return Err(format!("it is larger than {} MiB", LARGEST >> 20));
    }
    String::from_utf8(text).map_err(|_| "it is not UTF-8 text".to_owned())
}
