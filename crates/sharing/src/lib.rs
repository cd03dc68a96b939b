//! Weighted max-min sharing of links among flows, with upper bounds.
//!
//! **Problem.** Flow *i* crosses the links of its path with rate rᵢ ≤ capᵢ; the rates on a link sum
//! to its capacity at most. Among all such allocations exactly one is weighted max-min fair: no
//! flow's level rᵢ/wᵢ can be raised without lowering one that is no higher. It is the one where
//! each flow is at its cap or crosses a *bottleneck*: a full link on which no flow's level exceeds
//! its own (Bertsekas and Gallager, *Data Networks*, §6.5.2). With wᵢ = 1/RTTᵢ and capᵢ =
//! windowᵢ/RTTᵢ this is the RTT-aware sharing of long TCP flows ([`tcp`]).
//!
//! **Solver.** Progressive filling: all levels rise together from zero; the link or cap that binds
//! first freezes its flows. [`Solver`] keeps the allocation while flows come and go and refills
//! only what a change reaches: it starts from the flows at the links that the change touches,
//! refills them with all others held, and adds those others whose bottleneck condition broke,
//! until none did. The optimum being unique, what then holds everywhere is the optimum. Where a
//! change reaches a great part of a large network, it refills all flows, which costs less than the
//! rounds in which they would be added.
//!
//! **Senders.** In a decentralised emulation each sender keeps a [`FlowTable`], made from the
//! topology and changed by [`Notice`]s alone: a flow has started, ended, or changed what it takes.
//!
//! Results are functions of the sequence of calls alone: nothing is hashed, and equal levels are
//! taken in the order of identifiers.
#![forbid(unsafe_code)]

mod notice;
mod problem;
mod solver;
mod table;
pub mod tcp;

pub use notice::{FlowName, Notice};
pub use problem::{Demand, Problem};
pub use solver::{Bottleneck, FlowKey, LinkKey, Solver};
pub use table::{FlowTable, Law, Path, Sharing, Window};
