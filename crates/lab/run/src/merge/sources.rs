//! The reader of one shard's observations.

use std::fs::File;
use std::io::BufReader;

use crate::Error;
use base::Time;
use lab::plan::Plan;

use crate::observation::{self, Ending, Observation, ObservationReader, Peer};
use crate::shards::AgentRun;

/// An agent's observations, and the data about the agent itself.
#[derive(Debug)]
pub(super) struct Source {
    name: String,
    agents: usize,
    reader: Option<ObservationReader<BufReader<File>>>,
    /// The time of its newest counters.
    pub(super) at: Time,
    /// The lab's time at its end, or of its last observation.
    pub(super) ended: Time,
    /// Its wall-clock time at lab time zero.
    pub(super) started_unix_ns: Option<u64>,
    /// Traffic from and to the other agents.
    pub(super) peers: Vec<Peer>,
    /// `None` if it was killed, is damaged or could not be fetched.
    pub(super) ending: Option<Box<Ending>>,
    warnings: Vec<String>,
}

impl Source {
    /// Opens the file and reads its start.
    pub(super) fn open(agent: &AgentRun, plan: &Plan, agents: usize) -> Self {
        let mut this = Self {
            name: agent.name.clone(),
            agents,
            reader: None,
            at: Time::ZERO,
            ended: Time::ZERO,
            started_unix_ns: None,
            peers: Vec::new(),
            ending: None,
            warnings: Vec::new(),
        };
        let Some(folder) = &agent.folder else {
            this.warn("its results could not be fetched");
            return this;
        };
        match ObservationReader::open(&folder.join(observation::FILE), plan) {
            Ok(reader) => this.reader = Some(reader),
            Err(error) => this.fail(&error),
        }
        if let Some(Observation::Begin(unix_ns)) = this.next() {
            this.started_unix_ns = Some(unix_ns);
        }
        this
    }

    pub(super) const fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// The next observation; `None` at the end, when the source is closed.
    pub(super) fn next(&mut self) -> Option<Observation> {
        let read = self.reader.as_mut()?.next_observation();
        let observation = match read {
            Ok(Some(observation)) => observation,
            Ok(None) => {
                self.reader = None;
                if self.ending.is_none() {
                    let at = self.ended;
                    self.warn(&format!(
                        "its results end at {at}: its process was killed or the connection was lost"
                    ));
                }
                return None;
            }
            Err(error) => {
                self.fail(&error);
                return None;
            }
        };
        match &observation {
            Observation::Counters(counters) => {
                self.at = self.at.max(counters.at);
                self.ended = self.ended.max(counters.at);
            }
            Observation::Peer(peer) => self.add_peer(peer),
            Observation::End(ending) => {
                self.ended = self.ended.max(ending.at);
                let warnings = ending.warnings.iter();
                self.warnings.extend(warnings.map(|text| format!("{}: {text}", self.name)));
                self.ending = Some(ending.clone());
            }
            _ => {}
        }
        Some(observation)
    }

    /// Adds a peer, at most one per agent.
    fn add_peer(&mut self, peer: &Peer) {
        let is_agent = usize::from(peer.peer) < self.agents;
        if is_agent && self.peers.iter().all(|known| known.peer != peer.peer) {
            self.peers.push(peer.clone());
        }
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn fail(&mut self, error: &Error) {
        self.reader = None;
        let at = self.ended;
        self.warn(&format!("its results end at {at}: {error}"));
    }

    fn warn(&mut self, text: &str) {
        self.warnings.push(format!("{}: {text}", self.name));
    }
}
