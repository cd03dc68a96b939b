//! The receivebox: counts the received packets of each bundle and acknowledges those that end an
//! epoch. It is passive and delays no packet.

#[cfg(test)]
mod adversary;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use base::{Bytes, Span, StateMachine, Time};

use crate::association::{Association, Received, Role};
use crate::digest::{self, Key};
use crate::encapsulation::{self, Decapsulator, Envelope};
use crate::message::{self, Ack};
use crate::rejection::{Rejection, Rejections};

/// Time without a heartbeat after which a sendbox gets no more ACKs.
pub const EXPIRY: Span = Span::from_secs(30);
/// Maximum number of messages queued for [`ReceiveBox::poll`]; further ones are dropped, like
/// messages lost in the network.
const MAX_OUTPUTS: usize = 4096;

/// A bundle of a [`ReceiveBox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleIndex(pub u32);

/// A bundle at the receivebox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of the bundle, the same at both gateways.
    pub id: u32,
    /// The keys, the same at both gateways.
    pub key: Key,
    /// Bytes per packet in addition to layer 3, the same at both gateways.
    pub overhead: Bytes,
}

/// A message to the sendbox of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Index of the bundle.
    pub bundle: BundleIndex,
    /// Payload of a UDP datagram.
    pub payload: Vec<u8>,
}

/// Inputs of a [`ReceiveBox`] as a [`StateMachine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A packet of a bundle was received.
    Packet {
        /// Index of the bundle.
        bundle: BundleIndex,
        /// Layer-3 bytes.
        size: u32,
        /// Digest of the packet.
        digest: u64,
    },
    /// A datagram to the receivebox's own port was received.
    Message(Vec<u8>),
}

/// Counters of a bundle at the receivebox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets of the bundle received from the sendbox's site.
    pub packets: u64,
    /// Received bytes, including overhead.
    pub bytes: u64,
    /// Congestion ACKs sent.
    pub acks: u64,
    /// Number of accepted heartbeats.
    pub heartbeats: u64,
    /// Number of sent reports.
    pub reports: u64,
    /// Messages dropped because too many were queued for [`ReceiveBox::poll`].
    pub dropped: u64,
    /// New incarnations of the sendbox, except the first.
    pub peer_restarts: u64,
    /// Number of heartbeat timeouts.
    pub expiries: u64,
    /// Number of rejected messages.
    pub rejections: Rejections,
    /// Rejected encapsulated packets.
    pub encapsulated_rejections: Rejections,
}

/// Status of a bundle at the receivebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of the bundle.
    pub id: u32,
    /// The sendbox's incarnation.
    pub peer: Option<u64>,
    /// One packet in this many is acknowledged; `None` if none is.
    pub period: Option<u32>,
    /// Receive time of the newest heartbeat.
    pub heartbeat: Option<Time>,
    /// Counters since the receivebox started.
    pub counters: Counters,
}

/// The receiveboxes of any number of bundles.
#[derive(Debug)]
pub struct ReceiveBox {
    incarnation: u64,
    bundles: Vec<Option<Bundle>>,
    by_id: BTreeMap<u32, BundleIndex>,
    expiries: BTreeSet<(Time, BundleIndex)>,
    outputs: VecDeque<Output>,
    rejections: Rejections,
}

#[derive(Debug)]
struct Bundle {
    settings: Settings,
    association: Association,
    decapsulator: Decapsulator,
    /// Valid while heartbeats are received.
    period_log2: Option<u8>,
    heartbeat: Option<Time>,
    counters: Counters,
}

impl ReceiveBox {
    /// A receivebox without bundles. `incarnation` must differ from all earlier ones
    /// of this receivebox.
    pub fn new(incarnation: u64) -> Self {
        Self {
            incarnation,
            bundles: Vec::new(),
            by_id: BTreeMap::new(),
            expiries: BTreeSet::new(),
            outputs: VecDeque::new(),
            rejections: Rejections::default(),
        }
    }

    /// Adds a bundle, which replaces one with the same number.
    pub fn add(&mut self, _now: Time, settings: Settings) -> BundleIndex {
        if let Some(&old) = self.by_id.get(&settings.id) {
            self.remove(old);
        }
        let free = self.bundles.iter().position(Option::is_none);
        let place = free.unwrap_or(self.bundles.len());
        let index = BundleIndex(place as u32);
        self.by_id.insert(settings.id, index);
        let bundle = Bundle::new(settings, self.incarnation);
        match free {
            Some(_) => self.bundles[place] = Some(bundle),
            None => self.bundles.push(Some(bundle)),
        }
        index
    }

