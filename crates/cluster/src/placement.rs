//! Which machine has which hosts.
//!
//! **Problem.** No machine may be given more than it can hold: hosts, memory, cores, and emulated
//! traffic over its interface and through its processors in the worst case that the lab's rates
//! allow. Among all assignments that keep to this, hosts that talk much stay together: the less
//! traffic is cut, the less the physical network can disturb it. `SplayNet` §3.4.3 chooses
//! machines with regard to their links; this regards processors and memory as well.
//!
//! **Worst case.** What a machine's hosts can send to all others is at most the maximum flow from
//! the ones to the others over the topology's link capacities (Ford and Fulkerson 1956), where a
//! host on which no program runs sends no more than its declared flows. Routes only lower it.
//!
//! **Search.** What must stay together is one atom. Atoms are assigned one by one, heaviest
//! first, each where it talks most; then moved, best gain first and each once a pass, keeping the
//! best state of the pass (Fiduccia and Mattheyses 1982, after Kernighan and Lin 1970). There is
//! nothing random in it.

mod affinity;
mod atoms;
mod demand;
mod limits;
mod network;
mod refusal;
mod report;
mod search;
mod table;

use base::{Bandwidth, Bytes, FlowId, NodeId, ProgramId, Span};
use lab::plan::Plan;
use serde::Serialize;

use crate::{AgentId, Assignment, Resources};

pub use limits::{BYTE_END, HEADROOM, HOST_MEMORY, PACKET_END, PIECE_MEMORY, TRUNK_END};
pub use limits::{Resource, TRUNK_OVERHEAD};
pub use refusal::{Problem, Refusal};
pub use table::{json, table};

/// A machine that hosts can be on.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Of its agent.
    pub name: String,
    /// What it can hold beside the labs that are there.
    pub resources: Resources,
}

/// What placing goes by beside the lab and the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// One-way delay between two machines, as the slowest pair has it.
    pub physical: Span,
    /// Let the worst case exceed cores, traffic and interfaces, with a warning: for labs whose
    /// programs send far less than their links would let them.
    pub overcommit: bool,
}

impl Default for Terms {
    /// Machines in one rack: about 50 µs through two kernels and a switch.
    fn default() -> Self {
        Self { physical: Span::from_micros(50), overcommit: false }
    }
}

/// Who has what.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The agent of each node, by position among `machines`.
    pub assignment: Assignment,
    /// The machines that have hosts, by [`AgentId`].
    pub machines: Vec<Share>,
    /// Declared flows between two machines.
    pub cut: Vec<CutFlow>,
    /// Why hosts are where they are, where it is not for balance alone.
    pub reasons: Vec<String>,
    /// What may disturb the run; part of its verdict.
    pub warnings: Vec<String>,
}

/// What a machine has of the lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Its agent's name.
    pub name: String,
    /// Its position among the machines that were offered.
    #[serde(skip)]
    pub machine: usize,
    /// Nodes with namespaces.
    #[serde(skip)]
    pub hosts: Vec<NodeId>,
    /// Programs on them.
    #[serde(skip)]
    pub programs: Vec<ProgramId>,
    /// Cores that the lab asks for its programs.
    pub program_cores: f64,
    /// Cores that carry the emulated traffic in the worst case; `None`: nothing bounds it.
    pub traffic_cores: Option<f64>,
    /// Memory of programs, hosts and the emulation itself.
    #[serde(serialize_with = "report::bytes")]
    pub memory: Bytes,
    /// Emulated traffic to other machines in the worst case.
    pub out: Bound,
    /// Emulated traffic from other machines in the worst case.
    #[serde(rename = "in")]
    pub into: Bound,
    /// Emulated traffic between its own hosts in the worst case.
    pub inside: Bound,
}

/// How much traffic there can be, and why not more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// At most this; `None`: nothing in the lab bounds it.
    #[serde(serialize_with = "report::rate")]
    pub rate: Option<Bandwidth>,
    /// What bounds it.
    pub by: BoundedBy,
}

/// What bounds traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundedBy {
    /// The rates of links: a maximum flow.
    Links,
    /// The rates of declared flows: there are no programs that could send more.
    Flows,
    /// Nothing: links without a rate.
    Nothing,
}

/// A declared flow whose ends are on different machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CutFlow {
    /// Which.
    #[serde(skip)]
    pub flow: FlowId,
    /// Where it begins and ends.
    pub machines: [AgentId; 2],
    /// What it sends at most, as far as known.
    #[serde(serialize_with = "report::rate")]
    pub rate: Option<Bandwidth>,
    /// The emulated delay there; what it has above the physical one is the time that a packet has
    /// to cross the physical network (its lead).
    #[serde(serialize_with = "report::span")]
    pub delay: Option<Span>,
}

impl Share {
    /// What the machine is to keep for the lab. Traffic that nothing bounds takes all that there
    /// is of it.
    pub fn needs(&self, offered: &Resources) -> Resources {
        let worst = |a: Bound, b: Bound| Some(a.rate?.max(b.rate?));
        let nic = worst(self.out, self.into).map(limits::on_the_wire);
        let carried = limits::carried(self);
        Resources {
            cores: self.traffic_cores.map_or(offered.cores, |traffic| {
                (self.program_cores + traffic / HEADROOM).min(offered.cores)
            }),
            memory: self.memory,
            nic: offered.nic.map(|all| nic.map_or(all, |part| part.min(all))),
            traffic: offered.traffic.map(|all| carried.map_or(all, |part| part.min(all))),
            hosts: self.hosts.len() as u32,
        }
    }
}

/// Decides who has what.
///
/// # Errors
/// [`Refusal`] with the numbers, if there is no way to keep to the machines' limits, the lab's
/// wishes contradict each other, or the lab cannot be spread at all.
pub fn place(plan: &Plan, machines: &[Machine], terms: &Terms) -> Result<Placement, Refusal> {
    refusal::refuse_impossible(plan, machines)?;
    let atoms = atoms::atoms(plan, machines)?;
    let demand = demand::Demand::of(plan);
    let network = network::Network::of(plan, &demand);
    let affinity = affinity::Affinity::of(plan, &demand, &atoms, terms);
    let mut limits = limits::Limits::new(plan, machines, terms, &atoms, &demand, network);
    refusal::refuse_too_much(plan, machines, &atoms, &limits)?;
    let found = search::search(plan.cluster.spread, &atoms, &affinity, &mut limits);
    match found {
        Ok(owner) => Ok(report::placement(plan, terms, &atoms, &demand, &mut limits, &owner)),
        Err(stuck) => Err(refusal::no_room(plan, machines, &atoms, &stuck)),
    }
}

#[cfg(test)]
mod tests;
