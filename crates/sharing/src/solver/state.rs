//! What is kept of links and flows, and who is bottlenecked where.

use super::{LinkKey, Solver};

/// In place of a bottleneck link: the flow's own cap.
pub(super) const AT_CAP: u32 = u32::MAX;
/// In place of a bottleneck link: not known yet.
pub(super) const NOWHERE: u32 = u32::MAX - 1;

/// A flow's entry in a link's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) flow: u32,
    /// Which of the flow's hops this is.
    pub(super) hop: u32,
}

/// One link of a flow's path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) link: u32,
    /// Where the link's list has this flow.
    pub(super) position: u32,
}

#[derive(Clone, Debug)]
pub(super) struct LinkState {
    pub(super) capacity: f64,
    /// Sum of the members' rates.
    pub(super) load: f64,
    /// `load × now + offset` is what was carried until now, in bits.
    pub(super) offset: f64,
    /// Level of the flows bottlenecked here, while there are any.
    pub(super) level: f64,
    /// The flows on the link: first those that are bottlenecked here.
    pub(super) members: Vec<Member>,
    /// How many are bottlenecked here.
    pub(super) bound: u32,
    /// Additions to `load` since it was last summed anew.
    pub(super) additions: u32,
    pub(super) dirty: bool,
    /// Whether it is in the solver's list of links that turned.
    pub(super) turned: bool,
    pub(super) fill: LinkFill,
}

/// A link during a refill; meaningless where `epoch` is not the refill's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkFill {
    pub(super) epoch: u32,
    /// Refilled flows here: how many, how many of them were bottlenecked here, their rates before
    /// and their weights.
    pub(super) active: u32,
    pub(super) active_bound: u32,
    pub(super) returned: f64,
    pub(super) weight: f64,
    /// What is left for the flows that are not frozen yet, their number and weight.
    pub(super) residual: f64,
    pub(super) open: u32,
    pub(super) open_weight: f64,
    /// The highest level among the refilled flows.
    pub(super) peak: f64,
    /// The level at which the link filled up; negative where it did not.
    pub(super) filled: f64,
}

#[derive(Clone, Debug)]
pub(super) struct FlowState {
    pub(super) rate: f64,
    /// `rate / weight`.
    pub(super) level: f64,
    pub(super) weight: f64,
    pub(super) cap: f64,
    /// Rate that the refill gives; meaningless where `epoch` is not the refill's.
    pub(super) next: f64,
    pub(super) hops: Box<[Hop]>,
    pub(super) bottleneck: u32,
    pub(super) next_bottleneck: u32,
    pub(super) epoch: u32,
    /// The round of the refill that froze it.
    pub(super) frozen: u32,
    pub(super) alive: bool,
    pub(super) dirty: bool,
}

impl LinkState {
    pub(super) fn new(capacity: f64) -> Self {
        Self {
            capacity,
            load: 0.0,
            offset: 0.0,
            level: 0.0,
            members: Vec::new(),
            bound: 0,
            additions: 0,
            dirty: false,
            turned: false,
            fill: LinkFill::default(),
        }
    }

    pub(super) fn set_load(&mut self, load: f64, now: f64) {
        self.offset += (self.load - load) * now;
        self.load = load;
    }
}

impl FlowState {
    pub(super) fn vacant() -> Self {
        Self { alive: false, ..Self::new(Box::default(), 1.0, 0.0) }
    }

    pub(super) fn new(hops: Box<[Hop]>, weight: f64, cap: f64) -> Self {
        Self {
            rate: 0.0,
            level: 0.0,
            weight,
            cap,
            next: 0.0,
            hops,
            bottleneck: NOWHERE,
            next_bottleneck: NOWHERE,
            epoch: 0,
            frozen: 0,
            alive: true,
            dirty: false,
        }
    }
}

impl Solver {
    /// Moves a flow from the bound part of one link's list to that of another's.
    pub(super) fn set_bottleneck(&mut self, flow: u32, to: u32) {
        let from = std::mem::replace(&mut self.flows[flow as usize].bottleneck, to);
        if from == to {
            return;
        }
        for hop in 0..self.flows[flow as usize].hops.len() {
            let Hop { link, position } = self.flows[flow as usize].hops[hop];
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
        let members = &mut self.links[link as usize].members;
        members.swap(a as usize, b as usize);
        for position in [a, b] {
            let member = members[position as usize];
            self.flows[member.flow as usize].hops[member.hop as usize].position = position;
        }
    }

    /// Adds to a link's load, summing it anew now and then so that rounding does not add up.
    pub(super) fn add_load(&mut self, link: u32, change: f64) {
        let state = &mut self.links[link as usize];
        state.set_load(state.load + change, self.now);
        state.additions += 1;
        if state.additions as usize > 4 * state.members.len() + 64 {
            state.additions = 0;
            let load = state.members.iter().map(|m| self.flows[m.flow as usize].rate).sum();
            state.set_load(load, self.now);
        }
    }
}
