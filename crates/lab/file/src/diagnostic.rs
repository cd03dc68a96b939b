//! Errors with their positions, all of a file at once.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use miette::{LabeledSpan, NamedSource, Severity, SourceCode};

use crate::code::Code;
use crate::files::leads_outside;
use crate::tree::At;

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its error code.
    pub code: Code,
    /// Description of the error.
    pub message: String,
    /// Suggested correction of the error.
    pub help: Option<String>,
    /// Byte ranges of the file, each with a remark; the first is the main one.
    pub labels: Vec<(Range<usize>, String)>,
    /// Line and column of the first label, from 1; (0, 0) without one.
    pub position: (u32, u32),
}

/// All errors and warnings of a lab file.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Diagnostics {
    source_name: String,
    file: NamedSource<String>,
    list: Vec<Diagnostic>,
}

/// Further diagnostics are counted but not stored.
const MAX_DIAGNOSTICS: usize = 200;

impl Diagnostics {
    /// The diagnostics of a file with this text.
    pub fn new(source_name: &str, text: &str, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|d| d.labels.first().map_or(0, |(at, _)| at.start));
        let mut seen = std::collections::BTreeSet::new();
        list.retain(|d| {
            let at = d.labels.first().map_or(0, |(at, _)| at.start);
            seen.insert((d.code, at, d.message.clone()))
        });
        list.truncate(MAX_DIAGNOSTICS);
        for diagnostic in &mut list {
            for (at, _) in &mut diagnostic.labels {
                *at = at.start.min(text.len())..at.end.min(text.len());
            }
            if let Some((at, _)) = diagnostic.labels.first() {
                diagnostic.position = position(text, at.start);
            }
        }
        let file = NamedSource::new(source_name, text.to_owned()).with_language("TOML");
        Self { source_name: source_name.to_owned(), file, list }
    }

    /// The diagnostics of the file `path`. If it is a link to another folder, only the position of
    /// the first one: a folder that someone else has made can have links to secret files.
    #[must_use]
    pub fn of_file(mut self, path: &Path) -> Self {
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        // `/dev/stdin` is a link as well.
        if !path.exists() || path.starts_with("/dev") || !leads_outside(folder, path) {
            return self;
        }
        self.list.truncate(1);
        for found in &mut self.list {
            let (line, column) = found.position;
            let what = if found.code == Code::Syntax { "invalid syntax" } else { "an error" };
            found.message = format!("{what} in line {line}, column {column}");
            found.help = Some("the file is a link to another folder: its text is not shown".into());
            found.labels.clear();
        }
        self.file = NamedSource::new(&self.source_name, String::new());
        self
    }

    /// All diagnostics, in the order of the file.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// Whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The file's name as given by the caller.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    fn summary(&self) -> String {
        let warnings = self.list.iter().filter(|d| d.code.is_warning()).count();
        let errors = self.list.len() - warnings;
        let (count, what) = if errors > 0 { (errors, "error") } else { (warnings, "warning") };
        let plural = if count == 1 { "" } else { "s" };
        let more = if self.list.len() == MAX_DIAGNOSTICS { " or more" } else { "" };
        format!("{count} {what}{plural}{more} in {}", self.source_name)
    }
}

impl miette::Diagnostic for Diagnostics {
    fn severity(&self) -> Option<Severity> {
        let only_warnings = self.list.iter().all(|d| d.code.is_warning());
        Some(if only_warnings { Severity::Warning } else { Severity::Error })
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.file)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.list.iter().map(|d| d as &dyn miette::Diagnostic)))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

impl miette::Diagnostic for Diagnostic {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code.as_str()))
    }

    fn severity(&self) -> Option<Severity> {
        Some(if self.code.is_warning() { Severity::Warning } else { Severity::Error })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let labels = self.labels.iter().map(|(at, text)| {
            let text = (!text.is_empty()).then(|| text.clone());
            LabeledSpan::new(text, at.start, at.len())
        });
        Some(Box::new(labels))
    }
}

