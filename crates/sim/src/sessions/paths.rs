//! The paths of sessions.

use base::NodeId;
use lab::plan::Plan;
use lab::routes::{Pair, Paths, flow_hash};

/// The directed links from one node to another for each pair, while link *l* is in service iff
/// `up[l]`; `None` where there is no way. Among equal ways the names of the ends decide.
pub(super) fn paths(plan: &Plan, up: &[bool], pairs: &[(NodeId, NodeId)]) -> Vec<Option<Vec<u32>>> {
    let name = |node: NodeId| plan.nodes[node.index()].name.as_str();
    let pair = |&(from, to): &(NodeId, NodeId)| Pair {
        from,
        to,
        hash: flow_hash(name(from), name(to), ""),
    };
    let pairs: Vec<Pair> = pairs.iter().map(pair).collect();
    let paths = Paths::compute(plan, up, &pairs);
    paths.iter().map(|path| (!path.is_empty()).then(|| path.to_vec())).collect()
}
