//! Agents over networks that lose, duplicate, delay and reorder messages, compared with the oracle.

use base::{AgentId, RandomStream, Ratio, Span, Time};
use proptest::prelude::*;
use sharing::{FlowName, LinkKey, Path, Sharing, SharingPolicy, Window};

use super::*;
use crate::simulation::{Conditions, Simulation};

const IDEAL: Conditions = Conditions {
    delay: Span::from_micros(100),
    jitter: Span::ZERO,
    loss: Ratio::ZERO,
    duplication: Ratio::ZERO,
};

fn mbit(rate: u64) -> Bandwidth {
    Bandwidth::from_bits_per_sec(rate * 1_000_000)
}

fn percent(percent: u64) -> Ratio {
    Ratio::from_parts_per_billion(percent * 10_000_000)
}

fn law() -> SharingPolicy {
    SharingPolicy { sharing: Sharing::Slbn, window: Window::Auto }
}

fn path(links: &[u32]) -> Path {
    let links = links.iter().map(|link| LinkKey(*link)).collect();
    Path { links, round_trip: Span::from_millis(10) }
}

/// The flow with the largest error above 0.1 % and 16 bit/s.
fn worst_error(simulation: &mut Simulation) -> Option<(FlowName, Bandwidth, Bandwidth)> {
    let off = |(_, share, fair): &(FlowName, Bandwidth, Bandwidth)| {
        let (share, fair) = (share.bits_per_sec() as f64, fair.bits_per_sec() as f64);
        (share - fair).abs() / (fair / 1000.0 + 16.0)
    };
    let all: Vec<_> = simulation.compare().collect();
    let wrong = all.into_iter().filter(|flow| off(flow) > 1.0);
    wrong.max_by(|a, b| off(a).total_cmp(&off(b)))
}

/// Flows over random paths that start, end and change their rate.
struct Population {
    rng: RandomStream,
    agents: u64,
    links: u64,
    flows: Vec<FlowName>,
}

impl Population {
    fn capacities(&mut self) -> Vec<Option<Bandwidth>> {
        let rng = &mut self.rng;
        let mut capacity = || match rng.below(10) {
            0 => None,
            1 => Some(Bandwidth::from_bits_per_sec(0)),
            _ => Some(mbit(1 + rng.below(1000))),
        };
        (0..self.links).map(|_| capacity()).collect()
    }

    fn most(&mut self) -> Option<Bandwidth> {
        let some = self.rng.below(3) == 0;
        some.then(|| mbit(self.rng.below(50)))
    }

    fn act(&mut self, simulation: &mut Simulation) {
        let at = self.rng.below(self.flows.len().max(1) as u64) as usize;
        match (self.rng.below(4), self.flows.get(at).copied()) {
            (0, Some(flow)) => {
                self.flows.swap_remove(at);
                simulation.end(flow);
            }
            (1, Some(flow)) => {
                let most = self.most();
                simulation.limit(flow, most);
            }
            _ => {
                let hops = 1 + self.rng.below(6);
                let links: Vec<u32> =
                    (0..hops).map(|_| self.rng.below(self.links) as u32).collect();
                let agent = AgentId(self.rng.below(self.agents) as u16);
                let most = self.most();
                // The oracle counts a flow once per occurrence of a link in its path.
                let mut once = links.clone();
                once.sort_unstable();
                once.dedup();
                self.flows.push(simulation.start(agent, path(&once), most));
            }
        }
    }
}

fn population(
    agents: u64,
    links: u64,
    seed: u64,
    conditions: Conditions,
) -> (Simulation, Population) {
    let rng = RandomStream::new(seed, "population");
    let mut population = Population { rng, agents, links, flows: Vec::new() };
    let capacities = population.capacities();
    let home = |_| AgentId(population.rng.below(agents) as u16);
    let homes: Vec<AgentId> = (0..links).map(home).collect();
    let simulation = Simulation::new(law(), agents as usize, &capacities, &homes, conditions, seed);
    (simulation, population)
}

fn after(simulation: &mut Simulation, millis: u64) {
    let until = simulation.now() + Span::from_millis(millis);
    simulation.advance(until);
}

#[test]
fn single_agent_reaches_fair_shares_within_50_ms() {
    let capacities = [Some(mbit(10)), Some(mbit(4)), None];
    let mut all = Simulation::new(law(), 1, &capacities, &[AgentId(0); 3], IDEAL, 1);
    let own = AgentId(0);
    let long = all.start(own, path(&[0, 1, 2]), None);
    let short = all.start(own, path(&[0]), None);
    let free = all.start(own, path(&[2]), None);
    let asks = all.start(own, path(&[1, 2]), Some(mbit(1)));
    after(&mut all, 50);
    let shares: Vec<_> = all.compare().map(|(flow, share, _)| (flow, share)).collect();
    let unlimited = Bandwidth::from_bits_per_sec(1_000_000_000_000_000_000);
    assert_eq!(shares, [(long, mbit(3)), (short, mbit(7)), (free, unlimited), (asks, mbit(1))]);
    // Half of its link is available to the flow with the low demand.
    assert_eq!(all.allowance(asks), Some(mbit(2)));
    all.end(long);
    after(&mut all, 50);
    after(&mut all, 2000);
    assert_eq!(all.allowance(asks), Some(mbit(4)));
    all.limit(asks, None);
    after(&mut all, 50);
    assert_eq!(worst_error(&mut all), None);
}

