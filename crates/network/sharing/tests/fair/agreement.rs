//! Random instances: the same shares as by definition, and the fairness conditions.

use super::instances::{Kind, draw, draw_large};
use super::oracle::{difference, fill, fits, no_flow_can_gain};

/// Number of instances; more with `NETARIUM_LONG=1`.
#[expect(clippy::disallowed_methods, reason = "how long tests take is up to who runs them")]
pub(super) fn count(ordinary: usize, long: usize) -> usize {
    if std::env::var_os("NETARIUM_LONG").is_some_and(|v| v == "1") { long } else { ordinary }
}

#[test]
fn the_solver_gives_what_progressive_filling_gives() {
    let count = count(3_000, 100_000);
    let mut worst = 0.0_f64;
    for number in 0..count {
        let problem = draw(Kind::Any, number);
        let difference = difference(&problem.solve(), &fill(&problem));
        assert!(difference <= 1e-9, "instance {number}: {difference}\n{problem:?}");
        worst = worst.max(difference);
    }
    eprintln!("{count} instances, relative difference up to {worst:.1e}");
}

#[test]
fn large_networks_too() {
    for number in 0..count(3, 40) {
        for kind in [Kind::Any, Kind::Network, Kind::Greedy] {
            let problem = draw_large(kind, number);
            let difference = difference(&problem.solve(), &fill(&problem));
            assert!(difference <= 1e-9, "{kind:?} {number}: {difference}");
        }
    }
}

#[test]
fn no_link_is_over_its_capacity_and_nobody_gains_without_a_poorer_one_losing() {
    for number in 0..count(3_000, 100_000) {
        let problem = draw(Kind::Any, number);
        let rates = problem.solve();
        fits(&problem, &rates, 1e-9).unwrap();
        no_flow_can_gain(&problem, &rates, 1e-9).unwrap();
    }
}

#[test]
fn the_properties_tell_wrong_shares_from_right_ones() {
    let problem = draw(Kind::Greedy, 1);
    let rates = problem.solve();
    let more: Vec<f64> = rates.iter().map(|rate| rate * 1.000_001).collect();
    let less: Vec<f64> = rates.iter().map(|rate| rate * 0.999_999).collect();
    fits(&problem, &more, 1e-9).unwrap_err();
    no_flow_can_gain(&problem, &less, 1e-9).unwrap_err();
}
