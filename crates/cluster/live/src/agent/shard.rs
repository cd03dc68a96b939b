//! The shard of a lab on this agent, from the reservation to the results.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;

use base::{Span, Time};
use cluster::AgentId;
use cluster::control::{
    Awaited, FromShard, HEAD_START, MEMBERSHIP_FILE, Membership, Offer, OnLoss, Phase, Prepare,
    ProgramEvent, Refusal, Report, Reserve, ShardProgress, ToShard,
};
use zenoh::Wait;
use zenoh::qos::{CongestionControl, Priority};

use super::builder::{Builder, Sockets};
use super::clocks::Clocks;
use super::event::Event;
use super::notification::OrphanAction;
use super::notified::{EgressLeads, ProgramEvents};
use super::process::{Folder, Process};
use super::relay::Relay;
use crate::session::{self, Bus, Declaration, LabPeers, Peer, key};
use crate::system::now;
use crate::{Error, Result, results};

pub(super) use super::builder::refusal;

/// Time without a report after which an agent has dropped the lab: agents report their labs
/// every 500 ms.
const REPORT_TIMEOUT: Span = Span::from_secs(2);

pub(super) struct Shard {
    terms: Reserve,
    /// The number in the certificate of its coordinator.
    coordinator: u16,
    phase: Phase,
    /// The phase of the last report.
    reported: Option<Phase>,
    built: bool,
    sequence: u64,
    failure: Option<Refusal>,
    /// The agent whose loss ended the shard.
    ended_by: Option<AgentId>,
    /// Time of the latest report of another agent of the lab.
    last_peer_report: Option<Time>,
    progress: Option<ShardProgress>,
    membership: Option<Membership>,
    /// Lost agents, and whether their shards are lost too.
    lost: BTreeMap<AgentId, bool>,
    /// The first known instance of each agent.
    instances: BTreeMap<AgentId, u64>,
    sockets: Option<Sockets>,
    leads: EgressLeads,
    own_events: ProgramEvents,
    /// Events of other agents' programs that were sent to the process.
    peer_events: ProgramEvents,
    _relay: Relay,
    process: Option<Process>,
    /// Whether the control connection of its process was closed.
    disconnected: bool,
    folder: Option<Folder>,
    /// Lab time zero by agent 0's clock.
    origin: Option<u64>,
    /// Packed results: time and size.
    results: Option<(Time, u64)>,
    _subscribers: Vec<Declaration>,
}

fn refusal_of(error: &Error) -> Refusal {
    Refusal { text: error.to_string(), code: error.exit_code().code() }
}

impl Shard {
    /// A reserved shard with the socket of its trunk.
    pub(super) fn new(
        terms: Reserve,
        coordinator: u16,
        trunk: OwnedFd,
        dir: &Path,
        bus: &Bus,
        events: &Sender<Event>,
    ) -> Result<Self> {
        let folder = Folder::new(dir.join(&terms.lab))?;
        let agents = terms.agents.iter().zip(&terms.numbers);
        let peers: LabPeers = agents.map(|(name, number)| Peer::agent(*number, name)).collect();
        let (relay, notices) = Relay::start(bus, &terms.lab, terms.own, &peers)?;
        let subscribers = subscribe(bus, &terms.lab, coordinator, &peers, events)?;
        Ok(Self {
            terms,
            coordinator,
            phase: Phase::Reserved,
            reported: None,
            built: false,
            sequence: 0,
            failure: None,
            ended_by: None,
            last_peer_report: None,
            progress: None,
            membership: None,
            lost: BTreeMap::new(),
            instances: BTreeMap::new(),
            sockets: Some(Sockets { trunk, notices }),
            leads: EgressLeads::default(),
            own_events: ProgramEvents::default(),
            peer_events: ProgramEvents::default(),
            _relay: relay,
            process: None,
            disconnected: false,
            folder: Some(folder),
            origin: None,
            results: None,
            _subscribers: subscribers,
        })
    }

    pub(super) fn terms(&self) -> &Reserve {
        &self.terms
    }

