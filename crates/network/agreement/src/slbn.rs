//! SLBN over links that agents own: agents claim the rates that SLBN's packets would carry.
//!
//! **Problem.** With notices of all flows ([`super::Notices`]), the messages and the state of an
//! agent grow with all flows of the lab. Here each direction of a link has one owner agent
//! ([`homes`]), and a flow concerns only the owners of its links.
//!
//! **Rule.** SLBN's. A link sums the rates of flows that another link limits (BF), counts the flows
//! that it limits (NR) and all flows (N), and offers each flow that it limits max((C − BF)/NR,
//! C/N). A flow gets the lowest offer of its path, at most what it requests. The link with the
//! lowest offer is its bottleneck, which counts it as limited; the other links add its rate to BF.
//! In SLBN a packet carries this from link to link and back. Here the agent stores the offers of
//! the links of its flows' paths, and computes for all flows at once what the packets would compute
//! one by one.
//!
//! **Messages.** A *claim* has the total use of a link by an agent's flows (BF, NR, N, and the
//! highest rate in BF). The owner stores these integers per agent, not per flow. An *offer* has the
//! rate that the link gives each flow that it limits (its *level*). An offer is sent at once if the
//! level has changed by 1/512 for an agent that it limits or may limit. A claim is sent at once if
//! the use at the present level has changed by the agent's part of the change that would move the
//! level by 1/256. Smaller changes are deferred or not sent. Without changes no messages are sent.
//!
//! **Beyond SLBN.** A flow that another link limits to more than this link's level will be limited
//! here: it counts as limited at once, or the level would be too low for one round. A link that
//! limits no flow offers what its largest flow could have.
//!
//! **Faults.** Claims and offers are numbered states: duplicates and late messages have no effect,
//! and unacknowledged states are retransmitted (`channels`). The claims of a lost agent are
//! removed; its links move to other owners ([`homes`]), to which all agents claim again. Agents may
//! detect a loss at different times: an agent that receives a claim stores it.
//!
//! Rates are max-min fair, independent of the round-trip time.
//!
//= slbn §II, §III: the shares of links, bottlenecks of sessions

mod channels;
mod links;
mod message;
mod owners;
mod sessions;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use base::{AgentId, Bandwidth, RandomStream, Time};
use fabric::Announced;
use sharing::{Notice, Window};

use crate::Result;
use crate::{Agreement, Output};
use channels::{Channels, Key, Received};
use links::Links;
use message::{Claim, Entry};
use owners::Owners;
pub use owners::homes;
use sessions::{Request, Sessions, When};

#[derive(Debug)]
pub struct Slbn {
    own: AgentId,
    owners: Owners,
    links: Links,
    sessions: Sessions,
    channels: Channels,
    outputs: VecDeque<Output>,
    now: Time,
}

impl Slbn {
    /// Agent `own` of `agents`. `homes` has the owner of each link, `window` the cap of TCP flows,
    /// and `seed` keys the random delay of offers. No link exists before
    /// [`Agreement::set_capacities`].
    pub fn new(
        own: AgentId,
        agents: usize,
        homes: Vec<AgentId>,
        window: Window,
        seed: u64,
    ) -> Self {
        let rng = RandomStream::new(seed, &format!("slbn {}", own.0));
        Self {
            own,
            owners: Owners::new(homes, agents),
            links: Links::new(rng),
            sessions: Sessions::new(window),
            channels: Channels::new(agents),
            outputs: VecDeque::new(),
            now: Time::ZERO,
        }
    }

    /// Sends pending claims and reports shares.
    fn settle(&mut self) {
        while let Some(link) = self.sessions.changed_links.pop_first() {
            if self.sessions.when_to_claim(self.now, link) == When::Now || self.owns(link) {
                self.claim(link);
            }
        }
        self.outputs.extend(self.sessions.outputs.drain(..));
    }

    fn owns(&self, link: u32) -> bool {
        self.owners.of(link) == self.own
    }

    fn claim(&mut self, link: u32) {
        if self.owns(link) {
            let claim = self.sessions.tell(link);
            self.links.take(self.now, link, (self.own, 0), claim);
        } else {
            self.channels.put(self.owners.of(link), Key::Claim(link));
        }
    }

    fn offer(&mut self, agent: AgentId, link: u32) {
        if agent != self.own {
            self.channels.put(agent, Key::Offer(link));
        } else if let Some(offer) = self.links.tell(agent, link)
            && self.owns(link)
        {
            self.sessions.on_offer(link, 0, offer);
            self.settle();
        }
    }

