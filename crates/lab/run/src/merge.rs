//! Merges the run folders of a lab's shards, which ran on several agents, into one.
//!
//! All shards are read in parallel in the order of lab time. Counters of equal times are summed and
//! entered into the same ledgers as in a run on one host; samples and results of the two ends of a
//! flow are joined; logs and captures are merged by time; programs' output is copied. Memory is
//! bounded by the plan's size and by two seconds of observations.
//!
//! ```text
//! m1/observations.bin ─┐
//! m2/observations.bin ─┼─ sums by time ─▶ ledgers ─▶ tables, summaries, expectations
//! m3/…                 ┘                  verdict on machines, network and clocks ─▶ run.json
//! ```

mod files;
mod flows;
mod sources;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::record::ProgramSummary;
use crate::{Error, Recorder, RecorderOptions, RunFolder, RunRecord};
use base::{Histogram, Span, Time};
use lab::plan::{Command, Plan};
use lab::routes::Routes;

use crate::observation::Observation;
use crate::shards::{self, ClusterContext, Shard, ShardResults};
pub use crate::shards::{AgentRun, ClusterRun};
use crate::{FlowResult, Ledgers, RunResults, verdict};
use files::Logs;
use flows::Flows;
use sources::Source;
use sums::Sums;

/// Maximum time after which samples of flows follow counters of the same time.
const MAX_SAMPLE_DELAY: Span = Span::from_secs(2);

/// Merges a plan's shards into the run folder `into` and completes `record`, the record of the
/// run's start. Damaged or missing data is named in the record and makes the run untrusted.
///
/// # Errors
/// If the folder cannot be written.
pub fn merge(
    plan: &Plan,
    cluster_run: &ClusterRun,
    mut record: RunRecord,
    into: &RunFolder,
) -> Result<RunRecord, Error> {
    let mut sources: Vec<Source> = cluster_run
        .agents
        .iter()
        .map(|agent| Source::open(agent, plan, cluster_run.agents.len()))
        .collect();
    let started_unix_ns = sources.iter().find_map(|source| source.started_unix_ns);
    let started_unix_ns = started_unix_ns.unwrap_or(record.started_unix_ms * 1_000_000);
    record.started_unix_ms = started_unix_ns / 1_000_000;
    let recorder = Recorder::start(into, &recorder_options(plan, started_unix_ns))?;
    let mut merger = Merger {
        ledgers: Ledgers::new(plan, recorder.handle()),
        sums: Sums::new(plan, sources.len()),
        flows: Flows::new(plan.interval),
        logs: Logs::open(cluster_run, recorder.handle()),
        results: BTreeMap::new(),
        queue_delays: vec![Histogram::new(); plan.links.len() * 2],
        programs: vec![None; plan.programs.len()],
    };
    merger.read_all(&mut sources);
    merger.finish();
    let Merger { ledgers, logs, results, queue_delays, programs, .. } = merger;
    let mut warnings = cluster_run.warnings.clone();
    warnings.extend(sources.iter_mut().flat_map(Source::take_warnings));
    warnings.extend(logs.into_warnings());
    warnings.extend(files::copy(cluster_run, &sources, started_unix_ns, into));
    let results: Vec<FlowResult> = results.into_values().collect();
    record.programs = programs
        .into_iter()
        .enumerate()
        .map(|(at, summary)| {
            summary.map_or_else(
                || summary_of_missing_shard(plan, at, cluster_run, &mut warnings),
                |all| *all,
            )
        })
        .collect();
    let at = sources.iter().map(|source| source.ended).max().unwrap_or(Time::ZERO);
    let link_up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    let routes = Routes::compute(plan, &link_up);
    let tolerance = verdict::tolerance(plan, &routes);
    record.warnings = warnings;
    let shards: Vec<Shard<'_>> = cluster_run.agents.iter().zip(&sources).map(shard_of).collect();
    let delays = &verdict::path_delays(plan, &routes, &cluster_run.owners, sources.len());
    let cluster = Some(ClusterContext { run: cluster_run, delays });
    let shard_results =
        ShardResults { plan, shards: &shards, cluster, flow_results: &results, at, tolerance };
    let effects = shards::enter(&mut record, &shard_results);
    if let Some(error) = recorder.finish().error {
        record.fail(error.failure());
    }
    crate::complete(
        &mut record,
        &RunResults {
            plan,
            at,
            flow_results: &results,
            links: &ledgers.links,
            flows: &ledgers.flows,
            control: &[],
            bundles: &ledgers.bundles,
            queue_delays: &queue_delays,
            effects: Some(&effects),
        },
    );
    into.write_record(&record)?;
    Ok(record)
}

