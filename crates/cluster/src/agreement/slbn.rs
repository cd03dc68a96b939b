//! Links are owned by members, and flows claim of their paths' links what SLBN's packets would.
//!
//! **Problem.** Where everybody tells everybody of every flow ([`super::Notices`]), what a member
//! hears and keeps grows with all flows of the lab. Here nobody knows all flows: each direction of
//! a link is kept by one member ([`homes`]), and a flow concerns the owners of its own links only.
//!
//! **Rule.** SLBN's. A link adds up what flows use that something else limits (BF), counts those
//! that it limits (NR) and all (N), and gives each that it limits max((C − BF)/NR, C/N). A flow
//! gets the least that a link of its path has for it, or asks for; the link that has the least is
//! its bottleneck, at which it counts as limited, while the others add its rate to what is used.
//! In SLBN a packet carries this from link to link and back. Here its member knows what the links
//! of its flows' paths have, and does for all of them at once what the packets would do one by one.
//!
//! **What travels.** A *claim*: what a member's flows together take of a link (BF, NR, N, and the
//! highest rate in BF). The owner keeps these integers of each member, not of flows, and adds them
//! up. An *offer*: what the link gives each flow that it limits. Both go when they matter, and
//! otherwise late or never: an offer, when the level has changed by 1/512 for somebody whom it
//! limits, or may; a claim, when what the flows use, as long as the level is what it is, differs by
//! the member's part of what would move it by 1/256. Without changes nothing travels.
//!
//! **Beyond SLBN.** Where some flow that something else limits uses more than the level, it will
//! be limited here: it counts among the limited at once, or the level would fall too low for a
//! round. A link that limits nobody offers what its greatest user could have.
//!
//! **Faults.** Claims and offers are states, and numbered: those that come twice or late change
//! nothing, and what is not confirmed is said again (`post`). A lost member's claims go with it;
//! the links that it owned fall to others ([`homes`]), to whom everybody claims anew. Members may
//! see each other's absence at different times: who is claimed something of keeps it.
//!
//! Rates are max-min fair; round trips don't matter.
//!
//= slbn §II, §III: the shares of links, bottlenecks of sessions

mod links;
mod message;
mod owners;
mod post;
mod sessions;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use base::{Bandwidth, RandomStream, Time};
use fabric::Announced;
use sharing::{Notice, Window};

use super::{Agreement, Output};
use crate::{AgentId, Result};
use links::Links;
use message::{Claim, Entry};
use owners::Owners;
pub use owners::homes;
use post::{Key, Post, Received};
use sessions::{Asked, Sessions, When};

/// Whether two rates differ by what should not wait.
fn notable(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.max(b) >> 9
}

/// Whether they differ at all, as far as anybody wants to know.
fn differs(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.max(b) >> 12
}

/// See the module.
#[derive(Debug)]
pub struct Slbn {
    own: AgentId,
    owners: Owners,
    links: Links,
    sessions: Sessions,
    post: Post,
    outputs: VecDeque<Output>,
    now: Time,
}

impl Slbn {
    /// Member `own` of `members`; `homes` tells who keeps each link, `window` what caps TCP flows.
    /// From `seed` it is drawn how long news are gathered. No link is known before
    /// [`Agreement::relink`].
    pub fn new(
        own: AgentId,
        members: usize,
        homes: Vec<AgentId>,
        window: Window,
        seed: u64,
    ) -> Self {
        let dice = RandomStream::new(seed, &format!("slbn {}", own.0));
        Self {
            own,
            owners: Owners::new(homes, members),
            links: Links::new(dice),
            sessions: Sessions::new(window),
            post: Post::new(members),
            outputs: VecDeque::new(),
            now: Time::ZERO,
        }
    }

    /// Does what calls have left to do: claims what flows take, hands on shares.
    fn settle(&mut self) {
        while let Some(link) = self.sessions.touched.pop_first() {
            if self.sessions.urgency(self.now, link) == When::Now || self.owns(link) {
                self.claim(link);
            }
        }
        self.outputs.extend(self.sessions.outputs.drain(..));
    }

    fn owns(&self, link: u32) -> bool {
        self.owners.of(link) == self.own
    }

    /// Tells a link's owner what flows take of it.
    fn claim(&mut self, link: u32) {
        if self.owns(link) {
            let claim = self.sessions.tell(link);
            self.links.take(self.now, link, (self.own, 0), claim);
        } else {
            self.post.put(self.owners.of(link), Key::Claim(link));
        }
    }

