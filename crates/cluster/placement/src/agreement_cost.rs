//! Messages and delay of the agreement on rates, for flows on a lab's network whose hosts are
//! spread over agents.

use base::{Bandwidth, IfaceId, NodeId, RandomStream, Ratio, Span};
use fabric::Rate;
use lab::plan::{Plan, Role};
use lab::routes::Routes;
use sharing::{FlowName, LinkKey, Path, SharingPolicy, tcp};

use agreement::simulation::{Conditions, Simulation};
use agreement::{Traffic, slbn};
use cluster::{AgentId, Assignment};

/// The network of a lab.
pub struct Scene {
    plan: Plan,
    routes: Routes,
    hosts: Vec<NodeId>,
    capacities: Vec<Option<Bandwidth>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The hosts are spread over the agents in the order of the lab.
    pub agents: usize,
    /// Concurrent flows between random hosts.
    pub flows: usize,
    /// Starts and ends per second, half each.
    pub changes: u32,
    /// Duration of the measurement.
    pub time: Span,
    pub seed: u64,
    /// Whether to compare the shares with the oracle, which dominates the running time.
    pub measures_shares: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Of all agents together.
    pub sent: Traffic,
    /// Of the agent that sent the most bytes.
    pub busiest: Traffic,
    /// Number of shares compared at regular times, and of those within 1 % of the oracle's.
    pub shares: u64,
    pub accurate: u64,
}

/// Time for all flows to settle before the measurement.
const SETTLE_TIME: Span = Span::from_secs(5);

const MEASURE_INTERVAL: Span = Span::from_micros(41_700);

const CHANGE_TIMEOUT: Span = Span::from_secs(5);

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

    /// Assigns consecutive hosts to each agent.
    fn spread(&self, agents: usize) -> Assignment {
        let mut owners = vec![None; self.plan.nodes.len()];
        for (place, host) in self.hosts.iter().enumerate() {
            owners[host.index()] = Some(AgentId::at(place * agents / self.hosts.len()));
        }
        Assignment::new(owners)
    }

    fn route(&self, from: NodeId, to: IfaceId, hash: u32) -> Option<(Vec<LinkKey>, Span)> {
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

    /// The path of a flow; `None` if there is none.
    fn path(&self, from: NodeId, to: NodeId, hash: u32) -> Option<Path> {
        let iface = |node: NodeId| self.plan.nodes[node.index()].ifaces.first().copied();
        let (links, there) = self.route(from, iface(to)?, hash)?;
        let (_, back) = self.route(to, iface(from)?, hash)?;
        Some(Path { links, round_trip: tcp::round_trip(there, back) })
    }
}

struct Scenario<'a> {
    scene: &'a Scene,
    assignment: Assignment,
    simulation: Simulation,
    flows: Vec<FlowName>,
    rng: RandomStream,
}

impl<'a> Scenario<'a> {
    fn new(scene: &'a Scene, law: SharingPolicy, conditions: Conditions, load: &Load) -> Self {
        let assignment = scene.spread(load.agents);
        let links: Vec<_> = scene.plan.links.iter().map(|link| link.ends).collect();
        let homes = slbn::homes(&links, assignment.owners(), load.agents);
        let (agents, seed) = (load.agents, load.seed);
        let simulation = Simulation::new(law, agents, &scene.capacities, &homes, conditions, seed);
        let rng = RandomStream::new(load.seed, "flows");
        let mut scenario = Self { scene, assignment, simulation, flows: Vec::new(), rng };
        while scenario.flows.len() < load.flows {
            scenario.start();
            // Spreads the starts.
            scenario.advance(Span::from_micros(200));
        }
        scenario.advance(SETTLE_TIME);
        scenario
    }

    fn advance(&mut self, time: Span) {
        let until = self.simulation.now() + time;
        self.simulation.advance(until);
    }

    fn start(&mut self) {
        let hosts = &self.scene.hosts;
        let draw = |rng: &mut RandomStream| hosts[rng.below(hosts.len() as u64) as usize];
        let (from, to) = (draw(&mut self.rng), draw(&mut self.rng));
        let hash = self.rng.below(1 << 32) as u32;
        let path = if from == to { None } else { self.scene.path(from, to, hash) };
        if let (Some(path), Some(owner)) = (path, self.assignment.owner(from)) {
            self.flows.push(self.simulation.start(owner, path, None));
        }
    }

    fn end(&mut self) {
        if !self.flows.is_empty() {
            let at = self.rng.below(self.flows.len() as u64) as usize;
            self.simulation.end(self.flows.swap_remove(at));
        }
    }

