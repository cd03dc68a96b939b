//! Progressive filling of the flows that a change reaches, the others held.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::state::{AT_CAP, Hop, LinkFill, NOWHERE};
use super::{FlowKey, Solver};

/// Levels are not negative, so that their bit patterns order as they do.
type Entry = Reverse<(u64, u32)>;

/// Set in an entry's second part: it is a flow's cap, else a link.
pub(super) const CAP: u32 = 1 << 31;

/// Lists kept from one refill to the next for their memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    epoch: u32,
    /// Flows that are refilled, in the order in which they were reached.
    active: Vec<u32>,
    /// Links that they cross.
    touched: Vec<u32>,
    /// Whose bottleneck condition the last round broke.
    broken: Vec<u32>,
    heap: Vec<Entry>,
}

impl Solver {
    /// Refills what the collected changes reach.
    pub(super) fn refill(&mut self) {
        self.scratch.epoch = self.scratch.epoch.wrapping_add(1).max(1);
        self.scratch.active.clear();
        self.scratch.touched.clear();
        self.seed();
        let mut round = 0;
        loop {
            round += 1;
            self.fill(round);
            self.find_broken();
            if self.scratch.broken.is_empty() {
                break;
            }
            self.join_broken();
        }
        self.commit();
    }

    /// Flows that are refilled in any case: those that changed, and those bottlenecked at links
    /// that changed or that a changed flow crosses.
    fn seed(&mut self) {
        let mut broken = std::mem::take(&mut self.scratch.broken);
        for index in 0..self.dirty_flows.len() {
            let flow = self.dirty_flows[index];
            let state = &mut self.flows[flow as usize];
            state.dirty = false;
            if !state.alive {
                continue;
            }
            broken.push(flow);
            for hop in &state.hops {
                let link = &self.links[hop.link as usize];
                broken.extend(link.members[..link.bound as usize].iter().map(|m| m.flow));
            }
        }
        self.dirty_flows.clear();
        for index in 0..self.dirty_links.len() {
            let link = &mut self.links[self.dirty_links[index] as usize];
            link.dirty = false;
            // Below a lowered capacity, flows bottlenecked elsewhere suffer too.
            let over = link.load > link.capacity * (1.0 + self.tolerance);
            let reached = if over { link.members.len() } else { link.bound as usize };
            broken.extend(link.members[..reached].iter().map(|m| m.flow));
        }
        self.dirty_links.clear();
        self.scratch.broken = broken;
        self.join_broken();
    }

    fn join_broken(&mut self) {
        let mut broken = std::mem::take(&mut self.scratch.broken);
        for flow in broken.drain(..) {
            self.join(flow);
        }
        self.scratch.broken = broken;
    }

    fn join(&mut self, key: u32) {
        let epoch = self.scratch.epoch;
        let flow = &mut self.flows[key as usize];
        if flow.epoch == epoch {
            return;
        }
        flow.epoch = epoch;
        flow.frozen = 0;
        self.scratch.active.push(key);
        for hop in &flow.hops {
            let link = &mut self.links[hop.link as usize];
            if link.fill.epoch != epoch {
                link.fill = LinkFill { epoch, ..LinkFill::default() };
                self.scratch.touched.push(hop.link);
            }
            link.fill.active += 1;
            link.fill.active_bound += u32::from(flow.bottleneck == hop.link);
            link.fill.returned += flow.rate;
            link.fill.weight += flow.weight;
        }
    }

    /// One round: rates of the active flows from scratch.
    fn fill(&mut self, round: u32) {
        let mut entries = std::mem::take(&mut self.scratch.heap);
        entries.clear();
        for key in &self.scratch.touched {
            let link = &mut self.links[*key as usize];
            let fill = &mut link.fill;
            fill.residual = (link.capacity - (link.load - fill.returned)).max(0.0);
            fill.open = fill.active;
            fill.open_weight = fill.weight;
            fill.peak = 0.0;
            fill.filled = -1.0;
            if link.capacity.is_finite() {
                entries.push(Reverse(((fill.residual / fill.weight).to_bits(), *key)));
            }
        }
        for key in &self.scratch.active {
            let flow = &self.flows[*key as usize];
            // No link gives more than its capacity: most caps cannot bind.
            let binds = flow.hops.iter().all(|h| flow.cap <= self.links[h.link as usize].capacity);
            if binds {
                entries.push(Reverse(((flow.cap / flow.weight).to_bits(), *key | CAP)));
            }
        }
        let mut heap = BinaryHeap::from(entries);
        while let Some(mut least) = heap.peek_mut() {
            let Reverse((bits, key)) = *least;
            let level = f64::from_bits(bits);
            if key & CAP != 0 {
                PeekMut::pop(least);
                let flow = &self.flows[(key & !CAP) as usize];
                if flow.frozen != round {
                    let rate = flow.cap;
                    self.freeze(key & !CAP, round, rate, level, AT_CAP);
                }
                continue;
            }
            let fill = &self.links[key as usize].fill;
            if fill.open == 0 {
                PeekMut::pop(least);
                continue;
            }
            let now = fill.residual.max(0.0) / fill.open_weight;
            if now > level * (1.0 + 1e-12) {
                *least = Reverse((now.to_bits(), key));
                continue;
            }
            PeekMut::pop(least);
            self.fill_link(key, round);
        }
        self.scratch.heap = heap.into_vec();
    }

