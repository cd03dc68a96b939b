//! The properties of fair shares, in a simple and slow implementation.

use sharing::{Demand, Problem, Solver};

/// Number of times that a flow crosses a link.
fn crossings(flow: &Demand, link: usize) -> f64 {
    flow.path.iter().filter(|l| **l as usize == link).count() as f64
}

/// Progressive filling by definition: every round checks every link and every flow, and the first
/// constraint that binds (of equal ones the earlier) freezes its flows.
pub(super) fn fill(problem: &Problem) -> Vec<f64> {
    let flows = &problem.flows;
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    while rates.contains(&None) {
        let (mut lowest, mut full) = (f64::INFINITY, None);
        for (link, capacity) in problem.capacities.iter().enumerate() {
            let (mut left, mut weight) = (*capacity, 0.0);
            for (flow, rate) in flows.iter().zip(&rates) {
                match rate {
                    Some(rate) => left -= rate * crossings(flow, link),
                    None => weight += flow.weight * crossings(flow, link),
                }
            }
            if weight > 0.0 && left.max(0.0) / weight < lowest {
                (lowest, full) = (left.max(0.0) / weight, Some(link));
            }
        }
        let cap = |flow: usize| flows[flow].cap.min(Solver::UNLIMITED);
        let capped = (0..flows.len())
            .filter(|flow| rates[*flow].is_none())
            .map(|flow| (cap(flow) / flows[flow].weight, flow))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        match (capped, full) {
            (Some((level, flow)), _) if level <= lowest => rates[flow] = Some(cap(flow)),
            (_, Some(link)) => {
                for (flow, rate) in flows.iter().zip(&mut rates) {
                    if rate.is_none() && crossings(flow, link) > 0.0 {
                        *rate = Some(flow.weight * lowest);
                    }
                }
            }
            _ => unreachable!("an open flow has a cap"),
        }
    }
    rates.into_iter().map(Option::unwrap).collect()
}

/// Checks that no link carries more than its capacity, and no flow more than its cap.
pub(super) fn fits(problem: &Problem, rates: &[f64], tolerance: f64) -> Result<(), String> {
    for (flow, rate) in problem.flows.iter().zip(rates) {
        if *rate < 0.0 || *rate > flow.cap {
            return Err(format!("{rate} of {flow:?}\n{problem:?}"));
        }
    }
    for (link, capacity) in problem.capacities.iter().enumerate() {
        let load = load(problem, rates, link, f64::INFINITY);
        if load > capacity * (1.0 + tolerance) {
            return Err(format!("{load} on {capacity}\n{problem:?}"));
        }
    }
    Ok(())
}

/// Checks that no flow can gain unless one loses whose level is not higher: a flow below its cap
/// crosses a link that is full even without the rates of flows with higher levels.
pub(super) fn no_flow_can_gain(
    problem: &Problem,
    rates: &[f64],
    tolerance: f64,
) -> Result<(), String> {
    for (flow, rate) in problem.flows.iter().zip(rates) {
        let at_cap = *rate >= flow.cap.min(Solver::UNLIMITED) * (1.0 - tolerance);
        let level = rate / flow.weight * (1.0 + tolerance);
        let blocked = flow.path.iter().any(|link| {
            let link = *link as usize;
            let poorer = load(problem, rates, link, level);
            poorer >= problem.capacities[link] * (1.0 - tolerance)
        });
        if !at_cap && !blocked {
            return Err(format!("{flow:?} could have more than {rate}\n{problem:?}"));
        }
    }
    Ok(())
}

/// The load of a link by flows of at most this level.
fn load(problem: &Problem, rates: &[f64], link: usize, level: f64) -> f64 {
    let flows = problem.flows.iter().zip(rates);
    let flows = flows.filter(|(flow, rate)| **rate / flow.weight <= level);
    flows.map(|(flow, rate)| rate * crossings(flow, link)).sum()
}

/// The maximum relative difference.
#[track_caller]
pub(super) fn difference(left: &[f64], right: &[f64]) -> f64 {
    assert_eq!(left.len(), right.len());
    let pairs = left.iter().zip(right);
    // Two zeros do not differ.
    pairs.map(|(a, b)| (a - b).abs() / a.max(*b).max(f64::MIN_POSITIVE)).fold(0.0, f64::max)
}

#[track_caller]
pub(super) fn same(left: &[f64], right: &[f64], tolerance: f64) {
    let difference = difference(left, right);
    assert!(difference <= tolerance, "{difference}: {left:?} {right:?}");
}