    /// Removes a bundle.
    pub fn remove(&mut self, index: BundleIndex) {
        let Some(bundle) = self.bundles.get_mut(index.0 as usize).and_then(Option::take) else {
            return;
        };
        self.by_id.remove(&bundle.settings.id);
        // A bundle that replaces it restarts its sequence numbers at 1.
        self.incarnation = self.incarnation.wrapping_add(1);
        self.expiries.retain(|(_, other)| *other != index);
        self.outputs.retain(|output| output.bundle != index);
    }

    /// The bundle with this number.
    pub fn bundle(&self, id: u32) -> Option<BundleIndex> {
        self.by_id.get(&id).copied()
    }

    /// Processes a received packet of a bundle with `size` layer-3 bytes on the wire: including
    /// [`encapsulation::ADDED_BYTES`] if it was encapsulated.
    pub fn on_packet(&mut self, now: Time, index: BundleIndex, size: u32, digest: u64) {
        let Some(bundle) = bundle_at(&mut self.bundles, index) else { return };
        if let Some(payload) = bundle.on_packet(now, size, digest) {
            bundle.send(index, payload, &mut self.outputs);
        }
    }

    /// Opens the payload of a datagram that contains a packet of a bundle, in place; see
    /// [`encapsulation`]. Returns the position of the packet, which must be forwarded. A rejected
    /// payload must not be forwarded.
    pub fn on_encapsulated(
        &mut self,
        now: Time,
        payload: &mut [u8],
    ) -> Result<(BundleIndex, Range<usize>), Rejection> {
        let header = encapsulation::Header::parse(payload);
        let index = self.bundle_of_packet(header.map(|header| header.bundle))?;
        let opened = self.open(index, |decapsulator| decapsulator.open(payload))?;
        let size = opened.inner.len() as u32 + encapsulation::ADDED_BYTES;
        self.on_packet(now, index, size, opened.digest);
        Ok((index, opened.inner))
    }

    /// The same for a packet of `size` layer-3 bytes that has an envelope but no bytes, as on
    /// the virtual clock.
    pub fn on_unencoded(
        &mut self,
        now: Time,
        envelope: &Envelope,
        size: u32,
    ) -> Result<BundleIndex, Rejection> {
        let index = self.bundle_of_packet(Ok(envelope.header.bundle))?;
        let digest = self.open(index, |decapsulator| decapsulator.open_unencoded(envelope))?;
        self.on_packet(now, index, size + encapsulation::ADDED_BYTES, digest);
        Ok(index)
    }

    fn bundle_of_packet(&mut self, id: Result<u32, Rejection>) -> Result<BundleIndex, Rejection> {
        let index = id.and_then(|id| self.bundle(id).ok_or(Rejection::UnknownBundle(id)));
        index.inspect_err(|rejection| self.rejections.count(*rejection))
    }

    fn open<T>(
        &mut self,
        index: BundleIndex,
        open: impl FnOnce(&mut Decapsulator) -> Result<T, Rejection>,
    ) -> Result<T, Rejection> {
        let bundle = bundle_at(&mut self.bundles, index).ok_or(Rejection::NotAdopted)?;
        let counters = &mut bundle.counters.encapsulated_rejections;
        open(&mut bundle.decapsulator).inspect_err(|rejection| counters.count(*rejection))
    }

    /// Processes the payload of a datagram to the receivebox's port.
    pub fn on_message(&mut self, now: Time, payload: &[u8]) {
        let id = message::bundle_of(payload);
        let index = id.and_then(|id| self.bundle(id));
        let Some((index, bundle)) =
            index.and_then(|index| Some((index, bundle_at(&mut self.bundles, index)?)))
        else {
            self.rejections.count(message::refuse(payload));
            return;
        };
        let before = bundle.heartbeat;
        let Some(payload) = bundle.on_message(now, payload) else { return };
        if bundle.heartbeat != before {
            if let Some(before) = before {
                self.expiries.remove(&(before + EXPIRY, index));
            }
            self.expiries.insert((now + EXPIRY, index));
        }
        bundle.send(index, payload, &mut self.outputs);
    }

