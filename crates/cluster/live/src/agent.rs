//! The process on each machine that runs shards of labs.
//!
//! The main thread handles all events. Other threads only send events: Zenoh's threads, one thread
//! for each shard's process, and short-lived threads for long operations.

mod board;
mod builder;
mod clocks;
mod event;
mod handle;
mod machine;
mod notification;
mod notified;
mod options;
mod process;
mod recovery;
mod relay;
mod shard;
mod state;
mod work_dir;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use base::Span;
use cluster::detector::{Change, Detector, HEARTBEAT_INTERVAL};
use cluster::recovery::Recovery;

use crate::address;
use crate::credentials::Role;
use crate::heartbeat::HeartbeatSender;
use crate::session::{self, Bus, Declaration, key};
use crate::system::{now, random};
use crate::{Error, Result, priority};
use clocks::Clocks;
use event::Event;
use state::{Notify, heartbeat};
use work_dir::WorkDir;

pub(crate) use machine::first_address;

pub use board::Board;
pub use event::Stop;
pub use machine::Allowed;
pub use notification::{Notification, OrphanAction};
pub use options::Options;
pub use state::Agent;

/// Max interval of periodic work.
const TICK: Duration = Duration::from_millis(50);
/// Time without a heartbeat after which a coordinator is lost. It is longer than for agents because
/// the coordinator may run on a busy machine.
const COORDINATOR_TIMEOUT: Span = Span::from_secs(5);
/// The nice value of the agent, which needs little CPU time.
const NICE: i32 = -11;
/// Time to find the other agents before a diagnosis starts.
const JOIN_TIMEOUT: Span = Span::from_secs(5);

impl Agent {
    /// Opens an agent. It answers requests once it [runs](Self::run).
    ///
    /// # Errors
    /// If an option is invalid, or a socket or folder cannot be opened.
    pub fn open(mut options: Options) -> Result<Self> {
        options.check()?;
        let trunk = options.trunk_address()?;
        // Threads inherit the nice value. If it is not permitted, a machine that is busy with labs
        // may miss heartbeats.
        let _ = rustix::process::setpriority_process(None, NICE);
        let dir = WorkDir::open(&options.dir)?;
        // Shards report absolute paths, which are compared with this one.
        options.dir = options.dir.canonicalize().map_err(Error::file("find", &options.dir))?;
        let instance = u64::from_le_bytes(random()?);
        let clocks = Clocks::start(trunk)?;
        let (events, received) = channel();
        let bus = Bus::open(&options.credentials, &options.name, &options.listen, &options.join)?;
        let declared = declare(&bus, &events)?;
        let total = machine::offer(&options.allowed, trunk);
        let first = heartbeat(instance, &clocks, false, options.silence_timeout);
        let payload = session::bytes(&first);
        let heartbeats = HeartbeatSender::start(&bus, key::heartbeat(&bus.own), payload)?;
        Ok(Self {
            options,
            bus,
            instance,
            trunk,
            total,
            clocks,
            detector: Detector::new(),
            recovery: Recovery::new(instance),
            certificates: BTreeMap::new(),
            coordinators: Detector::with_timeout(COORDINATOR_TIMEOUT),
            shards: BTreeMap::new(),
            received,
            events,
            next_report: now(),
            heartbeats,
            next_clock: now(),
            board: None,
            join_check: Some(now() + JOIN_TIMEOUT),
            stops: 0,
            leave_deadline: None,
            _declared: declared,
            _dir: dir,
        })
    }

    /// Serves until it is asked to stop.
    ///
    /// # Errors
    /// If another agent has the same name.
    pub fn run(mut self, notify: &mut dyn FnMut(Notification)) -> Result<()> {
        priority::raise();
        notify(Notification::Listening {
            name: self.options.name.clone(),
            at: self.options.listen.clone(),
            trunk: self.trunk,
            offer: self.total,
        });
        while self.stops < 2 && !(self.stops == 1 && self.is_idle()) {
            match self.received.recv_timeout(TICK) {
                Ok(event) => {
                    self.handle(event, notify)?;
                    // Handles all queued events before the periodic work.
                    while let Ok(event) = self.received.try_recv() {
                        self.handle(event, notify)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tick(notify);
        }
        self.leave();
        drop(self.heartbeats);
        self.shards.clear();
        self.bus.close()
    }

    /// Does the periodic work that is due.
    fn tick(&mut self, notify: Notify<'_>) {
        let now = now();
        self.heartbeats.tick();
        if now >= self.next_report {
            self.next_report = now + HEARTBEAT_INTERVAL;
            self.shards.values_mut().for_each(|shard| shard.report(&self.bus, self.instance));
        }
        for change in self.detector.expire(now) {
            if let Change::Lost(name) = &change {
                let alive = self.detector.known().filter(|(_, alive)| *alive).count();
                self.recovery.on_loss(now, name, alive);
            }
            self.on_peer_change(change, notify);
        }
        self.recover(now);
        for name in self.detector.forget(now) {
            self.clocks.remove(&name);
            self.certificates.retain(|_, names| {
                names.remove(&name);
                !names.is_empty()
            });
        }
        self.coordinators.forget(now);
        if self.join_check.is_some_and(|by| now > by) {
            self.join_check = None;
            self.diagnose_missing_peers();
        }
        for change in self.coordinators.expire(now) {
            if let Change::Lost(lab) = change {
                self.on_coordinator_loss(&lab, notify);
            }
        }
        let clocks_are_due = now >= self.next_clock;
        if clocks_are_due {
            self.next_clock = now + Span::from_secs(1);
            if let Some(board) = &self.board {
                board.put(self.status());
            }
            if let Err(why) = self.bus.trust.refresh() {
                notify(Notification::Revocations { why });
            }
        }
        for shard in self.shards.values_mut() {
            shard.tick(&self.clocks, clocks_are_due);
            if shard.phase_has_changed() {
                shard.report(&self.bus, self.instance);
            }
        }
        self.remove_expired(now, notify);
    }

    /// Finds the reason if none of the agents to join is known.
    fn diagnose_missing_peers(&self) {
        if self.options.join.is_empty() || self.detector.known().next().is_some() {
            return;
        }
        let (agents, events) = (self.options.join.clone(), self.events.clone());
        let probe = move || drop(events.send(Event::NoPeers(address::probe_all(&agents))));
        // If the thread cannot start, only the diagnosis is missing.
        let _ = std::thread::Builder::new().name("probe".to_owned()).spawn(probe);
    }
}

/// Turns messages of other processes into events.
fn declare(bus: &Bus, events: &Sender<Event>) -> Result<[Declaration; 3]> {
    let (received, trust) = (events.clone(), Arc::clone(&bus.trust));
    let commands = bus.receive_queries(key::commands(&bus.own), move |query| {
        let command = key::parse_command(query.key_expr().as_str());
        if let Some((coordinator, command)) = command
            && trust.admits(Role::Coordinator, coordinator)
        {
            drop(received.send(Event::Command { query, coordinator, command }));
        }
    })?;
    let received = events.clone();
    let heartbeats = bus.subscribe_certified(key::HEARTBEATS.to_owned(), move |sender, beat| {
        drop(received.send(Event::Heartbeat(sender.clone(), beat)));
    })?;
    let received = events.clone();
    let clock_keys = bus.subscribe_certified(key::clock_keys(&bus.own), move |sender, key| {
        drop(received.send(Event::ClockKey(sender.name.clone(), key)));
    })?;
    Ok([commands, heartbeats, clock_keys])
}
