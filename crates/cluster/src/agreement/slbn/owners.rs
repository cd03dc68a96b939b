//! Who keeps which link.
//!
//! **Rule.** Everybody must know a link's owner without asking, so it is a function of the plan,
//! the placement and the set of members that are there. Each direction of a link has a *home*: the
//! member whose hosts are nearest to it. The first and last links of a path then belong to the
//! members that have its ends, flows within one member's part of the network are nobody else's
//! business, and what is shared by many is spread. Following the traffic itself would need an
//! agreement on owners beside that on shares, for little: where hosts that talk much are placed
//! together, near hosts are the users.
//!
//! While a link's home is lost, the member with the highest hash of (link, member) among those
//! left takes its place (rendezvous hashing: Thaler and Ravishankar 1998): the links of one
//! member spread over all others, and no other link moves.

use std::collections::VecDeque;

use base::{Direction, NodeId};
use lab::plan::Plan;

use crate::{AgentId, Assignment};

/// The member that each link direction is best kept by, by [`sharing::LinkKey`].
pub fn homes(plan: &Plan, assignment: &Assignment, members: usize) -> Vec<AgentId> {
    let nearest = nearest(plan, assignment, members);
    let mut homes = Vec::with_capacity(plan.links.len() * Direction::BOTH.len());
    for (at, link) in plan.links.iter().enumerate() {
        let ends = link.ends.map(|end| nearest[end.index()]);
        for direction in Direction::BOTH {
            let (near, far) = (ends[direction.index()], ends[1 - direction.index()]);
            let end = if near.0 <= far.0 { near } else { far };
            let key = (at * 2 + direction.index()) as u32;
            homes.push(end.1.unwrap_or_else(|| highest(key, members, |_| true)));
        }
    }
    homes
}

/// For each node: how many links away the nearest hosts are, and which member has the most ways
/// to its own there.
fn nearest(plan: &Plan, assignment: &Assignment, members: usize) -> Vec<(usize, Option<AgentId>)> {
    let mut neighbours = vec![Vec::new(); plan.nodes.len()];
    for link in &plan.links {
        let [a, b] = link.ends.map(NodeId::index);
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let mut found = vec![(usize::MAX, None); plan.nodes.len()];
    let mut next = VecDeque::new();
    for (node, owner) in assignment.owners().iter().enumerate().take(found.len()) {
        if let Some(owner) = owner.filter(|owner| owner.index() < members) {
            found[node] = (0, Some(owner));
            next.push_back(node);
        }
    }
    let mut ways = vec![0_u32; members];
    while let Some(node) = next.pop_front() {
        let distance = found[node].0;
        if distance > 0 {
            ways.fill(0);
            for other in &neighbours[node] {
                if let (_, Some(owner)) = found[*other]
                    && found[*other].0 < distance
                {
                    ways[owner.index()] += 1;
                }
            }
            let most = (0..members).max_by_key(|at| (ways[*at], mix(node as u64, *at as u64)));
            found[node].1 = most.map(AgentId::at);
        }
        for other in &neighbours[node] {
            if found[*other].0 == usize::MAX {
                found[*other].0 = distance + 1;
                next.push_back(*other);
            }
        }
    }
    found
}

/// The owners of all links, as one member sees the others.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    homes: Vec<AgentId>,
    is_lost: Vec<bool>,
}

impl Owners {
    pub(super) fn new(homes: Vec<AgentId>, members: usize) -> Self {
        Self { homes, is_lost: vec![false; members] }
    }

    pub(super) fn is_member(&self, agent: AgentId) -> bool {
        agent.index() < self.is_lost.len()
    }

    pub(super) fn is_lost(&self, agent: AgentId) -> bool {
        self.is_lost.get(agent.index()).copied().unwrap_or(true)
    }

    /// Tells whether that is news.
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

/// The member with the highest hash among those that `may` keep a link.
fn highest(link: u32, members: usize, may: impl Fn(usize) -> bool) -> AgentId {
    let best = (0..members).filter(|agent| may(*agent));
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
