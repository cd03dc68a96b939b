//! The network's picture: nodes with places, links with words.

use base::Direction;
use fabric::{Discipline, LinkConfig, Loss, QueueLimit, Rate};
use lab::plan::{Link, Node, Plan, Role};
use record::run::{NodeRole, Topology, TopologyLink, TopologyNode};

use crate::crowd::crowd;

/// The picture of a plan's network; the same for the same seed. Hosts that are there for
/// populations of sessions alone are left out.
pub fn topology(plan: &Plan) -> Topology {
    let crowd = crowd(plan);
    let mut numbers = vec![0; plan.nodes.len()];
    let shown: Vec<&Node> =
        plan.nodes.iter().zip(&crowd).filter(|(_, crowd)| !**crowd).map(|(node, _)| node).collect();
    let mut next = 0;
    for (number, crowd) in numbers.iter_mut().zip(&crowd) {
        *number = next;
        next += u32::from(!crowd);
    }
    let told: Vec<&Link> =
        plan.links.iter().filter(|link| link.ends.iter().all(|end| !crowd[end.index()])).collect();
    let links: Vec<[u32; 2]> =
        told.iter().map(|link| link.ends.map(|end| numbers[end.index()])).collect();
    let places = topology::layout::place(shown.len(), &links, plan.seed);
    let nodes = shown.into_iter().zip(places).map(|(node, [x, y])| TopologyNode {
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
    let links = told.into_iter().map(|link| {
        let both = |pick: fn(&LinkConfig) -> String| {
            Direction::BOTH.map(|direction| pick(&link.directions[direction.index()]))
        };
        TopologyLink {
            name: link.name.clone(),
            ends: link.ends.map(|end| plan.nodes[end.index()].name.clone()),
            text: both(words),
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

/// One direction of a link in words: `10 Mbit/s, 25 ms, fq-codel, loss 0.1 %`.
fn words(config: &LinkConfig) -> String {
    let mut words = Vec::new();
    match &config.rate {
        Rate::Unlimited => {}
        Rate::Constant(rate) => words.push(rate.to_string()),
        Rate::Trace(trace) => words.push(format!("trace of {}", trace.period)),
    }
    if config.delay.is_positive() {
        words.push(config.delay.to_string());
    }
    if config.rate != Rate::Unlimited {
        let discipline = discipline(&config.queue.discipline);
        words.push(match config.queue.limit {
            QueueLimit::UNLIMITED => format!("{discipline} without limit"),
            QueueLimit::Packets(packets) => format!("{discipline} of {packets} packets"),
            QueueLimit::Bytes(bytes) => format!("{discipline} of {bytes}"),
        });
    }
    match &config.loss {
        Loss::None => {}
        Loss::Bernoulli(share) => words.push(format!("loss {share}")),
        Loss::GilbertElliott { .. } => words.push("bursty loss".to_owned()),
    }
    if config.jitter.is_some() {
        words.push("jitter".to_owned());
    }
    if config.reorder.is_some() {
        words.push("reordering".to_owned());
    }
    if words.is_empty() { "no limits".to_owned() } else { words.join(", ") }
}

/// A queue discipline as the lab file calls it.
pub(crate) const fn discipline(discipline: &Discipline) -> &'static str {
    match discipline {
        Discipline::DropTail => "droptail",
        Discipline::DropHead => "drophead",
        Discipline::Red { .. } => "red",
        Discipline::CoDel { .. } => "codel",
        Discipline::FqCoDel { .. } => "fq-codel",
        Discipline::Sfq { .. } => "sfq",
        Discipline::Priority { .. } => "priority",
        Discipline::Drr { .. } => "drr",
        Discipline::Policer { .. } => "policer",
    }
}
