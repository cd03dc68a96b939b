use super::*;
use crate::{Demand, Problem};
use proptest::prelude::*;

const NO_CAP: f64 = f64::INFINITY;

fn rates(capacities: &[f64], flows: &[(&[u32], f64, f64)]) -> Vec<f64> {
    let flows = flows
        .iter()
        .map(|(path, weight, cap)| Demand { path: path.to_vec(), weight: *weight, cap: *cap })
        .collect();
    let problem = Problem { capacities: capacities.to_vec(), flows };
    let rates = problem.solve();
    same(&rates, &reference(&problem), 1e-9);
    rates
}

#[track_caller]
fn same(left: &[f64], right: &[f64], tolerance: f64) {
    assert_eq!(left.len(), right.len());
    for (a, b) in left.iter().zip(right) {
        assert!((a - b).abs() <= tolerance * a.max(*b), "{left:?} {right:?}");
    }
}

/// Progressive filling as it is defined, every link and flow looked at in every round.
fn reference(problem: &Problem) -> Vec<f64> {
    let flows = &problem.flows;
    let crossings = |flow: &Demand, link: usize| {
        flow.path.iter().filter(|l| **l as usize == link).count() as f64
    };
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    while rates.contains(&None) {
        let (mut lowest, mut cause) = (f64::INFINITY, None);
        for (link, capacity) in problem.capacities.iter().enumerate() {
            let (mut left, mut weight) = (*capacity, 0.0);
            for (flow, rate) in flows.iter().zip(&rates) {
                match rate {
                    Some(rate) => left -= rate * crossings(flow, link),
                    None => weight += flow.weight * crossings(flow, link),
                }
            }
            if weight > 0.0 && left.max(0.0) / weight < lowest {
                (lowest, cause) = (left.max(0.0) / weight, Some(link));
            }
        }
        let open = |flow: usize| rates[flow].is_none();
        let capped = (0..flows.len())
            .filter(|f| open(*f))
            .min_by(|a, b| {
                let level = |f: usize| flows[f].cap.min(Solver::UNLIMITED) / flows[f].weight;
                level(*a).total_cmp(&level(*b))
            })
            .unwrap();
        let cap = flows[capped].cap.min(Solver::UNLIMITED);
        if cap / flows[capped].weight <= lowest {
            rates[capped] = Some(cap);
            continue;
        }
        let link = cause.unwrap();
        let hit: Vec<usize> =
            (0..flows.len()).filter(|f| open(*f) && crossings(&flows[*f], link) > 0.0).collect();
        for flow in hit {
            rates[flow] = Some(flows[flow].weight * lowest);
        }
    }
    rates.into_iter().map(Option::unwrap).collect()
}

#[test]
fn the_rtt_aware_example() {
    // A: 0→2 over 0–1, RTT 100 ms; B: 3→5 over 4–5, 300 ms; C: 0→5 over both, 300 ms (Mbit/s).
    //   a + c = 2, a/c = 300/100, b + c = 4
    let both = rates(
        &[2.0, 4.0],
        &[(&[0], 10.0, NO_CAP), (&[1], 10.0 / 3.0, NO_CAP), (&[0, 1], 10.0 / 3.0, NO_CAP)],
    );
    same(&both, &[1.5, 3.5, 0.5], 1e-12);
}

#[test]
fn hand_solved_systems() {
    // One long flow over three links against one short flow on each, capacities 1, 2, 3:
    //   l + s1 = 1, l = s1;  l + s2 = 2;  l + s3 = 3
    let tandem = rates(
        &[1.0, 2.0, 3.0],
        &[(&[0, 1, 2], 1.0, NO_CAP), (&[0], 1.0, NO_CAP), (&[1], 1.0, NO_CAP), (&[2], 1.0, NO_CAP)],
    );
    same(&tandem, &[0.5, 0.5, 1.5, 2.5], 1e-12);
    // Weights 1, 2 and 5 on 16, the last capped at 4:  c = 4, a + b = 12, b = 2a
    let capped = rates(&[16.0], &[(&[0], 1.0, NO_CAP), (&[0], 2.0, NO_CAP), (&[0], 5.0, 4.0)]);
    same(&capped, &[4.0, 8.0, 4.0], 1e-12);
    // Twice over the link:  2a + b = 9, a = b
    same(&rates(&[9.0], &[(&[0, 0], 1.0, NO_CAP), (&[0], 1.0, NO_CAP)]), &[3.0, 3.0], 1e-12);
}