/// Line and column (in characters), from 1.
pub(crate) fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line as u32, column as u32)
}

/// The start positions of a text's lines, for many lookups.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// Like the function [`position`].
    pub(crate) fn position(&self, offset: usize) -> (u32, u32) {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        let (_, column) = position(self.text.get(start..).unwrap_or_default(), offset - start);
        (line as u32, column)
    }
}

/// Collects the diagnostics of a file.
#[derive(Debug, Default)]
pub struct Sink {
    pub(crate) list: Vec<Diagnostic>,
}

impl Sink {
    /// Adds a diagnostic at a position, without a remark.
    pub fn report(&mut self, code: Code, at: &At, message: impl Into<String>) -> &mut Diagnostic {
        self.list.push(Diagnostic {
            code,
            message: message.into(),
            help: None,
            labels: vec![(at.clone(), String::new())],
            position: (0, 0),
        });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.list.iter().any(|d| !d.code.is_warning())
    }
}

impl Diagnostic {
    /// Sets the remark at the main position.
    pub fn label(&mut self, text: impl Into<String>) -> &mut Self {
        self.labels[0].1 = text.into();
        self
    }

    /// Adds another position with a remark.
    pub fn also(&mut self, at: &At, text: impl Into<String>) -> &mut Self {
        self.labels.push((at.clone(), text.into()));
        self
    }

    /// Sets the suggested correction.
    pub fn help(&mut self, text: impl Into<String>) -> &mut Self {
        self.help = Some(text.into());
        self
    }
}

/// Words of other tools for keys, sections and values of lab files.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("rate", &["bandwidth", "bw", "capacity", "speed", "throughput", "bitrate"]),
    ("delay", &["latency", "lat", "propagation", "rtt"]),
    ("from", &["src", "source", "sender", "client"]),
    ("to", &["dst", "dest", "destination", "target", "receiver", "server"]),
    ("ends", &["endpoints", "nodes", "between", "interfaces"]),
    ("node", &["nodes", "host", "hosts", "router", "routers", "switches"]),
    ("link", &["links", "edge", "edges", "connections"]),
    ("flow", &["flows", "traffic", "streams"]),
    ("program", &["programs", "process", "processes", "command", "commands"]),
    ("lab", &["network", "topology", "settings", "config"]),
    ("at", &["event", "events"]),
    ("run", &["cmd", "command", "exec"]),
    ("loss", &["drop", "loss_rate", "packet_loss", "plr"]),
    ("queue", &["buffer", "qdisc"]),
    ("limit", &["size", "length", "max_queue_size"]),
    ("size", &["bytes", "length"]),
    ("duration", &["time", "length", "runtime"]),
    ("control", &["cc", "congestion", "congestion_control"]),
    ("transport", &["protocol", "proto"]),
    ("udp", &["UDP"]),
    ("droptail", &["pfifo", "bfifo", "fifo", "drop-tail", "tail-drop"]),
];

/// A hint with the closest known word, or a list of all known words.
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>, kind: &str) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let synonym = SYNONYMS.iter().find(|(key, names)| names.contains(&word) && known.contains(key));
    if let Some((key, _)) = synonym {
        return format!("did you mean `{key}`?");
    }
    let lower = word.to_lowercase();
    let closest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), *name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(word.len()) / 4)
        .min_by_key(|(distance, _)| *distance);
    match closest {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if known.is_empty() => format!("there are no {kind}"),
        None => {
            let mut listed: Vec<String> =
                known.iter().take(20).map(|name| format!("`{name}`")).collect();
            if known.len() > listed.len() {
                listed.push(format!("… ({} in all)", known.len()));
            }
            format!("{kind}: {}", listed.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_every_position() {
        for text in ["", "a", "ä = 1\n\n[b]\nc = \"d\"", "\n\n"] {
            let lines = Lines::new(text);
            for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
                assert_eq!(lines.position(offset), position(text, offset), "{text:?} {offset}");
            }
        }
    }
}
