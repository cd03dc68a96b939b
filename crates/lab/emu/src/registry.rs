//! The registry of running labs, one JSON file each, for `ps`, `exec`, `set`, `down` and `clean`.
//!
//! The folder is `$XDG_RUNTIME_DIR/netarium`, `/run/netarium` for root, or `/tmp/netarium-UID`; it
//! must belong to the user and be inaccessible to others. All resources of a lab end with its
//! processes, so an entry without processes only means that the run was killed. A pid is compared
//! together with the process's start time and the boot identifier, so that a reused pid is never
//! mistaken for a lab. Programs of a lab do not see the folder. An entry whose processes are not
//! those of a lab is nevertheless possible (forged); it is reported, and they are never signalled.
//!
//! `process` returns this module's errors.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

mod process;

pub use process::Process;

/// The version of the entry files.
const SCHEMA: &str = "netarium.lab/1";
/// Maximum bytes read of an entry: 10,000 hosts with long names need a quarter of this.
const MAX_ENTRY_BYTES: u64 = 4 << 20;
/// Maximum number of simultaneous labs of a user.
const MAX_LABS: usize = 1000;
/// Maximum time for the kernel to remove a killed lab.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The folder is a link, belongs to another user, or is accessible to others.
    #[error("{} is not a private folder of this user: {why}", path.display())]
    Unsafe { path: PathBuf, why: &'static str },
    /// The user is not mapped in its user namespace, so it owns no folder.
    #[error(
        "the user of this process is not mapped in its user namespace; start it with `unshare \
         --map-root-user`, or outside of that namespace"
    )]
    Unmapped,
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("process {0} does not exist")]
    NoProcess(u32),
    #[error("cannot signal process {pid}: {source}")]
    Signal { pid: u32, source: io::Error },
    /// The processes of an entry are not those of a lab.
    #[error("the entry of lab {name} is not valid, and no process was signalled: {why}")]
    Forged { name: String, why: String },
    #[error("lab {name} has ended, but its command, process {pid}, still runs")]
    CommandStillRuns { name: String, pid: u32 },
    #[error("lab {name} was killed, but has not ended after {} s", KILL_TIMEOUT.as_secs())]
    KillTimedOut { name: String },
    #[error("{MAX_LABS} labs are registered already in {}", .0.display())]
    Full(PathBuf),
}

/// A lab that runs, or that was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Schema version of the file.
    pub schema: String,
    /// Unique among the running labs: the lab's name, with `-2`, `-3`, … if it is taken.
    pub name: String,
    /// `[lab] name`.
    pub lab: String,
    /// The run's identifier, as in the name of its folder.
    pub id: String,
    /// Identifier of the boot in which it was registered.
    pub boot: String,
    /// The `netarium run` process.
    pub supervisor: Process,
    /// The first process of the lab; the kernel ends the lab with it.
    pub init: Process,
    /// Absolute path of the run folder.
    pub folder: PathBuf,
    /// Start time, in seconds since 1970 (UTC).
    pub started_unix: u64,
    pub hosts: BTreeMap<String, HostEntry>,
    /// Whether it uses real-time scheduling.
    #[serde(default)]
    pub realtime: bool,
    /// Whether `netarium up` started it.
    #[serde(default)]
    pub is_up: bool,
    #[serde(default)]
    pub seed: Option<u64>,
    /// The socket for requests; `None` for a shard of a lab on several machines.
    #[serde(default)]
    pub socket: Option<PathBuf>,
}

/// A host of a registered lab. Numbers are descriptors of the lab's first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// Its network namespace.
    pub net: i32,
    /// Its mount namespace, if it has private files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mounts: Option<i32>,
    /// The user of its commands; `None`: that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Both processes run.
    Running,
    /// One process has ended, so the other will end soon.
    Ending,
    /// Both processes have ended.
    Gone,
}

