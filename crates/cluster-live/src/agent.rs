//! The process on each machine that holds pieces of labs.
//!
//! One thread decides; all others bring it events: Zenoh's (questions, heartbeats), one for each
//! piece that speaks, and short-lived ones for what takes long.

mod clocks;
mod events;
mod lab;
mod machine;
mod news;
mod process;
mod relay;
mod told;
mod work;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use base::{Span, Time};
use cluster::control::{AgentStatus, Heartbeat, LabStatus, Offer, PROTOCOL};
use cluster::detector::{Change, Detector, HEARTBEAT};
use zenoh::Wait;
use zenoh::pubsub::Subscriber;
use zenoh::query::Queryable;

use crate::address;
use crate::beats::Beats;
use crate::credentials::{Credentials, Role};
use crate::session::{self, Bus, key};
use crate::{Error, Result, urgent};
use clocks::Clocks;
use events::Event;
use lab::Lab;

pub(crate) use machine::first_address;

pub use machine::Allowed;
pub use news::{News, Orphan};

/// The agent looks around this often.
const ROUND: Duration = Duration::from_millis(50);
/// Results that nobody fetches are kept so long.
const KEPT: Span = Span::from_secs(24 * 3600);
/// A coordinator that is silent for so long is gone. It may run on a busy machine, and there is
/// no hurry.
const PATIENCE: Span = Span::from_secs(5);
/// The agent's nice value: it has little to do, and others wait for it.
const EAGER: i32 = -11;
/// Others that are there are heard within this.
const JOINING: Span = Span::from_secs(5);
/// Labs at once, with those whose results wait.
const MOST_LABS: usize = 64;

/// What an agent is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Where it listens: `host:port`.
    pub listen: Vec<String>,
    /// Other agents: `host:port`.
    pub join: Vec<String>,
    /// The own credentials.
    pub credentials: Credentials,
    /// The address of its trunks; `None`: that of `listen`, or the machine's first.
    pub trunk: Option<IpAddr>,
    /// Ports of its trunks.
    pub ports: Option<RangeInclusive<u16>>,
    /// What the operator allows.
    pub allowed: Allowed,
    /// Where pieces and their results are kept.
    pub dir: PathBuf,
    /// Most bytes of results that are kept for somebody to fetch.
    pub keep: u64,
    /// This executable.
    pub program: PathBuf,
}

/// Asks an agent to end.
#[derive(Clone, Debug)]
pub struct Stop(Sender<Event>);

impl Stop {
    /// End in order; asked again: at once.
    pub fn stop(&self) {
        // One that has ended already needs no telling.
        let _ = self.0.send(Event::Stop);
    }
}

/// An agent.
pub struct Agent {
    options: Options,
    bus: Bus,
    instance: u64,
    trunk: IpAddr,
    total: Offer,
    clocks: Clocks,
    detector: Detector,
    /// Coordinators, by their labs.
    coordinators: Detector,
    labs: BTreeMap<String, Lab>,
    news: Receiver<Event>,
    events: Sender<Event>,
    next_report: Time,
    beats: Beats,
    next_clock: Time,
    /// When it should have heard those that it joins; `None`: that has been looked at.
    joins_by: Option<Time>,
    stopping: u32,
    /// Asked to end, it waits no longer than this.
    leaves_by: Option<Time>,
    _declared: (Queryable<()>, [Subscriber<()>; 2]),
    _dir: work::Dir,
}

/// The own clock, for silence and deadlines.
fn now() -> Time {
    Time::from_nanos(sys::clock::monotonic())
}

/// A number that nobody else draws.
pub(crate) fn draw() -> Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::file("read", "/dev/urandom"))?;
    Ok(u64::from_le_bytes(bytes))
}

impl Agent {
    /// Opens an agent that answers once it [runs](Self::run).
    ///
    /// # Errors
    /// Where it may not listen so, or cannot.
    pub fn open(mut options: Options) -> Result<Self> {
        check(&options)?;
        let trunk = trunk_address(&options)?;
        // Threads inherit it. Without the right to it, a machine that is busy with labs may be
        // taken for dead by the others.
        let _ = rustix::process::setpriority_process(None, EAGER);
        let dir = work::Dir::open(&options.dir)?;
        // Pieces name their results by where they are, not by how the folder was named.
        options.dir = options.dir.canonicalize().map_err(Error::file("find", &options.dir))?;
        let instance = draw()?;
        let clocks = Clocks::start(trunk)?;
        let (events, news) = channel();
        let bus = Bus::open(&options.credentials, &options.name, &options.listen, &options.join)?;
        let declared = declare(&bus, &events)?;
        let total = machine::offer(&options.allowed, trunk);
        let beat = heartbeat(instance, &clocks, false);
        let beats = Beats::start(&bus, key::heartbeat(&bus.own), session::bytes(&beat))?;
        Ok(Self {
            options,
            bus,
            instance,
            trunk,
            total,
            clocks,
            detector: Detector::new(),
            coordinators: Detector::patient(PATIENCE),
            labs: BTreeMap::new(),
            news,
            events,
            next_report: now(),
            beats,
            next_clock: now(),
            joins_by: Some(now() + JOINING),
            stopping: 0,
            leaves_by: None,
            _declared: declared,
            _dir: dir,
        })
    }

