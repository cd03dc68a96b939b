//! Members over networks that lose, repeat, delay and reorder, against the oracle.

use base::{RandomStream, Ratio, Span, Time};
use proptest::prelude::*;
use sharing::{FlowName, Law, LinkKey, Path, Sharing, Window};

use super::*;
use crate::agreement::rehearsal::{Conditions, Rehearsal};

const CALM: Conditions = Conditions {
    delay: Span::from_micros(100),
    jitter: Span::ZERO,
    loss: Ratio::ZERO,
    twice: Ratio::ZERO,
};

fn mbit(rate: u64) -> Bandwidth {
    Bandwidth::from_bits_per_sec(rate * 1_000_000)
}

fn percent(percent: u64) -> Ratio {
    Ratio::from_parts_per_billion(percent * 10_000_000)
}

fn law() -> Law {
    Law { sharing: Sharing::Slbn, window: Window::Auto }
}

fn path(links: &[u32]) -> Path {
    let links = links.iter().map(|link| LinkKey(*link)).collect();
    Path { links, round_trip: Span::from_millis(10) }
}

/// The flow that is worst off, if one is off by more than a thousandth and 16 bit/s.
fn worst(rehearsal: &mut Rehearsal) -> Option<(FlowName, Bandwidth, Bandwidth)> {
    let off = |(_, share, fair): &(FlowName, Bandwidth, Bandwidth)| {
        let (share, fair) = (share.bits_per_sec() as f64, fair.bits_per_sec() as f64);
        (share - fair).abs() / (fair / 1000.0 + 16.0)
    };
    let all: Vec<_> = rehearsal.compare().collect();
    let wrong = all.into_iter().filter(|flow| off(flow) > 1.0);
    wrong.max_by(|a, b| off(a).total_cmp(&off(b)))
}

/// Flows over random paths that come, go and ask.
struct Crowd {
    dice: RandomStream,
    members: u64,
    links: u64,
    flows: Vec<FlowName>,
}

impl Crowd {
    fn capacities(&mut self) -> Vec<Option<Bandwidth>> {
        let dice = &mut self.dice;
        let mut capacity = || match dice.below(10) {
            0 => None,
            1 => Some(Bandwidth::from_bits_per_sec(0)),
            _ => Some(mbit(1 + dice.below(1000))),
        };
        (0..self.links).map(|_| capacity()).collect()
    }

    fn most(&mut self) -> Option<Bandwidth> {
        let some = self.dice.below(3) == 0;
        some.then(|| mbit(self.dice.below(50)))
    }

    fn act(&mut self, rehearsal: &mut Rehearsal) {
        let at = self.dice.below(self.flows.len().max(1) as u64) as usize;
        match (self.dice.below(4), self.flows.get(at).copied()) {
            (0, Some(flow)) => {
                self.flows.swap_remove(at);
                rehearsal.end(flow);
            }
            (1, Some(flow)) => {
                let most = self.most();
                rehearsal.limit(flow, most);
            }
            _ => {
                let hops = 1 + self.dice.below(6);
                let links: Vec<u32> =
                    (0..hops).map(|_| self.dice.below(self.links) as u32).collect();
                let member = AgentId(self.dice.below(self.members) as u16);
                let most = self.most();
                // The oracle lets a flow cross a link as often as its path does.
                let mut once = links.clone();
                once.sort_unstable();
                once.dedup();
                self.flows.push(rehearsal.start(member, path(&once), most));
            }
        }
    }
}

fn crowd(members: u64, links: u64, seed: u64, conditions: Conditions) -> (Rehearsal, Crowd) {
    let dice = RandomStream::new(seed, "crowd");
    let mut crowd = Crowd { dice, members, links, flows: Vec::new() };
    let capacities = crowd.capacities();
    let home = |_| AgentId(crowd.dice.below(members) as u16);
    let homes: Vec<AgentId> = (0..links).map(home).collect();
    let rehearsal = Rehearsal::new(law(), members as usize, &capacities, &homes, conditions, seed);
    (rehearsal, crowd)
}

fn after(rehearsal: &mut Rehearsal, millis: u64) {
    let until = rehearsal.now() + Span::from_millis(millis);
    rehearsal.advance(until);
}

