//! The packet engine: a discrete-event simulation of every packet.

use std::path::Path;
use std::sync::Arc;

use base::{FlowId, Histogram, IfaceId, LinkId, Time};
use bundler::sendbox::Status;
use bundler_lab::Change;
use fabric::{DropReason, LinkStats, NodeKind, Output, Packet, QueueLevel, Share};
use lab::Diagnostics;
use lab::live::LiveChanges;
use lab::plan::{Action, Event, Plan, Role};
use run::{BundleLedger, ChangeKind, FlowResult, RecorderHandle, Schedule};
use run::{FlowSample, SubflowSample, Transfer};
use timeline::{Components, NextWakes};

use crate::app::ConnectionEvent;
use crate::canonical::Canonical;
use crate::capture::Captures;
use crate::control::Control;
use crate::engine::Engine;
use crate::flow::Flow;
use crate::gateways::Gateways;
use crate::net::{Body, Net, Timer};
use crate::tcp_events::TcpEvents;
use crate::{Error, Result, control, parameters};

/// Packets that may leave the network at one time because of each other: several seconds of
/// processor time. With any rate or delay, a window of data needs several times.
const MAX_OUTPUTS: u32 = 5_000_000;

/// A plan on the virtual clock, packet by packet, in memory.
///
/// Events come in a total order: by time, then by [`timeline::Rank`], then by the order of
/// scheduling within their component. Nodes, links and flows are ordered by name, so that the order
/// in the lab file has no effect.
pub struct Simulation {
    plan: Arc<Plan>,
    net: Net,
    control: Option<Box<Control>>,
    gateways: Option<Box<Gateways>>,
    flows: Vec<Flow>,
    schedule: Schedule,
    /// Lab events since the last call of `happened`.
    happened: Vec<Event>,
    changes: u64,
    /// Completed transfers that have not been taken.
    transfers: Vec<Transfer>,
    /// Samples of subflows that have not been taken.
    subflows: Vec<SubflowSample>,
    /// Index of each link of the original plan in the sorted plan.
    links: Vec<usize>,
    /// Index of each flow of the original plan in the sorted plan.
    order: Vec<usize>,
    captures: Option<Captures>,
    /// Whether the lab has a finite flow.
    finite: bool,
    is_stuck: bool,
    last_sample: Time,
}

