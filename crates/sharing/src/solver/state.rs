//! What is kept of links and flows, and who is bottlenecked where.
//!
//! What a refill reads and writes for every flow and hop lies apart from the rest, small and
//! close together, so that large networks stay in the processor's caches.

use super::{LinkKey, Solver};

/// In place of a bottleneck link: the flow's own cap.
pub(super) const AT_CAP: u32 = u32::MAX;
/// In place of a bottleneck link: not known yet.
pub(super) const NOWHERE: u32 = u32::MAX - 1;

/// How a refill sees a flow; outside of refills all flows are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No flow has this key.
    Vacant,
    /// Not refilled: it keeps its rate.
    Held,
    /// Refilled, and still rising.
    Open,
    /// Refilled, and at its rate.
    Frozen,
}

/// A flow as refills see it: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Flow {
    /// Its rate, as far as it is known: of a frozen flow the new one, else the old one.
    pub(super) given: f64,
    pub(super) weight: f64,
    pub(super) cap: f64,
    /// Its path in [`Paths`].
    pub(super) first: u32,
    pub(super) hops: u16,
    pub(super) phase: Phase,
    pub(super) dirty: bool,
}

/// What of a flow is needed only when its rate is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) rate: f64,
    pub(super) bottleneck: u32,
    /// The bottleneck that the refill gives.
    pub(super) next: u32,
}

/// All flows' hops; those of one flow side by side.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    pub(super) links: Vec<u32>,
    /// Where the links' lists of members have the flows.
    pub(super) positions: Vec<u32>,
    /// Beginnings of unused runs, by their length.
    free: Vec<Vec<u32>>,
}

#[derive(Clone, Debug)]
pub(super) struct LinkState {
    /// Sum of the members' rates.
    pub(super) load: f64,
    /// `load × now + offset` is what was carried until now, in bits.
    pub(super) offset: f64,
    /// Level of the flows bottlenecked here, while there are any.
    pub(super) level: f64,
    /// Sum of the members' weights, where it is known.
    pub(super) weight: Option<f64>,
    /// The flows on the link: first those that are bottlenecked here.
    pub(super) members: Vec<u32>,
    /// How many are bottlenecked here.
    pub(super) bound: u32,
    /// Additions to `load` since it was last summed anew.
    pub(super) additions: u32,
    pub(super) dirty: bool,
    /// Whether it is in the solver's list of links that turned.
    pub(super) turned: bool,
}

/// A link's refilled flows; without any outside of refills.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    /// Their number, and how many of them were bottlenecked here.
    pub(super) active: u32,
    pub(super) active_bound: u32,
    /// Their rates before.
    pub(super) returned: f64,
    pub(super) weight: f64,
}

/// A link while it is filled: half a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Filling {
    /// What is left for the flows that are not frozen yet, and their weight.
    pub(super) residual: f64,
    pub(super) open_weight: f64,
    /// The highest level among the refilled flows; the link's own where it filled up.
    pub(super) peak: f64,
    /// The number of flows that are not frozen yet.
    pub(super) open: u32,
    /// Whether it filled up.
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

    /// Where [`Paths`] has its hops.
    pub(super) fn path(&self) -> std::ops::Range<usize> {
        self.first as usize..self.first as usize + usize::from(self.hops)
    }

    /// Whether it is refilled.
    pub(super) fn active(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Frozen)
    }
}

impl Standing {
    pub(super) const NEW: Self = Self { rate: 0.0, bottleneck: NOWHERE, next: NOWHERE };
}

impl Paths {
    /// Room for this many hops.
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

    /// The hop of `flow` that a link's list has at `position`.
    fn hop(&self, flow: &Flow, link: u32, position: u32) -> usize {
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

impl Solver {
    /// Moves a flow from the bound part of one link's list to that of another's.
    pub(super) fn set_bottleneck(&mut self, flow: u32, to: u32) {
        let from = std::mem::replace(&mut self.standings[flow as usize].bottleneck, to);
        if from == to {
            return;
        }
        for hop in self.flows[flow as usize].path() {
            let (link, position) = (self.paths.links[hop], self.paths.positions[hop]);
            if link == from {
                let state = &mut self.links[link as usize];
                state.bound -= 1;
                let last = state.bound;
                self.swap_members(link, position, last);
                self.turn(link, last == 0);
            } else if link == to {
                let state = &mut self.links[link as usize];
                let first = state.bound;
                state.bound += 1;
                self.swap_members(link, position, first);
                self.turn(link, first == 0);
            }
        }
    }

    fn turn(&mut self, link: u32, turns: bool) {
        if turns && !std::mem::replace(&mut self.links[link as usize].turned, true) {
            self.turned.push(LinkKey(link));
        }
    }

    fn swap_members(&mut self, link: u32, a: u32, b: u32) {
        if a == b {
            return;
        }
        let members = &mut self.links[link as usize].members;
        // Both are looked up before one moves: they may be of one flow.
        let [at_a, at_b] = [a, b].map(|position| {
            let flow = members[position as usize];
            self.paths.hop(&self.flows[flow as usize], link, position)
        });
        members.swap(a as usize, b as usize);
        self.paths.positions[at_a] = b;
        self.paths.positions[at_b] = a;
    }

    /// Takes the member at `position` out of a link's list.
    pub(super) fn remove_member(&mut self, link: u32, position: u32) {
        let state = &mut self.links[link as usize];
        state.weight = None;
        let members = &mut state.members;
        members.swap_remove(position as usize);
        if let Some(moved) = members.get(position as usize) {
            let before = members.len() as u32;
            let hop = self.paths.hop(&self.flows[*moved as usize], link, before);
            self.paths.positions[hop] = position;
        }
    }

    /// Adds the sum of several changes to a link's load, summing it anew now and then, and after a
    /// great fall, so that rounding does not add up.
    pub(super) fn add_load(&mut self, link: u32, change: f64, additions: u32) {
        let state = &mut self.links[link as usize];
        state.additions = state.additions.saturating_add(additions);
        let mut load = state.load + change;
        let fell = load < state.load * 1e-3 || state.members.is_empty();
        if fell || state.additions as usize > 4 * state.members.len() + 64 {
            state.additions = 0;
            load = state.members.iter().fold(0.0, |sum, key| sum + self.flows[*key as usize].given);
        }
        state.offset += (state.load - load) * self.now;
        state.load = load;
    }
}
