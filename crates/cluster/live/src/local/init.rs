//! Init (process 1) of a cluster on one machine.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use sys::namespace::{self, Kinds, Mode};
use sys::process::{self, Child, Exit};

use super::layout::{COORDINATOR, HOSTS, Local, REPEAT, environment, file_of};
use super::network;
use crate::authority::Authority;
use crate::credentials::Role;
use crate::{Error, Result};

/// Max time for the agents to find each other. Many agents need more CPU time to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Max time for one status command.
const STATUS_TIMEOUT: Duration = Duration::from_secs(8);
/// Pause before an agent that has ended is restarted.
const RESTART_DELAY: Duration = Duration::from_secs(1);
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
const SUPERVISION_INTERVAL: Duration = Duration::from_millis(250);
/// Validity of the certificates. A cluster on one machine ends with its command.
const VALIDITY_DAYS: u32 = 365;
/// Max bytes of an agent's output in an error message.
const MAX_QUOTE_BYTES: u64 = 600;

/// Runs the cluster. Returns the exit status. It ends when the other end of `life` is closed.
pub(super) fn run(local: &Local, place: &Path, life: OwnedFd, report: File) -> i32 {
    let mut cluster = Cluster { local, place, life, nets: Vec::new(), agents: Vec::new() };
    let result = cluster.start();
    let code = match result {
        Ok(command) => {
            drop(report);
            cluster.supervise(command)
        }
        Err(error) => {
            // It fails only if the reader has ended.
            let _ = (&report).write_all(error.to_string().as_bytes());
            70
        }
    };
    // Remaining processes keep their view of the files until they end with this one.
    let _ = namespace::detach(place);
    let _ = fs::remove_dir(place);
    code
}

struct Agent {
    child: Option<Child>,
    /// Time of its start or end.
    since: Instant,
}

struct Cluster<'a> {
    local: &'a Local,
    place: &'a Path,
    life: OwnedFd,
    nets: Vec<OwnedFd>,
    agents: Vec<Agent>,
}

