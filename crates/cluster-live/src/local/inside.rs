//! Process 1 of a cluster on one machine.

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

use super::{Local, environment, file_of, network};
use crate::authority::Authority;
use crate::credentials::Role;
use crate::{Error, Result};

/// How long agents may take to see each other; starting many takes processors.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one look at them may take.
const LOOK: Duration = Duration::from_secs(8);
/// What passes before an agent that has ended is started again, and between looks.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the certificates are valid: a cluster on one machine ends with its command.
const VALIDITY_DAYS: u32 = 365;
/// How much of an agent's output tells why it ended.
const LAST_WORDS: usize = 600;

/// The whole life of process 1; the result is its exit status. It ends when nobody holds the
/// other end of `life`.
pub(super) fn run(local: &Local, place: &Path, life: OwnedFd, report: File) -> i32 {
    let mut cluster = Cluster { local, place, life, nets: Vec::new(), agents: Vec::new() };
    let result = cluster.start();
    let code = match result {
        Ok(command) => {
            drop(report);
            cluster.last(command)
        }
        Err(error) => {
            // If nobody reads it, nobody wants to know.
            let _ = (&report).write_all(error.to_string().as_bytes());
            70
        }
    };
    // Processes that are still there see the files as before until they end with this one.
    let _ = namespace::detach(place);
    let _ = fs::remove_dir(place);
    code
}

struct Agent {
    child: Option<Child>,
    /// When it ended.
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
    /// Makes everything and starts the command.
    fn start(&mut self) -> Result<Child> {
        self.settle()?;
        self.nets = network::build(self.local, self.place)?;
        for at in 0..self.nets.len() {
            let child = Some(self.start_agent(at)?);
            self.agents.push(Agent { child, since: Instant::now() });
        }
        self.await_agents()?;
        self.start_command()
    }

    /// Own mounts, own processes under `/proc`, own files, own network.
    fn settle(&self) -> Result<()> {
        namespace::unshare(Kinds::MOUNT | Kinds::NET)?;
        namespace::make_mounts_private()?;
        // Refused in containers that hide parts of /proc.
        let _ = namespace::mount_new("proc", Path::new("/proc"), Mode::Plain);
        network::show_devices();
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
        put(&self.place.join(super::HOSTS), &hosts)?;
        self.issue_certificates()?;
        put(&self.place.join(super::AGAIN), &self.local.again)
    }

