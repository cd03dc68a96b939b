//! Progressive filling of the flows that a change affects, with the others held.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::state::{AT_CAP, CAP, Entry, Filling, NOWHERE, Phase, Reached, Scratch};
use super::{FlowKey, Solver};

/// Number of hops up to which the cost of further rounds is negligible.
const SMALL_REFILL_HOPS: usize = 1_000;

impl Solver {
    /// Refills the flows that the collected changes affect.
    pub(super) fn refill(&mut self) {
        self.scratch.active.clear();
        self.scratch.touched.clear();
        self.scratch.members = 0;
        self.seed();
        loop {
            if self.reaches_most() {
                self.open_all();
                self.fill();
                break;
            }
            self.join_broken();
            self.open_reached();
            self.fill();
            self.find_broken();
            if self.scratch.broken.is_empty() {
                break;
            }
        }
        self.commit();
    }

    /// Whether so many flows are affected that one round with all flows is cheaper.
    fn reaches_most(&self) -> bool {
        // `hops`: cost of the last round, which reads all flows on the links of refilled flows.
        // The cost of the next round is unknown, so the number of its flows is compared too.
        let hops = self.scratch.members;
        let flows = self.scratch.active.len() + self.scratch.broken.len();
        let most = |reached: usize, all: usize| reached >= all / 8;
        self.hops > SMALL_REFILL_HOPS && (most(hops, self.hops) || most(flows, self.alive))
    }

    /// Flows that are refilled in any case: those that changed, and those bottlenecked at links
    /// that changed or that a changed flow crosses.
    fn seed(&mut self) {
        let mut broken = std::mem::take(&mut self.scratch.broken);
        broken.clear();
        for index in 0..self.dirty_flows.len() {
            let key = self.dirty_flows[index];
            let flow = &mut self.flows[key as usize];
            flow.dirty = false;
            // If there are this many, all flows are refilled.
            if flow.phase == Phase::Vacant
                || self.hops > SMALL_REFILL_HOPS && broken.len() > self.alive
            {
                continue;
            }
            broken.push(key);
            for link in &self.paths.links[flow.path()] {
                let link = &self.links[*link as usize];
                broken.extend(&link.members[..link.bound as usize]);
            }
        }
        self.dirty_flows.clear();
        for index in 0..self.dirty_links.len() {
            let key = self.dirty_links[index] as usize;
            let link = &mut self.links[key];
            link.dirty = false;
            // A lowered capacity also affects flows that are bottlenecked elsewhere.
            let over = link.load > self.capacities[key] * (1.0 + self.tolerance);
            let reached = if over { link.members.len() } else { link.bound as usize };
            broken.extend(&link.members[..reached]);
        }
        self.dirty_links.clear();
        self.scratch.broken = broken;
    }

    fn join_broken(&mut self) {
        let mut broken = std::mem::take(&mut self.scratch.broken);
        for key in broken.drain(..) {
            self.join(key);
        }
        self.scratch.broken = broken;
    }

    fn join(&mut self, key: u32) {
        let flow = &mut self.flows[key as usize];
        if flow.active() {
            return;
        }
        flow.phase = Phase::Open;
        self.scratch.active.push(key);
        let bottleneck = self.standings[key as usize].bottleneck;
        for link in &self.paths.links[flow.path()] {
            let reached = &mut self.reached[*link as usize];
            if reached.active == 0 {
                self.scratch.touched.push(*link);
                self.scratch.members += self.links[*link as usize].members.len();
            }
            reached.active += 1;
            reached.active_bound += u32::from(bottleneck == *link);
            reached.returned += flow.given;
            reached.weight += flow.weight;
        }
    }

    /// Opens the affected flows, for the capacity that the held ones leave.
    fn open_reached(&mut self) {
        for link in &self.scratch.touched {
            let key = *link as usize;
            let reached = &self.reached[key];
            let held = self.links[key].load - reached.returned;
            self.fillings[key] = Filling {
                residual: (self.capacities[key] - held).max(0.0),
                open_weight: reached.weight,
                open: reached.active,
                ..Filling::default()
            };
        }
        for key in &self.scratch.active {
            self.flows[*key as usize].phase = Phase::Open;
        }
    }

