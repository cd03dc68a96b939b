//! The topology of a record: nodes with positions, and links with descriptions.

use crate::record::{NodeRole, Topology, TopologyLink, TopologyNode};
use base::Direction;
use fabric::{LinkConfig, Loss, QueueLimit, Rate};
use lab::plan::{Link, Node, Plan, Role};

/// Maximum number of directed links whose samples are recorded, in a lab with session generators.
/// With more, only samples of links in expectations are recorded; totals are always reported.
const MAX_SAMPLED_DIRECTIONS: usize = 10_000;

/// The nodes, links and layout of a plan, without hosts that exist only for generated sessions.
/// The layout is the same for the same seed.
pub fn topology(plan: &Plan) -> Topology {
    let hidden = session_hosts(plan);
    let is_node_shown = |node: usize| !hidden[node];
    let mut numbers = vec![0; plan.nodes.len()];
    let mut next = 0;
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = next;
        next += u32::from(is_node_shown(at));
    }
    let nodes = plan.nodes.iter().enumerate().filter(|(at, _)| is_node_shown(*at));
    let nodes: Vec<&Node> = nodes.map(|(_, node)| node).collect();
    let is_shown = |link: &&Link| link.ends.iter().all(|end| is_node_shown(end.index()));
    let shown_links: Vec<&Link> = plan.links.iter().filter(is_shown).collect();
    let links: Vec<[u32; 2]> =
        shown_links.iter().map(|link| link.ends.map(|end| numbers[end.index()])).collect();
    let positions = topology::layout::place(nodes.len(), &links, plan.seed);
    let nodes = nodes.into_iter().zip(positions).map(|(node, [x, y])| TopologyNode {
        name: node.name.clone(),
        role: match node.kind {
            Role::Host => NodeRole::Host,
            Role::Router => NodeRole::Router,
            Role::Switch => NodeRole::Switch,
            Role::SendBox => NodeRole::SendBox,
            Role::ReceiveBox => NodeRole::ReceiveBox,
        },
        x,
        y,
        addresses: addresses(plan, node),
    });
    let links = shown_links.into_iter().map(|link| {
        let both = |pick: fn(&LinkConfig) -> String| {
            Direction::BOTH.map(|direction| pick(&link.directions[direction.index()]))
        };
        TopologyLink {
            name: link.name.clone(),
            ends: link.ends.map(|end| plan.nodes[end.index()].name.clone()),
            text: both(description),
            rate_bit_per_s: Direction::BOTH.map(|direction| {
                match link.directions[direction.index()].rate {
                    Rate::Constant(rate) => Some(rate.bits_per_sec()),
                    Rate::Unlimited | Rate::Trace(_) => None,
                }
            }),
            delay_ns: Direction::BOTH
                .map(|direction| link.directions[direction.index()].delay.as_nanos()),
        }
    });
    Topology { nodes: nodes.collect(), links: links.collect() }
}

fn addresses(plan: &Plan, node: &lab::plan::Node) -> Vec<String> {
    let mut texts = Vec::new();
    for iface in node.ifaces.iter().map(|iface| &plan.ifaces[iface.index()]) {
        texts.extend(iface.v4.map(|(v4, prefix)| format!("{v4}/{prefix}")));
        texts.extend(iface.v6.map(|(v6, prefix)| format!("{v6}/{prefix}")));
    }
    texts
}

/// A description of one direction of a link: `10 Mbit/s, 25 ms, fq-codel, loss 0.1 %`.
fn description(config: &LinkConfig) -> String {
    let mut parts = Vec::new();
    match &config.rate {
        Rate::Unlimited => {}
        Rate::Constant(rate) => parts.push(rate.to_string()),
        Rate::Trace(trace) => parts.push(format!("trace of {}", trace.period)),
    }
    if config.delay.is_positive() {
        parts.push(config.delay.to_string());
    }
    if config.rate != Rate::Unlimited {
        let discipline = config.queue.discipline.name();
        parts.push(match config.queue.limit {
            QueueLimit::UNLIMITED => format!("{discipline} without limit"),
            QueueLimit::Packets(packets) => format!("{discipline} of {packets} packets"),
            QueueLimit::Bytes(bytes) => format!("{discipline} of {bytes}"),
        });
    }
    match &config.loss {
        Loss::None => {}
        Loss::Bernoulli(share) => parts.push(format!("loss {share}")),
        Loss::GilbertElliott { .. } => parts.push("bursty loss".to_owned()),
    }
    if config.jitter.is_some() {
        parts.push("jitter".to_owned());
    }
    if config.reorder.is_some() {
        parts.push("reordering".to_owned());
    }
    if parts.is_empty() { "no limits".to_owned() } else { parts.join(", ") }
}

/// Whether each node is a host that only generated sessions use. Their number is too high for
/// reports of single hosts.
fn session_hosts(plan: &Plan) -> Vec<bool> {
    let mut hosts = vec![false; plan.nodes.len()];
    for session in plan.sessions.iter().flat_map(|generator| &generator.sessions) {
        for end in [session.from, session.to] {
            let node = &plan.nodes[end.index()];
            hosts[end.index()] = node.kind == Role::Host && node.ifaces.len() == 1;
        }
    }
    for flow in &plan.flows {
        hosts[flow.from.index()] = false;
        hosts[flow.to.index()] = false;
    }
    hosts
}

/// Whether each position of links is reported, and whether its samples are recorded.
pub(crate) fn positions(plan: &Plan, named: &[bool]) -> (Vec<bool>, Vec<bool>) {
    if plan.sessions.is_empty() {
        return (vec![true; named.len()], vec![true; named.len()]);
    }
    let hosts = session_hosts(plan);
    let is_shown = |at: usize| !plan.links[at / 2].ends.iter().any(|end| hosts[end.index()]);
    let reported: Vec<bool> =
        named.iter().enumerate().map(|(at, named)| *named || is_shown(at)).collect();
    let count = reported.iter().filter(|reported| **reported).count();
    let sampled = if count > MAX_SAMPLED_DIRECTIONS { named.to_vec() } else { reported.clone() };
    (reported, sampled)
}
