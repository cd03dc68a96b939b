use base::{Direction, LinkId, Span};
use fabric::{LinkConfig, NodeKind};
use proptest::prelude::*;

use super::*;
use crate::plan::{Iface, Link, Metric, Node, Role, Routing};
use crate::routes::Routes;

/// Routers 0..5 with hosts, links between any two of them, some of them down.
fn networks() -> impl Strategy<Value = (Plan, Vec<bool>)> {
    let link = (0usize..9, 0usize..9, 1u64..4, 1u32..4, prop::bool::weighted(0.85));
    let routing = prop::sample::select(vec![
        Routing::Shortest(Metric::Hops),
        Routing::Shortest(Metric::Delay),
        Routing::Shortest(Metric::Metric),
        Routing::None,
    ]);
    (prop::collection::vec(link, 1..24), routing).prop_map(|(links, routing)| {
        let links: Vec<_> = links.into_iter().filter(|link| link.0 != link.1).collect();
        let up = links.iter().map(|link| link.4).collect();
        (network(&links, routing), up)
    })
}

fn network(links: &[(usize, usize, u64, u32, bool)], routing: Routing) -> Plan {
    let lab = crate::parse("t.toml", "[node.a]\n", std::path::Path::new(".")).unwrap();
    let mut plan = lab.plans.into_iter().next().unwrap();
    plan.routing = routing;
    let node = |index: usize| Node {
        name: format!("n{index}"),
        kind: if index < 5 { Role::Router } else { Role::Host },
        fabric: NodeKind::Edge,
        ifaces: vec![],
        user: None,
        files: None,
        declared: (0, 0),
    };
    plan.nodes = (0..9).map(node).collect();
    for (index, &(a, b, ms, metric, _)) in links.iter().enumerate() {
        let config = LinkConfig { delay: Span::from_millis(ms), ..LinkConfig::default() };
        let ends = [a, b].map(NodeId::at);
        let directions = [config.clone(), config];
        plan.links.push(Link { name: format!("l{index}"), ends, directions, metric, up: true });
        for (node, sends) in ends.into_iter().zip(Direction::BOTH) {
            plan.nodes[node.index()].ifaces.push(IfaceId::at(plan.ifaces.len()));
            let link = LinkId::at(index);
            plan.ifaces.push(Iface { node, link, sends, name: "e".into(), v4: None, v6: None });
        }
    }
    plan
}

proptest! {
    #[test]
    fn every_pair_has_the_path_of_its_packets((plan, up) in networks(), hash in any::<u32>()) {
        let all = (0..9).flat_map(|from| (0..9).map(move |to| (from, to)));
        let pairs: Vec<Pair> = all
            .map(|(from, to)| Pair { from: NodeId(from), to: NodeId(to), hash })
            .collect();
        let routes = Routes::compute(&plan, &up);
        let paths = Paths::compute(&plan, &up, &pairs);
        for (pair, path) in pairs.iter().zip(paths.iter()) {
            let pick = |node, ways: &[IfaceId]| ways[fabric::ecmp(hash, node, ways.len())];
            let walk = |to: &IfaceId| routes.path(pair.from, *to, pick);
            let mut walks = plan.nodes[pair.to.index()].ifaces.iter();
            let expected = walks.find_map(walk).unwrap_or_default();
            let found: Vec<IfaceId> = path.iter().map(|link| IfaceId(*link)).collect();
            prop_assert_eq!(found, expected, "{:?}", pair);
        }
    }
}

#[test]
fn hashes_spread_over_equal_ways() {
    // Three routers in parallel between 0 and 4.
    let links: Vec<_> =
        [1, 2, 3].into_iter().flat_map(|r| [(0, r, 1, 1, true), (r, 4, 1, 1, true)]).collect();
    let plan = network(&links, Routing::Shortest(Metric::Hops));
    let pair = |index: u32| {
        let hash = flow_hash("a", "b", &index.to_string());
        Pair { from: NodeId(0), to: NodeId(4), hash }
    };
    let pairs: Vec<Pair> = (0..3000).map(pair).collect();
    let paths = Paths::compute(&plan, &[true; 6], &pairs);
    for way in [0, 4, 8] {
        let share = paths.iter().filter(|path| path[0] == way).count();
        assert!((900..1100).contains(&share), "{share} of 3000 over link {way}");
    }
    assert_eq!(paths, Paths::compute(&plan, &[true; 6], &pairs));
}
