//! Plans for tests and measurements, built without a lab file.

use std::net::{Ipv4Addr, Ipv6Addr};

use base::{Bytes, Direction, IfaceId, LinkId, NodeId, Span};
use fabric::{Forwarding, LinkConfig, NodeKind};
use lab::plan::{
    Cluster, Iface, Link, Metric, Model, Node, Plan, Precision, Role, Routing, Tolerance,
};

/// A plan of nodes `(name, role, has its own kernel)` and links between them.
pub(crate) fn plan(nodes: &[(&str, Role, bool)], links: &[(usize, usize)]) -> Plan {
    let mut plan = empty();
    for (name, kind, edge) in nodes {
        let fabric = if *edge { NodeKind::Edge } else { NodeKind::Router };
        let name = (*name).to_owned();
        let (ifaces, declared) = (Vec::new(), (0, 0));
        let (user, files) = (None, None);
        plan.nodes.push(Node { name, kind: *kind, fabric, ifaces, user, files, declared });
    }
    for (at, ends) in links.iter().enumerate() {
        let ends = [NodeId::at(ends.0), NodeId::at(ends.1)];
        for (end, sends) in ends.into_iter().zip(Direction::BOTH) {
            let id = IfaceId::at(plan.ifaces.len());
            let name = format!("eth{}", plan.nodes[end.index()].ifaces.len());
            plan.nodes[end.index()].ifaces.push(id);
            let subnet = (at as u32) << 2 | (sends as u32 + 1);
            let v4 = Some((Ipv4Addr::from_bits(0x0a00_0000 | subnet), 30));
            let v6 = Ipv6Addr::new(0xfd6e, 0x6574, 0, at as u16, 0, 0, 0, sends as u16 + 1);
            let v6 = Some((v6, 64));
            plan.ifaces.push(Iface { node: end, link: LinkId::at(at), sends, name, v4, v6 });
        }
        let config = LinkConfig { mtu: Bytes::new(1500), ..LinkConfig::default() };
        let directions = [config.clone(), config];
        plan.links.push(Link { name: format!("l{at}"), ends, directions, metric: 1, up: true });
    }
    plan
}

/// `hosts` hosts around a router of the fabric.
pub(crate) fn star(hosts: usize) -> Plan {
    let names: Vec<String> = (0..hosts).map(|host| format!("h{host}")).collect();
    let mut nodes = vec![("hub", Role::Router, false)];
    nodes.extend(names.iter().map(|name| (name.as_str(), Role::Host, true)));
    let links: Vec<(usize, usize)> = (1..=hosts).map(|host| (0, host)).collect();
    plan(&nodes, &links)
}

fn empty() -> Plan {
    Plan {
        name: "sample".to_owned(),
        seed: 1,
        start_jitter: None,
        duration: Span::from_secs(1),
        model: Model::Hop,
        overhead: Bytes::new(38),
        routing: Routing::Shortest(Metric::Hops),
        precision: Precision::Normal,
        realtime: false,
        tick: None,
        tolerance: Tolerance::default(),
        interval: Span::from_millis(100),
        uplink: lab::plan::Uplink::None,
        nodes: Vec::new(),
        links: Vec::new(),
        ifaces: Vec::new(),
        programs: Vec::new(),
        flows: Vec::new(),
        control: None,
        sessions: Vec::new(),
        bundles: Vec::new(),
        events: Vec::new(),
        mirrors: Vec::new(),
        captures: Vec::new(),
        tcp_events: Vec::new(),
        record: false,
        writable: Vec::new(),
        limits: lab::plan::Limits { events: 1, memory: base::Bytes::new(1) },
        cluster: Cluster::default(),
        expectations: Vec::new(),
        sweep: Vec::new(),
    }
}

/// Forwarding in which every node sends all packets through its first interface.
pub(crate) struct FirstIface(Vec<Vec<IfaceId>>);

impl FirstIface {
    /// The forwarding for the nodes of `plan`.
    pub(crate) fn of(plan: &Plan) -> Self {
        Self(plan.nodes.iter().map(|node| node.ifaces.iter().take(1).copied().collect()).collect())
    }
}

impl Forwarding for FirstIface {
    fn next(&self, node: NodeId, _: IfaceId) -> &[IfaceId] {
        &self.0[node.index()]
    }
}
