//! A sharing problem that is solved once.

use crate::solver::{LinkKey, Solver};

/// The demand of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Indices in [`Problem::capacities`]. A link that occurs twice carries the flow twice; a flow
    /// without links is limited by its cap alone.
    pub path: Vec<u32>,
    /// Weight: flows at one bottleneck get rates in the ratio of their weights.
    pub weight: f64,
    /// Maximum rate of the flow, bit/s.
    pub cap: f64,
}

/// Links and flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Problem {
    /// Capacity of each link, bit/s; infinite without a limit.
    pub capacities: Vec<f64>,
    /// The demands of all flows.
    pub flows: Vec<Demand>,
}

impl Problem {
    /// The weighted max-min fair rates, bit/s, in the order of the flows.
    ///
    /// # Panics
    /// If a path refers to a link that does not exist.
    pub fn solve(&self) -> Vec<f64> {
        let mut solver = Solver::new();
        let links: Vec<LinkKey> = self.capacities.iter().map(|c| solver.add_link(*c)).collect();
        let mut path = Vec::new();
        let keys: Vec<_> = self
            .flows
            .iter()
            .map(|flow| {
                path.clear();
                path.extend(flow.path.iter().map(|link| links[*link as usize]));
                solver.add_flow(&path, flow.weight, flow.cap)
            })
            .collect();
        solver.solve();
        keys.into_iter().map(|key| solver.rate(key)).collect()
    }
}
