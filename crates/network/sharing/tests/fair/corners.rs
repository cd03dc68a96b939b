//! Corner cases of RTT-aware sharing; the book explains each under its name.

use base::{Bytes, Span};
use sharing::{Bottleneck, Demand, FlowKey, LinkKey, Problem, Solver, tcp};

use super::instances::{Kind, draw};
use super::oracle::{fill, same};

const NO_CAP: f64 = f64::INFINITY;
const MILLI: fn(u64) -> Span = Span::from_millis;

/// A solver with links of these capacities.
fn network<const N: usize>(capacities: [f64; N]) -> (Solver, [LinkKey; N]) {
    let mut solver = Solver::new();
    let links = capacities.map(|capacity| solver.add_link(capacity));
    (solver, links)
}

#[track_caller]
fn shares<const N: usize>(solver: &mut Solver, flows: [FlowKey; N], expected: [f64; N]) {
    solver.solve();
    same(&flows.map(|flow| solver.rate(flow)), &expected, 1e-9);
}

#[test]
fn a_round_trip_of_zero() {
    let rtt = tcp::round_trip(MILLI(0), MILLI(0));
    assert_eq!(rtt, tcp::MIN_ROUND_TRIP);
    assert!(tcp::weight(MILLI(0)).is_finite());
    assert!(tcp::window_cap(Bytes::new(65_536), MILLI(0)).is_finite());
    // Without a link, on one node, only the window limits.
    let (mut solver, [link]) = network([10e6]);
    let local = solver.add_flow(&[], tcp::weight(rtt), 1e9);
    let near = solver.add_flow(&[link], tcp::weight(rtt), NO_CAP);
    let far = solver.add_flow(&[link], tcp::weight(MILLI(1)), NO_CAP);
    shares(&mut solver, [local, near, far], [1e9, 10e6 * 1000.0 / 1001.0, 10e6 / 1001.0]);
}

#[test]
fn different_ways_there_and_back() {
    // 10 ms in one direction and 90 ms in the other have the weight of 50 ms in both.
    let (mut solver, [link]) = network([10e6]);
    let uneven = tcp::weight(tcp::round_trip(MILLI(10), MILLI(90)));
    let even = tcp::weight(tcp::round_trip(MILLI(50), MILLI(50)));
    let flows = [uneven, even].map(|weight| solver.add_flow(&[link], weight, NO_CAP));
    shares(&mut solver, flows, [5e6, 5e6]);
}

#[test]
fn an_application_that_sends_less() {
    // One flow sends 2 of its 5, the other gets the rest; its observed rate, plus headroom, does
    // not make the shares oscillate.
    let (mut solver, [link]) = network([10e6]);
    let slow = solver.add_flow(&[link], 1.0, NO_CAP);
    let bulk = solver.add_flow(&[link], 1.0, NO_CAP);
    let (mut known, mut before) = (10e6, NO_CAP);
    for _ in 0..100 {
        solver.set_demand(slow, 1.0, known * 1.25);
        solver.solve();
        let step = (solver.rate(bulk) - before).abs();
        assert!(solver.rate(bulk) >= before || before.is_infinite(), "it swings by {step}");
        before = solver.rate(bulk);
        known = 0.75 * known + 0.25 * solver.rate(slow).min(2e6);
    }
    shares(&mut solver, [slow, bulk], [2.5e6, 7.5e6]);
    assert_eq!(solver.bottleneck(slow), Bottleneck::Cap);
}

#[test]
fn datagrams_beyond_their_share_are_lost() {
    // 8 of 10 offered beside one elastic flow: the excess over the share is lost.
    let (mut solver, [link]) = network([10e6]);
    let offer = 8e6;
    let datagrams = solver.add_flow(&[link], 1.0, offer);
    let elastic = solver.add_flow(&[link], 1.0, NO_CAP);
    shares(&mut solver, [datagrams, elastic], [5e6, 5e6]);
    assert!((offer - solver.rate(datagrams) - 3e6).abs() < 1e-3);
    // Below its share nothing is lost, and the rest is used by others.
    solver.set_demand(datagrams, 1.0, 3e6);
    shares(&mut solver, [datagrams, elastic], [3e6, 7e6]);
}