impl Simulation {
    /// Builds the network and its flows; no flow has sent anything yet.
    ///
    /// # Errors
    /// If the plan needs the wall clock, or a flow's settings cannot be satisfied: no route, an
    /// unknown congestion controller, datagrams larger than the path MTU.
    pub fn try_new(plan: &Plan) -> Result<Self> {
        refuse(plan)?;
        let mut sorted = Canonical::new(plan);
        // Without programs no router needs a kernel: the fabric forwards for all of them.
        for node in sorted.plan.nodes.iter_mut().filter(|node| node.kind == Role::Router) {
            node.fabric = NodeKind::Router;
        }
        // Access routers process every packet themselves.
        for node in sorted.plan.control.iter().flat_map(|control| &control.access) {
            sorted.plan.nodes[node.index()].fabric = NodeKind::Edge;
        }
        let (routes, parameters, paths) = parameters::flows(&sorted)?;
        let plan = Arc::new(sorted.plan);
        let routes = Arc::new(routes);
        let fabric = run::fabric(&plan, Box::new(Arc::clone(&routes)))?;
        let legs = parameters.iter().map(|(_, legs)| *legs).chain(paths).collect();
        let mut net = Net::new(fabric, routes, legs, plan.seed);
        net.pending =
            parameters.iter().filter(|(parameters, _)| parameters.spec.is_finite()).count();
        drop(sorted.specs);
        let control = Control::try_new(&plan, &parameters)?.map(Box::new);
        if let Some(control) = &control {
            control.check(&net, &parameters)?;
            net.overhead = control.overhead();
        }
        net.set_agreement(&plan);
        let gateways = Gateways::try_new(&plan)?.map(Box::new);
        let mut flows: Vec<Flow> =
            parameters.into_iter().map(|(parameters, _)| Flow::new(parameters)).collect();
        for flow in &mut flows {
            flow.arm(&mut net);
        }
        Ok(Self {
            captures: None,
            finite: net.pending > 0,
            is_stuck: false,
            net,
            control,
            gateways,
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

    /// The status of each bundle, in the order of the plan; `None` while its sendbox is stopped.
    pub fn bundles(&self) -> Vec<Option<Status>> {
        self.gateways.as_ref().map_or_else(Vec::new, |gateways| gateways.statuses())
    }

    /// Takes the changes of bundles' states since the last call.
    pub fn bundle_changes(&mut self) -> Vec<Change> {
        let gateways = self.gateways.as_mut();
        gateways.map_or_else(Vec::new, |gateways| gateways.changes().collect())
    }

    fn original<T: Default>(&self, mut sorted: Vec<T>) -> Vec<T> {
        let positions = self.links.iter().flat_map(|at| [at * 2, at * 2 + 1]);
        positions.map(|at| std::mem::take(&mut sorted[at])).collect()
    }

    /// Calls `act` with a flow, and passes the flow's requests to rate control.
    fn with_flow(&mut self, flow: u32, act: impl FnOnce(&mut Flow, &mut Net, &mut Vec<Transfer>)) {
        act(&mut self.flows[flow as usize], &mut self.net, &mut self.transfers);
        while let Some(request) = self.net.session_requests.pop_front() {
            if let Some(control) = &mut self.control {
                control.on_request(&mut self.net, request);
            }
        }
    }

    /// Handles the output of the network and of rate control.
    fn settle(&mut self) {
        self.take_outputs();
        self.apply_rates();
    }

    /// Changes the network at the present time.
    fn change_network(&mut self, at: Time, changes: Vec<run::Change>) {
        let (mut capacities, mut is_rerouted) = (Vec::new(), false);
        for mut change in changes {
            match &mut change.kind {
                ChangeKind::Configure(link, direction, config) => {
                    let link = (link.index() * 2 + direction.index()) as u32;
                    capacities.push((link, control::capacity(config)));
                }
                ChangeKind::LinkState { forwarding, .. } => {
                    self.net.fabric.advance_before(at);
                    if let Some(routes) = forwarding.take() {
                        self.net.reroute(routes);
                    }
                    is_rerouted = true;
                }
            }
            change.apply(&mut self.net.fabric);
        }
        if let Some(control) = &mut self.control {
            control.on_capacities(&mut self.net, &capacities);
            if is_rerouted {
                control.reroute(&mut self.net);
            }
        }
        if let Some(gateways) = &mut self.gateways {
            if is_rerouted {
                gateways.reroute();
            }
            gateways.on_event(&self.net);
        }
    }

    /// Handles the lab events of the present time.
    fn change(&mut self, at: Time) {
        // The network changes before any flow sends because of the event.
        let changes = self.schedule.changes(at);
        self.change_network(at, changes);
        for event in self.schedule.due(at) {
            self.changes += 1;
            match event.action {
                Action::FlowStart(flow) => {
                    self.with_flow(flow.0, Flow::start);
                }
                Action::FlowStop(flow) => {
                    self.with_flow(flow.0, Flow::stop);
                }
                _ => {}
            }
            self.happened.push(event);
        }
    }

    /// Handles the next timer.
    fn fire(&mut self) {
        match self.net.pop_timer() {
            Some(Timer::End(end)) => {
                let received = self.net.on_timer(end);
                if received.concerns_flow() {
                    let event = ConnectionEvent { end, bytes: 0, state: received.changed };
                    self.with_flow(received.flow, |flow, net, transfers| {
                        flow.on_event(net, transfers, &event);
                    });
                }
                if received.live {
                    self.net.flush(end);
                    // After its last timer an idle connection can be packed.
                    self.net.rest(end.connection());
                }
            }
            Some(Timer::Flow(flow)) => {
                self.with_flow(flow, Flow::on_timer);
            }
            Some(Timer::Control) => {
                if let Some(control) = &mut self.control {
                    control.on_timer(&mut self.net);
                }
            }
            None => {}
        }
    }

    /// Applies new rates to controlled flows.
    fn apply_rates(&mut self) {
        while let Some((flow, rate)) = self.control.as_mut().and_then(|control| control.take_rate())
        {
            self.with_flow(flow, |flow, net, transfers| flow.on_rate(net, transfers, rate));
        }
    }

    fn take_outputs(&mut self) {
        for _ in 0..MAX_OUTPUTS {
            let Some(output) = self.net.fabric.poll() else { return };
            match output {
                Output::Deliver { iface, packet, .. } => self.deliver(iface, packet),
                Output::Local { packet, .. } => self.receive(&packet),
                Output::Seen { iface, sent, packet, at } => {
                    self.write_capture((iface, sent), &packet, None, at);
                }
                // The link counts the packet; TCP detects the loss, as with a filter on the path.
                Output::Dropped { iface, packet, reason, at } => {
                    self.write_capture((iface, true), &packet, Some(reason), at);
                }
                Output::Refused { .. } | Output::Mirrored { .. } => {}
            }
        }
        self.is_stuck = true;
    }

    fn write_capture(
        &self,
        place: (IfaceId, bool),
        packet: &Packet<Body>,
        dropped: Option<DropReason>,
        at: Time,
    ) {
        if let Some(captures) = &self.captures {
            captures.write((&self.plan, &self.net.legs), place, packet, dropped, at);
        }
    }

    /// Converts an interface of the sorted plan to that of the original plan.
    fn original_ifaces(&self) -> impl Fn(IfaceId) -> IfaceId + use<> {
        let mut original = vec![0; self.links.len()];
        for (parameters, sorted) in self.links.iter().enumerate() {
            original[*sorted] = parameters;
        }
        move |id: IfaceId| IfaceId::at(original[id.index() / 2] * 2 + id.index() % 2)
    }

    /// Delivers a packet that leaves the network through an interface: to an access router,
    /// gateway or host.
    #[inline]
    fn deliver(&mut self, iface: IfaceId, packet: Packet<Body>) {
        if let Some(control) = self.control.as_mut().filter(|control| control.takes(iface, &packet))
        {
            return control.transit(&mut self.net, iface, packet);
        }
        match self.gateways.as_mut().filter(|gateways| gateways.takes(iface)) {
            Some(gateways) => {
                if let Some(packet) = gateways.deliver(&mut self.net, iface, packet) {
                    self.receive(&packet);
                }
            }
            None => self.receive(&packet),
        }
    }

    fn receive(&mut self, packet: &Packet<Body>) {
        match packet.body {
            Body::Segment { end, segment, .. } => {
                // A bit error fails the checksum.
                if packet.corrupt.is_some() {
                    return;
                }
                let received = self.net.take(end, packet, &segment);
                if received.concerns_flow() {
                    let event =
                        ConnectionEvent { end, bytes: received.bytes, state: received.changed };
                    self.with_flow(received.flow, |flow, net, transfers| {
                        flow.on_event(net, transfers, &event);
                    });
                }
                if received.live {
                    self.net.flush(end);
                    self.net.rest(end.connection());
                }
            }
            Body::Control { ticket } => {
                if let Some(control) = &mut self.control {
                    control.arrived(&mut self.net, packet, ticket);
                }
            }
            // The datagram is corrupt, or for another node's gateway.
            Body::Gateways { .. } => {}
            Body::Datagram { flow, sequence: [low, high] } => {
                let payload = self.net.payload(flow, packet);
                let sequence = u64::from(high) << 32 | u64::from(low);
                let delay = self.net.now.since(packet.entered);
                let delay = packet.corrupt.is_none().then_some(delay);
                self.with_flow(flow, |flow, net, _| {
                    flow.on_datagram(net, (packet.flow, sequence, payload), delay);
                });
            }
        }
    }
}

impl Engine for Simulation {
    fn now(&self) -> Time {
        self.net.now
    }

    fn is_done(&self) -> bool {
        self.net.pending == 0 && self.finite && self.schedule.next().is_none()
    }

    fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    fn has_packets(&self) -> bool {
        true
    }

    fn record(&mut self, plan: &Plan, recorder: &RecorderHandle) {
        if !plan.captures.is_empty() {
            let mut captures = Captures::new(recorder.clone(), run::Captures::of(plan).ifaces);
            let original = self.original_ifaces();
            captures.watch(&mut self.net.fabric, original);
            self.captures = Some(captures);
        }
        if !plan.tcp_events.is_empty() {
            let is_wanted = |id: &FlowId| plan.tcp_events.binary_search(id).is_ok();
            let wanted = |flow: &Flow| Some(flow.id()).filter(is_wanted);
            let flows = self.flows.iter().map(wanted).collect();
            self.net.tcp_events = Some(Box::new(TcpEvents::new(recorder.clone(), flows)));
        }
    }

    fn reach(&mut self, until: Time) {
        self.net.now = self.net.now.max(until);
        // Counters include transmissions up to the present time.
        self.net.fabric.advance(self.net.now);
    }

    fn events(&self) -> u64 {
        self.net.fabric.events() + self.net.fired + self.changes
    }

    fn packet_hops(&self) -> u64 {
        self.net.fabric.packet_hops()
    }

    fn trace_hash(&self) -> u64 {
        self.net.fabric.trace_hash()
    }

    fn memory(&self) -> u64 {
        let control = self.control.as_ref().map_or(0, |control| control.memory());
        let gateways = self.gateways.as_ref().map_or(0, |gateways| gateways.memory());
        let flows = (self.flows.len() * size_of::<Flow>()) as u64;
        self.net.memory() + control + gateways + flows
    }

    fn link_counters(&mut self, _: &[bool]) -> Vec<(usize, LinkStats, QueueLevel)> {
        let sorted = run::link_counters(&mut self.net.fabric, self.plan.links.len());
        let original = self.original(sorted).into_iter().enumerate();
        original.map(|(at, (stats, level))| (at, stats, level)).collect()
    }

    fn enter_bundles(&mut self, ledger: &mut BundleLedger) {
        for change in self.bundle_changes() {
            ledger.transition(change.bundle, &change.transition);
        }
        ledger.enter(self.now(), self.bundles());
    }

    fn take_queue_delays(&mut self) -> Vec<Histogram> {
        let sorted = run::take_queue_delays(&mut self.net.fabric, self.plan.links.len());
        self.original(sorted)
    }

    fn shares(&self) -> Vec<Share> {
        let iface = self.original_ifaces();
        let share = |s: Share| Share { from: iface(s.from), to: iface(s.to), ..s };
        self.net.fabric.shares().map(share).collect()
    }

    fn sample(&mut self, mut sink: &mut dyn FnMut(FlowSample)) {
        self.subflows.clear();
        for at in &self.order {
            let flow = &mut self.flows[*at];
            let sample = flow.sample(&mut self.net, self.last_sample, &mut self.subflows);
            sample.into_iter().for_each(&mut sink);
        }
        self.last_sample = self.net.now;
    }

    fn subflows(&mut self) -> Vec<SubflowSample> {
        std::mem::take(&mut self.subflows)
    }

    fn transfers(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers)
    }

    fn can_set(&self) -> bool {
        true
    }

    fn set(
        &mut self,
        at: Time,
        fields: &[(String, String)],
    ) -> std::result::Result<Option<LiveChanges>, Diagnostics> {
        let (changes, found) = self.schedule.set(at, fields, Path::new("."))?;
        self.net.now = at;
        self.changes += found.changes.len() as u64;
        self.change_network(at, changes);
        self.settle();
        Ok(Some(found))
    }

    fn happened(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.happened)
    }

    fn warnings(&self, _plan: &Plan) -> Vec<String> {
        let control = self.control.as_ref().map(|control| control.warnings(&self.plan));
        let gateways = self.gateways.as_ref().map(|gateways| gateways.warnings(&self.plan));
        control.into_iter().chain(gateways).flatten().collect()
    }

    fn stop(&mut self) {
        for flow in 0..self.flows.len() as u32 {
            self.with_flow(flow, Flow::stop);
        }
    }

    fn results(&mut self) -> Vec<FlowResult> {
        let mut results: Vec<FlowResult> =
            std::mem::take(&mut self.flows).into_iter().map(Flow::into_result).collect();
        results.sort_by_key(|result| result.id);
        results
    }
}

impl Components for Simulation {
    #[inline]
    fn next_wakes(&self) -> NextWakes {
        NextWakes {
            lab_event: self.schedule.next(),
            gateway: self.gateways.as_ref().and_then(|gateways| gateways.next_wake()),
            ..self.net.next_wakes()
        }
    }

