//! Each agent sends its flows to all others, stores all flows, and computes the
//! shares of its flows.
//!
//! Notices are numbered: an agent that misses one requests it. Every 500 ms each agent sends a
//! digest of its flows, which reveals a loss of the last notices. The answer to a request has the
//! missing notices from the log, or all flows.
//!
//= SplayNet §3.3: decentralised congestion emulation

mod codec;
mod flows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use base::{AgentId, Span, Time};
use fabric::Announced;
use sharing::Notice;

use crate::Result;
use crate::{Agreement, Output, Recipient};
use codec::Message;
use flows::Flows;

const DIGEST_INTERVAL: Span = Span::from_millis(500);

/// Time without an answer after which the request is repeated.
const ASK_TIMEOUT: Span = Span::from_millis(100);

const MAX_LOGGED_NOTICES: usize = 8192;

/// Batches stored behind a gap.
const MAX_EARLY_BATCHES: usize = 256;

/// Entries per message: about 16 KB.
const NOTICES_PER_PART: usize = 1024;

/// Flows of another agent.
const MAX_FLOWS: usize = 1 << 20;

#[derive(Debug)]
pub struct Notices {
    own: AgentId,
    flows: Flows,
    /// The sequence number of the next own notice.
    next: u64,
    /// The last own notices; the latest has the number `next` − 1.
    log: VecDeque<Notice>,
    /// Indexed by agent; the own entry is unused.
    peers: Vec<Peer>,
    next_digest: Time,
    outputs: VecDeque<Output>,
}

#[derive(Debug, Default)]
struct Peer {
    is_lost: bool,
    flows: Flows,
    /// The sequence number of its next notice.
    next: u64,
    /// Batches behind a gap, by the number of their first notice.
    early: BTreeMap<u64, (Time, Vec<Notice>)>,
    /// Time at which the request is repeated.
    ask_again_at: Option<Time>,
    snapshot: Option<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    next: u64,
    parts: BTreeMap<u64, Vec<Notice>>,
}