    /// A handle to end it.
    pub fn stop(&self) -> Stop {
        Stop(self.events.clone())
    }

    /// What it says of itself.
    pub fn status(&self) -> AgentStatus {
        let known: Vec<_> =
            self.detector.known().map(|(name, alive)| self.clocks.status(name, alive)).collect();
        AgentStatus {
            name: self.options.name.clone(),
            instance: self.instance,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            total: self.total,
            free: self.free(),
            trunk: self.trunk,
            labs: self.labs.iter().map(|(id, lab)| Self::lab_status(id, lab)).collect(),
            peers: known,
        }
    }

    fn lab_status(id: &str, lab: &Lab) -> LabStatus {
        let terms = lab.terms();
        LabStatus {
            id: id.to_owned(),
            name: terms.name.clone(),
            phase: lab.phase(),
            hosts: terms.needs.hosts,
            members: terms.members.clone(),
            result_bytes: lab.results().map_or(0, |(_, bytes)| bytes),
        }
    }

    /// What has not been promised to any lab.
    fn free(&self) -> Offer {
        let mut free = self.total;
        for needs in self.labs.values().filter_map(Lab::takes) {
            free.cores = (free.cores - needs.cores).max(0.0);
            free.memory = free.memory.saturating_sub(needs.memory);
            free.hosts = free.hosts.saturating_sub(needs.hosts);
            let less = |rate: Option<u64>, taken: Option<u64>| {
                rate.map(|rate| rate.saturating_sub(taken.unwrap_or(0)))
            };
            free.traffic = less(free.traffic, needs.traffic);
            free.nic = less(free.nic, needs.nic);
        }
        free
    }

