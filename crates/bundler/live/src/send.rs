//! The sendbox on a host.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use base::{Span, Time};
use bundler::digest::DigestKey;
use bundler::encapsulation::{self, Envelope};
use bundler::message;
use bundler::sendbox::{Arrival, BundleIndex, Output, SendBox, Transition};
use bundler::settings::Marking;
use queue::Ecn;
use sys::socket::{Interest, ReadyQueue};

use crate::config::{Outgoing, Send};
use crate::mail::{Mail, is_from};
use crate::packet::{Packet, Segment, clamp_segment_size};
use crate::port::Port;
use crate::prefix::Table;
use crate::route::{self, Diversion};
use crate::status::{self, Board, Snapshot};
use crate::wait;
use crate::{Changes, Control, Error, Prefix, Result};

/// Maximum number of reads of the device before messages and deadlines are handled.
const READS: usize = 32;
/// Maximum number of messages handled at once.
const MESSAGES: usize = 64;
/// Packets that are due within this time are sent together.
const BATCH: Span = Span::from_micros(250);
/// The MTU of a device without a route.
const USUAL_MTU: u32 = 1500;

#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Packets pass through it from now on.
    Ready { device: String, mtu: u32 },
    /// A bundle's state has changed.
    Transition { bundle: String, transition: Transition },
    /// A new configuration is in use.
    Reloaded(Changes),
    /// A new configuration cannot be used; the previous one is in use.
    Rejected(Error),
}

/// Runs a sendbox with its status at `board` until it is stopped; then queued packets are sent, and
/// the routes are restored.
///
/// # Errors
/// If it cannot start, or its device disappears.
pub fn run(
    config: Send,
    board: &Board,
    control: &mut Control<'_, Send>,
    tell: &mut dyn FnMut(&Event),
) -> Result<()> {
    let (prefixes, mtu) = checked(&config)?;
    let mail = Mail::bind(config.common.listen)?;
    let device = config.common.device.clone();
    let port = Port::open(&device)?;
    let table = config.table;
    let mut sender = Sender::new(config, port, mail, board.clone())?;
    route::bring_up(&device, mtu, prefixes.iter().any(Prefix::is_ipv6))?;
    sender.mtu = mtu;
    let mut diversion = Diversion::begin(&device, table, &prefixes)?;
    tell(&Event::Ready { device, mtu });
    let result = sender.run(control, &mut diversion, tell);
    // First the routes, so that no more packets arrive; then the packets in the gateway.
    let ended = diversion.end();
    sender.flush_and_release(tell);
    result.and(ended)
}

/// The prefixes of all bundles, and the MTU of the gateway's device, if the host is ready for them.
fn checked(config: &Send) -> Result<(Vec<Prefix>, u32)> {
    let prefixes: BTreeSet<Prefix> =
        config.bundles.iter().flat_map(|bundle| bundle.remote.iter().copied()).collect();
    let prefixes: Vec<Prefix> = prefixes.into_iter().collect();
    route::check_forwarding(&prefixes)?;
    if !config.is_exempt {
        route::check_translation()?;
    }
    let mut socket = sys::netlink::Socket::open()?;
    let mtu = mtu(config, &mut socket)?;
    Ok((prefixes, mtu))
}

/// MTU of the gateway's device: that of the path to the sites, minus the overhead of encapsulation.
fn mtu(config: &Send, socket: &mut sys::netlink::Socket) -> Result<u32> {
    let (mut most, mut least) = (0, u32::MAX);
    for bundle in &config.bundles {
        for prefix in &bundle.remote {
            let way = route::way(socket, prefix.address())?;
            let (_, mtu) = way.ok_or_else(|| Error::NoRoute(prefix.to_string()))?;
            most = most.max(mtu);
        }
        let way = route::way(socket, bundle.peer.ip())?;
        let (_, mtu) = way.ok_or_else(|| Error::NoRoute(bundle.peer.ip().to_string()))?;
        if bundle.settings.marking == Marking::Encapsulation {
            let around = encapsulation::overhead(bundle.peer.is_ipv6());
            least = least.min(mtu.saturating_sub(around));
        }
    }
    let mtu = if least < u32::MAX { least } else { most };
    // Links without a limit, such as loopback, have an MTU above the maximum packet length.
    Ok(if mtu == 0 { USUAL_MTU } else { mtu.clamp(576, 65_521) })
}

struct Bundle {
    config: Outgoing,
    key: DigestKey,
    index: BundleIndex,
    /// Datagrams from another address than that of the receivebox.
    foreign: u64,
}

impl Bundle {
    /// Adds the bundle to the state machine.
    fn add(config: Outgoing, machine: &mut SendBox<Segment>, now: Time) -> Self {
        let settings = config.settings.clone();
        let key = settings.key.digest();
        let index = machine.add(now, settings);
        Self { config, key, index, foreign: 0 }
    }
}