impl Cluster<'_> {
    /// Makes the networks, starts the agents and then the command.
    fn start(&mut self) -> Result<Child> {
        self.prepare()?;
        self.nets = network::build(self.local, self.place)?;
        for at in 0..self.nets.len() {
            let child = Some(self.start_agent(at)?);
            self.agents.push(Agent { child, since: Instant::now() });
        }
        self.await_agents()?;
        self.start_command()
    }

    /// Makes the namespaces, `/proc`, the cluster's file system and its files.
    fn prepare(&self) -> Result<()> {
        namespace::unshare(Kinds::MOUNT | Kinds::NET)?;
        namespace::make_mounts_private()?;
        // Not permitted in containers that hide parts of /proc.
        let _ = namespace::mount_new("proc", Path::new("/proc"), Mode::Plain);
        network::mount_sysfs();
        namespace::mount_new("tmpfs", self.place, Mode::Plain)?;
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(self.place, private)
            .map_err(|e| sys::Error::file("make", self.place, e))?;
        make_folder(&self.place.join("run"))?;
        let mut hosts = String::from("agents = [");
        for (at, name) in self.local.names.iter().enumerate() {
            for folder in ["", "run", "work"] {
                make_folder(&file_of(self.place, name, folder))?;
            }
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(hosts, "{comma}\"{}\"", Local::address(at));
        }
        hosts.push_str("]\n");
        put(&self.place.join(HOSTS), &hosts)?;
        self.issue_certificates()?;
        put(&self.place.join(REPEAT), &self.local.repeat)
    }

    /// Issues credentials for the agents and the command. The authority's key is not stored.
    fn issue_certificates(&self) -> Result<()> {
        let authority = Authority::generate(VALIDITY_DAYS)?;
        let issue = |role, name: &str, dir: PathBuf| {
            authority.issue(role, name, VALIDITY_DAYS).and_then(|issued| issued.store(&dir))
        };
        for name in &self.local.names {
            issue(Role::Agent, name, file_of(self.place, name, "credentials"))?;
        }
        issue(Role::Coordinator, COORDINATOR, self.place.join(COORDINATOR))
    }

    fn start_agent(&self, at: usize) -> Result<Child> {
        let name = &self.local.names[at];
        let log = self.log(at)?;
        let mut command = Command::new(&self.local.program);
        command.arg("agent").args(["--name", name]);
        command.args(["--listen", &Local::address(at).to_string()]);
        for other in (0..self.local.names.len()).filter(|other| *other != at) {
            command.args(["--join", &Local::address(other).to_string()]);
        }
        if namespace::identity().0 == 0 {
            // Its folders belong to root.
            command.args(["--user", "root"]);
        }
        command.arg("--dir").arg(file_of(self.place, name, "work"));
        command.arg("--credentials").arg(file_of(self.place, name, "credentials"));
        command.env_remove("NETARIUM_CLUSTER");
        command.env("XDG_RUNTIME_DIR", file_of(self.place, name, "run"));
        let copy = log.try_clone().map_err(|e| sys::Error::file("open", "the log", e))?;
        command.stdin(Stdio::null()).stdout(log).stderr(copy);
        let net = self.nets[at].as_fd();
        let child = Child::of(process::fork(|| execute_agent(net, name, &mut command))?)?;
        put(&file_of(self.place, name, "pid"), &format!("{}\n", child.pid()))?;
        Ok(child)
    }

    fn log_path(&self, at: usize) -> std::io::Result<PathBuf> {
        let name = &self.local.names[at];
        let (folder, file) = match &self.local.log {
            Some(folder) => (folder.clone(), format!("{name}.log")),
            None => (file_of(self.place, name, ""), "log".to_owned()),
        };
        Ok(folder.canonicalize()?.join(file))
    }

    fn log(&self, at: usize) -> Result<File> {
        // Programs of the lab may have made a link with this name.
        let file = self.log_path(at).and_then(|path| run::files::append(&path));
        let name = format!("{}.log", self.local.names[at]);
        Ok(file.map_err(|e| sys::Error::file("open", name, e))?)
    }

    /// Waits until each agent has found all others.
    fn await_agents(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut errors = String::new();
        loop {
            for at in 0..self.agents.len() {
                let child = self.agents[at].child.as_mut();
                if let Some(exit) = child.map(Child::try_wait).transpose()?.flatten() {
                    return Err(self.exit_error(at, exit));
                }
            }
            match self.count_connected(&mut errors)? {
                Some(seen) if seen == self.agents.len() => return Ok(()),
                _ if began.elapsed() < START_TIMEOUT => {}
                seen => {
                    let (seen, all) = (seen.unwrap_or(0), self.agents.len());
                    let text = format!(
                        "{seen} of {all} agents found the others in {START_TIMEOUT:?}: {errors}"
                    );
                    return Err(Error::Local(text.trim_end_matches([':', ' ', '\n']).to_owned()));
                }
            }
            self.pause(None, STATUS_INTERVAL)?;
        }
    }

    fn exit_error(&self, at: usize, exit: Exit) -> Error {
        let path = self.log_path(at);
        let end = path.and_then(|path| run::files::read_end(&path, MAX_QUOTE_BYTES));
        let text = end.unwrap_or_default();
        let last = String::from_utf8_lossy(&text);
        let name = &self.local.names[at];
        Error::Local(format!("agent {name} ended with {exit}: {}", last.trim()))
    }

    /// The number of agents that have found all others. `None` if the status is not available; then
    /// `messages` has the errors.
    fn count_connected(&self, messages: &mut String) -> Result<Option<usize>> {
        let file = |name: &str| {
            let path = self.place.join(name);
            let mut options = OpenOptions::new();
            options.create(true).truncate(true).read(true).write(true);
            options.open(&path).map_err(|e| sys::Error::file("open", &path, e))
        };
        let copy = |file: &File| file.try_clone().map_err(|e| sys::Error::file("open", "it", e));
        let (mut answer, mut errors) = (file("status")?, file("errors")?);
        let mut command = Command::new(&self.local.program);
        command.args(["cluster", "status", "--json"]);
        command.envs(environment(self.place));
        command.stdin(Stdio::null()).stdout(copy(&answer)?).stderr(copy(&errors)?);
        let work = || execute(&mut command);
        let mut child = Child::of(process::fork(work)?)?;
        if !self.pause(Some(child.as_fd()), STATUS_TIMEOUT)? {
            child.signal(process::Signal::KILL)?;
        }
        child.wait()?;
        let read = |file: &mut File| {
            file.rewind().and_then(|()| std::io::read_to_string(file)).unwrap_or_default()
        };
        let value: Option<serde_json::Value> = serde_json::from_str(&read(&mut answer)).ok();
        let agents = value.as_ref().and_then(|value| value.get("agents")?.as_array());
        if agents.is_none() {
            *messages = read(&mut errors);
        }
        let others = self.agents.len() - 1;
        Ok(agents.map(|agents| agents.iter().filter(|agent| alive_peers(agent) == others).count()))
    }

    fn start_command(&self) -> Result<Child> {
        let Some((program, arguments)) = self.local.command.split_first() else {
            return Err(Error::Local("no command to run".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(environment(self.place));
        Ok(Child::of(process::fork(|| execute(&mut command))?)?)
    }

    /// Waits up to `timeout` for the end of a process. Returns whether it has ended.
    fn pause(&self, process: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<bool> {
        let end = Instant::now() + timeout;
        loop {
            let mut fds = vec![PollFd::new(&self.life, PollFlags::IN)];
            fds.extend(process.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            let left = end.saturating_duration_since(Instant::now());
            let time =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match rustix::event::poll(&mut fds, Some(&time)) {
                Ok(0) => return Ok(false),
                Ok(_) if !fds[0].revents().is_empty() => {
                    return Err(Error::Local("the calling process has ended".to_owned()));
                }
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(sys::Error::from_errno("poll", e.raw_os_error()).into()),
            }
        }
    }

    /// Supervises the agents until the command or the calling process ends. Returns its status.
    fn supervise(&mut self, mut command: Child) -> i32 {
        loop {
            if self.pause(Some(command.as_fd()), SUPERVISION_INTERVAL).is_err() {
                return 70;
            }
            match command.try_wait() {
                Ok(Some(exit)) => return exit.code(),
                Ok(None) => {}
                Err(_) => return 70,
            }
            for at in 0..self.agents.len() {
                self.restart_if_ended(at);
            }
            let known = |pid| {
                let agents = self.agents.iter().filter_map(|agent| agent.child.as_ref());
                command.pid() == pid || agents.into_iter().any(|child| child.pid() == pid)
            };
            process::reap_orphans(known);
        }
    }

    /// Detects the end of an agent, and restarts it if the options say so.
    fn restart_if_ended(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        if let Some(child) = &mut agent.child {
            if matches!(child.try_wait(), Ok(None)) {
                return;
            }
            agent.child = None;
            agent.since = Instant::now();
        }
        if self.local.restart && agent.since.elapsed() >= RESTART_DELAY {
            // After an error, the next attempt follows after the same delay.
            let child = self.start_agent(at).ok();
            self.agents[at] = Agent { child, since: Instant::now() };
        }
    }
}

/// Runs in the child: enters the namespaces of the agent `name` and executes it.
fn execute_agent(net: BorrowedFd<'_>, name: &str, command: &mut Command) -> i32 {
    let moved = namespace::enter(net, Kinds::NET)
        .and_then(|()| namespace::unshare(Kinds::MOUNT | Kinds::UTS))
        .and_then(|()| namespace::set_host_name(name))
        // The terminal belongs to the command.
        .and_then(|()| process::start_session());
    if let Err(error) = moved {
        eprintln!("{name}: {error}");
        return 70;
    }
    network::mount_sysfs();
    execute(command)
}

/// Runs in the child: executes the command. It only returns after an error, with the exit status
/// that a shell uses for it.
fn execute(command: &mut Command) -> i32 {
    let error = process::execute(command);
    eprintln!("{}: {error}", command.get_program().to_string_lossy());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

/// The number of other agents that an agent reports as alive.
fn alive_peers(agent: &serde_json::Value) -> usize {
    let peers = agent.get("peers").and_then(|peers| peers.as_array());
    let alive = |peer: &&serde_json::Value| peer.get("alive").is_some_and(|alive| *alive == true);
    peers.map_or(0, |peers| peers.iter().filter(alive).count())
}

fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    Ok(made.map_err(|e| sys::Error::file("make", path, e))?)
}

fn put(path: &Path, text: &str) -> Result<()> {
    Ok(fs::write(path, text).map_err(|e| sys::Error::file("write", path, e))?)
}
