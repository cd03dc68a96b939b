//! Golden tests of small networks with known results, on a virtual clock.

mod collapsed;
mod disciplines;
mod fifo;
mod link_scope;
mod members;
mod physics;
mod queueing;

use std::collections::BTreeMap;

use base::{Bandwidth, Bytes, Direction, IfaceId, LinkId, NodeId, Span, Time};

use crate::{
    Ecn, Fabric, Forwarding, LinkConfig, Network, NodeKind, Output, Packet, QueueConfig,
    QueueLimit, Rate, Wire,
};

/// Wire overhead of all test networks.
const OVERHEAD: u64 = 38;

/// A fixed routing table.
#[derive(Default)]
struct Routes(BTreeMap<(u32, u32), Vec<IfaceId>>);

impl Forwarding for Routes {
    fn next(&self, node: NodeId, dest: IfaceId) -> &[IfaceId] {
        self.0.get(&(node.0, dest.0)).map_or(&[], Vec::as_slice)
    }
}

/// A host, `links.len() - 1` routers, a host, in a row.
fn line(links: &[LinkConfig]) -> Fabric<u32> {
    line_by(links, None)
}

fn line_by(links: &[LinkConfig], collapsed: Option<crate::Collapsed>) -> Fabric<u32> {
    let count = links.len();
    let mut nodes = vec![NodeKind::Router; count + 1];
    nodes[0] = NodeKind::Edge;
    nodes[count] = NodeKind::Edge;
    let mut routes = Routes::default();
    for node in 1..count as u32 {
        routes.0.insert((node, last_iface(count).0), vec![IfaceId(node * 2)]);
        routes.0.insert((node, 0), vec![IfaceId(node * 2 - 1)]);
    }
    let wires = links.iter().enumerate().map(|(i, config)| Wire {
        name: format!("l{i}"),
        ends: [NodeId::at(i), NodeId::at(i + 1)],
        directions: [config.clone(), config.clone()],
        up: true,
    });
    let overhead = Bytes::new(OVERHEAD);
    let network = Network { nodes, links: wires.collect(), overhead, collapsed };
    Fabric::try_new(&network, Box::new(routes), 1).unwrap()
}

/// The interface of the host at the end of a line of `links` links.
fn last_iface(links: usize) -> IfaceId {
    IfaceId::at(links * 2 - 1)
}

fn link(rate: &str, delay: &str) -> LinkConfig {
    let rate = match rate {
        "unlimited" => Rate::Unlimited,
        rate => Rate::Constant(rate.parse().unwrap()),
    };
    LinkConfig { rate, delay: delay.parse().unwrap(), mtu: Bytes::new(1500), ..Default::default() }
}

fn queue(discipline: crate::Discipline, packets: u32) -> QueueConfig {
    QueueConfig { discipline, limit: QueueLimit::Packets(packets), ecn: false }
}

/// One packet of `bytes` layer-3 bytes to the end of a line of `links` links.
fn packet(body: u32, bytes: u32, links: usize) -> Packet<u32> {
    Packet {
        body,
        first: 0,
        count: 1,
        to: Some(last_iface(links)),
        link_scope: false,
        flow: body,
        segment: bytes,
        last: bytes,
        ttl: 64,
        dscp: 0,
        ecn: Ecn::NotCapable,
        corrupt: None,
        mirrors: 0,
        part: crate::Part::Datagram,
        tag: 0,
        entered: Time::ZERO,
    }
}

fn ms(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn mbit(rate: u64) -> Bandwidth {
    Bandwidth::from_mbits_per_sec(rate)
}

fn drain(fabric: &mut Fabric<u32>) -> Vec<Output<u32>> {
    std::iter::from_fn(|| fabric.poll()).collect()
}

/// Runs until no events are left.
fn finish(fabric: &mut Fabric<u32>) -> Vec<Output<u32>> {
    while let Some(at) = fabric.next_wake() {
        fabric.advance(at);
    }
    drain(fabric)
}

/// (body, arrival) of every delivery.
fn deliveries(outputs: &[Output<u32>]) -> Vec<(u32, Time)> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Deliver { packet, at, .. } => Some((packet.body, *at)),
            _ => None,
        })
        .collect()
}

fn up(fabric: &mut Fabric<u32>, link: u32) -> &crate::LinkStats {
    fabric.stats(LinkId(link), Direction::Up)
}