struct Sender {
    /// The bundles of the configuration are in `bundles`.
    config: Send,
    machine: SendBox<Segment>,
    /// In the order of the configuration.
    bundles: Vec<Bundle>,
    /// Position in `bundles`, by the state machine's index.
    places: Vec<usize>,
    table: Table<usize>,
    port: Port,
    mail: Mail,
    ready: ReadyQueue,
    board: Board,
    latest_time: Time,
    started: Time,
    mtu: u32,
    /// Packets that belong to no bundle: their source is not in a bundle's `local` addresses.
    others: u64,
    scratch: Vec<u8>,
}

const DEVICE: u64 = 0;
const MAIL: u64 = 1;

impl Sender {
    fn new(mut config: Send, port: Port, mail: Mail, board: Board) -> Result<Self> {
        use std::os::fd::AsFd;

        let now = wait::now();
        let machine = SendBox::new(wait::incarnation()?);
        let outgoing = std::mem::take(&mut config.bundles);
        let ready = ReadyQueue::try_new()?;
        ready.add(port.as_fd(), DEVICE, Interest::Read)?;
        ready.add(mail.as_fd(), MAIL, Interest::Read)?;
        let mut sender = Self {
            config,
            machine,
            bundles: Vec::new(),
            places: Vec::new(),
            table: Table::default(),
            port,
            mail,
            ready,
            board,
            latest_time: now,
            started: now,
            mtu: USUAL_MTU,
            others: 0,
            scratch: Vec::new(),
        };
        sender.set_bundles(now, outgoing);
        sender.publish(now);
        Ok(sender)
    }

    /// Uses these bundles. Bundles that are the same as before keep their state; the state machine
    /// must have no other ones.
    fn set_bundles(&mut self, now: Time, outgoing: Vec<Outgoing>) {
        let mut kept = std::mem::take(&mut self.bundles);
        self.table = Table::default();
        for (place, config) in outgoing.into_iter().enumerate() {
            let known = kept.iter().position(|bundle| bundle.config == config);
            let bundle = match known {
                Some(known) => kept.swap_remove(known),
                None => Bundle::add(config, &mut self.machine, now),
            };
            let index = bundle.index.0 as usize;
            self.places.resize(self.places.len().max(index + 1), place);
            self.places[index] = place;
            for prefix in &bundle.config.remote {
                self.table.insert(prefix, &bundle.config.local, place);
            }
            self.bundles.push(bundle);
        }
    }