#[test]
fn one_member_alone_shares_fairly_within_milliseconds() {
    let capacities = [Some(mbit(10)), Some(mbit(4)), None];
    let mut all = Rehearsal::new(law(), 1, &capacities, &[AgentId(0); 3], CALM, 1);
    let own = AgentId(0);
    let long = all.start(own, path(&[0, 1, 2]), None);
    let short = all.start(own, path(&[0]), None);
    let free = all.start(own, path(&[2]), None);
    let asks = all.start(own, path(&[1, 2]), Some(mbit(1)));
    after(&mut all, 50);
    let shares: Vec<_> = all.compare().map(|(flow, share, _)| (flow, share)).collect();
    let unlimited = Bandwidth::from_bits_per_sec(1_000_000_000_000_000_000);
    assert_eq!(shares, [(long, mbit(3)), (short, mbit(7)), (free, unlimited), (asks, mbit(1))]);
    // The one that asks for little could have half of its link.
    assert_eq!(all.allowance(asks), Some(mbit(2)));
    all.end(long);
    after(&mut all, 50);
    after(&mut all, 2000);
    assert_eq!(all.allowance(asks), Some(mbit(4)));
    all.limit(asks, None);
    after(&mut all, 50);
    assert_eq!(worst(&mut all), None);
}

#[test]
fn nothing_is_said_while_nothing_changes() {
    let (mut all, mut crowd) = crowd(4, 12, 3, CALM);
    for _ in 0..60 {
        crowd.act(&mut all);
    }
    after(&mut all, 10_000);
    assert_eq!(worst(&mut all), None);
    let before: u64 = (0..4).map(|at| all.traffic(AgentId(at)).0.messages).sum();
    after(&mut all, 20_000);
    let sent: u64 = (0..4).map(|at| all.traffic(AgentId(at)).0.messages).sum::<u64>() - before;
    assert_eq!(sent, 0);
}

#[test]
fn a_member_that_dies_leaves_its_flows_share_and_its_links_to_others() {
    let capacities = vec![Some(mbit(100)); 4];
    let homes = [0, 1, 2, 2].map(AgentId);
    let mut all = Rehearsal::new(law(), 3, &capacities, &homes, CALM, 1);
    for _ in 0..5 {
        all.start(AgentId(0), path(&[0, 1]), None);
        all.start(AgentId(2), path(&[2, 1]), None);
        all.start(AgentId(1), path(&[2, 3]), None);
    }
    after(&mut all, 200);
    assert_eq!(worst(&mut all), None);
    all.lose(AgentId(2));
    after(&mut all, 1500);
    let all_of = |all: &mut Rehearsal, lost: u32| {
        let flows = all.compare().filter(|(flow, ..)| flow.sender != lost);
        flows.map(|(_, share, _)| share.bits_per_sec() / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(all_of(&mut all, 2), [20; 10]);
    all.regain(AgentId(2));
    after(&mut all, 1500);
    assert_eq!(worst(&mut all), None);
    assert_eq!(all_of(&mut all, 7), [10; 15]);
}

#[test]
fn lost_claims_are_made_up_for_within_seconds() {
    let (mut all, mut crowd) = crowd(5, 10, 9, CALM);
    for _ in 0..40 {
        crowd.act(&mut all);
    }
    after(&mut all, 3_000);
    assert_eq!(worst(&mut all), None);
    all.set_conditions(Conditions { loss: percent(100), ..CALM });
    for _ in 0..10 {
        crowd.act(&mut all);
    }
    after(&mut all, 100);
    all.set_conditions(CALM);
    after(&mut all, 3_000);
    assert_eq!(worst(&mut all), None);
}

#[test]
fn who_asks_is_told_even_if_a_claim_on_nothing_was_overtaken() {
    let (now, agent) = (Time::ZERO, AgentId(1));
    let mut links = Links::new(RandomStream::new(1, "links"));
    links.set_capacities(now, &[Some(mbit(10))]);
    let claim = Claim { limited: 1, all: 1, ..Claim::default() };
    for (number, asks, news) in [(1, true, true), (2, false, false), (4, true, true)] {
        links.take(now, 0, (agent, number), Claim { asks, ..claim });
        assert_eq!(links.news(now, 0).contains(&agent), news, "message {number}");
        assert!(links.tell(agent, 0).is_some());
    }
    links.take(now, 0, (agent, 3), Claim::default());
    assert!(links.tell(agent, 0).is_some(), "what is old says nothing");
}

#[test]
fn what_is_no_message_is_refused() {
    let mut own = Slbn::new(AgentId(0), 2, vec![AgentId(0); 4], Window::Off, 1);
    own.relink(Time::ZERO, &[Some(mbit(1)); 4]);
    let from = AgentId(1);
    let head = [3, 1, 0, 0, 0, 0];
    // An entry that ends, one of another kind, claims that say little, a link that there is not.
    for entry in [&[1][..], &[3], &[1, 0, 2, 1], &[1, 0, 0, 0], &[32]] {
        let bytes = [&head, entry].concat();
        assert!(own.on_message(Time::ZERO, from, &bytes).is_err(), "{entry:?}");
    }
    for bytes in [&[][..], &[3], &[1, 1, 0, 0, 0, 0], &head[..5]] {
        assert!(own.on_message(Time::ZERO, from, bytes).is_err(), "{bytes:?}");
    }
    assert!(own.on_message(Time::ZERO, AgentId(2), &head).is_err());
    assert_eq!(own.on_message(Time::ZERO, from, &[&head[..], &[1, 0, 0, 1]].concat()), Ok(()));
}

/// Entries about links that there are.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let known = message::tests::entries().prop_map(|entry| match entry {
        Entry::Claim(link, claim) => Entry::Claim(link % 8, claim),
        Entry::Offer(link, offer) => Entry::Offer(link % 8, offer),
    });
    prop::collection::vec(known, 1..6)
}

