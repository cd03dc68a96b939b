//! From the members' results to one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::AgentId;
use cluster::control::{self, Membership, OnLoss, Order, Phase};
use cluster::coordinator::Outage;
use lab::plan::Plan;
use outcome::Start;
use outcome::merge::{Joined, Pieces};
use record::run::{Clock, Failure, FailureKind, Status};
use record::{RunFolder, RunRecord};

use super::talk::{self, Talk};
use crate::reach::Reached;
use crate::{Error, Result};

/// How long pieces that were told to end may take.
const GRACE: Duration = Duration::from_secs(60);

/// What is known when a lab is over.
pub(super) struct Gathered {
    pub(super) membership: Membership,
    /// Unpacked results, of the members that could be asked.
    pub(super) folders: BTreeMap<AgentId, PathBuf>,
    /// Offsets of their clocks from member 0's, where known.
    pub(super) offsets: Vec<Option<i64>>,
    pub(super) warnings: Vec<String>,
    pub(super) outages: Vec<Outage>,
    pub(super) interrupted: bool,
}

/// Makes one run of what the members have seen; their folders are removed.
pub(super) fn merge(
    plan: &Plan,
    repeat: &str,
    into: &RunFolder,
    gathered: &Gathered,
) -> Result<RunRecord> {
    let start =
        Start { id: into.id(), repeat, clock: Clock::Wall, engine: record::run::Engine::default() };
    let record = outcome::begin(plan, start);
    let mut into = into.clone();
    into.write_beginning(&lab::resolved(plan), &record)?;
    let merged = outcome::merge::merge(plan, &pieces(plan, gathered), record, &into).inspect_err(
        |error| {
            // The error is reported even where the record cannot be written.
            let _ = into.end(error.failure());
        },
    )?;
    for folder in gathered.folders.values() {
        // What is left of them is of no harm.
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(merged)
}

fn pieces(plan: &Plan, gathered: &Gathered) -> Pieces {
    let membership = &gathered.membership;
    let members = membership.members.iter().enumerate().map(|(at, name)| {
        let agent = AgentId::at(at);
        let own = gathered.outages.iter().filter(|outage| outage.agent == agent);
        Joined {
            name: name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            folder: gathered.folders.get(&agent).cloned(),
            outages: own
                .map(|outage| record::cluster::Outage {
                    at_s: outage.from.as_secs_f64(),
                    until_s: outage.until.map(base::Span::as_secs_f64),
                })
                .collect(),
            clock_offset_ns: gathered.offsets.get(at).copied().flatten(),
        }
    });
    let name = |agent: AgentId| membership.members.get(agent.index()).map_or("", String::as_str);
    let mut warnings = gathered.warnings.clone();
    warnings.extend(
        gathered
            .outages
            .iter()
            .map(|outage| format!("agent {}: {}", name(outage.agent), outage.why)),
    );
    let stops = super::on_loss(plan) == OnLoss::Stop;
    let ended_by = gathered.outages.first().filter(|_| stops && !gathered.interrupted);
    let failure = ended_by.map(|outage| {
        let (name, why) = (name(outage.agent), &outage.why);
        let text = format!("the lab ended because of agent {name}: {why}");
        Failure { kind: FailureKind::Machine, text }
    });
    let status = match &failure {
        Some(_) => Status::Failed,
        None if gathered.interrupted => Status::Interrupted,
        None => Status::Finished,
    };
    Pieces {
        members: members.collect(),
        owners: membership.owners.iter().map(|owner| owner.map(|agent| agent.0)).collect(),
        sharing: sharing(plan),
        encrypted: membership.encrypt,
        on_agent_loss: plan.cluster.on_loss.as_str().to_owned(),
        warnings,
        status: Some(status),
        failure,
    }
}

fn sharing(plan: &Plan) -> String {
    match plan.model {
        lab::plan::Model::Collapsed(collapsed) => collapsed.sharing.as_str().to_owned(),
        _ => String::new(),
    }
}

/// How the results of a lab whose coordinator is gone are collected.
#[derive(Clone, Debug)]
pub struct Collecting {
    /// Identifier or name of the lab.
    pub lab: String,
    /// Where run folders are made.
    pub runs_dir: PathBuf,
    /// End it where it still runs.
    pub stop: bool,
}

/// Fetches and merges the results of a lab that went on without its coordinator.
///
/// # Errors
/// Where no agent has it, or it still runs.
pub fn collect(reached: &mut Reached, how: &Collecting) -> Result<RunRecord> {
    let (id, members) = find(reached, &how.lab)?;
    finished(reached, &id, how)?;
    let folder = RunFolder::create(&how.runs_dir, &name_of(reached, &id))?;
    let gathered = fetch_all(reached, &id, &members, folder.path()).and_then(|folders| {
        let first = folders
            .values()
            .next()
            .ok_or_else(|| Error::Usage { text: format!("no agent has results of lab {id}") })?;
        let membership = membership(first)?;
        let plan = plan(first)?;
        Ok((folders, membership, plan))
    });
    let (folders, membership, plan) = match gathered {
        Ok(gathered) => gathered,
        Err(error) => {
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(error);
        }
    };
    let missing = (0..membership.members.len())
        .map(AgentId::at)
        .filter(|agent| !folders.contains_key(agent))
        .map(|agent| Outage {
            agent,
            from: base::Span::ZERO,
            until: None,
            why: "its results could not be had".to_owned(),
        });
    let warning = "its coordinator was gone before it ended: results were collected afterwards";
    let gathered = Gathered {
        outages: missing.collect(),
        offsets: Vec::new(),
        warnings: vec![warning.to_owned()],
        interrupted: how.stop,
        membership,
        folders,
    };
    let repeat = format!("netarium run {}/{}", folder.path().display(), RunFolder::RESOLVED_LAB);
    let record = merge(&plan, &repeat, &folder, &gathered).inspect_err(|_| {
        let _ = std::fs::remove_dir_all(folder.path());
    })?;
    let (talk, _heard) = talk(reached, &id, &members);
    for at in 0..members.len() {
        talk.order(AgentId::at(at), Order::Drop)?;
    }
    Ok(record)
}

/// The lab that is meant, and its members.
fn find(reached: &Reached, lab: &str) -> Result<(String, Vec<String>)> {
    let labs = reached.agents.iter().flat_map(|agent| &agent.labs);
    let mut found: Vec<_> = labs.filter(|known| known.id == lab || known.name == lab).collect();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found.dedup_by(|a, b| a.id == b.id);
    match &*found {
        [one] => Ok((one.id.clone(), one.members.clone())),
        [] => {
            let text = format!("no agent has a lab {lab}: `netarium cluster status` lists them");
            Err(Error::Usage { text })
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|lab| &*lab.id).collect();
            let text = format!("there are several labs {lab}: name one of {}", ids.join(", "));
            Err(Error::Usage { text })
        }
    }
}

