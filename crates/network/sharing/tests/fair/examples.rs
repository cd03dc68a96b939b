//! Systems solved by hand, and reports of changes.

use base::Span;
use sharing::{Bottleneck, Demand, Problem, Solver, tcp};

use super::oracle::{fill, same};

const NO_CAP: f64 = f64::INFINITY;

fn rates(capacities: &[f64], flows: &[(&[u32], f64, f64)]) -> Vec<f64> {
    let flows = flows
        .iter()
        .map(|(path, weight, cap)| Demand { path: path.to_vec(), weight: *weight, cap: *cap })
        .collect();
    let problem = Problem { capacities: capacities.to_vec(), flows };
    let rates = problem.solve();
    same(&rates, &fill(&problem), 1e-9);
    rates
}

/// Figure 3.5 of the `SplayNet` paper, which has no windows.
#[test]
fn the_worked_example_of_rtt_aware_sharing() {
    // A: 0→2 over 0–1, RTT 100 ms; B: 3→5 over 4–5, 300 ms; C: 0→5 over both, 300 ms.
    //   a + c = 2 Mbit/s, a/c = 300/100, b + c = 4 Mbit/s
    let [near, far] = [100, 300].map(|ms| tcp::weight(Span::from_millis(ms)));
    let (a, b, c) = ((&[0][..], near, NO_CAP), (&[1][..], far, NO_CAP), (&[0, 1][..], far, NO_CAP));
    // To the last bit, in every order of the flows.
    assert_eq!(rates(&[2e6, 4e6], &[a, b]), [2e6, 4e6]);
    assert_eq!(rates(&[2e6, 4e6], &[a, b, c]), [1.5e6, 3.5e6, 0.5e6]);
    let mut solver = Solver::new();
    let links = [2e6, 4e6].map(|capacity| solver.add_link(capacity));
    let keys = [a, b, c].map(|(path, weight, cap)| {
        let path: Vec<_> = path.iter().map(|link| links[*link as usize]).collect();
        let key = solver.add_flow(&path, weight, cap);
        solver.solve();
        key
    });
    same(&keys.map(|key| solver.rate(key)), &[1.5e6, 3.5e6, 0.5e6], 0.0);
    assert_eq!(
        keys.map(|key| solver.bottleneck(key)),
        [0, 1, 0].map(|l| Bottleneck::Link(links[l]))
    );
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
    // The first flow crosses the link twice:  2a + b = 9, a = b
    same(&rates(&[9.0], &[(&[0, 0], 1.0, NO_CAP), (&[0], 1.0, NO_CAP)]), &[3.0, 3.0], 1e-12);
}

#[test]
fn corners() {
    // No capacity, no links, no limits, equal levels on equal links, a cap of zero.
    assert_eq!(rates(&[0.0, 8.0], &[(&[0, 1], 1.0, NO_CAP), (&[1], 1.0, NO_CAP)]), [0.0, 8.0]);
    assert_eq!(rates(&[], &[(&[], 1.0, 5.0), (&[], 2.0, NO_CAP)]), [5.0, Solver::UNLIMITED]);
    assert_eq!(rates(&[f64::INFINITY], &[(&[0], 1.0, 7.0)]), [7.0]);
    let tie = rates(&[6.0, 6.0], &[(&[0, 1], 1.0, 3.0), (&[0], 1.0, NO_CAP), (&[1], 1.0, NO_CAP)]);
    assert_eq!(tie, [3.0, 3.0, 3.0]);
    assert_eq!(rates(&[6.0], &[(&[0], 1.0, 0.0), (&[0], 1.0, NO_CAP)]), [0.0, 6.0]);
    // More flows than bits per second.
    let crowd = vec![(&[0u32][..], 1.0, NO_CAP); 1000];
    same(&rates(&[10.0], &crowd), &[0.01; 1000], 1e-12);
    // NaN counts as 0.
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
    // A cap above the rate has no effect; one below releases the rest.
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
fn carried_bytes_are_the_integral_of_the_load() {
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

#[test]
fn a_load_is_that_of_the_flows_that_are_left() {
    // 10¹⁸ and a slightly larger number differ by less than the rounding error.
    let mut solver = Solver::new();
    let link = solver.add_link(NO_CAP);
    let small = solver.add_flow(&[link], 1.0, 5.3);
    let unlimited = solver.add_flow(&[link], 1.0, NO_CAP);
    solver.solve();
    same(&[solver.load(link)], &[Solver::UNLIMITED], 1e-12);
    solver.remove_flow(unlimited);
    same(&[solver.load(link)], &[5.3], 0.0);
    solver.remove_flow(small);
    same(&[solver.load(link)], &[0.0], 0.0);
}
