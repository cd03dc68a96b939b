//! Everybody tells everybody: each member knows all flows, and computes the shares of its own.
//!
//! Notices are numbered, so a member notices that it has missed one, and asks for it. Twice a
//! second each tells a digest of its flows, by which the others notice what was lost at the end.
//! Who is asked sends what its log still has, or all its flows.
//!
//= SplayNet §3.3: decentralised congestion emulation

mod codec;
mod flows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use base::{Span, Time};
use fabric::Announced;
use sharing::Notice;

use super::{Agreement, Output, To};
use crate::{AgentId, Result};
use codec::Message;
use flows::Flows;

/// From digest to digest.
const DIGEST: Span = Span::from_millis(500);

/// An answer is waited for so long before it is asked for again.
const PATIENCE: Span = Span::from_millis(100);

/// Notices that a member keeps for those that missed them.
const LOG: usize = 8192;

/// Batches that are kept while one before them is missing.
const EARLY: usize = 256;

/// Flows in a part of a snapshot, notices in a repeated batch: some 16 KB.
const PART: usize = 1024;

/// Flows that another member may have.
const MOST_FLOWS: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub struct Notices {
    own: AgentId,
    flows: Flows,
    /// The number of the next own notice.
    next: u64,
    /// The latest own notices, up to the one before `next`.
    log: VecDeque<Notice>,
    /// By position; what stands at the own one stays empty.
    peers: Vec<Peer>,
    next_digest: Time,
    outputs: VecDeque<Output>,
}

/// What is known of another member.
#[derive(Debug, Default)]
struct Peer {
    is_lost: bool,
    flows: Flows,
    /// The number of its next notice.
    next: u64,
    /// Batches behind a gap, by the number of their first notice.
    early: BTreeMap<u64, (Time, Vec<Notice>)>,
    /// When an answer is asked for again.
    ask_again: Option<Time>,
    snapshot: Option<Snapshot>,
}

/// A snapshot that is not complete.
#[derive(Debug)]
struct Snapshot {
    next: u64,
    parts: BTreeMap<u64, Vec<Notice>>,
}

impl Notices {
    /// Member `own` of `members`; nobody has a flow yet.
    pub fn new(own: AgentId, members: usize) -> Self {
        let peers = (0..members).map(|_| Peer::default()).collect();
        // Digests of different members come at different times.
        let phase = DIGEST.as_nanos() * own.index() as u64 / members.max(1) as u64;
        Self {
            own,
            flows: Flows::default(),
            next: 0,
            log: VecDeque::new(),
            peers,
            next_digest: Time::from_nanos(phase),
            outputs: VecDeque::new(),
        }
    }

    fn is_alone(&self) -> bool {
        self.peers.len() < 2
    }

    fn send(&mut self, to: To, message: &Message) {
        self.outputs.push_back(Output::Send { to, bytes: message.encode() });
    }

    /// A member has told of changes since `first`.
    fn take(&mut self, now: Time, from: AgentId, (at, first): (Time, u64), notices: Vec<Notice>) {
        let peer = &mut self.peers[from.index()];
        if first > peer.next {
            if peer.early.len() < EARLY {
                peer.early.insert(first, (at, notices));
            }
            self.ask(now, from);
            return;
        }
        peer.early.insert(first, (at, notices));
        let mut progress = false;
        while let Some(batch) = peer.early.first_entry().filter(|batch| *batch.key() <= peer.next) {
            let first = *batch.key();
            let (announced, notices) = batch.remove();
            // What was repeated, or came twice, is known already.
            let known = (peer.next - first) as usize;
            for notice in notices.into_iter().skip(known) {
                peer.next += 1;
                progress = true;
                let full = peer.flows.len() >= MOST_FLOWS;
                if !(full && matches!(notice, Notice::Started { .. })) && peer.flows.hear(&notice) {
                    self.outputs.push_back(Output::Hear { notice, announced });
                }
            }
        }
        if peer.early.is_empty() {
            peer.ask_again = None;
        } else if progress {
            // What is still missing is another gap.
            peer.ask_again = None;
            self.ask(now, from);
        }
    }

    fn ask(&mut self, now: Time, from: AgentId) {
        let peer = &mut self.peers[from.index()];
        if peer.ask_again.is_none_or(|at| at <= now) {
            peer.ask_again = Some(now + PATIENCE);
            let next = peer.next;
            self.send(To::One(from), &Message::Ask { next });
        }
    }

    /// A member that misses what was told since `next` gets it, or everything.
    fn answer(&mut self, now: Time, from: AgentId, next: u64) {
        let oldest = self.next - self.log.len() as u64;
        if next < self.next && next >= oldest {
            let missed: Vec<Notice> =
                self.log.iter().skip((next - oldest) as usize).copied().collect();
            for (part, notices) in missed.chunks(PART).enumerate() {
                let first = next + (part * PART) as u64;
                let notices = notices.to_vec();
                self.send(To::One(from), &Message::Notices { at: now, first, notices });
            }
            return;
        }
        let flows: Vec<Notice> = self.flows.started(u32::from(self.own.0)).collect();
        let parts = flows.len().div_ceil(PART).max(1);
        for part in 0..parts {
            let flows = flows.iter().skip(part * PART).take(PART).copied().collect();
            let (part, parts, next) = (part as u64, parts as u64, self.next);
            self.send(To::One(from), &Message::Snapshot { next, part, parts, flows });
        }
    }

