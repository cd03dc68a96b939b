//! State of links and flows, and the bottleneck of each flow.
//!
//! Data that a refill reads and writes for every flow and hop is separate from the rest and
//! compact, so that large networks fit into the processor's caches.

use std::cmp::Reverse;

/// Stands for the flow's own cap in place of a bottleneck link.
pub(super) const AT_CAP: u32 = u32::MAX;
/// Stands for an unknown bottleneck link.
pub(super) const NOWHERE: u32 = u32::MAX - 1;

/// The state of a flow in a refill; outside of refills all flows are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The entry is unused.
    Vacant,
    /// Not refilled: the flow keeps its rate.
    Held,
    /// Refilled, with a rising rate.
    Open,
    /// Refilled, with its final rate.
    Frozen,
}

/// The data of a flow for refills: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Flow {
    /// Its rate: for a frozen flow the new one, else the old one.
    pub(super) given: f64,
    pub(super) weight: f64,
    pub(super) cap: f64,
    /// Position of its path in [`Paths`].
    pub(super) first: u32,
    pub(super) hops: u16,
    pub(super) phase: Phase,
    pub(super) dirty: bool,
}

/// Data of a flow that is needed only when its rate is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assignment {
    pub(super) rate: f64,
    pub(super) bottleneck: u32,
    /// The bottleneck computed by the refill.
    pub(super) next: u32,
}

/// The hops of all flows; those of one flow are contiguous.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    pub(super) links: Vec<u32>,
    /// Positions of the flows in the links' lists of members.
    pub(super) positions: Vec<u32>,
    /// Starts of unused runs, by length.
    free: Vec<Vec<u32>>,
}

#[derive(Clone, Debug)]
pub(super) struct LinkState {
    /// Sum of the members' rates.
    pub(super) load: f64,
    /// `load × now + offset` are the bits carried until now.
    pub(super) offset: f64,
    /// Level of the flows bottlenecked here, if there are any.
    pub(super) level: f64,
    /// Sum of the members' weights, if known.
    pub(super) weight: Option<f64>,
    /// The flows on the link: first those that are bottlenecked here.
    pub(super) members: Vec<u32>,
    /// Number of flows bottlenecked here.
    pub(super) bound: u32,
    /// Number of additions to `load` since it was last recomputed.
    pub(super) additions: u32,
    pub(super) dirty: bool,
    /// Whether it is in the solver's list of links that have become or ceased to be a bottleneck.
    pub(super) turned: bool,
}

/// A link's refilled flows; empty outside of refills.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    /// Their number, and the number of them that were bottlenecked here.
    pub(super) active: u32,
    pub(super) active_bound: u32,
    /// The sum of their earlier rates.
    pub(super) returned: f64,
    pub(super) weight: f64,
}

/// The data of a link while it is filled: half a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Filling {
    /// Remaining capacity for the flows that are not frozen, and their weight.
    pub(super) residual: f64,
    pub(super) open_weight: f64,
    /// The highest level of the refilled flows; the link's own level if it is full.
    pub(super) peak: f64,
    /// Number of flows that are not frozen.
    pub(super) open: u32,
    /// Whether the link is full.
    pub(super) full: bool,
}

impl Flow {
    pub(super) const VACANT: Self = Self {
        given: 0.0,
        weight: 1.0,
        cap: 0.0,
        first: 0,
        hops: 0,
        phase: Phase::Vacant,
        dirty: false,
    };

    /// Position of its hops in [`Paths`].
    pub(super) fn path(&self) -> std::ops::Range<usize> {
        self.first as usize..self.first as usize + usize::from(self.hops)
    }

    /// Whether it is refilled.
    pub(super) fn active(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Frozen)
    }
}

impl Assignment {
    pub(super) const NEW: Self = Self { rate: 0.0, bottleneck: NOWHERE, next: NOWHERE };
}

impl Paths {
    /// Allocates space for this many hops.
    pub(super) fn take(&mut self, hops: usize) -> u32 {
        if let Some(first) = self.free.get_mut(hops).and_then(Vec::pop) {
            return first;
        }
        let first = self.links.len();
        self.links.resize(first + hops, 0);
        self.positions.resize(first + hops, 0);
        u32::try_from(first).expect("fewer than 2³² hops")
    }

    pub(super) fn give_back(&mut self, flow: &Flow) {
        let hops = usize::from(flow.hops);
        if self.free.len() <= hops {
            self.free.resize(hops + 1, Vec::new());
        }
        self.free[hops].push(flow.first);
    }

    /// The hop of `flow` at `position` of a link's list.
    pub(super) fn hop(&self, flow: &Flow, link: u32, position: u32) -> usize {
        flow.path()
            .find(|hop| self.links[*hop] == link && self.positions[*hop] == position)
            .expect("members are on the link")
    }
}

impl LinkState {
    pub(super) fn new() -> Self {
        Self {
            load: 0.0,
            offset: 0.0,
            level: 0.0,
            weight: None,
            members: Vec::new(),
            bound: 0,
            additions: 0,
            dirty: false,
            turned: false,
        }
    }
}

/// A level's bit pattern (levels are not negative, so bit patterns have the same order), and below
/// it the constraint that binds there.
pub(super) type Entry = Reverse<u128>;

/// Set in an entry's lower part for a flow's cap; otherwise it is a link.
pub(super) const CAP: u32 = 1 << 31;

/// Lists reused between refills.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    /// Refilled flows, in the order in which they were affected.
    pub(super) active: Vec<u32>,
    /// Links that they cross, and the sum of the numbers of flows there.
    pub(super) touched: Vec<u32>,
    pub(super) members: usize,
    /// Flows whose bottleneck condition the last round violated; may contain duplicates.
    pub(super) broken: Vec<u32>,
    pub(super) heap: Vec<Entry>,
    /// Open flows of a link that is full.
    pub(super) open: Vec<u32>,
}

/// A link of a `Solver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkKey(pub u32);
