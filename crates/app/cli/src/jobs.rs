//! `run` with several labs: each is a separate `netarium run` process. They start together, and one
//! Ctrl-C stops all of them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use base::Span;
use emu::registry::Registry;
use report::LabRow;
use run::supervisor::{Event, Supervisor};
use run::{Exit, RunFolder, RunRecord};
use serde_json::{Value, json};
use signal_hook::consts::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};

use crate::args::{Changes, Edits, Run};
use crate::progress::Line;
use crate::run::repeat_options;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, files, interrupts, labs, repeat};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Runs all labs of the command line in parallel.
pub(crate) fn run(args: &Run, terminal: &Terminal) -> Verdict {
    let expected = expected_jobs(args, terminal)?;
    let interrupts = interrupts::count()?;
    let max_duration = expected.iter().map(|(_, _, duration)| *duration).max().unwrap_or_default();
    terminal.note(format!("{} labs in parallel, max duration {max_duration}", expected.len()));
    let mut supervisor = Supervisor::together();
    let mut jobs = Vec::new();
    for (name, lab, _) in expected {
        let file = &args.labs[lab];
        let started = command(args, file).and_then(|mut all| supervisor.start(&mut all, true));
        started.map_err(|e| Failure::machine(format!("cannot start {name}: {e}")))?;
        jobs.push(Job { lab, name, folder: None, rows: Vec::new(), exit: None });
    }
    let mut all = Jobs { supervisor, queue: jobs, terminal };
    let line = Line::new(terminal.progress() && !args.no_progress);
    while all.supervisor.is_running() {
        all.supervisor.stop(interrupts.load(SeqCst));
        all.step()?;
        let begun = all.supervisor.begun().map(|begun| begun.elapsed());
        line.show_labs(all.supervisor.running().count(), all.queue.len(), begun, max_duration);
    }
    line.clear();
    let exits = all.queue.iter().map(|job| job.exit.unwrap_or(Exit::Internal));
    let worst = exits.max().unwrap_or(Exit::Ok);
    if !terminal.json {
        all.queue.sort_by_cached_key(|job| (job.lab, job.name.len(), job.name.clone()));
        let rows: Vec<LabRow> = all.queue.into_iter().flat_map(|job| job.rows).collect();
        terminal.data(terminal.rendered(|to| report::labs_table(&rows, to)))?;
        if !args.no_report {
            let runs = repeat::quote_path(&args.runs);
            terminal.note(format!("reports: {runs}/RUN/report.html"));
        }
    }
    Ok(worst)
}

/// Expected name, position among the lab files, and maximum duration of each job. Reports errors in
/// any of the files before a job starts.
fn expected_jobs(args: &Run, terminal: &Terminal) -> Result<Vec<(String, usize, Span)>, Failure> {
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut expected = Vec::new();
    for (position, file) in args.labs.iter().enumerate() {
        let changes = Changes { lab: file.clone(), edits: args.edits.clone() };
        let is_spread = args.spread.cluster().is_some();
        let load = if is_spread { files::load_elsewhere } else { files::load };
        let lab = load(&changes, terminal)?;
        let Some(first) = lab.plans.first() else { continue };
        let nanos = lab.plans.iter().map(|plan| plan.duration.as_nanos()).sum();
        for _ in 0..args.copies.get() {
            let count = names.entry(first.name.clone()).or_default();
            *count += 1;
            let name = match count {
                1 => first.name.clone(),
                count => format!("{}-{count}", first.name),
            };
            expected.push((name, position, Span::from_nanos(nanos)));
        }
    }
    Ok(expected)
}

fn command(args: &Run, file: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", "--json", "--quiet", "--no-progress", "--await-start"]);
    command.args(NO_COLOR);
    command.arg("--runs").arg(&args.runs).args(edits(&args.edits)).args(repeat_options(args));
    command.args(args.no_report.then_some("--no-report")).arg("--").arg(file);
    Ok(command)
}

/// Options of processes whose output this one prints: it would show escape sequences as text.
pub(crate) const NO_COLOR: [&str; 2] = ["--color", "never"];

/// The changes of the lab file, as options of a new process.
pub(crate) fn edits(edits: &Edits) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(edits.seed.map(|seed| format!("--seed={seed}")));
    words.extend(edits.duration.map(|duration| format!("--duration={duration}")));
    words.extend(edits.name.as_ref().map(|name| format!("--name={name}")));
    words.extend(edits.set.iter().map(|(field, value)| format!("--set={field}={value}")));
    words
}

