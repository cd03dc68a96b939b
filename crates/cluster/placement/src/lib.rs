//! Placement of hosts on machines.
//!
//! **Problem.** A machine must not hold more than its limits: hosts, memory, cores, and the
//! emulated traffic over its interface and through its processors in the worst case that the lab's
//! rates allow. Among the assignments within these limits, hosts with much common traffic stay
//! together, because the physical network disturbs only the traffic between machines. `SplayNet`
//! §3.4.3 chooses machines by their links; this also considers processors and memory.
//!
//! **Worst case.** A machine's hosts send to all others at most the maximum flow between the two
//! sets over the topology's link capacities (Ford and Fulkerson 1956). A host without programs
//! sends at most its declared flows. Routes can only lower this.
//!
//! **Search.** Nodes that must stay together form an atom. Atoms are assigned one by one, heaviest
//! first, each to the machine with which it has the most traffic. Passes then move atoms, best gain
//! first and each atom once per pass, and keep the best state of the pass (Fiduccia and Mattheyses
//! 1982, after Kernighan and Lin 1970). The search is deterministic.
//!
//! | module | contents | source |
//! |---|---|---|
//! | this | assignment of hosts to machines | `SplayNet` §3.4.3 |
//! | [`agreement_cost`] | messages and delay of the agreement on rates under a load | |
//! | [`hosts`] | the file that lists agents and machines | |
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod affinity;
pub mod agreement_cost;
mod atoms;
mod demand;
mod error;
mod feasibility;
pub mod hosts;
mod json;
mod limits;
mod model;
mod network;
mod refusal;
mod report;
mod search;

use lab::plan::Plan;

pub use error::{Error, Result};
pub use json::json;
pub use limits::{BYTE_END, HEADROOM, HOST_MEMORY, PACKET_END, SHARD_MEMORY, TRUNK_END};
pub use limits::{Resource, TRUNK_OVERHEAD};
pub use model::{Bound, BoundedBy, CutFlow, Machine, Placement, Share, Terms};
pub use refusal::{Problem, Refusal, names, rate};

/// Assigns the nodes of a lab to machines.
///
/// # Errors
/// [`Refusal`] with the numbers, if no assignment is within the machines' limits, the lab's
/// constraints contradict each other, or the lab cannot be distributed.
pub fn place(plan: &Plan, machines: &[Machine], terms: &Terms) -> Result<Placement, Refusal> {
    feasibility::refuse_impossible(plan, machines)?;
    let atoms = atoms::atoms(plan, machines)?;
    let demand = demand::Demand::of(plan);
    let network = network::Network::of(plan, &demand);
    let affinity = affinity::Affinity::of(plan, &demand, &atoms, terms);
    let mut limits = limits::Limits::new(plan, machines, terms, &atoms, &demand, network);
    feasibility::refuse_too_much(plan, machines, &atoms, &limits)?;
    let found = search::search(plan.cluster.spread, &atoms, &affinity, &mut limits);
    match found {
        Ok(owner) => Ok(report::placement(plan, terms, &atoms, &demand, &mut limits, &owner)),
        Err(unplaced) => Err(feasibility::no_room(plan, machines, &atoms, &unplaced)),
    }
}

#[cfg(test)]
mod tests;
