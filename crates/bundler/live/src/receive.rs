//! The receivebox on a host: it observes arriving packets and delays none of them. Only packets of
//! encapsulated bundles pass through it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Span, Time};
use bundler::digest::DigestKey;
use bundler::encapsulation;
use bundler::message;
use bundler::receivebox::{self, BundleIndex, ReceiveBox};
use bundler::settings::Marking;
use sys::ring::{Options, Ring};
use sys::socket::{Interest, ReadyQueue};
use wire::{Header, Offload, Protocol};

use crate::config::{Common, Incoming, Receive};
use crate::mail::{Mail, is_from};
use crate::packet::each_segment;
use crate::port::Port;
use crate::prefix::Table;
use crate::status::{self, Board, Snapshot};
use crate::wait;
use crate::{Changes, Control, Error, Prefix, Result, filter, route};

/// Maximum number of datagrams before blocks of packets are processed.
const DATAGRAMS: usize = 256;
/// Maximum number of blocks before datagrams are processed, so that a flood of packets
/// cannot suppress heartbeats.
const BLOCKS: usize = 16;
/// Maximum delay of an ACK until a block of packets is full; the kernel supports no shorter one.
const BLOCK_TIME: Duration = Duration::from_millis(1);

#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The receivebox has started to observe arriving packets.
    Ready { interfaces: Vec<String> },
    /// A new configuration is in use.
    Reloaded(Changes),
    /// A new configuration cannot be used; the previous one is in use.
    Rejected(Error),
}

/// Runs a receivebox with its status at `board` until it is stopped.
///
/// # Errors
/// If it cannot start, or an interface disappears.
pub fn run(
    config: Receive,
    board: &Board,
    control: &mut Control<'_, Receive>,
    tell: &mut dyn FnMut(&Event),
) -> Result<()> {
    let mail = Mail::bind(config.common.listen)?;
    let mut port = None;
    prepare_device(&config, &mut port)?;
    let watches = Watches::default().changed(&config)?.unwrap_or_default();
    let interfaces = watches.names.clone();
    let mut receiver = Receiver::new(config, watches, port, mail, board.clone())?;
    tell(&Event::Ready { interfaces });
    receiver.run(control, tell)
}

/// Interfaces at which packets of bundles are observed.
#[derive(Default)]
struct Watches {
    names: Vec<String>,
    /// Destinations of these packets.
    prefixes: Vec<Prefix>,
    each: Vec<Watch>,
}

impl Watches {
    /// Opens the interfaces for these bundles; `None` if `self` observes the same packets.
    fn changed(&self, config: &Receive) -> Result<Option<Self>> {
        let prefixes = prefixes(config, Marking::Header);
        let names = match &*config.interfaces {
            _ if prefixes.is_empty() => Vec::new(),
            [] => towards_peers(config)?,
            names => names.to_vec(),
        };
        if names == self.names && prefixes == self.prefixes {
            return Ok(None);
        }
        let each: Result<_> = names.iter().map(|name| Watch::open(name, &prefixes)).collect();
        Ok(Some(Self { each: each?, names, prefixes }))
    }
}

/// Destinations of the bundles with this marking.
fn prefixes(config: &Receive, marking: Marking) -> Vec<Prefix> {
    let bundles = config.bundles.iter().filter(|bundle| bundle.marking == marking);
    bundles.flat_map(|bundle| bundle.local.clone()).collect()
}

/// Prepares the device that decapsulated packets leave through, if a bundle is encapsulated.
fn prepare_device(config: &Receive, port: &mut Option<Port>) -> Result<()> {
    let prefixes = prefixes(config, Marking::Encapsulation);
    if prefixes.is_empty() {
        return Ok(());
    }
    route::check_forwarding(&prefixes)?;
    let device = &config.common.device;
    if port.is_none() {
        *port = Some(Port::open(device)?);
    }
    route::bring_up(device, 1500, prefixes.iter().any(Prefix::is_ipv6))
}