    /// Credentials for the agents and the command. The key that signs them is not stored.
    fn issue_certificates(&self) -> Result<()> {
        let authority = Authority::generate(VALIDITY_DAYS)?;
        let issue = |role, name: &str, dir: PathBuf| {
            authority.issue(role, name, VALIDITY_DAYS).and_then(|issued| issued.store(&dir))
        };
        for name in &self.local.names {
            issue(Role::Agent, name, file_of(self.place, name, "credentials"))?;
        }
        issue(Role::Coordinator, super::COORDINATOR, self.place.join(super::COORDINATOR))
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
            // Its folders, and its users where it is in a user namespace, are those of root.
            command.args(["--user", "root"]);
        }
        command.arg("--dir").arg(file_of(self.place, name, "work"));
        command.arg("--credentials").arg(file_of(self.place, name, "credentials"));
        command.env_remove("NETARIUM_CLUSTER");
        command.env("XDG_RUNTIME_DIR", file_of(self.place, name, "run"));
        let copy = log.try_clone().map_err(|e| sys::Error::file("open", "the log", e))?;
        command.stdin(Stdio::null()).stdout(log).stderr(copy);
        let net = self.nets[at].as_fd();
        let child = Child::of(process::fork(|| become_agent(net, name, &mut command))?)?;
        put(&file_of(self.place, name, "pid"), &format!("{}\n", child.pid()))?;
        Ok(child)
    }

    fn log_path(&self, at: usize) -> PathBuf {
        let name = &self.local.names[at];
        match &self.local.log {
            Some(folder) => folder.join(format!("{name}.log")),
            None => file_of(self.place, name, "log"),
        }
    }

    fn log(&self, at: usize) -> Result<File> {
        let path = self.log_path(at);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Ok(file.map_err(|e| sys::Error::file("open", &path, e))?)
    }

    /// Waits until each agent sees all others.
    fn await_agents(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut said = String::new();
        loop {
            for at in 0..self.agents.len() {
                let child = self.agents[at].child.as_mut();
                if let Some(exit) = child.map(Child::try_wait).transpose()?.flatten() {
                    return Err(self.lost(at, exit));
                }
            }
            match self.look(&mut said)? {
                Some(seen) if seen == self.agents.len() => return Ok(()),
                _ if began.elapsed() < PATIENCE => {}
                seen => {
                    let (seen, all) = (seen.unwrap_or(0), self.agents.len());
                    let text =
                        format!("{seen} of {all} agents see the others after {PATIENCE:?}: {said}");
                    return Err(Error::Local(text.trim_end_matches([':', ' ', '\n']).to_owned()));
                }
            }
            self.pause(None, PAUSE / 10)?;
        }
    }

    fn lost(&self, at: usize, exit: Exit) -> Error {
        let text = fs::read(self.log_path(at)).unwrap_or_default();
        let last = String::from_utf8_lossy(&text[text.len().saturating_sub(LAST_WORDS)..]);
        let name = &self.local.names[at];
        Error::Local(format!("agent {name} ended with {exit}: {}", last.trim()))
    }

    /// How many agents see all others; what is said instead, if nothing can be counted.
    fn look(&self, said: &mut String) -> Result<Option<usize>> {
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
        let work = || failed_to_start(&mut command);
        let mut child = Child::of(process::fork(work)?)?;
        if !self.pause(Some(child.as_fd()), LOOK)? {
            child.signal(process::Signal::KILL)?;
        }
        child.wait()?;
        let read = |file: &mut File| {
            file.rewind().and_then(|()| std::io::read_to_string(file)).unwrap_or_default()
        };
        let value: Option<serde_json::Value> = serde_json::from_str(&read(&mut answer)).ok();
        let agents = value.as_ref().and_then(|value| value.get("agents")?.as_array());
        if agents.is_none() {
            *said = read(&mut errors);
        }
        let others = self.agents.len() - 1;
        Ok(agents.map(|agents| agents.iter().filter(|agent| seen_by(agent) == others).count()))
    }

    fn start_command(&self) -> Result<Child> {
        let Some((program, arguments)) = self.local.command.split_first() else {
            return Err(Error::Local("there is no command to run".to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(environment(self.place));
        Ok(Child::of(process::fork(|| failed_to_start(&mut command))?)?)
    }

    /// Waits for a process to end, at most so long; whether it has.
    fn pause(&self, process: Option<BorrowedFd<'_>>, most: Duration) -> Result<bool> {
        let end = Instant::now() + most;
        loop {
            let mut fds = vec![PollFd::new(&self.life, PollFlags::IN)];
            fds.extend(process.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            let left = end.saturating_duration_since(Instant::now());
            let time =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match rustix::event::poll(&mut fds, Some(&time)) {
                Ok(0) => return Ok(false),
                Ok(_) if !fds[0].revents().is_empty() => {
                    return Err(Error::Local("nobody waits for it any more".to_owned()));
                }
                Ok(_) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(sys::Error::from_errno("poll", e.raw_os_error()).into()),
            }
        }
    }

    /// Until the command ends, or whoever wanted it; the result is its status.
    fn last(&mut self, mut command: Child) -> i32 {
        loop {
            if self.pause(Some(command.as_fd()), PAUSE / 4).is_err() {
                return 70;
            }
            match command.try_wait() {
                Ok(Some(exit)) => return exit.code(),
                Ok(None) => {}
                Err(_) => return 70,
            }
            for at in 0..self.agents.len() {
                self.tend(at);
            }
            let known = |pid| {
                let agents = self.agents.iter().filter_map(|agent| agent.child.as_ref());
                command.pid() == pid || agents.into_iter().any(|child| child.pid() == pid)
            };
            process::reap_orphans(known);
        }
    }

    /// Notices an agent's end, and starts it again when that is asked for.
    fn tend(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        if let Some(child) = &mut agent.child {
            if matches!(child.try_wait(), Ok(None)) {
                return;
            }
            agent.child = None;
            agent.since = Instant::now();
        }
        if self.local.restart && agent.since.elapsed() >= PAUSE {
            // What could not be started is tried again after another pause.
            let child = self.start_agent(at).ok();
            self.agents[at] = Agent { child, since: Instant::now() };
        }
    }
}

/// Runs in the child: becomes the agent `name`, on a machine of its own as far as it can tell.
fn become_agent(net: BorrowedFd<'_>, name: &str, command: &mut Command) -> i32 {
    let moved = namespace::enter(net, Kinds::NET)
        .and_then(|()| namespace::unshare(Kinds::MOUNT | Kinds::UTS))
        .and_then(|()| namespace::set_host_name(name))
        // The keyboard is the command's.
        .and_then(|()| process::start_session());
    if let Err(error) = moved {
        eprintln!("{name}: {error}");
        return 70;
    }
    network::show_devices();
    failed_to_start(command)
}

/// Runs in the child: becomes the command, or says why not; the result is a shell's status for it.
fn failed_to_start(command: &mut Command) -> i32 {
    let error = process::execute(command);
    eprintln!("{}: {error}", command.get_program().to_string_lossy());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}

/// How many others an agent says are alive.
fn seen_by(agent: &serde_json::Value) -> usize {
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
