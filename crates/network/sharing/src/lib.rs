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
//! refills only the affected flows: it starts from the flows at the changed links, refills them
//! with all others held, and adds those other flows whose bottleneck condition no longer holds,
//! until there are none. Since the optimum is unique, an allocation in which every condition holds
//! is the optimum. If a change affects a large part of a large network, the solver refills all
//! flows, which costs less than the rounds in which they would be added.
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
