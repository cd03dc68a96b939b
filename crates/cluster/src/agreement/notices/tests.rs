//! Members over a network that loses, repeats, delays and reorders.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bandwidth, IfaceId, RandomStream};
use proptest::prelude::*;
use sharing::FlowName;

use super::*;

type Known = BTreeMap<FlowName, (IfaceId, IfaceId, u32, bool, Option<Bandwidth>)>;

/// What a fabric would know.
fn work_in(known: &mut Known, notice: &Notice) {
    match *notice {
        Notice::Started { flow, from, to, hash, windowed, most } => {
            known.insert(flow, (from, to, hash, windowed, most));
        }
        Notice::Rate { flow, most } => {
            known.get_mut(&flow).expect("only of flows that were heard to start").4 = most;
        }
        Notice::Ended { flow } => {
            assert!(known.remove(&flow).is_some(), "ended without having started: {flow:?}");
        }
    }
}

struct World {
    members: Vec<Notices>,
    /// What each member's fabric has heard.
    heard: Vec<Known>,
    /// What each member has said itself.
    said: Vec<Known>,
    /// What is under way: when it comes, to whom, from whom.
    under_way: BTreeMap<(Time, u64), (usize, usize, Vec<u8>)>,
    sent: u64,
    messages: [u64; 5],
    now: Time,
    random: RandomStream,
    /// In percent.
    loss: u64,
    cut: BTreeSet<usize>,
    numbers: u32,
}

