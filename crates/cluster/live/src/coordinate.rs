//! Runs a lab on the agents of a cluster: the driver of `cluster::coordinator`.
//!
//! The calling thread handles all events. Zenoh's threads and those that fetch results send them.

mod agent_client;
mod collect;
mod event;
mod files;
mod merge;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use base::{Span, Time};
use cluster::AgentId;
use cluster::control::{Membership, Offer, OnLoss, Order, Phase, Prepare, Report, Reserve, Start};
use cluster::coordinator::{Coordinator, Ending, Output, Terms};
use cluster::detector::{Change, Detector};
use emu::run::Progress;
use lab::plan::Plan;
use placement::{Machine, Placement};
use run::{RunFolder, RunRecord};

use crate::connection::Connection;
use crate::heartbeat::HeartbeatSender;
use crate::session::{self, Declaration, LabPeers, key};
use crate::system::{now, random};
use crate::{Error, Result, priority, shard};
use agent_client::AgentClient;
use event::Event;
use merge::FetchedResults;

pub use collect::{Collection, collect};
pub use event::Interrupt;

/// Max interval of periodic work.
const TICK: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub struct Options {
    /// The parent of run folders.
    pub runs_dir: PathBuf,
    /// The base of relative file names in the lab's programs.
    pub lab_dir: PathBuf,
    /// The command that repeats the run.
    pub repeat: String,
    /// The datapath's engine; `None` if the user did not choose one.
    pub engine: Option<String>,
    /// Keep the lab up until its duration has passed.
    pub stay: bool,
    /// Encrypt packets between machines as well as authenticating them.
    pub encrypt: bool,
    /// Accept a placement whose worst case exceeds the machines' capacities.
    pub overcommit: bool,
    /// Receives a byte when all shards are ready; then the lab waits for [`Interrupt::begin`].
    pub starter: Option<Arc<UnixStream>>,
}

/// Runs labs one after the other on a cluster.
pub struct Runner {
    connection: Connection,
    events: Sender<Event>,
    received: Receiver<Event>,
}

impl Runner {
    /// # Errors
    /// If an agent has another version.
    pub fn new(connection: Connection) -> Result<Self> {
        connection.check_versions()?;
        let (events, received) = channel();
        Ok(Self { connection, events, received })
    }

    /// A handle to interrupt the current run.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(self.events.clone())
    }

    /// Places a lab on the agents' free resources.
    ///
    /// # Errors
    /// If it does not fit, with the numbers.
    pub fn place(&self, plan: &Plan, overcommit: bool) -> Result<(Vec<Machine>, Placement)> {
        place(&self.connection, plan, overcommit)
            .map(|(machines, _, placement)| (machines, placement))
    }

    /// Runs `plan` and returns its record; the folder is `runs_dir/<name>-<id>`.
    ///
    /// # Errors
    /// If the lab could not start; then all agents have dropped it. A lab that has started always
    /// has a record.
    pub fn run(
        &self,
        plan: &Plan,
        options: &Options,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunRecord> {
        let (machines, _, placement) = place(&self.connection, plan, options.overcommit)?;
        let files = files::pack(plan, &options.lab_dir)?;
        let folder = RunFolder::create(&options.runs_dir, &plan.name)?;
        let run = Run::new(self, plan, options, &machines, &placement, folder)?;
        // Discards events of the previous run, except interrupts.
        while let Ok(event) = self.received.try_recv() {
            if matches!(event, Event::Interrupt) {
                let _ = std::fs::remove_dir_all(run.folder.path());
                return Err(Error::Interrupted);
            }
        }
        run.run(&files, progress)
    }
}

/// The terms of a placement: its physical delay is that of the slowest pair of agents.
pub(crate) fn terms(connection: &Connection, overcommit: bool) -> placement::Terms {
    let peers = connection.agents.iter().flat_map(|agent| &agent.peers);
    let slowest = peers.filter_map(|peer| Some(peer.clock?.round_trip_ns / 2)).max();
    let default = placement::Terms::default();
    let physical = slowest.map_or(default.physical, Span::from_nanos);
    placement::Terms { physical, overcommit }
}

pub type Placed = (Vec<Machine>, placement::Terms, Placement);

/// Places a lab on the agents of a cluster.
///
/// # Errors
/// If it does not fit, with the numbers.
pub fn place(connection: &Connection, plan: &Plan, overcommit: bool) -> Result<Placed> {
    let machines: Vec<Machine> = connection
        .agents
        .iter()
        .map(|agent| Machine { name: agent.name.clone(), resources: agent.free.into() })
        .collect();
    let terms = terms(connection, overcommit);
    let placement = placement::place(plan, &machines, &terms)
        .map_err(|refusal| Error::DoesNotFit { text: refusal.to_string() })?;
    Ok((machines, terms, placement))
}

