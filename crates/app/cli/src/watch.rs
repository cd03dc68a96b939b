//! `watch`, and the live view of `run` and `up`.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ::watch::{Error, Server, Simulation};
use emu::control::WatchedRun;
use emu::registry::{Entry, Registry};
use lab::plan::Plan;
use run::live::ClockChange;
use run::{Exit, RunRecord};
use serde_json::json;
use sim::ABSENCE_TIMEOUT;
use sim::live::Live;
use tempfile::NamedTempFile;

use crate::args::watch::{LOOPBACK, Watch};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, interrupts, labs, results};

const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// Environment variables of graphical sessions; without them, no browser is opened.
const DISPLAY_VARIABLES: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

pub(crate) fn watch(args: &Watch, terminal: &Terminal) -> Verdict {
    let (name, run) = find(&args.run, args.read_only, terminal)?;
    let stop = interrupts::flag()?;
    let server = start(args.listen, run)?;
    let page = if args.no_open { None } else { open(&server.url) };
    show(&name, &server, terminal)?;
    terminal.note("Ctrl-C ends the live view, not the lab");
    wait(&stop);
    drop(page);
    Ok(Exit::Ok)
}

fn wait(stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        std::thread::sleep(INTERRUPT_INTERVAL);
    }
}

/// The run to show, and its name: of a running lab, or of a folder.
pub(crate) fn find(
    wanted: &str,
    read_only: bool,
    terminal: &Terminal,
) -> Result<(String, WatchedRun), Failure> {
    let registry = labs::swept_registry(terminal)?;
    let path = Path::new(wanted);
    let entry = match registry.find(wanted)? {
        Some(entry) => Some(entry),
        None if path.exists() => running(&registry, path)?,
        // Lists the running labs.
        None => Some(labs::find(&registry, wanted).map_err(|failure| {
            let help = failure.help.clone().unwrap_or_default();
            failure.help(format!("{help}; or give the folder of a run"))
        })?),
    };
    let Some(entry) = entry else {
        let (folder, record) = results::open(path)?;
        if record.conclusion().is_none() {
            return Err(unsupported(&record.name));
        }
        let name = format!("{}-{}", record.name, record.id);
        return Ok((
            name,
            WatchedRun { folder: folder.path().to_owned(), socket: None, read_only, shell: None },
        ));
    };
    Ok((entry.name.clone(), run_of(&entry, read_only)?))
}

/// The running lab with this run folder.
fn running(registry: &Registry, path: &Path) -> Result<Option<Entry>, Failure> {
    let Ok(path) = path.canonicalize() else { return Ok(None) };
    Ok(registry.list()?.live.into_iter().find(|entry| entry.folder == path))
}

fn run_of(entry: &Entry, read_only: bool) -> Result<WatchedRun, Failure> {
    let Some(socket) = entry.socket.clone() else { return Err(unsupported(&entry.name)) };
    let program = std::env::current_exe()?.into();
    let shell = vec![program, "shell".into(), entry.id.clone().into(), "--".into()];
    let folder = entry.folder.clone();
    Ok(WatchedRun { folder, socket: Some(socket), read_only, shell: Some(shell) })
}

fn unsupported(name: &str) -> Failure {
    Failure::usage(format!("{name} runs on several machines, whose live view is not supported"))
        .help("watch the run folder after the end of the run")
}

fn start(address: SocketAddr, run: WatchedRun) -> Result<Server, Failure> {
    Server::start(address, run).map_err(|error| match error {
        Error::NotLoopback(_) => Failure::usage(error)
            .help("use 127.0.0.1:PORT, and `ssh -L` to watch from another machine"),
        error => Failure::machine(error),
    })
}

/// Starts the live view of a lab that is up.
pub(crate) fn of_entry(entry: &Entry, terminal: &Terminal) -> Result<Server, Failure> {
    let server = start(LOOPBACK, run_of(entry, false)?)?;
    show(&entry.name, &server, terminal)?;
    Ok(server)
}

/// Serves the live view of a lab that is up, until a signal.
pub(crate) fn until_interrupted(entry: &Entry, terminal: &Terminal) -> Verdict {
    let stop = interrupts::flag()?;
    let _server = of_entry(entry, terminal)?;
    wait(&stop);
    Ok(Exit::Ok)
}

/// The lab that this process runs, once it is registered.
pub(crate) fn own_entry() -> Result<Option<Entry>, Failure> {
    let own = |entry: &Entry| entry.supervisor.pid == std::process::id();
    let listing = Registry::open().and_then(|registry| registry.list())?;
    Ok(listing.live.into_iter().find(own))
}

/// The live view of `run --watch`.
pub(crate) struct RunView<'a> {
    terminal: &'a Terminal,
    server: Option<Server>,
    has_failed: bool,
}

impl<'a> RunView<'a> {
    pub(crate) fn new(terminal: &'a Terminal) -> Self {
        Self { terminal, server: None, has_failed: false }
    }

