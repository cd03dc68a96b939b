//! All gateways of a lab.

use std::collections::{BTreeMap, VecDeque};

use base::{IfaceId, NodeId, Span, Time};
use bundler::encapsulation::{self, Envelope};
use bundler::message;
use bundler::receivebox::{self, ReceiveBox};
use bundler::sendbox::{Arrival, BundleIndex, Output, SendBox, Status, Transition};
use bundler::settings::Marking;
use fabric::{Ecn, Fabric, Packet};
use lab::plan::{Action, BoxAction, Plan};

use crate::bundle::Bundle;
use crate::feedback::Late;
use crate::membership::{Membership, Places, Tags};
use crate::{Contents, Driver, Ends, Error, check};

const NONE: u32 = u32::MAX;

/// A bundle's state has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The bundle's index in the plan.
    pub bundle: usize,
    pub transition: Transition,
}

/// A packet in a sendbox.
#[derive(Clone, Debug)]
struct Held<B> {
    packet: Packet<B>,
    /// The interface at which it arrived.
    came: IfaceId,
}

#[derive(Debug)]
enum Process<B> {
    Send(SendBox<Held<B>>),
    Receive(ReceiveBox),
}

#[derive(Debug)]
struct Station<B> {
    node: NodeId,
    sends: bool,
    /// Its bundles by their numbers in the lab, in the order of the state machine.
    bundles: Vec<u32>,
    membership: Membership,
    /// `None` while it is stopped.
    process: Option<Process<B>>,
    held: u64,
    wake: Option<Time>,
}

/// A message to be sent by a gateway.
#[derive(Debug)]
struct Outgoing {
    from: NodeId,
    to: NodeId,
    bundle: u32,
    payload: Vec<u8>,
}

/// All gateways of a lab that are ends of bundles.
#[derive(Debug)]
pub struct GatewayNodes<B> {
    places: Places,
    /// The gateway at each interface.
    at: Vec<u32>,
    stations: Vec<Station<B>>,
    bundles: Vec<Bundle>,
    tags: Tags,
    late: Late<Outgoing>,
    /// Events of the lab for gateways, in the order of time.
    agenda: VecDeque<(Time, NodeId, BoxAction)>,
    changes: Vec<Change>,
    wake: Option<Time>,
    /// Packets that were lost when processes stopped.
    lost: u64,
}

