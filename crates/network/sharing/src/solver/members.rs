//! Membership of flows on links.

use super::Solver;
use super::state::LinkKey;

impl Solver {
    /// Moves a flow from the bottlenecked part of one link's list to that of another's.
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
        // Look up both before a move: they may belong to one flow.
        let [at_a, at_b] = [a, b].map(|position| {
            let flow = members[position as usize];
            self.paths.hop(&self.flows[flow as usize], link, position)
        });
        members.swap(a as usize, b as usize);
        self.paths.positions[at_a] = b;
        self.paths.positions[at_b] = a;
    }

    /// Removes the member at `position` from a link's list.
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

    /// Adds the sum of several changes to a link's load. Recomputes the sum after a number of
    /// additions and after a large decrease, so that rounding errors do not accumulate.
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