struct Run<'a> {
    runner: &'a Runner,
    plan: &'a Plan,
    options: &'a Options,
    placement: &'a Placement,
    folder: RunFolder,
    /// Identifier of the lab on the agents.
    lab: String,
    /// Authenticates the lab's packets.
    key: String,
    /// Names of the lab's agents, by [`AgentId`].
    agents: Vec<String>,
    needs: Vec<Offer>,
    coordinator: Coordinator,
    detector: Detector,
    reports: BTreeMap<AgentId, Report>,
    fetched: BTreeMap<AgentId, PathBuf>,
    client: AgentClient,
    heartbeats: HeartbeatSender,
    _subscribers: [Declaration; 2],
}

impl<'a> Run<'a> {
    fn new(
        runner: &'a Runner,
        plan: &'a Plan,
        options: &'a Options,
        machines: &[Machine],
        placement: &'a Placement,
        folder: RunFolder,
    ) -> Result<Self> {
        let instance = |share: &placement::Share| runner.connection.agents[share.machine].instance;
        let shares = &placement.machines;
        let needs = shares
            .iter()
            .map(|share| share.needs(&machines[share.machine].resources).into())
            .collect();
        let lab = shard::hex(&random::<8>()?);
        let mut detector = Detector::new();
        for share in shares {
            detector.on_heartbeat(now(), &share.name, instance(share));
        }
        let terms = Terms {
            instances: shares.iter().map(instance).collect(),
            duration: plan.duration,
            grace: grace(plan),
            stay: options.stay,
            waits_for_begin: options.starter.is_some(),
            on_loss: on_loss(plan),
        };
        let bus = runner.connection.bus.clone();
        let agents: Vec<String> = shares.iter().map(|share| share.name.clone()).collect();
        let peers: LabPeers = agents.iter().map(|name| runner.connection.peer(name)).collect();
        let subscribers = subscribe(runner, &lab, peers.clone())?;
        let key = key::coordinator(&lab, bus.own.number);
        let heartbeats = HeartbeatSender::start(&bus, key, Vec::new())?;
        let client = AgentClient::new(bus, runner.events.clone(), lab.clone(), peers);
        Ok(Self {
            runner,
            plan,
            options,
            placement,
            folder,
            lab,
            key: shard::hex(&random::<32>()?),
            agents,
            needs,
            coordinator: Coordinator::new(now(), terms),
            detector,
            reports: BTreeMap::new(),
            fetched: BTreeMap::new(),
            client,
            heartbeats,
            _subscribers: subscribers,
        })
    }

    fn run(mut self, files: &[u8], progress: &mut dyn FnMut(Progress)) -> Result<RunRecord> {
        priority::raise();
        let ending = self.run_to_end(files, progress);
        priority::reset();
        let ending = match ending {
            Ok(ending) => ending,
            Err(error) => {
                let _ = std::fs::remove_dir_all(self.folder.path());
                return Err(error);
            }
        };
        match ending {
            Ending::Failed { agent, refusal } => {
                // A lab that did not start has no results.
                let _ = std::fs::remove_dir_all(self.folder.path());
                Err(match agent {
                    None => Error::Interrupted,
                    Some(agent) => Error::Agent {
                        agent: self.agents[agent.index()].clone(),
                        text: refusal.text,
                        code: refusal.code,
                    },
                })
            }
            Ending::Ran { keep, outages, interrupted, .. } => {
                let results = FetchedResults {
                    membership: Membership {
                        agents: self.agents.clone(),
                        owners: self.placement.assignment.owners().to_vec(),
                        encrypt: self.options.encrypt,
                    },
                    folders: self.fetched.clone(),
                    offsets: self.offsets(),
                    warnings: self.placement.warnings.clone(),
                    outages,
                    interrupted,
                };
                let record = self.merge(&results)?;
                for agent in keep {
                    // After an error, the agent drops it after 24 h.
                    let _ = self.client.order(agent, Order::Drop);
                }
                Ok(record)
            }
        }
    }

