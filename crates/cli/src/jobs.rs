//! `run` with several labs: each is a `netarium run` of its own that knows nothing of the others.
//! What they share is the moment when they begin, and that one Ctrl-C ends them all.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use emu::registry::Registry;
use record::{RunFolder, RunRecord};
use report::LabRow;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use signal_hook::consts::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};

use crate::args::{Changes, Run};
use crate::exit::Exit;
use crate::progress::Line;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, files, interrupts, labs, repeat, run};

/// The progress line is drawn this often.
const ROUND: Duration = Duration::from_millis(200);

/// What happens to jobs, by their number.
enum News {
    /// Its network stands, and waits for the word to begin.
    Stands(usize),
    /// It has written a line of results.
    Said(usize, String),
    /// It has said something on the side.
    Talked(usize, String),
    /// It has ended, and all that it had to say has been heard.
    Over(usize),
    /// The user wants all to end.
    Interrupted,
}

/// Runs all labs of the command line at once.
pub(crate) fn run(args: &Run, terminal: &Terminal) -> Verdict {
    let wanted = wanted(args, terminal)?;
    let (sender, news) = mpsc::channel();
    let interrupted = sender.clone();
    interrupts::each(move || {
        // Nobody hears once all is over.
        let _ = interrupted.send(News::Interrupted);
    })?;
    let longest = wanted.iter().map(|(_, _, longest)| *longest).max().unwrap_or_default();
    terminal.talk(format!("{} labs at once, {longest} at most", wanted.len()));
    let mut all = All { jobs: Vec::new(), terminal, begun: None, asked: 0 };
    for (name, file, _) in wanted {
        if let Err(error) = all.add(args, &name, &file, &sender) {
            all.give_up();
            return Err(Failure::machine(format!("cannot start {name}: {error}")));
        }
    }
    let line = Line::new(terminal.progress() && !args.no_progress);
    let attended = all.attend(&news, longest, &line);
    line.clear();
    attended?;
    let exits = all.jobs.iter().map(|job| job.exit.unwrap_or(Exit::Bug));
    let worst = exits.max().unwrap_or(Exit::Ok);
    if !terminal.json {
        let rows: Vec<LabRow> = all.jobs.into_iter().flat_map(|job| job.rows).collect();
        terminal.data(report::labs_table(&rows))?;
        if !args.no_report {
            let runs = repeat::quote_path(&args.runs);
            terminal.talk(format!("reports: {runs}/RUN/report.html"));
        }
    }
    Ok(worst)
}

/// The jobs that the command line asks for: a name for each, its file and how long it may take.
/// Whatever is wrong with any of the files is said before anything starts.
fn wanted(args: &Run, terminal: &Terminal) -> Result<Vec<(String, PathBuf, base::Span)>, Failure> {
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    let mut wanted = Vec::new();
    for file in &args.labs {
        let changes = Changes { lab: file.clone(), edits: args.edits.clone() };
        let is_spread = args.spread.target.name().is_some();
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
            wanted.push((name, file.clone(), base::Span::from_nanos(nanos)));
        }
    }
    Ok(wanted)
}