impl Entry {
    /// An entry of this boot; registration makes `name` unique. Fails if a process does not exist.
    pub fn new(
        lab: &str,
        id: &str,
        supervisor: u32,
        init: u32,
        folder: PathBuf,
    ) -> Result<Self, RegistryError> {
        let process = |pid| Process::of(pid).ok_or(RegistryError::NoProcess(pid));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Ok(Self {
            schema: SCHEMA.to_owned(),
            name: lab.to_owned(),
            lab: lab.to_owned(),
            id: id.to_owned(),
            boot: boot_id(),
            supervisor: process(supervisor)?,
            init: process(init)?,
            folder,
            started_unix: now.map_or(0, |d| d.as_secs()),
            hosts: BTreeMap::new(),
            realtime: false,
            is_up: false,
            seed: None,
            socket: None,
        })
    }

    pub fn state(&self) -> State {
        if self.boot != boot_id() {
            return State::Gone;
        }
        match (self.supervisor.is_alive(), self.init.is_alive()) {
            (true, true) => State::Running,
            (false, false) => State::Gone,
            _ => State::Ending,
        }
    }
}

/// Returns why the running processes of an entry are not those of a lab.
type Check = fn(&Entry) -> Option<String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It ended after the request; its results are kept.
    Orderly,
    /// It did not end in time and was killed.
    Killed,
}

impl Entry {
    /// Why its running processes are not those of a lab.
    fn problem(&self) -> Option<String> {
        process::problem(self.supervisor, self.init)
    }

    /// Asks the lab to end and waits for it; kills it if it has not ended within `grace`.
    ///
    /// # Errors
    /// [`RegistryError::Forged`], or if its processes may not be signalled.
    pub fn stop(&self, grace: Duration) -> Result<Stopped, RegistryError> {
        self.stop_checked(grace, Self::problem)
    }

