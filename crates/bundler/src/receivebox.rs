//! The receivebox: counts what arrives of each bundle and acknowledges the packets that end an
//! epoch. It is passive: it holds nothing back, and no packet waits for it.

#[cfg(test)]
mod adversary;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use base::{Bytes, Machine, Span, Time, WakeReason};

use crate::association::{Association, Received, Role};
use crate::digest::{self, Key};
use crate::encapsulation::{self, Decapsulator, Envelope};
use crate::message::{self, Ack};
use crate::rejection::{Rejection, Rejections};

/// A sendbox that has sent no heartbeat for so long gets no more ACKs.
pub const EXPIRY: Span = Span::from_secs(30);
/// Messages that wait for [`ReceiveBox::poll`] at most; further ones are dropped, which to
/// the sendbox looks as if the network had lost them.
const MOST_OUTPUTS: usize = 4096;

/// A bundle of a [`ReceiveBox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleIndex(pub u32);

/// What a receivebox must know of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of the bundle, the same at both boxes.
    pub id: u32,
    /// The keys, the same at both boxes.
    pub key: Key,
    /// What each packet counts beyond its layer-3 bytes, the same at both boxes.
    pub overhead: Bytes,
}

/// A message to the sendbox of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The bundle.
    pub bundle: BundleIndex,
    /// Payload of a UDP datagram.
    pub payload: Vec<u8>,
}

/// What a [`ReceiveBox`] takes as a [`Machine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A packet of a bundle has come.
    Packet {
        /// The bundle.
        bundle: BundleIndex,
        /// Layer-3 bytes.
        size: u32,
        /// Its digest.
        digest: u64,
    },
    /// A datagram has come to the box's own port.
    Message(Vec<u8>),
}

/// What has become of a bundle at the receivebox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came.
    pub packets: u64,
    /// Their bytes, overhead included.
    pub bytes: u64,
    /// Congestion ACKs sent.
    pub acks: u64,
    /// Heartbeats accepted.
    pub heartbeats: u64,
    /// Reports sent.
    pub reports: u64,
    /// Messages dropped because too many waited for [`ReceiveBox::poll`].
    pub dropped: u64,
    /// New incarnations of the sendbox, the first not counted.
    pub peer_restarts: u64,
    /// How often the heartbeats ceased.
    pub expiries: u64,
    /// Messages refused.
    pub rejections: Rejections,
    /// Encapsulated packets refused.
    pub encapsulated_rejections: Rejections,
}

/// How a bundle fares at the receivebox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of the bundle.
    pub id: u32,
    /// The sendbox's incarnation.
    pub peer: Option<u64>,
    /// One packet of so many is acknowledged; `None` when none is.
    pub period: Option<u32>,
    /// When the newest heartbeat came.
    pub heartbeat: Option<Time>,
    /// Since the box started.
    pub counters: Counters,
}

/// Receiveboxes of any number of bundles.
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
    /// In force while heartbeats come.
    period_log2: Option<u8>,
    heartbeat: Option<Time>,
    counters: Counters,
}

impl ReceiveBox {
    /// A box without bundles. `incarnation` must differ from all earlier ones of this box.
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

    /// Adds a bundle, in the place of one with the same number.
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

    /// Forgets a bundle.
    pub fn remove(&mut self, index: BundleIndex) {
        let Some(bundle) = self.bundles.get_mut(index.0 as usize).and_then(Option::take) else {
            return;
        };
        self.by_id.remove(&bundle.settings.id);
        // A bundle that takes its place counts from 1 again.
        self.incarnation = self.incarnation.wrapping_add(1);
        self.expiries.retain(|(_, other)| *other != index);
        self.outputs.retain(|output| output.bundle != index);
    }

    /// The bundle with this number.
    pub fn bundle(&self, id: u32) -> Option<BundleIndex> {
        self.by_id.get(&id).copied()
    }

    /// A packet of a bundle has come, of `size` layer-3 bytes as it travelled: with
    /// [`encapsulation::OVERHEAD`] if it was encapsulated.
    pub fn on_packet(&mut self, now: Time, index: BundleIndex, size: u32, digest: u64) {
        let Some(bundle) = bundle_at(&mut self.bundles, index) else { return };
        if let Some(payload) = bundle.on_packet(now, size, digest) {
            bundle.send(index, payload, &mut self.outputs);
        }
    }

    /// Opens the payload of a datagram that carries a packet of a bundle, in place; see
    /// [`encapsulation`]. Returns where in it the packet is that must be forwarded. A rejected
    /// payload must not be forwarded.
    pub fn on_encapsulated(
        &mut self,
        now: Time,
        payload: &mut [u8],
    ) -> Result<(BundleIndex, Range<usize>), Rejection> {
        let header = encapsulation::Header::parse(payload);
        let index = self.bundle_of_packet(header.map(|header| header.bundle))?;
        let opened = self.open(index, |decapsulator| decapsulator.open(payload))?;
        let size = opened.inner.len() as u32 + encapsulation::OVERHEAD;
        self.on_packet(now, index, size, opened.digest);
        Ok((index, opened.inner))
    }

    /// The same for a packet of `size` layer-3 bytes that has an envelope and no bytes, as on the
    /// virtual clock.
    pub fn on_unencoded(
        &mut self,
        now: Time,
        envelope: &Envelope,
        size: u32,
    ) -> Result<BundleIndex, Rejection> {
        let index = self.bundle_of_packet(Ok(envelope.header.bundle))?;
        let digest = self.open(index, |decapsulator| decapsulator.open_unencoded(envelope))?;
        self.on_packet(now, index, size + encapsulation::OVERHEAD, digest);
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

    /// Takes the payload of any datagram that came to the box's port.
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

    /// When [`Self::on_wake`] must be called.
    pub fn next_wake(&self) -> Option<Time> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Expires what has heard no heartbeat for too long.
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

    /// How a bundle fares; `None` if it has been removed.
    pub fn status(&self, index: BundleIndex) -> Option<Status> {
        self.bundles.get(index.0 as usize)?.as_ref().map(Bundle::status)
    }

    /// The bundles, by their places.
    pub fn bundles(&self) -> impl Iterator<Item = BundleIndex> {
        let held = self.bundles.iter().zip(0..).filter(|(bundle, _)| bundle.is_some());
        held.map(|(_, index)| BundleIndex(index))
    }

    /// Bytes refused that belong to no bundle.
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

    /// Returns the answer.
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
        if outputs.len() < MOST_OUTPUTS {
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

impl Machine for ReceiveBox {
    type In = Input;
    type Out = Output;

    fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Packet { bundle, size, digest } => self.on_packet(now, bundle, size, digest),
            Input::Message(payload) => self.on_message(now, &payload),
        }
    }

    fn next_wake(&self) -> Option<(Time, WakeReason)> {
        Self::next_wake(self).map(|at| (at, WakeReason("expiry of a bundle")))
    }

    fn on_wake(&mut self, now: Time) {
        Self::on_wake(self, now);
    }

    fn poll(&mut self) -> Option<Output> {
        Self::poll(self)
    }
}
