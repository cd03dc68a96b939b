//! Files of pieces: logs and captures merged by time, programs' output copied.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use base::Time;
use record::pcapng::{self, Part};
use record::{Level, RecorderHandle, RunFolder};
use serde::Deserialize;

use super::Pieces;
use super::sources::Source;

/// The longest line of a log that is read.
const LONGEST_LINE: u64 = 1 << 20;

/// The log's file in a run folder.
const LOG: &str = "log.jsonl";

/// What every piece logs, so that one is enough.
const EVENT: &str = "event";

/// Captures and programs of a lab, at most.
const MOST_FILES: usize = 1 << 16;

/// The pieces' logs.
pub(super) struct Logs {
    pieces: Vec<Log>,
    recorder: RecorderHandle,
    warnings: Vec<String>,
}

struct Log {
    member: String,
    lines: BufReader<File>,
    next: Option<Line>,
    /// Whether it is the first, which tells of events.
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
    pub(super) fn open(pieces: &Pieces, recorder: RecorderHandle) -> Self {
        let (mut logs, mut warnings) = (Vec::new(), Vec::new());
        for member in &pieces.members {
            let Some(folder) = &member.folder else { continue };
            match File::open(folder.join(LOG)) {
                Ok(file) => {
                    let (lines, is_first) = (BufReader::new(file), logs.is_empty());
                    let mut log = Log { member: member.name.clone(), lines, next: None, is_first };
                    log.advance(&mut warnings);
                    logs.push(log);
                }
                Err(error) => warnings.push(format!("{}: its log: {error}", member.name)),
            }
        }
        Self { pieces: logs, recorder, warnings }
    }

    /// Writes lines up to this time, in its order.
    pub(super) fn until(&mut self, until: Time) {
        loop {
            let next = |log: &Log| log.next.as_ref().map(|line| line.time_ns);
            let first =
                self.pieces.iter_mut().filter(|log| log.next.is_some()).min_by_key(|l| next(l));
            let Some(log) = first else { return };
            let Some(line) = log.next.take_if(|line| line.time_ns <= until.as_nanos()) else {
                return;
            };
            log.advance(&mut self.warnings);
            if line.source != EVENT || log.is_first {
                let at = Time::from_nanos(line.time_ns);
                let member = if line.source == EVENT { "" } else { &log.member };
                self.recorder.log_of(member, at, line.level, &line.source, &line.text);
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
        let read = self.lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut text);
        self.next = match read {
            Ok(0) => None,
            Ok(_) => serde_json::from_slice(&text).map_or_else(
                |_| {
                    let member = &self.member;
                    warnings.push(format!("{member}: its log is damaged or cut short"));
                    None
                },
                Some,
            ),
            Err(error) => {
                warnings.push(format!("{}: its log: {error}", self.member));
                None
            }
        };
    }
}

/// Merges captures and copies programs' output; what went wrong.
pub(super) fn copy(
    pieces: &Pieces,
    sources: &[Source],
    started_unix_ns: u64,
    into: &RunFolder,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut captures: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for (member, source) in pieces.members.iter().zip(sources) {
        let Some(folder) = &member.folder else { continue };
        let behind = source.started_unix_ns.unwrap_or(started_unix_ns);
        let shift_ns = (started_unix_ns.wrapping_sub(behind)) as i64;
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
                warnings.push(format!("{}: output of {name}: {error}", member.name));
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

/// Names in a folder, sorted; none if there is no such folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_FILES);
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Copies the regular files of a folder: programs' output has no folders in it.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