impl World {
    fn new(members: usize, loss: u64, seed: u64) -> Self {
        Self {
            members: (0..members).map(|at| Notices::new(AgentId::at(at), members)).collect(),
            heard: vec![Known::new(); members],
            said: vec![Known::new(); members],
            under_way: BTreeMap::new(),
            sent: 0,
            messages: [0; 5],
            now: Time::ZERO,
            random: RandomStream::new(seed, "network"),
            loss,
            cut: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn dice(&mut self, sides: u64) -> u64 {
        self.random.below(sides)
    }

    fn post(&mut self, from: usize, to: usize, bytes: &[u8]) {
        self.messages[usize::from(bytes[0])] += 1;
        let copies = if self.dice(100) < self.loss { 0 } else { 1 + self.dice(100) / 95 };
        if self.cut.contains(&from) || self.cut.contains(&to) {
            return;
        }
        for _ in 0..copies {
            let delay = Span::from_micros(50 + self.dice(3_000));
            self.sent += 1;
            self.under_way.insert((self.now + delay, self.sent), (to, from, bytes.to_vec()));
        }
    }

    fn settle(&mut self, member: usize) {
        while let Some(output) = self.members[member].poll() {
            match output {
                Output::Send { to: To::One(to), bytes } => self.post(member, to.index(), &bytes),
                Output::Send { to: To::All, bytes } => {
                    let others = (0..self.members.len()).filter(|other| *other != member);
                    others.for_each(|other| self.post(member, other, &bytes));
                }
                Output::Hear { notice, announced } => {
                    assert!(announced <= self.now);
                    work_in(&mut self.heard[member], &notice);
                }
                Output::Share { .. } => panic!("shares are computed from notices"),
            }
        }
    }

    fn run(&mut self, until: Time) {
        loop {
            let wake = self.members.iter().filter_map(Notices::next_wake).min();
            let message = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let due = wake.unwrap_or(Time::MAX).min(message.unwrap_or(Time::MAX));
            if due > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(due);
            if message == Some(due) {
                let (_, (to, from, bytes)) = self.under_way.pop_first().unwrap();
                self.members[to].on_message(self.now, AgentId::at(from), &bytes).unwrap();
                self.settle(to);
            } else {
                for member in 0..self.members.len() {
                    self.members[member].on_wake(self.now);
                    self.settle(member);
                }
            }
        }
    }

    /// A member starts, changes or ends some flows.
    fn change(&mut self, member: usize) {
        let mut announced = Vec::new();
        for _ in 0..=self.dice(4) {
            let sender = member as u32;
            let own: Vec<FlowName> = self.said[member].keys().copied().collect();
            let rate = Bandwidth::from_bits_per_sec(self.dice(1_000_000_000));
            let most = (self.dice(2) == 0).then_some(rate);
            let which = own.get(self.dice(own.len().max(1) as u64) as usize).copied();
            let notice = match (self.dice(3), which) {
                (1, Some(flow)) => Notice::Rate { flow, most },
                (2, Some(flow)) => Notice::Ended { flow },
                _ => {
                    self.numbers += 1;
                    let flow = FlowName { sender, number: self.numbers };
                    let ends = [self.dice(400) as u32, self.dice(400) as u32].map(IfaceId);
                    let (from, to, hash) = (ends[0], ends[1], self.dice(1 << 32) as u32);
                    Notice::Started { flow, from, to, hash, windowed: rate.is_positive(), most }
                }
            };
            work_in(&mut self.said[member], &notice);
            announced.push(Announced { notice, path: None });
        }
        self.members[member].announce(self.now, &announced);
        self.settle(member);
    }

    /// Everybody knows what all members that are not cut off have.
    fn check(&self) {
        for (member, heard) in self.heard.iter().enumerate() {
            if self.cut.contains(&member) {
                continue;
            }
            let others = self.said.iter().enumerate();
            let others = others.filter(|(at, _)| *at != member && !self.cut.contains(at));
            let expected: Known = others.flat_map(|(_, said)| said.clone()).collect();
            assert_eq!(heard, &expected, "member {member}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_members_come_to_know_all_flows(
        members in 2usize..7,
        loss in 0u64..40,
        seed in any::<u64>(),
        changes in prop::collection::vec((0usize..7, 0u64..30), 1..60),
    ) {
        let mut world = World::new(members, loss, seed);
        for (member, pause) in changes {
            world.change(member % members);
            world.run(world.now + Span::from_millis(pause));
        }
        world.loss = 0;
        world.run(world.now + Span::from_millis(1_200));
        world.check();
    }

    #[test]
    fn a_lost_member_is_forgotten_and_known_again_when_it_returns(
        members in 2usize..6,
        seed in any::<u64>(),
        gone in 0usize..6,
        churn in 1u64..12,
    ) {
        let gone = gone % members;
        let mut world = World::new(members, 5, seed);
        let all = |world: &mut World, act: fn(&mut Notices, Time, AgentId)| {
            for other in (0..members).filter(|other| *other != gone) {
                let now = world.now;
                act(&mut world.members[other], now, AgentId::at(gone));
                world.settle(other);
                act(&mut world.members[gone], now, AgentId::at(other));
            }
            world.settle(gone);
        };
        for round in 0..3 * churn {
            world.change(round as usize % members);
            world.run(world.now + Span::from_millis(5));
        }
        world.cut.insert(gone);
        all(&mut world, Agreement::lose);
        (0..churn).for_each(|round| world.change(round as usize % members));
        world.loss = 0;
        world.run(world.now + Span::from_millis(1_200));
        world.check();
        prop_assert!(world.heard[gone].is_empty());
        world.cut.clear();
        all(&mut world, Agreement::regain);
        world.run(world.now + Span::from_millis(1_200));
        world.check();
    }

    #[test]
    fn whatever_comes_is_understood_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut member = Notices::new(AgentId(0), 3);
        let _ = member.on_message(Time::from_nanos(1), AgentId(1), &bytes);
        if let Ok(message) = Message::decode(AgentId(1), &bytes) {
            prop_assert_eq!(Message::decode(AgentId(1), &message.encode()), Ok(message));
        }
    }
}

#[test]
fn without_losses_nothing_is_asked_for() {
    let mut world = World::new(4, 0, 7);
    for round in 0..100 {
        world.change(round % 4);
        // Longer than any message takes, so that none overtakes another.
        world.run(world.now + Span::from_millis(4));
    }
    world.check();
    let [_, notices, digests, asks, snapshots] = world.messages;
    // A digest may overtake the notice before it.
    assert!(notices == 300 + asks && asks <= 2 && snapshots == 0, "{:?}", world.messages);
    assert!(digests <= 4 * 3 * 2, "{digests}");
}

#[test]
fn a_member_that_missed_more_than_the_log_has_gets_everything() {
    let mut world = World::new(2, 0, 3);
    world.cut.insert(1);
    (0..LOG).for_each(|_| world.change(0));
    world.cut.clear();
    world.run(world.now + Span::from_secs(1));
    world.check();
    assert!(world.messages[4] > 0);
}

#[test]
fn a_start_costs_a_few_bytes() {
    let mut member = Notices::new(AgentId(0), 2);
    let flow = FlowName { sender: 0, number: 100 };
    let (from, to) = (IfaceId(100), IfaceId(300));
    let start = Notice::Started { flow, from, to, hash: 7, windowed: true, most: None };
    let path = None;
    member.announce(Time::from_nanos(1_000_000_000), &[Announced { notice: start, path }]);
    let Some(Output::Send { bytes, .. }) = member.poll() else { panic!("nothing was sent") };
    // Kind, time (5), number of the first; flags, number, from, to (2), hash (4).
    assert_eq!(bytes.len(), 1 + 5 + 1 + 1 + 1 + 1 + 2 + 4);
}