    /// A part of what a member has in all.
    fn assemble(&mut self, now: Time, from: AgentId, message: Message) {
        let Message::Snapshot { next, part, parts, flows } = message else { return };
        let peer = &mut self.peers[from.index()];
        if next < peer.next {
            return;
        }
        let snapshot = match &mut peer.snapshot {
            Some(snapshot) if snapshot.next == next => snapshot,
            other => other.insert(Snapshot { next, parts: BTreeMap::new() }),
        };
        snapshot.parts.insert(part, flows);
        if (snapshot.parts.len() as u64) < parts {
            return;
        }
        let Some(snapshot) = peer.snapshot.take() else { return };
        let mut flows = Flows::default();
        for notice in snapshot.parts.into_values().flatten().take(MOST_FLOWS) {
            flows.hear(&notice);
        }
        for notice in peer.flows.difference(&flows, u32::from(from.0)) {
            self.outputs.push_back(Output::Hear { notice, announced: now });
        }
        (peer.flows, peer.next, peer.ask_again) = (flows, next, None);
        peer.early.retain(|first, (_, notices)| *first + notices.len() as u64 > next);
        self.take(now, from, (now, next), Vec::new());
    }

    /// A member says how far it is and what it has.
    fn compare(&mut self, now: Time, from: AgentId, next: u64, whole: (u64, u64)) {
        let peer = &mut self.peers[from.index()];
        let same = (peer.flows.len() as u64, peer.flows.digest()) == whole;
        if next > peer.next {
            self.ask(now, from);
        } else if next == peer.next && !same {
            // Not what was told: everything, then. A number beyond the log asks for that.
            peer.ask_again = Some(now + PATIENCE);
            self.send(To::One(from), &Message::Ask { next: u64::MAX });
        }
    }
}

impl Agreement for Notices {
    fn announce(&mut self, now: Time, announced: &[Announced]) {
        if announced.is_empty() || self.is_alone() {
            return;
        }
        let notices: Vec<Notice> = announced.iter().map(|one| one.notice).collect();
        for notice in &notices {
            self.flows.hear(notice);
            self.log.push_back(*notice);
        }
        let excess = self.log.len().saturating_sub(LOG);
        self.log.drain(..excess);
        let first = self.next;
        self.next += notices.len() as u64;
        self.send(To::All, &Message::Notices { at: now, first, notices });
    }

    fn on_message(&mut self, now: Time, from: AgentId, bytes: &[u8]) -> Result<()> {
        let message = Message::decode(from, bytes)?;
        match self.peers.get(from.index()) {
            Some(peer) if !peer.is_lost && from != self.own => {}
            _ => return Ok(()),
        }
        match message {
            Message::Notices { at, first, notices } => self.take(now, from, (at, first), notices),
            Message::Digest { next, count, digest } => {
                self.compare(now, from, next, (count, digest));
            }
            Message::Ask { next } => self.answer(now, from, next),
            Message::Snapshot { .. } => self.assemble(now, from, message),
        }
        Ok(())
    }

    fn lose(&mut self, now: Time, agent: AgentId) {
        let Some(peer) = self.peers.get_mut(agent.index()) else { return };
        let flows = std::mem::take(peer).flows;
        peer.is_lost = true;
        for notice in flows.difference(&Flows::default(), u32::from(agent.0)) {
            self.outputs.push_back(Output::Hear { notice, announced: now });
        }
    }

    fn regain(&mut self, now: Time, agent: AgentId) {
        let Some(peer) = self.peers.get_mut(agent.index()) else { return };
        if std::mem::take(&mut peer.is_lost) {
            self.ask(now, agent);
        }
    }

    /// Each member's fabric knows links and routes by itself.
    fn relink(&mut self, _: Time, _: &[Option<base::Bandwidth>]) {}

    fn next_wake(&self) -> Option<Time> {
        let asked = self.peers.iter().filter_map(|peer| peer.ask_again);
        asked.chain(Some(self.next_digest)).min().filter(|_| !self.is_alone())
    }

    fn on_wake(&mut self, now: Time) {
        if self.is_alone() {
            return;
        }
        for at in 0..self.peers.len() {
            if self.peers[at].ask_again.is_some_and(|at| at <= now) {
                self.ask(now, AgentId::at(at));
            }
        }
        if self.next_digest <= now {
            let late = now.since(self.next_digest).as_nanos() / DIGEST.as_nanos();
            self.next_digest += Span::from_nanos(DIGEST.as_nanos() * (late + 1));
            let (count, digest) = (self.flows.len() as u64, self.flows.digest());
            self.send(To::All, &Message::Digest { next: self.next, count, digest });
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
