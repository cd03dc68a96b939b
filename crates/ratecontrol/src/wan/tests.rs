//! Both allocators against each other, and what they refuse.

use base::{Bandwidth, Span};
use proptest::prelude::*;

use super::{Allocator, Central, DemandId, Distributed, Effort, Limit, Link, Network, Share};
use crate::{Error, Result, Settings};

fn mbits(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate)
}

fn link(capacity: Bandwidth, millis: u64) -> Link {
    Link { capacity, delay: Span::from_millis(millis) }
}

/// Three links in a row, of 10, 4 and 8 Mbit/s.
fn row() -> Network {
    Network::try_new(&[link(mbits(10), 5), link(mbits(4), 3), link(mbits(8), 1)]).unwrap()
}

fn both(network: &Network) -> [Box<dyn Allocator>; 2] {
    let settings = Settings::default();
    let distributed = Distributed::try_new(network, settings, Effort::default()).unwrap();
    [Box::new(Central::new(network)), Box::new(distributed)]
}

fn told(shares: &[Share]) -> Vec<(DemandId, u64)> {
    let pair = |share: &Share| (share.demand, share.rate.bits_per_sec() / 1_000_000);
    shares.iter().map(pair).collect()
}

#[test]
fn only_what_has_changed_is_told() {
    for mut wan in both(&row()) {
        let long = wan.add(&[0, 1, 2], mbits(100)).unwrap();
        let short = wan.add(&[0], mbits(100)).unwrap();
        let modest = wan.add(&[2], mbits(1)).unwrap();
        assert_eq!(told(&wan.rates().unwrap()), [(long, 4), (short, 6), (modest, 1)]);
        assert!(wan.rates().unwrap().is_empty());
        let limit = |wan: &dyn Allocator, id| wan.share(id).unwrap().limit;
        assert_eq!(limit(wan.as_ref(), long), Limit::Link(1));
        assert_eq!(limit(wan.as_ref(), short), Limit::Link(0));
        assert_eq!(limit(wan.as_ref(), modest), Limit::Demand);

        wan.change(modest, mbits(2)).unwrap();
        assert_eq!(told(&wan.rates().unwrap()), [(modest, 2)]);
        wan.change(long, mbits(200)).unwrap();
        assert!(wan.rates().unwrap().is_empty(), "it is limited all the same");
        wan.remove(long).unwrap();
        let gone = wan.add(&[1], mbits(1)).unwrap();
        wan.remove(gone).unwrap();
        assert_eq!(told(&wan.rates().unwrap()), [(short, 10)]);
        assert!(wan.share(long).is_none() && wan.share(gone).is_none());
    }
}

