//! Runs a lab over the agents of a cluster: the driver of `cluster::coordinator`.
//!
//! One thread decides; Zenoh's threads and those that fetch results bring it events.

mod files;
mod gather;
mod talk;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use base::{Span, Time};
use cluster::control::{
    Membership, Offer, OnLoss, Order, Phase, Prepare, Refusal, Report, Reserve, Reserved, Start,
    Started,
};
use cluster::coordinator::{Coordinator, Ending, Output, Terms};
use cluster::detector::{Change, Detector};
use cluster::placement::{self, Machine, Placement};
use cluster::{AgentId, control};
use emu::run::Progress;
use lab::plan::Plan;
use record::{RunFolder, RunRecord};
use zenoh::pubsub::Subscriber;

use crate::agent::draw;
use crate::beats::Beats;
use crate::reach::Reached;
use crate::session::{self, Peer, key};
use crate::{Error, Result, piece, urgent};
use talk::Talk;

pub use gather::{Collecting, collect};

/// The coordinator looks around this often.
const ROUND: Duration = Duration::from_millis(50);

/// How a lab is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where run folders are made.
    pub runs_dir: PathBuf,
    /// Where files that programs name are.
    pub lab_dir: PathBuf,
    /// The command that repeats the run.
    pub repeat: String,
    /// The datapath's engine, where the user chose one.
    pub engine: Option<String>,
    /// Keep the lab up until its duration is over.
    pub stay: bool,
    /// Encrypt packets between machines, beside authenticating them.
    pub encrypt: bool,
    /// Let the worst case exceed what machines can carry.
    pub overcommit: bool,
    /// Where it says that it stands, and waits to be let [begin](Interrupt::begin).
    pub starter: Option<Arc<UnixStream>>,
}

/// What a coordinator hears.
pub(crate) enum Event {
    /// The user wants it to end.
    Interrupt,
    /// Labs that begin together all stand.
    Begin,
    /// An agent keeps room, or not.
    Reserved(AgentId, Result<Reserved, Refusal>),
    /// An agent has taken in the piece, or not.
    Prepared(AgentId, Result<(), Refusal>),
    /// An agent knows when the lab begins, or not.
    Started(AgentId, Result<Started, Refusal>),
    /// An agent does not do what it was ordered.
    Refused(AgentId, Refusal),
    /// How a piece is.
    Report(Report),
    /// An agent is there, or leaves.
    Heartbeat {
        /// Its name.
        name: String,
        /// Its process.
        instance: u64,
        /// It leaves in order.
        leaves: bool,
    },
    /// Results are on their way.
    Fetching,
    /// Results are here, or cannot be had.
    Fetched(AgentId, Result<PathBuf>),
}

/// Asks a run to end, or lets it begin.
#[derive(Clone, Debug)]
pub struct Interrupt(Sender<Event>);

impl Interrupt {
    /// A run with a [starter](Options::starter) may begin.
    pub fn begin(&self) {
        // One that is over needs no telling.
        let _ = self.0.send(Event::Begin);
    }

    /// End in order; asked again: at once.
    pub fn interrupt(&self) {
        // One that is over needs no telling.
        let _ = self.0.send(Event::Interrupt);
    }
}

/// A cluster, on which labs can be run one after the other.
pub struct Runner {
    reached: Reached,
    events: Sender<Event>,
    news: Receiver<Event>,
}

impl Runner {
    /// A cluster that has been reached.
    ///
    /// # Errors
    /// Where its agents are of different versions.
    pub fn new(reached: Reached) -> Result<Self> {
        reached.check_versions()?;
        let (events, news) = channel();
        Ok(Self { reached, events, news })
    }

    /// A handle to end what runs.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(self.events.clone())
    }

    /// Places a lab on the agents, less what other labs have been promised.
    ///
    /// # Errors
    /// Where it does not fit, with numbers.
    pub fn place(&self, plan: &Plan, overcommit: bool) -> Result<(Vec<Machine>, Placement)> {
        place(&self.reached, plan, overcommit).map(|(machines, _, placement)| (machines, placement))
    }

    /// Runs `plan` and returns its record; the folder is `runs_dir/<name>-<id>`.
    ///
    /// # Errors
    /// Where the lab could not start; nothing is left of it on any agent then. A lab that started
    /// always gives a record.
    pub fn run(
        &self,
        plan: &Plan,
        options: &Options,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunRecord> {
        let (machines, _, placement) = place(&self.reached, plan, options.overcommit)?;
        let files = files::pack(plan, &options.lab_dir)?;
        let folder = RunFolder::create(&options.runs_dir, &plan.name)?;
        let run = Run::new(self, plan, options, &machines, &placement, folder)?;
        // What a run before this one has not heard is not about this one, but for its user.
        while let Ok(event) = self.news.try_recv() {
            if matches!(event, Event::Interrupt) {
                let _ = std::fs::remove_dir_all(run.folder.path());
                return Err(Error::Interrupted);
            }
        }
        run.run(&files, progress)
    }
}