    /// The number of shares, and of those within 1 % of the oracle's.
    fn measure(&mut self) -> (u64, u64) {
        let accurate = |share: Bandwidth, fair: Bandwidth| {
            let (share, fair) = (share.bits_per_sec(), fair.bits_per_sec());
            share.abs_diff(fair) <= fair / 100
        };
        let shares = self.simulation.compare();
        shares.fold((0, 0), |(all, good), (_, share, fair)| {
            (all + 1, good + u64::from(accurate(share, fair)))
        })
    }

    fn traffic(&self, agents: usize) -> Vec<Traffic> {
        (0..agents).map(|at| self.simulation.traffic(AgentId::at(at)).0).collect()
    }
}

/// The cost of an agreement under a load.
pub fn cost(scene: &Scene, law: SharingPolicy, conditions: Conditions, load: &Load) -> Cost {
    let mut scenario = Scenario::new(scene, law, conditions, load);
    let before = scenario.traffic(load.agents);
    let mut cost = Cost::default();
    let start = scenario.simulation.now();
    let gap = Span::from_nanos(1_000_000_000 / u64::from(load.changes.max(1)));
    let (mut change, mut measure) = (start + gap, start + MEASURE_INTERVAL);
    let mut starts = false;
    while scenario.simulation.now() < start + load.time {
        let at = if load.changes > 0 { change.min(measure) } else { measure };
        scenario.simulation.advance(at);
        if at == change && load.changes > 0 {
            if starts {
                scenario.start();
            } else {
                scenario.end();
            }
            (starts, change) = (!starts, change + gap);
        }
        if at == measure {
            measure += MEASURE_INTERVAL;
            if load.measures_shares {
                let (all, accurate) = scenario.measure();
                (cost.shares, cost.accurate) = (cost.shares + all, cost.accurate + accurate);
            }
        }
    }
    for (after, before) in scenario.traffic(load.agents).iter().zip(before) {
        let messages = after.messages - before.messages;
        let bytes = after.bytes - before.bytes;
        cost.sent.messages += messages;
        cost.sent.bytes += bytes;
        if bytes > cost.busiest.bytes {
            cost.busiest = Traffic { messages, bytes };
        }
    }
    cost
}

/// For each of `changes` single changes: the time until all shares are within 1 % of the oracle's;
/// [`Span::MAX`] for never.
pub fn delays(
    scene: &Scene,
    law: SharingPolicy,
    conditions: Conditions,
    load: &Load,
    changes: usize,
) -> Vec<Span> {
    let mut scenario = Scenario::new(scene, law, conditions, load);
    let delay = |change: usize| {
        if change.is_multiple_of(2) {
            scenario.end();
        } else {
            scenario.start();
        }
        let at = scenario.simulation.now();
        loop {
            let (all, accurate) = scenario.measure();
            let after = scenario.simulation.now().since(at);
            if all == accurate || after > CHANGE_TIMEOUT {
                let found = if all == accurate { after } else { Span::MAX };
                scenario.advance(Span::from_millis(300));
                return found;
            }
            scenario.advance(Span::from_micros(500));
        }
    };
    (0..changes).map(delay).collect()
}

/// Agents on one switch: messages take 0.3 to 0.5 ms, without loss.
pub const LAN: Conditions = Conditions {
    delay: Span::from_micros(300),
    jitter: Span::from_micros(200),
    loss: Ratio::ZERO,
    duplication: Ratio::ZERO,
};

impl Cost {
    /// Mean messages and bytes sent per agent and second.
    pub fn per_agent(&self, load: &Load) -> (f64, f64) {
        let over = load.time.as_secs_f64() * load.agents as f64;
        (self.sent.messages as f64 / over, self.sent.bytes as f64 / over)
    }

    /// The fraction of shares within 1 % of the oracle's.
    pub fn accuracy(&self) -> f64 {
        self.accurate as f64 / self.shares.max(1) as f64
    }
}

/// Default of [`Load::time`]: twice the longest retransmission interval.
pub const DEFAULT_DURATION: Span = Span::from_secs(4);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sharing::{Sharing, Window};

    use super::*;

    #[test]
    fn settles_single_changes_within_bound() {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/splaynet/large.toml");
        let lab = lab::load(&lab, &lab::Overrides::default()).expect("valid lab");
        let scene = Scene::new(&lab.plans[0]);
        let time = DEFAULT_DURATION;
        let load = Load { agents: 8, flows: 60, changes: 0, time, seed: 1, measures_shares: false };
        for (sharing, most) in [(Sharing::RttMaxMin, 1), (Sharing::Slbn, 50)] {
            let law = SharingPolicy { sharing, window: Window::Off };
            let found = delays(&scene, law, LAN, &load, 40);
            let in_time = found.iter().filter(|delay| **delay <= Span::from_millis(most)).count();
            assert!(in_time >= 38, "{sharing:?}: {found:?}");
        }
    }
}