fn name_of(reached: &Reached, id: &str) -> String {
    let labs = reached.agents.iter().flat_map(|agent| &agent.labs);
    let mut named = labs.filter(|lab| lab.id == id).map(|lab| lab.name.clone());
    named.next().unwrap_or_else(|| "lab".to_owned())
}

/// Waits until no piece runs any more, where they are told to end.
fn finished(reached: &mut Reached, id: &str, how: &Collecting) -> Result<()> {
    let since = Instant::now();
    let mut told = false;
    loop {
        let labs = reached.agents.iter().flat_map(|agent| &agent.labs);
        let runs = labs.filter(|lab| lab.id == id).any(|lab| lab.phase < Phase::Finished);
        if !runs {
            return Ok(());
        }
        if !how.stop {
            let text = format!(
                "lab {id} still runs: wait until its duration is over, or end it with --stop"
            );
            return Err(Error::Usage { text });
        }
        if !told {
            told = true;
            let members = find(reached, id)?.1;
            let (talk, _heard) = talk(reached, id, &members);
            for at in 0..members.len() {
                talk.order(AgentId::at(at), Order::Stop)?;
            }
        }
        if since.elapsed() > GRACE {
            return Err(Error::Usage { text: format!("lab {id} does not end") });
        }
        std::thread::sleep(Duration::from_millis(200));
        reached.refresh()?;
    }
}

type Heard = std::sync::mpsc::Receiver<super::Event>;

fn talk(reached: &Reached, id: &str, members: &[String]) -> (Talk, Heard) {
    let (events, heard) = std::sync::mpsc::channel();
    let members = members.iter().map(|name| reached.peer(name)).collect();
    (Talk::new(reached.bus.clone(), events, id.to_owned(), members), heard)
}

fn fetch_all(
    reached: &Reached,
    id: &str,
    members: &[String],
    into: &Path,
) -> Result<BTreeMap<AgentId, PathBuf>> {
    let mut folders = BTreeMap::new();
    for (at, name) in members.iter().enumerate() {
        let agent = reached.agents.iter().find(|agent| agent.name == *name);
        let lab = agent.and_then(|agent| agent.labs.iter().find(|lab| lab.id == id));
        let Some(lab) = lab.filter(|lab| lab.phase == Phase::Finished) else { continue };
        let folder = into.join(format!(".piece-{at}"));
        talk::fetch(&reached.bus, &reached.peer(name), id, lab.result_bytes, &folder, &|| ())?;
        folders.insert(AgentId::at(at), folder);
    }
    Ok(folders)
}

fn membership(folder: &Path) -> Result<Membership> {
    let path = folder.join(control::PIECE_FILE);
    let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
    crate::session::read(&bytes)
        .ok_or_else(|| Error::Usage { text: format!("{} is damaged", path.display()) })
}

fn plan(folder: &Path) -> Result<Plan> {
    let path = folder.join(RunFolder::RESOLVED_LAB);
    let loaded = lab::load(&path, &lab::Overrides::default());
    let plan = loaded.ok().and_then(|mut lab| lab.plans.pop());
    plan.ok_or_else(|| Error::Usage { text: format!("{} is damaged", path.display()) })
}
