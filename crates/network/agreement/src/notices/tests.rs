//! Agents over a network that loses, duplicates, delays and reorders messages.

use std::collections::{BTreeMap, BTreeSet};

use base::{AgentId, Bandwidth, IfaceId, RandomStream, Ratio};
use fabric::{Jitter, JitterShape, LinkConfig, Loss, Reorder};
use proptest::prelude::*;
use sharing::FlowName;
use testnet::{Event, Testnet};

use super::*;

type Known = BTreeMap<FlowName, (IfaceId, IfaceId, u32, bool, Option<Bandwidth>)>;

/// Applies a notice as a fabric does.
fn apply(known: &mut Known, notice: &Notice) {
    match *notice {
        Notice::Started { flow, from, to, hash, windowed, most } => {
            known.insert(flow, (from, to, hash, windowed, most));
        }
        Notice::Rate { flow, most } => {
            known.get_mut(&flow).expect("only of flows that were received to start").4 = most;
        }
        Notice::Ended { flow } => {
            assert!(known.remove(&flow).is_some(), "ended without start: {flow:?}");
        }
    }
}

/// A link that delays by up to 4 ms, loses `loss` percent, duplicates and reorders.
fn link(loss: u64) -> LinkConfig {
    let percent = |percent: u64| Ratio::from_parts_per_billion(percent * 10_000_000);
    let shape = JitterShape::Uniform { spread: Span::from_micros(1_450) };
    LinkConfig {
        delay: Span::from_micros(1_500),
        jitter: Some(Jitter { shape, correlation: Ratio::ZERO, keep_order: true }),
        loss: Loss::Bernoulli(percent(loss)),
        reorder: Some(Reorder { probability: percent(30), by: Span::from_millis(1) }),
        duplicate: percent(5),
        ..LinkConfig::default()
    }
}

struct Network {
    agents: Vec<Notices>,
    /// The flows of other agents, as received by each agent's fabric.
    received: Vec<Known>,
    /// The flows that each agent has announced.
    announced_by: Vec<Known>,
    /// Messages with their senders; agents `a < b` have link `a × agents + b`.
    net: Testnet<(usize, Vec<u8>)>,
    messages: [u64; 5],
    random: RandomStream,
    cut: BTreeSet<usize>,
    numbers: u32,
}

