//! `[cluster]` and what nodes ask of machines, written out.

use base::NodeId;

use super::{Pair, list, node_name, quantity, text};
use crate::plan::{Cluster, Plan};

/// The section; `None` where nothing would be in it.
pub(super) fn section(plan: &Plan) -> Option<Vec<Pair>> {
    let cluster = &plan.cluster;
    let plain = Cluster { nodes: cluster.nodes.clone(), ..Cluster::default() };
    if *cluster == plain {
        return None;
    }
    let groups = |groups: &[Vec<NodeId>]| {
        let group = |group: &Vec<NodeId>| list(group.iter().map(|id| text(node_name(plan, *id))));
        list(groups.iter().map(group))
    };
    Some(vec![
        ("on_agent_loss", text(cluster.on_loss.as_str())),
        ("apart", groups(&cluster.apart)),
        ("together", groups(&cluster.together)),
        ("spread", text(cluster.spread.as_str())),
        ("files", list(cluster.files.iter().map(|pattern| text(pattern)))),
    ])
}

/// A node's own wishes.
pub(super) fn node(plan: &Plan, node: NodeId) -> Vec<Pair> {
    let wishes = plan.cluster.wishes(node);
    let machine = wishes.machine.map(|machine| ("machine", text(&machine)));
    let cpus = wishes.cpus.map(|cpus| ("cpus", cpus.to_string()));
    let memory = wishes.memory.map(|memory| ("memory", quantity(memory)));
    machine.into_iter().chain(cpus).chain(memory).collect()
}