    /// Serves until it is asked to end, and tells what happens.
    ///
    /// # Errors
    /// Where another agent has its name.
    pub fn run(mut self, tell: &mut dyn FnMut(News)) -> Result<()> {
        urgent::hurry();
        tell(News::Listens {
            name: self.options.name.clone(),
            at: self.options.listen.clone(),
            trunk: self.trunk,
            offer: self.total,
        });
        while self.stopping < 2 && !(self.stopping == 1 && self.is_idle()) {
            match self.news.recv_timeout(ROUND) {
                Ok(event) => {
                    self.take(event, tell)?;
                    // What has piled up meanwhile is taken before the next look around.
                    while let Ok(event) = self.news.try_recv() {
                        self.take(event, tell)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look(tell);
        }
        self.leave();
        drop(self.beats);
        self.labs.clear();
        self.bus.session.close().wait().map_err(Error::session("close the session"))
    }

    /// Nobody waits for anything any more.
    fn is_idle(&self) -> bool {
        let done = |(id, lab): (&String, &Lab)| lab.is_over() && !self.coordinators.is_alive(id);
        self.labs.iter().all(done) || self.leaves_by.is_some_and(|by| now() > by)
    }

    /// What is due.
    fn look(&mut self, tell: &mut dyn FnMut(News)) {
        let now = now();
        self.beats.tick();
        if now >= self.next_report {
            self.next_report = now + HEARTBEAT;
            self.labs.values_mut().for_each(|lab| lab.report(&self.bus, self.instance));
        }
        for change in self.detector.look(now) {
            self.changed(change, tell);
        }
        if self.joins_by.is_some_and(|by| now > by) {
            self.joins_by = None;
            self.wonder();
        }
        for change in self.coordinators.look(now) {
            if let Change::Lost(lab) = change {
                self.orphaned(&lab, tell);
            }
        }
        let clocks_are_due = now >= self.next_clock;
        if clocks_are_due {
            self.next_clock = now + Span::from_secs(1);
            if let Err(why) = self.bus.trust.refresh() {
                tell(News::Revocations { why });
            }
        }
        for lab in self.labs.values_mut() {
            lab.look(&self.clocks, clocks_are_due);
            if lab.has_news() {
                lab.report(&self.bus, self.instance);
            }
        }
        self.forget(now, tell);
    }

    /// Finds out why nobody is heard of those that it is to join.
    fn wonder(&self) {
        if self.options.join.is_empty() || self.detector.known().next().is_some() {
            return;
        }
        let (agents, events) = (self.options.join.clone(), self.events.clone());
        let probe = move || drop(events.send(Event::Alone(address::probe_all(&agents))));
        // Without a thread its operator is told no more than that nobody is there.
        let _ = std::thread::Builder::new().name("probe".to_owned()).spawn(probe);
    }

    /// Says that the agent leaves.
    fn leave(&self) {
        let beat = heartbeat(self.instance, &self.clocks, true);
        self.bus.put_certified(&key::heartbeat(&self.bus.own), &session::bytes(&beat));
    }

    /// Another agent was lost, or is heard again.
    fn changed(&mut self, change: Change, tell: &mut dyn FnMut(News)) {
        let (name, is_there) = match change {
            Change::Lost(name) => (name, false),
            Change::Replaced(name) => {
                self.labs.values_mut().for_each(|lab| lab.lose(&name, "it was started anew"));
                (name, true)
            }
            Change::Heard(name) => (name, true),
        };
        let instance = self.detector.instance(&name).unwrap_or_default();
        for lab in self.labs.values_mut() {
            if is_there {
                lab.regain(&name, instance);
            } else {
                lab.lose(&name, "it is not heard any more");
            }
        }
        tell(if is_there { News::Heard { name } } else { News::Lost { name } });
    }

    /// Nobody hears of the coordinator of a lab any more.
    fn orphaned(&mut self, id: &str, tell: &mut dyn FnMut(News)) {
        let Some(lab) = self.labs.get(id) else { return };
        let then = lab.orphan();
        tell(News::Orphaned { lab: id.to_owned(), then });
        if then == Orphan::Ends {
            self.remove(id, "its coordinator is gone", tell);
        }
    }

    fn remove(&mut self, id: &str, why: &str, tell: &mut dyn FnMut(News)) {
        if let Some(lab) = self.labs.remove(id) {
            let name = lab.terms().name.clone();
            lab.end();
            tell(News::Removed { lab: id.to_owned(), name, why: why.to_owned() });
        }
    }

    /// Removes what nobody wants any more, or what is too much.
    fn forget(&mut self, now: Time, tell: &mut dyn FnMut(News)) {
        let mut kept: Vec<(Time, String, u64)> = Vec::new();
        let mut gone = Vec::new();
        for (id, lab) in &self.labs {
            match lab.results() {
                Some((since, _)) if now.since(since) > KEPT => {
                    gone.push((id.clone(), "nobody has fetched its results for a day"));
                }
                _ if lab.has_nothing() && !self.coordinators.is_alive(id) => {
                    gone.push((id.clone(), "it has failed, and its coordinator is gone"));
                }
                Some((since, bytes)) => kept.push((since, id.clone(), bytes)),
                None => {}
            }
        }
        kept.sort();
        let mut bytes: u64 = kept.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, id, size) in kept {
            let wanted = self.coordinators.is_alive(&id);
            if bytes > self.options.keep && !wanted {
                bytes -= size;
                gone.push((id, "there is no room for its results"));
            }
        }
        for (id, why) in gone {
            self.remove(&id, why, tell);
        }
    }
}

/// Whether an agent may be so.
fn check(options: &Options) -> Result<()> {
    if !session::is_name(&options.name) {
        let text = format!(
            "`{}` cannot be an agent's name: use letters, digits, `.`, `_` and `-`",
            options.name
        );
        return Err(Error::Usage { text });
    }
    let own = &options.credentials.identity;
    if !own.permits(&options.name) {
        let cure = match own.name.strip_suffix('*') {
            Some(prefix) => format!("give it a --name that begins with `{prefix}`"),
            None => "leave out --name, or enrol again".to_owned(),
        };
        let text = format!(
            "the certificate is that of agent {}, and not of {}: {cure}",
            own.name, options.name
        );
        return Err(Error::Usage { text });
    }
    Ok(())
}

fn heartbeat(instance: u64, clocks: &Clocks, leaves: bool) -> Heartbeat {
    Heartbeat { instance, clock: clocks.at(), leaves }
}

/// What other processes send becomes events.
fn declare(bus: &Bus, events: &Sender<Event>) -> Result<(Queryable<()>, [Subscriber<()>; 2])> {
    let (asked, trust) = (events.clone(), Arc::clone(&bus.trust));
    let commands = bus
        .session
        .declare_queryable(key::commands(&bus.own))
        .callback(move |query| {
            let command = key::parse_command(query.key_expr().as_str());
            if let Some((coordinator, verb)) = command
                && trust.admits(Role::Coordinator, coordinator)
            {
                drop(asked.send(Event::Asked { query, coordinator, verb }));
            }
        })
        .wait()
        .map_err(Error::session("answer questions"))?;
    let received = events.clone();
    let heartbeats = bus.subscribe_certified(key::HEARTBEATS.to_owned(), move |sender, beat| {
        drop(received.send(Event::Heartbeat(sender.clone(), beat)));
    })?;
    let received = events.clone();
    let clock_keys = bus.subscribe_certified(key::clock_keys(&bus.own), move |sender, key| {
        drop(received.send(Event::ClockKey(sender.name.clone(), key)));
    })?;
    Ok((commands, [heartbeats, clock_keys]))
}

/// Where trunks are reached.
fn trunk_address(options: &Options) -> Result<IpAddr> {
    let listens = options.listen.iter().filter_map(|listen| listen.parse::<SocketAddr>().ok());
    let named = listens.map(|at| at.ip()).find(|address| !address.is_unspecified());
    let localhost = IpAddr::from([127, 0, 0, 1]);
    let chosen = options.trunk.or(named).or_else(machine::first_address).unwrap_or(localhost);
    if machine::is_own(chosen) || chosen.is_loopback() {
        Ok(chosen)
    } else {
        Err(Error::Usage { text: format!("this machine has no address {chosen} for its trunks") })
    }
}