    /// Opens all flows.
    fn open_all(&mut self) {
        let Scratch { active, touched, broken, .. } = &mut self.scratch;
        broken.clear();
        touched.clear();
        for (key, link) in self.links.iter_mut().enumerate() {
            if link.members.is_empty() {
                continue;
            }
            touched.push(key as u32);
            let flows = &self.flows;
            let sum = || link.members.iter().map(|flow| flows[*flow as usize].weight).sum();
            let weight = link.weight.unwrap_or_else(sum);
            link.weight = Some(weight);
            self.fillings[key] = Filling {
                residual: self.capacities[key],
                open_weight: weight,
                open: link.members.len() as u32,
                ..Filling::default()
            };
        }
        active.clear();
        for (key, flow) in self.flows.iter_mut().enumerate() {
            if flow.phase != Phase::Vacant {
                flow.phase = Phase::Open;
                active.push(key as u32);
            }
        }
    }

    /// Collects the constraints that may bind: the levels of links that will not fall later,
    /// and those of caps.
    fn entries(&mut self) -> BinaryHeap<Entry> {
        let mut entries = std::mem::take(&mut self.scratch.heap);
        entries.clear();
        for key in &self.scratch.touched {
            if self.capacities[*key as usize].is_finite() {
                let filling = &self.fillings[*key as usize];
                entries.push(entry(filling.residual / filling.open_weight, *key));
            }
        }
        for key in &self.scratch.active {
            let flow = &self.flows[*key as usize];
            // No flow gets more than a link's capacity, so most caps cannot bind.
            let mut links = self.paths.links[flow.path()].iter();
            if links.all(|link| flow.cap <= self.capacities[*link as usize]) {
                entries.push(entry(flow.cap / flow.weight, *key | CAP));
            }
        }
        BinaryHeap::from(entries)
    }

    /// One round: computes the rates of the open flows from scratch.
    fn fill(&mut self) {
        let mut heap = self.entries();
        while let Some(mut least) = heap.peek_mut() {
            let (level, key) = (f64::from_bits((least.0 >> 32) as u64), least.0 as u32);
            if key & CAP != 0 {
                PeekMut::pop(least);
                let flow = &self.flows[(key & !CAP) as usize];
                if flow.phase == Phase::Open {
                    let rate = flow.cap;
                    self.freeze(key & !CAP, rate, level, AT_CAP);
                }
                continue;
            }
            let filling = &self.fillings[key as usize];
            if filling.open == 0 {
                PeekMut::pop(least);
                continue;
            }
            let now = filling.residual.max(0.0) / filling.open_weight;
            if now > level * (1.0 + 1e-12) {
                *least = entry(now, key);
                continue;
            }
            PeekMut::pop(least);
            self.fill_link(key);
        }
        self.scratch.heap = heap.into_vec();
    }

    /// Freezes the open flows of a full link at its level.
    fn fill_link(&mut self, key: u32) {
        let mut open = std::mem::take(&mut self.scratch.open);
        let members = &self.links[key as usize].members;
        open.resize(members.len().max(open.len()), 0);
        // Summed here instead of using the running differences, whose rounding errors
        // may exceed the remainder.
        let (mut used, mut weight, mut count) = (0.0, 0.0, 0);
        for member in members {
            let flow = &self.flows[*member as usize];
            let is_open = flow.phase == Phase::Open;
            used += if is_open { 0.0 } else { flow.given };
            weight += if is_open { flow.weight } else { 0.0 };
            open[count] = *member;
            count += usize::from(is_open);
        }
        let level = (self.capacities[key as usize] - used).max(0.0) / weight;
        for member in &open[..count] {
            let flow = &self.flows[*member as usize];
            // A flow that crosses the link twice occurs twice.
            if flow.phase == Phase::Open {
                let rate = (flow.weight * level).min(flow.cap);
                self.freeze(*member, rate, level, key);
            }
        }
        self.scratch.open = open;
        let filling = &mut self.fillings[key as usize];
        filling.peak = level;
        filling.full = true;
    }