    pub(super) fn coordinator(&self) -> u16 {
        self.coordinator
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// `None` once it has ended.
    pub(super) fn reserved_resources(&self) -> Option<Offer> {
        (!self.has_ended()).then_some(self.terms.needs)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Failed)
    }

    /// Time and size of the packed results.
    pub(super) fn results(&self) -> Option<(Time, u64)> {
        self.results
    }

    pub(super) fn has_failed(&self) -> bool {
        self.phase == Phase::Failed
    }

    /// Whether the phase has changed since the last report.
    pub(super) fn phase_has_changed(&self) -> bool {
        self.reported != Some(self.phase)
    }

    /// What it waits for while it is prepared.
    fn awaited(&self) -> Option<Awaited> {
        (self.phase == Phase::Preparing).then_some(match (&self.process, self.built) {
            (None, _) => Awaited::Process,
            (Some(_), false) => Awaited::Lab,
            (Some(_), true) => Awaited::Clock,
        })
    }

    pub(super) fn report(&mut self, bus: &Bus, instance: u64) {
        self.sequence += 1;
        self.reported = Some(self.phase);
        let report = Report {
            agent: self.terms.own,
            instance,
            sequence: self.sequence,
            phase: self.phase,
            awaited: self.awaited(),
            failure: self.failure.clone(),
            progress: self.progress.clone(),
            lost: self.ended_by,
            programs: self.own_events.all(),
            result_bytes: self.results.map_or(0, |(_, bytes)| bytes),
        };
        let key = key::report(&self.terms.lab, &bus.own);
        let session = bus.session();
        let put = session.put(key, session::bytes(&report));
        // After an error, the next report has the same state.
        let _ = put.express(true).priority(Priority::InteractiveHigh).wait();
    }

    /// Starts to build the shard with the lab's packed files.
    pub(super) fn prepare(
        &mut self,
        prepare: Prepare,
        files: Vec<u8>,
        clocks: &Clocks,
        program: &Path,
        events: &Sender<Event>,
    ) -> Result<(), Refusal> {
        if self.phase != Phase::Reserved {
            return Err(refusal(format!("lab {} is being prepared already", self.terms.lab)));
        }
        if !prepare.fits(&self.terms) {
            let text = "the lab does not match its reservation".to_owned();
            return Err(Refusal { text, code: 70 });
        }
        let (Some(sockets), Some(folder)) = (self.sockets.take(), &self.folder) else {
            return Err(refusal("the sockets of its reservation are closed"));
        };
        self.leads = EgressLeads::new(&self.terms.agents, clocks);
        let builder = Builder {
            folder: folder.path().to_owned(),
            terms: self.terms.clone(),
            leads_ns: self.leads.nanos(),
            program: program.to_owned(),
            events: events.clone(),
        };
        self.membership = Some(Membership {
            agents: self.terms.agents.clone(),
            owners: prepare.owners.clone(),
            encrypt: prepare.encrypt,
        });
        self.phase = Phase::Preparing;
        let lab = self.terms.lab.clone();
        let events = events.clone();
        let build = move || {
            let process = builder.build(prepare, &files, sockets).map_err(|e| refusal_of(&e));
            let _ = events.send(Event::ProcessStarted(lab, process));
        };
        let spawned = thread::Builder::new().name("builder".to_owned()).spawn(build);
        spawned.map(drop).map_err(|e| refusal(format!("cannot start a thread: {e}")))
    }

    /// Its process runs. Messages of the process, and its end, may have arrived before this.
    pub(super) fn on_process_started(
        &mut self,
        process: Result<Process, Refusal>,
        events: &Sender<Event>,
    ) {
        match process {
            Ok(process) => {
                self.process = Some(process);
                if self.disconnected {
                    self.on_disconnect(events);
                } else if self.has_failed() {
                    self.end_process(None);
                }
            }
            Err(refusal) => self.fail(refusal),
        }
    }

