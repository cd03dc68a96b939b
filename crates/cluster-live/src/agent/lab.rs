//! A piece of a lab on this agent, from the room that is kept for it to its results.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;

use base::{Span, Time};
use cluster::control::{
    FromPiece, HEAD_START, Membership, Offer, OnLoss, Phase, PieceProgress, Prepare, ProgramEvent,
    Refusal, Report, Reserve, Setup, ToPiece,
};
use cluster::{AgentId, control};
use zenoh::Wait;
use zenoh::pubsub::Subscriber;
use zenoh::qos::{CongestionControl, Priority};

use super::clocks::Clocks;
use super::process::{Folder, Process};
use super::relay::Relay;
use super::told::{Leads, Programs};
use super::{Event, Orphan, now, work};
use crate::session::{self, Bus, Peer, key};
use crate::{Error, Result, results};

/// Members speak twice a second of the labs that they have; one that has not for so long has not.
const COMPANY: Span = Span::from_secs(2);

/// Largest files of a lab, unpacked.
const FILES: u64 = 256 << 20;

/// What a piece needs before it is built.
pub(super) struct Ends {
    trunk: OwnedFd,
    notices: OwnedFd,
}

/// A piece.
pub(super) struct Lab {
    terms: Reserve,
    /// The number in the certificate of its coordinator.
    coordinator: u16,
    phase: Phase,
    /// The phase that was last reported.
    told: Option<Phase>,
    /// It stands.
    built: bool,
    sequence: u64,
    failure: Option<Refusal>,
    /// The member whose loss it was.
    ended_by: Option<AgentId>,
    /// When another member spoke of it last.
    company: Option<Time>,
    progress: Option<PieceProgress>,
    /// What the results say of the lab as a whole.
    membership: Option<Membership>,
    /// Members that are gone, and whether for good.
    gone: BTreeMap<AgentId, bool>,
    /// The processes of members, as they were at first.
    instances: BTreeMap<AgentId, u64>,
    ends: Option<Ends>,
    leads: Leads,
    /// What has happened to programs here, and to those elsewhere as the piece knows it.
    programs: Programs,
    heard: Programs,
    _relay: Relay,
    process: Option<Process>,
    folder: Option<Folder>,
    /// Lab time zero by member 0's clock.
    origin: Option<u64>,
    /// Packed results: since when, and how many bytes.
    results: Option<(Time, u64)>,
    _subscribers: Vec<Subscriber<()>>,
}

/// A refusal with the exit code of a machine that lacks something.
pub(super) fn refuse(text: impl Into<String>) -> Refusal {
    Refusal { text: text.into(), code: 4 }
}

fn of(error: &Error) -> Refusal {
    Refusal { text: error.to_string(), code: error.exit_code() }
}