#[test]
fn corners() {
    // No capacity, no links, nothing that limits, equal levels on equal links, a cap of nothing.
    assert_eq!(rates(&[0.0, 8.0], &[(&[0, 1], 1.0, NO_CAP), (&[1], 1.0, NO_CAP)]), [0.0, 8.0]);
    assert_eq!(rates(&[], &[(&[], 1.0, 5.0), (&[], 2.0, NO_CAP)]), [5.0, Solver::UNLIMITED]);
    assert_eq!(rates(&[f64::INFINITY], &[(&[0], 1.0, 7.0)]), [7.0]);
    let tie = rates(&[6.0, 6.0], &[(&[0, 1], 1.0, 3.0), (&[0], 1.0, NO_CAP), (&[1], 1.0, NO_CAP)]);
    assert_eq!(tie, [3.0, 3.0, 3.0]);
    assert_eq!(rates(&[6.0], &[(&[0], 1.0, 0.0), (&[0], 1.0, NO_CAP)]), [0.0, 6.0]);
    // More flows than bits per second.
    let crowd = vec![(&[0u32][..], 1.0, NO_CAP); 1000];
    same(&rates(&[10.0], &crowd), &[0.01; 1000], 1e-12);
    // What is no number counts as nothing.
    assert_eq!(
        Problem {
            capacities: vec![f64::NAN, 5.0],
            flows: vec![
                Demand { path: vec![0], weight: 1.0, cap: NO_CAP },
                Demand { path: vec![1], weight: f64::NAN, cap: NO_CAP },
                Demand { path: vec![1], weight: 1.0, cap: f64::NAN },
            ],
        }
        .solve(),
        [0.0, 5.0, 0.0]
    );
}

#[test]
fn one_sender_with_two_paths_over_a_link_does_not_overload_it() {
    // RTT 20 and 200 ms over 10 Mbit/s:  a + b = 10, a = 10 b
    let both = rates(&[10.0], &[(&[0], 50.0, NO_CAP), (&[0], 5.0, NO_CAP)]);
    same(&both, &[100.0 / 11.0, 10.0 / 11.0], 1e-12);
}

#[test]
fn a_change_is_told_to_those_whom_it_reaches() {
    let mut solver = Solver::new();
    let links = [10.0, 10.0].map(|c| solver.add_link(c));
    let a = solver.add_flow(&links[..1], 1.0, NO_CAP);
    let b = solver.add_flow(&links[1..], 1.0, NO_CAP);
    assert_eq!(solver.solve(), [a, b]);
    assert_eq!(solver.solve(), []);
    let c = solver.add_flow(&links[1..], 1.0, NO_CAP);
    assert_eq!(solver.solve(), [c, b]);
    same(&[a, b, c].map(|f| solver.rate(f)), &[10.0, 5.0, 5.0], 1e-12);
    assert_eq!(solver.bottleneck(c), Bottleneck::Link(links[1]));
    // A cap above the rate changes nothing; one below gives the rest away.
    solver.set_demand(c, 1.0, 6.0);
    assert_eq!(solver.solve(), []);
    solver.set_demand(c, 1.0, 2.0);
    assert_eq!(solver.solve(), [c, b]);
    assert_eq!(solver.bottleneck(c), Bottleneck::Cap);
    solver.remove_flow(b);
    assert_eq!(solver.solve(), []);
    assert_eq!((solver.load(links[1]), solver.is_bottleneck(links[1])), (2.0, false));
    solver.set_capacity(links[1], 0.0);
    assert_eq!(solver.solve(), [c]);
    solver.set_capacity(links[1], 10.0);
    solver.solve();
    assert_eq!((solver.rate(c), solver.len()), (2.0, 2));
}

#[test]
fn what_a_link_carried_is_the_integral_of_its_load() {
    let mut solver = Solver::new();
    let link = solver.add_link(10.0);
    let a = solver.add_flow(&[link], 1.0, 4.0);
    solver.solve();
    solver.advance(2.0);
    solver.add_flow(&[link], 1.0, NO_CAP);
    solver.solve();
    assert_eq!(solver.limited_by(link).count(), 1);
    solver.advance(3.0);
    solver.remove_flow(a);
    solver.set_capacity(link, 1.0);
    solver.solve();
    solver.advance(5.0);
    // 4 bit/s for 2 s, 10 for 1 s, 1 for 2 s.
    same(&[solver.carried(link)], &[20.0], 1e-12);
}

/// One change of a network with twelve links.
#[derive(Clone, Debug)]
enum Change {
    Add(Demand),
    Remove(usize),
    Demand(usize, f64, f64),
    Capacity(usize, f64),
}

fn magnitude() -> impl Strategy<Value = f64> {
    prop_oneof![
        1 => Just(0.0),
        4 => (1..20u32).prop_map(f64::from),
        4 => (0.0..9.0).prop_map(|exponent| 10f64.powf(exponent)),
    ]
}