    /// Changes to a new configuration, if the host is ready for it.
    fn reload(
        &mut self,
        mut new: Send,
        diversion: &mut Diversion,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        let fixed = self.config.fixed_difference(&new);
        let checked = fixed.map_or_else(|| checked(&new), |key| Err(Error::Fixed(key)));
        let (prefixes, mtu) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                tell(&Event::Rejected(error));
                return Ok(());
            }
        };
        let old = self.bundles.iter().map(|bundle| &bundle.config);
        let changes = Changes::between(old, new.bundles.iter(), |bundle| &bundle.name);
        let now = wait::now();
        for bundle in self.bundles.iter().filter(|it| !new.bundles.contains(&it.config)) {
            self.machine.remove(now, bundle.index);
        }
        // Sends the packets of removed bundles.
        self.execute_outputs(tell);
        self.bundles.retain(|bundle| new.bundles.contains(&bundle.config));
        self.set_bundles(now, std::mem::take(&mut new.bundles));
        self.mtu = mtu;
        route::bring_up(&self.config.common.device, mtu, prefixes.iter().any(Prefix::is_ipv6))?;
        diversion.change(&prefixes)?;
        tell(&Event::Reloaded(changes));
        self.publish(now);
        Ok(())
    }

    fn run(
        &mut self,
        control: &mut Control<'_, Send>,
        diversion: &mut Diversion,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        wait::be_precise();
        let mut events = Vec::new();
        let mut woken = wait::now();
        while !control.stop.load(Ordering::Relaxed) {
            if control.reload.swap(false, Ordering::Relaxed)
                && let Some(new) = (control.load)()
            {
                self.reload(new, diversion, tell)?;
            }
            let next = self.latest_time + status::interval(self.bundles.len());
            let due = self.machine.next_wake().map(|at| at.max(woken + BATCH));
            let until = due.map_or(next, |due| due.min(next));
            events.clear();
            wait::until(&mut self.ready, until, self.config.spin, &mut events)?;
            for event in &events {
                match event.token {
                    MAIL => self.messages(tell),
                    _ => self.packets(tell)?,
                }
            }
            let now = wait::now();
            if self.machine.next_wake().is_some_and(|at| at <= now) {
                woken = now;
                self.machine.on_wake(now);
                self.execute_outputs(tell);
            }
            if now >= next {
                self.publish(now);
            }
        }
        Ok(())
    }

    fn messages(&mut self, tell: &mut dyn FnMut(&Event)) {
        for _ in 0..MESSAGES {
            let Some((payload, source)) = self.mail.receive() else { break };
            let index = message::bundle_of(payload).and_then(|id| self.machine.bundle(id));
            if let Some(index) = index {
                let bundle = &mut self.bundles[self.places[index.0 as usize]];
                if !is_from(source, bundle.config.peer) {
                    bundle.foreign += 1;
                    continue;
                }
            }
            let now = wait::now();
            self.machine.on_message(now, payload);
        }
        self.execute_outputs(tell);
    }

    fn packets(&mut self, tell: &mut dyn FnMut(&Event)) -> Result<()> {
        for _ in 0..READS {
            let Some(packet) = self.port.read()? else { break };
            self.packet(&packet);
            self.execute_outputs(tell);
        }
        Ok(())
    }

    /// Processes each segment as one packet.
    fn packet(&mut self, packet: &Rc<Packet>) {
        let header = &packet.header;
        let place = self.table.find(header.source, header.destination);
        let bundle = place.map(|place| &self.bundles[place]);
        let now = wait::now();
        let ecn = Ecn::from_bits(header.ecn);
        let (flow, dscp) = (header.flow_hash(), header.dscp);
        let mut is_whole = true;
        for number in 0..packet.count() {
            // Segments have different times, in their order.
            let now = now + Span::from_nanos(u64::from(number));
            let segment = Segment { packet: Rc::clone(packet), number };
            let marked = bundle.and_then(|bundle| {
                let digest = match bundle.config.settings.marking {
                    // The sequence number of the encapsulation is used instead.
                    Marking::Encapsulation => 0,
                    Marking::Header => packet.digest(&bundle.key, number)?,
                };
                Some((bundle.index, digest))
            });
            let Some((index, digest)) = marked else {
                is_whole = false;
                self.port.send(segment, false);
                continue;
            };
            let size = packet.size(number);
            let arrival = Arrival { body: segment, size, flow, dscp, ecn, digest };
            self.machine.on_packet(now, index, arrival);
        }
        self.others += u64::from(!is_whole);
    }

    /// Executes the outputs of the state machine.
    fn execute_outputs(&mut self, tell: &mut dyn FnMut(&Event)) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Forward { body, marked, encapsulation: None, .. } => {
                    self.port.send(body, marked);
                }
                Output::Forward { bundle, body, marked, encapsulation: Some(envelope) } => {
                    self.encapsulate(bundle, &body, marked, envelope);
                }
                Output::Drop { .. } => {}
                Output::Message { bundle, payload } => {
                    let to = self.outgoing(bundle).peer;
                    self.mail.send(to, &payload);
                }
                Output::Transition { bundle, transition } => {
                    let bundle = self.outgoing(bundle).name.clone();
                    tell(&Event::Transition { bundle, transition });
                }
            }
        }
        self.port.flush();
    }

    fn outgoing(&self, index: BundleIndex) -> &Outgoing {
        &self.bundles[self.places[index.0 as usize]].config
    }

    fn encapsulate(
        &mut self,
        index: BundleIndex,
        body: &Segment,
        marked: bool,
        envelope: Envelope,
    ) {
        self.scratch.clear();
        self.scratch.resize(encapsulation::HEADER, 0);
        body.packet.assemble(body.number, marked, &mut self.scratch);
        let packet = &mut self.scratch[encapsulation::HEADER..];
        clamp_segment_size(packet, &body.packet.header, self.mtu);
        envelope.seal(&mut self.scratch);
        let peer = self.outgoing(index).peer;
        self.mail.send(peer, &self.scratch);
    }

    fn publish(&mut self, now: Time) {
        self.latest_time = now;
        let name = &self.config.common.device;
        let mut snapshot = Snapshot::new("send", name, now.since(self.started));
        let carried = &self.port.carried;
        for (name, value) in [
            ("device_reads", carried.reads),
            ("device_segments", carried.segments),
            ("device_writes", carried.writes),
            ("device_refused", carried.refused),
            ("no_memory", carried.no_memory),
            ("strange_packets", carried.strange),
            ("other_packets", self.others),
            ("strange_messages", self.machine.strange_messages()),
            ("refused_messages", self.mail.refused),
        ] {
            snapshot.count(name, value);
        }
        for bundle in &self.bundles {
            if let Some(status) = self.machine.status(bundle.index) {
                snapshot.outgoing(&bundle.config, &status, bundle.foreign, now);
            }
        }
        self.board.put(snapshot);
    }

    /// Sends the packets in the device and in the bundles.
    fn flush_and_release(&mut self, tell: &mut dyn FnMut(&Event)) {
        let now = wait::now();
        while let Ok(Some(packet)) = self.port.read() {
            self.packet(&packet);
        }
        for bundle in &self.bundles {
            self.machine.remove(now, bundle.index);
        }
        self.execute_outputs(tell);
    }
}
