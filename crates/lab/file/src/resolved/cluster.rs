//! Writes `[cluster]` and the requirements of nodes.

use base::NodeId;

use super::{Pair, list, node_name, text};
use crate::fields::{CLUSTER, NODE};
use crate::plan::{Cluster, Plan};

/// The section; `None` if it would be empty.
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
        CLUSTER.on_agent_loss.pair(cluster.on_loss),
        ("apart", groups(&cluster.apart)),
        ("together", groups(&cluster.together)),
        CLUSTER.spread.pair(cluster.spread),
        ("files", list(cluster.files.iter().map(|pattern| text(pattern)))),
    ])
}

/// The requirements in a node's table.
pub(super) fn node(plan: &Plan, node: NodeId) -> Vec<Pair> {
    let wishes = plan.cluster.wishes(node);
    let machine = wishes.machine.map(|machine| ("machine", text(&machine)));
    let cpus = wishes.cpus.map(|cpus| NODE.cpus.pair(cpus));
    let memory = wishes.memory.map(|memory| NODE.memory.pair(memory));
    machine.into_iter().chain(cpus).chain(memory).collect()
}
