//! The allocation and its changes.

mod fill;
mod members;
mod state;

pub use state::LinkKey;
use state::{
    AT_CAP, Assignment, CAP, Filling, Flow, LinkState, NOWHERE, Paths, Phase, Reached, Scratch,
};

/// A flow of a [`Solver`]; the key may be reused after the flow is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey(pub u32);

/// The constraint that limits a flow's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// Its own cap (or [`Solver::UNLIMITED`]).
    Cap,
    /// A full link, on which no other flow has a higher level.
    Link(LinkKey),
}

/// A weighted max-min fair allocation that is updated with its network.
///
/// Changes are collected; [`Solver::solve`] applies them.
#[derive(Clone, Debug)]
pub struct Solver {
    links: Vec<LinkState>,
    capacities: Vec<f64>,
    reached: Vec<Reached>,
    fillings: Vec<Filling>,
    flows: Vec<Flow>,
    standings: Vec<Assignment>,
    paths: Paths,
    /// Data of all flows.
    hops: usize,
    free: Vec<u32>,
    alive: usize,
    /// Relative difference below which two levels or loads are equal.
    tolerance: f64,
    dirty_links: Vec<u32>,
    dirty_flows: Vec<u32>,
    changed: Vec<FlowKey>,
    turned: Vec<LinkKey>,
    scratch: Scratch,
    /// Seconds since the start, for [`Solver::carried`].
    now: f64,
}

impl Default for Solver {
    fn default() -> Self {
        Self::new()
    }
}

impl Solver {
    /// The rate of a flow that neither a link nor a cap limits, bit/s: a cap on every flow, so
    /// that sums stay finite.
    pub const UNLIMITED: f64 = 1e18;

    /// An empty network, exact to a relative 10⁻⁹.
    pub fn new() -> Self {
        Self::with_tolerance(1e-9)
    }

    /// An empty network whose rates may have a relative error of `tolerance`: smaller changes are
    /// not propagated, which bounds the work in large networks. Errors do not add up, as each
    /// refill starts from the capacities. Clamped to [10⁻⁹, 0.1].
    pub fn with_tolerance(tolerance: f64) -> Self {
        Self {
            links: Vec::new(),
            capacities: Vec::new(),
            reached: Vec::new(),
            fillings: Vec::new(),
            flows: Vec::new(),
            standings: Vec::new(),
            paths: Paths::default(),
            hops: 0,
            free: Vec::new(),
            alive: 0,
            tolerance: tolerance.clamp(1e-9, 0.1),
            dirty_links: Vec::new(),
            dirty_flows: Vec::new(),
            changed: Vec::new(),
            turned: Vec::new(),
            scratch: Scratch::default(),
            now: 0.0,
        }
    }

    /// Adds a link of `capacity` bit/s: infinite without a limit, zero while it is down.
    ///
    /// # Panics
    /// If there are 2³¹ links already.
    pub fn add_link(&mut self, capacity: f64) -> LinkKey {
        assert!(self.links.len() < CAP as usize, "fewer than 2³¹ links");
        self.links.push(LinkState::new());
        self.capacities.push(capacity_of(capacity));
        self.reached.push(Reached::default());
        self.fillings.push(Filling::default());
        LinkKey(self.links.len() as u32 - 1)
    }

    /// Changes a link's capacity, bit/s.
    pub fn set_capacity(&mut self, link: LinkKey, capacity: f64) {
        let known = &mut self.capacities[link.0 as usize];
        let capacity = capacity_of(capacity);
        if known.to_bits() != capacity.to_bits() {
            *known = capacity;
            self.mark_link(link.0);
        }
    }

    /// A link's capacity, bit/s.
    pub fn capacity(&self, link: LinkKey) -> f64 {
        self.capacities[link.0 as usize]
    }

    /// The sum of the rates on a link as of the last [`Solver::solve`], bit/s.
    pub fn load(&self, link: LinkKey) -> f64 {
        self.links[link.0 as usize].load
    }

    /// Advances the clock to `now` seconds since the start. Rate changes take effect at the time of
    /// their solution, removals immediately.
    pub fn advance(&mut self, now: f64) {
        self.now = now;
    }

    /// Bits that a link has carried until the present time: the integral of its load.
    pub fn carried(&self, link: LinkKey) -> f64 {
        let state = &self.links[link.0 as usize];
        state.load * self.now + state.offset
    }

    /// The flows that a link limits.
    pub fn limited_by(&self, link: LinkKey) -> impl ExactSizeIterator<Item = FlowKey> {
        let state = &self.links[link.0 as usize];
        state.members[..state.bound as usize].iter().map(|flow| FlowKey(*flow))
    }

    /// Number of flows on a link (one that crosses it twice counts twice).
    pub fn flows_on(&self, link: LinkKey) -> usize {
        self.links[link.0 as usize].members.len()
    }

    /// Whether the link is the bottleneck of some flow.
    pub fn is_bottleneck(&self, link: LinkKey) -> bool {
        self.links[link.0 as usize].bound > 0
    }

