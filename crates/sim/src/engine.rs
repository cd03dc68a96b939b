//! The packet engine: jumps from event to event.

use std::sync::Arc;

use base::{FlowId, Histogram, IfaceId, LinkId, Moment, Rank, Time, Timeline};
use bundler::sendbox::Status;
use fabric::{LinkStats, NodeKind, Output, Packet, QueueLevel, Share};
use lab::plan::{Action, Event, Plan, Role};
use middlebox::Change;
use outcome::{FlowResult, Schedule, What};
use record::{FlowSample, SubflowSample, Transfer};

use crate::app::News;
use crate::boxes::Boxes;
use crate::canonical::Canonical;
use crate::control::Control;
use crate::flow::Flow;
use crate::net::{Body, Net, Shared, Timer};
use crate::{Error, Result, control, given};

/// A plan on the virtual clock, packet by packet, in memory.
///
/// Events come in a total order: by time, then by [`Rank`], then as they were scheduled. Nodes,
/// links and flows take part in the order of their names, so that the order in the lab file changes
/// nothing.
pub struct Simulation {
    plan: Arc<Plan>,
    net: Net,
    flows: Vec<Flow>,
    schedule: Schedule,
    /// When the next event of the lab is due; [`Time::MAX`] after the last.
    next_change: Time,
    /// Changes and events of the lab that took place.
    happened: Vec<Event>,
    changes: u64,
    /// Transfers that are over and have not been taken.
    transfers: Vec<Transfer>,
    /// Samples of subflows that have not been taken.
    subflows: Vec<SubflowSample>,
    /// For each link of the original plan, its place in the sorted one.
    links: Vec<usize>,
    /// Likewise for flows.
    order: Vec<usize>,
    /// Whether some flow ends by itself.
    finite: bool,
    last_sample: Time,
}

impl Simulation {
    /// Builds the network and its flows; nothing has been sent yet.
    ///
    /// # Errors
    /// If the plan needs the wall clock, or a flow is impossible: no route, an unknown congestion
    /// control, datagrams larger than the path takes.
    pub fn try_new(plan: &Plan) -> Result<Self> {
        refuse(plan)?;
        let mut sorted = Canonical::new(plan);
        // Without programs no router needs a kernel: the fabric forwards for all of them.
        for node in sorted.plan.nodes.iter_mut().filter(|node| node.kind == Role::Router) {
            node.fabric = NodeKind::Router;
        }
        // Those that act for hosts are asked about every packet.
        for node in sorted.plan.control.iter().flat_map(|control| &control.access) {
            sorted.plan.nodes[node.index()].fabric = NodeKind::Edge;
        }
        let (routes, given, paths) = given::flows(&sorted)?;
        let plan = Arc::new(sorted.plan);
        let routes = Arc::new(routes);
        let fabric = outcome::fabric(&plan, Box::new(Shared(Arc::clone(&routes))))?;
        let legs = given.iter().map(|(_, legs)| *legs).chain(paths).collect();
        let mut net = Net::new(fabric, routes, legs, plan.seed);
        net.pending = given.iter().filter(|(given, _)| given.spec.is_finite()).count();
        drop(sorted.specs);
        if let Some(control) = Control::try_new(&plan, &given)? {
            control.check(&net, &given)?;
            net.set_control(control);
        }
        net.set_seat(&plan);
        if let Some(boxes) = Boxes::try_new(&plan)? {
            net.set_boxes(boxes);
        }
        let mut flows: Vec<Flow> = given.into_iter().map(|(given, _)| Flow::new(given)).collect();
        for flow in &mut flows {
            flow.arm(&mut net);
        }
        Ok(Self {
            finite: net.pending > 0,
            net,
            next_change: plan.events.first().map_or(Time::MAX, |event| event.at),
            schedule: Schedule::new(Arc::clone(&plan)),
            happened: Vec::new(),
            changes: 0,
            transfers: Vec::new(),
            subflows: Vec::new(),
            links: inverse(&sorted.links, LinkId::index),
            order: inverse(&sorted.flows, FlowId::index),
            flows,
            last_sample: Time::ZERO,
            plan,
        })
    }

    /// How far it is.
    pub fn now(&self) -> Time {
        self.net.now
    }

