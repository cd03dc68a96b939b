//! Applying changes, one by one or several at once, gives the same result as solving from scratch.

use base::RandomStream;
use sharing::{Demand, FlowKey, LinkKey, Problem, Solver};

use super::agreement::count;
use super::instances::{Kind, Sampler};
use super::oracle::{difference, fill, fits, no_flow_can_gain};

/// A solver that is updated as a problem changes.
struct Followed {
    solver: Solver,
    links: Vec<LinkKey>,
    keys: Vec<FlowKey>,
    problem: Problem,
    /// The last reported rate of each flow, and whether each link was a bottleneck.
    known: Vec<f64>,
    limited: Vec<bool>,
}

impl Followed {
    fn new(rng: &mut Sampler, links: u64) -> Self {
        let capacities: Vec<f64> = (0..links).map(|_| rng.capacity(Kind::Any, false)).collect();
        let mut solver = Solver::new();
        let links: Vec<LinkKey> = capacities.iter().map(|c| solver.add_link(*c)).collect();
        let problem = Problem { capacities, flows: Vec::new() };
        let limited = vec![false; links.len()];
        Self { solver, links, keys: Vec::new(), problem, known: Vec::new(), limited }
    }

    /// A flow starts, ends or changes its demand, or a link changes.
    fn change(&mut self, rng: &mut Sampler) {
        let whole = rng.one_in(2);
        let at = rng.between(0, self.keys.len() as u64) as usize;
        match rng.between(0, 6) {
            0 | 1 if at < self.keys.len() => {
                self.solver.remove_flow(self.keys.swap_remove(at));
                self.problem.flows.swap_remove(at);
                self.known.swap_remove(at);
            }
            2 if at < self.keys.len() => {
                let flow = &mut self.problem.flows[at];
                (flow.weight, flow.cap) = (rng.weight(whole), rng.cap(Kind::Any, whole));
                self.solver.set_demand(self.keys[at], flow.weight, flow.cap);
            }
            3 => {
                let link = rng.between(0, self.links.len() as u64 - 1) as usize;
                let capacity = rng.capacity(Kind::Any, whole);
                self.problem.capacities[link] = capacity;
                self.solver.set_capacity(self.links[link], capacity);
            }
            _ => self.start(rng, whole),
        }
    }

    fn start(&mut self, rng: &mut Sampler, whole: bool) {
        let flow = Demand {
            path: rng.path(Kind::Any, self.links.len() as u64),
            weight: rng.weight(whole),
            cap: rng.cap(Kind::Any, whole),
        };
        let path: Vec<_> = flow.path.iter().map(|l| self.links[*l as usize]).collect();
        self.keys.push(self.solver.add_flow(&path, flow.weight, flow.cap));
        self.problem.flows.push(flow);
        self.known.push(0.0);
    }

    /// The current rates; checks that each change was reported.
    fn solve(&mut self) -> Vec<f64> {
        let changed = self.solver.solve().to_vec();
        for (key, known) in self.keys.iter().zip(&mut self.known) {
            let rate = self.solver.rate(*key);
            assert!(changed.contains(key) || rate.to_bits() == known.to_bits(), "{key:?}");
            *known = rate;
        }
        let turned: Vec<LinkKey> = self.solver.turned().collect();
        for (link, limited) in self.links.iter().zip(&mut self.limited) {
            let now = self.solver.is_bottleneck(*link);
            assert_eq!(now, self.solver.limited_by(*link).len() > 0);
            assert!(turned.contains(link) || now == *limited, "{link:?}");
            *limited = now;
        }
        self.known.clone()
    }
}

#[test]
fn along_random_changes_the_shares_are_those_of_a_fresh_start() {
    let sequences = count(150, 5_000);
    let (mut worst, mut steps) = (0.0_f64, 0);
    for number in 0..sequences {
        let mut rng = Sampler(RandomStream::new(number as u64, "changes"));
        let mut followed = Followed::new(&mut rng, 12);
        for _ in 0..rng.between(1, 40) {
            for _ in 0..rng.between(1, 3) {
                followed.change(&mut rng);
            }
            let rates = followed.solve();
            let problem = &followed.problem;
            let found = difference(&rates, &problem.solve());
            assert!(found <= TOLERANCE, "sequence {number}: {found}\n{problem:?}");
            worst = worst.max(found);
            steps += 1;
            fits(problem, &rates, TOLERANCE).unwrap();
            no_flow_can_gain(problem, &rates, TOLERANCE).unwrap();
        }
        let rates = followed.solve();
        assert!(difference(&rates, &fill(&followed.problem)) <= TOLERANCE, "sequence {number}");
    }
    eprintln!("{sequences} sequences, {steps} steps, relative difference up to {worst:.1e}");
}

/// A network after ten changes, each of which affects either few or most of the flows.
fn large(number: usize) -> Followed {
    let mut rng = Sampler(RandomStream::new(number as u64, "large changes"));
    let links = rng.between(5, 100);
    let mut followed = Followed::new(&mut rng, links);
    for _ in 0..rng.between(450, 700) {
        let whole = rng.one_in(2);
        followed.start(&mut rng, whole);
    }
    followed.solve();
    for _ in 0..10 {
        followed.change(&mut rng);
        let rates = followed.solve();
        let found = difference(&rates, &followed.problem.solve());
        assert!(found <= TOLERANCE, "sequence {number}: {found}");
    }
    followed
}

#[test]
fn large_networks_follow_changes_too() {
    for number in 0..count(6, 60) {
        let mut followed = large(number);
        let rates = followed.solve();
        assert!(difference(&rates, &fill(&followed.problem)) <= TOLERANCE, "sequence {number}");
        for (link, key) in followed.links.iter().enumerate() {
            let flows = followed.keys.iter().zip(&followed.problem.flows);
            let carried = flows.map(|(key, flow)| {
                let crossings = flow.path.iter().filter(|l| **l as usize == link).count();
                followed.solver.rate(*key) * crossings as f64
            });
            let (load, sum) = (followed.solver.load(*key), carried.sum::<f64>());
            assert!((load - sum).abs() <= sum * TOLERANCE, "{number}: {load} {sum}");
        }
    }
}

#[test]
fn the_same_calls_give_the_same_bits() {
    let [one, other] = [0, 0].map(large);
    assert_eq!(one.solver.changed(), other.solver.changed());
    for key in one.keys {
        assert_eq!(one.solver.rate(key).to_bits(), other.solver.rate(key).to_bits());
        assert_eq!(one.solver.bottleneck(key), other.solver.bottleneck(key));
    }
}

const TOLERANCE: f64 = 1e-9;
