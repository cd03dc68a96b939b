//! Machines offered to a lab, and the placement of the lab on them.

use base::{Bandwidth, Bytes, FlowId, NodeId, ProgramId, Span};
use serde::{Serialize, Serializer};

use cluster::{AgentId, Assignment, Resources};

#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The name of its agent.
    pub name: String,
    /// Free resources, without those of labs that already run there.
    pub resources: Resources,
}

/// Conditions of a placement other than the lab and the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// One-way delay between the slowest pair of machines.
    pub physical: Span,
    /// Only warn if the worst case exceeds cores, traffic or interfaces: for labs whose programs
    /// send much less than their links allow.
    pub overcommit: bool,
}

impl Default for Terms {
    /// Machines in one rack: about 50 µs through two kernels and a switch.
    fn default() -> Self {
        Self { physical: Span::from_micros(50), overcommit: false }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The agent of each node, indexing `machines`.
    pub assignment: Assignment,
    /// The machines with hosts, by [`AgentId`].
    pub machines: Vec<Share>,
    pub cut: Vec<CutFlow>,
    /// Reasons for the place of hosts, other than balance.
    pub reasons: Vec<String>,
    /// Risks for the run, which become part of its verdict.
    pub warnings: Vec<String>,
}

/// The part of the lab on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The name of its agent.
    pub name: String,
    /// Index among the offered machines.
    #[serde(skip)]
    pub machine: usize,
    /// Nodes with namespaces.
    #[serde(skip)]
    pub hosts: Vec<NodeId>,
    #[serde(skip)]
    pub programs: Vec<ProgramId>,
    /// Cores that the lab requests for its programs.
    pub program_cores: f64,
    /// Cores for the emulated traffic in the worst case; `None`: unbounded.
    pub traffic_cores: Option<f64>,
    /// Memory of programs, hosts and the emulation.
    #[serde(serialize_with = "bytes_as_u64")]
    pub memory: Bytes,
    /// Worst-case emulated traffic to other machines.
    pub out: Bound,
    /// Worst-case emulated traffic from other machines.
    #[serde(rename = "in")]
    pub into: Bound,
    /// Worst-case emulated traffic between its own hosts.
    pub inside: Bound,
}

/// The maximum rate of some traffic, and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// `None`: unbounded.
    #[serde(serialize_with = "bits_per_second")]
    pub rate: Option<Bandwidth>,
    pub by: BoundedBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundedBy {
    /// The rates of links: a maximum flow.
    Links,
    /// The rates of declared flows, in a lab without programs.
    Flows,
    /// Unbounded: links without a rate.
    Nothing,
}

/// A declared flow between two machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CutFlow {
    #[serde(skip)]
    pub flow: FlowId,
    pub machines: [AgentId; 2],
    /// Maximum rate, if known.
    #[serde(serialize_with = "bits_per_second")]
    pub rate: Option<Bandwidth>,
    /// Emulated delay. The part above the physical delay is available for crossing the physical
    /// network (the egress lead time).
    #[serde(serialize_with = "nanoseconds")]
    pub delay: Option<Span>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references to fields")]
fn bytes_as_u64<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.count())
}

#[expect(clippy::ref_option, reason = "serde hands over references to fields")]
fn bits_per_second<S: Serializer>(
    rate: &Option<Bandwidth>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match rate {
        Some(rate) => serializer.serialize_some(&rate.bits_per_sec()),
        None => serializer.serialize_none(),
    }
}

#[expect(clippy::ref_option, reason = "serde hands over references to fields")]
fn nanoseconds<S: Serializer>(span: &Option<Span>, serializer: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => serializer.serialize_some(&span.as_nanos()),
        None => serializer.serialize_none(),
    }
}