/// What placing goes by: the slowest pair of agents.
pub(crate) fn terms(reached: &Reached, overcommit: bool) -> placement::Terms {
    let peers = reached.agents.iter().flat_map(|agent| &agent.peers);
    let slowest = peers.filter_map(|peer| Some(peer.clock?.round_trip_ns / 2)).max();
    let default = placement::Terms::default();
    let physical = slowest.map_or(default.physical, Span::from_nanos);
    placement::Terms { physical, overcommit }
}

/// The machines, what placing went by, and who has what.
pub type Placed = (Vec<Machine>, placement::Terms, Placement);

/// Places a lab on the agents of a cluster.
///
/// # Errors
/// Where it does not fit, with numbers.
pub fn place(reached: &Reached, plan: &Plan, overcommit: bool) -> Result<Placed> {
    let machines: Vec<Machine> = reached
        .agents
        .iter()
        .map(|agent| Machine { name: agent.name.clone(), resources: agent.free.into() })
        .collect();
    let terms = terms(reached, overcommit);
    let placement = placement::place(plan, &machines, &terms)
        .map_err(|refusal| Error::DoesNotFit { text: refusal.to_string() })?;
    Ok((machines, terms, placement))
}

/// One run.
struct Run<'a> {
    runner: &'a Runner,
    plan: &'a Plan,
    options: &'a Options,
    placement: &'a Placement,
    folder: RunFolder,
    /// Of the lab, on the agents.
    lab: String,
    key: String,
    members: Vec<String>,
    needs: Vec<Offer>,
    machine: Coordinator,
    detector: Detector,
    reports: BTreeMap<AgentId, Report>,
    fetched: BTreeMap<AgentId, PathBuf>,
    talk: Talk,
    beats: Beats,
    _subscribers: [Subscriber<()>; 2],
}

