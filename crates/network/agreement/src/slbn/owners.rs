//! The owner of each link.
//!
//! **Rule.** Each agent must know a link's owner without a message, so it is a function of the
//! plan, the placement and the set of present agents. Each direction of a link has a *home*: the
//! agent whose hosts are nearest to it. So the first and last links of a path belong to the agents
//! of its ends, flows within one agent's part of the network need no messages, and shared links are
//! spread. Owners that follow the traffic would need a separate agreement, for little gain:
//! placement puts hosts with much common traffic together, so the near hosts are the users.
//!
//! While a link's home is lost, the agent with the highest hash of (link, agent) among the others
//! owns it (rendezvous hashing: Thaler and Ravishankar 1998): the links of one agent spread over
//! all others, and no other link moves.

use std::collections::VecDeque;

use base::{AgentId, Direction, NodeId};

/// The home of each link direction, indexed by [`sharing::LinkKey`]. `links` has the ends of each
/// link, `owners` the agent of each node.
pub fn homes(links: &[[NodeId; 2]], owners: &[Option<AgentId>], agents: usize) -> Vec<AgentId> {
    let nearest = nearest(links, owners, agents);
    let mut homes = Vec::with_capacity(links.len() * Direction::BOTH.len());
    for (at, ends) in links.iter().enumerate() {
        let ends = ends.map(|end| nearest[end.index()]);
        for direction in Direction::BOTH {
            let (near, far) = (ends[direction.index()], ends[1 - direction.index()]);
            let end = if near.0 <= far.0 { near } else { far };
            let key = (at * 2 + direction.index()) as u32;
            homes.push(end.1.unwrap_or_else(|| highest(key, agents, |_| true)));
        }
    }
    homes
}

/// For each node: the distance in links to the nearest hosts, and the agent with the most links
/// towards its own hosts at that distance.
fn nearest(
    links: &[[NodeId; 2]],
    owners: &[Option<AgentId>],
    agents: usize,
) -> Vec<(usize, Option<AgentId>)> {
    let mut neighbours = vec![Vec::new(); owners.len()];
    for [a, b] in links {
        neighbours[a.index()].push(b.index());
        neighbours[b.index()].push(a.index());
    }
    let mut found = vec![(usize::MAX, None); owners.len()];
    let mut queue = VecDeque::new();
    for (node, owner) in owners.iter().enumerate() {
        if let Some(owner) = owner.filter(|owner| owner.index() < agents) {
            found[node] = (0, Some(owner));
            queue.push_back(node);
        }
    }
    let mut links_of = vec![0_u32; agents];
    while let Some(node) = queue.pop_front() {
        let distance = found[node].0;
        if distance > 0 {
            links_of.fill(0);
            for other in &neighbours[node] {
                if let (_, Some(owner)) = found[*other]
                    && found[*other].0 < distance
                {
                    links_of[owner.index()] += 1;
                }
            }
            let best = (0..agents).max_by_key(|at| (links_of[*at], mix(node as u64, *at as u64)));
            found[node].1 = best.map(AgentId::at);
        }
        for other in &neighbours[node] {
            if found[*other].0 == usize::MAX {
                found[*other].0 = distance + 1;
                queue.push_back(*other);
            }
        }
    }
    found
}

/// The owners of all links, according to one agent.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    homes: Vec<AgentId>,
    is_lost: Vec<bool>,
}

impl Owners {
    pub(super) fn new(homes: Vec<AgentId>, agents: usize) -> Self {
        Self { homes, is_lost: vec![false; agents] }
    }

    pub(super) fn is_known(&self, agent: AgentId) -> bool {
        agent.index() < self.is_lost.len()
    }

    pub(super) fn is_lost(&self, agent: AgentId) -> bool {
        self.is_lost.get(agent.index()).copied().unwrap_or(true)
    }

    /// Returns whether this is a change.
    pub(super) fn set_lost(&mut self, agent: AgentId, is_lost: bool) -> bool {
        let Some(known) = self.is_lost.get_mut(agent.index()) else { return false };
        std::mem::replace(known, is_lost) != is_lost
    }

    pub(super) fn of(&self, link: u32) -> AgentId {
        let home = self.homes.get(link as usize).copied().unwrap_or_default();
        if self.is_lost(home) {
            return highest(link, self.is_lost.len(), |agent| !self.is_lost[agent]);
        }
        home
    }
}

/// The agent with the highest hash among those that `may` own a link.
fn highest(link: u32, agents: usize, may: impl Fn(usize) -> bool) -> AgentId {
    let best = (0..agents).filter(|agent| may(*agent));
    let best = best.max_by_key(|agent| mix(u64::from(link), *agent as u64));
    best.map(AgentId::at).unwrap_or_default()
}

/// `SplitMix64`'s output function (Steele, Lea, Flood, OOPSLA 2014).
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(1) << 32;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