struct Job {
    /// Position of its file on the command line.
    lab: usize,
    /// Name in the registry; before the job is registered, the expected one.
    name: String,
    /// The folder of its current run, after the run is registered.
    folder: Option<PathBuf>,
    rows: Vec<LabRow>,
    exit: Option<Exit>,
}

impl Job {
    fn row(&mut self, record: Option<RunRecord>, exit: Exit) {
        let ended = exit.words().to_owned();
        self.rows.push(LabRow { name: self.name.clone(), record, ended });
    }
}

/// All jobs, by their numbers in the supervisor.
struct Jobs<'a> {
    supervisor: Supervisor,
    queue: Vec<Job>,
    terminal: &'a Terminal,
}

impl Jobs<'_> {
    fn step(&mut self) -> Result<(), Failure> {
        let events = self.supervisor.wait(PROGRESS_INTERVAL)?;
        if events.iter().any(|event| matches!(event, Event::Ready(_))) {
            self.find_entries();
        }
        for event in events {
            match event {
                Event::Ready(_) => {}
                Event::Output(number, line) => self.process_output(number, &line)?,
                Event::Log(number, line) => {
                    self.terminal.error(format!("{}: {line}", self.queue[number].name));
                }
                Event::Ended(number, status) => self.end(number, status)?,
            }
        }
        Ok(())
    }

    /// Reads names and folders of jobs from the registry, because a killed job does not report its
    /// own.
    fn find_entries(&mut self) {
        let listing = Registry::open().and_then(|registry| registry.list());
        for entry in listing.map(|listing| listing.live).unwrap_or_default() {
            let pid = entry.supervisor.pid;
            let number = self.supervisor.running().find(|at| self.supervisor.pid(*at) == pid);
            if let Some(number) = number {
                self.queue[number].name = entry.name;
                self.queue[number].folder = Some(entry.folder);
            }
        }
    }

    /// Processes a record or an error.
    fn process_output(&mut self, number: usize, line: &str) -> Result<(), Failure> {
        let job = &mut self.queue[number];
        let Ok(mut value) = serde_json::from_str::<Value>(line) else {
            self.terminal.error(format!("{}: {line}", job.name));
            return Ok(());
        };
        if value["schema"] == "netarium.error/1" {
            value["lab"] = job.name.clone().into();
            return print_error(&value, self.terminal);
        }
        if self.terminal.json {
            self.terminal.object(&value)?;
        }
        if let Ok(record) = serde_json::from_value::<RunRecord>(value) {
            let exit = record.exit_code.unwrap_or(Exit::Internal);
            job.row(Some(record), exit);
            // The record is reported, so `end` need not read the folder.
            job.folder = None;
        }
        Ok(())
    }

    fn end(&mut self, number: usize, status: ExitStatus) -> Result<(), Failure> {
        let terminal = self.terminal;
        let job = &mut self.queue[number];
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => u8::try_from(code).map_or(Exit::Internal, Exit::from),
            (None, Some(SIGABRT | SIGBUS | SIGFPE | SIGILL | SIGSEGV | SIGSYS)) => Exit::Internal,
            _ => Exit::Interrupted,
        };
        job.exit = Some(exit);
        if status.code().is_none() {
            let how = killed_by(status);
            let message = format!("{how}; the other labs continue");
            let error = json!({"schema": "netarium.error/1", "message": message, "help": null,
                "exit_code": exit.code(), "lab": job.name});
            print_error(&error, terminal)?;
            // Cleaning up marks its record as killed.
            labs::swept_registry(terminal)?;
            let folder = job.folder.take().and_then(|path| RunFolder::open(&path).ok());
            let record = folder.and_then(|folder| folder.read_record().ok());
            job.row(record, exit);
        } else if job.rows.is_empty() {
            job.row(None, exit);
        }
        Ok(())
    }
}

fn killed_by(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was killed by signal {signal}"),
        None => "ended without a status".to_owned(),
    }
}

fn print_error(error: &Value, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return Ok(terminal.object(error)?);
    }
    let text = |field: &str| error[field].as_str().map(str::to_owned);
    let head = terminal.paint_note(Style::Bad, "error:");
    let (lab, message) = (text("lab").unwrap_or_default(), text("message").unwrap_or_default());
    terminal.error(format!("{head} {lab}: {message}"));
    if let Some(help) = text("help") {
        let head = terminal.paint_note(Style::Strong, "help:");
        terminal.error(format!("{head} {help}"));
    }
    Ok(())
}