    #[inline]
    fn on_arrivals(&mut self, until: Time) -> bool {
        let has_arrived = self.net.fabric.advance_to_output(until);
        if has_arrived {
            self.net.now = self.net.fabric.now();
            self.settle();
        }
        has_arrived
    }

    fn on_lab_event(&mut self, now: Time) {
        self.net.now = now;
        self.change(now);
        self.settle();
    }

    #[inline]
    fn on_timer(&mut self, now: Time) {
        self.net.now = now;
        self.fire();
        self.settle();
    }

    fn on_gateway_wake(&mut self, now: Time) {
        self.net.now = now;
        self.net.fired += 1;
        if let Some(gateways) = &mut self.gateways {
            gateways.on_wake(&mut self.net);
        }
        self.settle();
    }

    fn on_agreement_wake(&mut self, now: Time) {
        self.net.now = now;
        self.net.agree();
        self.settle();
    }
}

/// Rejects plans with features that only the wall clock has.
pub(crate) fn refuse_wall_clock(plan: &Plan) -> Result<()> {
    if let Some(program) = plan.programs.first() {
        return Err(Error::Programs { program: program.name.clone() });
    }
    if plan.routing == lab::plan::Routing::None {
        return Err(Error::WallClockOnly { what: "routes by programs (`routing = \"none\"`)" });
    }
    if plan.uplink != lab::plan::Uplink::None {
        return Err(Error::WallClockOnly { what: "uplinks to the machine's own network" });
    }
    Ok(())
}

/// Rejects plans with features that only the wall clock has, and session generators, which
/// need another engine.
pub(crate) fn refuse(plan: &Plan) -> Result<()> {
    refuse_wall_clock(plan)?;
    if let Some(population) = plan.sessions.first() {
        return Err(Error::ImpossibleFlow {
            flow: population.name.clone(),
            why: "session generators cannot run beside flows without rate control".to_owned(),
        });
    }
    Ok(())
}

/// The index of each original number.
pub(crate) fn inverse<T: Copy>(originals: &[T], index: impl Fn(T) -> usize) -> Vec<usize> {
    let mut places = vec![0; originals.len()];
    for (place, original) in originals.iter().enumerate() {
        places[index(*original)] = place;
    }
    places
}