    /// Starts the lab. Returns lab time zero by agent 0's clock, which agent 0 chooses here.
    pub(super) fn start(&mut self, origin: Option<u64>, clocks: &Clocks) -> Result<u64, Refusal> {
        if let (Phase::Running, Some(origin)) = (self.phase, self.origin) {
            return Ok(origin);
        }
        let Some(process) = self.process.as_ref().filter(|_| self.phase == Phase::Ready) else {
            return Err(refusal("its shard is not ready"));
        };
        let origin = match origin {
            Some(origin) => origin,
            None if self.terms.own == AgentId(0) => sys::clock::monotonic() + HEAD_START.as_nanos(),
            None => return Err(refusal("only agent 0 chooses the start time")),
        };
        self.origin = Some(origin);
        let Some((origin_ns, bound_ns)) = self.own_origin(clocks) else {
            return Err(refusal("the clock offset to agent 0 is not known yet"));
        };
        process.send(&ToShard::Start { origin_ns, bound_ns });
        self.phase = Phase::Running;
        Ok(origin)
    }

    /// Lab time zero by the local clock, and its max error.
    fn own_origin(&self, clocks: &Clocks) -> Option<(u64, u64)> {
        let origin = self.origin?;
        if self.terms.own == AgentId(0) {
            return Some((origin, 0));
        }
        let offset = clocks.offset(&self.terms.agents[0])?;
        Some((offset.to_own(Time::from_nanos(origin)).as_nanos(), offset.bound.as_nanos()))
    }

    pub(super) fn tick(&mut self, clocks: &Clocks, clocks_are_due: bool) {
        // Its process may be built before the thread that has started it reports so.
        if self.phase == Phase::Preparing && self.built && self.process.is_some() {
            let has_offset = |name: &String| clocks.offset(name).is_some();
            if self.terms.own == AgentId(0) || self.terms.agents.first().is_some_and(has_offset) {
                self.phase = Phase::Ready;
            }
        }
        let runs = matches!(self.phase, Phase::Running | Phase::Stopping);
        if let (true, true, Some(process)) = (runs, clocks_are_due, &self.process) {
            for (agent, lead) in self.leads.update(&self.terms.agents, clocks) {
                process.send(&ToShard::Lead { agent, lead_ns: lead.as_nanos() });
            }
        }
        // Without agent 0 its clock cannot be measured any more.
        if runs
            && clocks_are_due
            && !self.lost.contains_key(&AgentId(0))
            && let (Some((origin_ns, bound_ns)), Some(process)) =
                (self.own_origin(clocks), &self.process)
        {
            process.send(&ToShard::Clock { origin_ns, bound_ns });
        }
    }

    /// Handles a message of its process.
    pub(super) fn on_message(&mut self, message: FromShard, bus: &Bus, events: &Sender<Event>) {
        match message {
            FromShard::Ready => self.built = true,
            FromShard::Progress(progress) => self.progress = Some(progress),
            FromShard::Program(event) => {
                self.own_events.insert(event);
                let key = key::program(&self.terms.lab, &bus.own);
                let session = bus.session();
                let put = session.put(key, session::bytes(&event)).express(true);
                let put = put.congestion_control(CongestionControl::Block);
                // After an error, the next report has the event.
                let _ = put.priority(Priority::InteractiveHigh).wait();
            }
            FromShard::Failed { text, code } => self.fail(Refusal { text, code }),
            FromShard::Finished { folder } => self.pack(folder, events),
        }
    }

    /// Starts to pack the results.
    fn pack(&mut self, from: PathBuf, events: &Sender<Event>) {
        self.end_process(None);
        let Some(folder) = &self.folder else { return };
        let (to, lab, events) = (packed(folder), self.terms.lab.clone(), events.clone());
        if !from.starts_with(folder.path()) {
            let text = format!("its results are not in its folder, but in {}", from.display());
            return self.fail(refusal(text));
        }
        let membership = session::bytes(&self.membership);
        let pack = move || {
            let file = from.join(MEMBERSHIP_FILE);
            let packed = run::files::replace(&file, &membership)
                .map_err(Error::file("write", file))
                .and_then(|()| results::pack(&from, &to));
            let _ = std::fs::remove_dir_all(&from);
            let _ = events.send(Event::Packed(lab, packed.map_err(|e| refusal_of(&e))));
        };
        if let Err(error) = thread::Builder::new().name("packer".to_owned()).spawn(pack) {
            self.fail(refusal(format!("cannot start a thread: {error}")));
        }
    }

