//! The state of an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender};

use base::{Span, Time};
use cluster::control::{AgentStatus, Heartbeat, LabStatus, Offer, PROTOCOL};
use cluster::detector::{Change, Detector};
use cluster::recovery::Recovery;

use super::board::Board;
use super::clocks::Clocks;
use super::event::{Event, Stop};
use super::notification::{Notification, OrphanAction};
use super::options::Options;
use super::shard::Shard;
use super::work_dir::WorkDir;
use crate::heartbeat::HeartbeatSender;
use crate::session::{self, Bus, Declaration, key};
use crate::system::now;

/// Results that have not been fetched are deleted after this time.
const RESULTS_TIMEOUT: Span = Span::from_secs(24 * 3600);

/// Receives the agent's notifications for its operator.
pub(super) type Notify<'a> = &'a mut dyn FnMut(Notification);

pub struct Agent {
    pub(super) options: Options,
    pub(super) bus: Bus,
    pub(super) instance: u64,
    pub(super) trunk: IpAddr,
    pub(super) total: Offer,
    pub(super) clocks: Clocks,
    pub(super) detector: Detector,
    pub(super) recovery: Recovery,
    /// The names of the tracked agents, by the number of their certificate.
    pub(super) certificates: BTreeMap<u16, BTreeSet<String>>,
    /// Tracks the coordinators, by the identifiers of their labs.
    pub(super) coordinators: Detector,
    /// The shards, by the identifiers of their labs.
    pub(super) shards: BTreeMap<String, Shard>,
    pub(super) received: Receiver<Event>,
    pub(super) events: Sender<Event>,
    pub(super) next_report: Time,
    pub(super) heartbeats: HeartbeatSender,
    pub(super) next_clock: Time,
    pub(super) board: Option<Board>,
    /// Time of the check whether other agents were found; `None` once it is done.
    pub(super) join_check: Option<Time>,
    /// Number of [`Event::Stop`] so far.
    pub(super) stops: u32,
    /// Time at which the agent exits even with unfetched results, once it was asked to stop.
    pub(super) leave_deadline: Option<Time>,
    pub(super) _declared: [Declaration; 3],
    pub(super) _dir: WorkDir,
}

impl Agent {
    pub fn stop(&self) -> Stop {
        Stop(self.events.clone())
    }

    /// Its status, updated every second while it [runs](Self::run).
    pub fn board(&mut self) -> Board {
        let status = self.status();
        self.board.get_or_insert_with(|| Board::new(status)).clone()
    }

    pub fn status(&self) -> AgentStatus {
        let peers: Vec<_> =
            self.detector.known().map(|(name, alive)| self.clocks.status(name, alive)).collect();
        AgentStatus {
            name: self.options.name.clone(),
            instance: self.instance,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            total: self.total,
            free: self.free(),
            trunk: self.trunk,
            labs: self.shards.iter().map(|(id, shard)| Self::lab_status(id, shard)).collect(),
            peers,
        }
    }

    fn lab_status(id: &str, shard: &Shard) -> LabStatus {
        let terms = shard.terms();
        LabStatus {
            id: id.to_owned(),
            name: terms.name.clone(),
            phase: shard.phase(),
            hosts: terms.needs.hosts,
            agents: terms.agents.clone(),
            result_bytes: shard.results().map_or(0, |(_, bytes)| bytes),
        }
    }

    /// The resources that are not reserved by a lab.
    pub(super) fn free(&self) -> Offer {
        let mut free = self.total;
        for needs in self.shards.values().filter_map(Shard::reserved_resources) {
            free.cores = (free.cores - needs.cores).max(0.0);
            free.memory = free.memory.saturating_sub(needs.memory);
            free.hosts = free.hosts.saturating_sub(needs.hosts);
            let less = |rate: Option<u64>, reserved: Option<u64>| {
                rate.map(|rate| rate.saturating_sub(reserved.unwrap_or(0)))
            };
            free.traffic = less(free.traffic, needs.traffic);
            free.nic = less(free.nic, needs.nic);
        }
        free
    }