    /// When something next happens; `None` if nothing ever will.
    pub fn next(&self) -> Option<Time> {
        let next = Some(self.next_moment()).filter(|next| *next < Moment::NEVER);
        [self.net.fabric.next_wake(), next.map(|next| next.at)].into_iter().flatten().min()
    }

    /// Whether all that has an end of its own has come to it: nothing more is worth waiting for.
    pub fn is_done(&self) -> bool {
        self.net.pending == 0 && self.finite && self.next_change == Time::MAX
    }

    /// What a reader of the results should know of rate control: packets that it lost or dropped.
    pub fn warnings(&self) -> Vec<String> {
        self.net.warnings(&self.plan)
    }

    /// Runs up to and including `until`, or to the event with which it is done.
    pub fn advance(&mut self, until: Time) {
        self.advance_at_most(until, u64::MAX);
    }

    /// As [`Self::advance`], but for so many turns of its loop at most; tells whether it got
    /// there.
    pub fn advance_at_most(&mut self, until: Time, turns: u64) -> bool {
        for _ in 0..turns {
            if self.is_done() {
                return true;
            }
            if !self.step(Moment::new(until, Rank::Sample)) {
                self.net.now = self.net.now.max(until);
                // So that counters tell what transmitters have done until now.
                self.net.fabric.advance(self.net.now);
                return true;
            }
        }
        false
    }

    /// Does what follows from what has just happened.
    fn settle(&mut self) {
        self.drain();
        self.inform();
    }

    /// Events so far: arrivals, timers, changes of the lab.
    pub fn events(&self) -> u64 {
        self.net.fabric.events() + self.net.fired + self.changes
    }

    /// Links that packets have crossed, summed over all packets.
    pub fn packet_hops(&self) -> u64 {
        self.net.fabric.packet_hops()
    }

    /// A hash over every delivery's time, place and size.
    pub fn trace_hash(&self) -> u64 {
        self.net.fabric.trace_hash()
    }

    /// Bytes that packets, connections, flows and pending events take.
    pub fn memory(&self) -> u64 {
        self.net.memory() + (self.flows.len() * size_of::<Flow>()) as u64
    }

    /// The counters of all links as [`outcome::LinkLedger::enter`] takes them. Peaks begin anew.
    pub fn link_counters(&mut self) -> Vec<(LinkStats, QueueLevel)> {
        let sorted = outcome::link_counters(&mut self.net.fabric, self.plan.links.len());
        self.original(sorted)
    }

    /// Takes the queue waits of each direction of the links, in the same order.
    pub fn take_queue_delays(&mut self) -> Vec<Histogram> {
        let sorted = outcome::take_queue_delays(&mut self.net.fabric, self.plan.links.len());
        self.original(sorted)
    }

    /// The shares of the flows of the collapsed model, with interfaces as the given plan numbers
    /// them.
    pub fn shares(&self) -> Vec<Share> {
        let mut original = vec![0; self.links.len()];
        for (given, sorted) in self.links.iter().enumerate() {
            original[*sorted] = given;
        }
        let iface = |id: IfaceId| IfaceId::at(original[id.index() / 2] * 2 + id.index() % 2);
        let share = |s: Share| Share { from: iface(s.from), to: iface(s.to), ..s };
        self.net.fabric.shares().map(share).collect()
    }

    fn original<T: Default>(&self, mut sorted: Vec<T>) -> Vec<T> {
        let positions = self.links.iter().flat_map(|at| [at * 2, at * 2 + 1]);
        positions.map(|at| std::mem::take(&mut sorted[at])).collect()
    }

    /// Cuts the samples of the interval that ends now.
    pub fn sample(&mut self, mut sink: impl FnMut(FlowSample)) {
        self.subflows.clear();
        for at in &self.order {
            let flow = &mut self.flows[*at];
            let sample = flow.sample(&mut self.net, self.last_sample, &mut self.subflows);
            sample.into_iter().for_each(&mut sink);
        }
        self.last_sample = self.net.now;
    }

    /// Takes the samples of multipath flows' subflows that the last call of [`Self::sample`] cut.
    pub fn subflows(&mut self) -> impl Iterator<Item = SubflowSample> {
        self.subflows.drain(..)
    }

    /// How each bundle does, in the order of the plan; `None` while its sendbox is stopped.
    pub fn bundles(&mut self) -> Vec<Option<Status>> {
        self.net.with_boxes(|boxes, _| boxes.statuses()).unwrap_or_default()
    }