    pub(super) fn on_packed(&mut self, packed: Result<u64, Refusal>) {
        match packed {
            Ok(bytes) => {
                self.results = Some((now(), bytes));
                self.phase = Phase::Finished;
            }
            Err(refusal) => self.fail(refusal),
        }
    }

    /// The control connection of its process was closed.
    pub(super) fn on_disconnect(&mut self, events: &Sender<Event>) {
        self.disconnected = true;
        if let Some(process) = self.process.take() {
            let (lab, events) = (self.terms.lab.clone(), events.clone());
            process.reap(move |why| drop(events.send(Event::Exited(lab, why))));
        }
    }

    pub(super) fn on_exit(&mut self, why: &str) {
        self.fail(Refusal { text: format!("its process died ({why})"), code: 70 });
    }

    fn fail(&mut self, refusal: Refusal) {
        self.end_process(None);
        self.failure.get_or_insert(refusal);
        self.phase = Phase::Failed;
    }

    fn end_process(&mut self, folder: Option<Folder>) {
        if let Some(process) = self.process.take() {
            process.end(folder);
        }
    }

    /// Ends it in an orderly way.
    pub(super) fn stop(&mut self) -> Result<(), Refusal> {
        match self.phase {
            Phase::Running => {
                if let Some(process) = &self.process {
                    process.send(&ToShard::Stop);
                }
                self.phase = Phase::Stopping;
                Ok(())
            }
            Phase::Stopping | Phase::Finished => Ok(()),
            _ => Err(refusal("its shard is not running")),
        }
    }

    /// Ends it in an orderly way because the agent stops.
    pub(super) fn stop_with_agent(&mut self) {
        if self.phase == Phase::Running {
            self.failure = Some(refusal("its agent was asked to stop"));
            let _ = self.stop();
        }
    }

    /// Ends it now and deletes its files.
    pub(super) fn end(mut self) {
        let folder = self.folder.take();
        self.end_process(folder);
    }

    /// The reaction to the loss of its coordinator.
    pub(super) fn orphan_action(&self) -> OrphanAction {
        let continues = self.terms.on_loss == OnLoss::Continue;
        match self.phase {
            Phase::Running | Phase::Stopping if continues => OrphanAction::Continue,
            Phase::Finished if continues || self.peers_retain_lab() => OrphanAction::RetainResults,
            _ => OrphanAction::End,
        }
    }

    /// Whether other agents still have the lab. If they have dropped it, this agent missed the
    /// order to drop it, and the run is stored without this shard.
    fn peers_retain_lab(&self) -> bool {
        let recent = |at: Time| now().since(at) < REPORT_TIMEOUT;
        self.terms.agents.len() == 1 || self.last_peer_report.is_some_and(recent)
    }

    /// The identifier of another agent of the lab.
    fn peer_id(&self, name: &str) -> Option<AgentId> {
        let at = self.terms.agents.iter().position(|agent| agent == name)?;
        Some(AgentId::at(at)).filter(|agent| *agent != self.terms.own)
    }

    /// Handles the loss of an agent; `with_shard`: it cannot return to the lab.
    pub(super) fn lose(&mut self, name: &str, with_shard: bool, why: &str) {
        if let Some(agent) = self.peer_id(name) {
            self.lose_agent(agent, with_shard, why);
        }
    }

    fn lose_agent(&mut self, agent: AgentId, with_shard: bool, why: &str) {
        let known = self.lost.insert(agent, with_shard);
        if known.is_some() || !matches!(self.phase, Phase::Running) {
            return;
        }
        if let Some(process) = &self.process {
            process.send(&ToShard::Lost { agent });
        }
        if self.terms.on_loss == OnLoss::Stop {
            let own = &self.terms.agents[self.terms.own.index()];
            self.failure = Some(refusal(format!("{why} (reported by agent {own})")));
            self.ended_by = Some(agent);
            let _ = self.stop();
        }
    }

