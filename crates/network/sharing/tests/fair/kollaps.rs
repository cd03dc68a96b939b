//! The error of Kollaps' formula (Gouveia et al., `EuroSys` 2020), in which every sender computes
//! the rates of its paths from the reported use of the other senders. The formula has no fixed
//! point.

use sharing::{Demand, Problem};

use super::instances::{Kind, draw};
use super::oracle::{difference, fits, same};

/// Maximum number of computations by the senders, one every 50 ms.
const PERIODS: usize = 1_000;

/// Information of all senders: for each link, its flows and the sum of their weights.
struct Network<'a> {
    problem: &'a Problem,
    links: Vec<(Vec<usize>, f64)>,
}

impl<'a> Network<'a> {
    fn new(problem: &'a Problem) -> Self {
        let on_link = |link: usize| {
            let flows = problem.flows.iter().enumerate();
            let here = flows.filter(|(_, flow)| flow.path.contains(&(link as u32)));
            let here: Vec<usize> = here.map(|(number, _)| number).collect();
            let weights = here.iter().map(|flow| problem.flows[*flow].weight).sum();
            (here, weights)
        };
        Self { problem, links: (0..problem.capacities.len()).map(on_link).collect() }
    }

    /// The rates after another period. `first` selects the flow that a sender uses for the path
    /// that it computes: the flow of the path, or the first in its list.
    fn period(&self, used: &[f64], first: impl Fn(usize) -> usize) -> Vec<f64> {
        let rate = |path: usize| {
            let links = self.problem.flows[path].path.iter();
            let rates = links.map(|link| self.link_rate(used, *link as usize, first(path)));
            let fair = rates.fold(f64::MAX, f64::min);
            // Decreases immediately, increases by a quarter.
            if fair < used[path] { fair } else { 0.75 * used[path] + 0.25 * fair }
        };
        (0..used.len()).map(rate).collect()
    }

    /// A share of one link by weight, and its part of the capacity that others leave unused. A flow
    /// that uses more than its share counts with its share, and as one more user of the rest.
    fn link_rate(&self, used: &[f64], link: usize, own: usize) -> f64 {
        let capacity = self.problem.capacities[link];
        let (flows, weights) = &self.links[link];
        let part = |flow: usize| self.problem.flows[flow].weight / weights;
        let (mut spare, mut hungry) = (capacity * (1.0 - part(own)), part(own));
        for other in flows.iter().copied().filter(|flow| *flow != own) {
            let share = capacity * part(other);
            spare -= used[other].min(share);
            if used[other] > share {
                hungry += part(other);
            }
        }
        capacity * part(own) + spare * part(own) / hungry
    }
}

/// The fixed point, if there is one, when all flows use their rates.
fn settled(problem: &Problem, first: impl Fn(usize) -> usize) -> Option<Vec<f64>> {
    let network = Network::new(problem);
    let mut used = vec![0.0; problem.flows.len()];
    for _ in 0..PERIODS {
        let next = network.period(&used, &first);
        if difference(&used, &next) < 1e-10 {
            return Some(next);
        }
        used = next;
    }
    None
}

#[test]
fn one_pass_of_the_formula_is_not_the_fair_share() {
    let (count, mut errors) = (1_000, Vec::new());
    for number in 0..count {
        let problem = draw(Kind::Greedy, number);
        let formula = settled(&problem, |path| path).expect("it settles");
        fits(&problem, &formula, 1e-6).expect("it overloads nothing");
        let fair = problem.solve();
        let flows = fair.iter().zip(&formula);
        errors.push(flows.map(|(fair, other)| (other / fair - 1.0).abs()).fold(0.0, f64::max));
    }
    errors.sort_by(f64::total_cmp);
    let above = |limit: f64| {
        errors.iter().filter(|error| **error > limit).count() as f64 / count as f64 * 100.0
    };
    let (one, ten, worst) = (above(0.01), above(0.1), errors.last().unwrap() * 100.0);
    let median = errors[count / 2] * 100.0;
    eprintln!(
        "{count} instances; some flow is off by more than 1 %: {one:.1} %, by more than 10 %: \
         {ten:.1} %; median {median:.2} %, worst {worst:.0} %"
    );
    assert!(one > 5.0 && ten > 5.0, "{one} {ten}");
}

#[test]
fn one_sender_with_two_paths_over_a_link() {
    // RTT 20 and 200 ms over 10 Mbit/s:  a + b = 10, a = 10 b
    let flow = |weight| Demand { path: vec![0], weight, cap: f64::INFINITY };
    let problem = Problem { capacities: vec![10.0], flows: vec![flow(50.0), flow(5.0)] };
    let fair = [100.0 / 11.0, 10.0 / 11.0];
    // Equal except for the last bit.
    same(&problem.solve(), &fair, f64::EPSILON);
    same(&settled(&problem, |path| path).unwrap(), &fair, 1e-9);
    // As in its code, the first path of the list is used for the computed one: the link is
    // overloaded by a factor of 1.8 or, in the other order, shared equally.
    let overload = settled(&problem, |_| 0).unwrap();
    let even = settled(&problem, |_| 1).unwrap();
    eprintln!("fair {fair:.2?}; own path first {overload:.2?}, last {even:.2?}");
    same(&overload, &[100.0 / 11.0; 2], 1e-9);
    same(&even, &[5.0; 2], 1e-9);
}