impl<B: Clone + 'static> GatewayNodes<B> {
    /// The gateways of a plan, with their processes running; `None` without bundles. In the fabric
    /// they must be [`fabric::NodeKind::Middlebox`].
    ///
    /// # Errors
    /// If no driver can host such gateways.
    pub fn try_new(plan: &Plan) -> Result<Option<Self>, Error> {
        if plan.bundles.is_empty() {
            return Ok(None);
        }
        check::plan(plan)?;
        let mut at = vec![NONE; plan.ifaces.len()];
        let mut ifaces = BTreeMap::new();
        let ends = |bundle: &lab::plan::Bundle| [(bundle.from, true), (bundle.to, false)];
        let mut nodes: Vec<(NodeId, bool)> = plan.bundles.iter().flat_map(ends).collect();
        nodes.sort_unstable();
        nodes.dedup_by_key(|(node, _)| *node);
        let mut stations = Vec::with_capacity(nodes.len());
        for (node, sends) in nodes {
            let own = &plan.nodes[node.index()].ifaces;
            for iface in own {
                at[iface.index()] = stations.len() as u32;
            }
            ifaces.insert(node, own.clone());
            stations.push(Station::new(plan, node, sends));
        }
        let places = Places { nodes: plan.ifaces.iter().map(|iface| iface.node).collect(), ifaces };
        let mut this = Self {
            agenda: agenda(plan, &places),
            places,
            at,
            stations,
            bundles: Bundle::all(plan),
            tags: Tags::default(),
            late: Late::default(),
            changes: Vec::new(),
            wake: Some(Time::ZERO),
            lost: 0,
        };
        (0..this.stations.len()).for_each(|station| this.start(Time::ZERO, station));
        Ok(Some(this))
    }

    /// Whether packets that reach an interface must be passed to [`Self::deliver`].
    pub fn takes(&self, iface: IfaceId) -> bool {
        self.at[iface.index()] != NONE
    }

    pub fn next_event(&self) -> Option<Time> {
        self.agenda.front().map(|(at, ..)| *at)
    }

    /// Processes the lab's events at this time: gateways stop and start.
    pub fn on_event(&mut self, at: Time) {
        while let Some(&(due, node, action)) = self.agenda.front()
            && due <= at
        {
            self.agenda.pop_front();
            self.act(at, node, action);
        }
        self.settle();
    }

    pub const fn next_wake(&self) -> Option<Time> {
        self.wake
    }

    /// Processes a packet that has reached a gateway. Packets that are addressed to the gateway and
    /// unknown to its process are dropped.
    pub fn deliver<D: Driver<B>>(
        &mut self,
        driver: &mut D,
        at: Time,
        iface: IfaceId,
        packet: Packet<B>,
    ) -> Option<Packet<B>> {
        let station = self.at[iface.index()] as usize;
        let here = self.stations[station].node;
        match packet.to {
            Some(to) if self.places.nodes[to.index()] == here => match driver.open(&packet) {
                Some(contents) => {
                    self.receive_message(driver, (at, iface), station, &packet, contents);
                }
                None => return Some(packet),
            },
            // For example, an ICMP error of a router.
            None => driver.forward(at, iface, packet),
            Some(_) if packet.ttl <= 1 => driver.forward(at, iface, packet),
            Some(to) if self.stations[station].sends => {
                self.send(driver, (at, iface), station, to, packet);
            }
            Some(_) => self.receive(driver, (at, iface), station, packet),
        }
        self.drain(driver, at, station);
        None
    }

    pub fn on_wake<D: Driver<B>>(&mut self, driver: &mut D, at: Time) {
        while let Some(outgoing) = self.late.pop_until(at) {
            self.post(driver, at, outgoing);
        }
        for station in 0..self.stations.len() {
            if self.stations[station].wake.is_none_or(|wake| wake > at) {
                continue;
            }
            match &mut self.stations[station].process {
                Some(Process::Send(machine)) => machine.on_wake(at),
                Some(Process::Receive(machine)) => machine.on_wake(at),
                None => {}
            }
            self.drain(driver, at, station);
        }
        self.settle();
    }

    pub fn reroute(&mut self) {
        self.stations.iter_mut().for_each(|station| station.membership.forget());
    }

    /// Status of each bundle, in the order of the plan; `None` while its sendbox is stopped.
    pub fn statuses(&self) -> Vec<Option<Status>> {
        let mut statuses = vec![None; self.bundles.len()];
        for station in &self.stations {
            let Some(Process::Send(machine)) = &station.process else { continue };
            for (index, bundle) in machine.bundles().zip(&station.bundles) {
                statuses[*bundle as usize] = machine.status(index);
            }
        }
        statuses
    }

    /// Status of each bundle at its receivebox; `None` while that is stopped.
    pub fn receivers(&self) -> Vec<Option<receivebox::Status>> {
        let mut statuses = vec![None; self.bundles.len()];
        for station in &self.stations {
            let Some(Process::Receive(machine)) = &station.process else { continue };
            for (index, bundle) in machine.bundles().zip(&station.bundles) {
                statuses[*bundle as usize] = machine.status(index);
            }
        }
        statuses
    }

    /// Returns the changes of state since the last call.
    pub fn changes(&mut self) -> impl Iterator<Item = Change> {
        self.changes.drain(..)
    }

    /// Packets that were lost when processes stopped.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Warnings for readers of the results; `plan` is that of [`Self::try_new`].
    pub fn warnings(&self, plan: &Plan) -> Vec<String> {
        let lost = (self.lost > 0).then(|| {
            let (count, are) =
                (self.lost, if self.lost == 1 { "packet was" } else { "packets were" });
            format!("{count} {are} lost in sendboxes that stopped")
        });
        let unsent = self.bundles.iter().zip(&plan.bundles).filter(|(own, _)| own.unsent > 0);
        let unsent = unsent.map(|(own, bundle)| {
            let (count, name) = (own.unsent, &bundle.name);
            format!("{count} datagrams between the gateways of bundle `{name}` found no route")
        });
        let foreign = self.bundles.iter().zip(&plan.bundles).filter(|(own, _)| own.foreign > 0);
        let foreign = foreign.map(|(own, bundle)| {
            let (count, name) = (own.foreign, &bundle.name);
            format!(
                "{count} datagrams for the gateways of bundle `{name}` were dropped: their source \
                 is not the other gateway"
            )
        });
        lost.into_iter().chain(unsent).chain(foreign).collect()
    }

    /// Number of packets in the gateways.
    pub fn held(&self) -> u64 {
        self.stations.iter().map(|station| station.held).sum()
    }

    /// Memory of the packets in gateways, in bytes.
    pub fn memory(&self) -> u64 {
        let one = size_of::<Held<B>>() as u64;
        self.held() * one
    }

    /// Passes a packet of the site to a sendbox.
    fn send<D: Driver<B>>(
        &mut self,
        driver: &mut D,
        (at, came): (Time, IfaceId),
        station: usize,
        to: IfaceId,
        mut packet: Packet<B>,
    ) {
        let Self { stations, places, bundles, tags, .. } = self;
        let station = &mut stations[station];
        let Some(own) = station.membership.find(driver.fabric(), places, came, to) else {
            return driver.forward(at, came, packet);
        };
        let bundle = station.bundles[own];
        packet.tag = tags.join(packet.tag, bundle);
        let Some(Process::Send(machine)) = &mut station.process else {
            return driver.forward(at, came, packet);
        };
        let index = BundleIndex(own as u32);
        let key = &bundles[bundle as usize].digest;
        let mut hold = |packet: Packet<B>| {
            let arrival = Arrival {
                size: packet.last,
                flow: packet.flow,
                dscp: packet.dscp,
                ecn: packet.ecn,
                digest: driver.digest(key, &packet),
                body: Held { packet, came },
            };
            machine.on_packet(at, index, arrival);
            station.held += 1;
        };
        while let Some(head) = packet.split_first() {
            hold(head);
        }
        hold(packet);
    }

    /// Passes a packet to a receivebox on its path.
    fn receive<D: Driver<B>>(
        &mut self,
        driver: &mut D,
        (at, came): (Time, IfaceId),
        station: usize,
        packet: Packet<B>,
    ) {
        let Self { stations, bundles, tags, .. } = self;
        let station = &mut stations[station];
        if let Some(Process::Receive(machine)) = &mut station.process {
            for bundle in tags.bundles(packet.tag) {
                let Ok(own) = station.bundles.binary_search(bundle) else { continue };
                let (index, bundle) = (own as u32, &bundles[*bundle as usize]);
                if bundle.settings.marking != Marking::Header {
                    continue;
                }
                let index = receivebox::BundleIndex(index);
                let mut rest = packet.clone();
                loop {
                    let head = rest.split_first();
                    let one = head.as_ref().unwrap_or(&rest);
                    let digest = driver.digest(&bundle.digest, one);
                    machine.on_packet(at, index, one.last, digest);
                    if head.is_none() {
                        break;
                    }
                }
            }
        }
        driver.forward(at, came, packet);
    }

    /// Handles a datagram that is addressed to a gateway.
    fn receive_message<D: Driver<B>>(
        &mut self,
        driver: &mut D,
        (at, came): (Time, IfaceId),
        station: usize,
        outer: &Packet<B>,
        contents: Contents<B>,
    ) {
        let mut payload = match contents {
            Contents::Payload { source, payload } => {
                if !self.is_from_peer(station, source, &payload) {
                    return;
                }
                payload
            }
            Contents::Enclosed { envelope, packet } => {
                if let Some(Process::Receive(machine)) = &mut self.stations[station].process
                    && machine.on_unencoded(at, &envelope, packet.last).is_ok()
                {
                    driver.forward_inner(at, came, outer, packet);
                }
                return;
            }
        };
        let is_packet = encapsulation::bundle_of(&payload).is_some();
        match &mut self.stations[station].process {
            Some(Process::Receive(machine)) if is_packet => {
                let opened = machine.on_encapsulated(at, &mut payload);
                let inner = opened.ok().and_then(|(_, range)| payload.get(range));
                if let Some(packet) = inner.and_then(|inner| driver.decode(outer, inner)) {
                    driver.forward_inner(at, came, outer, packet);
                }
            }
            Some(Process::Receive(machine)) => machine.on_message(at, &payload),
            Some(Process::Send(machine)) if !is_packet => machine.on_message(at, &payload),
            // No process can decapsulate it.
            Some(Process::Send(_)) | None => {}
        }
    }

    /// Whether a datagram has the address of the other gateway of its bundle as source. The process
    /// rejects datagrams without one of its bundles.
    fn is_from_peer(&mut self, station: usize, source: IfaceId, payload: &[u8]) -> bool {
        let id = encapsulation::bundle_of(payload).or_else(|| message::bundle_of(payload));
        let Station { sends, bundles, .. } = &self.stations[station];
        let places = bundles.iter().map(|bundle| *bundle as usize);
        let mut of_id = places.filter(|place| Some(self.bundles[*place].settings.id) == id);
        let Some(place) = of_id.next() else { return true };
        let bundle = &mut self.bundles[place];
        let peer = if *sends { bundle.to } else { bundle.from };
        let is_from_peer = self.places.nodes[source.index()] == peer;
        bundle.foreign += u64::from(!is_from_peer);
        is_from_peer
    }

    /// Executes the outputs of a gateway.
    fn drain<D: Driver<B>>(&mut self, driver: &mut D, at: Time, station: usize) {
        loop {
            let here = &mut self.stations[station];
            let node = here.node;
            match &mut here.process {
                Some(Process::Send(machine)) => {
                    let Some(output) = machine.poll() else { break };
                    self.carry_out(driver, at, station, output);
                }
                Some(Process::Receive(machine)) => {
                    let Some(receivebox::Output { bundle, payload }) = machine.poll() else {
                        break;
                    };
                    let bundle = here.bundles[bundle.0 as usize];
                    let to = self.bundles[bundle as usize].from;
                    self.throw(driver, at, Outgoing { from: node, to, bundle, payload });
                }
                None => break,
            }
        }
        let here = &mut self.stations[station];
        here.wake = here.next_wake();
        self.settle();
    }

    fn carry_out<D: Driver<B>>(
        &mut self,
        driver: &mut D,
        at: Time,
        station: usize,
        output: Output<Held<B>>,
    ) {
        let here = &mut self.stations[station];
        let node = here.node;
        match output {
            Output::Forward { bundle, body: Held { mut packet, came }, marked, encapsulation } => {
                here.held -= 1;
                if marked {
                    packet.ecn = Ecn::Marked;
                }
                let bundle = here.bundles[bundle.0 as usize];
                match encapsulation {
                    Some(envelope) => self.enclose(driver, at, node, bundle, envelope, packet),
                    None => driver.forward(at, came, packet),
                }
            }
            // The sender detects the loss like that of any full queue; the sendbox has counted it.
            Output::Drop { .. } => here.held -= 1,
            Output::Message { bundle, payload } => {
                let bundle = here.bundles[bundle.0 as usize];
                let to = self.bundles[bundle as usize].to;
                self.throw(driver, at, Outgoing { from: node, to, bundle, payload });
            }
            Output::Transition { bundle, transition } => {
                let bundle = here.bundles[bundle.0 as usize] as usize;
                self.changes.push(Change { bundle, transition });
            }
        }
    }

    fn enclose<D: Driver<B>>(
        &mut self,
        driver: &mut D,
        at: Time,
        node: NodeId,
        bundle: u32,
        envelope: Envelope,
        mut packet: Packet<B>,
    ) {
        let bundle = &mut self.bundles[bundle as usize];
        packet.ttl = packet.ttl.saturating_sub(1);
        let ends = ends(&self.places, driver.fabric(), node, bundle.to);
        match ends.and_then(|ends| driver.enclose(at, ends, envelope, packet)) {
            Some(outer) => driver.originate(at, node, outer),
            None => bundle.unsent += 1,
        }
    }

    /// Sends a message, delayed or dropped according to the lab's feedback settings.
    fn throw<D: Driver<B>>(&mut self, driver: &mut D, at: Time, outgoing: Outgoing) {
        match self.bundles[outgoing.bundle as usize].rng.sample() {
            Some(Span::ZERO) => self.post(driver, at, outgoing),
            Some(late) => self.late.push(at + late, outgoing),
            None => {}
        }
    }

    fn post<D: Driver<B>>(&mut self, driver: &mut D, at: Time, outgoing: Outgoing) {
        let Outgoing { from, to, bundle, payload } = outgoing;
        let ends = ends(&self.places, driver.fabric(), from, to);
        match ends.and_then(|ends| driver.message(at, ends, payload)) {
            Some(packet) => driver.originate(at, from, packet),
            None => self.bundles[bundle as usize].unsent += 1,
        }
    }

    /// Applies an event to a gateway's process.
    fn act(&mut self, at: Time, node: NodeId, action: BoxAction) {
        let Some(station) = self.stations.iter().position(|station| station.node == node) else {
            return;
        };
        if matches!(action, BoxAction::Stop | BoxAction::Restart) {
            let here = &mut self.stations[station];
            self.lost += std::mem::take(&mut here.held);
            here.process = None;
            here.wake = None;
        }
        if matches!(action, BoxAction::Start | BoxAction::Restart) {
            self.start(at, station);
        }
    }

    /// Starts the process of a gateway, unless it runs.
    fn start(&mut self, at: Time, station: usize) {
        let station = &mut self.stations[station];
        if station.process.is_some() {
            return;
        }
        let incarnation = at.as_nanos() + 1;
        let bundles = station.bundles.iter().map(|bundle| &self.bundles[*bundle as usize]);
        station.process = Some(if station.sends {
            let mut machine = SendBox::new(incarnation);
            for bundle in bundles {
                machine.add(at, bundle.settings.clone());
            }
            Process::Send(machine)
        } else {
            let mut machine = ReceiveBox::new(incarnation);
            for bundle in bundles {
                machine.add(at, bundle.receiver());
            }
            Process::Receive(machine)
        });
        // It sends its first messages.
        station.wake = Some(at);
    }

    fn settle(&mut self) {
        let stations = self.stations.iter().filter_map(|station| station.wake);
        self.wake = stations.chain(self.late.next()).min();
    }
}

