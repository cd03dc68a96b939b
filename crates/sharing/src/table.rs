//! A sender's picture of all flows.

use std::collections::BTreeMap;

use base::{Bandwidth, Bytes, Span};

use crate::notice::{FlowName, Notice};
use crate::solver::{Bottleneck, FlowKey, LinkKey, Solver};
use crate::tcp;

/// How flows share links, and what caps them beside the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Law {
    /// What decides the weights.
    pub sharing: Sharing,
    /// What caps a TCP flow.
    pub window: Window,
}

/// How flows share links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Max-min fair with weights in inverse proportion to the round trips.
    #[default]
    RttMaxMin,
    /// Max-min fair.
    MaxMin,
    /// Max-min fair, as [`FlowTable::assign`] is told by links that agree with each other.
    Slbn,
    /// Not at all: each flow has its path's capacity.
    None,
}

impl Sharing {
    /// As lab files write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RttMaxMin => "rtt-max-min",
            Self::MaxMin => "max-min",
            Self::Slbn => "slbn",
            Self::None => "none",
        }
    }
}

/// What caps a TCP flow's rate beside the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// What it really sends, as observed.
    #[default]
    Auto,
    /// Nothing.
    Off,
    /// This much in each round trip.
    Fixed(Bytes),
}

/// A flow's way through the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The link directions that it crosses.
    pub links: Vec<LinkKey>,
    /// There and back, without queueing.
    pub round_trip: Span,
}

/// All flows of a lab and the share of each: made from the topology, kept by [`Notice`]s.
#[derive(Clone, Debug)]
pub struct FlowTable {
    law: Law,
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
    /// What others have decided: its share, and what it may have.
    assigned: Option<(Bandwidth, Bandwidth)>,
}

impl FlowTable {
    /// No flows on link directions of these capacities (`None`: without limit); the first is
    /// `LinkKey(0)`.
    pub fn new(law: Law, capacities: impl IntoIterator<Item = Option<Bandwidth>>) -> Self {
        let mut solver = Solver::new();
        for capacity in capacities {
            solver.add_link(bits(capacity));
        }
        Self { law, solver, flows: BTreeMap::new(), names: Vec::new() }
    }

    /// Works a notice in; [`Self::solve`] then gives the new shares. `path` gives the way of a
    /// flow that starts. Notices about unknown flows, which a sender that has restarted may hear,
    /// change nothing.
    pub fn hear(&mut self, notice: &Notice, path: impl FnOnce() -> Path) {
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

    /// A flow has another way from now on: the topology has changed.
    pub fn reroute(&mut self, flow: FlowName, path: &Path) {
        if let Some(Entry { windowed, most, assigned, .. }) = self.flows.get(&flow).copied() {
            self.forget(flow);
            self.add(flow, path, windowed, most);
            if let Some(entry) = self.flows.get_mut(&flow) {
                entry.assigned = assigned;
            }
        }
    }

    /// A link direction has another capacity: zero while it is out of service, `None` without
    /// limit.
    pub fn set_capacity(&mut self, link: LinkKey, capacity: Option<Bandwidth>) {
        self.solver.set_capacity(link, bits(capacity));
    }

    /// Computes the shares anew where something has changed; the flows whose share is another one.
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

    /// A flow's share is this from now on, and it may have `allowance`: for [`Sharing::Slbn`].
    /// Nothing changes for unknown flows.
    pub fn assign(&mut self, flow: FlowName, share: Bandwidth, allowance: Bandwidth) {
        if let Some(entry) = self.flows.get_mut(&flow) {
            entry.assigned = Some((share, allowance));
        }
    }

    /// Until it is assigned a share, a flow has what one that is about to start may have.
    fn assigned(&self, entry: &Entry) -> (Bandwidth, Bandwidth) {
        entry.assigned.unwrap_or_else(|| {
            let links = self.solver.path(entry.key);
            let even = |link| self.solver.capacity(link) / self.solver.flows_on(link) as f64;
            let least = bandwidth(links.map(even).fold(f64::INFINITY, f64::min));
            (least, least)
        })
    }

    /// The rate that a flow may have: its share or, where it asks for less than the links would
    /// give it, what they would. Without that, a flow that has been idle could not show that it
    /// wants more. `None` for unknown flows.
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

    /// What a flow that is about to start may have meanwhile: an even part of each link.
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

impl Law {
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

/// Rounded to the nearest bit/s, so that sums on a link exceed its capacity by less than a bit/s
/// a flow.
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
        table.hear(&notice, || Path {
            links: links.iter().map(|link| LinkKey(*link)).collect(),
            round_trip: Span::from_millis(round_trip),
        });
    }

    fn shares(table: &mut FlowTable, flows: u32) -> Vec<Option<Bandwidth>> {
        table.solve().for_each(drop);
        (0..flows).map(|flow| table.share(name(flow))).collect()
    }

    /// Figure 3.5 of `SplayNet`'s paper, and what its own default window would make of it.
    #[test]
    fn the_worked_example_is_exact() {
        let off = Law { window: Window::Off, ..Law::default() };
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
        table.hear(&Notice::Ended { flow: name(0) }, || unreachable!("nothing starts"));
        assert_eq!(shares(&mut table, 3), [None, Some(mbit(2.0)), Some(mbit(2.0))]);

        let window = Window::Fixed(Bytes::new(65_536));
        let mut table = FlowTable::new(Law { window, ..Law::default() }, capacities);
        start(&mut table, 1, &[4, 3], 300);
        let capped = shares(&mut table, 2)[1];
        assert_eq!(capped, Some(Bandwidth::from_bits_per_sec(1_747_627)));
    }

    #[test]
    fn a_flow_that_asks_for_little_leaves_the_rest_and_may_come_back_for_it() {
        let mut table = FlowTable::new(Law::default(), [Some(mbit(10.0))]);
        start(&mut table, 0, &[0], 20);
        start(&mut table, 1, &[0], 20);
        let rate = Notice::Rate { flow: name(0), most: Some(mbit(1.0)) };
        table.hear(&rate, || unreachable!("nothing starts"));
        assert_eq!(shares(&mut table, 2), [Some(mbit(1.0)), Some(mbit(9.0))]);
        assert_eq!(table.allowance(name(0)), Some(mbit(5.0)));
        assert_eq!(table.allowance(name(1)), Some(mbit(9.0)));
        table.hear(&Notice::Ended { flow: name(1) }, || unreachable!("nothing starts"));
        table.solve().for_each(drop);
        assert_eq!(table.allowance(name(0)), Some(mbit(10.0)));
    }

    #[test]
    fn notices_about_strangers_change_nothing() {
        let mut table = FlowTable::new(Law::default(), [Some(mbit(10.0))]);
        start(&mut table, 0, &[0], 20);
        table.hear(&Notice::Ended { flow: name(7) }, || unreachable!("nothing starts"));
        let rate = Notice::Rate { flow: name(7), most: None };
        table.hear(&rate, || unreachable!("nothing starts"));
        assert_eq!(shares(&mut table, 1), [Some(mbit(10.0))]);
        // Twice the same start is one flow.
        start(&mut table, 0, &[0], 20);
        assert_eq!(shares(&mut table, 1), [Some(mbit(10.0))]);
    }
}