    /// A link is full: freezes its open flows at its level.
    fn fill_link(&mut self, key: u32, round: u32) {
        let epoch = self.scratch.epoch;
        let members = std::mem::take(&mut self.links[key as usize].members);
        // Summed here and not taken from the running differences, whose rounding may have added
        // up to more than what is left.
        let (mut used, mut weight) = (0.0, 0.0);
        for member in &members {
            let flow = &self.flows[member.flow as usize];
            if flow.epoch != epoch {
                used += flow.rate;
            } else if flow.frozen == round {
                used += flow.next;
            } else {
                weight += flow.weight;
            }
        }
        let level = (self.links[key as usize].capacity - used).max(0.0) / weight;
        for member in &members {
            let flow = &self.flows[member.flow as usize];
            if flow.epoch == epoch && flow.frozen != round {
                let rate = (flow.weight * level).min(flow.cap);
                self.freeze(member.flow, round, rate, level, key);
            }
        }
        let link = &mut self.links[key as usize];
        link.members = members;
        link.fill.filled = level;
    }

    fn freeze(&mut self, key: u32, round: u32, rate: f64, level: f64, bottleneck: u32) {
        let flow = &mut self.flows[key as usize];
        flow.frozen = round;
        flow.next = rate;
        flow.next_bottleneck = bottleneck;
        for hop in &flow.hops {
            let fill = &mut self.links[hop.link as usize].fill;
            fill.residual -= rate;
            fill.open -= 1;
            fill.open_weight -= flow.weight;
            fill.peak = fill.peak.max(level);
        }
    }

    /// Collects the held flows whose bottleneck condition no longer holds.
    fn find_broken(&mut self) {
        let epoch = self.scratch.epoch;
        let (above, below) = (1.0 + self.tolerance, 1.0 - self.tolerance);
        let broken = &mut self.scratch.broken;
        for key in &self.scratch.touched {
            let link = &self.links[*key as usize];
            let fill = &link.fill;
            let held = |m: &&super::Member| self.flows[m.flow as usize].epoch != epoch;
            let (bound, others) = link.members.split_at(link.bound as usize);
            let all_bound_active = fill.active_bound == link.bound;
            if fill.filled >= 0.0 {
                // Held flows above the level take from the refilled ones, and those bottlenecked
                // here below it may have more.
                let most = fill.filled * above;
                if fill.filled < link.level || link.bound == 0 {
                    let rich = others.iter().filter(held);
                    let rich = rich.filter(|m| self.flows[m.flow as usize].level > most);
                    broken.extend(rich.map(|m| m.flow));
                }
                let differs = link.level > most || link.level < fill.filled * below;
                if !all_bound_active && differs {
                    broken.extend(bound.iter().filter(held).map(|m| m.flow));
                }
            } else if !all_bound_active {
                // Nobody is refilled up to this link's limit: is it still full, and nobody above?
                let load = fill.active_load(link.capacity, link.load);
                if load < link.capacity * below || fill.peak > link.level * above {
                    broken.extend(bound.iter().filter(held).map(|m| m.flow));
                }
            }
        }
    }

    /// Makes the refill's rates the rates.
    fn commit(&mut self) {
        let active = std::mem::take(&mut self.scratch.active);
        let same = self.tolerance / 4.0;
        for key in &active {
            let flow = &mut self.flows[*key as usize];
            let bottleneck = flow.next_bottleneck;
            debug_assert!(bottleneck != NOWHERE);
            let change = flow.next - flow.rate;
            if change.abs() > same * flow.next.max(flow.rate) || flow.rate > flow.cap {
                flow.rate = flow.next;
                flow.level = flow.rate / flow.weight;
                for hop in 0..flow.hops.len() {
                    let Hop { link, .. } = self.flows[*key as usize].hops[hop];
                    self.add_load(link, change);
                }
                self.changed.push(FlowKey(*key));
            }
            self.set_bottleneck(*key, bottleneck);
        }
        for key in &self.scratch.touched {
            let link = &mut self.links[*key as usize];
            if link.fill.filled >= 0.0 {
                link.level = link.fill.filled;
            }
        }
        self.scratch.active = active;
    }
}

impl LinkFill {
    /// A link's load with the refilled rates in place of the earlier ones.
    fn active_load(&self, capacity: f64, load: f64) -> f64 {
        let available = capacity - (load - self.returned);
        load - self.returned + (available.max(0.0) - self.residual)
    }
}