fn now() -> Time {
    Time::from_nanos(sys::clock::monotonic())
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
        let agents = &runner.reached.agents;
        let member = |share: &placement::Share| &agents[share.machine];
        let shares = &placement.machines;
        let instances: Vec<u64> = shares.iter().map(|share| member(share).instance).collect();
        let needs = shares
            .iter()
            .map(|share| offer(share.needs(&machines[share.machine].resources)))
            .collect();
        let lab = format!("{:016x}", draw()?);
        let mut secret = Vec::new();
        for _ in 0..4 {
            secret.extend(draw()?.to_le_bytes());
        }
        let mut detector = Detector::new();
        for share in shares {
            detector.hear(now(), &share.name, member(share).instance);
        }
        let terms = Terms {
            instances,
            duration: plan.duration,
            grace: grace(plan),
            stay: options.stay,
            waits: options.starter.is_some(),
            on_loss: on_loss(plan),
        };
        let bus = runner.reached.bus.clone();
        let members: Vec<String> = shares.iter().map(|share| share.name.clone()).collect();
        let peers: Vec<Peer> = members.iter().map(|name| runner.reached.peer(name)).collect();
        let subscribers = subscribe(runner, &lab, peers.clone())?;
        let beats = Beats::start(&bus, key::coordinator(&lab, bus.own.number), Vec::new())?;
        let talk = Talk::new(bus, runner.events.clone(), lab.clone(), peers);
        Ok(Self {
            runner,
            plan,
            options,
            placement,
            folder,
            lab,
            key: piece::hex(&secret),
            members,
            needs,
            machine: Coordinator::new(now(), terms),
            detector,
            reports: BTreeMap::new(),
            fetched: BTreeMap::new(),
            talk,
            beats,
            _subscribers: subscribers,
        })
    }

    fn run(mut self, files: &[u8], progress: &mut dyn FnMut(Progress)) -> Result<RunRecord> {
        urgent::hurry();
        let ending = self.attend(files, progress);
        urgent::rest();
        let ending = match ending {
            Ok(ending) => ending,
            Err(error) => {
                let _ = std::fs::remove_dir_all(self.folder.path());
                return Err(error);
            }
        };
        match ending {
            Ending::Failed { agent, refusal } => {
                // Nothing ran: an empty folder would only puzzle.
                let _ = std::fs::remove_dir_all(self.folder.path());
                Err(match agent {
                    None => Error::Interrupted,
                    Some(agent) => Error::Agent {
                        agent: self.members[agent.index()].clone(),
                        text: refusal.text,
                        code: refusal.code,
                    },
                })
            }
            Ending::Ran { keep, outages, interrupted, .. } => {
                let gathered = gather::Gathered {
                    membership: Membership {
                        members: self.members.clone(),
                        owners: self.placement.assignment.owners().to_vec(),
                        encrypt: self.options.encrypt,
                    },
                    folders: self.fetched.clone(),
                    offsets: self.offsets(),
                    warnings: self.placement.warnings.clone(),
                    outages,
                    interrupted,
                };
                let record = self.merge(&gathered)?;
                for agent in keep {
                    // What is not dropped now is so after a day.
                    let _ = self.talk.order(agent, Order::Drop);
                }
                Ok(record)
            }
        }
    }

    /// Stores the run, or nothing.
    fn merge(&self, gathered: &gather::Gathered) -> Result<RunRecord> {
        let (plan, repeat, folder) = (self.plan, &self.options.repeat, &self.folder);
        let merged = std::thread::scope(|scope| {
            let merging = scope.spawn(|| gather::merge(plan, repeat, folder, gathered));
            // It may take a while, and the agents are to know that somebody is there.
            while !merging.is_finished() {
                self.beats.tick();
                std::thread::sleep(ROUND);
            }
            merging.join()
        });
        let merged = merged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        merged.map_err(|error| {
            let _ = std::fs::remove_dir_all(folder.path());
            self.unstored(error)
        })
    }

    /// By how much the members' clocks differed from member 0's when the lab was placed.
    fn offsets(&self) -> Vec<Option<i64>> {
        let agents = &self.runner.reached.agents;
        let first = &agents[self.placement.machines[0].machine];
        let of = |name: &String| {
            let peer = first.peers.iter().find(|peer| peer.name == *name)?;
            peer.clock.map(|clock| clock.offset_ns)
        };
        let others = self.members.iter().skip(1).map(of);
        std::iter::once(Some(0)).chain(others).collect()
    }

    /// Leads the run to its end.
    fn attend(&mut self, files: &[u8], progress: &mut dyn FnMut(Progress)) -> Result<Ending> {
        loop {
            while let Some(output) = self.machine.poll() {
                if let Some(ending) = self.act(output, files)? {
                    return Ok(ending);
                }
            }
            if let Ok(event) = self.runner.news.recv_timeout(ROUND) {
                self.take(event, progress)?;
            }
            let now = now();
            self.beats.tick();
            for change in self.detector.look(now) {
                self.changed(change);
            }
            self.machine.look(now);
        }
    }

    /// Does what the machine wants; its end, when there is no more to do.
    fn act(&mut self, output: Output, files: &[u8]) -> Result<Option<Ending>> {
        match output {
            Output::Reserve(agent) => self.reserve(agent)?,
            Output::Prepare(agent) => self.prepare(agent, files)?,
            Output::Start { agent, origin_ns } => {
                let start = Start { lab: self.lab.clone(), origin_ns };
                self.talk.ask(agent, "start", &start, None, Event::Started)?;
            }
            Output::Order { agent, order } => self.talk.order(agent, order)?,
            Output::Fetch(agent) => {
                let bytes = self.reports.get(&agent).map_or(0, |report| report.result_bytes);
                let into = self.folder.path().join(format!(".piece-{agent}"));
                self.talk.fetch(agent, bytes, into)?;
            }
            Output::Stands => {
                if let Some(mut starter) = self.options.starter.as_deref() {
                    // Where nobody listens any more, the interrupt is under way.
                    let _ = starter.write_all(&[1]);
                }
            }
            Output::Begun => {}
            Output::Over(ending) => return Ok(Some(ending)),
        }
        Ok(None)
    }

    fn reserve(&self, agent: AgentId) -> Result<()> {
        let member = agent.index();
        let place = self.placement.machines[member].machine;
        let reserve = Reserve {
            lab: self.lab.clone(),
            name: self.plan.name.clone(),
            instance: self.runner.reached.agents[place].instance,
            own: agent,
            members: self.members.clone(),
            numbers: self
                .members
                .iter()
                .map(|name| self.runner.reached.peer(name).number)
                .collect(),
            needs: self.needs[member],
            overcommit: self.options.overcommit,
            on_loss: on_loss(self.plan),
        };
        self.talk.ask(agent, "reserve", &reserve, None, Event::Reserved)
    }

    fn prepare(&self, agent: AgentId, files: &[u8]) -> Result<()> {
        let Some((trunks, datagram)) = self.machine.trunks() else { return Ok(()) };
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
        self.talk.ask(agent, "prepare", &prepare, Some(files), Event::Prepared)
    }

    fn take(&mut self, event: Event, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let now = now();
        let machine = &mut self.machine;
        match event {
            Event::Interrupt => machine.interrupt(now),
            Event::Begin => machine.begin(now),
            Event::Reserved(agent, Ok(reserved)) => machine.reserved(now, agent, reserved),
            Event::Started(agent, Ok(started)) => machine.started(now, agent, started.origin_ns),
            Event::Prepared(_, Ok(())) => {}
            Event::Reserved(agent, Err(refusal))
            | Event::Prepared(agent, Err(refusal))
            | Event::Started(agent, Err(refusal))
            | Event::Refused(agent, refusal) => machine.refused(now, agent, refusal),
            Event::Report(report) => {
                machine.report(now, &report);
                self.reports.insert(report.agent, report);
                self.show(progress);
            }
            Event::Heartbeat { name, instance, leaves } => {
                let change = if leaves {
                    self.detector.leave(&name)
                } else {
                    self.detector.hear(now, &name, instance)
                };
                if let Some(change) = change {
                    self.changed(change);
                }
            }
            Event::Fetching => machine.fetching(now),
            Event::Fetched(agent, Ok(folder)) => {
                self.fetched.insert(agent, folder);
                machine.fetched(now, agent, Ok(()));
            }
            Event::Fetched(_, Err(error)) if error.is_of_storage() => {
                return Err(self.unstored(error));
            }
            Event::Fetched(agent, Err(error)) => {
                machine.fetched(now, agent, Err(error.to_string()));
            }
        }
        Ok(())
    }

    fn unstored(&self, cause: Error) -> Error {
        Error::Unstored { lab: self.lab.clone(), cause: Box::new(cause) }
    }

    fn changed(&mut self, change: Change) {
        let now = now();
        let agent = |name: &str| self.members.iter().position(|member| member == name);
        match change {
            Change::Lost(name) => {
                if let Some(at) = agent(&name) {
                    self.machine.lost(now, AgentId::at(at));
                }
            }
            Change::Heard(name) => {
                if let Some(at) = agent(&name) {
                    self.machine.regained(now, AgentId::at(at));
                }
            }
            Change::Replaced(name) => {
                if let Some(at) = agent(&name) {
                    self.machine.replaced(now, AgentId::at(at));
                }
            }
        }
    }

    /// How far the whole is: as far as the last of its pieces.
    fn show(&self, progress: &mut dyn FnMut(Progress)) {
        let running = || {
            let runs = |report: &&Report| matches!(report.phase, Phase::Running | Phase::Stopping);
            self.reports.values().filter(runs).filter_map(|report| report.progress.as_ref())
        };
        let Some(now_ns) = running().map(|piece| piece.now_ns).min() else { return };
        let ends = self.reports.values().filter(|report| report.phase == Phase::Stopping);
        let ends = ends.filter_map(|report| self.members.get(report.agent.index()));
        let mut waits: Vec<String> = ends.map(|name| format!("the end of {name}'s part")).collect();
        let others = running().map(|piece| &piece.waiting_for).filter(|text| !text.is_empty());
        waits.extend(others.cloned());
        progress(Progress {
            now: Time::from_nanos(now_ns),
            duration: self.plan.duration,
            waiting_for: waits.join(", "),
            packets: running().map(|piece| piece.packets).sum(),
            name: self.plan.name.clone(),
        });
    }
}