    /// Adds a flow over the links of `path`, in any order, with at most `cap` bit/s. Its rate is 0
    /// until the next [`Solver::solve`]. Weights below 10⁻¹² (and NaN) count as 10⁻¹², above 10¹²
    /// as 10¹²; a cap of NaN counts as 0.
    ///
    /// # Panics
    /// If a link is unknown, if the path has 2¹⁶ links or more, or if there are 2³¹ flows already.
    pub fn add_flow(&mut self, path: &[LinkKey], weight: f64, cap: f64) -> FlowKey {
        let key = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow::VACANT);
            self.standings.push(Assignment::NEW);
            let key = self.flows.len() - 1;
            assert!(key < CAP as usize, "fewer than 2³¹ flows");
            key as u32
        });
        let hops = u16::try_from(path.len()).expect("fewer than 2¹⁶ links");
        let first = self.paths.take(path.len());
        for (hop, link) in (first as usize..).zip(path) {
            let state = &mut self.links[link.0 as usize];
            state.weight = None;
            self.paths.links[hop] = link.0;
            self.paths.positions[hop] = state.members.len() as u32;
            state.members.push(key);
        }
        let (weight, cap) = (weight_of(weight), cap_of(cap));
        let (phase, dirty) = (Phase::Held, false);
        self.flows[key as usize] = Flow { given: 0.0, weight, cap, first, hops, phase, dirty };
        self.standings[key as usize] = Assignment::NEW;
        self.alive += 1;
        self.hops += path.len();
        self.mark_flow(key);
        FlowKey(key)
    }

    /// Changes a flow's weight and cap.
    pub fn set_demand(&mut self, flow: FlowKey, weight: f64, cap: f64) {
        let state = &mut self.flows[flow.0 as usize];
        let (weight, cap) = (weight_of(weight), cap_of(cap));
        let same = state.weight.to_bits() == weight.to_bits();
        if same && state.cap.to_bits() == cap.to_bits() {
            return;
        }
        // A cap that does not bind may change as long as it still does not bind.
        let limited = !matches!(self.standings[flow.0 as usize].bottleneck, AT_CAP | NOWHERE);
        let slack = limited && cap >= state.given * (1.0 + self.tolerance);
        if !same {
            for link in &self.paths.links[state.path()] {
                self.links[*link as usize].weight = None;
            }
        }
        state.weight = weight;
        state.cap = cap;
        if !(same && slack) {
            self.mark_flow(flow.0);
        }
    }

    /// Removes a flow.
    pub fn remove_flow(&mut self, flow: FlowKey) {
        self.set_bottleneck(flow.0, NOWHERE);
        let gone = self.flows[flow.0 as usize];
        for hop in gone.path() {
            let link = self.paths.links[hop];
            self.remove_member(link, self.paths.positions[hop]);
            self.add_load(link, -gone.given, 1);
            self.mark_link(link);
        }
        self.paths.give_back(&gone);
        self.flows[flow.0 as usize] = Flow::VACANT;
        self.standings[flow.0 as usize] = Assignment::NEW;
        self.alive -= 1;
        self.hops -= usize::from(gone.hops);
        self.free.push(flow.0);
    }

    /// A flow's rate as of the last [`Solver::solve`], bit/s.
    pub fn rate(&self, flow: FlowKey) -> f64 {
        self.flows[flow.0 as usize].given
    }

    /// The constraint that limits a flow as of the last [`Solver::solve`].
    pub fn bottleneck(&self, flow: FlowKey) -> Bottleneck {
        match self.standings[flow.0 as usize].bottleneck {
            AT_CAP | NOWHERE => Bottleneck::Cap,
            link => Bottleneck::Link(LinkKey(link)),
        }
    }

    /// The links of a flow's path.
    pub fn path(&self, flow: FlowKey) -> impl Iterator<Item = LinkKey> {
        self.paths.links[self.flows[flow.0 as usize].path()].iter().map(|link| LinkKey(*link))
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.alive
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.alive == 0
    }

    /// Applies the changes since the last call; returns the flows whose rate has changed, in the
    /// order in which the changes affected them or, if too many are affected, in the order of keys.
    pub fn solve(&mut self) -> &[FlowKey] {
        self.changed.clear();
        if !self.dirty_links.is_empty() || !self.dirty_flows.is_empty() {
            self.refill();
        }
        &self.changed
    }

    /// The result of the last [`Solver::solve`].
    pub fn changed(&self) -> &[FlowKey] {
        &self.changed
    }

    /// Takes the links that have become a bottleneck or have ceased to be one since the last call,
    /// including those that did both.
    pub fn turned(&mut self) -> impl Iterator<Item = LinkKey> {
        for link in &self.turned {
            self.links[link.0 as usize].turned = false;
        }
        self.turned.drain(..)
    }

    fn mark_link(&mut self, link: u32) {
        let state = &mut self.links[link as usize];
        if !state.dirty {
            state.dirty = true;
            self.dirty_links.push(link);
        }
    }

    fn mark_flow(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        if !state.dirty {
            state.dirty = true;
            self.dirty_flows.push(flow);
        }
    }
}

fn capacity_of(capacity: f64) -> f64 {
    // `max` turns NaN into 0.
    let capacity = capacity.max(0.0);
    if capacity < Solver::UNLIMITED { capacity } else { f64::INFINITY }
}

fn cap_of(cap: f64) -> f64 {
    if cap.is_nan() { 0.0 } else { cap.clamp(0.0, Solver::UNLIMITED) }
}

fn weight_of(weight: f64) -> f64 {
    if weight.is_nan() { 1e-12 } else { weight.clamp(1e-12, 1e12) }
}
