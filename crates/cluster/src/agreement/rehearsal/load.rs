//! What agreeing costs, and how soon it is reached: flows that start and end on a lab's network,
//! whose hosts are spread over members.

use base::{Bandwidth, IfaceId, NodeId, RandomStream, Ratio, Span};
use fabric::Rate;
use lab::plan::{Plan, Role};
use lab::routes::Routes;
use sharing::{FlowName, Law, LinkKey, Path, tcp};

use super::{Conditions, Rehearsal};
use crate::agreement::{Traffic, slbn};
use crate::{AgentId, Assignment};

/// A lab's network.
pub struct Scene {
    plan: Plan,
    routes: Routes,
    hosts: Vec<NodeId>,
    capacities: Vec<Option<Bandwidth>>,
}

/// What flows do on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Members, over which the hosts are spread in the order of the lab.
    pub members: usize,
    /// Flows at a time, between hosts drawn at random.
    pub flows: usize,
    /// Flows that start or end each second, half of them each.
    pub changes: u32,
    /// How long it is looked at.
    pub time: Span,
    /// Keys what is drawn.
    pub seed: u64,
    /// Whether shares are looked at, which takes longer than all else.
    pub looks: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Burden {
    /// What all members sent together.
    pub sent: Traffic,
    /// What the member that sent most bytes did.
    pub busiest: Traffic,
    /// Shares that were looked at, at moments of any distance from a change, and those of them
    /// within a hundredth of what they should be.
    pub shares: u64,
    /// See `shares`.
    pub near: u64,
}

/// How long all flows are given to settle before they are looked at.
const SETTLE: Span = Span::from_secs(5);

/// From one look at all shares to the next.
const LOOK: Span = Span::from_micros(41_700);

/// Single changes are given up after so long.
const PATIENCE: Span = Span::from_secs(5);

impl Scene {
    /// The network of a plan as it starts.
    pub fn new(plan: &Plan) -> Self {
        let up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
        let hosts = (0..plan.nodes.len()).filter(|at| plan.nodes[*at].kind == Role::Host);
        let directions = plan.links.iter().flat_map(|link| &link.directions);
        let capacities = directions.map(|direction| match direction.rate {
            Rate::Constant(rate) => Some(rate),
            _ => None,
        });
        Self {
            routes: Routes::compute(plan, &up),
            hosts: hosts.map(NodeId::at).collect(),
            capacities: capacities.collect(),
            plan: plan.clone(),
        }
    }

    /// Each member has hosts that follow each other in the lab.
    fn spread(&self, members: usize) -> Assignment {
        let mut owners = vec![None; self.plan.nodes.len()];
        for (place, host) in self.hosts.iter().enumerate() {
            owners[host.index()] = Some(AgentId::at(place * members / self.hosts.len()));
        }
        Assignment::new(owners)
    }

    fn way(&self, from: NodeId, to: IfaceId, hash: u32) -> Option<(Vec<LinkKey>, Span)> {
        let target = self.plan.ifaces[to.index()].node;
        let (mut at, mut links, mut delay) = (from, Vec::new(), Span::ZERO);
        while at != target {
            let next = self.routes.next(at, to);
            let hop = match next.len() {
                0 => return None,
                1 => next[0],
                several => next[fabric::ecmp(hash, at, several)],
            };
            let iface = &self.plan.ifaces[hop.index()];
            let link = &self.plan.links[iface.link.index()];
            links.push(LinkKey(hop.0));
            delay += link.directions[iface.sends.index()].delay;
            at = link.ends[1 - iface.sends.index()];
        }
        Some((links, delay))
    }

    /// The path between two hosts; `None` where there is none.
    fn path(&self, from: NodeId, to: NodeId, hash: u32) -> Option<Path> {
        let iface = |node: NodeId| self.plan.nodes[node.index()].ifaces.first().copied();
        let (links, there) = self.way(from, iface(to)?, hash)?;
        let (_, back) = self.way(to, iface(from)?, hash)?;
        Some(Path { links, round_trip: tcp::round_trip(there, back) })
    }
}

/// Flows on a scene.
struct Play<'a> {
    scene: &'a Scene,
    assignment: Assignment,
    rehearsal: Rehearsal,
    flows: Vec<FlowName>,
    dice: RandomStream,
}

impl<'a> Play<'a> {
    fn new(scene: &'a Scene, law: Law, conditions: Conditions, load: &Load) -> Self {
        let assignment = scene.spread(load.members);
        let homes = slbn::homes(&scene.plan, &assignment, load.members);
        let (members, seed) = (load.members, load.seed);
        let rehearsal = Rehearsal::new(law, members, &scene.capacities, &homes, conditions, seed);
        let dice = RandomStream::new(load.seed, "flows");
        let mut play = Self { scene, assignment, rehearsal, flows: Vec::new(), dice };
        while play.flows.len() < load.flows {
            play.start();
            // A crowd, but not in one moment.
            play.go(Span::from_micros(200));
        }
        play.go(SETTLE);
        play
    }

    fn go(&mut self, time: Span) {
        let until = self.rehearsal.now() + time;
        self.rehearsal.advance(until);
    }