#[test]
fn acknowledgements() {
    // The reverse direction is another link: two flows in opposite directions get one link each.
    let (mut solver, [up, down]) = network([10e6, 10e6]);
    let [to, from] = [up, down].map(|link| solver.add_flow(&[link], 1.0, NO_CAP));
    shares(&mut solver, [to, from], [10e6, 10e6]);
    // Acknowledgements with a demand of 1/20 of the acknowledged rate, as separate flows.
    let [back, forth] = [down, up].map(|link| solver.add_flow(&[link], 1.0, 0.0));
    for _ in 0..20 {
        solver.set_demand(back, 1.0, solver.rate(to) / 20.0);
        solver.set_demand(forth, 1.0, solver.rate(from) / 20.0);
        solver.solve();
    }
    let (data, answer) = (10e6 / 1.05, 0.5e6 / 1.05);
    shares(&mut solver, [to, from, back, forth], [data, data, answer, answer]);
}

#[test]
fn equal_levels() {
    // Four links that fill at the same time, with flows that cross two of them each: exactly equal,
    // in every repetition, and in any order of the flows.
    let flow = |path: &[u32]| Demand { path: path.to_vec(), weight: 3.0, cap: NO_CAP };
    let mut flows = vec![flow(&[0, 1]), flow(&[1, 2]), flow(&[2, 3]), flow(&[3, 0])];
    for _ in 0..4 {
        let problem = Problem { capacities: vec![7e6; 4], flows: flows.clone() };
        same(&problem.solve(), &[3.5e6; 4], 0.0);
        flows.rotate_left(1);
    }
    for number in 0..200 {
        let problem = draw(Kind::Any, number);
        let bits = |rates: Vec<f64>| rates.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
        assert_eq!(bits(problem.solve()), bits(problem.clone().solve()));
        let mut turned = problem.clone();
        turned.flows.reverse();
        let mut rates = turned.solve();
        rates.reverse();
        same(&rates, &problem.solve(), 1e-12);
    }
}

#[test]
fn a_link_without_capacity() {
    // A link without capacity, at the start and again later: its flows get 0, the other flows get
    // the capacity of their links, and nothing is divided by 0.
    let (mut solver, [broken, whole]) = network([0.0, 10e6]);
    let over = solver.add_flow(&[broken, whole], 1.0, NO_CAP);
    let beside = solver.add_flow(&[whole], 1.0, NO_CAP);
    shares(&mut solver, [over, beside], [0.0, 10e6]);
    assert_eq!(solver.bottleneck(over), Bottleneck::Link(broken));
    solver.set_capacity(broken, 4e6);
    shares(&mut solver, [over, beside], [4e6, 6e6]);
    solver.set_capacity(broken, 0.0);
    shares(&mut solver, [over, beside], [0.0, 10e6]);
}

#[test]
fn churn() {
    // Two islands: a change on one does not touch the other.
    let (mut solver, [a, b]) = network([10e6, 10e6]);
    let here: Vec<FlowKey> = (0..50).map(|_| solver.add_flow(&[a], 1.0, NO_CAP)).collect();
    let there: Vec<FlowKey> = (0..50).map(|_| solver.add_flow(&[b], 1.0, NO_CAP)).collect();
    solver.solve();
    for round in 0..20 {
        let guest = solver.add_flow(&[a], 1.0, NO_CAP);
        let touched = solver.solve();
        assert!(touched.len() == 51 && !touched.iter().any(|flow| there.contains(flow)));
        solver.remove_flow(guest);
        let touched = solver.solve();
        assert!(touched.len() == 50 && touched.iter().all(|flow| here.contains(flow)), "{round}");
    }
    // A change below the tolerance affects no flow.
    let mut coarse = Solver::with_tolerance(0.01);
    let link = coarse.add_link(10e6);
    let flows = [1, 2].map(|_| coarse.add_flow(&[link], 1.0, NO_CAP));
    coarse.solve();
    coarse.set_capacity(link, 10.01e6);
    assert_eq!(coarse.solve(), []);
    shares(&mut coarse, flows, [5e6, 5e6]);
}

#[test]
fn parallel_connections() {
    // Three connections of one pair have three shares, and each of two subflows takes its own path.
    let (mut solver, [left, right]) = network([8e6, 6e6]);
    let three = [1, 2, 3].map(|_| solver.add_flow(&[left], 1.0, NO_CAP));
    let subflows = [left, right].map(|link| solver.add_flow(&[link], 1.0, NO_CAP));
    shares(&mut solver, three, [2e6; 3]);
    shares(&mut solver, subflows, [2e6, 6e6]);
}

#[test]
fn a_short_flow_starts_at_its_share() {
    // No share before the computation, then its share at once: never the whole link.
    let (mut solver, [link]) = network([10e6]);
    let long = solver.add_flow(&[link], 1.0, NO_CAP);
    solver.solve();
    let short = solver.add_flow(&[link], 1.0, NO_CAP);
    same(&[long, short].map(|flow| solver.rate(flow)), &[10e6, 0.0], 0.0);
    shares(&mut solver, [long, short], [5e6, 5e6]);
    solver.remove_flow(short);
    shares(&mut solver, [long], [10e6]);
}

