//! Labs that stay up: `up`, `set`, `mark`, `down`.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use emu::control::{Answer, Finding, Request};
use emu::registry::{Entry, Registry, Stopped};
use lab::Diagnostics;
use run::{Exit, RunFolder, RunRecord};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::args::up::{Down, Mark, Set, Up};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files, interrupts, jobs, labs, metrics, run as run_command, watch};

/// The file in the run folder with the output of the process that supervises the lab.
const LOG_FILE: &str = "run.log";

/// Interval of checks for interrupts while a lab starts.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time from the start of a lab until it serves metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(5);

const METRICS_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum time for a lab to end, including the grace times of its programs.
const DOWN_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn up(args: &Up, terminal: &Terminal) -> Verdict {
    let registry = labs::swept_registry(terminal)?;
    let lab = files::load(&args.changes, terminal)?;
    let [plan] = &*lab.plans else {
        let message = format!("the lab is a sweep of {} runs", lab.plans.len());
        return Err(Failure::usage(message).help("choose one value of each swept key with --set"));
    };
    let name = &plan.name;
    if registry.find(name)?.is_some_and(|entry| entry.name == *name) {
        let failure = Failure::usage(format!("a lab with the name {name} is running already"));
        return Err(failure.help(format!(
            "end it with `netarium down {name}`, or choose another name with --name"
        )));
    }
    args.metrics.map(check_metrics_address).transpose()?;
    terminal.note(format!("{name}: seed {}, starting", plan.seed));
    let stop = interrupts::flag()?;
    let log = Log::create(&args.runs)?;
    let (parent, child_end) = UnixStream::pair()?;
    let mut child = start(args, &log.file, child_end, terminal)
        .map_err(|e| Failure::machine(format!("cannot start {name}: {e}")))?;
    parent.set_read_timeout(Some(INTERRUPT_INTERVAL))?;
    let is_up = loop {
        match (&parent).read(&mut [0]) {
            Ok(count) => break count > 0,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                if stop.load(SeqCst) {
                    break false;
                }
            }
            Err(_) => break false,
        }
    };
    drop(parent);
    let listed = if is_up { entry_of(&registry, &child)? } else { None };
    match listed {
        Some(entry) => {
            log.keep(&entry.folder)?;
            show(&entry, terminal)?;
            if let Some(address) = args.metrics {
                note_metrics(address, &entry, terminal);
            }
            if args.watch { watch::until_interrupted(&entry, terminal) } else { Ok(Exit::Ok) }
        }
        None if is_up => {
            end(&mut child)?;
            let dir = registry.dir().display();
            Err(Failure::machine(format!("{name} could not be registered in {dir}, and has ended")))
        }
        None => {
            let status = child.wait()?;
            log.print(terminal)?;
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            match code.map(Exit::from) {
                _ if stop.load(SeqCst) => Ok(Exit::Interrupted),
                Some(Exit::Ok) | None => {
                    let message = format!("{name} ended before it was up: {status}");
                    Err(Failure::new(Exit::Internal, message))
                }
                // The supervising process has printed the reason.
                Some(exit) => Err(Failure::silent(exit)),
            }
        }
    }
}

/// Fails if the process that supervises the lab cannot serve metrics at this address.
fn check_metrics_address(address: SocketAddr) -> Result<(), Failure> {
    if address.port() == 0 {
        return Err(Failure::usage("--metrics of `up` needs a port other than 0"));
    }
    metrics::check_address(address)
}

/// Waits until the lab's process serves metrics, and notes the address.
fn note_metrics(address: SocketAddr, entry: &Entry, terminal: &Terminal) {
    let until = Instant::now() + METRICS_TIMEOUT;
    while TcpStream::connect(address).is_err() {
        if Instant::now() >= until {
            let log = entry.folder.join(LOG_FILE);
            return terminal.error(format!("no metrics at {address}: see {}", log.display()));
        }
        std::thread::sleep(METRICS_RETRY_INTERVAL);
    }
    terminal.note(format!("metrics at http://{address}/metrics"));
}

/// Starts the process that supervises the lab. It leaves this session, so that neither the terminal
/// nor its signals affect the lab.
fn start(args: &Up, log: &File, parent: UnixStream, terminal: &Terminal) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", "--detached", "--quiet", "--no-progress"]).args(jobs::NO_COLOR);
    command.args(terminal.json.then_some("--json")).args(args.no_report.then_some("--no-report"));
    command.args(args.metrics.map(|address| format!("--metrics={address}")));
    command.arg("--runs").arg(&args.runs).args(jobs::edits(&args.changes.edits));
    command.args(run_command::engine_options(args.engine)).arg("--").arg(&args.changes.lab);
    command.stdin(OwnedFd::from(parent)).stdout(log.try_clone()?).stderr(log.try_clone()?);
    command.env_remove("NETARIUM_CLUSTER").spawn()
}

fn entry_of(registry: &Registry, child: &Child) -> Result<Option<Entry>, Failure> {
    let live = registry.list()?.live;
    Ok(live.into_iter().find(|entry| entry.supervisor.pid == child.id()))
}

