//! `results.json`: all figures of a paper that a folder holds.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use run::Exit;
use run::record::Outcome;
use serde::{Deserialize, Serialize};

use crate::{Clock, Error, Evidence, Model, Paper, Result};

/// Use of the processors beyond which a run's reader is told of it.
const BUSY: f64 = 0.8;
/// The largest `results.json` that is read.
const LIMIT: u64 = 1 << 30;
const SCHEMA: &str = "netarium.reproduction/1";

/// The results of a paper's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Always `netarium.reproduction/1`.
    pub schema: String,
    /// Version of the program that wrote it last.
    pub version: String,
    /// The paper's name on the command line.
    pub paper: String,
    /// The paper's title.
    pub title: String,
    /// Figures by number.
    pub figures: BTreeMap<String, FigureResult>,
}

/// What came of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FigureResult {
    /// The paper's number.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The worst that is to be said of it.
    pub status: Status,
    /// Why it could not be made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// The exit code that goes with it.
    pub exit_code: Exit,
    /// Whether sizes were reduced: it shows that all works, not what the paper shows.
    pub short: bool,
    /// When it was made, milliseconds since 1970 (UTC).
    pub made_unix_ms: u64,
    /// How long that took.
    pub took_s: f64,
    /// The command that makes it again.
    pub repeat: String,
    /// Claims, plots, tables, notes.
    #[serde(flatten)]
    pub evidence: Evidence,
    /// The runs that it is made of.
    #[serde(default)]
    pub runs: Vec<Ran>,
}

/// The worst that is to be said of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All claims hold, in trusted runs.
    #[default]
    Holds,
    /// All claims hold, but a run was not trusted.
    Untrusted,
    /// A claim does not hold.
    Differs,
    /// It could not be made.
    Failed,
}

/// A run of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// The job's name.
    pub name: String,
    /// The clock.
    pub clock: Clock,
    /// How the network was modelled, where the figure chose that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<Model>,
    /// The run folder, relative to the folder of the results.
    pub folder: String,
    /// Whether its numbers are the network's, not the machine's.
    pub trusted: bool,
    /// How often it was made: again while it was not trusted.
    #[serde(default)]
    pub tries: u32,
    /// Whether it was made to meet the machine's limit, and trust was not expected.
    #[serde(default)]
    pub beyond_limit: bool,
    /// The reasons against trust, where there are any.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Share of the machine's processor time that anything used, 0 to 1; on the wall clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub busy: Option<f64>,
    /// Expectations of the lab that did not hold.
    #[serde(default)]
    pub unmet: Vec<String>,
    /// The command that repeats it.
    pub repeat: String,
}

impl FigureResult {
    /// The status and exit code that claims and runs lead to.
    pub(crate) fn judge(&mut self) {
        let (status, exit) = if self.evidence.claims.iter().any(|claim| !claim.holds) {
            (Status::Differs, Exit::Expectation)
        } else if self.runs.iter().any(|run| !run.trusted && !run.beyond_limit) {
            (Status::Untrusted, Exit::Untrusted)
        } else {
            (Status::Holds, Exit::Ok)
        };
        (self.status, self.exit_code) = (status, exit);
    }

    /// Notes what speaks against the runs.
    pub(crate) fn doubt(&mut self) {
        let mut notes = Vec::new();
        for run in &self.runs {
            let which = format!("{} ({})", run.name, crate::run::label(run.clock, run.model));
            if run.trusted && run.tries > 1 {
                notes.push(format!("Run {which} was trusted on attempt {}.", run.tries));
            }
            if !run.trusted && !run.beyond_limit {
                notes.push(format!("Run {which} was not trusted: {}.", run.reasons.join("; ")));
            }
            for text in &run.unmet {
                notes.push(format!("Run {which}: the lab expects `{text}`, which did not hold."));
            }
        }
        let own = self.runs.iter().filter(|run| !run.beyond_limit);
        let busiest = own.filter_map(|run| run.busy).fold(0.0, f64::max);
        if busiest > BUSY {
            notes.push(format!(
                "The machine's processors were up to {:.0} % busy during runs on the wall clock. \
                 What else they do delays kernels and programs, which is no lateness of the \
                 emulation but in what is measured all the same.",
                busiest * 100.0
            ));
        }
        self.evidence.notes.append(&mut notes);
    }
}

