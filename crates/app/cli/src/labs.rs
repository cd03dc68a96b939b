//! Subcommands for running labs.

use std::ffi::OsString;

use emu::program::LabFacts;
use emu::registry::{Entry, Listing, Registry, RegistryError, State};
use run::RunFolder;
use serde_json::{Value, json};

use crate::args::{Clean, Exec, Shell};
use crate::terminal::Terminal;
use crate::{Failure, Verdict};
use run::Exit;

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Self::machine(error)
    }
}

/// The registry, after removing the entries of killed runs.
pub(crate) fn swept_registry(terminal: &Terminal) -> Result<Registry, Failure> {
    let registry = Registry::open()?;
    sweep(&registry, terminal)?;
    Ok(registry)
}

fn sweep(registry: &Registry, terminal: &Terminal) -> Result<Listing, Failure> {
    let listing = registry.sweep()?;
    for entry in &listing.gone {
        terminal.note(format!("removed: {}", mark_killed(entry)));
    }
    Ok(listing)
}

pub(crate) fn mark_killed(entry: &Entry) -> String {
    let run = format!("run {} of {}", entry.id, entry.lab);
    let marked = RunFolder::open(&entry.folder).and_then(|folder| folder.mark_killed());
    match marked {
        Ok(_) => format!("{run}, which was killed; its results are in {}", entry.folder.display()),
        Err(error) => format!("{run}, which was killed; its results cannot be repaired: {error}"),
    }
}

pub(crate) fn find(registry: &Registry, wanted: &str) -> Result<Entry, Failure> {
    if let Some(entry) = registry.find(wanted)? {
        return Ok(entry);
    }
    let listing = registry.list()?;
    let names: Vec<String> = listing.live.into_iter().map(|e| e.name).collect();
    let help = if names.is_empty() {
        "no lab is running; start one with `netarium up`".to_owned()
    } else {
        format!("running: {}", names.join(", "))
    };
    let failure = Failure::usage(format!("no running lab with name or identifier `{wanted}`"));
    let file = format!("{wanted}.json");
    let invalid = listing.unreadable.iter().find(|(path, _)| path.ends_with(&file));
    Err(failure.help(invalid.map_or(help, |(path, why)| {
        format!("{} is not the entry of a lab: {why}", path.display())
    })))
}

/// Reports files of the registry that are not entries of labs.
pub(crate) fn note_invalid(listing: &Listing, terminal: &Terminal) {
    for (path, why) in &listing.unreadable {
        terminal.note(format!("not removed: {} ({why})", path.display()));
    }
}

pub(crate) fn ps(terminal: &Terminal) -> Verdict {
    // One listing: a lab that ended after a separate sweep would be in neither.
    let listing = sweep(&Registry::open()?, terminal)?;
    note_invalid(&listing, terminal);
    if terminal.json {
        let labs: Vec<Value> = listing.live.iter().map(object).collect();
        terminal.object(&json!({"schema": "netarium.ps/1", "labs": labs}))?;
        return Ok(Exit::Ok);
    }
    if listing.live.is_empty() {
        terminal.note("no lab is running");
        return Ok(Exit::Ok);
    }
    let row = |entry: &Entry| {
        let (state, up) = (state(entry).to_owned(), clock_text(age(entry)));
        let (pid, hosts) = (entry.supervisor.pid.to_string(), entry.hosts.len().to_string());
        let folder = entry.folder.display().to_string();
        vec![entry.name.clone(), entry.id.clone(), state, up, pid, hosts, folder]
    };
    let heads = ["NAME", "ID", "STATE", "FOR", "PID", "HOSTS", "FOLDER"];
    terminal.data(terminal.table(&heads, &listing.live.iter().map(row).collect::<Vec<_>>()))?;
    Ok(Exit::Ok)
}

fn state(entry: &Entry) -> &'static str {
    match entry.state() {
        State::Running if entry.is_up => "up",
        State::Running => "running",
        State::Ending | State::Gone => "ending",
    }
}

fn age(entry: &Entry) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs()).saturating_sub(entry.started_unix)
}

fn clock_text(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn object(entry: &Entry) -> Value {
    json!({
        "name": entry.name,
        "lab": entry.lab,
        "id": entry.id,
        "state": state(entry),
        "pid": entry.supervisor.pid,
        "init_pid": entry.init.pid,
        "folder": entry.folder,
        "started_unix_s": entry.started_unix,
        "hosts": entry.hosts.keys().collect::<Vec<_>>(),
    })
}

pub(crate) fn exec(args: &Exec, terminal: &Terminal) -> Verdict {
    run_on_host(&args.lab, &args.host, args.user.as_deref(), &args.command, terminal)
}

/// The shell of the user who started this command.
pub(crate) fn user_shell() -> OsString {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    shell.unwrap_or_else(|| "/bin/sh".into())
}

pub(crate) fn shell(args: &Shell, terminal: &Terminal) -> Verdict {
    terminal.note(format!("shell on {} of {}; exit with `exit`", args.host, args.lab));
    run_on_host(&args.lab, &args.host, args.user.as_deref(), &[user_shell()], terminal)
}

fn run_on_host(
    lab: &str,
    host: &str,
    user: Option<&str>,
    command: &[OsString],
    terminal: &Terminal,
) -> Verdict {
    let entry = find(&swept_registry(terminal)?, lab)?;
    let Some(place) = entry.hosts.get(host) else {
        let hosts: Vec<&str> = entry.hosts.keys().map(String::as_str).take(20).collect();
        let failure = Failure::usage(format!("lab {} has no host `{host}`", entry.name));
        return Err(failure.help(format!("hosts: {}", hosts.join(", "))));
    };
    let facts = LabFacts { lab: &entry.lab, node: host, folder: &entry.folder, seed: entry.seed };
    let variables: Vec<_> = facts.variables().collect();
    let mut place = place.clone();
    place.user = user.map(str::to_owned).or(place.user);
    let status = emu::launch::exec_in(entry.init.pid, &place, host, command, &variables)
        .map_err(|e| Failure::machine(format!("cannot run on {host}: {e}")))?;
    // The exit status of a process is from 0 to 255.
    Ok(u8::try_from(status).map_or(Exit::Internal, Exit::Status))
}

pub(crate) fn clean(args: &Clean, terminal: &Terminal) -> Verdict {
    let registry = Registry::open()?;
    let listing = if args.dry_run { registry.list()? } else { registry.sweep()? };
    let mut lines = Vec::new();
    for entry in &listing.gone {
        lines.push(format!("entry of run {} of {}, which was killed", entry.id, entry.lab));
        if !args.dry_run {
            mark_killed(entry);
        }
    }
    if terminal.json {
        terminal.object(&json!({
            "schema": "netarium.clean/1",
            "dry_run": args.dry_run,
            "entries": listing.gone.iter().map(|e| json!({"name": e.name, "id": e.id,
                "folder": e.folder})).collect::<Vec<_>>(),
        }))?;
    } else {
        if !lines.is_empty() {
            terminal.data(lines.join("\n"))?;
        }
        terminal.note(match (lines.is_empty(), args.dry_run) {
            (true, _) => "nothing to remove".to_owned(),
            (false, true) => {
                "these entries would be removed; run folders are not changed".to_owned()
            }
            (false, false) => "removed; run folders are kept and marked as killed".to_owned(),
        });
    }
    note_invalid(&listing, terminal);
    Ok(Exit::Ok)
}
