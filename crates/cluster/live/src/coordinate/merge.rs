//! Merges the results of a lab's agents into one run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cluster::AgentId;
use cluster::control::Membership;
use cluster::coordinator::Outage;
use lab::plan::{OnLoss, Plan};
use run::merge::{AgentRun, ClusterRun};
use run::record::{Clock, Engine, Failure, FailureKind, Status};
use run::{RunFolder, RunRecord, Start};

use crate::Result;

pub(super) struct FetchedResults {
    pub(super) membership: Membership,
    /// Unpacked results of the available agents.
    pub(super) folders: BTreeMap<AgentId, PathBuf>,
    /// Offsets of the agents' clocks to that of agent 0, if known.
    pub(super) offsets: Vec<Option<i64>>,
    pub(super) warnings: Vec<String>,
    pub(super) outages: Vec<Outage>,
    pub(super) interrupted: bool,
}

/// Merges the results into `into` and deletes the agents' folders.
pub(super) fn merge(
    plan: &Plan,
    repeat: &str,
    into: &RunFolder,
    results: &FetchedResults,
) -> Result<RunRecord> {
    let start = Start { id: into.id(), repeat, clock: Clock::Wall, engine: Engine::default() };
    let record = run::begin(plan, start);
    let mut into = into.clone();
    into.write_beginning(&lab::resolved(plan), &record)?;
    let merged = run::merge::merge(plan, &cluster_run(plan, results), record, &into).inspect_err(
        |error| {
            // The caller reports the error even if it cannot be written to the record.
            let _ = into.end(error.failure());
        },
    )?;
    for folder in results.folders.values() {
        // A remaining folder does no harm.
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(merged)
}

fn cluster_run(plan: &Plan, results: &FetchedResults) -> ClusterRun {
    let membership = &results.membership;
    let agents = membership.agents.iter().enumerate().map(|(at, name)| {
        let agent = AgentId::at(at);
        let own = results.outages.iter().filter(|outage| outage.agent == agent);
        AgentRun {
            name: name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            folder: results.folders.get(&agent).cloned(),
            outages: own
                .map(|outage| run::record::cluster::Outage {
                    at_s: outage.from.as_secs_f64(),
                    until_s: outage.until.map(base::Span::as_secs_f64),
                })
                .collect(),
            clock_offset_ns: results.offsets.get(at).copied().flatten(),
        }
    });
    let name = |agent: AgentId| membership.agents.get(agent.index()).map_or("", String::as_str);
    let outage_warning = |outage: &Outage| format!("agent {}: {}", name(outage.agent), outage.why);
    let warnings = results.warnings.iter().cloned();
    let stops = plan.cluster.on_loss == OnLoss::Stop;
    let ended_by = results.outages.first().filter(|_| stops && !results.interrupted);
    let failure = ended_by.map(|outage| {
        let (name, why) = (name(outage.agent), &outage.why);
        let text = format!("the lab ended because of agent {name}: {why}");
        Failure { kind: FailureKind::Machine, text }
    });
    let status = match &failure {
        Some(_) => Status::Failed,
        None if results.interrupted => Status::Interrupted,
        None => Status::Finished,
    };
    ClusterRun {
        agents: agents.collect(),
        owners: membership.owners.iter().map(|owner| owner.map(|agent| agent.0)).collect(),
        sharing: plan.model.sharing().to_owned(),
        encrypted: membership.encrypt,
        on_agent_loss: plan.cluster.on_loss.as_str().to_owned(),
        warnings: warnings.chain(results.outages.iter().map(outage_warning)).collect(),
        status: Some(status),
        failure,
    }
}