    /// Stores the run. After an error the run folder does not exist.
    fn merge(&self, results: &FetchedResults) -> Result<RunRecord> {
        let (plan, repeat, folder) = (self.plan, &self.options.repeat, &self.folder);
        let merged = std::thread::scope(|scope| {
            let merging = scope.spawn(|| merge::merge(plan, repeat, folder, results));
            // A long merge must not stop the heartbeats.
            while !merging.is_finished() {
                self.heartbeats.tick();
                std::thread::sleep(TICK);
            }
            merging.join()
        });
        let merged = merged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        merged.map_err(|error| {
            let _ = std::fs::remove_dir_all(folder.path());
            self.unstored(error)
        })
    }

    /// The offsets of the agents' clocks to that of agent 0 at the time of the placement.
    fn offsets(&self) -> Vec<Option<i64>> {
        let agents = &self.runner.connection.agents;
        let first = &agents[self.placement.machines[0].machine];
        let offset = |name: &String| {
            let peer = first.peers.iter().find(|peer| peer.name == *name)?;
            peer.clock.map(|clock| clock.offset_ns)
        };
        let others = self.agents.iter().skip(1).map(offset);
        std::iter::once(Some(0)).chain(others).collect()
    }

    fn run_to_end(&mut self, files: &[u8], progress: &mut dyn FnMut(Progress)) -> Result<Ending> {
        loop {
            while let Some(output) = self.coordinator.poll() {
                if let Some(ending) = self.execute(output, files)? {
                    return Ok(ending);
                }
            }
            if let Ok(event) = self.runner.received.recv_timeout(TICK) {
                self.handle(event, progress)?;
            }
            let now = now();
            self.heartbeats.tick();
            for change in self.detector.expire(now) {
                self.on_agent_change(&change);
            }
            self.coordinator.on_wake(now);
        }
    }

    /// Executes an action of the coordinator. Returns the ending when the run is over.
    fn execute(&mut self, output: Output, files: &[u8]) -> Result<Option<Ending>> {
        match output {
            Output::Reserve(agent) => self.reserve(agent)?,
            Output::Prepare(agent) => self.prepare(agent, files)?,
            Output::Start { agent, origin_ns } => {
                let start = Start { lab: self.lab.clone(), origin_ns };
                self.client.request(agent, "start", &start, None, Event::Started)?;
            }
            Output::Order { agent, order } => self.client.order(agent, order)?,
            Output::Fetch(agent) => {
                let bytes = self.reports.get(&agent).map_or(0, |report| report.result_bytes);
                let into = self.folder.path().join(format!(".shard-{agent}"));
                self.client.fetch(agent, bytes, into)?;
            }
            Output::Ready => {
                if let Some(mut starter) = self.options.starter.as_deref() {
                    // It fails only if the receiver has ended; then an interrupt follows.
                    let _ = starter.write_all(&[1]);
                }
            }
            Output::Started => {}
            Output::Ended(ending) => return Ok(Some(ending)),
        }
        Ok(None)
    }

    fn reserve(&self, agent: AgentId) -> Result<()> {
        let machine = self.placement.machines[agent.index()].machine;
        let reserve = Reserve {
            lab: self.lab.clone(),
            name: self.plan.name.clone(),
            instance: self.runner.connection.agents[machine].instance,
            own: agent,
            agents: self.agents.clone(),
            numbers: self
                .agents
                .iter()
                .map(|name| self.runner.connection.peer(name).number)
                .collect(),
            needs: self.needs[agent.index()],
            overcommit: self.options.overcommit,
            on_loss: on_loss(self.plan),
        };
        self.client.request(agent, "reserve", &reserve, None, Event::Reserved)
    }

    fn prepare(&self, agent: AgentId, files: &[u8]) -> Result<()> {
        let Some((trunks, datagram)) = self.coordinator.trunks() else { return Ok(()) };
        let prepare = Prepare {
            lab: self.lab.clone(),
            text: lab::resolved(self.plan),
            owners: self.placement.assignment.owners().to_vec(),
            trunks,
            datagram,
            key: self.key.clone(),
            encrypt: self.options.encrypt,
            stay: self.options.stay,
            engine: self.options.engine.clone(),
        };
        self.client.request(agent, "prepare", &prepare, Some(files), Event::Prepared)
    }

