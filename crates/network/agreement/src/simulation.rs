//! Agents on the virtual clock, over a network that delays, loses and duplicates their messages:
//! without packets and fabric, only with flows that start, end and change their rate.
//!
//! Tests use this to compare both agreements with the oracle;
//! `agreement_cost` counts their messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{AgentId, Bandwidth, IfaceId, RandomStream, Ratio, Span, Time};
use fabric::Announced;
use sharing::{FlowName, FlowTable, LinkKey, Notice, Path, Sharing, SharingPolicy};

use crate::{Agreement, Output, Recipient, Traffic, build};

/// The network between agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// Minimum delay of a message.
    pub delay: Span,
    /// Maximum additional delay.
    pub jitter: Span,
    pub loss: Ratio,
    pub duplication: Ratio,
}

struct Agent {
    agreement: Box<dyn Agreement>,
    table: FlowTable,
    next: u32,
    lost: bool,
    sent: Traffic,
    received: Traffic,
}

#[derive(Clone)]
struct Flow {
    path: Path,
    most: Option<Bandwidth>,
}

struct InTransit {
    to: usize,
    from: AgentId,
    bytes: Arc<[u8]>,
}

pub struct Simulation {
    now: Time,
    law: SharingPolicy,
    agents: Vec<Agent>,
    flows: BTreeMap<FlowName, Flow>,
    /// The oracle, which computes the shares of all flows in one place.
    oracle: FlowTable,
    in_transit: BTreeMap<(Time, u64), InTransit>,
    sent_messages: u64,
    conditions: Conditions,
    rng: RandomStream,
}

impl Simulation {
    /// Agents under a sharing policy, over links with these capacities and owners.
    pub fn new(
        law: SharingPolicy,
        agents: usize,
        capacities: &[Option<Bandwidth>],
        homes: &[AgentId],
        conditions: Conditions,
        seed: u64,
    ) -> Self {
        let agent = |at| {
            let mut agreement = build(law, AgentId::at(at), agents, homes.to_vec(), seed);
            agreement.set_capacities(Time::ZERO, capacities);
            let table = FlowTable::new(law, capacities.iter().copied());
            let (sent, received) = (Traffic::default(), Traffic::default());
            Agent { agreement, table, next: 0, lost: false, sent, received }
        };
        let sharing = if law.sharing == Sharing::Slbn { Sharing::MaxMin } else { law.sharing };
        let known = SharingPolicy { sharing, ..law };
        Self {
            now: Time::ZERO,
            law,
            agents: (0..agents).map(agent).collect(),
            flows: BTreeMap::new(),
            oracle: FlowTable::new(known, capacities.iter().copied()),
            in_transit: BTreeMap::new(),
            sent_messages: 0,
            conditions,
            rng: RandomStream::new(seed, "rehearsal"),
        }
    }

    pub fn now(&self) -> Time {
        self.now
    }

    #[cfg(test)]
    pub(crate) fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    pub fn start(&mut self, agent: AgentId, path: Path, most: Option<Bandwidth>) -> FlowName {
        let own = &mut self.agents[agent.index()];
        let flow = FlowName { sender: u32::from(agent.0), number: own.next };
        own.next += 1;
        self.flows.insert(flow, Flow { path, most });
        self.announce(flow, started(flow, most));
        flow
    }

    /// Changes the requested rate of a flow; unknown flows are ignored.
    pub fn limit(&mut self, flow: FlowName, most: Option<Bandwidth>) {
        let Some(known) = self.flows.get_mut(&flow) else { return };
        known.most = most;
        self.announce(flow, Notice::Rate { flow, most });
    }

    pub fn end(&mut self, flow: FlowName) {
        if self.flows.contains_key(&flow) {
            self.announce(flow, Notice::Ended { flow });
            self.flows.remove(&flow);
        }
    }

    pub fn set_capacities(&mut self, capacities: &[Option<Bandwidth>]) {
        for (link, capacity) in (0..).map(LinkKey).zip(capacities) {
            self.oracle.set_capacity(link, *capacity);
            for agent in &mut self.agents {
                agent.table.set_capacity(link, *capacity);
            }
        }
        for at in 0..self.agents.len() {
            self.agents[at].agreement.set_capacities(self.now, capacities);
            self.settle(at);
        }
    }

    /// Disconnects an agent; the others detect it, and its flows end for them.
    pub fn on_agent_lost(&mut self, agent: AgentId) {
        self.set_lost(agent, true);
    }

    /// Reconnects an agent with its state.
    pub fn on_agent_restored(&mut self, agent: AgentId) {
        self.set_lost(agent, false);
    }

    fn set_lost(&mut self, agent: AgentId, lost: bool) {
        self.agents[agent.index()].lost = lost;
        let of = |flow: &FlowName| flow.sender == u32::from(agent.0);
        for (flow, known) in self.flows.iter().filter(|(flow, _)| of(flow)) {
            let notice =
                if lost { Notice::Ended { flow: *flow } } else { started(*flow, known.most) };
            self.oracle.apply_notice(&notice, || known.path.clone());
        }
        for at in 0..self.agents.len() {
            let tell = |agreement: &mut dyn Agreement, now, who| {
                if lost {
                    agreement.on_agent_lost(now, who);
                } else {
                    agreement.on_agent_restored(now, who);
                }
            };
            for other in (0..self.agents.len()).filter(|other| *other != at) {
                if at == agent.index() || other == agent.index() {
                    tell(&mut *self.agents[at].agreement, self.now, AgentId::at(other));
                }
            }
            self.settle(at);
        }
    }