fn cap() -> impl Strategy<Value = f64> {
    prop_oneof![2 => Just(NO_CAP), 1 => magnitude()]
}

fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![2 => Just(1.0), 1 => (1..10u32).prop_map(f64::from), 1 => 0.001..1000.0]
}

fn demand() -> impl Strategy<Value = Demand> {
    (prop::collection::vec(0..12u32, 0..5), weight(), cap())
        .prop_map(|(path, weight, cap)| Demand { path, weight, cap })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => demand().prop_map(Change::Add),
        2 => any::<usize>().prop_map(Change::Remove),
        1 => (any::<usize>(), weight(), cap()).prop_map(|(f, w, c)| Change::Demand(f, w, c)),
        1 => (0..12usize, magnitude()).prop_map(|(l, c)| Change::Capacity(l, c)),
    ]
}

/// Feasible, and every flow is at its cap or crosses a full link where no level is higher.
#[track_caller]
fn check(solver: &Solver, keys: &[FlowKey], problem: &Problem) {
    let tolerance = 1e-6;
    let mut loads = vec![0.0; problem.capacities.len()];
    let mut peaks = vec![0.0f64; problem.capacities.len()];
    for (key, flow) in keys.iter().zip(&problem.flows) {
        let rate = solver.rate(*key);
        assert!(rate >= 0.0 && rate <= flow.cap);
        for link in &flow.path {
            loads[*link as usize] += rate;
            peaks[*link as usize] = peaks[*link as usize].max(rate / flow.weight);
        }
    }
    for (load, capacity) in loads.iter().zip(&problem.capacities) {
        assert!(*load <= capacity * (1.0 + tolerance), "{load} {capacity}");
    }
    for (key, flow) in keys.iter().zip(&problem.flows) {
        let rate = solver.rate(*key);
        let at_cap = rate >= flow.cap.min(Solver::UNLIMITED) * (1.0 - tolerance);
        let bottlenecked = flow.path.iter().any(|link| {
            let link = *link as usize;
            let full = loads[link] >= problem.capacities[link] * (1.0 - tolerance);
            full && rate / flow.weight >= peaks[link] * (1.0 - tolerance)
        });
        assert!(at_cap || bottlenecked, "{rate} of {flow:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn following_changes_gives_what_solving_anew_gives(
        capacities in prop::collection::vec(magnitude(), 12),
        changes in prop::collection::vec(change(), 1..60),
        every in 1..4usize,
    ) {
        let mut problem = Problem { capacities, flows: Vec::new() };
        let mut solver = Solver::new();
        let links: Vec<_> = problem.capacities.iter().map(|c| solver.add_link(*c)).collect();
        let mut keys: Vec<FlowKey> = Vec::new();
        let mut known: Vec<f64> = Vec::new();
        let mut limits = vec![false; links.len()];
        for (step, change) in changes.into_iter().enumerate() {
            match change {
                Change::Add(demand) => {
                    let path: Vec<_> = demand.path.iter().map(|l| links[*l as usize]).collect();
                    keys.push(solver.add_flow(&path, demand.weight, demand.cap));
                    known.push(0.0);
                    problem.flows.push(demand);
                }
                Change::Remove(at) if !keys.is_empty() => {
                    let at = at % keys.len();
                    solver.remove_flow(keys.swap_remove(at));
                    known.swap_remove(at);
                    problem.flows.swap_remove(at);
                }
                Change::Demand(at, weight, cap) if !keys.is_empty() => {
                    let at = at % keys.len();
                    solver.set_demand(keys[at], weight, cap);
                    problem.flows[at].weight = weight;
                    problem.flows[at].cap = cap;
                }
                Change::Capacity(link, capacity) => {
                    solver.set_capacity(links[link], capacity);
                    problem.capacities[link] = capacity;
                }
                _ => {}
            }
            if step % every != 0 {
                continue;
            }
            let changed = solver.solve().to_vec();
            for (key, known) in keys.iter().zip(&mut known) {
                let rate = solver.rate(*key);
                prop_assert!(changed.contains(key) || rate.to_bits() == known.to_bits());
                *known = rate;
            }
            let turned: Vec<LinkKey> = solver.turned().collect();
            for (link, limited) in links.iter().zip(&mut limits) {
                let now = solver.is_bottleneck(*link);
                prop_assert_eq!(now, solver.limited_by(*link).len() > 0);
                prop_assert!(turned.contains(link) || now == *limited);
                *limited = now;
            }
            check(&solver, &keys, &problem);
            let expected = reference(&problem);
            for (rate, expected) in known.iter().zip(&expected) {
                let scale = rate.max(*expected).max(1e-6);
                prop_assert!((rate - expected).abs() <= 1e-5 * scale, "{known:?} {expected:?}");
            }
        }
    }
}
