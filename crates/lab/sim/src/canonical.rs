//! A plan in canonical order: nodes, links and flows sorted by name.
//!
//! The order of a lab file carries no meaning, but identifiers follow it, and so does everything
//! that depends on identifiers: the order of simultaneous events, and the ECMP choice among equal
//! paths. A simulation therefore runs on the sorted plan and reports results with the identifiers
//! of the original. Only the interfaces of a node keep their order, because a host uses the first
//! one that can be reached.

use base::{FlowId, IfaceId, LinkId, NodeId};
use lab::plan::{Action, Filter, Flow, MirrorTarget, Multipath, Plan, Traffic};

/// A sorted plan and the mapping to the original.
#[derive(Clone, Debug)]
pub(crate) struct Canonical {
    /// The plan with sorted tables, without expectations and flows.
    pub(crate) plan: Plan,
    pub(crate) specs: Vec<Flow>,
    /// Identifier of each link in the original plan.
    pub(crate) links: Vec<LinkId>,
    /// Identifier of each flow in the original plan.
    pub(crate) flows: Vec<FlowId>,
}

/// A permutation of a table: from new to original positions, and from original to new.
struct Order {
    old: Vec<usize>,
    new: Vec<usize>,
}

impl Order {
    fn by_name<T>(table: &[T], name: impl Fn(&T) -> &str) -> Self {
        let mut old: Vec<usize> = (0..table.len()).collect();
        old.sort_by(|a, b| name(&table[*a]).cmp(name(&table[*b])));
        let mut new = vec![0; old.len()];
        for (position, original) in old.iter().enumerate() {
            new[*original] = position;
        }
        Self { old, new }
    }

    fn apply<T: Clone>(&self, table: &[T]) -> Vec<T> {
        self.old.iter().map(|original| table[*original].clone()).collect()
    }
}

/// The new identifiers of all objects.
struct Numbers {
    nodes: Order,
    links: Order,
    flows: Order,
}

impl Numbers {
    fn node(&self, node: NodeId) -> NodeId {
        NodeId::at(self.nodes.new[node.index()])
    }

    fn link(&self, link: LinkId) -> LinkId {
        LinkId::at(self.links.new[link.index()])
    }

    fn flow(&self, flow: FlowId) -> FlowId {
        FlowId::at(self.flows.new[flow.index()])
    }

    /// Interfaces are numbered by link.
    fn iface(&self, iface: IfaceId) -> IfaceId {
        IfaceId::at(self.links.new[iface.index() / 2] * 2 + iface.index() % 2)
    }

    fn action(&self, action: &Action) -> Action {
        match action {
            Action::Set { link, direction, config } => Action::Set {
                link: self.link(*link),
                direction: *direction,
                config: config.clone(),
            },
            Action::LinkDown(link) => Action::LinkDown(self.link(*link)),
            Action::LinkUp(link) => Action::LinkUp(self.link(*link)),
            Action::NodeDown(node) => Action::NodeDown(self.node(*node)),
            Action::NodeUp(node) => Action::NodeUp(self.node(*node)),
            Action::Box(node, action) => Action::Box(self.node(*node), *action),
            Action::FlowStart(flow) => Action::FlowStart(self.flow(*flow)),
            Action::FlowStop(flow) => Action::FlowStop(self.flow(*flow)),
            program @ (Action::Stop(_) | Action::Kill(_) | Action::Start(_)) => program.clone(),
        }
    }

    fn filter(&self, filter: &Filter) -> Filter {
        let node = |node: Option<NodeId>| node.map(|node| self.node(node));
        Filter {
            host: node(filter.host),
            src_host: node(filter.src_host),
            dst_host: node(filter.dst_host),
            ..filter.clone()
        }
    }
}

impl Canonical {
    pub(crate) fn new(plan: &Plan) -> Self {
        let numbers = Numbers {
            nodes: Order::by_name(&plan.nodes, |node| &node.name),
            links: Order::by_name(&plan.links, |link| &link.name),
            flows: Order::by_name(&plan.flows, |flow| &flow.name),
        };
        let mut sorted = plan.clone();
        sorted.expectations = Vec::new();
        let mut specs = std::mem::take(&mut sorted.flows);
        for flow in &mut specs {
            (flow.from, flow.to) = (numbers.node(flow.from), numbers.node(flow.to));
            let paths = multipath_mut(&mut flow.traffic).map(|multipath| &mut multipath.paths);
            for path in paths.into_iter().flatten() {
                (path.from, path.to) = (numbers.iface(path.from), numbers.iface(path.to));
            }
        }
        specs.sort_by(|a, b| a.name.cmp(&b.name));
        for population in &mut sorted.sessions {
            population.drawing = None;
            for session in &mut population.sessions {
                session.from = numbers.node(session.from);
                session.to = numbers.node(session.to);
            }
        }
        sorted.sessions.sort_by(|a, b| a.name.cmp(&b.name));
        for bundle in &mut sorted.bundles {
            (bundle.from, bundle.to) = (numbers.node(bundle.from), numbers.node(bundle.to));
        }
        if let Some(control) = &mut sorted.control {
            control.access.iter_mut().for_each(|router| *router = numbers.node(*router));
            control.access.sort_unstable();
        }
        sorted.nodes = numbers.nodes.apply(&plan.nodes);
        sorted.links = numbers.links.apply(&plan.links);
        for node in &mut sorted.nodes {
            node.ifaces.iter_mut().for_each(|iface| *iface = numbers.iface(*iface));
        }
        for link in &mut sorted.links {
            link.ends = link.ends.map(|end| numbers.node(end));
        }
        sorted.ifaces = numbers
            .links
            .old
            .iter()
            .flat_map(|link| [link * 2, link * 2 + 1])
            .map(|old| {
                let mut iface = plan.ifaces[old].clone();
                iface.node = numbers.node(iface.node);
                iface.link = numbers.link(iface.link);
                iface
            })
            .collect();
        for event in &mut sorted.events {
            event.action = numbers.action(&event.action);
        }
        for mirror in &mut sorted.mirrors {
            mirror.link = numbers.link(mirror.link);
            mirror.filter = numbers.filter(&mirror.filter);
            if let MirrorTarget::Node(node) = &mut mirror.to {
                *node = numbers.node(*node);
            }
        }
        sorted.captures.iter_mut().for_each(|iface| *iface = numbers.iface(*iface));
        Self {
            specs,
            plan: sorted,
            links: numbers.links.old.iter().map(|old| LinkId::at(*old)).collect(),
            flows: numbers.flows.old.iter().map(|old| FlowId::at(*old)).collect(),
        }
    }
}

/// The multipath settings of a flow, if it has any.
fn multipath_mut(traffic: &mut Traffic) -> Option<&mut Multipath> {
    match traffic {
        Traffic::Bulk { tcp, .. }
        | Traffic::Transfers { tcp, .. }
        | Traffic::Rpc { tcp, .. }
        | Traffic::Requests { tcp, .. } => tcp.multipath.as_mut(),
        Traffic::Paced { .. } | Traffic::Controlled { .. } | Traffic::Queries { .. } => None,
    }
}
