//! What each flow should get: the sharing problem built from the lab's topology and the flows that
//! are live, and solved from scratch.

use std::collections::BTreeMap;

use base::{Direction, IfaceId, NodeId, Span};
use fabric::Rate;
use lab::plan::{Model, Plan};
use lab::routes::Routes;
use run::{FlowKind, ShareSample};
use sharing::{Demand, Problem, Sharing, SharingPolicy, Window, tcp};

/// Paths and capacities of a lab, and the law that its flows share by.
#[derive(Debug)]
pub(super) struct Oracle<'a> {
    plan: &'a Plan,
    routes: Routes,
    law: SharingPolicy,
    capacities: Vec<f64>,
    ways: BTreeMap<(NodeId, NodeId), Way>,
}

/// The way from one node to another.
#[derive(Clone, Debug, PartialEq)]
struct Way {
    /// Positions among the capacities.
    links: Vec<u32>,
    delay: Span,
}

impl<'a> Oracle<'a> {
    /// The oracle of a lab; `None` if its paths are not collapsed.
    pub(super) fn new(plan: &'a Plan) -> Option<Self> {
        let Model::Collapsed(collapsed) = plan.model else { return None };
        let law = SharingPolicy { sharing: collapsed.sharing, window: collapsed.window };
        let up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
        let rate = |link: &lab::plan::Link| {
            Direction::BOTH.map(|direction| match link.directions[direction.index()].rate {
                Rate::Constant(rate) => rate.bits_per_sec() as f64,
                Rate::Unlimited | Rate::Trace(_) => f64::INFINITY,
            })
        };
        let capacities = plan.links.iter().flat_map(rate).collect();
        let routes = Routes::compute(plan, &up);
        Some(Self { plan, routes, law, capacities, ways: BTreeMap::new() })
    }

    /// The fair shares of flows, bit/s, in their order; `None` if a flow has no way, or several,
    /// of which a hash would have to choose.
    pub(super) fn shares(&mut self, flows: &[ShareSample]) -> Option<Vec<f64>> {
        let demands = flows.iter().map(|flow| self.demand(flow)).collect::<Option<_>>()?;
        Some(Problem { capacities: self.capacities.clone(), flows: demands }.solve())
    }

    fn demand(&mut self, flow: &ShareSample) -> Option<Demand> {
        let back = self.way(flow.to, flow.from)?.delay;
        let way = self.way(flow.from, flow.to)?;
        let (path, round_trip) = (way.links.clone(), tcp::round_trip(way.delay, back));
        let weight = match self.law.sharing {
            Sharing::RttMaxMin => tcp::weight(round_trip),
            Sharing::MaxMin | Sharing::Slbn | Sharing::None => 1.0,
        };
        let wanted = flow.demand.map_or(f64::INFINITY, |bits| bits as f64);
        let cap = match (self.law.window, flow.kind) {
            (Window::Fixed(window), FlowKind::Stream) => {
                wanted.min(tcp::window_cap(window, round_trip))
            }
            _ => wanted,
        };
        Some(Demand { path, weight, cap })
    }

    fn way(&mut self, from: NodeId, to: NodeId) -> Option<&Way> {
        if !self.ways.contains_key(&(from, to)) {
            let way = self.walk(from, *self.plan.nodes[to.index()].ifaces.first()?)?;
            self.ways.insert((from, to), way);
        }
        self.ways.get(&(from, to))
    }

    fn walk(&self, from: NodeId, to: IfaceId) -> Option<Way> {
        let end = self.plan.ifaces[to.index()].node;
        let (mut node, mut way) = (from, Way { links: Vec::new(), delay: Span::ZERO });
        while node != end {
            let &[next] = self.routes.next(node, to) else { return None };
            let iface = &self.plan.ifaces[next.index()];
            let (link, side) = (&self.plan.links[iface.link.index()], iface.sends.index());
            way.links.push(iface.link.0 * 2 + side as u32);
            way.delay = way.delay.saturating_add(link.directions[side].delay);
            node = link.ends[1 - side];
            if way.links.len() > self.plan.nodes.len() {
                return None;
            }
        }
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::Time;

    use super::*;

    /// Figure 3.5 of the paper.
    const WORKED: &str = r#"
        [lab]
        model = "collapsed"
        window = "off"
        duration = "1 s"
        [node.n0]
        [node.n1]
        kind = "router"
        [node.n2]
        [node.n3]
        [node.n4]
        kind = "router"
        [node.n5]
        [[link]]
        ends = ["n0", "n1"]
        rate = "2 Mbit/s"
        delay = "25 ms"
        [[link]]
        ends = ["n1", "n2"]
        rate = "4 Mbit/s"
        delay = "25 ms"
        [[link]]
        ends = ["n1", "n4"]
        rate = "4 Mbit/s"
        delay = "25 ms"
        [[link]]
        ends = ["n4", "n5"]
        rate = "4 Mbit/s"
        delay = "100 ms"
        [[link]]
        ends = ["n3", "n4"]
        rate = "4 Mbit/s"
        delay = "50 ms"
    "#;

    fn flow(from: u32, to: u32, demand: Option<u64>) -> ShareSample {
        ShareSample {
            at: Time::ZERO,
            interval: Span::from_millis(50),
            from: NodeId(from),
            to: NodeId(to),
            flow: 0,
            kind: FlowKind::Stream,
            share: None,
            demand,
            sent_bytes: 0,
        }
    }

    #[test]
    fn the_worked_example_comes_out() {
        let lab = lab::parse("worked", WORKED, Path::new(".")).unwrap();
        let plan = &lab.plans[0];
        let id = |name: &str| plan.nodes.iter().position(|n| n.name == name).unwrap() as u32;
        let (n0, n2, n3, n5) = (id("n0"), id("n2"), id("n3"), id("n5"));
        let mut oracle = Oracle::new(plan).unwrap();
        let near = |got: Option<Vec<f64>>, wanted: &[f64]| {
            let got = got.unwrap();
            assert_eq!(got.len(), wanted.len());
            for (got, wanted) in got.iter().zip(wanted) {
                assert!((got / wanted / 1e6 - 1.0).abs() < 1e-9, "{got} {wanted}");
            }
        };
        near(oracle.shares(&[flow(n0, n2, None), flow(n3, n5, None)]), &[2.0, 4.0]);
        let all = [flow(n0, n2, None), flow(n3, n5, None), flow(n0, n5, None)];
        near(oracle.shares(&all), &[1.5, 3.5, 0.5]);
        // What the first does not take is the third's.
        let all = [flow(n0, n2, Some(1_000_000)), all[1], all[2]];
        near(oracle.shares(&all), &[1.0, 3.0, 1.0]);
        // Where acknowledgements go nothing else is.
        near(oracle.shares(&[flow(n2, n0, None)]), &[2.0]);
    }
}