/// How long pieces may take to end: their programs have a grace of their own, and namespaces that
/// are taken down wait for each other.
fn grace(plan: &Plan) -> Span {
    let programs = plan.programs.iter().map(|program| program.grace).max().unwrap_or_default();
    programs + Span::from_secs(15) + Span::from_millis(100 * plan.nodes.len() as u64)
}

/// As agents are told.
fn on_loss(plan: &Plan) -> OnLoss {
    match plan.cluster.on_loss {
        lab::plan::OnLoss::Stop => OnLoss::Stop,
        lab::plan::OnLoss::Continue => OnLoss::Continue,
    }
}

fn offer(resources: cluster::Resources) -> Offer {
    Offer {
        cores: resources.cores,
        memory: resources.memory.count(),
        nic: resources.nic.map(base::Bandwidth::bits_per_sec),
        traffic: resources.traffic.map(base::Bandwidth::bits_per_sec),
        hosts: resources.hosts,
    }
}

/// What agents publish becomes events.
fn subscribe(runner: &Runner, lab: &str, members: Vec<Peer>) -> Result<[Subscriber<()>; 2]> {
    let bus = &runner.reached.bus;
    let events = runner.events.clone();
    let reports = bus.subscribe(key::reports(lab), move |sender, sample| {
        let report: Option<Report> = session::read(&sample.payload().to_bytes());
        let own = |report: &Report| members.get(report.agent.index()) == Some(sender);
        if let Some(report) = report.filter(own) {
            drop(events.send(Event::Report(report)));
        }
    })?;
    let events = runner.events.clone();
    let heartbeats = bus.subscribe_certified(key::HEARTBEATS.to_owned(), move |sender, beat| {
        let (name, control::Heartbeat { instance, leaves, .. }) = (sender.name.clone(), beat);
        drop(events.send(Event::Heartbeat { name, instance, leaves }));
    })?;
    Ok([reports, heartbeats])
}