    /// Takes the changes of bundles' states since the last call.
    pub fn bundle_changes(&mut self) -> Vec<Change> {
        self.net.with_boxes(|boxes, _| boxes.changes().collect()).unwrap_or_default()
    }

    /// Takes the transfers that are over since the last call.
    pub fn transfers(&mut self) -> impl Iterator<Item = Transfer> {
        self.transfers.drain(..)
    }

    /// Takes the events of the lab that took place since the last call.
    pub fn happened(&mut self) -> impl Iterator<Item = Event> {
        self.happened.drain(..)
    }

    /// Stops what still runs. Samples and transfers may be taken once more.
    pub fn stop(&mut self) {
        for at in 0..self.flows.len() {
            self.flows[at].stop(&mut self.net, &mut self.transfers);
        }
    }

    /// What each flow achieved, in the order of the plan.
    pub fn results(self) -> Vec<FlowResult> {
        let mut results: Vec<FlowResult> = self.flows.into_iter().map(Flow::into_result).collect();
        results.sort_by_key(|result| result.id);
        results
    }

    /// Changes of the lab at the present time.
    fn change(&mut self, at: Time) {
        // The network changes before anyone sends because of it.
        let (mut capacities, mut is_rerouted) = (Vec::new(), false);
        for mut change in self.schedule.changes(at) {
            match &mut change.what {
                What::Configure(link, direction, config) => {
                    let link = (link.index() * 2 + direction.index()) as u32;
                    capacities.push((link, control::capacity(config)));
                }
                What::Service { forwarding, .. } => {
                    self.net.fabric.advance_before(at);
                    if let Some(routes) = forwarding.take() {
                        self.net.reroute(*routes);
                    }
                    is_rerouted = true;
                }
            }
            change.apply(&mut self.net.fabric);
        }
        self.net.with_control(|control, net| control.on_capacities(net, &capacities));
        if is_rerouted {
            self.net.with_control(Control::reroute);
            self.net.with_boxes(|boxes, _| boxes.reroute());
        }
        self.net.with_boxes(|boxes, net| boxes.on_event(net));
        for event in self.schedule.due(at) {
            self.changes += 1;
            match event.action {
                Action::FlowStart(flow) => {
                    self.flows[flow.index()].start(&mut self.net, &mut self.transfers);
                }
                Action::FlowStop(flow) => {
                    self.flows[flow.index()].stop(&mut self.net, &mut self.transfers);
                }
                _ => {}
            }
            self.happened.push(event);
        }
        self.next_change = self.schedule.next().unwrap_or(Time::MAX);
    }

    /// The next timer goes off.
    fn fire(&mut self) {
        match self.net.pop_timer() {
            Some(Timer::End(end)) => {
                let heard = self.net.on_timer(end);
                if heard.is_news() {
                    let news = News { end, bytes: 0, state: heard.changed };
                    let flow = &mut self.flows[heard.flow as usize];
                    flow.on_news(&mut self.net, &mut self.transfers, &news);
                }
                if heard.live {
                    self.net.flush(end);
                    // The last timer of a connection that idles finds nothing to do.
                    self.net.rest(end.connection());
                }
            }
            Some(Timer::Flow(flow)) => {
                self.flows[flow as usize].on_timer(&mut self.net, &mut self.transfers);
            }
            Some(Timer::Control) => {
                self.net.with_control(Control::on_timer);
            }
            None => {}
        }
    }

    /// Tells controlled flows their new rates.
    fn inform(&mut self) {
        while let Some(news) = self.net.with_control(|control, _| control.take_news()) {
            let Some((flow, rate)) = news else { return };
            self.flows[flow as usize].on_rate(&mut self.net, &mut self.transfers, rate);
        }
    }