    fn stop_checked(&self, grace: Duration, check: Check) -> Result<Stopped, RegistryError> {
        // The descriptors keep referring to the processes that are checked.
        let (supervisor, init) = (self.supervisor.open()?, self.init.open()?);
        if let Some(why) = check(self) {
            return Err(RegistryError::Forged { name: self.name.clone(), why });
        }
        // Only a command that has a lab is known to be one.
        if let (Some(supervisor), Some(_)) = (&supervisor, &init) {
            signal(supervisor, self.supervisor.pid, Signal::TERM)?;
        }
        let deadline = Instant::now() + grace;
        let fds = || supervisor.iter().chain(&init);
        if fds().all(|fd| has_ended(fd, deadline)) {
            return Ok(Stopped::Orderly);
        }
        if init.is_none() {
            let (name, pid) = (self.name.clone(), self.supervisor.pid);
            return Err(RegistryError::CommandStillRuns { name, pid });
        }
        // When its first process ends, the kernel ends all others in the lab.
        for (fd, process) in [(&init, self.init), (&supervisor, self.supervisor)] {
            if let Some(fd) = fd {
                signal(fd, process.pid, Signal::KILL)?;
            }
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        if fds().all(|fd| has_ended(fd, deadline)) {
            Ok(Stopped::Killed)
        } else {
            Err(RegistryError::KillTimedOut { name: self.name.clone() })
        }
    }
}

fn signal(fd: &OwnedFd, pid: u32, signal: Signal) -> Result<(), RegistryError> {
    match rustix::process::pidfd_send_signal(fd, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(e) => Err(RegistryError::Signal { pid, source: e.into() }),
    }
}

/// Waits until the process has ended, or `deadline` has passed.
fn has_ended(fd: &OwnedFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { return false };
        match rustix::event::poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn boot_id() -> String {
    // Without the file (no /proc), pids and start times must be sufficient.
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

#[derive(Debug, Default)]
pub struct Listing {
    /// Entries with at least one running process, by name.
    pub live: Vec<Entry>,
    /// Entries without running processes.
    pub gone: Vec<Entry>,
    /// Files that are not valid entries, or name processes of something else, with reasons; they
    /// are not changed.
    pub unreadable: Vec<(PathBuf, String)>,
}

#[derive(Clone, Debug)]
pub struct Registry {
    dir: PathBuf,
    check: Check,
}

/// Whether root of this user namespace owns a folder. After `unshare -Ur`, folders of the host's
/// root belong to `nobody`.
fn is_root_of(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_dir() && facts.uid() == 0)
}

impl Registry {
    /// The user's registry; its folder is created if it does not exist.
    pub fn open() -> Result<Self, RegistryError> {
        if !sys::namespace::is_user_mapped() {
            return Err(RegistryError::Unmapped);
        }
        let uid = rustix::process::geteuid();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let dir = match runtime.filter(|d| d.is_absolute() && d.is_dir()) {
            Some(dir) => dir.join("netarium"),
            None if uid.is_root() && is_root_of("/run") => PathBuf::from("/run/netarium"),
            None => PathBuf::from(format!(
                "/tmp/netarium-{}",
                sys::namespace::user_outside(uid.as_raw())
            )),
        };
        Self::at(dir)
    }

    /// A registry in the given folder, which is created if it does not exist.
    pub fn at(dir: PathBuf) -> Result<Self, RegistryError> {
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(RegistryError::Io { action: "make", path: dir, source }),
        }
        let facts = match fs::symlink_metadata(&dir) {
            Ok(facts) => facts,
            Err(source) => return Err(RegistryError::Io { action: "examine", path: dir, source }),
        };
        let why = if !facts.is_dir() {
            "it is not a folder"
        } else if facts.uid() != rustix::process::geteuid().as_raw() {
            "it belongs to another user (remove it, or set XDG_RUNTIME_DIR to a folder of this user)"
        } else if facts.mode() & 0o077 != 0 {
            "other users can access it (fix it with chmod 700)"
        } else {
            return Ok(Self { dir, check: Entry::problem });
        };
        Err(RegistryError::Unsafe { path: dir, why })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes an entry under a unique name. The entry is removed when the result is dropped.
    pub fn register(&self, mut entry: Entry) -> Result<Registration, RegistryError> {
        let _lock = self.lock()?;
        let listing = self.list()?;
        if listing.live.len() + listing.gone.len() >= MAX_LABS {
            return Err(RegistryError::Full(self.dir.clone()));
        }
        entry.name.clone_from(&entry.lab);
        // A stale entry keeps its name until it has been swept, since its run must be marked first.
        let mut number = 1;
        while self.file(&entry.name).exists() {
            number += 1;
            entry.name = format!("{}-{number}", entry.lab);
        }
        let file = self.file(&entry.name);
        let scratch = self.dir.join(".new");
        let io = |action, source| RegistryError::Io { action, path: file.clone(), source };
        let text = serde_json::to_vec_pretty(&entry).map_err(|e| io("write", e.into()))?;
        // Left by a killed command, or a link to another folder.
        let _ = fs::remove_file(&scratch);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut out = options.open(&scratch).map_err(|e| io("write", e))?;
        out.write_all(&text).map_err(|e| io("write", e))?;
        fs::rename(&scratch, &file).map_err(|e| io("write", e))?;
        Ok(Registration { file, entry })
    }

    /// All entries; changes nothing.
    pub fn list(&self) -> Result<Listing, RegistryError> {
        let io = |source| RegistryError::Io { action: "read", path: self.dir.clone(), source };
        let mut listing = Listing::default();
        for item in fs::read_dir(&self.dir).map_err(io)? {
            let path = item.map_err(io)?.path();
            if path.extension().is_none_or(|e| e != "json") {
                continue;
            }
            match read_entry(&path) {
                Ok(entry) if self.file(&entry.name) != path => {
                    let why = format!("it names itself `{}`", entry.name);
                    listing.unreadable.push((path, why));
                }
                Ok(entry) if entry.state() == State::Gone => listing.gone.push(entry),
                Ok(entry) => match (self.check)(&entry) {
                    None => listing.live.push(entry),
                    Some(why) => listing.unreadable.push((path, why)),
                },
                // Its lab ended between listing and reading.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => listing.unreadable.push((path, e.to_string())),
            }
        }
        listing.live.sort_by(|a, b| a.name.cmp(&b.name));
        listing.gone.sort_by(|a, b| a.name.cmp(&b.name));
        listing.unreadable.sort();
        Ok(listing)
    }

    /// All entries, after removing those of labs that no longer run (`gone`): they were killed.
    pub fn sweep(&self) -> Result<Listing, RegistryError> {
        let _lock = self.lock()?;
        let listing = self.list()?;
        for entry in &listing.gone {
            if entry.socket.is_some() {
                let _ = fs::remove_file(self.socket(&entry.id));
            }
            remove(&self.file(&entry.name))?;
        }
        Ok(listing)
    }

    /// The running lab with this name or identifier.
    pub fn find(&self, wanted: &str) -> Result<Option<Entry>, RegistryError> {
        let live = self.list()?.live;
        let by_name = live.iter().find(|e| e.name == wanted);
        Ok(by_name.or_else(|| live.iter().find(|e| e.id == wanted)).cloned())
    }

    pub(crate) fn socket(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.sock"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    fn lock(&self) -> Result<File, RegistryError> {
        let path = self.dir.join(".lock");
        let io = |source| RegistryError::Io { action: "lock", path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        let file = options.open(&path).map_err(io)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|e| io(e.into()))?;
        Ok(file)
    }
}

fn read_entry(path: &Path) -> io::Result<Entry> {
    let mut text = Vec::new();
    lab::open_regular(path)?.take(MAX_ENTRY_BYTES).read_to_end(&mut text)?;
    let entry: Entry = serde_json::from_slice(&text)?;
    let why = if entry.schema != SCHEMA {
        format!("schema `{}` is not `{SCHEMA}`", entry.schema)
    } else if entry.id.contains('/') {
        // The identifier is part of file names.
        format!("invalid identifier `{}`", entry.id)
    } else {
        return Ok(entry);
    };
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

fn remove(file: &Path) -> Result<(), RegistryError> {
    match fs::remove_file(file) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RegistryError::Io { action: "remove", path: file.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Keeps an entry registered as long as this value exists.
#[derive(Debug)]
pub struct Registration {
    file: PathBuf,
    entry: Entry,
}

impl Registration {
    /// The entry as registered, with its unique name.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The next command sweeps an entry that cannot be removed now.
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command};

    fn registry() -> (tempfile::TempDir, Registry) {
        let dir = tempfile::tempdir().unwrap();
        let mut registry = Registry::at(dir.path().join("labs")).unwrap();
        // The processes of these tests are not those of labs.
        registry.check = |_| None;
        (dir, registry)
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn entry(lab: &str, id: &str, init: &Child) -> Entry {
        Entry::new(lab, id, std::process::id(), init.id(), PathBuf::from("/nowhere")).unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn registers_unique_names_and_finds_name_or_id() {
        let (_dir, registry) = registry();
        let child = sleeper();
        let first = registry.register(entry("ring", "0a0a0a", &child)).unwrap();
        let second = registry.register(entry("ring", "0b0b0b", &child)).unwrap();
        assert_eq!(first.entry().name, "ring");
        assert_eq!(second.entry().name, "ring-2");
        assert_eq!(registry.find("ring-2").unwrap().unwrap().id, "0b0b0b");
        assert_eq!(registry.find("0a0a0a").unwrap().unwrap().name, "ring");
        assert!(registry.find("star").unwrap().is_none());
        drop(first);
        assert!(registry.find("ring").unwrap().is_none());
        end(child);
    }

    #[test]
    fn entry_is_gone_after_process_end_pid_reuse_or_reboot() {
        let (_dir, registry) = registry();
        let child = sleeper();
        let mut recycled = entry("b", "000002", &child);
        recycled.init.started_ticks -= 1;
        recycled.supervisor.started_ticks -= 1;
        assert_eq!(recycled.state(), State::Gone);
        let mut rebooted = entry("c", "000003", &child);
        rebooted.boot.push('x');
        assert_eq!(rebooted.state(), State::Gone);

        let mut dying = entry("a", "000001", &child);
        dying.supervisor = dying.init;
        let kept = registry.register(dying).unwrap();
        let swept = registry.sweep().unwrap();
        assert_eq!((swept.live.len(), swept.gone.len()), (1, 0));
        end(child);
        let swept = registry.sweep().unwrap();
        assert!(swept.live.is_empty());
        assert_eq!(swept.gone, vec![kept.entry().clone()]);
        assert!(registry.list().unwrap().gone.is_empty());
    }

    #[test]
    fn lab_with_one_ended_process_is_ending() {
        let child = sleeper();
        let entry = entry("a", "000001", &child);
        assert_eq!(entry.state(), State::Running);
        end(child);
        assert_eq!(entry.state(), State::Ending);
    }

    #[test]
    fn kills_lab_that_ignores_sigterm() {
        let mut deaf = Command::new("sh")
            .args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Ignores the signal from now on.
        let mut ready = [0; 6];
        deaf.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        let mut init = sleeper();
        let lab =
            Entry::new("a", "000001", deaf.id(), init.id(), PathBuf::from("/nowhere")).unwrap();
        // Waits for them as their parents would; otherwise they remain zombies.
        let reaper = std::thread::spawn(move || (deaf.wait().unwrap(), init.wait().unwrap()));
        let stopped = lab.stop_checked(Duration::from_millis(200), |_| None);
        assert_eq!(stopped.unwrap(), Stopped::Killed);
        reaper.join().unwrap();
        assert_eq!(lab.state(), State::Gone);
        assert_eq!(lab.stop(Duration::ZERO).unwrap(), Stopped::Orderly);
    }

    #[test]
    fn reports_forged_entries_and_does_not_signal_their_processes() {
        let (_dir, mut registry) = registry();
        registry.check = Entry::problem;
        let (victim, other) = (sleeper(), sleeper());
        let mut forged = entry("a", "000001", &victim);
        for supervisor in [forged.supervisor, Process::of(other.id()).unwrap()] {
            forged.supervisor = supervisor;
            let kept = registry.register(forged.clone()).unwrap();
            let listing = registry.list().unwrap();
            assert!(listing.live.is_empty() && listing.gone.is_empty());
            assert!(listing.unreadable[0].1.starts_with("process "), "{:?}", listing.unreadable);
            assert!(registry.find("a").unwrap().is_none());
            let stopped = kept.entry().stop(Duration::ZERO);
            assert!(matches!(stopped, Err(RegistryError::Forged { .. })), "{stopped:?}");
        }
        // The lab has ended, and the process that the entry names as its command had no lab.
        forged.init.started_ticks -= 1;
        forged.supervisor = Process::of(std::process::id()).unwrap();
        let stopped = forged.stop(Duration::ZERO);
        assert!(matches!(stopped, Err(RegistryError::CommandStillRuns { .. })), "{stopped:?}");
        for mut child in [victim, other] {
            assert!(child.try_wait().unwrap().is_none(), "a process was signalled");
            end(child);
        }
    }

    #[test]
    fn rejects_identifiers_that_are_paths() {
        let (_dir, registry) = registry();
        let child = sleeper();
        let _kept = registry.register(entry("a", "../a", &child)).unwrap();
        assert_eq!(registry.list().unwrap().unreadable.len(), 1);
        end(child);
    }

    #[test]
    fn reports_invalid_entries_without_removing_them() {
        let (_dir, registry) = registry();
        let file = registry.dir().join("x.json");
        for text in ["", "{}", "[1, 2", "{\"schema\": \"other/1\"}"] {
            fs::write(&file, text).unwrap();
            assert_eq!(registry.list().unwrap().unreadable.len(), 1, "{text}");
            registry.sweep().unwrap();
            assert!(file.exists());
        }
    }

    #[test]
    fn rejects_links_and_pipes() {
        let (dir, registry) = registry();
        let outside = dir.path().join("outside");
        fs::write(&outside, "kept").unwrap();
        let file = |name: &str| registry.dir().join(name);
        std::os::unix::fs::symlink(&outside, file("link.json")).unwrap();
        fs::create_dir(file("folder.json")).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, file("pipe.json"), kind, mode, 0).unwrap();
        assert_eq!(registry.list().unwrap().unreadable.len(), 3);
        std::os::unix::fs::symlink(&outside, file(".new")).unwrap();
        let child = sleeper();
        let kept = registry.register(entry("a", "000001", &child)).unwrap();
        assert!(fs::symlink_metadata(file("a.json")).unwrap().is_file());
        drop(kept);
        end(child);
        fs::remove_file(file(".lock")).unwrap();
        std::os::unix::fs::symlink(&outside, file(".lock")).unwrap();
        assert!(registry.sweep().is_err());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
    }

    #[test]
    fn rejects_folder_accessible_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(Registry::at(open), Err(RegistryError::Unsafe { .. })));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(matches!(Registry::at(link), Err(RegistryError::Unsafe { .. })));
    }
}
