//! Packets of link scope: what crosses a link, what a switch copies, what no router forwards.

use super::*;
use crate::{DropReason, Refusal};

fn multicast(body: u32) -> Packet<u32> {
    Packet { to: None, link_scope: true, ..packet(body, 100, 1) }
}

#[test]
fn multicast_crosses_one_link_with_its_delay_and_queue() {
    // 138 wire bytes take 1.104 ms at 1 Mbit/s.
    let mut fabric = line(&[link("1 Mbit/s", "5 ms")]);
    fabric.inject(Time::ZERO, IfaceId(0), multicast(1));
    fabric.inject(Time::ZERO, IfaceId(0), multicast(2));
    let micros = |micros| Time::ZERO + Span::from_micros(micros);
    let outputs = finish(&mut fabric);
    assert_eq!(deliveries(&outputs), [(1, micros(6_104)), (2, micros(7_208))]);
}

#[test]
fn routers_forward_no_packet_of_link_scope() {
    for to in [None, Some(last_iface(2))] {
        let mut fabric = line(&[link("unlimited", "1 ms"), link("unlimited", "1 ms")]);
        fabric.inject(Time::ZERO, IfaceId(0), Packet { to, ..multicast(1) });
        let outputs = finish(&mut fabric);
        match to {
            None => assert!(outputs.is_empty(), "{outputs:?}"),
            Some(_) => {
                assert!(matches!(&outputs[..], [Output::Refused { why: Refusal::NoRoute, .. }]));
            }
        }
        let refused = u64::from(to.is_some());
        assert_eq!(up(&mut fabric, 0).drops[DropReason::NoRoute.index()], refused);
        assert_eq!(up(&mut fabric, 1).delivered_packets, 0);
    }
}

#[test]
fn a_router_answers_on_the_link_of_a_link_local_address() {
    // The shortest path to the first host's interface would be the second link.
    let mut fabric = line(&[link("unlimited", "1 ms"), link("unlimited", "1 ms")]);
    let to_router = Packet { to: Some(IfaceId(1)), ..multicast(1) };
    fabric.inject(Time::ZERO, IfaceId(0), to_router);
    let outputs = finish(&mut fabric);
    assert!(matches!(&outputs[..], [Output::Local { node: NodeId(1), .. }]), "{outputs:?}");
    let mut routes = Routes::default();
    routes.0.insert((1, 0), vec![IfaceId(2)]);
    fabric.set_forwarding(Box::new(routes));
    fabric.originate(ms(2), NodeId(1), Packet { to: Some(IfaceId(0)), ..multicast(2) });
    let outputs = finish(&mut fabric);
    let [Output::Deliver { iface: IfaceId(0), at, .. }] = outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(at, ms(3));
}

/// Two switches with two links between them, and a host and a router at each.
fn switches() -> Fabric<u32> {
    use NodeKind::{Edge, Router, Switch};
    let nodes = vec![Switch, Switch, Edge, Edge, Router, Edge];
    let ends = [(0, 1), (0, 1), (2, 0), (3, 1), (4, 0), (5, 1)];
    let wire = |(at, (a, b)): (usize, &(usize, usize))| Wire {
        name: format!("l{at}"),
        ends: [NodeId::at(*a), NodeId::at(*b)],
        directions: [link("unlimited", "1 ms"), link("unlimited", "1 ms")],
        up: true,
    };
    let links = ends.iter().enumerate().map(wire).collect();
    let network = Network { nodes, links, overhead: Bytes::new(OVERHEAD), collapsed: None };
    Fabric::try_new(&network, Box::new(Routes::default()), 1).unwrap()
}

#[test]
fn switches_copy_multicast_to_each_node_of_the_subnet_once() {
    let mut fabric = switches();
    let arrivals = |outputs: &[Output<u32>]| -> Vec<(u32, Time)> {
        let arrived = |output: &Output<u32>| match output {
            Output::Deliver { iface, at, .. } => Some((iface.0, *at)),
            _ => None,
        };
        outputs.iter().filter_map(arrived).collect()
    };
    fabric.inject(Time::ZERO, IfaceId(4), multicast(1));
    assert_eq!(arrivals(&finish(&mut fabric)), [(6, ms(3)), (10, ms(3))]);
    // The second link between the switches replaces the first.
    fabric.set_up(ms(10), LinkId(0), false).unwrap();
    fabric.inject(ms(10), IfaceId(6), multicast(2));
    assert_eq!(arrivals(&finish(&mut fabric)), [(10, ms(12)), (4, ms(13))]);
    assert_eq!(fabric.holds(), 0);
}
