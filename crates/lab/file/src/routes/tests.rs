use super::*;
use crate::plan::{Cluster, Iface, Link, Model, Node, Precision, Tolerance};
use base::{Direction, LinkId};
use fabric::{LinkConfig, NodeKind};

/// `nodes`: name and role by first letter (h, r, s); links: ends and delay in ms.
fn plan(nodes: &[&str], links: &[(&str, &str, u64)]) -> Plan {
    let role = |name: &str| match &name[..1] {
        "h" => Role::Host,
        "r" => Role::Router,
        _ => Role::Switch,
    };
    let id = |name: &str| NodeId::at(nodes.iter().position(|n| *n == name).unwrap());
    let mut plan = Plan {
        name: "t".into(),
        seed: 1,
        start_jitter: None,
        duration: Span::from_secs(1),
        model: Model::Hop,
        overhead: base::Bytes::ZERO,
        routing: Routing::Shortest(Metric::Delay),
        precision: Precision::Normal,
        realtime: false,
        tick: None,
        tolerance: Tolerance::default(),
        interval: Span::from_millis(100),
        uplink: crate::plan::Uplink::None,
        nodes: nodes
            .iter()
            .map(|name| Node {
                name: (*name).into(),
                kind: role(name),
                fabric: NodeKind::Edge,
                ifaces: vec![],
                user: None,
                files: None,
                declared: (0, 0),
            })
            .collect(),
        links: vec![],
        ifaces: vec![],
        programs: vec![],
        flows: vec![],
        control: None,
        sessions: vec![],
        bundles: vec![],
        events: vec![],
        mirrors: vec![],
        captures: vec![],
        tcp_events: vec![],
        record: false,
        writable: Vec::new(),
        limits: crate::plan::Limits { events: 1, memory: base::Bytes::new(1) },
        cluster: Cluster::default(),
        expectations: vec![],
        sweep: vec![],
    };
    for (index, (a, b, ms)) in links.iter().enumerate() {
        let config = LinkConfig { delay: Span::from_millis(*ms), ..LinkConfig::default() };
        let ends = [id(a), id(b)];
        plan.links.push(Link {
            name: format!("{a}-{b}"),
            ends,
            directions: [config.clone(), config],
            metric: 1,
            up: true,
        });
        for (node, sends) in ends.into_iter().zip(Direction::BOTH) {
            plan.nodes[node.index()].ifaces.push(IfaceId::at(plan.ifaces.len()));
            let link = LinkId::at(index);
            plan.ifaces.push(Iface { node, link, sends, name: "eth".into(), v4: None, v6: None });
        }
    }
    plan
}

fn all_up(plan: &Plan) -> Vec<bool> {
    vec![true; plan.links.len()]
}

#[test]
fn equal_paths_are_shared_and_a_cut_moves_traffic() {
    //      r2
    //  h1-r1  r4-h2      r1-r2-r4 and r1-r3-r4 cost the same
    //      r3
    let plan = plan(
        &["h1", "r1", "r2", "r3", "r4", "h2"],
        &[
            ("h1", "r1", 1),
            ("r1", "r2", 5),
            ("r1", "r3", 5),
            ("r2", "r4", 5),
            ("r3", "r4", 5),
            ("r4", "h2", 1),
        ],
    );
    let h2 = IfaceId(11);
    let routes = Routes::compute(&plan, &all_up(&plan));
    assert_eq!(routes.next(NodeId(0), h2), [IfaceId(0)]);
    assert_eq!(routes.next(NodeId(1), h2), [IfaceId(2), IfaceId(4)]);
    assert_eq!(routes.next(NodeId(4), h2), [IfaceId(10)]);
    assert_eq!(routes.next(NodeId(5), h2), []);
    assert_eq!(routes.path_delay(NodeId(0), h2), Some(Span::from_millis(12)));
    // All addresses of a router have the route to the router.
    assert_eq!(routes.next(NodeId(0), IfaceId(3)), [IfaceId(0)]);
    assert_eq!(routes.path_delay(NodeId(0), IfaceId(6)), Some(Span::from_millis(6)));

    let mut up = all_up(&plan);
    up[1] = false;
    let routes = Routes::compute(&plan, &up);
    assert_eq!(routes.next(NodeId(1), h2), [IfaceId(4)]);
    up[2] = false;
    let routes = Routes::compute(&plan, &up);
    assert_eq!(routes.next(NodeId(0), h2), []);
    assert_eq!(routes.path_delay(NodeId(0), h2), None);
}

#[test]
fn a_multi_homed_hosts_addresses_are_entered_through_their_own_links() {
    let plan = plan(
        &["h1", "r1", "r2", "h2"],
        &[("h1", "r1", 1), ("h1", "r2", 50), ("r1", "h2", 1), ("r2", "h2", 1), ("r1", "r2", 1)],
    );
    let routes = Routes::compute(&plan, &all_up(&plan));
    // h2's second address is attached to r2: over r1 and r2, never through h2 itself.
    assert_eq!(routes.next(NodeId(1), IfaceId(7)), [IfaceId(8)]);
    assert_eq!(routes.next(NodeId(0), IfaceId(7)), [IfaceId(0)]);
    assert_eq!(routes.next(NodeId(0), IfaceId(5)), [IfaceId(0)]);
    // h1's slow address is reached over the slow link although h1 has a shorter path.
    assert_eq!(routes.path_delay(NodeId(3), IfaceId(2)), Some(Span::from_millis(51)));
}

#[test]
fn hosts_carry_no_transit_traffic() {
    let plan = plan(&["h1", "h2", "h3"], &[("h1", "h2", 1), ("h2", "h3", 1)]);
    let routes = Routes::compute(&plan, &all_up(&plan));
    assert_eq!(routes.next(NodeId(0), IfaceId(1)), [IfaceId(0)]);
    assert_eq!(routes.next(NodeId(1), IfaceId(3)), [IfaceId(2)]);
    assert_eq!(routes.next(NodeId(0), IfaceId(3)), []);
    assert_eq!(routes.next(NodeId(2), IfaceId(0)), []);
}

#[test]
fn a_thousand_hosts_share_one_table() {
    let names: Vec<String> = (0..1000).map(|i| format!("h{i}")).collect();
    let mut nodes = vec!["s"];
    nodes.extend(names.iter().map(String::as_str));
    let links: Vec<_> = names.iter().map(|name| ("s", name.as_str(), 1)).collect();
    let plan = plan(&nodes, &links);
    let routes = Routes::compute(&plan, &all_up(&plan));
    assert_eq!(routes.towards.len(), 1);
    assert_eq!(routes.next(NodeId(1), IfaceId(1999)), [IfaceId(1)]);
    assert_eq!(routes.next(NodeId(0), IfaceId(1999)), [IfaceId(1998)]);
    assert_eq!(routes.path_delay(NodeId(1000), IfaceId(1)), Some(Span::from_millis(2)));
}

#[test]
fn without_routing_only_neighbours_are_known() {
    let mut plan = plan(&["h1", "r1", "h2"], &[("h1", "r1", 1), ("r1", "h2", 1)]);
    plan.routing = Routing::None;
    let routes = Routes::compute(&plan, &all_up(&plan));
    assert_eq!(routes.next(NodeId(0), IfaceId(1)), [IfaceId(0)]);
    assert_eq!(routes.next(NodeId(0), IfaceId(3)), []);
}