/// Starts a job: its process, and the way to tell it when to begin.
fn start(args: &Run, file: &Path) -> io::Result<(Child, UnixStream)> {
    let (starter, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", "--json", "--quiet", "--no-progress", "--await-start"]);
    command.arg("--runs").arg(&args.runs).args(edits(args)).args(run::words(args));
    command.args(args.no_report.then_some("--no-report")).arg("--").arg(file);
    // The terminal's Ctrl-C is for this process, which tells the jobs.
    command.process_group(0).stdin(Stdio::from(OwnedFd::from(theirs)));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    Ok((child, starter))
}

fn edits(args: &Run) -> Vec<String> {
    let edits = &args.edits;
    let mut words = Vec::new();
    words.extend(edits.seed.map(|seed| format!("--seed={seed}")));
    words.extend(edits.duration.map(|duration| format!("--duration={duration}")));
    words.extend(edits.name.as_ref().map(|name| format!("--name={name}")));
    words.extend(edits.set.iter().map(|(field, value)| format!("--set={field}={value}")));
    words
}

/// Makes news of every line.
fn lines(
    from: Option<impl Read + Send + 'static>,
    sender: Sender<News>,
    news: impl Fn(String) -> News + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().spawn(move || {
        let lines = from.into_iter().flat_map(|from| BufReader::new(from).lines());
        for line in lines.map_while(Result::ok) {
            if sender.send(news(line)).is_err() {
                break;
            }
        }
    })
}

/// One lab.
struct Job {
    /// Its lab's name, with a number where several have it.
    name: String,
    child: Child,
    starter: UnixStream,
    stands: bool,
    /// Where its results are, once they have a place.
    folder: Option<PathBuf>,
    rows: Vec<LabRow>,
    /// How it ended.
    exit: Option<Exit>,
}

impl Job {
    fn new(name: String, child: Child, starter: UnixStream) -> Self {
        Self { name, child, starter, stands: false, folder: None, rows: Vec::new(), exit: None }
    }

    /// Makes news of what it says, under this number.
    fn listen(&mut self, number: usize, sender: &Sender<News>) -> io::Result<()> {
        let stands = sender.clone();
        let mut told = self.starter.try_clone()?;
        // A machine that runs out of threads is no error of ours.
        thread::Builder::new().spawn(move || {
            while told.read(&mut [0]).is_ok_and(|count| count > 0) {
                let _ = stands.send(News::Stands(number));
            }
        })?;
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let talk = lines(err, sender.clone(), move |line| News::Talked(number, line))?;
        let said = lines(out, sender.clone(), move |line| News::Said(number, line))?;
        let sender = sender.clone();
        thread::Builder::new().spawn(move || {
            for reader in [said, talk] {
                let _ = reader.join();
            }
            let _ = sender.send(News::Over(number));
        })?;
        Ok(())
    }

    fn may_begin(&mut self) {
        // A job that is gone has said so, or will.
        let _ = self.starter.write(&[1]);
    }

    /// Asks it to end: first in order, then at once.
    fn end(&self, asked: u32) {
        if asked == 1 {
            let _ = self.starter.shutdown(Shutdown::Write);
        } else if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It has not been waited for: the number is still its own.
            let _ = rustix::process::kill_process(pid, Signal::INT);
        }
    }

    fn row(&mut self, record: Option<RunRecord>, exit: Exit) {
        let ended = exit.words().to_owned();
        self.rows.push(LabRow { name: self.name.clone(), record, ended });
    }
}

/// All labs.
struct All<'a> {
    jobs: Vec<Job>,
    terminal: &'a Terminal,
    begun: Option<Instant>,
    /// How often the user asked to end.
    asked: u32,
}

