//! The report as JSON and as a table.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Report, Wrong};

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