    /// Advances to `until`, inclusive.
    pub fn advance(&mut self, until: Time) {
        loop {
            let letter = self.in_transit.first_key_value().map(|((at, _), _)| *at);
            let wake = |agent: &Agent| agent.agreement.next_wake();
            let wake = self.agents.iter().filter_map(wake).min();
            let Some(at) = [letter, wake].into_iter().flatten().min() else { break };
            if at > until {
                break;
            }
            self.now = self.now.max(at);
            if letter == Some(at) {
                self.deliver();
                continue;
            }
            for at in 0..self.agents.len() {
                let agent = &mut self.agents[at];
                if agent.agreement.next_wake().is_some_and(|wake| wake <= self.now) {
                    agent.agreement.on_wake(self.now);
                    self.settle(at);
                }
            }
        }
        self.now = self.now.max(until);
    }

    /// For each flow: its name, the share at its agent, and the oracle's share.
    pub fn compare(&mut self) -> impl Iterator<Item = (FlowName, Bandwidth, Bandwidth)> {
        self.oracle.solve().for_each(drop);
        for agent in &mut self.agents {
            agent.table.solve().for_each(drop);
        }
        let (agents, oracle) = (&self.agents, &self.oracle);
        self.flows.keys().filter_map(|flow| {
            let agent = &agents[flow.sender as usize];
            Some((*flow, agent.table.share(*flow)?, oracle.share(*flow)?))
        })
    }

    pub fn allowance(&self, flow: FlowName) -> Option<Bandwidth> {
        self.agents.get(flow.sender as usize)?.table.allowance(flow)
    }

    /// Sent and received messages of an agent; a message to all agents counts once per recipient.
    pub fn traffic(&self, agent: AgentId) -> (Traffic, Traffic) {
        let agent = &self.agents[agent.index()];
        (agent.sent, agent.received)
    }

    fn announce(&mut self, flow: FlowName, notice: Notice) {
        let (at, now) = (flow.sender as usize, self.now);
        let Some(known) = self.flows.get(&flow) else { return };
        if !self.agents[at].lost {
            self.oracle.apply_notice(&notice, || known.path.clone());
        }
        let agent = &mut self.agents[at];
        agent.table.apply_notice(&notice, || known.path.clone());
        let path = matches!(notice, Notice::Started { .. }).then(|| known.path.clone());
        agent.agreement.announce(now, &[Announced { notice, path }]);
        self.settle(at);
    }

    fn deliver(&mut self) {
        let Some((_, InTransit { to, from, bytes })) = self.in_transit.pop_first() else { return };
        let agent = &mut self.agents[to];
        agent.received.count(&bytes);
        let read = agent.agreement.on_message(self.now, from, &bytes);
        debug_assert!(read.is_ok(), "valid message: {read:?}");
        self.settle(to);
    }

    fn settle(&mut self, at: usize) {
        while let Some(output) = self.agents[at].agreement.poll() {
            match output {
                Output::Send { to: Recipient::One(to), bytes } => {
                    self.send(at, to.index(), &bytes.into());
                }
                Output::Send { to: Recipient::All, bytes } => {
                    let bytes = bytes.into();
                    for to in (0..self.agents.len()).filter(|to| *to != at) {
                        self.send(at, to, &bytes);
                    }
                }
                Output::RemoteNotice { notice, .. } => {
                    let (Notice::Started { flow, .. }
                    | Notice::Rate { flow, .. }
                    | Notice::Ended { flow }) = notice;
                    let known = self.flows.get(&flow);
                    let path = || known.map_or_else(empty_path, |known| known.path.clone());
                    self.agents[at].table.apply_notice(&notice, path);
                }
                Output::Share { flow, share, allowance } => {
                    let or_all = |rate: Option<Bandwidth>| rate.unwrap_or(UNLIMITED);
                    self.agents[at].table.assign(flow, or_all(share), or_all(allowance));
                }
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, bytes: &Arc<[u8]>) {
        self.agents[from].sent.count(bytes);
        let Conditions { delay, jitter, loss, duplication } = self.conditions;
        if self.rng.chance(loss) || self.agents[from].lost || self.agents[to].lost {
            return;
        }
        for _ in 0..=u8::from(self.rng.chance(duplication)) {
            let more = Span::from_nanos(self.rng.below(jitter.as_nanos() + 1));
            self.sent_messages += 1;
            let letter = InTransit { to, from: AgentId::at(from), bytes: Arc::clone(bytes) };
            self.in_transit.insert((self.now + delay + more, self.sent_messages), letter);
        }
    }

    pub fn law(&self) -> SharingPolicy {
        self.law
    }
}

const UNLIMITED: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000_000_000_000);

/// Only fabrics need interfaces; here a flow is identified by its name.
fn started(flow: FlowName, most: Option<Bandwidth>) -> Notice {
    let (from, to) = (IfaceId(flow.sender), IfaceId(flow.number));
    Notice::Started { flow, from, to, hash: flow.number, windowed: true, most }
}

fn empty_path() -> Path {
    Path { links: Vec::new(), round_trip: Span::ZERO }
}