#[test]
fn a_flow_that_loses_packets() {
    // TCP's rate with 1,460 B, 100 ms and 1 % (Mathis et al. 1997, eq. 3).
    let cap = 1460.0 * 8.0 / 0.1 * (1.5f64 / 0.01).sqrt();
    let (mut solver, [link]) = network([10e6]);
    let lossy = solver.add_flow(&[link], 10.0, cap);
    let other = solver.add_flow(&[link], 10.0, NO_CAP);
    shares(&mut solver, [lossy, other], [cap, 10e6 - cap]);
}

#[test]
fn weights_other_than_by_round_trips() {
    // 20 and 80 ms: Reno's 1/RTT, a flatter weight, none, and the opposite.
    for (power, expected) in [(-1.0, 8e6), (-0.5, 10e6 * 2.0 / 3.0), (0.0, 5e6), (1.0, 2e6)] {
        let (mut solver, [link]) = network([10e6]);
        let flows = [0.02_f64, 0.08].map(|rtt| solver.add_flow(&[link], rtt.powf(power), NO_CAP));
        shares(&mut solver, flows, [expected, 10e6 - expected]);
    }
}

#[test]
fn rates_are_floating_point() {
    // One bit per 1,000 s beside a terabit per second.
    let (mut solver, [slow, fast]) = network([1e-3, 1e12]);
    let flows = [&[slow][..], &[slow, fast], &[fast]];
    let flows = flows.map(|path| solver.add_flow(path, 1.0, NO_CAP));
    shares(&mut solver, flows, [5e-4, 5e-4, 1e12]);
    // More flows than bits per second: every flow gets a positive rate.
    let crowd: Vec<Demand> =
        (0..1_000).map(|_| Demand { path: vec![0], weight: 1.0, cap: NO_CAP }).collect();
    let problem = Problem { capacities: vec![10.0], flows: crowd };
    same(&problem.solve(), &[0.01; 1_000], 1e-12);
}

#[test]
fn views_that_differ_for_a_while() {
    // A sender that has not received a new flow yet keeps its old share: the link is overloaded by
    // at most the new flow's initial rate, and only until the notice arrives.
    let (mut knows, [link]) = network([10e6]);
    let old: Vec<FlowKey> = (0..4).map(|_| knows.add_flow(&[link], 1.0, NO_CAP)).collect();
    knows.solve();
    let mut stale = knows.clone();
    let new = knows.add_flow(&[link], 1.0, NO_CAP);
    knows.solve();
    let load: f64 = old.iter().map(|flow| stale.rate(*flow)).sum::<f64>() + knows.rate(new);
    assert!((load - 12e6).abs() < 1e-3, "{load}");
    let current = stale.add_flow(&[link], 1.0, NO_CAP);
    stale.solve();
    for (mine, yours) in old.iter().chain([&new]).zip(old.iter().chain([&current])) {
        assert_eq!(knows.rate(*mine).to_bits(), stale.rate(*yours).to_bits());
    }
}

#[test]
fn the_window_limits_before_the_links_do() {
    // Links of 2 and 4 Mbit/s; RTTs of 100, 300 and 300 ms, without and with windows of 64 KiB,
    // which limit only the second flow: 65,536 · 8 / 0.3 = 1.748 Mbit/s.
    let rtts = [100, 300, 300].map(|ms| tcp::round_trip(MILLI(ms / 2), MILLI(ms / 2)));
    let window = |rtt| tcp::window_cap(Bytes::new(65_536), rtt);
    let paths = [vec![0], vec![1], vec![0, 1]];
    let solve = |cap: &dyn Fn(Span) -> f64| {
        let flows = paths.iter().zip(rtts);
        let flows = flows
            .map(|(path, rtt)| Demand {
                path: path.clone(),
                weight: tcp::weight(rtt),
                cap: cap(rtt),
            })
            .collect();
        let problem = Problem { capacities: vec![2e6, 4e6], flows };
        same(&problem.solve(), &fill(&problem), 1e-9);
        problem.solve()
    };
    same(&solve(&|_| NO_CAP), &[1.5e6, 3.5e6, 0.5e6], 1e-9);
    same(&solve(&window), &[1.5e6, 65_536.0 * 8.0 / 0.3, 0.5e6], 1e-9);
}
