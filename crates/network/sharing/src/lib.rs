//! Weighted max-min sharing of links among flows, with upper bounds.
//!
//! **Problem.** Flow *i* crosses the links of its path with rate rᵢ ≤ capᵢ; the rates on a link sum
//! to its capacity at most. Exactly one of these allocations is weighted max-min fair: no flow's
//! level rᵢ/wᵢ can be raised without lowering one that is not higher. In this allocation each flow
//! is at its cap or crosses a *bottleneck*: a full link on which no flow's level exceeds its own
//! (Bertsekas and Gallager, *Data Networks*, §6.5.2). With wᵢ = 1/RTTᵢ and capᵢ = windowᵢ/RTTᵢ this
//! is the RTT-aware sharing of long TCP flows ([`tcp`]).
//!
//! **Solver.** Progressive filling: all levels rise together from zero; the link or cap that binds
//! first freezes its flows. [`Solver`] maintains the allocation while flows start and end, and
//! refills only the affected flows, in rounds. The first round refills the flows at the changed
//! links and keeps the rates of all others. Each further round adds the flows whose bottleneck
//! condition no longer holds, until all conditions hold. The optimum is unique, so this allocation
//! is the optimum. If a change affects a large part of a large network, one round with all flows
//! costs less than many rounds, and the solver refills all flows.
//!
//! **Senders.** In a decentralised emulation each sender has a [`FlowTable`], created from the
//! topology and changed by [`Notice`]s alone: a flow has started, ended, or changed its demand.
//!
//! Results depend only on the sequence of calls: nothing is hashed, and equal levels are processed
//! in the order of identifiers.
#![forbid(unsafe_code)]

mod notice;
mod problem;
mod solver;
mod table;
pub mod tcp;

pub use notice::{FlowName, Notice};
pub use problem::{Demand, Problem};
pub use solver::{Bottleneck, FlowKey, LinkKey, Solver};
pub use table::{FlowTable, Path, Sharing, SharingPolicy, Window};
