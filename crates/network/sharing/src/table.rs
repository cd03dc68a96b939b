//! A sender's table of all flows.

use std::collections::BTreeMap;

use base::{Bandwidth, Bytes, Span};

use crate::notice::{FlowName, Notice};
use crate::solver::{Bottleneck, FlowKey, LinkKey, Solver};
use crate::tcp;

/// The sharing rule, and the limits of TCP flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharingPolicy {
    /// The sharing rule.
    pub sharing: Sharing,
    /// The window limit of TCP flows.
    pub window: Window,
}

/// The sharing rule of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Max-min fair with weights in inverse proportion to the RTTs.
    #[default]
    RttMaxMin,
    /// Max-min fair with equal weights.
    MaxMin,
    /// Max-min fair, with the rates that agents agree on and pass to [`FlowTable::assign`].
    Slbn,
    /// No sharing: each flow has its path's capacity.
    None,
}

/// The limit of a TCP flow's rate in addition to the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// The observed sending rate.
    #[default]
    Auto,
    /// Only the links limit a flow.
    Off,
    /// This amount of data per RTT.
    Fixed(Bytes),
}

/// A flow's route through the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The link directions of the route.
    pub links: Vec<LinkKey>,
    /// RTT without queueing.
    pub round_trip: Span,
}

/// All flows of a lab and the share of each: created from the topology, updated by [`Notice`]s.
#[derive(Clone, Debug)]
pub struct FlowTable {
    law: SharingPolicy,
    solver: Solver,
    flows: BTreeMap<FlowName, Entry>,
    /// The flow of each of the solver's keys.
    names: Vec<FlowName>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: FlowKey,
    round_trip: Span,
    windowed: bool,
    most: Option<Bandwidth>,
    /// Assigned from outside: its share, and the maximum that it may have.
    assigned: Option<(Bandwidth, Bandwidth)>,
}

impl FlowTable {
    /// An empty table for link directions of these capacities (`None`: unlimited);
    /// the first is `LinkKey(0)`.
    pub fn new(
        law: SharingPolicy,
        capacities: impl IntoIterator<Item = Option<Bandwidth>>,
    ) -> Self {
        let mut solver = Solver::new();
        for capacity in capacities {
            solver.add_link(bits(capacity));
        }
        Self { law, solver, flows: BTreeMap::new(), names: Vec::new() }
    }

    /// Applies a notice; [`Self::solve`] then computes the new shares. `path` returns the route
    /// of a flow that starts. Notices about unknown flows, which a restarted sender may
    /// receive, have no effect.
    pub fn apply_notice(&mut self, notice: &Notice, path: impl FnOnce() -> Path) {
        match *notice {
            Notice::Started { flow, windowed, most, .. } => {
                self.forget(flow);
                self.add(flow, &path(), windowed, most);
            }
            Notice::Rate { flow, most } => {
                let Some(entry) = self.flows.get_mut(&flow) else { return };
                entry.most = most;
                let (key, weight, cap) = (entry.key, self.law.weight(entry), self.law.cap(entry));
                self.solver.set_demand(key, weight, cap);
            }
            Notice::Ended { flow } => self.forget(flow),
        }
    }

    /// Changes the route of a flow after a change of the topology.
    pub fn reroute(&mut self, flow: FlowName, path: &Path) {
        if let Some(Entry { windowed, most, assigned, .. }) = self.flows.get(&flow).copied() {
            self.forget(flow);
            self.add(flow, path, windowed, most);
            if let Some(entry) = self.flows.get_mut(&flow) {
                entry.assigned = assigned;
            }
        }
    }

    /// Changes the capacity of a link direction: zero while it is down, `None` if unlimited.
    pub fn set_capacity(&mut self, link: LinkKey, capacity: Option<Bandwidth>) {
        self.solver.set_capacity(link, bits(capacity));
    }

    /// Recomputes the shares if anything has changed; returns the flows whose share has changed.
    pub fn solve(&mut self) -> impl Iterator<Item = FlowName> {
        let names = &self.names;
        self.solver.solve().iter().map(|key| names[key.0 as usize])
    }

