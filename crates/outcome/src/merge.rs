//! One run folder of the pieces of a lab over several machines.
//!
//! Pieces are read side by side in the lab's time. Counters of equal times add up and go to the
//! ledgers that a run on one machine feeds; samples and results of a flow's two halves are joined;
//! logs and captures are merged by time; programs' output is copied. Memory is bounded by the
//! plan's size and by what lies within two seconds of the lab's time.
//!
//! ```text
//! m1/observations.bin ─┐
//! m2/observations.bin ─┼─ sums by time ─▶ ledgers ─▶ tables, summaries, expectations
//! m3/…                 ┘                  verdict of machines, network and clocks ─▶ run.json
//! ```

mod files;
mod flows;
mod machines;
mod sources;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::{Histogram, Span, Time};
use lab::plan::{Command, Plan};
use lab::routes::Routes;
use record::cluster::Outage;
use record::run::{Failure, ProgramSummary, Status};
use record::{Error, Recorder, RecorderOptions, RunFolder, RunRecord};

use crate::observation::Observation;
use crate::{Ended, FlowResult, Ledgers, verdict};
use files::Logs;
use flows::Flows;
use sources::Source;
use sums::Sums;

/// A lab that ran on several machines, as its coordinator knows it.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// The members, in the order of their numbers.
    pub members: Vec<Joined>,
    /// The member of each node of the plan; `None`: it is everywhere.
    pub owners: Vec<Option<u16>>,
    /// How members agreed on shares, as in the lab file.
    pub sharing: String,
    /// Whether packets between members were encrypted.
    pub encrypted: bool,
    /// `stop` or `continue`.
    pub on_agent_loss: String,
    /// What the coordinator and placement have to say.
    pub warnings: Vec<String>,
    /// How the run ended, where the coordinator knows it better than the members, which were told
    /// to stop.
    pub status: Option<Status>,
    /// Why it failed, with the exit code that says so.
    pub failure: Option<Failure>,
}

/// A machine that took part.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// The agent's name.
    pub name: String,
    /// Version of its program.
    pub version: String,
    /// Its piece's run folder, on this machine; `None` where it could not be had.
    pub folder: Option<PathBuf>,
    /// When the others, or the coordinator, did not hear it.
    pub outages: Vec<Outage>,
    /// Its clock less the first member's, in nanoseconds.
    pub clock_offset_ns: Option<i64>,
}

/// How much later than counters of the same time samples of flows may come.
const SLACK: Span = Span::from_secs(2);

/// Makes the run folder `into` of a plan's pieces and completes `record`, which is as it was when
/// the run began. What is damaged or missing is told in the record and makes it untrusted.
///
/// # Errors
/// If the folder cannot be written.
pub fn merge(
    plan: &Plan,
    pieces: &Pieces,
    mut record: RunRecord,
    into: &RunFolder,
) -> Result<RunRecord, Error> {
    let mut sources: Vec<Source> =
        pieces.members.iter().map(|m| Source::open(m, plan, pieces.members.len())).collect();
    let started_unix_ns = sources.iter().find_map(|source| source.started_unix_ns);
    let started_unix_ns = started_unix_ns.unwrap_or(record.started_unix_ms * 1_000_000);
    record.started_unix_ms = started_unix_ns / 1_000_000;
    let recorder = Recorder::start(into, &recorded(plan, started_unix_ns))?;
    let mut merger = Merger {
        ledgers: Ledgers::new(plan, recorder.handle()),
        sums: Sums::new(plan, sources.len()),
        flows: Flows::new(plan.interval),
        logs: Logs::open(pieces, recorder.handle()),
        results: BTreeMap::new(),
        waited: vec![Histogram::new(); plan.links.len() * 2],
        programs: vec![None; plan.programs.len()],
    };
    merger.read_all(&mut sources);
    merger.finish();
    let Merger { ledgers, logs, results, waited, programs, .. } = merger;
    let mut warnings = pieces.warnings.clone();
    warnings.extend(sources.iter_mut().flat_map(Source::take_warnings));
    warnings.extend(logs.into_warnings());
    warnings.extend(files::copy(pieces, &sources, started_unix_ns, into));
    let results: Vec<FlowResult> = results.into_values().collect();
    record.programs = programs
        .into_iter()
        .enumerate()
        .map(|(at, told)| told.map_or_else(|| unknown(plan, at, pieces, &mut warnings), |all| *all))
        .collect();
    let at = sources.iter().map(|source| source.ended).max().unwrap_or(Time::ZERO);
    let link_up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    let routes = Routes::compute(plan, &link_up);
    let tolerance = verdict::tolerance(plan, &routes);
    record.warnings = warnings;
    machines::enter(
        &mut record,
        &machines::Found {
            plan,
            pieces,
            sources: &sources,
            results: &results,
            delays: &verdict::path_delays(plan, &routes, &pieces.owners, sources.len()),
            at,
            tolerance,
        },
    );
    if let Some(error) = recorder.finish().error {
        record.fail(error.failure());
    }
    crate::complete(
        &mut record,
        &Ended {
            plan,
            at,
            results: &results,
            links: &ledgers.links,
            flows: &ledgers.flows,
            control: &[],
            bundles: &ledgers.bundles,
            queue_delays: &waited,
        },
    );
    into.write_record(&record)?;
    Ok(record)
}

