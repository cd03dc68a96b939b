//! Verbs about labs that run.

use std::ffi::OsString;
use std::time::Duration;

use emu::registry::{Entry, Registry, RegistryError, State, Stopped};
use record::RunFolder;
use serde_json::{Value, json};

use crate::args::{Clean, Exec, Shell, Stop};
use crate::exit::Exit;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict};

/// Programs get their own grace times within this.
const STOP_GRACE: Duration = Duration::from_secs(60);

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Self::machine(error)
    }
}

/// The registry, after what killed runs left in it has been cleared away.
pub(crate) fn swept(terminal: &Terminal) -> Result<Registry, Failure> {
    let registry = Registry::open()?;
    for entry in registry.sweep()? {
        terminal.talk(format!("cleared away: {}", mark_killed(&entry)));
    }
    Ok(registry)
}

fn mark_killed(entry: &Entry) -> String {
    let run = format!("run {} of {}", entry.id, entry.lab);
    let marked = RunFolder::open(&entry.folder).and_then(|folder| folder.mark_killed());
    match marked {
        Ok(_) => format!("{run} was killed; what it wrote is in {}", entry.folder.display()),
        Err(error) => format!("{run} was killed ({error})"),
    }
}

fn find(registry: &Registry, wanted: &str) -> Result<Entry, Failure> {
    if let Some(entry) = registry.find(wanted)? {
        return Ok(entry);
    }
    let names: Vec<String> = registry.list()?.live.into_iter().map(|e| e.name).collect();
    let help = if names.is_empty() {
        "no lab runs; start one with netarium run".to_owned()
    } else {
        format!("running: {}", names.join(", "))
    };
    Err(Failure::usage(format!("no running lab has the name or identifier `{wanted}`")).help(help))
}

pub(crate) fn ps(terminal: &Terminal) -> Verdict {
    let listing = swept(terminal)?.list()?;
    for (path, why) in &listing.unreadable {
        terminal.talk(format!("left alone: {} ({why})", path.display()));
    }
    if terminal.json {
        let labs: Vec<Value> = listing.live.iter().map(object).collect();
        terminal.object(&json!({"schema": "netarium.ps/1", "labs": labs}))?;
        return Ok(Exit::Ok);
    }
    if listing.live.is_empty() {
        terminal.talk("no lab runs");
        return Ok(Exit::Ok);
    }
    let width = listing.live.iter().map(|e| e.name.len()).max().unwrap_or(0).max(4);
    let head = format!("{:width$}  ID      UP        PID      HOSTS  FOLDER", "NAME");
    let mut lines = vec![terminal.paint(Style::Strong, &head)];
    for entry in &listing.live {
        let up = match entry.state() {
            State::Running => clock(age(entry)),
            State::Ending | State::Gone => "ending".to_owned(),
        };
        lines.push(format!(
            "{:width$}  {:6}  {up:8}  {:<7}  {:<5}  {}",
            entry.name,
            entry.id,
            entry.supervisor.pid,
            entry.hosts.len(),
            entry.folder.display()
        ));
    }
    terminal.data(lines.join("\n"))?;
    Ok(Exit::Ok)
}

fn age(entry: &Entry) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs()).saturating_sub(entry.started_unix)
}

fn clock(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn object(entry: &Entry) -> Value {
    json!({
        "name": entry.name,
        "lab": entry.lab,
        "id": entry.id,
        "state": if entry.state() == State::Running { "running" } else { "ending" },
        "pid": entry.supervisor.pid,
        "init_pid": entry.init.pid,
        "folder": entry.folder,
        "started_unix_s": entry.started_unix,
        "hosts": entry.hosts.keys().collect::<Vec<_>>(),
    })
}

pub(crate) fn exec(args: &Exec, terminal: &Terminal) -> Verdict {
    inside(&args.lab, &args.host, &args.command, terminal)
}

pub(crate) fn shell(args: &Shell, terminal: &Terminal) -> Verdict {
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty());
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    terminal.talk(format!("on {} of {}; `exit` leaves", args.host, args.lab));
    inside(&args.lab, &args.host, &[shell], terminal)
}

fn inside(lab: &str, host: &str, command: &[OsString], terminal: &Terminal) -> Verdict {
    let entry = find(&swept(terminal)?, lab)?;
    let Some(netns) = entry.hosts.get(host) else {
        let hosts: Vec<&str> = entry.hosts.keys().map(String::as_str).take(20).collect();
        let failure = Failure::usage(format!("lab {} has no host `{host}`", entry.name));
        return Err(failure.help(format!("hosts: {}", hosts.join(", "))));
    };
    let status = emu::launch::exec_in(entry.init.pid, *netns, host, command)
        .map_err(|e| Failure::machine(format!("cannot run on {host}: {e}")))?;
    // A status outside of 0 to 255 cannot come from a process.
    Ok(u8::try_from(status).map_or(Exit::Bug, Exit::Status))
}

pub(crate) fn stop(args: &Stop, terminal: &Terminal) -> Verdict {
    let registry = swept(terminal)?;
    let entries = if args.all {
        registry.list()?.live
    } else {
        let found: Result<Vec<_>, _> = args.labs.iter().map(|lab| find(&registry, lab)).collect();
        found?
    };
    if entries.is_empty() {
        terminal.talk("no lab runs");
    }
    let mut stopped = Vec::new();
    for entry in &entries {
        let how = entry.stop(STOP_GRACE)?;
        let word = match how {
            Stopped::Orderly => "stopped",
            Stopped::Killed => "killed",
        };
        stopped.push(json!({"name": entry.name, "id": entry.id, "how": word,
            "folder": entry.folder}));
        let folder = entry.folder.display();
        terminal.talk(format!("{} {word}; its results are in {folder}", entry.name));
    }
    if terminal.json {
        terminal.object(&json!({"schema": "netarium.stop/1", "labs": stopped}))?;
    }
    Ok(Exit::Ok)
}

pub(crate) fn clean(args: &Clean, terminal: &Terminal) -> Verdict {
    let registry = Registry::open()?;
    let listing = registry.list()?;
    let mut lines = Vec::new();
    for entry in &listing.gone {
        lines.push(format!("run {} of {} was killed: its entry", entry.id, entry.lab));
        lines.extend(entry.mount_points.iter().map(|p| format!("  folder {}", p.display())));
    }
    let removed = if args.dry_run { Vec::new() } else { registry.sweep()? };
    for entry in &removed {
        mark_killed(entry);
    }
    if terminal.json {
        let entries = if args.dry_run { &listing.gone } else { &removed };
        terminal.object(&json!({
            "schema": "netarium.clean/1",
            "dry_run": args.dry_run,
            "entries": entries.iter().map(|e| json!({"name": e.name, "id": e.id,
                "folder": e.folder, "mount_points": e.mount_points})).collect::<Vec<_>>(),
        }))?;
    } else {
        if !lines.is_empty() {
            terminal.data(lines.join("\n"))?;
        }
        terminal.talk(match (lines.is_empty(), args.dry_run) {
            (true, _) => "nothing to remove".to_owned(),
            (false, true) => "would be removed; run folders are never touched".to_owned(),
            (false, false) => "removed; run folders are kept and marked killed".to_owned(),
        });
    }
    for (path, why) in &listing.unreadable {
        terminal.talk(format!("left alone: {} ({why})", path.display()));
    }
    Ok(Exit::Ok)
}