impl Lab {
    /// Keeps room for a piece whose trunk is `trunk`.
    pub(super) fn new(
        terms: Reserve,
        coordinator: u16,
        trunk: OwnedFd,
        dir: &Path,
        bus: &Bus,
        events: &Sender<Event>,
    ) -> Result<Self> {
        let folder = Folder::new(work::lab(dir, &terms.lab))?;
        let members = terms.members.iter().zip(&terms.numbers);
        let members: Members = members.map(|(name, number)| Peer::agent(*number, name)).collect();
        let (relay, notices) = Relay::start(bus, &terms.lab, terms.own, &members)?;
        let subscribers = subscribe(bus, &terms.lab, coordinator, &members, events)?;
        Ok(Self {
            terms,
            coordinator,
            phase: Phase::Reserved,
            told: None,
            built: false,
            sequence: 0,
            failure: None,
            ended_by: None,
            company: None,
            progress: None,
            membership: None,
            gone: BTreeMap::new(),
            instances: BTreeMap::new(),
            ends: Some(Ends { trunk, notices }),
            leads: Leads::default(),
            programs: Programs::default(),
            heard: Programs::default(),
            _relay: relay,
            process: None,
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

    /// What it takes of the machine; nothing any more once it has ended.
    pub(super) fn takes(&self) -> Option<Offer> {
        (!self.is_over()).then_some(self.terms.needs)
    }

    /// Nothing of it runs any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Finished | Phase::Failed)
    }

    /// Since when its results wait, and how many bytes they have.
    pub(super) fn results(&self) -> Option<(Time, u64)> {
        self.results
    }

    /// There is nothing that anybody could ask for, nor will be.
    pub(super) fn has_nothing(&self) -> bool {
        self.phase == Phase::Failed
    }

    /// Whether its phase has changed since it was reported.
    pub(super) fn has_news(&self) -> bool {
        self.told != Some(self.phase)
    }

    /// Says how it is.
    pub(super) fn report(&mut self, bus: &Bus, instance: u64) {
        self.sequence += 1;
        self.told = Some(self.phase);
        let report = Report {
            agent: self.terms.own,
            instance,
            sequence: self.sequence,
            phase: self.phase,
            failure: self.failure.clone(),
            progress: self.progress.clone(),
            lost: self.ended_by,
            programs: self.programs.all(),
            result_bytes: self.results.map_or(0, |(_, bytes)| bytes),
        };
        let place = key::report(&self.terms.lab, &bus.own);
        let put = bus.session.put(place, session::bytes(&report));
        // The next one comes soon.
        let _ = put.express(true).priority(Priority::InteractiveHigh).wait();
    }

    /// Starts to build the piece, with the lab's files.
    pub(super) fn prepare(
        &mut self,
        prepare: Prepare,
        files: Vec<u8>,
        clocks: &Clocks,
        program: &Path,
        events: &Sender<Event>,
    ) -> Result<(), Refusal> {
        if self.phase != Phase::Reserved {
            return Err(refuse(format!("lab {} is being prepared already", self.terms.lab)));
        }
        if !prepare.fits(&self.terms) {
            return Err(Refusal { text: "the lab does not fit its terms".to_owned(), code: 70 });
        }
        let (Some(ends), Some(folder)) = (self.ends.take(), &self.folder) else {
            return Err(refuse("its sockets are gone"));
        };
        self.leads = Leads::of(&self.terms.members, clocks);
        let builder = Builder {
            folder: folder.path().to_owned(),
            terms: self.terms.clone(),
            leads_ns: self.leads.nanos(),
            program: program.to_owned(),
            events: events.clone(),
        };
        self.membership = Some(Membership {
            members: self.terms.members.clone(),
            owners: prepare.owners.clone(),
            encrypt: prepare.encrypt,
        });
        self.phase = Phase::Preparing;
        let lab = self.terms.lab.clone();
        let events = events.clone();
        let build = move || {
            let built = builder.build(prepare, &files, ends).map_err(|e| of(&e));
            let _ = events.send(Event::Built(lab, built));
        };
        let spawned = thread::Builder::new().name("builder".to_owned()).spawn(build);
        spawned.map(drop).map_err(|e| refuse(format!("cannot start a thread: {e}")))
    }

    /// Its process has been started, or not.
    pub(super) fn started(&mut self, process: Result<Process, Refusal>) {
        match process {
            Ok(process) => self.process = Some(process),
            Err(refusal) => self.fail(refusal),
        }
    }

    /// It may begin: lab time zero by member 0's clock, which is chosen here where that is us.
    pub(super) fn start(&mut self, origin: Option<u64>, clocks: &Clocks) -> Result<u64, Refusal> {
        if let (Phase::Running, Some(origin)) = (self.phase, self.origin) {
            return Ok(origin);
        }
        let Some(process) = self.process.as_ref().filter(|_| self.phase == Phase::Ready) else {
            return Err(refuse("its piece does not stand"));
        };
        let origin = match origin {
            Some(origin) => origin,
            None if self.terms.own == AgentId(0) => sys::clock::monotonic() + HEAD_START.as_nanos(),
            None => return Err(refuse("only member 0 chooses when a lab begins")),
        };
        self.origin = Some(origin);
        let Some((origin_ns, bound_ns)) = self.own_origin(clocks) else {
            return Err(refuse("the clock of member 0 is not known yet"));
        };
        process.say(&ToPiece::Start { origin_ns, bound_ns });
        self.phase = Phase::Running;
        Ok(origin)
    }

    /// Lab time zero by the own clock, and how surely.
    fn own_origin(&self, clocks: &Clocks) -> Option<(u64, u64)> {
        let origin = self.origin?;
        if self.terms.own == AgentId(0) {
            return Some((origin, 0));
        }
        let offset = clocks.offset(&self.terms.members[0])?;
        Some((offset.here(Time::from_nanos(origin)).as_nanos(), offset.bound.as_nanos()))
    }

    /// What is due.
    pub(super) fn look(&mut self, clocks: &Clocks, clocks_are_due: bool) {
        if self.phase == Phase::Preparing && self.built {
            let knows = |name: &String| clocks.offset(name).is_some();
            if self.terms.own == AgentId(0) || self.terms.members.first().is_some_and(knows) {
                self.phase = Phase::Ready;
            }
        }
        let runs = matches!(self.phase, Phase::Running | Phase::Stopping);
        if let (true, true, Some(process)) = (runs, clocks_are_due, &self.process) {
            for (agent, lead) in self.leads.news(&self.terms.members, clocks) {
                process.say(&ToPiece::Lead { agent, lead_ns: lead.as_nanos() });
            }
        }
        // Without member 0 nobody knows its clock better than before.
        if runs
            && clocks_are_due
            && !self.gone.contains_key(&AgentId(0))
            && let (Some((origin_ns, bound_ns)), Some(process)) =
                (self.own_origin(clocks), &self.process)
        {
            process.say(&ToPiece::Clock { origin_ns, bound_ns });
        }
    }

    /// Its process has said something.
    pub(super) fn said(&mut self, said: FromPiece, bus: &Bus, events: &Sender<Event>) {
        match said {
            FromPiece::Ready => self.built = true,
            FromPiece::Progress(progress) => self.progress = Some(progress),
            FromPiece::Program(event) => {
                self.programs.is_news(event);
                let place = key::program(&self.terms.lab, &bus.own);
                let put = bus.session.put(place, session::bytes(&event)).express(true);
                let put = put.congestion_control(CongestionControl::Block);
                // Who is not there any more needs no telling.
                let _ = put.priority(Priority::InteractiveHigh).wait();
            }
            FromPiece::Failed { text, code } => self.fail(Refusal { text, code }),
            FromPiece::Finished { folder } => self.pack(folder, events),
        }
    }

    /// Packs what the piece has left.
    fn pack(&mut self, from: PathBuf, events: &Sender<Event>) {
        self.end_process(None);
        let Some(folder) = &self.folder else { return };
        // Its own folder, whatever the piece says.
        let (to, lab, events) = (packed(folder), self.terms.lab.clone(), events.clone());
        if !from.starts_with(folder.path()) {
            return self.fail(refuse("its results are in the wrong place"));
        }
        let membership = session::bytes(&self.membership);
        let pack = move || {
            let about = from.join(control::PIECE_FILE);
            let packed = std::fs::write(&about, membership)
                .map_err(Error::file("write", about))
                .and_then(|()| results::pack(&from, &to));
            let _ = std::fs::remove_dir_all(&from);
            let _ = events.send(Event::Packed(lab, packed.map_err(|e| of(&e))));
        };
        if let Err(error) = thread::Builder::new().name("packer".to_owned()).spawn(pack) {
            self.fail(refuse(format!("cannot start a thread: {error}")));
        }
    }

    /// Its results have been packed.
    pub(super) fn keep(&mut self, packed: Result<u64, Refusal>) {
        match packed {
            Ok(bytes) => {
                self.results = Some((now(), bytes));
                self.phase = Phase::Finished;
            }
            Err(refusal) => self.fail(refusal),
        }
    }

    /// Its process is gone.
    pub(super) fn process_gone(&mut self, events: &Sender<Event>) {
        if let Some(process) = self.process.take() {
            process.mourn(self.terms.lab.clone(), events.clone());
        }
    }

    /// Its process is gone, with these words.
    pub(super) fn died(&mut self, words: &str) {
        self.fail(Refusal { text: format!("its process died ({words})"), code: 70 });
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

    /// Ends it in order.
    pub(super) fn stop(&mut self) -> Result<(), Refusal> {
        match self.phase {
            Phase::Running => {
                if let Some(process) = &self.process {
                    process.say(&ToPiece::Stop);
                }
                self.phase = Phase::Stopping;
                Ok(())
            }
            Phase::Stopping | Phase::Finished => Ok(()),
            _ => Err(refuse("it does not run")),
        }
    }

    /// Ends it in order because the agent ends.
    pub(super) fn leave(&mut self) {
        if self.phase == Phase::Running {
            self.failure = Some(refuse("its agent was asked to end"));
            let _ = self.stop();
        }
    }

    /// Ends it now; nothing is left of it.
    pub(super) fn end(mut self) {
        let folder = self.folder.take();
        self.end_process(folder);
    }

    /// Its coordinator is gone.
    pub(super) fn orphan(&self) -> Orphan {
        let goes_on = self.terms.on_loss == OnLoss::Continue;
        match self.phase {
            Phase::Running | Phase::Stopping if goes_on => Orphan::GoesOn,
            Phase::Finished if goes_on || self.has_company() => Orphan::Waits,
            _ => Orphan::Ends,
        }
    }

    /// Whether other members have it still. Who missed that they were told to drop it was cut off,
    /// and the run is stored without its part.
    fn has_company(&self) -> bool {
        let lately = |at: Time| now().since(at) < COMPANY;
        self.terms.members.len() == 1 || self.company.is_some_and(lately)
    }

    fn member(&self, name: &str) -> Option<AgentId> {
        let at = self.terms.members.iter().position(|member| member == name)?;
        Some(AgentId::at(at)).filter(|member| *member != self.terms.own)
    }

    /// An agent is gone.
    pub(super) fn lose(&mut self, name: &str, why: &str) {
        if let Some(member) = self.member(name) {
            let for_good = why.contains("anew");
            self.lose_member(member, for_good, why);
        }
    }

    fn lose_member(&mut self, agent: AgentId, for_good: bool, why: &str) {
        let known = self.gone.insert(agent, for_good);
        if known.is_some() || !matches!(self.phase, Phase::Running) {
            return;
        }
        if let Some(process) = &self.process {
            process.say(&ToPiece::Lost { agent });
        }
        if self.terms.on_loss == OnLoss::Stop {
            let own = &self.terms.members[self.terms.own.index()];
            self.failure = Some(refuse(format!("{why}, says agent {own}")));
            self.ended_by = Some(agent);
            let _ = self.stop();
        }
    }

    /// An agent is there, again or for the first time.
    pub(super) fn regain(&mut self, name: &str, instance: u64) {
        let Some(agent) = self.member(name) else { return };
        let same = *self.instances.entry(agent).or_insert(instance) == instance;
        if !same || self.gone.get(&agent) != Some(&false) {
            return;
        }
        self.gone.remove(&agent);
        if let (Phase::Running, Some(process)) = (self.phase, &self.process) {
            process.say(&ToPiece::Regained { agent });
        }
    }

    /// Another member says how it is.
    pub(super) fn hear(&mut self, report: &Report) {
        let agent = report.agent;
        if agent.index() >= self.terms.members.len() || agent == self.terms.own {
            return;
        }
        self.company = Some(now());
        let same = *self.instances.entry(agent).or_insert(report.instance) == report.instance;
        if same && report.phase == Phase::Failed {
            self.lose_member(agent, true, "its piece has failed");
        }
        // What was said while nothing could be heard is in here.
        report.programs.iter().for_each(|event| self.program(*event));
    }

    /// Something has happened to a program of another member.
    pub(super) fn program(&mut self, event: ProgramEvent) {
        if let (Phase::Running, Some(process)) = (self.phase, &self.process)
            && self.heard.is_news(event)
        {
            process.say(&ToPiece::Program(event));
        }
    }

    /// The packed results, and how many bytes they have.
    pub(super) fn packed_results(&self) -> Result<(File, u64), Refusal> {
        let (Some(folder), Some((_, bytes))) = (&self.folder, self.results) else {
            return Err(refuse("there are no results"));
        };
        let file = File::open(packed(folder));
        Ok((file.map_err(|e| refuse(format!("cannot read the results: {e}")))?, bytes))
    }
}

/// Where results are packed.
fn packed(folder: &Folder) -> PathBuf {
    folder.path().join("results")
}

/// A part of packed results of `bytes` bytes.
pub(super) fn part(file: &File, bytes: u64, at: u64, length: u32) -> Result<Vec<u8>, Refusal> {
    /// Most bytes of an answer.
    const LARGEST: u64 = 8 << 20;
    let length = u64::from(length).min(bytes.saturating_sub(at)).min(LARGEST);
    let mut part = vec![0; length as usize];
    file.read_exact_at(&mut part, at)
        .map_err(|e| refuse(format!("cannot read the results: {e}")))?;
    Ok(part)
}

/// The members of a lab, by [`AgentId`].
pub(super) type Members = Arc<[Peer]>;

/// The member that has sent a message.
pub(super) fn member(members: &Members, sender: &Peer) -> Option<AgentId> {
    members.iter().position(|member| member == sender).map(AgentId::at)
}

/// What happens to the lab elsewhere becomes events.
fn subscribe(
    bus: &Bus,
    lab: &str,
    coordinator: u16,
    members: &Members,
    events: &Sender<Event>,
) -> Result<Vec<Subscriber<()>>> {
    let (id, sent, others) = (lab.to_owned(), events.clone(), Arc::clone(members));
    let reports = bus.subscribe(key::reports(lab), move |sender, sample| {
        let report: Option<Report> = session::read(&sample.payload().to_bytes());
        let from = member(&others, sender);
        if let Some(report) = report.filter(|report| from == Some(report.agent)) {
            drop(sent.send(Event::Report(id.clone(), report)));
        }
    })?;
    let (id, sent, others) = (lab.to_owned(), events.clone(), Arc::clone(members));
    let programs = bus.subscribe(key::programs(lab), move |sender, sample| {
        let event = session::read(&sample.payload().to_bytes());
        if let (Some(_), Some(event)) = (member(&others, sender), event) {
            drop(sent.send(Event::Program(id.clone(), event)));
        }
    })?;
    let (id, sent) = (lab.to_owned(), events.clone());
    let coordinator = bus.subscribe(key::coordinator(lab, coordinator), move |_, _| {
        drop(sent.send(Event::Coordinator(id.clone())));
    })?;
    Ok(vec![reports, programs, coordinator])
}

/// Builds a piece, beside the agent's own thread.
struct Builder {
    folder: PathBuf,
    terms: Reserve,
    leads_ns: Vec<u64>,
    program: PathBuf,
    events: Sender<Event>,
}

impl Builder {
    fn build(self, prepare: Prepare, files: &[u8], ends: Ends) -> Result<Process> {
        let lab_dir = self.folder.join("lab");
        let runs_dir = self.folder.join("runs");
        for dir in [&lab_dir, &runs_dir] {
            std::fs::create_dir(dir).map_err(Error::file("make", dir))?;
        }
        if !files.is_empty() {
            results::unpack(files, &lab_dir, FILES)?;
        }
        let lab = lab_dir.join(control::LAB_FILE);
        std::fs::write(&lab, &prepare.text).map_err(Error::file("write", &lab))?;
        let setup = Setup {
            id: self.terms.lab,
            lab,
            own: self.terms.own,
            owners: prepare.owners,
            members: self.terms.members,
            trunks: prepare.trunks,
            key: prepare.key,
            encrypt: prepare.encrypt,
            datagram: prepare.datagram,
            leads_ns: self.leads_ns,
            runs_dir,
            on_loss: self.terms.on_loss,
            stay: prepare.stay,
            engine: prepare.engine,
        };
        let fds = [ends.trunk, ends.notices];
        Process::start(&self.program, &self.folder, &setup, &fds, &self.events)
    }
}

/// A trunk's socket at `address`, on the first port that is free.
pub(super) fn open_trunk(
    address: std::net::IpAddr,
    ports: Option<&std::ops::RangeInclusive<u16>>,
) -> Result<(OwnedFd, SocketAddr), Refusal> {
    /// Room for what comes while the lab's process does something else.
    const BUFFER: usize = 16 << 20;
    let mut ports = ports.cloned().unwrap_or(0..=0);
    let mut last = refuse("there is no port for a trunk: --trunk-ports is empty");
    loop {
        let Some(port) = ports.next() else { return Err(last) };
        match sys::socket::train_socket(SocketAddr::new(address, port), BUFFER) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = refuse(format!("cannot open a trunk at {address}: {error}")),
        }
    }
}
