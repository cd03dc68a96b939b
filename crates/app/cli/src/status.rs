//! Status of long-running commands: serving it and showing it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Metric;
use bundler_live::config::STATUS_FOLDER;
use serde_json::{Value, json};

use crate::args::{Status, Watch};
use crate::daemon::{self, Daemon};
use crate::terminal::Terminal;
use crate::{Failure, Verdict};
use run::Exit;

/// The status source of a long-running command.
pub(crate) struct Watched<B> {
    pub(crate) prefix: &'static str,
    pub(crate) board: B,
    pub(crate) status: fn(&B) -> Value,
    pub(crate) metrics: fn(&B) -> Vec<Metric>,
    pub(crate) is_healthy: fn(&B) -> bool,
}

impl<B: Send + Sync + 'static> ops::Source for Watched<B> {
    fn prefix(&self) -> &'static str {
        self.prefix
    }

    fn status(&self) -> Value {
        (self.status)(&self.board)
    }

    fn metrics(&self) -> Vec<Metric> {
        (self.metrics)(&self.board)
    }

    fn is_healthy(&self) -> bool {
        (self.is_healthy)(&self.board)
    }
}

/// Serves a status socket and an HTTP address until the server is dropped.
pub(crate) fn serve(
    source: impl ops::Source,
    socket: Option<&Path>,
    address: Option<SocketAddr>,
) -> Result<ops::Server, Failure> {
    ops::Server::start(Arc::new(source), socket, address).map_err(|e| failure(&e))
}

/// Like [`serve()`], as given by the options. Continues without the default socket if that fails.
pub(crate) fn watch(
    source: impl ops::Source,
    args: &Watch,
    default: Option<PathBuf>,
    terminal: &Terminal,
) -> Result<ops::Server, Failure> {
    let source: Arc<dyn ops::Source> = Arc::new(source);
    let start = |socket: Option<&Path>| {
        ops::Server::start(Arc::clone(&source), socket, args.metrics).map_err(|e| failure(&e))
    };
    match (&args.status, default) {
        (None, Some(default)) => start(Some(&default)).or_else(|failure| {
            terminal.note(format!("note: no status socket: {}", failure.message));
            start(None)
        }),
        (given, _) => start(given.as_deref()),
    }
}

/// The folder of status sockets of a kind of command, of root or of the user.
fn folder(kind: &str) -> Option<PathBuf> {
    let base = if rustix::process::geteuid().is_root() {
        PathBuf::from("/run")
    } else {
        PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?)
    };
    Some(base.join("netarium").join(kind))
}

/// The default socket of this process, which may change its user.
pub(crate) fn socket(kind: &str, daemon: Option<&Daemon>) -> Result<Option<PathBuf>, Failure> {
    let own = match daemon {
        Some(daemon) => daemon.status_folder(kind)?,
        None => None,
    };
    let folder = own.or_else(|| folder(kind));
    Ok(folder.map(|folder| folder.join(format!("{}.sock", std::process::id()))))
}

/// The folders with status sockets of a kind of command.
pub(crate) fn folders(kind: &str) -> impl Iterator<Item = PathBuf> {
    folder(kind).into_iter().chain(daemon::status_folders(kind))
}

pub(crate) fn status(args: &Status, terminal: &Terminal) -> Verdict {
    let gateways = [PathBuf::from(STATUS_FOLDER)].into_iter().chain(folders("bundle"));
    let all = gateways.chain(["mctcp", "collect", "agent", "lab"].into_iter().flat_map(folders));
    let found = find(&args.sockets, all, None, "no long-running command is running", terminal)?;
    if terminal.json {
        terminal.object(&json!({"schema": "netarium.status/1", "commands": found}))?;
    } else if found.is_empty() {
        terminal.note("no long-running command is running");
    } else {
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        terminal.data(terminal.table(&["command", "name", "pid", "up", "now"], &rows))?;
    }
    Ok(Exit::Ok)
}

/// The text of a JSON string; empty for other values.
pub(crate) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn row(status: &Value) -> Vec<String> {
    let text = |key: &str| status[key].as_str().unwrap_or("-").to_owned();
    let count = |key: &str| status[key].as_array().map_or(0, Vec::len);
    let role = text("role");
    let (name, now) = match status["schema"].as_str() {
        Some("netarium.bundle/1") => (text("device"), format!("{} bundles", count("bundles"))),
        Some("netarium.mctcp/1") => ("-".to_owned(), format!("{} sessions", status["sessions"])),
        Some("netarium.collector/1") => (
            text("name"),
            format!("{} of {} BGP sessions established", status["established"], status["peerings"]),
        ),
        Some("netarium.agent/1") => {
            (text("name"), format!("{} labs, {} peers", count("labs"), count("peers")))
        }
        Some("netarium.lab/1") => (text("name"), lab_state(status)),
        _ => (text("name"), "-".to_owned()),
    };
    let up = status["uptime_s"].as_f64().map_or_else(|| "-".to_owned(), |up| format!("{up:.0} s"));
    vec![role, name, status["pid"].to_string(), up, now]
}

/// Lab time, and the outcome or whether the results so far are trusted.
fn lab_state(status: &Value) -> String {
    let time = status["time_s"].as_f64().unwrap_or_default();
    let state = match (status["outcome"].as_str(), status["machine"]["trusted"].as_bool()) {
        (Some(outcome), _) => outcome,
        (None, Some(false)) => "not trusted",
        (None, _) => "running",
    };
    format!("lab time {time:.0} s, {state}")
}

/// The status at each socket; default: all sockets found. With `schema`, only of this schema.
fn find(
    given: &[PathBuf],
    folders: impl Iterator<Item = PathBuf>,
    schema: Option<&str>,
    none: &str,
    terminal: &Terminal,
) -> Result<Vec<Value>, Failure> {
    let found = if given.is_empty() { daemon::sockets(folders)? } else { given.to_vec() };
    let mut list = Vec::new();
    for path in &found {
        match ops::read_status(path, schema) {
            Ok(status) => list.push(status),
            // The socket of a killed process remains.
            Err(error) if given.is_empty() => terminal.note(format!("note: {error}")),
            Err(error) => return Err(failure(&error).help(none)),
        }
    }
    Ok(list)
}

/// The status output of a kind of command.
pub(crate) struct Kind<'a> {
    pub(crate) schema: &'a str,
    /// Schema and key of the list.
    pub(crate) list: (&'a str, &'a str),
    /// The message if there is none.
    pub(crate) none: &'a str,
    /// Formats a status as a table.
    pub(crate) table: fn(&Value, &Terminal) -> String,
}

/// Shows the status of commands at sockets; default: of all running ones.
pub(crate) fn show(
    kind: &Kind<'_>,
    given: &[PathBuf],
    folders: impl Iterator<Item = PathBuf>,
    terminal: &Terminal,
) -> Verdict {
    let list = find(given, folders, Some(kind.schema), kind.none, terminal)?;
    let (schema, key) = kind.list;
    if terminal.json {
        terminal.object(&json!({"schema": schema, key: list}))?;
    } else if list.is_empty() {
        terminal.note(kind.none);
    } else {
        for status in &list {
            terminal.data((kind.table)(status, terminal))?;
        }
    }
    Ok(Exit::Ok)
}

fn failure(error: &ops::Error) -> Failure {
    let failure = Failure::caused(Exit::Machine, error);
    match error {
        ops::Error::Running(_) => {
            failure.help("stop that process, or choose another status socket")
        }
        _ => failure,
    }
}