    /// Handles an agent that is alive, for the first time or again.
    pub(super) fn regain(&mut self, name: &str, instance: u64) {
        let Some(agent) = self.peer_id(name) else { return };
        let same = *self.instances.entry(agent).or_insert(instance) == instance;
        if !same || self.lost.get(&agent) != Some(&false) {
            return;
        }
        self.lost.remove(&agent);
        if let (Phase::Running, Some(process)) = (self.phase, &self.process) {
            process.send(&ToShard::Regained { agent });
        }
    }

    /// Handles the report of another agent of the lab.
    pub(super) fn on_report(&mut self, report: &Report) {
        let agent = report.agent;
        if agent.index() >= self.terms.agents.len() || agent == self.terms.own {
            return;
        }
        self.last_peer_report = Some(now());
        let same = *self.instances.entry(agent).or_insert(report.instance) == report.instance;
        if same && report.phase == Phase::Failed {
            self.lose_agent(agent, true, "its shard has failed");
        }
        // These include the events that were published while the connection was down.
        report.programs.iter().for_each(|event| self.on_program_event(*event));
    }

    /// Handles an event of a program on another agent.
    pub(super) fn on_program_event(&mut self, event: ProgramEvent) {
        if let (Phase::Running, Some(process)) = (self.phase, &self.process)
            && self.peer_events.insert(event)
        {
            process.send(&ToShard::Program(event));
        }
    }

    /// The packed results and their size.
    pub(super) fn packed_results(&self) -> Result<(File, u64), Refusal> {
        let (Some(folder), Some((_, bytes))) = (&self.folder, self.results) else {
            return Err(refusal("the lab has no results"));
        };
        let file = run::files::open(&packed(folder));
        Ok((file.map_err(|e| refusal(format!("cannot read the results: {e}")))?, bytes))
    }
}

/// The file of the packed results.
fn packed(folder: &Folder) -> PathBuf {
    folder.path().join("results")
}

/// Reads a range of packed results of `bytes` bytes.
pub(super) fn read_range(
    file: &File,
    bytes: u64,
    offset: u64,
    length: u32,
) -> Result<Vec<u8>, Refusal> {
    const MAX_ANSWER_BYTES: u64 = 8 << 20;
    let length = u64::from(length).min(bytes.saturating_sub(offset)).min(MAX_ANSWER_BYTES);
    let mut range = vec![0; length as usize];
    file.read_exact_at(&mut range, offset)
        .map_err(|e| refusal(format!("cannot read the results: {e}")))?;
    Ok(range)
}

/// Turns messages about the lab into events.
fn subscribe(
    bus: &Bus,
    lab: &str,
    coordinator: u16,
    peers: &LabPeers,
    events: &Sender<Event>,
) -> Result<Vec<Declaration>> {
    let (id, sent, others) = (lab.to_owned(), events.clone(), peers.clone());
    let reports = bus.subscribe(key::reports(lab), move |sender, sample| {
        let report: Option<Report> = session::read(&sample.payload().to_bytes());
        let from = others.id(sender);
        if let Some(report) = report.filter(|report| from == Some(report.agent)) {
            drop(sent.send(Event::Report(id.clone(), report)));
        }
    })?;
    let (id, sent, others) = (lab.to_owned(), events.clone(), peers.clone());
    let programs = bus.subscribe(key::programs(lab), move |sender, sample| {
        let event = session::read(&sample.payload().to_bytes());
        if let (Some(_), Some(event)) = (others.id(sender), event) {
            drop(sent.send(Event::Program(id.clone(), event)));
        }
    })?;
    let (id, sent) = (lab.to_owned(), events.clone());
    let coordinator = bus.subscribe(key::coordinator(lab, coordinator), move |_, _| {
        drop(sent.send(Event::Coordinator(id.clone())));
    })?;
    Ok(vec![reports, programs, coordinator])
}
