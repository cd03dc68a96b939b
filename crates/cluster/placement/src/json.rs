use base::{Bandwidth, NodeId};
use lab::plan::Plan;
use serde_json::{Value, json};

use super::limits::TRUNK_OVERHEAD;
use super::model::{Machine, Placement, Terms};

/// The placement for programs: rates in bit/s, sizes in bytes, times in ns; `null` if a rate is
/// unbounded or unknown.
pub fn json(plan: &Plan, machines: &[Machine], terms: &Terms, placement: &Placement) -> Value {
    let node = |node: &NodeId| plan.nodes[node.index()].name.clone();
    let bits = |rate: Option<Bandwidth>| rate.map(Bandwidth::bits_per_sec);
    let shares = placement.machines.iter().map(|share| {
        let offered = &machines[share.machine].resources;
        let mut value = json!(share);
        value["hosts"] = json!(share.hosts.iter().map(node).collect::<Vec<_>>());
        let programs = share.programs.iter().map(|id| plan.programs[id.index()].name.clone());
        value["programs"] = json!(programs.collect::<Vec<_>>());
        value["offers"] = json!({
            "cores": offered.cores,
            "memory": offered.memory.count(),
            "nic": bits(offered.nic),
            "traffic": bits(offered.traffic),
            "hosts": offered.hosts,
        });
        value
    });
    let cut = placement.cut.iter().map(|flow| {
        let mut value = json!(flow);
        value["flow"] = json!(plan.flows[flow.flow.index()].name);
        let name = |agent: cluster::AgentId| &placement.machines[agent.index()].name;
        value["machines"] = json!(flow.machines.map(name));
        let lead = flow.delay.map(|delay| delay.saturating_sub(terms.physical).as_nanos());
        value["beyond_physical"] = json!(lead);
        value
    });
    json!({
        "lab": plan.name,
        "machines": shares.collect::<Vec<_>>(),
        "idle": machines.len() - placement.machines.len(),
        "cut": cut.collect::<Vec<_>>(),
        "physical_delay": terms.physical.as_nanos(),
        "trunk_overhead": TRUNK_OVERHEAD,
        "notes": placement.reasons,
        "warnings": placement.warnings,
    })
}
