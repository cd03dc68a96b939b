//! Checks an archive: each file, the list of finished files, and the times of neighbouring files.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use base::Time;
use bgp::mrt::Cause;
use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use crate::Result;
use crate::archive::{Entry, Finished, GAPS, Kind, MANIFEST, digest, read_ledger};
use crate::input::{Input, RecordStep, records, words};
use crate::job::control::CONTROL;
use crate::job::retention::ACCOUNT;
use crate::query::{ArchiveFolder, State, shelves};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrong {
    Absent,
    Unreadable,
    /// Length or SHA-256 differ from the list.
    Changed,
    Torn,
    Framing,
    /// Records differ from the list: number, bytes, first or last time.
    Content,
    /// Records have times of another file.
    Interval,
    Duplicate,
    ListedTwice,
    /// Finished but not listed.
    Unlisted,
    /// Left incomplete by a collector that is not running.
    Leftover,
    Line,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: PathBuf,
    pub wrong: Wrong,
    pub words: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub files: u64,
    pub records: u64,
    pub content: u64,
    /// Files whose length and SHA-256 match the list.
    pub verified: u64,
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
}

impl Wrong {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Unreadable => "unreadable",
            Self::Changed => "changed",
            Self::Torn => "torn",
            Self::Framing => "framing",
            Self::Content => "content",
            Self::Interval => "interval",
            Self::Duplicate => "duplicate",
            Self::ListedTwice => "listed-twice",
            Self::Unlisted => "unlisted",
            Self::Leftover => "leftover",
            Self::Line => "line",
        }
    }
}

impl Report {
    pub const fn is_right(&self) -> bool {
        self.findings.is_empty()
    }

    pub fn json(&self) -> Value {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "file": finding.path.display().to_string(),
                "wrong": finding.wrong.name(),
                "words": finding.words,
            })
        });
        json!({
            "schema": "netarium.archive-check/1",
            "ok": self.is_right(),
            "files": self.files,
            "records": self.records,
            "content_bytes": self.content,
            "verified": self.verified,
            "findings": findings.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    pub fn table(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let (name, path) = (finding.wrong.name(), finding.path.display());
            let _ = writeln!(text, "{name:<12}  {path}: {}", finding.words);
        }
        let _ = write!(
            text,
            "{} files, {} records of {} bytes; {} files match the list of finished files; ",
            self.files, self.records, self.content, self.verified
        );
        match self.findings.len() {
            0 => text.push_str("no errors\n"),
            1 => text.push_str("1 error\n"),
            count => {
                let _ = writeln!(text, "{count} errors");
            }
        }
        text
    }
}

/// Checks all archives in folders, and single files.
///
/// Fails if a path is inaccessible. An unreadable file is a finding.
pub fn check(paths: &[PathBuf]) -> Result<Report> {
    let mut report = Report::default();
    for shelf in shelves(paths)? {
        Check::new(&shelf, &mut report)?.run();
    }
    Ok(report)
}

/// Records of a file, to find duplicates in others.
struct Known {
    hashes: HashSet<u64>,
    last: Time,
}

struct Check<'a> {
    shelf: &'a ArchiveFolder,
    report: &'a mut Report,
    entries: HashMap<String, Entry>,
    is_busy: bool,
    known: Vec<Known>,
}

impl<'a> Check<'a> {
    fn new(shelf: &'a ArchiveFolder, report: &'a mut Report) -> Result<Self> {
        let is_busy = is_locked(&shelf.folder);
        let mut check = Self { shelf, report, entries: HashMap::new(), is_busy, known: Vec::new() };
        check.lists()?;
        Ok(check)
    }

    fn find(&mut self, path: &Path, wrong: Wrong, words: impl Into<String>) {
        let (path, words) = (path.to_owned(), words.into());
        self.report.findings.push(Finding { path, wrong, words });
    }