    /// The next message to send.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Deadline of the next [`Self::on_wake`].
    pub fn next_wake(&self) -> Option<Time> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Expires bundles without a recent heartbeat.
    pub fn on_wake(&mut self, now: Time) {
        while let Some(&(at, index)) = self.expiries.first()
            && at <= now
        {
            self.expiries.pop_first();
            if let Some(bundle) = bundle_at(&mut self.bundles, index) {
                bundle.expire();
            }
        }
    }

    /// Status of a bundle; `None` if it was removed.
    pub fn status(&self, index: BundleIndex) -> Option<Status> {
        self.bundles.get(index.0 as usize)?.as_ref().map(Bundle::status)
    }

    /// Indices of all bundles.
    pub fn bundles(&self) -> impl Iterator<Item = BundleIndex> {
        let held = self.bundles.iter().zip(0..).filter(|(bundle, _)| bundle.is_some());
        held.map(|(_, index)| BundleIndex(index))
    }

    /// Rejected messages that belong to no bundle.
    pub const fn rejections(&self) -> &Rejections {
        &self.rejections
    }
}

fn bundle_at(bundles: &mut [Option<Bundle>], index: BundleIndex) -> Option<&mut Bundle> {
    bundles.get_mut(index.0 as usize)?.as_mut()
}

impl Bundle {
    fn new(settings: Settings, incarnation: u64) -> Self {
        Self {
            association: Association::new(
                Role::ReceiveBox,
                settings.id,
                &settings.key,
                incarnation,
            ),
            decapsulator: Decapsulator::new(settings.id, &settings.key),
            settings,
            period_log2: None,
            heartbeat: None,
            counters: Counters::default(),
        }
    }

    fn on_packet(&mut self, now: Time, size: u32, digest: u64) -> Option<Vec<u8>> {
        self.counters.packets += 1;
        self.counters.bytes += u64::from(size) + self.settings.overhead.count();
        if !digest::ends_epoch(digest, 1 << self.period_log2?) {
            return None;
        }
        if self.heartbeat? + EXPIRY <= now {
            return None;
        }
        self.counters.acks += 1;
        self.association.ack(Ack {
            digest,
            received_at: now.as_nanos(),
            bytes_received: self.counters.bytes,
            packets_received: self.counters.packets,
        })
    }

    /// Processes a message; returns the answer.
    fn on_message(&mut self, now: Time, payload: &[u8]) -> Option<Vec<u8>> {
        let received = self.association.receive(now, payload).ok()?;
        let Received::Heartbeat { heartbeat, question, adopted, peer_restarted } = received else {
            return None;
        };
        self.counters.heartbeats += 1;
        self.counters.peer_restarts += u64::from(peer_restarted);
        if adopted {
            self.heartbeat = Some(now);
            self.period_log2 = Some(heartbeat.period_log2);
            let receiver = self.association.incarnation();
            self.decapsulator.adopt(self.association.peer()?, receiver);
        }
        self.counters.reports += 1;
        let in_force = self.period_log2.filter(|_| adopted);
        let arrived = (self.counters.bytes, self.counters.packets);
        Some(self.association.report(now, question, in_force, arrived))
    }

    fn send(&mut self, bundle: BundleIndex, payload: Vec<u8>, outputs: &mut VecDeque<Output>) {
        if outputs.len() < MAX_OUTPUTS {
            outputs.push_back(Output { bundle, payload });
        } else {
            self.counters.dropped += 1;
        }
    }

    fn expire(&mut self) {
        self.heartbeat = None;
        self.period_log2 = None;
        self.counters.expiries += 1;
    }

    fn status(&self) -> Status {
        Status {
            id: self.settings.id,
            peer: self.association.peer(),
            period: self.period_log2.map(|log2| 1 << log2),
            heartbeat: self.heartbeat,
            counters: Counters { rejections: *self.association.rejections(), ..self.counters },
        }
    }
}

impl StateMachine for ReceiveBox {
    type Input = Input;
    type Output = Output;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Packet { bundle, size, digest } => self.on_packet(now, bundle, size, digest),
            Input::Message(payload) => self.on_message(now, &payload),
        }
    }

    fn next_wake(&self) -> Option<Time> {
        Self::next_wake(self)
    }

    fn on_wake(&mut self, now: Time) {
        Self::on_wake(self, now);
    }

    fn poll(&mut self) -> Option<Output> {
        Self::poll(self)
    }
}