    fn value(&mut self, to: AgentId, key: Key) -> Option<Entry> {
        match key {
            Key::Claim(link) if self.owners.of(link) == to => {
                Some(Entry::Claim(link, self.sessions.tell(link)))
            }
            // It owned the link in place of another agent.
            Key::Claim(link) => Some(Entry::Claim(link, Claim::default())),
            Key::Offer(link) => self.links.tell(to, link).map(|offer| Entry::Offer(link, offer)),
        }
    }

    /// Moves the links of an agent that was lost or restored to other owners.
    fn set_lost(&mut self, agent: AgentId, is_lost: bool) {
        let before = self.owners.clone();
        if agent == self.own || !self.owners.set_lost(agent, is_lost) {
            return;
        }
        if is_lost {
            self.channels.remove_agent(agent);
            self.links.remove_agent(self.now, agent);
        } else {
            self.channels.send_state(agent);
        }
        let with_session = |link: &u32| self.owners.of(*link) != before.of(*link);
        let links: Vec<u32> = self.sessions.links().filter(with_session).collect();
        for link in &links {
            let kept = before.of(*link);
            if kept == self.own {
                self.links.take(self.now, *link, (self.own, 0), Claim::default());
            } else if !self.owners.is_lost(kept) {
                self.channels.put(kept, Key::Claim(*link));
            }
        }
        self.sessions.ask_owners_of(|link| links.binary_search(&link).is_ok());
    }

    /// Resends all states to an agent that has reset its state.
    fn resend_all(&mut self, agent: AgentId) {
        let owners = &self.owners;
        self.sessions.ask_owners_of(|link| owners.of(link) == agent);
        self.links.resend_all(self.now, agent);
    }
}

impl Agreement for Slbn {
    fn announce(&mut self, now: Time, announced: &[Announced]) {
        self.now = now;
        for Announced { notice, path } in announced {
            match (*notice, path) {
                (Notice::Started { flow, windowed, most, .. }, Some(path)) => {
                    let (links, round_trip) = (path.links.clone(), path.round_trip);
                    let asked = Request { links, round_trip, windowed, most };
                    self.sessions.ask(&self.links, flow, asked);
                }
                (Notice::Started { .. }, None) => {}
                (Notice::Rate { flow, most }, _) => self.sessions.limit(&self.links, flow, most),
                (Notice::Ended { flow }, _) => self.sessions.end(flow),
            }
        }
        self.settle();
    }

    fn on_message(&mut self, now: Time, from: AgentId, bytes: &[u8]) -> Result<()> {
        self.now = now;
        if self.owners.is_known(from) && self.owners.is_lost(from) {
            return Ok(());
        }
        let links = &self.links;
        let Received { number, entries, reset } =
            self.channels.receive(now, from, bytes, |link| links.has(link))?;
        if reset {
            self.resend_all(from);
        }
        for entry in entries {
            match entry {
                Entry::Claim(link, claim) => self.links.take(now, link, (from, number), claim),
                Entry::Offer(link, offer) if self.owners.of(link) == from => {
                    self.sessions.on_offer(link, number, offer);
                }
                Entry::Offer(..) => {}
            }
        }
        self.settle();
        Ok(())
    }

    fn on_agent_lost(&mut self, now: Time, agent: AgentId) {
        self.now = now;
        self.set_lost(agent, true);
        self.settle();
    }

    fn on_agent_restored(&mut self, now: Time, agent: AgentId) {
        self.now = now;
        self.set_lost(agent, false);
        self.settle();
    }

    fn set_capacities(&mut self, now: Time, capacities: &[Option<Bandwidth>]) {
        self.now = now;
        self.links.set_capacities(now, capacities);
        self.sessions.set_capacities(&self.links);
        self.settle();
    }

    fn next_wake(&self) -> Option<Time> {
        let wakes = [self.links.next_wake(), self.sessions.next_wake(), self.channels.next_wake()];
        wakes.into_iter().flatten().min()
    }

    fn on_wake(&mut self, now: Time) {
        self.now = now;
        self.channels.on_wake(now);
        for link in self.links.round(now) {
            for agent in self.links.take_updates(now, link) {
                self.offer(agent, link);
            }
        }
        for (agent, link) in self.links.take_deferred(now) {
            self.offer(agent, link);
        }
        for link in self.sessions.take_deferred(now) {
            self.claim(link);
        }
        self.settle();
    }

    fn poll(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        let (to, keys) = self.channels.next(self.now)?;
        let entries: Vec<Entry> = keys.iter().filter_map(|key| self.value(to, *key)).collect();
        Some(self.channels.send(self.now, to, keys, &entries))
    }
}