impl Network {
    fn new(agents: usize, loss: u64, seed: u64) -> Self {
        Self {
            agents: (0..agents).map(|at| Notices::new(AgentId::at(at), agents)).collect(),
            received: vec![Known::new(); agents],
            announced_by: vec![Known::new(); agents],
            net: Testnet::new(seed, &vec![link(loss); agents * agents]),
            messages: [0; 5],
            random: RandomStream::new(seed, "changes"),
            cut: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    fn send(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.messages[usize::from(bytes[0])] += 1;
        if self.cut.contains(&from) || self.cut.contains(&to) {
            return;
        }
        let link = from.min(to) * self.agents.len() + from.max(to);
        let end = usize::from(from > to);
        self.net.send(link, end, bytes.len() as u32, (from, bytes.to_vec()));
    }

    fn stop_loss(&mut self) {
        for link in 0..self.agents.len().pow(2) {
            self.net.configure(link, |link| link.loss = Loss::None);
        }
    }

    fn settle(&mut self, agent: usize) {
        while let Some(output) = self.agents[agent].poll() {
            match output {
                Output::Send { to: Recipient::One(to), bytes } => {
                    self.send(agent, to.index(), &bytes);
                }
                Output::Send { to: Recipient::All, bytes } => {
                    let others = (0..self.agents.len()).filter(|other| *other != agent);
                    others.for_each(|other| self.send(agent, other, &bytes));
                }
                Output::RemoteNotice { notice, announced } => {
                    assert!(announced <= self.net.now());
                    apply(&mut self.received[agent], &notice);
                }
                Output::Share { .. } => panic!("shares are computed from notices"),
            }
        }
    }

    fn run(&mut self, until: Time) {
        loop {
            let wake = self.agents.iter().filter_map(Notices::next_wake).min();
            let Some(event) = self.net.step(wake, until) else { return };
            let now = self.net.now();
            if let Event::Arrival { link, to, message: (from, bytes), .. } = event {
                let count = self.agents.len();
                let to = [link / count, link % count][to];
                self.agents[to].on_message(now, AgentId::at(from), &bytes).unwrap();
                self.settle(to);
            } else {
                for agent in 0..self.agents.len() {
                    self.agents[agent].on_wake(now);
                    self.settle(agent);
                }
            }
        }
    }

    fn change(&mut self, agent: usize) {
        let mut announced = Vec::new();
        for _ in 0..=self.below(4) {
            let sender = agent as u32;
            let own: Vec<FlowName> = self.announced_by[agent].keys().copied().collect();
            let rate = Bandwidth::from_bits_per_sec(self.below(1_000_000_000));
            let most = (self.below(2) == 0).then_some(rate);
            let which = own.get(self.below(own.len().max(1) as u64) as usize).copied();
            let notice = match (self.below(3), which) {
                (1, Some(flow)) => Notice::Rate { flow, most },
                (2, Some(flow)) => Notice::Ended { flow },
                _ => {
                    self.numbers += 1;
                    let flow = FlowName { sender, number: self.numbers };
                    let ends = [self.below(400) as u32, self.below(400) as u32].map(IfaceId);
                    let (from, to, hash) = (ends[0], ends[1], self.below(1 << 32) as u32);
                    Notice::Started { flow, from, to, hash, windowed: rate.is_positive(), most }
                }
            };
            apply(&mut self.announced_by[agent], &notice);
            announced.push(Announced { notice, path: None });
        }
        self.agents[agent].announce(self.net.now(), &announced);
        self.settle(agent);
    }

    /// Each connected agent has the flows of all other connected agents.
    fn check(&self) {
        for (agent, received) in self.received.iter().enumerate() {
            if self.cut.contains(&agent) {
                continue;
            }
            let others = self.announced_by.iter().enumerate();
            let others = others.filter(|(at, _)| *at != agent && !self.cut.contains(at));
            let expected: Known =
                others.flat_map(|(_, announced_by)| announced_by.clone()).collect();
            assert_eq!(received, &expected, "agent {agent}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_agents_learn_all_flows(
        agents in 2usize..7,
        loss in 0u64..40,
        seed in any::<u64>(),
        changes in prop::collection::vec((0usize..7, 0u64..30), 1..60),
    ) {
        let mut network = Network::new(agents, loss, seed);
        for (agent, pause) in changes {
            network.change(agent % agents);
            network.run(network.net.now() + Span::from_millis(pause));
        }
        network.stop_loss();
        network.run(network.net.now() + Span::from_millis(1_200));
        network.check();
    }

    #[test]
    fn removes_flows_of_lost_agent_and_restores_them(
        agents in 2usize..6,
        seed in any::<u64>(),
        gone in 0usize..6,
        churn in 1u64..12,
    ) {
        let gone = gone % agents;
        let mut network = Network::new(agents, 5, seed);
        let all = |network: &mut Network, act: fn(&mut Notices, Time, AgentId)| {
            for other in (0..agents).filter(|other| *other != gone) {
                let now = network.net.now();
                act(&mut network.agents[other], now, AgentId::at(gone));
                network.settle(other);
                act(&mut network.agents[gone], now, AgentId::at(other));
            }
            network.settle(gone);
        };
        for round in 0..3 * churn {
            network.change(round as usize % agents);
            network.run(network.net.now() + Span::from_millis(5));
        }
        network.cut.insert(gone);
        all(&mut network, Agreement::on_agent_lost);
        (0..churn).for_each(|round| network.change(round as usize % agents));
        network.stop_loss();
        network.run(network.net.now() + Span::from_millis(1_200));
        network.check();
        prop_assert!(network.received[gone].is_empty());
        network.cut.clear();
        all(&mut network, Agreement::on_agent_restored);
        network.run(network.net.now() + Span::from_millis(1_200));
        network.check();
    }

    /// After a cut, each agent sends a digest within its interval, and a late agent delays the
    /// digest, the request and the answer by at most its lateness each.
    #[test]
    fn agrees_after_a_cut_in_time_bounded_by_the_lateness_of_agents(
        agents in 2usize..6,
        seed in any::<u64>(),
        gone in 0usize..6,
        churn in 1u64..20,
        lateness in 1u64..1_000,
    ) {
        let gone = gone % agents;
        let mut network = Network::new(agents, 0, seed);
        (0..churn).for_each(|round| network.change(round as usize % agents));
        network.run(network.net.now() + Span::from_millis(1_200));
        network.check();
        network.cut.insert(gone);
        for round in 0..churn {
            network.change(round as usize % agents);
            network.run(network.net.now() + Span::from_millis(500 / churn));
        }
        network.cut.clear();
        let half = Span::from_micros(lateness * 500);
        for link in 0..agents.pow(2) {
            network.net.configure(link, |link| {
                let shape = JitterShape::Uniform { spread: half };
                link.delay = half;
                link.jitter = Some(Jitter { shape, correlation: Ratio::ZERO, keep_order: true });
            });
        }
        // The reordering adds 1 ms to each.
        let bound = DIGEST_INTERVAL + Span::from_millis(3 * (lateness + 1));
        network.run(network.net.now() + bound);
        network.check();
    }

    #[test]
    fn decodes_or_rejects_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut agent = Notices::new(AgentId(0), 3);
        let _ = agent.on_message(Time::from_nanos(1), AgentId(1), &bytes);
        if let Ok(message) = Message::decode(AgentId(1), &bytes) {
            prop_assert_eq!(Message::decode(AgentId(1), &message.encode()), Ok(message));
        }
    }
}

#[test]
fn sends_no_requests_without_loss() {
    let mut network = Network::new(4, 0, 7);
    for round in 0..100 {
        network.change(round % 4);
        // Longer than the maximum delay, so that no message overtakes another.
        network.run(network.net.now() + Span::from_millis(4));
    }
    network.check();
    let [_, notices, digests, asks, snapshots] = network.messages;
    // A digest may overtake the notice before it.
    assert!(notices == 300 + asks && asks <= 2 && snapshots == 0, "{:?}", network.messages);
    assert!(digests <= 4 * 3 * 2, "{digests}");
}

#[test]
fn sends_snapshot_after_gap_beyond_log() {
    let mut network = Network::new(2, 0, 3);
    network.cut.insert(1);
    (0..MAX_LOGGED_NOTICES).for_each(|_| network.change(0));
    network.cut.clear();
    network.run(network.net.now() + Span::from_secs(1));
    network.check();
    assert!(network.messages[4] > 0);
}

#[test]
fn start_notice_takes_at_most_17_bytes() {
    let mut agent = Notices::new(AgentId(0), 2);
    let flow = FlowName { sender: 0, number: 100 };
    let (from, to) = (IfaceId(100), IfaceId(300));
    let start = Notice::Started { flow, from, to, hash: 7, windowed: true, most: None };
    let path = None;
    agent.announce(Time::from_nanos(1_000_000_000), &[Announced { notice: start, path }]);
    let Some(Output::Send { bytes, .. }) = agent.poll() else { panic!("nothing was sent") };
    // Kind, time (5), sequence number; flags, flow number, from, to (2), hash (4).
    assert_eq!(bytes.len(), 1 + 5 + 1 + 1 + 1 + 1 + 2 + 4);
}