/// What is recorded of the whole: captures are files of their own, and there is time.
fn recorded(plan: &Plan, started_unix_ns: u64) -> RecorderOptions {
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

/// A program that nothing is known of: nothing is held against it, either.
fn unknown(plan: &Plan, at: usize, pieces: &Pieces, warnings: &mut Vec<String>) -> ProgramSummary {
    let program = &plan.programs[at];
    let owner = pieces.owners.get(program.node.index()).copied().flatten();
    let member = owner.and_then(|owner| pieces.members.get(usize::from(owner)));
    let member = member.map_or("its machine", |member| &member.name);
    warnings.push(format!("what became of {} on {member} is not known", program.name));
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

/// The first entry of a map, if it is due or the map holds more than `most`.
fn take_due<K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    most: usize,
    is_due: impl Fn(&K) -> bool,
) -> Option<(K, V)> {
    let is_full = map.len() > most;
    let entry = map.first_entry()?;
    (is_full || is_due(entry.key())).then(|| entry.remove_entry())
}

/// What is made of the pieces.
struct Merger {
    ledgers: Ledgers,
    sums: Sums,
    flows: Flows,
    logs: Logs,
    results: BTreeMap<u32, FlowResult>,
    /// How long packets waited, by position of the link direction.
    waited: Vec<Histogram>,
    programs: Vec<Option<Box<ProgramSummary>>>,
}

impl Merger {
    /// Reads all pieces side by side, the one that is behind first.
    fn read_all(&mut self, sources: &mut [Source]) {
        loop {
            let open = sources.iter().enumerate().filter(|(_, source)| source.is_open());
            let Some((at, _)) = open.min_by_key(|(_, source)| source.at) else { return };
            let Some(observation) = sources[at].next() else { continue };
            self.take(at, observation);
            let behind = sources.iter().filter(|source| source.is_open());
            let Some(until) = behind.map(|source| source.at).min() else { return };
            self.release(until);
        }
    }

    fn take(&mut self, source: usize, observation: Observation) {
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
            Observation::Waited(position, waited) => {
                if let Some(all) = self.waited.get_mut(position as usize) {
                    all.merge(&waited);
                }
            }
            Observation::Program(program, summary) => {
                if let Some(told) = self.programs.get_mut(program as usize) {
                    *told = Some(summary);
                }
            }
            // The source keeps these.
            Observation::Begin(_) | Observation::Peer(_) | Observation::End(_) => {}
        }
    }

    /// Enters what all pieces have come past.
    fn release(&mut self, until: Time) {
        for batch in self.sums.until(until) {
            self.logs.until(batch.at);
            self.ledgers.enter(batch);
        }
        let settled = until.as_nanos().saturating_sub(SLACK.as_nanos());
        self.flows.until(Time::from_nanos(settled), &mut self.ledgers);
    }

    fn finish(&mut self) {
        for batch in self.sums.rest() {
            self.logs.until(batch.at);
            self.ledgers.enter(batch);
        }
        self.flows.until(Time::MAX, &mut self.ledgers);
        self.logs.until(Time::MAX);
    }
}
