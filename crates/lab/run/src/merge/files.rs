//! Merges the shards' logs and captures by time, and copies programs' output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::files::Replacement;
use crate::pcapng::{self, Part};
use crate::{Level, RecorderHandle, RunFolder, files};
use base::Time;
use serde::Deserialize;

use super::sources::Source;
use crate::shards::ClusterRun;

const MAX_LINE_BYTES: u64 = 1 << 20;

const LOG_FILE: &str = "log.jsonl";

/// Source of log lines about events. Every shard logs them; those of the first shard are used.
const EVENT_SOURCE: &str = "event";

/// Maximum number of captures and programs of a lab.
const MAX_FILES: usize = 1 << 16;

pub(super) struct Logs {
    open: Vec<Log>,
    recorder: RecorderHandle,
    warnings: Vec<String>,
}

struct Log {
    agent: String,
    lines: BufReader<File>,
    next: Option<Line>,
    /// Whether it is the first log, whose events are used.
    is_first: bool,
}

#[derive(Deserialize)]
struct Line {
    time_ns: u64,
    level: Level,
    source: String,
    text: String,
}

impl Logs {
    pub(super) fn open(cluster_run: &ClusterRun, recorder: RecorderHandle) -> Self {
        let (mut open, mut warnings) = (Vec::new(), Vec::new());
        for agent in &cluster_run.agents {
            let Some(folder) = &agent.folder else { continue };
            match files::open(&folder.join(LOG_FILE)) {
                Ok(file) => {
                    let (lines, is_first) = (BufReader::new(file), open.is_empty());
                    let mut log = Log { agent: agent.name.clone(), lines, next: None, is_first };
                    log.advance(&mut warnings);
                    open.push(log);
                }
                Err(error) => {
                    warnings.push(format!("{}: cannot read its log: {error}", agent.name));
                }
            }
        }
        Self { open, recorder, warnings }
    }

    /// Writes the lines up to this time, in the order of time.
    pub(super) fn write_until(&mut self, until: Time) {
        loop {
            let next = |log: &Log| log.next.as_ref().map(|line| line.time_ns);
            let first =
                self.open.iter_mut().filter(|log| log.next.is_some()).min_by_key(|l| next(l));
            let Some(log) = first else { return };
            let Some(line) = log.next.take_if(|line| line.time_ns <= until.as_nanos()) else {
                return;
            };
            log.advance(&mut self.warnings);
            if line.source != EVENT_SOURCE || log.is_first {
                let at = Time::from_nanos(line.time_ns);
                let agent = if line.source == EVENT_SOURCE { "" } else { &log.agent };
                self.recorder.log_of(agent, at, line.level, &line.source, &line.text);
            }
        }
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}

impl Log {
    fn advance(&mut self, warnings: &mut Vec<String>) {
        let mut text = Vec::new();
        let read = self.lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut text);
        self.next = match read {
            Ok(0) => None,
            Ok(_) => serde_json::from_slice(&text).map_or_else(
                |_| {
                    let agent = &self.agent;
                    warnings.push(format!("{agent}: its log is damaged or truncated"));
                    None
                },
                Some,
            ),
            Err(error) => {
                warnings.push(format!("{}: cannot read its log: {error}", self.agent));
                None
            }
        };
    }
}

/// Merges captures and copies programs' output. Returns warnings.
pub(super) fn copy(
    cluster_run: &ClusterRun,
    sources: &[Source],
    started_unix_ns: u64,
    into: &RunFolder,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut captures: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for (agent, source) in cluster_run.agents.iter().zip(sources) {
        let Some(folder) = &agent.folder else { continue };
        let shard_start = source.started_unix_ns.unwrap_or(started_unix_ns);
        let shift_ns = (started_unix_ns.wrapping_sub(shard_start)) as i64;
        for name in names(folder).into_iter().filter(|name| is_capture(name)) {
            captures
                .entry(name.clone())
                .or_default()
                .push(Part { path: folder.join(name), shift_ns });
        }
        let programs = folder.join("programs");
        for name in names(&programs) {
            let (from, to) = (programs.join(&name), into.file("programs").join(&name));
            if let Err(error) = copy_files(&from, &to) {
                warnings.push(format!("{}: cannot copy the output of {name}: {error}", agent.name));
            }
        }
    }
    for (name, parts) in captures {
        match pcapng::merge(&parts, &into.file(&name)) {
            Ok(errors) => warnings.extend(errors.iter().map(ToString::to_string)),
            Err(error) => warnings.push(error.to_string()),
        }
    }
    warnings
}

fn is_capture(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "pcapng")
}

/// Sorted names in a folder; empty if the folder does not exist.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Copies the regular files of a folder; programs' output has no subfolders.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for folder in to.parent().into_iter().chain([to]) {
        files::create_folder(folder)?;
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let copy = Replacement::of(&to.join(entry.file_name()))?;
            io::copy(&mut files::open(&entry.path())?, &mut copy.file())?;
            copy.commit()?;
        }
    }
    Ok(())
}