    /// A flow's share as of the last [`Self::solve`].
    pub fn share(&self, flow: FlowName) -> Option<Bandwidth> {
        let entry = self.flows.get(&flow)?;
        match self.law.sharing {
            Sharing::Slbn => Some(self.assigned(entry).0),
            _ => Some(bandwidth(self.solver.rate(entry.key))),
        }
    }

    /// Sets a flow's share and allowance, for [`Sharing::Slbn`]. No effect for unknown flows.
    pub fn assign(&mut self, flow: FlowName, share: Bandwidth, allowance: Bandwidth) {
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.assigned = Some((share, allowance));
        }
    }

    /// Until a flow is assigned a share, it has the allowance of a starting flow.
    fn assigned(&self, entry: &Entry) -> (Bandwidth, Bandwidth) {
        entry.assigned.unwrap_or_else(|| {
            let links = self.solver.path(entry.key);
            let even = |link| self.solver.capacity(link) / self.solver.flows_on(link) as f64;
            let least = bandwidth(links.map(even).fold(f64::INFINITY, f64::min));
            (least, least)
        })
    }

    /// The rate that a flow may have: its share or, if it demands less than the links would give
    /// it, the rate that they would give. Otherwise a flow that has been idle could not show that
    /// it needs more. `None` for unknown flows.
    pub fn allowance(&self, flow: FlowName) -> Option<Bandwidth> {
        let entry = self.flows.get(&flow)?;
        if self.law.sharing == Sharing::Slbn {
            return Some(self.assigned(entry).1);
        }
        let share = self.solver.rate(entry.key);
        let held = entry.windowed && matches!(self.law.window, Window::Fixed(_));
        if held || self.solver.bottleneck(entry.key) != Bottleneck::Cap {
            return Some(bandwidth(share));
        }
        let (mut spare, mut even) = (f64::INFINITY, f64::INFINITY);
        for link in self.solver.path(entry.key) {
            let capacity = self.solver.capacity(link);
            spare = spare.min(capacity - self.solver.load(link));
            even = even.min(capacity / self.solver.flows_on(link) as f64);
        }
        Some(bandwidth((share + spare.max(0.0)).max(even)))
    }

    /// The allowance of a starting flow: an equal part of each link.
    pub fn entry(&self, links: impl IntoIterator<Item = LinkKey>) -> Bandwidth {
        let even =
            |link: LinkKey| self.solver.capacity(link) / (self.solver.flows_on(link) + 1) as f64;
        bandwidth(links.into_iter().map(even).fold(f64::INFINITY, f64::min))
    }

    fn add(&mut self, flow: FlowName, path: &Path, windowed: bool, most: Option<Bandwidth>) {
        let (key, round_trip, assigned) = (FlowKey(0), path.round_trip, None);
        let mut entry = Entry { key, round_trip, windowed, most, assigned };
        entry.key =
            self.solver.add_flow(&path.links, self.law.weight(&entry), self.law.cap(&entry));
        let at = entry.key.0 as usize;
        if self.names.len() <= at {
            self.names.resize(at + 1, flow);
        }
        self.names[at] = flow;
        self.flows.insert(flow, entry);
    }

    fn forget(&mut self, flow: FlowName) {
        if let Some(entry) = self.flows.remove(&flow) {
            self.solver.remove_flow(entry.key);
        }
    }
}

impl SharingPolicy {
    fn weight(self, entry: &Entry) -> f64 {
        match self.sharing {
            Sharing::RttMaxMin => tcp::weight(entry.round_trip),
            Sharing::MaxMin | Sharing::Slbn | Sharing::None => 1.0,
        }
    }

    fn cap(self, entry: &Entry) -> f64 {
        let most = bits(entry.most);
        match self.window {
            Window::Fixed(window) if entry.windowed => {
                most.min(tcp::window_cap(window, entry.round_trip))
            }
            _ => most,
        }
    }
}

fn bits(rate: Option<Bandwidth>) -> f64 {
    rate.map_or(f64::INFINITY, |rate| rate.bits_per_sec() as f64)
}

/// Rounded to the nearest bit/s, so that the sum on a link exceeds its capacity by less than
/// 1 bit/s per flow.
fn bandwidth(rate: f64) -> Bandwidth {
    Bandwidth::from_bits_per_sec(rate.clamp(0.0, Solver::UNLIMITED).round() as u64)
}

#[cfg(test)]
mod tests {
    use base::IfaceId;