impl All<'_> {
    fn add(
        &mut self,
        args: &Run,
        name: &str,
        file: &Path,
        sender: &Sender<News>,
    ) -> io::Result<()> {
        let (child, starter) = start(args, file)?;
        let number = self.jobs.len();
        self.jobs.push(Job::new(name.to_owned(), child, starter));
        self.jobs[number].listen(number, sender)
    }

    /// Ends jobs that have not begun, because not all could be started.
    fn give_up(&mut self) {
        self.jobs.iter().for_each(|job| job.end(1));
        for job in &mut self.jobs {
            // What it has to say is of no interest any more.
            let _ = job.child.wait();
        }
    }

    /// Sees all jobs to their end.
    fn attend(
        &mut self,
        news: &Receiver<News>,
        longest: base::Span,
        line: &Line,
    ) -> Result<(), Failure> {
        while self.jobs.iter().any(|job| job.exit.is_none()) {
            if let Ok(news) = news.recv_timeout(ROUND) {
                self.take(news)?;
            }
            let all_stand = || self.jobs.iter().all(|job| job.stands || job.exit.is_some());
            if self.begun.is_none() && all_stand() {
                self.begin();
            }
            let over = self.jobs.iter().filter(|job| job.exit.is_some()).count();
            let since = self.begun.map(|begun| begun.elapsed());
            line.show_labs(self.jobs.len() - over, self.jobs.len(), since, longest);
        }
        Ok(())
    }

    fn take(&mut self, news: News) -> Result<(), Failure> {
        match news {
            News::Stands(number) => {
                self.jobs[number].stands = true;
                if self.begun.is_some() {
                    // The next run of a sweep.
                    self.find_folders();
                    self.jobs[number].may_begin();
                }
            }
            News::Said(number, line) => self.said(number, &line)?,
            News::Talked(number, line) => {
                self.terminal.error(format!("{}: {line}", self.jobs[number].name));
            }
            News::Over(number) => self.over(number)?,
            News::Interrupted => {
                self.asked += 1;
                let going = self.jobs.iter().filter(|job| job.exit.is_none());
                going.for_each(|job| job.end(self.asked));
            }
        }
        Ok(())
    }

    /// Lets all begin that stand.
    fn begin(&mut self) {
        self.begun = Some(Instant::now());
        self.find_folders();
        self.jobs.iter_mut().filter(|job| job.stands).for_each(Job::may_begin);
    }

    /// Notes where the results of jobs will be: one that is killed cannot say it any more.
    fn find_folders(&mut self) {
        let listing = Registry::open().and_then(|registry| registry.list());
        for entry in listing.map(|listing| listing.live).unwrap_or_default() {
            let pid = entry.supervisor.pid;
            let job = self.jobs.iter_mut().find(|job| job.exit.is_none() && job.child.id() == pid);
            if let Some(job) = job {
                job.folder = Some(entry.folder);
            }
        }
    }

    /// Takes in a record or an error.
    fn said(&mut self, number: usize, line: &str) -> Result<(), Failure> {
        let job = &mut self.jobs[number];
        let Ok(mut value) = serde_json::from_str::<Value>(line) else {
            self.terminal.error(format!("{}: {line}", job.name));
            return Ok(());
        };
        if value["schema"] == "netarium.error/1" {
            value["lab"] = job.name.clone().into();
            return tell_error(&value, self.terminal);
        }
        if self.terminal.json {
            self.terminal.object(&value)?;
        }
        if let Ok(record) = serde_json::from_value::<RunRecord>(value) {
            let exit = record.exit_code.map_or(Exit::Bug, |code| Exit::of_run(code.into()));
            job.row(Some(record), exit);
            // Told: nothing more is to be found there.
            job.folder = None;
        }
        Ok(())
    }

    /// Notes how a job ended.
    fn over(&mut self, number: usize) -> Result<(), Failure> {
        let terminal = self.terminal;
        let job = &mut self.jobs[number];
        let status = job.child.wait()?;
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::of_run(code),
            (None, Some(SIGABRT | SIGBUS | SIGFPE | SIGILL | SIGSEGV | SIGSYS)) => Exit::Bug,
            _ => Exit::Interrupted,
        };
        job.exit = Some(exit);
        if status.code().is_none() {
            let how = killed_by(status);
            let message = format!("{how}; the other labs go on");
            let error = json!({"schema": "netarium.error/1", "message": message, "help": null,
                "exit_code": exit.code(), "lab": job.name});
            tell_error(&error, terminal)?;
            // Its record says that it was killed, once what is left of it is cleared away.
            labs::swept(terminal)?;
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

fn tell_error(error: &Value, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return Ok(terminal.object(error)?);
    }
    let text = |field: &str| error[field].as_str().map(str::to_owned);
    let head = terminal.paint_talk(Style::Bad, "error:");
    let (lab, message) = (text("lab").unwrap_or_default(), text("message").unwrap_or_default());
    terminal.error(format!("{head} {lab}: {message}"));
    if let Some(help) = text("help") {
        let head = terminal.paint_talk(Style::Strong, "help:");
        terminal.error(format!("{head} {help}"));
    }
    Ok(())
}