impl<B> Station<B> {
    fn new(plan: &Plan, node: NodeId, sends: bool) -> Self {
        let bundles: Vec<u32> = (0..plan.bundles.len() as u32)
            .filter(|at| {
                let bundle = &plan.bundles[*at as usize];
                node == if sends { bundle.from } else { bundle.to }
            })
            .collect();
        let receiveboxes = bundles.iter().map(|at| plan.bundles[*at as usize].to);
        let membership = Membership::new(node, receiveboxes.collect());
        Self { node, sends, bundles, membership, process: None, held: 0, wake: None }
    }

    fn next_wake(&self) -> Option<Time> {
        match &self.process {
            Some(Process::Send(machine)) => machine.next_wake(),
            Some(Process::Receive(machine)) => machine.next_wake(),
            None => None,
        }
    }
}

/// Addresses of datagrams from one gateway to another: those of the first interfaces of both to
/// which routes lead.
fn ends<B: Clone + 'static>(
    places: &Places,
    fabric: &Fabric<B>,
    from: NodeId,
    to: NodeId,
) -> Option<Ends> {
    let reached = |from: NodeId, to: NodeId| {
        let mut ifaces = places.of(to).iter();
        ifaces.find(|iface| !fabric.next_hops(from, **iface).is_empty()).copied()
    };
    Some(Ends { from: reached(to, from)?, to: reached(from, to)? })
}

/// The lab's events for gateways.
fn agenda(plan: &Plan, places: &Places) -> VecDeque<(Time, NodeId, BoxAction)> {
    let action = |event: &lab::plan::Event| {
        let (node, action) = match event.action {
            Action::Box(node, action) => (node, action),
            Action::NodeDown(node) => (node, BoxAction::Stop),
            Action::NodeUp(node) => (node, BoxAction::Start),
            _ => return None,
        };
        places.ifaces.contains_key(&node).then_some((event.at, node, action))
    };
    plan.events.iter().filter_map(action).collect()
}
