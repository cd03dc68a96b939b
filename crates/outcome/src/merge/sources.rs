//! A piece that is read.

use std::fs::File;
use std::io::BufReader;

use base::Time;
use lab::plan::Plan;
use record::Error;

use super::Joined;
use crate::observation::{self, Ending, Observation, ObservationReader, Peer};

/// A member's observations, and what of them is about the member itself.
#[derive(Debug)]
pub(super) struct Source {
    name: String,
    members: usize,
    reader: Option<ObservationReader<BufReader<File>>>,
    /// How far its counters have come.
    pub(super) at: Time,
    /// The lab's time at its end, or when it was last heard.
    pub(super) ended: Time,
    /// Its wall-clock time at lab time zero.
    pub(super) started_unix_ns: Option<u64>,
    /// What others sent to it.
    pub(super) peers: Vec<Peer>,
    /// `None`: it was killed, is damaged or could not be had.
    pub(super) ending: Option<Box<Ending>>,
    warnings: Vec<String>,
}

impl Source {
    /// Opens it and reads its beginning.
    pub(super) fn open(member: &Joined, plan: &Plan, members: usize) -> Self {
        let mut this = Self {
            name: member.name.clone(),
            members,
            reader: None,
            at: Time::ZERO,
            ended: Time::ZERO,
            started_unix_ns: None,
            peers: Vec::new(),
            ending: None,
            warnings: Vec::new(),
        };
        let Some(folder) = &member.folder else {
            this.warn("its results could not be had");
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

    /// The next observation; `None` once there is no more, after which it is not open.
    pub(super) fn next(&mut self) -> Option<Observation> {
        let read = self.reader.as_mut()?.next_observation();
        let seen = match read {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                self.reader = None;
                if self.ending.is_none() {
                    let at = self.ended;
                    self.warn(&format!("its results end at {at}: it was killed, or lost"));
                }
                return None;
            }
            Err(error) => {
                self.fail(&error);
                return None;
            }
        };
        match &seen {
            Observation::Counters(counters) => {
                self.at = self.at.max(counters.at);
                self.ended = self.ended.max(counters.at);
            }
            Observation::Peer(peer) => self.keep(peer),
            Observation::End(ending) => {
                self.ended = self.ended.max(ending.at);
                let warnings = ending.warnings.iter();
                self.warnings.extend(warnings.map(|text| format!("{}: {text}", self.name)));
                self.ending = Some(ending.clone());
            }
            _ => {}
        }
        Some(seen)
    }

    /// Keeps one of each member: no more can be.
    fn keep(&mut self, peer: &Peer) {
        let is_member = usize::from(peer.peer) < self.members;
        if is_member && self.peers.iter().all(|known| known.peer != peer.peer) {
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