    fn freeze(&mut self, key: u32, rate: f64, level: f64, bottleneck: u32) {
        let flow = &mut self.flows[key as usize];
        flow.phase = Phase::Frozen;
        flow.given = rate;
        self.standings[key as usize].next = bottleneck;
        for link in &self.paths.links[flow.path()] {
            let filling = &mut self.fillings[*link as usize];
            filling.residual -= rate;
            filling.open -= 1;
            filling.open_weight -= flow.weight;
            filling.peak = filling.peak.max(level);
        }
    }

    /// Collects the held flows whose bottleneck condition no longer holds.
    fn find_broken(&mut self) {
        let (above, below) = (1.0 + self.tolerance, 1.0 - self.tolerance);
        let broken = &mut self.scratch.broken;
        let flows = &self.flows;
        let held = |key: &&u32| flows[**key as usize].phase == Phase::Held;
        for key in &self.scratch.touched {
            let link = &self.links[*key as usize];
            let reached = &self.reached[*key as usize];
            let filling = &self.fillings[*key as usize];
            let (bound, others) = link.members.split_at(link.bound as usize);
            let all_bound_active = reached.active_bound == link.bound;
            if filling.full {
                // Held flows above the level take capacity from the refilled ones, and held flows
                // bottlenecked here below the level may get more.
                let most = filling.peak * above;
                if filling.peak < link.level || link.bound == 0 {
                    broken.extend(others.iter().filter(|key| {
                        let flow = &flows[**key as usize];
                        flow.phase == Phase::Held && flow.given > most * flow.weight
                    }));
                }
                let differs = link.level > most || link.level < filling.peak * below;
                if !all_bound_active && differs {
                    broken.extend(bound.iter().filter(held));
                }
            } else if !all_bound_active {
                // No flow is refilled up to this link's limit: check whether it is full and no
                // flow is above it.
                let capacity = self.capacities[*key as usize];
                let load = reached.load(capacity, link.load, filling.residual);
                if load < capacity * below || filling.peak > link.level * above {
                    broken.extend(bound.iter().filter(held));
                }
            }
        }
    }

    /// Adopts the rates of the refill.
    fn commit(&mut self) {
        let active = std::mem::take(&mut self.scratch.active);
        let touched = std::mem::take(&mut self.scratch.touched);
        for link in &touched {
            self.fillings[*link as usize].residual = 0.0;
        }
        let same = self.tolerance / 4.0;
        for key in &active {
            let flow = &mut self.flows[*key as usize];
            let standing = &mut self.standings[*key as usize];
            flow.phase = Phase::Held;
            let bottleneck = standing.next;
            debug_assert!(bottleneck != NOWHERE);
            let change = flow.given - standing.rate;
            if change.abs() > same * flow.given.max(standing.rate) || standing.rate > flow.cap {
                standing.rate = flow.given;
                for link in &self.paths.links[flow.path()] {
                    // From here on: the changes of its flows, and their number.
                    let filling = &mut self.fillings[*link as usize];
                    filling.residual += change;
                    filling.open += 1;
                }
                self.changed.push(FlowKey(*key));
            } else {
                flow.given = standing.rate;
            }
            self.set_bottleneck(*key, bottleneck);
        }
        for link in &touched {
            let Filling { residual: change, open: changes, peak, full, .. } =
                self.fillings[*link as usize];
            if changes > 0 {
                self.add_load(*link, change, changes);
            }
            if full {
                self.links[*link as usize].level = peak;
            }
            self.reached[*link as usize] = Reached::default();
        }
        self.scratch.active = active;
        self.scratch.touched = touched;
    }
}

fn entry(level: f64, key: u32) -> Entry {
    Reverse(u128::from(level.to_bits()) << 32 | u128::from(key))
}

impl Reached {
    /// A link's load with the rates of the refill in place of the earlier ones.
    fn load(&self, capacity: f64, load: f64, residual: f64) -> f64 {
        let held = load - self.returned;
        held + ((capacity - held).max(0.0) - residual)
    }
}