    fn handle(&mut self, event: Event, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let now = now();
        let coordinator = &mut self.coordinator;
        match event {
            Event::Interrupt => coordinator.interrupt(now),
            Event::Begin => coordinator.begin(now),
            Event::Reserved(agent, Ok(reserved)) => coordinator.reserved(now, agent, reserved),
            Event::Started(agent, Ok(started)) => {
                coordinator.started(now, agent, started.origin_ns);
            }
            Event::Prepared(_, Ok(())) | Event::Ordered(_, Ok(())) => {}
            Event::Reserved(agent, Err(refusal))
            | Event::Prepared(agent, Err(refusal))
            | Event::Started(agent, Err(refusal))
            | Event::Ordered(agent, Err(refusal)) => coordinator.refused(now, agent, refusal),
            Event::Report(report) => {
                coordinator.report(now, &report);
                self.reports.insert(report.agent, report);
                self.report_progress(progress);
            }
            Event::Heartbeat(name, beat) => {
                let change = if beat.leaves {
                    self.detector.leave(&name)
                } else {
                    self.detector.on_heartbeat(now, &name, beat.instance)
                };
                self.detector.set_timeout(&name, Span::from_nanos(beat.silence_timeout_ns));
                if let Some(change) = change {
                    self.on_agent_change(&change);
                }
            }
            Event::Fetching => coordinator.fetching(now),
            Event::Fetched(agent, Ok(folder)) => {
                self.fetched.insert(agent, folder);
                coordinator.fetched(now, agent, Ok(()));
            }
            Event::Fetched(_, Err(error)) if error.is_storage_error() => {
                return Err(self.unstored(error));
            }
            Event::Fetched(agent, Err(error)) => {
                coordinator.fetched(now, agent, Err(error.to_string()));
            }
        }
        Ok(())
    }

    fn unstored(&self, cause: Error) -> Error {
        Error::Unstored { lab: self.lab.clone(), cause: Box::new(cause) }
    }

    fn on_agent_change(&mut self, change: &Change) {
        let (Change::Lost(name) | Change::Alive(name) | Change::Replaced(name)) = change;
        let Some(at) = self.agents.iter().position(|agent| agent == name) else { return };
        let (now, agent) = (now(), AgentId::at(at));
        match change {
            Change::Lost(_) => self.coordinator.lost(now, agent),
            Change::Alive(_) => self.coordinator.regained(now, agent),
            Change::Replaced(_) => self.coordinator.replaced(now, agent),
        }
    }

    /// Reports the progress of the lab, which is that of its slowest shard.
    fn report_progress(&self, progress: &mut dyn FnMut(Progress)) {
        let running = || {
            let runs = |report: &&Report| matches!(report.phase, Phase::Running | Phase::Stopping);
            self.reports.values().filter(runs).filter_map(|report| report.progress.as_ref())
        };
        let Some(now_ns) = running().map(|shard| shard.now_ns).min() else { return };
        let ends = self.reports.values().filter(|report| report.phase == Phase::Stopping);
        let ends = ends.filter_map(|report| self.agents.get(report.agent.index()));
        let mut waits: Vec<String> =
            ends.map(|name| format!("the end of the shard on {name}")).collect();
        let others = running().map(|shard| &shard.waiting_for).filter(|text| !text.is_empty());
        waits.extend(others.cloned());
        progress(Progress {
            now: Time::from_nanos(now_ns),
            duration: self.plan.duration,
            waiting_for: waits.join(", "),
            packets: running().map(|shard| shard.packets).sum(),
            name: self.plan.name.clone(),
        });
    }
}

/// Max time for the shards to end: the grace time of the programs, and time to remove namespaces,
/// which the kernel does one after the other.
fn grace(plan: &Plan) -> Span {
    let programs = plan.programs.iter().map(|program| program.grace).max().unwrap_or_default();
    programs + Span::from_secs(15) + Span::from_millis(100 * plan.nodes.len() as u64)
}

fn on_loss(plan: &Plan) -> OnLoss {
    match plan.cluster.on_loss {
        lab::plan::OnLoss::Stop => OnLoss::Stop,
        lab::plan::OnLoss::Continue => OnLoss::Continue,
    }
}

/// Turns messages of agents into events.
fn subscribe(runner: &Runner, lab: &str, peers: LabPeers) -> Result<[Declaration; 2]> {
    let bus = &runner.connection.bus;
    let events = runner.events.clone();
    let reports = bus.subscribe(key::reports(lab), move |sender, sample| {
        let report: Option<Report> = session::read(&sample.payload().to_bytes());
        let from = peers.id(sender);
        if let Some(report) = report.filter(|report| from == Some(report.agent)) {
            drop(events.send(Event::Report(report)));
        }
    })?;
    let events = runner.events.clone();
    let heartbeats = bus.subscribe_certified(key::HEARTBEATS.to_owned(), move |sender, beat| {
        drop(events.send(Event::Heartbeat(sender.name.clone(), beat)));
    })?;
    Ok([reports, heartbeats])
}