    fn lists(&mut self) -> Result<()> {
        let folder = &self.shelf.folder;
        let manifest = folder.join(MANIFEST);
        for entry in read_ledger::<Entry>(&manifest)? {
            let file = entry.file.clone();
            if let Some(before) = self.entries.insert(file.clone(), entry) {
                let words = format!("{file} is listed twice");
                let same = self.entries.get(&file) == Some(&before);
                if same {
                    self.report.notes.push(format!("{}: {words}, alike", manifest.display()));
                } else {
                    self.find(&manifest, Wrong::ListedTwice, words);
                }
            }
        }
        for name in [MANIFEST, GAPS, ACCOUNT, CONTROL] {
            let path = folder.join(name);
            // Missing lists have no lines.
            let lines = std::fs::read(&path).unwrap_or_default();
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            let bad = lines.filter(|line| serde_json::from_slice::<Value>(line).is_err()).count();
            // The last file may be in use by a collector.
            if bad > usize::from(self.is_busy) {
                let words = format!("{bad} lines are no JSON");
                self.find(&path, Wrong::Line, words);
            }
        }
        Ok(())
    }

    fn run(mut self) {
        let shelf = self.shelf;
        let mut present = HashSet::new();
        let updates: Vec<usize> = (0..shelf.files.len())
            .filter(|at| {
                let file = &shelf.files[*at];
                file.kind == Kind::Updates && file.state == State::Finished
            })
            .collect();
        for (at, file) in shelf.files.iter().enumerate() {
            if file.state == State::Finished {
                present.insert(file.name.clone());
                // The next interval, not a further part of the same one.
                let later = updates.iter().filter(|next| **next > at);
                let next = later
                    .filter_map(|next| shelf.files[*next].start)
                    .find(|next| file.start.is_none_or(|start| *next > start));
                self.file(at, next);
            } else if self.is_busy {
                let path = file.path.display();
                self.report.notes.push(format!("{path}: a collector is writing it"));
            } else {
                let what = match file.state {
                    State::Open => {
                        "a collector that was killed left it: the next one that \
                                    writes to this archive finishes it"
                    }
                    _ => {
                        "a collector that was killed left it, half done: the next one that \
                          writes to this archive removes it"
                    }
                };
                self.find(&file.path, Wrong::Leftover, what);
            }
        }
        let absent = self.entries.keys().filter(|name| !present.contains(*name));
        let mut absent: Vec<String> = absent.filter(|_| shelf.listed).cloned().collect();
        absent.sort_unstable();
        for name in absent {
            let path = shelf.folder.join(name);
            self.find(&path, Wrong::Absent, "it is listed, and not there");
        }
    }

    fn file(&mut self, at: usize, next: Option<Time>) {
        let file = &self.shelf.files[at];
        self.report.files += 1;
        let entry = self.entries.get(&file.name).cloned();
        if entry.is_none() && self.shelf.listed {
            if self.is_busy {
                let path = file.path.display();
                self.report.notes.push(format!("{path}: it is not listed yet"));
            } else {
                self.find(&file.path, Wrong::Unlisted, "it is finished, and the list has it not");
            }
        }
        let content = match Content::read(&file.path) {
            Ok(content) => content,
            Err(error) => return self.find(&file.path, Wrong::Unreadable, error.to_string()),
        };
        for (wrong, words) in &content.troubles {
            self.find(&file.path, *wrong, words.clone());
        }
        self.report.records += content.records;
        self.report.content += content.bytes;
        if let Some(entry) = &entry {
            self.compare(&file.path, entry, &content);
        }
        if file.kind == Kind::Updates {
            self.interval(at, &content, next);
            self.duplicates(at, content);
        }
    }

    fn compare(&mut self, path: &Path, entry: &Entry, content: &Content) {
        match digest(path) {
            Err(error) => self.find(path, Wrong::Unreadable, error.to_string()),
            Ok(Finished { bytes, .. }) if bytes != entry.bytes => {
                let words = format!("{bytes} bytes, {} are listed", entry.bytes);
                self.find(path, Wrong::Changed, words);
            }
            Ok(read) if read.sha256 == entry.sha256 => self.report.verified += 1,
            Ok(_) => self.find(path, Wrong::Changed, "its SHA-256 is not the one that is listed"),
        }
        let micros = |time: Option<Time>| time.map(crate::archive::micros);
        let read = (content.records, content.bytes, micros(content.first), micros(content.end));
        let listed = (entry.records, entry.content, entry.first_us, entry.last_us);
        if read != listed {
            let words = format!(
                "{} records of {} bytes, {} of {} are listed; first and last times {:?} and {:?} \
                 are {:?} and {:?} in the list",
                read.0, read.1, listed.0, listed.1, read.2, read.3, listed.2, listed.3
            );
            self.find(path, Wrong::Content, words);
        }
    }