    /// Whether no shard runs and no coordinator is alive.
    pub(super) fn is_idle(&self) -> bool {
        let done =
            |(id, shard): (&String, &Shard)| shard.has_ended() && !self.coordinators.is_alive(id);
        self.shards.iter().all(done) || self.leave_deadline.is_some_and(|by| now() > by)
    }

    /// Sends the last heartbeat.
    pub(super) fn leave(&self) {
        let heartbeat = heartbeat(self.instance, &self.clocks, true, self.options.silence_timeout);
        self.bus.put_certified(&key::heartbeat(&self.bus.own), &session::bytes(&heartbeat));
    }

    /// The state of another agent has changed.
    pub(super) fn on_peer_change(&mut self, change: Change, notify: Notify<'_>) {
        let (name, is_alive) = match change {
            Change::Lost(name) => (name, false),
            Change::Replaced(name) => {
                for shard in self.shards.values_mut() {
                    shard.lose(&name, true, "the agent was restarted");
                }
                (name, true)
            }
            Change::Alive(name) => (name, true),
        };
        let instance = self.detector.instance(&name).unwrap_or_default();
        for shard in self.shards.values_mut() {
            if is_alive {
                shard.regain(&name, instance);
            } else {
                shard.lose(&name, false, "no heartbeat received");
            }
        }
        if is_alive {
            self.recovery.on_return(&name);
        } else {
            self.clocks.rest(&name);
        }
        notify(if is_alive { Notification::Alive { name } } else { Notification::Lost { name } });
    }

    /// The coordinator of a lab is lost.
    pub(super) fn on_coordinator_loss(&mut self, id: &str, notify: Notify<'_>) {
        let Some(shard) = self.shards.get(id) else { return };
        let then = shard.orphan_action();
        notify(Notification::Orphaned { lab: id.to_owned(), then });
        if then == OrphanAction::End {
            self.remove(id, "its coordinator is lost", notify);
        }
    }

    /// Ends a shard and deletes its results.
    pub(super) fn remove(&mut self, id: &str, why: &str, notify: Notify<'_>) {
        if let Some(shard) = self.shards.remove(id) {
            let name = shard.terms().name.clone();
            shard.end();
            notify(Notification::Removed { lab: id.to_owned(), name, why: why.to_owned() });
        }
    }

    /// Removes failed shards, old results, and the oldest results above the limit.
    pub(super) fn remove_expired(&mut self, now: Time, notify: Notify<'_>) {
        let mut retained: Vec<(Time, String, u64)> = Vec::new();
        let mut expired = Vec::new();
        for (id, shard) in &self.shards {
            match shard.results() {
                Some((since, _)) if now.since(since) > RESULTS_TIMEOUT => {
                    expired.push((id.clone(), "its results were not fetched within 24 h"));
                }
                _ if shard.has_failed() && !self.coordinators.is_alive(id) => {
                    expired.push((id.clone(), "it has failed, and its coordinator is lost"));
                }
                Some((since, bytes)) => retained.push((since, id.clone(), bytes)),
                None => {}
            }
        }
        retained.sort();
        let mut bytes: u64 = retained.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, id, size) in retained {
            if bytes > self.options.keep && !self.coordinators.is_alive(&id) {
                bytes -= size;
                expired.push((id, "the results of all labs exceed the limit of --keep"));
            }
        }
        for (id, why) in expired {
            self.remove(&id, why, notify);
        }
    }
}

pub(super) fn heartbeat(
    instance: u64,
    clocks: &Clocks,
    leaves: bool,
    silence_timeout: Span,
) -> Heartbeat {
    let silence_timeout_ns = silence_timeout.as_nanos();
    Heartbeat { instance, clock: clocks.address(), leaves, silence_timeout_ns }
}