#[test]
fn a_link_goes_down_and_returns() {
    for mut wan in both(&row()) {
        let long = wan.add(&[0, 1, 2], mbits(100)).unwrap();
        let short = wan.add(&[0], mbits(100)).unwrap();
        wan.rates().unwrap();
        wan.set_capacity(1, Bandwidth::default()).unwrap();
        assert_eq!(told(&wan.rates().unwrap()), [(long, 0), (short, 10)]);
        assert_eq!(wan.share(long).unwrap().limit, Limit::Down(1));
        assert_eq!(wan.add(&[1], mbits(1)), Err(Error::Down { link: 1 }));
        // It may change meanwhile, and go down and up between two calls.
        wan.change(long, mbits(3)).unwrap();
        wan.set_capacity(1, mbits(5)).unwrap();
        assert_eq!(told(&wan.rates().unwrap()), [(long, 3), (short, 7)]);
        wan.set_capacity(1, Bandwidth::default()).unwrap();
        wan.set_capacity(1, mbits(2)).unwrap();
        assert_eq!(told(&wan.rates().unwrap()), [(long, 2), (short, 8)]);
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    for mut wan in both(&row()) {
        let id = wan.add(&[0], mbits(100)).unwrap();
        wan.rates().unwrap();
        let none = Bandwidth::default();
        assert_eq!(wan.add(&[0], none), Err(Error::Demand { demand: none }));
        assert_eq!(wan.add(&[0, 1, 0], mbits(1)), Err(Error::Loop { link: 0 }));
        assert_eq!(wan.add(&[0, 3], mbits(1)), Err(Error::NoSuchLink { link: 3 }));
        assert_eq!(wan.add(&[], mbits(1)), Err(Error::Path { hops: 0, most: 64 }));
        assert_eq!(wan.add(&[0; 65], mbits(1)), Err(Error::Path { hops: 65, most: 64 }));
        assert_eq!(wan.change(id, none), Err(Error::Demand { demand: none }));
        assert_eq!(wan.set_capacity(3, mbits(1)), Err(Error::NoSuchLink { link: 3 }));
        let capacity = Bandwidth::from_bits_per_sec((1 << 56) + 1);
        assert_eq!(wan.set_capacity(0, capacity), Err(Error::Capacity { capacity }));
        assert!(wan.rates().unwrap().is_empty());
        wan.remove(id).unwrap();
        assert_eq!(wan.remove(id), Err(Error::NoSuchDemand { demand: 0 }));
        assert_eq!(wan.change(id, mbits(1)), Err(Error::NoSuchDemand { demand: 0 }));
    }
    let delay = Span::from_secs(3_601);
    let wrong = Network::try_new(&[Link { capacity: mbits(1), delay }]);
    assert_eq!(wrong, Err(Error::Delay { delay, most: Span::from_secs(3_600) }));
    let capacity = Bandwidth::from_bits_per_sec(u64::MAX);
    let wrong = Network::try_new(&[Link { capacity, delay: Span::default() }]);
    assert_eq!(wrong, Err(Error::Capacity { capacity }));
}

#[test]
fn the_largest_numbers_fit() {
    let most = Bandwidth::from_bits_per_sec(1 << 56);
    let network = Network::try_new(&[link(most, 1), link(most, 1)]).unwrap();
    let mut rates = Vec::new();
    for mut wan in both(&network) {
        for _ in 0..100 {
            wan.add(&[0, 1], Bandwidth::from_bits_per_sec(u64::MAX)).unwrap();
        }
        rates.push(wan.rates().unwrap().iter().map(|share| share.rate).collect::<Vec<_>>());
    }
    let fair = (1_u64 << 56) as f64 / 100.0;
    for rate in rates.concat() {
        assert!((rate.bits_per_sec() as f64 / fair - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_run_that_takes_too_long_can_go_on() -> Result<()> {
    let network = row();
    let effort = Effort { cycles: 1 };
    let mut wan = Distributed::try_new(&network, Settings::default(), effort)?;
    let long = wan.add(&[0, 1, 2], mbits(100))?;
    let short = wan.add(&[0], mbits(100))?;
    assert!(matches!(wan.rates(), Err(Error::Unsettled { cycles: 1..=3, .. })));
    assert!(wan.share(long).is_none());
    let mut calls = 1;
    let found = loop {
        calls += 1;
        match wan.rates() {
            Err(Error::Unsettled { .. }) if calls < 100 => {}
            other => break other?,
        }
    };
    assert_eq!(told(&found), [(long, 4), (short, 6)]);
    let run = wan.last_run();
    assert!(run.cycles > 3 && run.packets >= run.cycles && run.crossings > run.packets);
    assert!(run.converged < run.settled && run.settled > Span::from_millis(18));
    Ok(())
}

#[test]
fn sessions_that_have_left_are_let_go() -> Result<()> {
    let network = Network::try_new(&[link(mbits(10), 0)])?;
    let mut wan = Distributed::try_new(&network, Settings::default(), Effort::default())?;
    let stays = wan.add(&[0], mbits(4))?;
    for _ in 0..11_000 {
        let goes = wan.add(&[0], mbits(100))?;
        wan.rates()?;
        wan.remove(goes)?;
    }
    assert!(wan.rates()?.is_empty());
    assert!(wan.joined < 2_000);
    assert_eq!(wan.share(stays).map(|share| share.rate), Some(mbits(4)));
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Add { path: Vec<u32>, demand: u64 },
    Change { which: usize, demand: u64 },
    Remove { which: usize },
    Capacity { link: usize, capacity: u64 },
    Rates,
}

fn demand() -> impl Strategy<Value = u64> {
    prop_oneof![Just(u64::MAX), 1_000_000..100_000_000_u64, 1_000_000..10_000_000_000_u64]
}

fn step(links: u32) -> impl Strategy<Value = Step> {
    let all: Vec<u32> = (0..links).collect();
    let path = proptest::sample::subsequence(all, 1..=links.min(6) as usize).prop_shuffle();
    let capacity = prop_oneof![1 => Just(0_u64), 4 => 100_000_000..10_000_000_000_u64];
    prop_oneof![
        6 => (path, demand()).prop_map(|(path, demand)| Step::Add { path, demand }),
        2 => (any::<usize>(), demand()).prop_map(|(which, demand)| Step::Change { which, demand }),
        2 => any::<usize>().prop_map(|which| Step::Remove { which }),
        1 => (any::<usize>(), capacity)
            .prop_map(|(link, capacity)| Step::Capacity { link, capacity }),
        2 => Just(Step::Rates),
    ]
}

fn scenario() -> impl Strategy<Value = (Vec<(u64, u64)>, Vec<Step>)> {
    (1..12_u32).prop_flat_map(|links| {
        let wire = (100_000_000..10_000_000_000_u64, 0..10_000_u64);
        let wires = proptest::collection::vec(wire, links as usize);
        (wires, proptest::collection::vec(step(links), 1..60))
    })
}

/// Both find rates, and the same ones.
fn agree(
    wans: &mut [Box<dyn Allocator>; 2],
    present: &[DemandId],
) -> std::result::Result<(), TestCaseError> {
    for wan in wans.iter_mut() {
        if let Err(error) = wan.rates() {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
    for id in present {
        let [central, distributed] = [&wans[0], &wans[1]].map(|wan| wan.share(*id));
        let (central, distributed) = (central.unwrap(), distributed.unwrap());
        let rates = [central, distributed].map(|share| share.rate.bits_per_sec());
        let off = rates[0].abs_diff(rates[1]) as f64;
        prop_assert!(off <= rates[0] as f64 * 1e-6, "demand {id}: {central:?}, {distributed:?}");
        let down = |share: Share| matches!(share.limit, Limit::Down(_));
        prop_assert_eq!(down(central), down(distributed));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn both_give_the_same_rates((wires, steps) in scenario()) {
        let links: Vec<Link> = wires
            .iter()
            .map(|(capacity, micros)| Link {
                capacity: Bandwidth::from_bits_per_sec(*capacity),
                delay: Span::from_micros(*micros),
            })
            .collect();
        let mut wans = both(&Network::try_new(&links).unwrap());
        let mut present: Vec<DemandId> = Vec::new();
        let rate = Bandwidth::from_bits_per_sec;
        for step in steps.into_iter().chain([Step::Rates]) {
            match step {
                Step::Add { path, demand } => {
                    let [one, other] = wans.each_mut().map(|wan| wan.add(&path, rate(demand)));
                    prop_assert_eq!(&one, &other);
                    present.extend(one);
                }
                Step::Change { which, demand } if !present.is_empty() => {
                    let id = present[which % present.len()];
                    for wan in &mut wans {
 wan.change(id, rate(demand)).unwrap();
}
                }
                Step::Remove { which } if !present.is_empty() => {
                    let id = present.remove(which % present.len());
                    for wan in &mut wans {
 wan.remove(id).unwrap();
}
                }
                Step::Capacity { link, capacity } => {
                    let link = (link % links.len()) as u32;
                    for wan in &mut wans {
 wan.set_capacity(link, rate(capacity)).unwrap();
}
                }
                Step::Rates => agree(&mut wans, &present)?,
                Step::Change { .. } | Step::Remove { .. } => {}
            }
        }
    }
}