#[test]
fn sends_no_message_without_changes() {
    let (mut all, mut population) = population(4, 12, 3, IDEAL);
    for _ in 0..60 {
        population.act(&mut all);
    }
    after(&mut all, 10_000);
    assert_eq!(worst_error(&mut all), None);
    let before: u64 = (0..4).map(|at| all.traffic(AgentId(at)).0.messages).sum();
    after(&mut all, 20_000);
    let sent: u64 = (0..4).map(|at| all.traffic(AgentId(at)).0.messages).sum::<u64>() - before;
    assert_eq!(sent, 0);
}

#[test]
fn reassigns_shares_and_links_of_lost_agent() {
    let capacities = vec![Some(mbit(100)); 4];
    let homes = [0, 1, 2, 2].map(AgentId);
    let mut all = Simulation::new(law(), 3, &capacities, &homes, IDEAL, 1);
    for _ in 0..5 {
        all.start(AgentId(0), path(&[0, 1]), None);
        all.start(AgentId(2), path(&[2, 1]), None);
        all.start(AgentId(1), path(&[2, 3]), None);
    }
    after(&mut all, 200);
    assert_eq!(worst_error(&mut all), None);
    all.on_agent_lost(AgentId(2));
    after(&mut all, 1500);
    let all_of = |all: &mut Simulation, lost: u32| {
        let flows = all.compare().filter(|(flow, ..)| flow.sender != lost);
        flows.map(|(_, share, _)| share.bits_per_sec() / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(all_of(&mut all, 2), [20; 10]);
    all.on_agent_restored(AgentId(2));
    after(&mut all, 1500);
    assert_eq!(worst_error(&mut all), None);
    assert_eq!(all_of(&mut all, 7), [10; 15]);
}

#[test]
fn recovers_from_lost_claims_within_3_s() {
    let (mut all, mut population) = population(5, 10, 9, IDEAL);
    for _ in 0..40 {
        population.act(&mut all);
    }
    after(&mut all, 3_000);
    assert_eq!(worst_error(&mut all), None);
    all.set_conditions(Conditions { loss: percent(100), ..IDEAL });
    for _ in 0..10 {
        population.act(&mut all);
    }
    after(&mut all, 100);
    all.set_conditions(IDEAL);
    after(&mut all, 3_000);
    assert_eq!(worst_error(&mut all), None);
}

#[test]
fn offers_to_asking_agent_after_reordered_empty_claim() {
    let (now, agent) = (Time::ZERO, AgentId(1));
    let mut links = Links::new(RandomStream::new(1, "links"));
    links.set_capacities(now, &[Some(mbit(10))]);
    let claim = Claim { limited: 1, all: 1, ..Claim::default() };
    for (number, asks, take_updates) in [(1, true, true), (2, false, false), (4, true, true)] {
        links.take(now, 0, (agent, number), Claim { asks, ..claim });
        assert_eq!(links.take_updates(now, 0).contains(&agent), take_updates, "message {number}");
        assert!(links.tell(agent, 0).is_some());
    }
    links.take(now, 0, (agent, 3), Claim::default());
    assert!(links.tell(agent, 0).is_some(), "an older claim has no effect");
}

#[test]
fn rejects_malformed_messages() {
    let mut own = Slbn::new(AgentId(0), 2, vec![AgentId(0); 4], Window::Off, 1);
    own.set_capacities(Time::ZERO, &[Some(mbit(1)); 4]);
    let from = AgentId(1);
    let head = [3, 1, 0, 0, 0, 0];
    // A truncated entry, an unknown kind, contradictory claims, an unknown link.
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

/// Entries for known links.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let known = message::tests::entries().prop_map(|entry| match entry {
        Entry::Claim(link, claim) => Entry::Claim(link % 8, claim),
        Entry::Offer(link, offer) => Entry::Offer(link % 8, offer),
    });
    prop::collection::vec(known, 1..6)
}

proptest! {
    #[test]
    fn any_valid_message_keeps_shares_within_capacity(
        messages in prop::collection::vec(
            (1_u16..3, 0_u64..3000, 0_u64..3, message::tests::heads(), entries()),
            1..30,
        ),
    ) {
        let homes = (0..8).map(|link| AgentId(link % 3)).collect();
        let mut own = Slbn::new(AgentId(0), 3, homes, Window::Off, 1);
        own.set_capacities(Time::ZERO, &[Some(mbit(10)); 8]);
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
            prop_assert!(own.next_wake().is_none_or(|at| at > now), "wakes at every instant");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn shares_are_max_min_fair_when_settled(
        seed: u64,
        agents in 1_u64..=8,
        links in 2_u64..20,
        steps in 1_usize..120,
        jitter in prop_oneof![Just(0_u64), 0_u64..20_000],
        faults: bool,
    ) {
        let [loss, duplication] = if faults { [3, 5] } else { [0, 0] }.map(percent);
        let impaired = Conditions { jitter: Span::from_micros(jitter), loss, duplication, ..IDEAL };
        let (mut all, mut population) = population(agents, links, seed, impaired);
        let mut lost = None;
        for _ in 0..steps {
            population.act(&mut all);
            after(&mut all, population.rng.below(40));
            match (population.rng.below(60), lost) {
                (0, None) if faults && agents > 1 => {
                    let agent = AgentId(population.rng.below(agents) as u16);
                    all.on_agent_lost(agent);
                    lost = Some(agent);
                }
                (1..10, Some(agent)) => {
                    all.on_agent_restored(agent);
                    lost = None;
                }
                (12, _) => {
                    let capacities = population.capacities();
                    all.set_capacities(&capacities);
                }
                _ => {}
            }
        }
        if let Some(agent) = lost {
            all.on_agent_restored(agent);
        }
        all.set_conditions(Conditions { jitter: Span::from_micros(jitter), ..IDEAL });
        after(&mut all, 30_000);
        prop_assert_eq!(worst_error(&mut all), None);
    }
}