fn end(child: &mut Child) -> Result<(), Failure> {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        let sent = rustix::process::kill_process(pid, Signal::TERM);
        sent.map_err(|e| Failure::machine(format!("cannot signal process {}: {e}", child.id())))?;
    }
    child.wait()?;
    Ok(())
}

fn show(entry: &Entry, terminal: &Terminal) -> Verdict {
    let record = record(entry)?;
    let nodes = record.topology.nodes.iter();
    let hosts: Vec<_> = nodes.filter(|node| entry.hosts.contains_key(&node.name)).collect();
    let name = &entry.name;
    let host = hosts.first().map_or("HOST", |node| &node.name);
    let next = [
        format!("netarium exec {name} {host} -- COMMAND"),
        format!("netarium shell {name} {host}"),
        format!("netarium down {name}"),
    ];
    if terminal.json {
        let hosts: Vec<_> = hosts
            .iter()
            .map(|node| json!({"name": node.name, "addresses": node.addresses}))
            .collect();
        terminal.object(&json!({
            "schema": "netarium.up/1",
            "name": name,
            "id": entry.id,
            "pid": entry.supervisor.pid,
            "folder": entry.folder,
            "hosts": hosts,
            "next": next,
        }))?;
        return Ok(Exit::Ok);
    }
    let folder = entry.folder.display();
    let rows: Vec<_> =
        hosts.iter().map(|node| vec![node.name.clone(), node.addresses.join(", ")]).collect();
    let table = terminal.table(&["HOST", "ADDRESSES"], &rows);
    terminal.data(format!("{name} is up: run {} in {folder}\n\n{table}", entry.id))?;
    terminal.note(format!("next: {}", next.join("\n      ")));
    Ok(Exit::Ok)
}

fn record(entry: &Entry) -> Result<RunRecord, Failure> {
    let read = RunFolder::open(&entry.folder).and_then(|folder| folder.read_record());
    read.map_err(|e| Failure::machine(format!("cannot read the run of {}: {e}", entry.name)))
}

/// Output of the supervising process: beside the run folders until the lab is up, in its run folder
/// afterwards.
struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    fn create(runs: &Path) -> Result<Self, Failure> {
        let name = format!(".up-{}.log", std::process::id());
        let failed = |e: io::Error| {
            Failure::machine(format!("cannot create {}: {e}", runs.join(&name).display()))
                .help("choose another folder for run folders with --runs")
        };
        fs::create_dir_all(runs).map_err(failed)?;
        // Programs of earlier labs may have made a link with this name.
        let path = runs.canonicalize().map_err(failed)?.join(&name);
        let file = run::files::append(&path).map_err(failed)?;
        Ok(Self { path, file })
    }

    fn keep(self, folder: &Path) -> Result<(), Failure> {
        let path = folder.join(LOG_FILE);
        run::files::rename(&self.path, &path)
            .map_err(|e| Failure::machine(format!("cannot create {}: {e}", path.display())))
    }

    /// Prints the output of a process that has ended.
    fn print(&self, terminal: &Terminal) -> io::Result<()> {
        // Programs can replace the file of this name.
        (&self.file).rewind()?;
        let mut text = Vec::new();
        (&self.file).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        if !terminal.json {
            if !text.is_empty() {
                terminal.error(&text);
            }
            return Ok(());
        }
        for line in text.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(value) if value.is_object() => terminal.object(&value)?,
                _ => terminal.error(line),
            }
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // It was moved if the lab is up.
        let _ = fs::remove_file(&self.path);
    }
}

pub(crate) fn set(args: &Set, terminal: &Terminal) -> Verdict {
    let request = Request::Set(args.fields.clone());
    let (name, at_s, events) = match answer(&args.lab, &request, terminal)? {
        (entry, Answer::Done { at_s, events, warnings, .. }) => {
            let warnings = Finding::diagnostics(&warnings, &args.fields);
            if !warnings.is_empty() {
                terminal.note(files::draw(&warnings, terminal));
            }
            (entry.name, at_s, events)
        }
        (_, Answer::Wrong { errors }) => {
            return report_errors(&Finding::diagnostics(&errors, &args.fields), terminal);
        }
        (entry, Answer::Refused { why }) => return Err(refused(&entry, &why)),
    };
    if terminal.json {
        terminal.object(&json!({
            "schema": "netarium.set/1", "ok": true, "lab": name, "at_s": at_s, "events": events,
        }))?;
    } else if events.is_empty() {
        terminal.note("nothing changed: the links have these values");
    } else {
        terminal.data(lines(at_s, &events))?;
    }
    Ok(Exit::Ok)
}

fn report_errors(found: &Diagnostics, terminal: &Terminal) -> Verdict {
    if terminal.json {
        let errors: Vec<Value> = found.list().iter().map(files::as_json).collect();
        terminal.object(&json!({"schema": "netarium.set/1", "ok": false, "errors": errors}))?;
    } else {
        terminal.error(files::draw(found, terminal));
    }
    Err(Failure::silent(Exit::Usage))
}