    use super::*;

    fn mbit(rate: f64) -> Bandwidth {
        Bandwidth::from_bits_per_sec((rate * 1e6) as u64)
    }

    fn name(number: u32) -> FlowName {
        FlowName { sender: 0, number }
    }

    fn start(table: &mut FlowTable, number: u32, links: &[u32], round_trip: u64) {
        let notice = Notice::Started {
            flow: name(number),
            from: IfaceId(0),
            to: IfaceId(1),
            hash: 0,
            windowed: true,
            most: None,
        };
        table.apply_notice(&notice, || Path {
            links: links.iter().map(|link| LinkKey(*link)).collect(),
            round_trip: Span::from_millis(round_trip),
        });
    }

    fn shares(table: &mut FlowTable, flows: u32) -> Vec<Option<Bandwidth>> {
        table.solve().for_each(drop);
        (0..flows).map(|flow| table.share(name(flow))).collect()
    }

    /// Figure 3.5 of the `SplayNet` paper, and the result with its own default window.
    #[test]
    fn the_worked_example_is_exact() {
        let off = SharingPolicy { window: Window::Off, ..SharingPolicy::default() };
        // 0–1 2 Mbit/s, 1–2 and 1–4 4, 4–5 4, 3–4 4.
        let capacities = [2.0, 4.0, 4.0, 4.0, 4.0].map(|rate| Some(mbit(rate)));
        let mut table = FlowTable::new(off, capacities);
        start(&mut table, 0, &[0, 1], 100);
        assert_eq!(shares(&mut table, 1), [Some(mbit(2.0))]);
        start(&mut table, 1, &[4, 3], 300);
        assert_eq!(shares(&mut table, 2), [Some(mbit(2.0)), Some(mbit(4.0))]);
        start(&mut table, 2, &[0, 2, 3], 300);
        let all = [mbit(1.5), mbit(3.5), mbit(0.5)].map(Some);
        assert_eq!(shares(&mut table, 3), all);
        table.apply_notice(&Notice::Ended { flow: name(0) }, || unreachable!("nothing starts"));
        assert_eq!(shares(&mut table, 3), [None, Some(mbit(2.0)), Some(mbit(2.0))]);

        let window = Window::Fixed(Bytes::new(65_536));
        let mut table =
            FlowTable::new(SharingPolicy { window, ..SharingPolicy::default() }, capacities);
        start(&mut table, 1, &[4, 3], 300);
        let capped = shares(&mut table, 2)[1];
        assert_eq!(capped, Some(Bandwidth::from_bits_per_sec(1_747_627)));
    }

    #[test]
    fn a_flow_that_asks_for_little_leaves_the_rest_and_may_come_back_for_it() {
        let mut table = FlowTable::new(SharingPolicy::default(), [Some(mbit(10.0))]);
        start(&mut table, 0, &[0], 20);
        start(&mut table, 1, &[0], 20);
        let rate = Notice::Rate { flow: name(0), most: Some(mbit(1.0)) };
        table.apply_notice(&rate, || unreachable!("nothing starts"));
        assert_eq!(shares(&mut table, 2), [Some(mbit(1.0)), Some(mbit(9.0))]);
        assert_eq!(table.allowance(name(0)), Some(mbit(5.0)));
        assert_eq!(table.allowance(name(1)), Some(mbit(9.0)));
        table.apply_notice(&Notice::Ended { flow: name(1) }, || unreachable!("nothing starts"));
        table.solve().for_each(drop);
        assert_eq!(table.allowance(name(0)), Some(mbit(10.0)));
    }

    #[test]
    fn notices_about_strangers_change_nothing() {
        let mut table = FlowTable::new(SharingPolicy::default(), [Some(mbit(10.0))]);
        start(&mut table, 0, &[0], 20);
        table.apply_notice(&Notice::Ended { flow: name(7) }, || unreachable!("nothing starts"));
        let rate = Notice::Rate { flow: name(7), most: None };
        table.apply_notice(&rate, || unreachable!("nothing starts"));
        assert_eq!(shares(&mut table, 1), [Some(mbit(10.0))]);
        // A duplicate start has no effect.
        start(&mut table, 0, &[0], 20);
        assert_eq!(shares(&mut table, 1), [Some(mbit(10.0))]);
    }
}
