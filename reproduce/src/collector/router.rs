//! The testbed: a real router in a lab, and where its programs put what they write.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::paper::lab_file;
use crate::{Clock, Error, File, Job, Result, Run, Stage};

pub(super) const LAB: &str = "collector/router.toml";

pub(super) const FILES: &[File] = &[
    lab_file!("collector/router.toml"),
    lab_file!("collector/apps/router.sh"),
    lab_file!("collector/apps/collect.sh"),
    lab_file!("collector/apps/table.sh"),
    lab_file!("collector/apps/speaker.py"),
    lab_file!("collector/files/bird.conf"),
    lab_file!("collector/files/frr.conf"),
    lab_file!("collector/files/gobgp.toml"),
    super::CAPTURE,
];

/// Speakers.
pub(super) const PEERS: usize = 5;
/// Bytes of payload in a full datagram, and on the wire.
const PAYLOAD: f64 = 1472.0 / 1538.0;
/// Rate of the lines to the traffic generators, in Mbit/s.
const LINE: f64 = 100.0;

/// A program that can be the router: its name in the lab, in print, and the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Daemon {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    program: &'static str,
}

pub(super) const BIRD: Daemon = Daemon { name: "bird", title: "BIRD", program: "bird" };
pub(super) const FRR: Daemon = Daemon { name: "frr", title: "FRR", program: "bgpd" };

/// Those that are installed.
pub(super) fn installed() -> Result<Vec<Daemon>> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/lib/frr"].map(PathBuf::from);
    let folders: Vec<PathBuf> = std::env::split_paths(&paths).chain(more).collect();
    let there = |daemon: &Daemon| folders.iter().any(|dir| dir.join(daemon.program).is_file());
    let found: Vec<Daemon> = [BIRD, FRR].into_iter().filter(there).collect();
    if found.is_empty() {
        let text = "it takes a real router: install bird2 or frr (`apt-get install bird2 frr`)";
        return Err(Error::Refused(text.to_owned()));
    }
    Ok(found)
}

/// A run to be made with a router, and what its programs leave behind.
pub(super) struct Testbed {
    pub(super) job: Job,
    /// Archive, dump and what the collector said.
    pub(super) out: PathBuf,
}

impl Testbed {
    /// A run in which speakers follow `script`: moments and actions, in seconds since they
    /// started, about 4 s after the run.
    pub(super) fn new(
        stage: &Stage<'_>,
        name: impl Into<String>,
        daemon: Daemon,
        script: &str,
    ) -> Result<Self> {
        let name = name.into();
        let out = stage.scratch(&format!("{name}-out"))?;
        let table = stage.scratch("table")?;
        let program = stage.program().display().to_string();
        let text = |path: &Path| quoted(&path.display().to_string());
        let mut job = Job::new(LAB, name, Clock::Wall)
            .set("program.router.env.ROUTER", quoted(daemon.name))
            .set("program.speaker.env.SCRIPT", quoted(script));
        for name in ["table", "speaker"] {
            job = job.set(format!("program.{name}.env.TABLES"), text(&table));
        }
        for name in ["router", "collect"] {
            job = job.set(format!("program.{name}.env.OUT"), text(&out));
        }
        for name in ["table", "collect"] {
            job = job.set(format!("program.{name}.env.NETARIUM"), quoted(&program));
        }
        Ok(Self { job, out })
    }

    #[must_use]
    pub(super) fn set(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.job = self.job.set(field, value);
        self
    }

    /// Speakers announce the first prefixes of the table only.
    #[must_use]
    pub(super) fn prefixes(self, count: u32) -> Self {
        self.set("program.speaker.env.PREFIXES", quoted(&count.to_string()))
    }

    /// The router clones nothing.
    #[must_use]
    pub(super) fn without_mirror(self) -> Self {
        self.set("mirror.clones.filter", "tcp port 9")
    }

    /// Regular traffic in each direction at a share of the lines' rate in %, from one moment for
    /// some time, in s.
    #[must_use]
    pub(super) fn regular(self, share: f64, start: f64, duration: f64) -> Self {
        let rate = (LINE * share / 100.0 * PAYLOAD * 1e6).round();
        let mut testbed = self;
        for name in ["east", "west"] {
            testbed = testbed
                .set(format!("flow.{name}.rate"), format!("{rate:.0} bit/s"))
                .set(format!("flow.{name}.start"), format!("{start} s"))
                .set(format!("flow.{name}.duration"), format!("{duration} s"));
        }
        testbed
    }

    /// What the collector said at its end.
    pub(super) fn collected(&self) -> Result<Collected> {
        let path = self.out.join("collected.json");
        let text = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, e))?;
        serde_json::from_str(&text).map_err(|e| Error::io("read", &path, e.into()))
    }
}

/// UPDATEs that the speakers sent, and their bytes.
pub(super) fn announced(run: &Run) -> Result<(u64, u64)> {
    /// An action, as a speaker tells of it.
    #[derive(Deserialize)]
    struct Action {
        messages: u64,
        bytes: u64,
    }
    let (mut messages, mut bytes) = (0, 0);
    for peer in 1..=PEERS {
        let output = run.output(&format!("speaker.p{peer}"))?;
        let actions = output.lines().filter_map(|line| serde_json::from_str::<Action>(line).ok());
        for action in actions {
            messages += action.messages;
            bytes += action.bytes;
        }
    }
    Ok((messages, bytes))
}

/// A text as a value of a lab file.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The summary of `netarium collect --json`, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Collected {
    pub(super) segments: u64,
    pub(super) kernel_drops: u64,
    pub(super) missing_bytes: u64,
    pub(super) duplicate_bytes: u64,
    pub(super) stream_bytes: u64,
    pub(super) gaps: u64,
    pub(super) peerings: u64,
    pub(super) bad_checksums: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_texts_whatever_is_in_them() {
        assert_eq!(quoted("20"), "\"20\"");
        assert_eq!(quoted("/a \"b\"\\c"), r#""/a \"b\"\\c""#);
    }
}