fn shard_of<'a>((agent, source): (&'a AgentRun, &'a Source)) -> Shard<'a> {
    Shard { name: &agent.name, ending: source.ending.as_deref(), peers: &source.peers }
}

/// Options of the merged record. Captures are merged separately, and no record may be dropped.
fn recorder_options(plan: &Plan, started_unix_ns: u64) -> RecorderOptions {
    RecorderOptions {
        started_unix_ns,
        links: plan.links.iter().map(|link| link.name.clone()).collect(),
        flows: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
        bundles: plan.bundles.iter().map(|bundle| bundle.name.clone()).collect(),
        nodes: plan.nodes.iter().map(|node| node.name.clone()).collect(),
        captures: Vec::new(),
        lossless: true,
    }
}

/// The summary of a program whose shard is missing. It does not count as failed.
fn summary_of_missing_shard(
    plan: &Plan,
    at: usize,
    cluster_run: &ClusterRun,
    warnings: &mut Vec<String>,
) -> ProgramSummary {
    let program = &plan.programs[at];
    let owner = cluster_run.owners.get(program.node.index()).copied().flatten();
    let agent = owner.and_then(|owner| cluster_run.agents.get(usize::from(owner)));
    let agent = agent.map_or("its agent", |agent| &agent.name);
    warnings.push(format!("the outcome of program {} on {agent} is unknown", program.name));
    ProgramSummary {
        name: program.name.clone(),
        node: plan.nodes[program.node.index()].name.clone(),
        command: match &program.command {
            Command::Shell(line) => line.clone(),
            Command::Exec(words) => words.join(" "),
        },
        as_expected: true,
        ..ProgramSummary::default()
    }
}

struct Merger {
    ledgers: Ledgers,
    sums: Sums,
    flows: Flows,
    logs: Logs,
    results: BTreeMap<u32, FlowResult>,
    /// Queueing delays, by position of the link direction.
    queue_delays: Vec<Histogram>,
    programs: Vec<Option<Box<ProgramSummary>>>,
}

impl Merger {
    /// Reads all shards in parallel: the next observation is from the shard with the earliest time.
    fn read_all(&mut self, sources: &mut [Source]) {
        loop {
            let open = sources.iter().enumerate().filter(|(_, source)| source.is_open());
            let Some((at, _)) = open.min_by_key(|(_, source)| source.at) else { return };
            let Some(observation) = sources[at].next() else { continue };
            self.handle(at, observation);
            let open = sources.iter().filter(|source| source.is_open());
            let Some(until) = open.map(|source| source.at).min() else { return };
            self.enter_until(until);
        }
    }

    fn handle(&mut self, source: usize, observation: Observation) {
        match observation {
            Observation::Counters(counters) => self.sums.add(source, counters),
            Observation::Flow(sample) => self.flows.sample(source, *sample),
            Observation::Subflow(sample) => self.flows.subflow(sample),
            Observation::Transfer(transfer) => self.flows.transfer(transfer),
            Observation::Result(result) => {
                let joined = match self.results.remove(&result.id.0) {
                    Some(other) => other.join(*result),
                    None => *result,
                };
                self.results.insert(joined.id.0, joined);
            }
            Observation::QueueDelay(position, delays) => {
                if let Some(all) = self.queue_delays.get_mut(position as usize) {
                    all.merge(&delays);
                }
            }
            Observation::Program(program, summary) => {
                if let Some(known) = self.programs.get_mut(program as usize) {
                    *known = Some(summary);
                }
            }
            // `Source::next` handles these.
            Observation::Begin(_) | Observation::Peer(_) | Observation::End(_) => {}
        }
    }

    /// Enters all data up to `until`, the earliest time of all shards.
    fn enter_until(&mut self, until: Time) {
        for batch in self.sums.take_until(until) {
            self.logs.write_until(batch.at);
            self.ledgers.enter(batch);
        }
        let complete = until.as_nanos().saturating_sub(MAX_SAMPLE_DELAY.as_nanos());
        self.flows.enter_until(Time::from_nanos(complete), &mut self.ledgers);
    }

    fn finish(&mut self) {
        for batch in self.sums.take_rest() {
            self.logs.write_until(batch.at);
            self.ledgers.enter(batch);
        }
        self.flows.enter_until(Time::MAX, &mut self.ledgers);
        self.logs.write_until(Time::MAX);
    }
}
