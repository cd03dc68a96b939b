//! Members that agree on the virtual clock, over a network that delays, loses and repeats their
//! messages: no packets, no fabric, only flows that start, end and ask.
//!
//! It is what both ways of agreeing are tested on against the oracle, and what tells how their
//! messages grow with members and flows that one machine could not host.

pub mod load;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Bandwidth, IfaceId, RandomStream, Ratio, Span, Time};
use fabric::Announced;
use sharing::{FlowName, FlowTable, Law, LinkKey, Notice, Path, Sharing};

use super::{Agreement, Output, To, Traffic, build};
use crate::AgentId;

/// The network between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// How long each message takes at least.
    pub delay: Span,
    /// Up to so much more, drawn for each.
    pub jitter: Span,
    /// How many are lost.
    pub loss: Ratio,
    /// How many come twice.
    pub twice: Ratio,
}

struct Member {
    agreement: Box<dyn Agreement>,
    table: FlowTable,
    /// The number of its next flow.
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

struct Letter {
    to: usize,
    from: AgentId,
    bytes: Arc<[u8]>,
}

/// See the module.
pub struct Rehearsal {
    now: Time,
    law: Law,
    members: Vec<Member>,
    flows: BTreeMap<FlowName, Flow>,
    /// What knows everything at once.
    truth: FlowTable,
    under_way: BTreeMap<(Time, u64), Letter>,
    posted: u64,
    conditions: Conditions,
    dice: RandomStream,
}

impl Rehearsal {
    /// Members under a law, over links of these capacities that `homes` tells the owners of.
    pub fn new(
        law: Law,
        members: usize,
        capacities: &[Option<Bandwidth>],
        homes: &[AgentId],
        conditions: Conditions,
        seed: u64,
    ) -> Self {
        let member = |at| {
            let mut agreement = build(law, AgentId::at(at), members, homes.to_vec(), seed);
            agreement.relink(Time::ZERO, capacities);
            let table = FlowTable::new(law, capacities.iter().copied());
            let (sent, received) = (Traffic::default(), Traffic::default());
            Member { agreement, table, next: 0, lost: false, sent, received }
        };
        let sharing = if law.sharing == Sharing::Slbn { Sharing::MaxMin } else { law.sharing };
        let known = Law { sharing, ..law };
        Self {
            now: Time::ZERO,
            law,
            members: (0..members).map(member).collect(),
            flows: BTreeMap::new(),
            truth: FlowTable::new(known, capacities.iter().copied()),
            under_way: BTreeMap::new(),
            posted: 0,
            conditions,
            dice: RandomStream::new(seed, "rehearsal"),
        }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The network is like this from now on.
    #[cfg(test)]
    pub(crate) fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// A flow of a member starts.
    pub fn start(&mut self, member: AgentId, path: Path, most: Option<Bandwidth>) -> FlowName {
        let own = &mut self.members[member.index()];
        let flow = FlowName { sender: u32::from(member.0), number: own.next };
        own.next += 1;
        self.flows.insert(flow, Flow { path, most });
        self.announce(flow, started(flow, most));
        flow
    }

    /// A flow asks for at most this from now on. Unknown ones ask for nothing.
    pub fn limit(&mut self, flow: FlowName, most: Option<Bandwidth>) {
        let Some(known) = self.flows.get_mut(&flow) else { return };
        known.most = most;
        self.announce(flow, Notice::Rate { flow, most });
    }

    /// A flow ends.
    pub fn end(&mut self, flow: FlowName) {
        if self.flows.contains_key(&flow) {
            self.announce(flow, Notice::Ended { flow });
            self.flows.remove(&flow);
        }
    }

    /// Links have these capacities from now on.
    pub fn relink(&mut self, capacities: &[Option<Bandwidth>]) {
        for (link, capacity) in (0..).map(LinkKey).zip(capacities) {
            self.truth.set_capacity(link, *capacity);
            for member in &mut self.members {
                member.table.set_capacity(link, *capacity);
            }
        }
        for at in 0..self.members.len() {
            self.members[at].agreement.relink(self.now, capacities);
            self.settle(at);
        }
    }

    /// A member loses its network, and the others notice; what it sends counts for nothing.
    pub fn lose(&mut self, agent: AgentId) {
        self.set_lost(agent, true);
    }

    /// It is back, and goes on where it was.
    pub fn regain(&mut self, agent: AgentId) {
        self.set_lost(agent, false);
    }

    fn set_lost(&mut self, agent: AgentId, lost: bool) {
        self.members[agent.index()].lost = lost;
        let of = |flow: &FlowName| flow.sender == u32::from(agent.0);
        for (flow, known) in self.flows.iter().filter(|(flow, _)| of(flow)) {
            let notice =
                if lost { Notice::Ended { flow: *flow } } else { started(*flow, known.most) };
            self.truth.hear(&notice, || known.path.clone());
        }
        for at in 0..self.members.len() {
            let tell = |agreement: &mut dyn Agreement, now, who| {
                if lost { agreement.lose(now, who) } else { agreement.regain(now, who) }
            };
            for other in (0..self.members.len()).filter(|other| *other != at) {
                if at == agent.index() || other == agent.index() {
                    tell(&mut *self.members[at].agreement, self.now, AgentId::at(other));
                }
            }
            self.settle(at);
        }
    }

    /// Goes on up to and including `until`.
    pub fn advance(&mut self, until: Time) {
        loop {
            let letter = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let wake = |member: &Member| member.agreement.next_wake();
            let wake = self.members.iter().filter_map(wake).min();
            let Some(at) = [letter, wake].into_iter().flatten().min() else { break };
            if at > until {
                break;
            }
            self.now = self.now.max(at);
            if letter == Some(at) {
                self.deliver();
                continue;
            }
            for at in 0..self.members.len() {
                let member = &mut self.members[at];
                if member.agreement.next_wake().is_some_and(|wake| wake <= self.now) {
                    member.agreement.on_wake(self.now);
                    self.settle(at);
                }
            }
        }
        self.now = self.now.max(until);
    }

    /// What a flow's own member gives it, and what it should.
    pub fn compare(&mut self) -> impl Iterator<Item = (FlowName, Bandwidth, Bandwidth)> {
        self.truth.solve().for_each(drop);
        for member in &mut self.members {
            member.table.solve().for_each(drop);
        }
        let (members, truth) = (&self.members, &self.truth);
        self.flows.keys().filter_map(|flow| {
            let member = &members[flow.sender as usize];
            Some((*flow, member.table.share(*flow)?, truth.share(*flow)?))
        })
    }

    /// What a flow may send, whether it asks for it or not.
    pub fn allowance(&self, flow: FlowName) -> Option<Bandwidth> {
        self.members.get(flow.sender as usize)?.table.allowance(flow)
    }

    /// What a member has sent and received; a message for all counts once for each that gets it.
    pub fn traffic(&self, member: AgentId) -> (Traffic, Traffic) {
        let member = &self.members[member.index()];
        (member.sent, member.received)
    }

    fn announce(&mut self, flow: FlowName, notice: Notice) {
        let (at, now) = (flow.sender as usize, self.now);
        let Some(known) = self.flows.get(&flow) else { return };
        if !self.members[at].lost {
            self.truth.hear(&notice, || known.path.clone());
        }
        let member = &mut self.members[at];
        member.table.hear(&notice, || known.path.clone());
        let path = matches!(notice, Notice::Started { .. }).then(|| known.path.clone());
        member.agreement.announce(now, &[Announced { notice, path }]);
        self.settle(at);
    }

    fn deliver(&mut self) {
        let Some((_, Letter { to, from, bytes })) = self.under_way.pop_first() else { return };
        let member = &mut self.members[to];
        member.received.count(&bytes);
        let read = member.agreement.on_message(self.now, from, &bytes);
        debug_assert!(read.is_ok(), "members understand each other: {read:?}");
        self.settle(to);
    }

    /// Does what a member wants done.
    fn settle(&mut self, at: usize) {
        while let Some(output) = self.members[at].agreement.poll() {
            match output {
                Output::Send { to: To::One(to), bytes } => self.post(at, to.index(), &bytes.into()),
                Output::Send { to: To::All, bytes } => {
                    let bytes = bytes.into();
                    for to in (0..self.members.len()).filter(|to| *to != at) {
                        self.post(at, to, &bytes);
                    }
                }
                Output::Hear { notice, .. } => {
                    let (Notice::Started { flow, .. }
                    | Notice::Rate { flow, .. }
                    | Notice::Ended { flow }) = notice;
                    let known = self.flows.get(&flow);
                    let path = || known.map_or_else(nowhere, |known| known.path.clone());
                    self.members[at].table.hear(&notice, path);
                }
                Output::Share { flow, share, allowance } => {
                    let or_all = |rate: Option<Bandwidth>| rate.unwrap_or(UNLIMITED);
                    self.members[at].table.assign(flow, or_all(share), or_all(allowance));
                }
            }
        }
    }

    fn post(&mut self, from: usize, to: usize, bytes: &Arc<[u8]>) {
        self.members[from].sent.count(bytes);
        let Conditions { delay, jitter, loss, twice } = self.conditions;
        if self.dice.chance(loss) || self.members[from].lost || self.members[to].lost {
            return;
        }
        for _ in 0..=u8::from(self.dice.chance(twice)) {
            let more = Span::from_nanos(self.dice.below(jitter.as_nanos() + 1));
            self.posted += 1;
            let letter = Letter { to, from: AgentId::at(from), bytes: Arc::clone(bytes) };
            self.under_way.insert((self.now + delay + more, self.posted), letter);
        }
    }

    /// How shares are decided.
    pub fn law(&self) -> Law {
        self.law
    }
}

const UNLIMITED: Bandwidth = Bandwidth::from_bits_per_sec(1_000_000_000_000_000_000);

/// Which hosts a flow joins matters to fabrics alone; here flows are known by their names.
fn started(flow: FlowName, most: Option<Bandwidth>) -> Notice {
    let (from, to) = (IfaceId(flow.sender), IfaceId(flow.number));
    Notice::Started { flow, from, to, hash: flow.number, windowed: true, most }
}

fn nowhere() -> Path {
    Path { links: Vec::new(), round_trip: Span::ZERO }
}