/// The interfaces on the routes to the peers, at which packets usually arrive.
fn towards_peers(config: &Receive) -> Result<Vec<String>> {
    let mut socket = sys::netlink::Socket::open()?;
    let mut names = Vec::new();
    for bundle in &config.bundles {
        let way = socket.look_up_route(bundle.peer.ip())?;
        let way = way.ok_or_else(|| Error::NoRoute(bundle.peer.ip().to_string()))?;
        let name = sys::netlink::name_of(way.device)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// An observed interface.
struct Watch {
    ring: Ring,
    /// Length of its link-layer header.
    link: u16,
}

impl Watch {
    fn open(name: &str, prefixes: &[Prefix]) -> Result<Self> {
        /// Interfaces without a link-layer header (`ARPHRD_NONE`, `ARPHRD_RAWIP`).
        const BARE: [u16; 2] = [0xfffe, 519];
        let link = if BARE.contains(&sys::ring::link_of(name)?) { 0 } else { 14 };
        let options = Options {
            timeout: BLOCK_TIME,
            promiscuous: false,
            filter: filter::to(prefixes, usize::from(link)),
            incoming_only: true,
            offload: true,
            ..Options::default()
        };
        Ok(Self { ring: Ring::open(name, &options)?, link })
    }
}

struct Bundle {
    config: Incoming,
    key: DigestKey,
    index: BundleIndex,
    /// Datagrams from another address than that of the sendbox.
    foreign: u64,
}

impl Bundle {
    /// Adds the bundle to the state machine.
    fn add(config: Incoming, machine: &mut ReceiveBox, now: Time) -> Self {
        let Incoming { id, overhead, .. } = config;
        let settings = receivebox::Settings { id, key: config.key.clone(), overhead };
        let index = machine.add(now, settings);
        Self { key: config.key.digest(), config, index, foreign: 0 }
    }
}

#[derive(Default)]
struct Counts {
    frames: u64,
    /// Packets to the prefixes that belong to no bundle.
    others: u64,
    /// Packets that the kernel dropped at interfaces that are no longer observed.
    earlier_drops: u64,
    /// Encapsulated packets with addresses outside of their bundle.
    misplaced: u64,
}

struct Receiver {
    /// The bundles of the configuration are in `bundles`.
    config: Receive,
    machine: ReceiveBox,
    /// In the order of the configuration.
    bundles: Vec<Bundle>,
    table: Table<usize>,
    watches: Watches,
    port: Option<Port>,
    mail: Mail,
    ready: ReadyQueue,
    board: Board,
    counts: Counts,
    /// The latest time, which never decreases.
    latest: Time,
    latest_time: Time,
    started: Time,
}

const MAIL: u64 = u64::MAX;

impl Receiver {
    fn new(
        mut config: Receive,
        watches: Watches,
        port: Option<Port>,
        mail: Mail,
        board: Board,
    ) -> Result<Self> {
        let now = wait::now();
        let machine = ReceiveBox::new(wait::incarnation()?);
        let incoming = std::mem::take(&mut config.bundles);
        let ready = ReadyQueue::try_new()?;
        ready.add(mail.as_fd(), MAIL, Interest::Read)?;
        let (counts, latest, latest_time, started) = (Counts::default(), now, now, now);
        let (bundles, table) = (Vec::new(), Table::default());
        let mut receiver = Self {
            config,
            machine,
            bundles,
            table,
            watches,
            port,
            mail,
            ready,
            board,
            counts,
            latest,
            latest_time,
            started,
        };
        receiver.listen_to_watches()?;
        receiver.set_bundles(now, incoming);
        receiver.publish(now)?;
        Ok(receiver)
    }

    fn listen_to_watches(&self) -> Result<()> {
        for (watch, token) in self.watches.each.iter().zip(0..) {
            self.ready.add(watch.ring.as_fd(), token, Interest::Read)?;
        }
        Ok(())
    }

    /// Uses these bundles. Bundles that are the same as before keep their state.
    fn set_bundles(&mut self, now: Time, incoming: Vec<Incoming>) {
        let (mut kept, removed): (Vec<_>, Vec<_>) = std::mem::take(&mut self.bundles)
            .into_iter()
            .partition(|bundle| incoming.contains(&bundle.config));
        for bundle in removed {
            self.machine.remove(bundle.index);
        }
        self.table = Table::default();
        for (place, config) in incoming.into_iter().enumerate() {
            for prefix in &config.local {
                self.table.insert(prefix, &config.remote, place);
            }
            let known = kept.iter().position(|bundle| bundle.config == config);
            self.bundles.push(match known {
                Some(known) => kept.swap_remove(known),
                None => Bundle::add(config, &mut self.machine, now),
            });
        }
    }

    /// Changes to a new configuration, if the host is ready for it.
    fn reload(&mut self, mut new: Receive, tell: &mut dyn FnMut(&Event)) -> Result<()> {
        let fixed = self.config.fixed_difference(&new);
        let ready = fixed.map_or(Ok(()), |key| Err(Error::Fixed(key)));
        let ready = ready.and_then(|()| prepare_device(&new, &mut self.port));
        let watches = match ready.and_then(|()| self.watches.changed(&new)) {
            Ok(watches) => watches,
            Err(error) => {
                tell(&Event::Rejected(error));
                return Ok(());
            }
        };
        let old = self.bundles.iter().map(|bundle| &bundle.config);
        let changes = Changes::between(old, new.bundles.iter(), |bundle| &bundle.name);
        if let Some(watches) = watches {
            // The rings that this drops leave the queue of ready descriptors.
            self.counts.earlier_drops = self.drops()?;
            self.watches = watches;
            self.listen_to_watches()?;
        }
        let now = self.now();
        self.set_bundles(now, std::mem::take(&mut new.bundles));
        self.config = new;
        tell(&Event::Reloaded(changes));
        self.publish(now)
    }

    fn run(
        &mut self,
        control: &mut Control<'_, Receive>,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<()> {
        wait::be_precise();
        let mut events = Vec::new();
        while !control.stop.load(Ordering::Relaxed) {
            if control.reload.swap(false, Ordering::Relaxed)
                && let Some(new) = (control.load)()
            {
                self.reload(new, tell)?;
            }
            let next = self.latest_time + status::interval(self.bundles.len());
            let until = self.machine.next_wake().map_or(next, |at| at.min(next));
            events.clear();
            wait::until(&mut self.ready, until, false, &mut events)?;
            for event in &events {
                match event.token {
                    MAIL => self.datagrams(),
                    number => self.blocks(number as usize)?,
                }
            }
            self.send();
            let now = self.now();
            if self.machine.next_wake().is_some_and(|at| at <= now) {
                self.machine.on_wake(now);
            }
            if now >= next {
                self.publish(now)?;
            }
        }
        Ok(())
    }

    fn now(&mut self) -> Time {
        self.latest = self.latest.max(wait::now());
        self.latest
    }

    /// Processes all packets that an interface has captured.
    fn blocks(&mut self, number: usize) -> Result<()> {
        for _ in 0..BLOCKS {
            // The age of a packet is computed from `wall`, so both clocks are read together.
            let (now, wall) = (wait::now(), sys::clock::realtime());
            let Watch { ring, link, .. } = &mut self.watches.each[number];
            let Some(mut block) = ring.next_block(Duration::ZERO)? else { break };
            while let Some(packet) = block.next_packet() {
                let age = wait::age(packet.time, wall);
                let at = Time::from_nanos(now.as_nanos().saturating_sub(age.as_nanos()));
                self.latest = self.latest.max(at);
                let last = &mut self.latest;
                self.counts.frames += 1;
                let Some(bytes) = packet.data.get(usize::from(*link)..) else { continue };
                let Some(header) = Header::parse(bytes) else { continue };
                let offload = packet.offload.map(|it| Offload::read(it, *link));
                let offload = offload.unwrap_or_default();
                let bytes = match offload.segment {
                    Some(_) => bytes,
                    // Short frames are padded.
                    None => bytes.get(..header.total_length as usize).unwrap_or(bytes),
                };
                let place = self.table.find(header.source, header.destination);
                let bundle = place.map(|place| &self.bundles[place]);
                let is_of = |bundle: &&Bundle| {
                    bundle.config.marking == Marking::Header
                        && !is_message(&header, &bundle.config, &self.config.common)
                };
                let Some(bundle) = bundle.filter(is_of) else {
                    self.counts.others += 1;
                    continue;
                };
                let machine = &mut self.machine;
                each_segment(&bundle.key, bytes, &header, offload, |size, digest| {
                    machine.on_packet(*last, bundle.index, size, digest);
                    // Each packet must have a different time.
                    *last += Span::from_nanos(1);
                });
            }
            drop(block);
            self.send();
        }
        Ok(())
    }

    fn datagrams(&mut self) {
        for _ in 0..DATAGRAMS {
            self.latest = self.latest.max(wait::now());
            let now = self.latest;
            let Some((payload, source)) = self.mail.receive() else { break };
            let packet_of = encapsulation::bundle_of(payload);
            let id = packet_of.or_else(|| message::bundle_of(payload));
            let index = id.and_then(|id| self.machine.bundle(id));
            let place = self.bundles.iter().position(|bundle| Some(bundle.index) == index);
            if let Some(place) = place
                && !is_from(source, self.bundles[place].config.peer)
            {
                self.bundles[place].foreign += 1;
                continue;
            }
            if packet_of.is_none() {
                self.machine.on_message(now, payload);
                continue;
            }
            // The state machine counts rejected packets.
            let Ok((_, inner)) = self.machine.on_encapsulated(now, payload) else { continue };
            let packet = &payload[inner];
            let header = Header::parse(packet);
            let is_in =
                |header: Header| self.table.find(header.source, header.destination) == place;
            match &mut self.port {
                Some(port) if place.is_some() && header.is_some_and(is_in) => port.write(packet),
                _ => self.counts.misplaced += 1,
            }
        }
    }

    /// Sends the messages of the state machine.
    fn send(&mut self) {
        while let Some(output) = self.machine.poll() {
            let place = self.bundles.iter().position(|bundle| bundle.index == output.bundle);
            let Some(place) = place else { continue };
            self.mail.send(self.bundles[place].config.peer, &output.payload);
        }
    }

    /// Packets that the kernel dropped because the gateway was too slow.
    fn drops(&mut self) -> Result<u64> {
        let mut drops = self.counts.earlier_drops;
        for watch in &mut self.watches.each {
            drops += watch.ring.statistics()?.drops;
        }
        Ok(drops)
    }

    fn publish(&mut self, now: Time) -> Result<()> {
        self.latest_time = now;
        let drops = self.drops()?;
        let name = if self.port.is_some() { self.config.common.device.as_str() } else { "" };
        let mut snapshot = Snapshot::new("receive", name, now.since(self.started));
        let carried = self.port.as_ref().map(|port| port.carried).unwrap_or_default();
        for (name, value) in [
            ("frames", self.counts.frames),
            ("kernel_drops", drops),
            ("other_packets", self.counts.others),
            ("misplaced_packets", self.counts.misplaced),
            ("device_writes", carried.writes),
            ("device_refused", carried.refused),
            ("strange_messages", self.machine.rejections().total()),
            ("refused_messages", self.mail.refused),
        ] {
            snapshot.count(name, value);
        }
        for bundle in &self.bundles {
            if let Some(status) = self.machine.status(bundle.index) {
                snapshot.incoming(&bundle.config, &status, bundle.foreign, now);
            }
        }
        self.board.put(snapshot);
        Ok(())
    }
}

/// Whether a packet is a message of the gateways themselves. Such a packet belongs to no bundle,
/// even if the receivebox has an address of its site.
fn is_message(header: &Header, bundle: &Incoming, common: &Common) -> bool {
    let peer = bundle.peer;
    header.protocol == Protocol::UDP
        && header.ports == (peer.port(), common.listen.port())
        && header.source_ip() == peer.ip()
}