pub(crate) fn mark(args: &Mark, terminal: &Terminal) -> Verdict {
    let (entry, answer) = answer(&args.lab, &Request::Mark(args.text.clone()), terminal)?;
    match answer {
        Answer::Done { at_s, events, .. } => {
            if terminal.json {
                let (lab, text) = (&entry.name, &args.text);
                terminal.object(&json!({
                    "schema": "netarium.mark/1", "lab": lab, "at_s": at_s, "text": text,
                }))?;
            } else {
                terminal.data(lines(at_s, &events))?;
            }
            Ok(Exit::Ok)
        }
        Answer::Wrong { .. } => Err(refused(&entry, "the request is malformed")),
        Answer::Refused { why } => Err(refused(&entry, &why)),
    }
}

fn lines(at_s: f64, events: &[String]) -> String {
    let lines: Vec<String> = events.iter().map(|text| format!("{at_s:.6} s  {text}")).collect();
    lines.join("\n")
}

fn refused(entry: &Entry, why: &str) -> Failure {
    Failure::usage(format!("{}: {why}", entry.name))
}

/// Sends a request to a lab.
fn answer(lab: &str, request: &Request, terminal: &Terminal) -> Result<(Entry, Answer), Failure> {
    let entry = labs::find(&labs::swept_registry(terminal)?, lab)?;
    let Some(socket) = &entry.socket else {
        let failure = refused(&entry, "this lab has no socket for requests");
        return Err(failure.help("labs on several machines have none; use `[[at]]` in the file"));
    };
    let sent = emu::control::request(socket, request);
    let sent = sent.map_err(|e| Failure::machine(format!("cannot reach {}: {e}", entry.name)))?;
    let ended = || Failure::machine(format!("{} ended before it answered", entry.name));
    let answer = sent.ok_or_else(ended)?;
    Ok((entry, answer))
}

pub(crate) fn down(args: &Down, terminal: &Terminal) -> Verdict {
    let registry = labs::swept_registry(terminal)?;
    let entries = if args.all {
        let listing = registry.list()?;
        labs::note_invalid(&listing, terminal);
        listing.live
    } else {
        let found: Result<Vec<_>, _> =
            args.labs.iter().map(|lab| labs::find(&registry, lab)).collect();
        found?
    };
    if entries.is_empty() {
        terminal.note("no lab is running");
    }
    let (mut objects, mut rows) = (Vec::new(), Vec::new());
    for entry in &entries {
        let how = match entry.stop(DOWN_TIMEOUT)? {
            Stopped::Orderly => "ended",
            Stopped::Killed => "killed",
        };
        let (object, row) = ended(entry, how, terminal);
        objects.push(object);
        rows.push(row);
    }
    if terminal.json {
        terminal.object(&json!({"schema": "netarium.down/1", "labs": objects}))?;
    } else if !rows.is_empty() {
        terminal.data(terminal.table(&["NAME", "ID", "HOW", "OUTCOME", "REPORT"], &rows))?;
    }
    Ok(Exit::Ok)
}

/// The outcome of a lab that has ended, as JSON and as a row of a table.
fn ended(entry: &Entry, how: &str, terminal: &Terminal) -> (Value, Vec<String>) {
    if how == "killed" {
        labs::mark_killed(entry);
    }
    let conclusion = record(entry).ok().and_then(|record| record.conclusion());
    let outcome = conclusion.as_ref().map(|conclusion| conclusion.outcome.as_str());
    for reason in conclusion.iter().flat_map(|conclusion| &conclusion.reasons) {
        terminal.note(format!("{}: {reason}", entry.name));
    }
    let report = Some(entry.folder.join("report.html")).filter(|report| report.is_file());
    let object = json!({
        "name": entry.name,
        "id": entry.id,
        "how": how,
        "outcome": outcome,
        "reasons": conclusion.as_ref().map(|conclusion| &conclusion.reasons),
        "exit_code": conclusion.as_ref().map(|conclusion| conclusion.exit_code),
        "folder": entry.folder,
        "report": report,
    });
    let place = report.as_deref().unwrap_or(&entry.folder).display().to_string();
    let outcome = outcome.unwrap_or("unknown").to_owned();
    let row = vec![entry.name.clone(), entry.id.clone(), how.to_owned(), outcome, place];
    (object, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_link_as_log_file() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::write(&outside, "kept").unwrap();
        let name = format!(".up-{}.log", std::process::id());
        std::os::unix::fs::symlink(&outside, dir.path().join(name)).unwrap();
        assert!(Log::create(dir.path()).is_err());
        assert!(Log::create(&dir.path().join("new")).is_ok());
    }

    #[test]
    fn refuses_linked_run_folder_for_log() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        // A program has replaced the run folder.
        let folder = dir.path().join("run");
        std::os::unix::fs::symlink(&outside, &folder).unwrap();
        assert!(Log::create(dir.path()).unwrap().keep(&folder).is_err());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