    /// Starts the server for the lab that this process runs, once that is registered. Before, this
    /// process may have one thread only.
    pub(crate) fn start(&mut self) {
        if self.server.is_some() || self.has_failed {
            return;
        }
        let started = match own_entry() {
            Ok(Some(entry)) => of_entry(&entry, self.terminal).map(Some),
            Ok(None) => Ok(None),
            Err(failure) => Err(failure),
        };
        match started {
            Ok(server) => self.server = server,
            Err(failure) => {
                self.has_failed = true;
                self.terminal.error(format!("no live view: {}", failure.message));
            }
        }
    }

    /// After the run, serves its results until Ctrl-C, if a user is at the terminal.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        if self.server.is_some() {
            let stop = interrupts::flag()?;
            show_results(self.terminal, &stop);
        }
        Ok(())
    }
}

pub(crate) fn reject_sweep(option: &str, runs: usize) -> Result<(), Failure> {
    if runs < 2 {
        return Ok(());
    }
    let message = format!("{option} shows one run, and the lab has {runs}");
    Err(Failure::usage(message).help("choose one value of each swept key with --set"))
}

/// The live view of `sim --watch`.
pub(crate) struct SimulationView<'a> {
    terminal: &'a Terminal,
    name: String,
    live: Arc<Live>,
    feed: Option<Simulation>,
    server: Option<Server>,
    has_failed: bool,
    is_unattended: bool,
}

impl<'a> SimulationView<'a> {
    pub(crate) fn new(plan: &Plan, terminal: &'a Terminal) -> Result<Self, Failure> {
        let live = Arc::new(Live::new(plan));
        let feed = Simulation::start(Arc::clone(&live));
        let failed = |error: std::io::Error| Failure::machine(format!("no live view: {error}"));
        Ok(Self {
            terminal,
            name: plan.name.clone(),
            live,
            feed: Some(feed.map_err(failed)?),
            server: None,
            has_failed: false,
            is_unattended: false,
        })
    }

    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }

    /// Starts the server once the run has started, and notes when the run continues without
    /// a page.
    pub(crate) fn update(&mut self) {
        let is_unattended = self.live.is_unattended();
        if is_unattended && !self.is_unattended {
            let timeout = ABSENCE_TIMEOUT.as_secs();
            let text = format!("no page was open for {timeout} s: the run goes on at full speed");
            self.terminal.note(text);
        }
        self.is_unattended = is_unattended;
        if self.server.is_none()
            && !self.has_failed
            && let Some(hello) = self.live.hello()
            && let Err(failure) = self.serve(PathBuf::from(hello.run))
        {
            // Without a page, the run would wait indefinitely.
            self.live.watch(true);
            self.live.change(ClockChange::Speed { permille: None });
            self.has_failed = true;
            self.terminal.error(format!("no live view: {}", failure.message));
        }
    }

    fn serve(&mut self, folder: PathBuf) -> Result<(), Failure> {
        let socket = self.feed.as_ref().map(Simulation::socket);
        let run = WatchedRun { folder, socket, read_only: false, shell: None };
        let server = start(LOOPBACK, run)?;
        show(&self.name, &server, self.terminal)?;
        self.terminal.note("the run starts when a page opens this link; Ctrl-C ends it");
        self.server = Some(server);
        Ok(())
    }

    /// Shows the end of the run.
    pub(crate) fn end(&mut self, record: Option<&RunRecord>) {
        if let Some(feed) = self.feed.take() {
            feed.end(record);
        }
    }

    /// After the run, serves its results until Ctrl-C, if a user is at the terminal.
    pub(crate) fn finish(self, stop: &AtomicBool) {
        if self.server.is_some() {
            show_results(self.terminal, stop);
        }
    }
}

/// Waits for a signal while the live view shows the results, if a user is at the terminal.
fn show_results(terminal: &Terminal, stop: &AtomicBool) {
    if std::io::stderr().is_terminal() {
        terminal.note("the live view shows the results until Ctrl-C");
        wait(stop);
    }
}

fn show(name: &str, server: &Server, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        let (url, address) = (&server.url, server.address.to_string());
        terminal.object(&json!({
            "schema": "netarium.watch-server/1", "lab": name, "url": url, "address": address,
        }))?;
    } else {
        terminal.data(format!("{name}: {}", server.url))?;
    }
    Ok(())
}

/// Opens the page in a browser. The URL has a secret, which other users must not see in the list of
/// processes. Therefore the browser opens a file of this user that redirects to the page. Dropping
/// the result removes the file.
fn open(url: &str) -> Option<NamedTempFile> {
    let has_display = DISPLAY_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    if !has_display || !std::io::stdout().is_terminal() {
        return None;
    }
    let mut file = tempfile::Builder::new().prefix("netarium-").suffix(".html").tempfile().ok()?;
    let page = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\">\n");
    file.write_all(page.as_bytes()).ok()?;
    let mut command = Command::new("xdg-open");
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok().map(|_| file)
}