impl Results {
    /// The results in a folder; empty where it is new. A folder with other contents is refused.
    pub fn read(out: &Path, paper: &Paper) -> Result<Self> {
        let path = out.join("results.json");
        let refuse = |reason: String| Error::Results { path: path.clone(), reason };
        let read = |file: fs::File| {
            let mut text = Vec::new();
            file.take(LIMIT).read_to_end(&mut text).map(|_| text)
        };
        let text = match fs::File::open(&path).and_then(read) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let mut items = match fs::read_dir(out) {
                    Ok(items) => items,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::new(paper)),
                    Err(e) => return Err(Error::io("open", out, e)),
                };
                if items.next().is_some() {
                    return Err(refuse("its folder has other files and no such list".to_owned()));
                }
                return Ok(Self::new(paper));
            }
            Err(e) => return Err(Error::io("read", &path, e)),
        };
        let results: Self = serde_json::from_slice(&text).map_err(|e| refuse(e.to_string()))?;
        if results.schema != SCHEMA || results.paper != paper.name {
            return Err(refuse(format!("{} of {}", results.schema, results.paper)));
        }
        Ok(results)
    }

    fn new(paper: &Paper) -> Self {
        let (paper, title) = (paper.name.to_owned(), paper.title.to_owned());
        Self { schema: SCHEMA.to_owned(), paper, title, ..Self::default() }
    }

    /// Writes the results and the page that shows them.
    pub(crate) fn write(&self, out: &Path, paper: &Paper) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|e| Error::Results {
            path: out.join("results.json"),
            reason: e.to_string(),
        })?;
        text.push(b'\n');
        replace(&out.join("results.json"), &text)?;
        replace(&out.join("index.html"), crate::page::render(self, paper).as_bytes())
    }
}

impl From<&crate::Run> for Ran {
    fn from(run: &crate::Run) -> Self {
        let verdict = run.record.verdict.clone();
        let trusted = run.trusted();
        let unmet = run.record.expectations.iter().filter(|e| e.outcome != Outcome::Passed);
        Self {
            name: run.name.clone(),
            clock: run.clock,
            model: run.model,
            folder: run.folder.path().display().to_string(),
            trusted,
            tries: run.tries,
            beyond_limit: false,
            busy: run.record.load.as_ref().map(|load| load.busy),
            reasons: verdict.filter(|_| !trusted).map(|v| v.reasons).unwrap_or_default(),
            unmet: unmet.map(|expectation| expectation.text.clone()).collect(),
            repeat: run.record.repeat.clone(),
        }
    }
}

impl Ran {
    /// The run folder's report, relative to the folder of the results.
    pub(crate) fn report(&self) -> String {
        format!("{}/report.html", self.folder)
    }
}

/// Replaces a file at once: readers see the old contents or the new.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, contents).map_err(|e| Error::io("write", &new, e))?;
    fs::rename(&new, path).map_err(|e| Error::io("write", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(holds: bool, trusted: bool) -> FigureResult {
        let mut evidence = Evidence::default();
        evidence.claim("what", "1", "1", holds);
        let run = Ran { name: "<one>".to_owned(), trusted, ..Ran::default() };
        FigureResult { id: "3.5".to_owned(), evidence, runs: vec![run], ..FigureResult::default() }
    }

    #[test]
    fn the_worst_is_told() {
        let judged = |holds, trusted| {
            let mut figure = figure(holds, trusted);
            figure.judge();
            figure.doubt();
            (figure.status, figure.exit_code, figure.evidence.notes.len())
        };
        assert_eq!(judged(true, true), (Status::Holds, Exit::Ok, 0));
        assert_eq!(judged(true, false), (Status::Untrusted, Exit::Untrusted, 1));
        assert_eq!(judged(false, false), (Status::Differs, Exit::Expectation, 1));
    }

    #[test]
    fn a_busy_machine_and_unmet_expectations_are_noted() {
        let mut figure = figure(true, true);
        figure.runs[0].busy = Some(0.97);
        figure.runs[0].unmet = vec!["flow.x.goodput > 1 Mbit/s".to_owned()];
        figure.doubt();
        let notes = figure.evidence.notes.join("\n");
        assert!(notes.contains("97 %") && notes.contains("flow.x.goodput"), "{notes}");
    }

    #[test]
    fn results_are_read_as_they_were_written_and_others_refused() {
        let dir = tempfile::tempdir().unwrap();
        let paper = &crate::splaynet::PAPER;
        let mut results = Results::read(dir.path(), paper).unwrap();
        results.figures.insert("3.5".to_owned(), figure(true, true));
        results.write(dir.path(), paper).unwrap();
        assert_eq!(Results::read(dir.path(), paper).unwrap(), results);
        let page = fs::read_to_string(dir.path().join("index.html")).unwrap();
        assert!(page.contains("&lt;one&gt;") && !page.contains("<one>"));
        let other = Results { paper: "other".to_owned(), ..results };
        other.write(dir.path(), paper).unwrap();
        let error = Results::read(dir.path(), paper).unwrap_err();
        assert!(
            error.text().contains("of other") && error.exit_code() == Exit::Usage,
            "{}",
            error.text()
        );
        fs::write(dir.path().join("results.json"), "{").unwrap();
        assert!(Results::read(dir.path(), paper).is_err());
    }
}