    fn start(&mut self) {
        let hosts = &self.scene.hosts;
        let draw = |dice: &mut RandomStream| hosts[dice.below(hosts.len() as u64) as usize];
        let (from, to) = (draw(&mut self.dice), draw(&mut self.dice));
        let hash = self.dice.below(1 << 32) as u32;
        let path = if from == to { None } else { self.scene.path(from, to, hash) };
        if let (Some(path), Some(owner)) = (path, self.assignment.owner(from)) {
            self.flows.push(self.rehearsal.start(owner, path, None));
        }
    }

    fn end(&mut self) {
        if !self.flows.is_empty() {
            let at = self.dice.below(self.flows.len() as u64) as usize;
            self.rehearsal.end(self.flows.swap_remove(at));
        }
    }

    /// How many shares there are, and how many of them are within a hundredth of the oracle's.
    fn look(&mut self) -> (u64, u64) {
        let near = |share: Bandwidth, fair: Bandwidth| {
            let (share, fair) = (share.bits_per_sec(), fair.bits_per_sec());
            share.abs_diff(fair) <= fair / 100
        };
        let shares = self.rehearsal.compare();
        shares.fold((0, 0), |(all, good), (_, share, fair)| {
            (all + 1, good + u64::from(near(share, fair)))
        })
    }

    fn traffic(&self, members: usize) -> Vec<Traffic> {
        (0..members).map(|at| self.rehearsal.traffic(AgentId::at(at)).0).collect()
    }
}

/// What agreeing costs under a load.
pub fn burden(scene: &Scene, law: Law, conditions: Conditions, load: &Load) -> Burden {
    let mut play = Play::new(scene, law, conditions, load);
    let before = play.traffic(load.members);
    let mut burden = Burden::default();
    let start = play.rehearsal.now();
    let gap = Span::from_nanos(1_000_000_000 / u64::from(load.changes.max(1)));
    let (mut change, mut look) = (start + gap, start + LOOK);
    let mut starts = false;
    while play.rehearsal.now() < start + load.time {
        let at = if load.changes > 0 { change.min(look) } else { look };
        play.rehearsal.advance(at);
        if at == change && load.changes > 0 {
            if starts {
                play.start();
            } else {
                play.end();
            }
            (starts, change) = (!starts, change + gap);
        }
        if at == look {
            look += LOOK;
            if load.looks {
                let (all, near) = play.look();
                (burden.shares, burden.near) = (burden.shares + all, burden.near + near);
            }
        }
    }
    for (after, before) in play.traffic(load.members).iter().zip(before) {
        let messages = after.messages - before.messages;
        let bytes = after.bytes - before.bytes;
        burden.sent.messages += messages;
        burden.sent.bytes += bytes;
        if bytes > burden.busiest.bytes {
            burden.busiest = Traffic { messages, bytes };
        }
    }
    burden
}

/// How long after each of so many single changes all shares are within a hundredth of what they
/// should be; [`Span::MAX`] for never.
pub fn delays(
    scene: &Scene,
    law: Law,
    conditions: Conditions,
    load: &Load,
    changes: usize,
) -> Vec<Span> {
    let mut play = Play::new(scene, law, conditions, load);
    let delay = |change: usize| {
        if change.is_multiple_of(2) {
            play.end();
        } else {
            play.start();
        }
        let at = play.rehearsal.now();
        loop {
            let (all, near) = play.look();
            let after = play.rehearsal.now().since(at);
            if all == near || after > PATIENCE {
                let found = if all == near { after } else { Span::MAX };
                play.go(Span::from_millis(300));
                return found;
            }
            play.go(Span::from_micros(500));
        }
    };
    (0..changes).map(delay).collect()
}

/// What members have between them on one switch, as a rule: messages take 0.3 to 0.5 ms, and none
/// is lost.
pub const LAN: Conditions = Conditions {
    delay: Span::from_micros(300),
    jitter: Span::from_micros(200),
    loss: Ratio::ZERO,
    twice: Ratio::ZERO,
};

impl Burden {
    /// Messages and their bytes that a member sent each second in the mean.
    pub fn per_member(&self, load: &Load) -> (f64, f64) {
        let over = load.time.as_secs_f64() * load.members as f64;
        (self.sent.messages as f64 / over, self.sent.bytes as f64 / over)
    }

    /// The share of all shares that were near what they should be.
    pub fn nearness(&self) -> f64 {
        self.near as f64 / self.shares.max(1) as f64
    }
}

/// The time that a load is looked at if nothing else is said: two rounds of whatever is repeated
/// without need.
pub const TIME: Span = Span::from_secs(4);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sharing::{Sharing, Window};

    use super::*;

    #[test]
    fn single_changes_are_worked_in_soon_both_ways() {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/splaynet/large.toml");
        let lab = lab::load(&lab, &lab::Overrides::default()).expect("the lab is right");
        let scene = Scene::new(&lab.plans[0]);
        let time = TIME;
        let load = Load { members: 8, flows: 60, changes: 0, time, seed: 1, looks: false };
        for (sharing, most) in [(Sharing::RttMaxMin, 1), (Sharing::Slbn, 50)] {
            let law = Law { sharing, window: Window::Off };
            let found = delays(&scene, law, LAN, &load, 40);
            let soon = found.iter().filter(|delay| **delay <= Span::from_millis(most)).count();
            assert!(soon >= 38, "{sharing:?}: {found:?}");
        }
    }
}