    /// Takes what the fabric hands out.
    fn drain(&mut self) {
        while let Some(output) = self.net.fabric.poll() {
            match output {
                Output::Deliver { iface, packet, .. } if self.net.passes(iface, &packet) => {
                    self.net.with_control(|control, net| control.transit(net, iface, packet));
                }
                Output::Deliver { iface, packet, .. } if self.net.is_boxed(iface) => {
                    let turn = |boxes: &mut Boxes, net: &mut Net| boxes.deliver(net, iface, packet);
                    if let Some(packet) = self.net.with_boxes(turn).flatten() {
                        self.deliver(&packet);
                    }
                }
                Output::Deliver { packet, .. } | Output::Local { packet, .. } => {
                    self.deliver(&packet);
                }
                // Counted on the link; TCP finds out by itself, as a host behind a filter does.
                Output::Refused { .. }
                | Output::Dropped { .. }
                | Output::Seen { .. }
                | Output::Mirrored { .. } => {}
            }
        }
    }

    fn deliver(&mut self, packet: &Packet<Body>) {
        match packet.body {
            Body::Segment { end, segment } => {
                // A flipped bit fails the checksum.
                if packet.corrupt.is_some() {
                    return;
                }
                let heard = self.net.take(end, packet, &segment);
                if heard.is_news() {
                    let news = News { end, bytes: heard.bytes, state: heard.changed };
                    let flow = &mut self.flows[heard.flow as usize];
                    flow.on_news(&mut self.net, &mut self.transfers, &news);
                }
                if heard.live {
                    self.net.flush(end);
                    self.net.rest(end.connection());
                }
            }
            Body::Control { ticket } => {
                self.net.with_control(|control, net| control.arrived(net, packet, ticket));
            }
            // Not for this node's box, or damaged.
            Body::Boxes { .. } => {}
            Body::Datagram { flow, sequence: [low, high] } => {
                let payload = self.net.payload(flow, packet);
                let sequence = u64::from(high) << 32 | u64::from(low);
                let delay = self.net.now.since(packet.entered);
                let delay = packet.corrupt.is_none().then_some(delay);
                let flow = &mut self.flows[flow as usize];
                flow.on_datagram(&mut self.net, (packet.flow, sequence, payload), delay);
            }
        }
    }
}

impl Timeline for Simulation {
    fn arrive(&mut self, until: Time) -> bool {
        let has_arrived = self.net.fabric.advance_to_output(until);
        if has_arrived {
            self.net.now = self.net.fabric.now();
            self.settle();
        }
        has_arrived
    }

    fn next_moment(&self) -> Moment {
        let event = self.next_change.min(self.net.next_box_event());
        Moment::new(event, Rank::LabEvent)
            .min(Moment::new(self.net.next_timer().unwrap_or(Time::MAX), Rank::Timer))
            .min(Moment::new(self.net.next_box(), Rank::Gateway))
            .min(Moment::new(self.net.next_agreement(), Rank::Agreement))
    }

    fn meet(&mut self, Moment { at, rank }: Moment) {
        self.net.now = at;
        match rank {
            Rank::LabEvent => self.change(at),
            Rank::Timer => self.fire(),
            Rank::Gateway => {
                self.net.fired += 1;
                self.net.with_boxes(Boxes::on_wake);
            }
            Rank::Agreement => self.net.agree(),
            // The fabric takes care of arrivals, and the run of samples.
            Rank::Arrival | Rank::Sample => {}
        }
        self.settle();
    }
}

/// What only the wall clock has.
pub(crate) fn refuse_wall_clock(plan: &Plan) -> Result<()> {
    if let Some(program) = plan.programs.first() {
        return Err(Error::Programs { program: program.name.clone() });
    }
    if plan.routing == lab::plan::Routing::None {
        return Err(Error::WallClockOnly { what: "routes by programs (`routing = \"none\"`)" });
    }
    if plan.uplink {
        return Err(Error::WallClockOnly { what: "uplinks to the machine's own network" });
    }
    Ok(())
}

/// What only the wall clock has, and populations, which have an engine of their own.
pub(crate) fn refuse(plan: &Plan) -> Result<()> {
    refuse_wall_clock(plan)?;
    if let Some(population) = plan.sessions.first() {
        return Err(Error::ImpossibleFlow {
            flow: population.name.clone(),
            why: "populations of sessions do not run beside flows without rate control".to_owned(),
        });
    }
    Ok(())
}

/// The place of each original number.
pub(crate) fn inverse<T: Copy>(originals: &[T], index: impl Fn(T) -> usize) -> Vec<usize> {
    let mut places = vec![0; originals.len()];
    for (place, original) in originals.iter().enumerate() {
        places[index(*original)] = place;
    }
    places
}