proptest! {
    #[test]
    fn no_member_can_do_another_harm(
        messages in prop::collection::vec(
            (1_u16..3, 0_u64..3000, 0_u64..3, message::tests::heads(), entries()),
            1..30,
        ),
    ) {
        let homes = (0..8).map(|link| AgentId(link % 3)).collect();
        let mut own = Slbn::new(AgentId(0), 3, homes, Window::Off, 1);
        own.relink(Time::ZERO, &[Some(mbit(10)); 8]);
        for number in 0..3 {
            let flow = FlowName { sender: 0, number };
            let (from, to) = (base::IfaceId(0), base::IfaceId(1));
            let notice =
                Notice::Started { flow, from, to, hash: 0, windowed: true, most: None };
            let announced = Announced { notice, path: Some(path(&[0, 3, 6])) };
            own.announce(Time::ZERO, &[announced]);
        }
        let mut now = Time::ZERO;
        for (number, (from, wait, forgets, head, entries)) in messages.iter().enumerate() {
            now += Span::from_millis(*wait);
            let numbered = message::Head { number: number as u64 + 1, known: 0, knows: 0, ..*head };
            let head = if *forgets == 0 { *head } else { numbered };
            let bytes = message::Message::encode(head, entries);
            prop_assert_eq!(own.on_message(now, AgentId(*from), &bytes), Ok(()));
            for _ in 0..100 {
                match own.next_wake().filter(|at| *at <= now) {
                    Some(_) => own.on_wake(now),
                    None => break,
                }
                while let Some(output) = own.poll() {
                    if let Output::Share { share, .. } = output {
                        prop_assert!(share.is_some_and(|share| share <= mbit(10)));
                    }
                }
            }
            prop_assert!(own.next_wake().is_none_or(|at| at > now), "it never rests");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn shares_are_max_min_fair_once_it_is_quiet(
        seed: u64,
        members in 1_u64..=8,
        links in 2_u64..20,
        steps in 1_usize..120,
        jitter in prop_oneof![Just(0_u64), 0_u64..20_000],
        faults: bool,
    ) {
        let [loss, twice] = if faults { [3, 5] } else { [0, 0] }.map(percent);
        let rough = Conditions { jitter: Span::from_micros(jitter), loss, twice, ..CALM };
        let (mut all, mut crowd) = crowd(members, links, seed, rough);
        let mut lost = None;
        for _ in 0..steps {
            crowd.act(&mut all);
            after(&mut all, crowd.dice.below(40));
            match (crowd.dice.below(60), lost) {
                (0, None) if faults && members > 1 => {
                    let agent = AgentId(crowd.dice.below(members) as u16);
                    all.lose(agent);
                    lost = Some(agent);
                }
                (1..10, Some(agent)) => {
                    all.regain(agent);
                    lost = None;
                }
                (12, _) => {
                    let capacities = crowd.capacities();
                    all.relink(&capacities);
                }
                _ => {}
            }
        }
        if let Some(agent) = lost {
            all.regain(agent);
        }
        all.set_conditions(Conditions { jitter: Span::from_micros(jitter), ..CALM });
        after(&mut all, 30_000);
        prop_assert_eq!(worst(&mut all), None);
    }
}
