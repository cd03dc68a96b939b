//! The receivebox on a host: it observes arriving packets and delays none of them. Only packets of
//! encapsulated bundles pass through it.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
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

use crate::config::Receive;
use crate::mail::{Mail, is_from};
use crate::packet::each_segment;
use crate::port::Port;
use crate::prefix::Table;
use crate::status::{self, Board, Snapshot};
use crate::wait;
use crate::{Error, Prefix, Result, filter, route};

/// Maximum number of datagrams before blocks of packets are processed.
const DATAGRAMS: usize = 256;
/// Maximum number of blocks before datagrams are processed, so that a flood of packets
/// cannot suppress heartbeats.
const BLOCKS: usize = 16;
/// Maximum delay of an ACK until a block of packets is full; the kernel supports no shorter one.
const BLOCK_TIME: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It observes arriving packets from now on.
    Ready { interfaces: Vec<String> },
}

/// Runs a receivebox with its status at `board` until `stop` is set.
///
/// # Errors
/// If it cannot start, or an interface disappears.
pub fn run(
    config: &Receive,
    board: &Board,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Event),
) -> Result<()> {
    let common = &config.common;
    let marked = |marking| config.bundles.iter().filter(move |it| it.marking == marking);
    let mail = Mail::bind(common.listen)?;
    let mut port = None;
    if marked(Marking::Encapsulation).next().is_some() {
        let local: Vec<Prefix> =
            marked(Marking::Encapsulation).flat_map(|it| it.local.clone()).collect();
        route::check_forwarding(&local)?;
        port = Some(Port::open(&common.device)?);
        let ipv6 = local.iter().any(Prefix::is_ipv6);
        route::bring_up(&common.device, 1500, ipv6)?;
    }
    let mut interfaces = Vec::new();
    if marked(Marking::Header).next().is_some() {
        interfaces = if config.interfaces.is_empty() {
            towards_peers(config)?
        } else {
            config.interfaces.clone()
        };
    }
    let local: Vec<Prefix> = marked(Marking::Header).flat_map(|it| it.local.clone()).collect();
    let watches: Result<Vec<Watch>> =
        interfaces.iter().map(|name| Watch::open(name, &local)).collect();
    let mut receiver = Receiver::new(config, watches?, port, mail, board.clone())?;
    tell(&Event::Ready { interfaces });
    receiver.run(stop)
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
    key: DigestKey,
    index: BundleIndex,
    marking: Marking,
    /// Datagrams from another address than that of the sendbox.
    foreign: u64,
}

#[derive(Default)]
struct Counts {
    frames: u64,
    /// Packets to the prefixes that belong to no bundle.
    others: u64,
    drops: u64,
    /// Encapsulated packets with addresses outside of their bundle.
    misplaced: u64,
}

struct Receiver<'a> {
    config: &'a Receive,
    machine: ReceiveBox,
    /// In the order of the configuration.
    bundles: Vec<Bundle>,
    table: Table<usize>,
    watches: Vec<Watch>,
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

impl<'a> Receiver<'a> {
    fn new(
        config: &'a Receive,
        watches: Vec<Watch>,
        port: Option<Port>,
        mail: Mail,
        board: Board,
    ) -> Result<Self> {
        let now = wait::now();
        let mut machine = ReceiveBox::new(wait::incarnation()?);
        let (mut bundles, mut table) = (Vec::new(), Table::default());
        for (place, bundle) in config.bundles.iter().enumerate() {
            let (id, overhead) = (bundle.id, bundle.overhead);
            let settings = receivebox::Settings { id, key: bundle.key.clone(), overhead };
            let index = machine.add(now, settings);
            let (key, marking) = (bundle.key.digest(), bundle.marking);
            bundles.push(Bundle { key, index, marking, foreign: 0 });
            for prefix in &bundle.local {
                table.insert(prefix, &bundle.remote, place);
            }
        }
        let ready = ReadyQueue::try_new()?;
        ready.add(mail.as_fd(), MAIL, Interest::Read)?;
        for (watch, token) in watches.iter().zip(0..) {
            ready.add(watch.ring.as_fd(), token, Interest::Read)?;
        }
        let (counts, latest, latest_time, started) = (Counts::default(), now, now, now);
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
        receiver.publish(now)?;
        Ok(receiver)
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        wait::be_precise();
        let mut events = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let next = self.latest_time + status::interval(self.config.bundles.len());
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
            // Both clocks are read at the same instant, because the age of packets is computed from
            // the second.
            let (now, wall) = (wait::now(), sys::clock::realtime());
            let Watch { ring, link } = &mut self.watches[number];
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
                let place = place.filter(|place| !is_message(&header, self.config, *place));
                let bundle = place.map(|place| &self.bundles[place]);
                let Some(bundle) = bundle.filter(|it| it.marking == Marking::Header) else {
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
                && !is_from(source, self.config.bundles[place].peer)
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
            self.mail.send(self.config.bundles[place].peer, &output.payload);
        }
    }

    fn publish(&mut self, now: Time) -> Result<()> {
        self.latest_time = now;
        self.counts.drops = 0;
        for watch in &mut self.watches {
            self.counts.drops += watch.ring.statistics()?.drops;
        }
        let name = if self.port.is_some() { self.config.common.device.as_str() } else { "" };
        let mut snapshot = Snapshot::new("receive", name, now.since(self.started));
        let carried = self.port.as_ref().map(|port| port.carried).unwrap_or_default();
        for (name, value) in [
            ("frames", self.counts.frames),
            ("kernel_drops", self.counts.drops),
            ("other_packets", self.counts.others),
            ("misplaced_packets", self.counts.misplaced),
            ("device_writes", carried.writes),
            ("device_refused", carried.refused),
            ("strange_messages", self.machine.rejections().total()),
            ("refused_messages", self.mail.refused),
        ] {
            snapshot.count(name, value);
        }
        for (bundle, incoming) in self.bundles.iter().zip(&self.config.bundles) {
            if let Some(status) = self.machine.status(bundle.index) {
                snapshot.incoming(incoming, &status, bundle.foreign, now);
            }
        }
        self.board.put(snapshot);
        Ok(())
    }
}

/// Whether a packet is a message of the gateways themselves. Such a packet belongs to no bundle,
/// even if the receivebox has an address of its site.
fn is_message(header: &Header, config: &Receive, place: usize) -> bool {
    let peer = config.bundles[place].peer;
    header.protocol == Protocol::UDP
        && header.ports == (peer.port(), config.common.listen.port())
        && header.source_ip() == peer.ip()
}