    /// Tells members what a link has for them.
    fn offer(&mut self, agent: AgentId, link: u32) {
        if agent != self.own {
            self.post.put(agent, Key::Offer(link));
        } else if let Some(offer) = self.links.tell(agent, link)
            && self.owns(link)
        {
            self.sessions.hear(link, 0, offer);
            self.settle();
        }
    }

    /// What a member is to be told of a key.
    fn value(&mut self, to: AgentId, key: Key) -> Option<Entry> {
        match key {
            Key::Claim(link) if self.owners.of(link) == to => {
                Some(Entry::Claim(link, self.sessions.tell(link)))
            }
            // It kept the link for somebody else.
            Key::Claim(link) => Some(Entry::Claim(link, Claim::default())),
            Key::Offer(link) => self.links.tell(to, link).map(|offer| Entry::Offer(link, offer)),
        }
    }

    /// A member has gone or come; links have other owners.
    fn remember(&mut self, agent: AgentId, is_lost: bool) {
        let before = self.owners.clone();
        if agent == self.own || !self.owners.set_lost(agent, is_lost) {
            return;
        }
        if is_lost {
            self.post.forget(agent);
            self.links.forget(self.now, agent);
        } else {
            self.post.greet(agent);
        }
        let moved = |link: &u32| self.owners.of(*link) != before.of(*link);
        let links: Vec<u32> = self.sessions.links().filter(moved).collect();
        for link in &links {
            let kept = before.of(*link);
            if kept == self.own {
                self.links.take(self.now, *link, (self.own, 0), Claim::default());
            } else if !self.owners.is_lost(kept) {
                self.post.put(kept, Key::Claim(*link));
            }
        }
        self.sessions.ask_others(|link| links.binary_search(&link).is_ok());
    }

    /// A member has forgotten what it was told.
    fn repeat(&mut self, agent: AgentId) {
        let owners = &self.owners;
        self.sessions.ask_others(|link| owners.of(link) == agent);
        self.links.repeat(self.now, agent);
    }
}

impl Agreement for Slbn {
    fn announce(&mut self, now: Time, announced: &[Announced]) {
        self.now = now;
        for Announced { notice, path } in announced {
            match (*notice, path) {
                (Notice::Started { flow, windowed, most, .. }, Some(path)) => {
                    let (links, round_trip) = (path.links.clone(), path.round_trip);
                    let asked = Asked { links, round_trip, windowed, most };
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
        if self.owners.is_member(from) && self.owners.is_lost(from) {
            return Ok(());
        }
        let links = &self.links;
        let Received { number, entries, forgot } =
            self.post.receive(now, from, bytes, |link| links.has(link))?;
        if forgot {
            self.repeat(from);
        }
        for entry in entries {
            match entry {
                Entry::Claim(link, claim) => self.links.take(now, link, (from, number), claim),
                Entry::Offer(link, offer) if self.owners.of(link) == from => {
                    self.sessions.hear(link, number, offer);
                }
                Entry::Offer(..) => {}
            }
        }
        self.settle();
        Ok(())
    }

    fn lose(&mut self, now: Time, agent: AgentId) {
        self.now = now;
        self.remember(agent, true);
        self.settle();
    }

    fn regain(&mut self, now: Time, agent: AgentId) {
        self.now = now;
        self.remember(agent, false);
        self.settle();
    }

    fn relink(&mut self, now: Time, capacities: &[Option<Bandwidth>]) {
        self.now = now;
        self.links.set_capacities(now, capacities);
        self.sessions.relink(&self.links);
        self.settle();
    }

    fn next_wake(&self) -> Option<Time> {
        let wakes = [self.links.next_wake(), self.sessions.next_wake(), self.post.next_wake()];
        wakes.into_iter().flatten().min()
    }

    fn on_wake(&mut self, now: Time) {
        self.now = now;
        self.post.on_wake(now);
        for link in self.links.round(now) {
            for agent in self.links.news(now, link) {
                self.offer(agent, link);
            }
        }
        for (agent, link) in self.links.late_news(now) {
            self.offer(agent, link);
        }
        for link in self.sessions.late_news(now) {
            self.claim(link);
        }
        self.settle();
    }

    fn poll(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        let (to, keys) = self.post.next(self.now)?;
        let entries: Vec<Entry> = keys.iter().filter_map(|key| self.value(to, *key)).collect();
        Some(self.post.send(self.now, to, keys, &entries))
    }
}