impl Notices {
    /// Agent `own` of `agents`, without flows.
    pub fn new(own: AgentId, agents: usize) -> Self {
        let peers = (0..agents).map(|_| Peer::default()).collect();
        // Spreads the digests of the agents over the interval.
        let phase = DIGEST_INTERVAL.as_nanos() * own.index() as u64 / agents.max(1) as u64;
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

    fn send(&mut self, to: Recipient, message: &Message) {
        self.outputs.push_back(Output::Send { to, bytes: message.encode() });
    }

    /// Handles a batch of notices that starts with number `first`.
    fn take(&mut self, now: Time, from: AgentId, (at, first): (Time, u64), notices: Vec<Notice>) {
        let peer = &mut self.peers[from.index()];
        if first > peer.next {
            if peer.early.len() < MAX_EARLY_BATCHES {
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
            // Skips notices of a repeated or duplicated batch.
            let known = (peer.next - first) as usize;
            for notice in notices.into_iter().skip(known) {
                peer.next += 1;
                progress = true;
                let full = peer.flows.len() >= MAX_FLOWS;
                if !(full && matches!(notice, Notice::Started { .. })) && peer.flows.apply(&notice)
                {
                    self.outputs.push_back(Output::RemoteNotice { notice, announced });
                }
            }
        }
        if peer.early.is_empty() {
            peer.ask_again_at = None;
        } else if progress {
            // The remaining batches are behind another gap.
            peer.ask_again_at = None;
            self.ask(now, from);
        }
    }

    fn ask(&mut self, now: Time, from: AgentId) {
        let peer = &mut self.peers[from.index()];
        if peer.ask_again_at.is_none_or(|at| at <= now) {
            peer.ask_again_at = Some(now + ASK_TIMEOUT);
            let next = peer.next;
            self.send(Recipient::One(from), &Message::Ask { next });
        }
    }

    /// Sends the notices from `next` on, or a snapshot if the log does not reach back so far.
    fn answer(&mut self, now: Time, from: AgentId, next: u64) {
        let oldest = self.next - self.log.len() as u64;
        if next < self.next && next >= oldest {
            let missed: Vec<Notice> =
                self.log.iter().skip((next - oldest) as usize).copied().collect();
            for (part, notices) in missed.chunks(NOTICES_PER_PART).enumerate() {
                let first = next + (part * NOTICES_PER_PART) as u64;
                let notices = notices.to_vec();
                self.send(Recipient::One(from), &Message::Notices { at: now, first, notices });
            }
            return;
        }
        let flows: Vec<Notice> = self.flows.started(u32::from(self.own.0)).collect();
        let parts = flows.len().div_ceil(NOTICES_PER_PART).max(1);
        for part in 0..parts {
            let flows = flows
                .iter()
                .skip(part * NOTICES_PER_PART)
                .take(NOTICES_PER_PART)
                .copied()
                .collect();
            let (part, parts, next) = (part as u64, parts as u64, self.next);
            self.send(Recipient::One(from), &Message::Snapshot { next, part, parts, flows });
        }
    }

    /// Collects the parts of a snapshot.
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
        for notice in snapshot.parts.into_values().flatten().take(MAX_FLOWS) {
            flows.apply(&notice);
        }
        for notice in peer.flows.difference(&flows, u32::from(from.0)) {
            self.outputs.push_back(Output::RemoteNotice { notice, announced: now });
        }
        (peer.flows, peer.next, peer.ask_again_at) = (flows, next, None);
        peer.early.retain(|first, (_, notices)| *first + notices.len() as u64 > next);
        self.take(now, from, (now, next), Vec::new());
    }

    /// Compares a digest with the known flows of the sender.
    fn compare(&mut self, now: Time, from: AgentId, next: u64, whole: (u64, u64)) {
        let peer = &mut self.peers[from.index()];
        let same = (peer.flows.len() as u64, peer.flows.digest()) == whole;
        if next > peer.next {
            self.ask(now, from);
        } else if next == peer.next && !same {
            // The flows differ at the same number: a number beyond the log requests a snapshot.
            peer.ask_again_at = Some(now + ASK_TIMEOUT);
            self.send(Recipient::One(from), &Message::Ask { next: u64::MAX });
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
            self.flows.apply(notice);
            self.log.push_back(*notice);
        }
        let excess = self.log.len().saturating_sub(MAX_LOGGED_NOTICES);
        self.log.drain(..excess);
        let first = self.next;
        self.next += notices.len() as u64;
        self.send(Recipient::All, &Message::Notices { at: now, first, notices });
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

    fn on_agent_lost(&mut self, now: Time, agent: AgentId) {
        let Some(peer) = self.peers.get_mut(agent.index()) else { return };
        let flows = std::mem::take(peer).flows;
        peer.is_lost = true;
        for notice in flows.difference(&Flows::default(), u32::from(agent.0)) {
            self.outputs.push_back(Output::RemoteNotice { notice, announced: now });
        }
    }

    fn on_agent_restored(&mut self, now: Time, agent: AgentId) {
        let Some(peer) = self.peers.get_mut(agent.index()) else { return };
        if std::mem::take(&mut peer.is_lost) {
            self.ask(now, agent);
        }
    }

    /// Each fabric has its own links and routes.
    fn set_capacities(&mut self, _: Time, _: &[Option<base::Bandwidth>]) {}

    fn next_wake(&self) -> Option<Time> {
        let asked = self.peers.iter().filter_map(|peer| peer.ask_again_at);
        asked.chain(Some(self.next_digest)).min().filter(|_| !self.is_alone())
    }

    fn on_wake(&mut self, now: Time) {
        if self.is_alone() {
            return;
        }
        for at in 0..self.peers.len() {
            if self.peers[at].ask_again_at.is_some_and(|at| at <= now) {
                self.ask(now, AgentId::at(at));
            }
        }
        if self.next_digest <= now {
            let late = now.since(self.next_digest).as_nanos() / DIGEST_INTERVAL.as_nanos();
            self.next_digest += Span::from_nanos(DIGEST_INTERVAL.as_nanos() * (late + 1));
            let (count, digest) = (self.flows.len() as u64, self.flows.digest());
            self.send(Recipient::All, &Message::Digest { next: self.next, count, digest });
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