    /// Compares with the times in the names of this and the next file.
    fn interval(&mut self, at: usize, content: &Content, next: Option<Time>) {
        let file = &self.shelf.files[at];
        let (Some(start), Some((earliest, latest))) = (file.start, content.times) else { return };
        let text = crate::query::moment_text;
        if next.is_some_and(|next| latest >= next) {
            let words = format!("a record of {} belongs to a later file", text(latest));
            if self.shelf.listed {
                self.find(&file.path, Wrong::Interval, words);
            } else {
                self.report.notes.push(format!("{}: {words}", file.path.display()));
            }
        }
        if earliest < start {
            // A late record goes to the current file.
            let path = file.path.display();
            self.report.notes.push(format!("{path}: a record of {} came late", text(earliest)));
        }
    }

    fn duplicates(&mut self, at: usize, content: Content) {
        let file = &self.shelf.files[at];
        let twice = content
            .hashes
            .iter()
            .filter(|hash| self.known.iter().any(|known| known.hashes.contains(*hash)));
        let twice = twice.count();
        if twice > 0 {
            let words = format!("{twice} of its records are in an earlier file too");
            self.find(&file.path, Wrong::Duplicate, words);
        }
        let Some((first, last)) = content.times else { return };
        // The previous file is always kept: late records may repeat its records.
        let keep = self.known.len().saturating_sub(1);
        let mut number = 0;
        self.known.retain(|known| {
            number += 1;
            number > keep || known.last >= first
        });
        self.known.push(Known { hashes: content.hashes, last });
    }
}

/// Whether a collector writes to a folder, by its lock.
fn is_locked(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(".lock")) else { return false };
    matches!(
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared),
        Err(rustix::io::Errno::WOULDBLOCK)
    )
}

#[derive(Debug, Default)]
struct Content {
    records: u64,
    bytes: u64,
    first: Option<Time>,
    end: Option<Time>,
    times: Option<(Time, Time)>,
    hashes: HashSet<u64>,
    troubles: Vec<(Wrong, String)>,
}

const TROUBLES: usize = 10;

impl Content {
    fn read(path: &Path) -> Result<Self> {
        let mut content = Self::default();
        let mut more = 0;
        let mut input = Input::open(path, false)?;
        records(&mut input, &mut || ControlFlow::Continue(()), &mut |piece| {
            let trouble = match piece {
                RecordStep::Record(record) => {
                    content.record(record.time, record.bytes);
                    return ControlFlow::Continue(());
                }
                RecordStep::Damage(damage) if damage.cause == Cause::Torn => {
                    (Wrong::Torn, words(&damage))
                }
                RecordStep::Damage(damage) => (Wrong::Framing, words(&damage)),
                RecordStep::Broken(error) => (Wrong::Unreadable, error.to_string()),
            };
            if content.troubles.len() < TROUBLES {
                content.troubles.push(trouble);
            } else {
                more += 1;
            }
            ControlFlow::Continue(())
        })?;
        if more > 0 {
            content.troubles.push((Wrong::Framing, format!("and {more} more of these")));
        }
        Ok(content)
    }

    fn record(&mut self, time: Time, bytes: &[u8]) {
        self.records += 1;
        self.bytes += bytes.len() as u64;
        self.first = self.first.or(Some(time));
        self.end = Some(time);
        let (earliest, latest) = self.times.unwrap_or((time, time));
        self.times = Some((earliest.min(time), latest.max(time)));
        self.hashes.insert(HASH_KEY.hash_one(bytes));
    }
}

/// Key of the hashes of all files' records, which are compared. It is random, so that senders of
/// records cannot predict it.
static HASH_KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
