//! Collects the results of a lab that has lost its coordinator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::Span;
use cluster::AgentId;
use cluster::control::{MEMBERSHIP_FILE, Membership, Order, Phase};
use cluster::coordinator::Outage;
use lab::plan::Plan;
use run::{RunFolder, RunRecord};

use super::agent_client::{AgentClient, fetch};
use super::merge::{FetchedResults, merge};
use crate::connection::Connection;
use crate::{Error, Result};

/// Max time for the shards to end after they were ordered to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const MAX_MEMBERSHIP_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug)]
pub struct Collection {
    /// Identifier or name of the lab.
    pub lab: String,
    /// The parent of run folders.
    pub runs_dir: PathBuf,
    /// Stop the lab if it still runs.
    pub stop: bool,
}

/// Fetches and merges the results of a lab that has lost its coordinator.
///
/// # Errors
/// If no agent has the lab, or it still runs.
pub fn collect(connection: &mut Connection, options: &Collection) -> Result<RunRecord> {
    let (id, agents) = find(connection, &options.lab)?;
    await_end(connection, &id, options)?;
    let folder = RunFolder::create(&options.runs_dir, &name_of(connection, &id))?;
    let fetched = fetch_all(connection, &id, &agents, folder.path()).and_then(|folders| {
        let first = folders
            .values()
            .next()
            .ok_or_else(|| Error::Usage { text: format!("no agent has results of lab {id}") })?;
        let membership = membership(first)?;
        let plan = plan(first)?;
        Ok((folders, membership, plan))
    });
    let (folders, membership, plan) = match fetched {
        Ok(fetched) => fetched,
        Err(error) => {
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(error);
        }
    };
    let missing = (0..membership.agents.len())
        .map(AgentId::at)
        .filter(|agent| !folders.contains_key(agent))
        .map(|agent| Outage {
            agent,
            from: Span::ZERO,
            until: None,
            why: "its results are not available".to_owned(),
        });
    let warning =
        "the coordinator was lost during the run, and the results were collected afterwards";
    let results = FetchedResults {
        outages: missing.collect(),
        offsets: Vec::new(),
        warnings: vec![warning.to_owned()],
        interrupted: options.stop,
        membership,
        folders,
    };
    let repeat = format!("netarium run {}/{}", folder.path().display(), RunFolder::RESOLVED_LAB);
    let record = merge(&plan, &repeat, &folder, &results).inspect_err(|_| {
        let _ = std::fs::remove_dir_all(folder.path());
    })?;
    let client = client(connection, &id, &agents);
    for at in 0..agents.len() {
        client.order(AgentId::at(at), Order::Drop)?;
    }
    Ok(record)
}

/// The identifier and the agents of a lab, given its identifier or name.
fn find(connection: &Connection, lab: &str) -> Result<(String, Vec<String>)> {
    let labs = connection.agents.iter().flat_map(|agent| &agent.labs);
    let mut found: Vec<_> = labs.filter(|known| known.id == lab || known.name == lab).collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|a, b| a.id == b.id);
    match &*found {
        [one] => Ok((one.id.clone(), one.agents.clone())),
        [] => {
            let text = format!("no agent has a lab {lab}: list all with `netarium cluster status`");
            Err(Error::Usage { text })
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|lab| &*lab.id).collect();
            let text = format!(
                "several labs are named {lab}: use one of the identifiers {}",
                ids.join(", ")
            );
            Err(Error::Usage { text })
        }
    }
}

fn name_of(connection: &Connection, id: &str) -> String {
    let labs = connection.agents.iter().flat_map(|agent| &agent.labs);
    let mut named = labs.filter(|lab| lab.id == id).map(|lab| lab.name.clone());
    named.next().unwrap_or_else(|| "lab".to_owned())
}

/// Stops the lab if the options say so, and waits until no shard runs.
fn await_end(connection: &mut Connection, id: &str, options: &Collection) -> Result<()> {
    let since = Instant::now();
    let mut stopped = false;
    loop {
        let labs = connection.agents.iter().flat_map(|agent| &agent.labs);
        let runs = labs.filter(|lab| lab.id == id).any(|lab| lab.phase < Phase::Finished);
        if !runs {
            return Ok(());
        }
        if !options.stop {
            let text = format!(
                "lab {id} still runs: wait until its duration has passed, or stop it with --stop"
            );
            return Err(Error::Usage { text });
        }
        if !stopped {
            stopped = true;
            let agents = find(connection, id)?.1;
            let client = client(connection, id, &agents);
            for at in 0..agents.len() {
                client.order(AgentId::at(at), Order::Stop)?;
            }
        }
        if since.elapsed() > STOP_TIMEOUT {
            let text = format!("lab {id} did not end within {STOP_TIMEOUT:?}: try again later");
            return Err(Error::Usage { text });
        }
        std::thread::sleep(POLL_INTERVAL);
        connection.refresh()?;
    }
}

/// A client that ignores the replies to its requests.
fn client(connection: &Connection, id: &str, agents: &[String]) -> AgentClient {
    let (events, _) = std::sync::mpsc::channel();
    let peers = agents.iter().map(|name| connection.peer(name)).collect();
    AgentClient::new(connection.bus.clone(), events, id.to_owned(), peers)
}

fn fetch_all(
    connection: &Connection,
    id: &str,
    agents: &[String],
    into: &Path,
) -> Result<BTreeMap<AgentId, PathBuf>> {
    let mut folders = BTreeMap::new();
    for (at, name) in agents.iter().enumerate() {
        let agent = connection.agents.iter().find(|agent| agent.name == *name);
        let lab = agent.and_then(|agent| agent.labs.iter().find(|lab| lab.id == id));
        let Some(lab) = lab.filter(|lab| lab.phase == Phase::Finished) else { continue };
        let folder = into.join(format!(".shard-{at}"));
        fetch(&connection.bus, &connection.peer(name), id, lab.result_bytes, &folder, &|| ())?;
        folders.insert(AgentId::at(at), folder);
    }
    Ok(folders)
}

fn membership(folder: &Path) -> Result<Membership> {
    let path = folder.join(MEMBERSHIP_FILE);
    let bytes =
        run::files::read(&path, MAX_MEMBERSHIP_BYTES).map_err(Error::file("read", &path))?;
    crate::session::read(&bytes)
        .ok_or_else(|| Error::Usage { text: format!("{} is damaged", path.display()) })
}

fn plan(folder: &Path) -> Result<Plan> {
    let path = folder.join(RunFolder::RESOLVED_LAB);
    let loaded = lab::load(&path, &lab::Overrides::default());
    let plan = loaded.ok().and_then(|mut lab| lab.plans.pop());
    plan.ok_or_else(|| Error::Usage { text: format!("{} is damaged", path.display()) })
}
