//! The sending box: where a site's queue is.
//!
//! ```text
//! packet → scheduler → pacer → counters, epochs → out
//!                        ↑ rate
//! congestion ACK → measurement → state, congestion control, pulses
//! ```

mod bundle;
mod guard;
mod pacer;
mod standing;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod tick;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use base::{Machine, Time, WakeReason};
use queue::{DropReason, Ecn};

use crate::encapsulation::Envelope;
use crate::message;
pub use crate::receivebox::BundleIndex;
use crate::settings::Settings;
use bundle::Bundle;
pub use state::{Cause, Reason, State, Transition};
pub use status::{Counters, Status};

/// A packet of a bundle comes from the site. `B` is the driver's handle on it.
#[derive(Clone, Debug)]
pub struct Arrival<B> {
    /// The packet.
    pub body: B,
    /// Its layer-3 bytes.
    pub size: u32,
    /// Hash of addresses, protocol and ports: what fair queueing tells flows apart by.
    pub flow: u32,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Its [`crate::digest`], as the receivebox will compute it.
    pub digest: u64,
}

/// What the box hands out.
#[derive(Clone, Debug)]
pub enum Output<B> {
    /// The packet goes on.
    Forward {
        /// Its bundle.
        bundle: BundleIndex,
        /// The packet.
        body: B,
        /// The scheduler marks it with congestion experienced.
        marked: bool,
        /// How to encapsulate it; `None`: it leaves as it is, because the bundle is not
        /// encapsulated or the receivebox could not open it.
        encapsulation: Option<Envelope>,
    },
    /// The scheduler has dropped the packet.
    Drop {
        /// Its bundle.
        bundle: BundleIndex,
        /// The packet.
        body: B,
        /// Why.
        reason: DropReason,
    },
    /// A message for the receivebox.
    Message {
        /// Its bundle.
        bundle: BundleIndex,
        /// The UDP payload.
        payload: Vec<u8>,
    },
    /// A bundle's state has changed.
    Transition {
        /// Its bundle.
        bundle: BundleIndex,
        /// The change.
        transition: Transition,
    },
}

/// What the box takes.
#[derive(Clone, Debug)]
pub enum Input<B> {
    /// A packet of a bundle.
    Packet(BundleIndex, Arrival<B>),
    /// The payload of a datagram to the box's port, whoever sent it.
    Message(Vec<u8>),
}

/// The sending box.
#[derive(Debug)]
pub struct SendBox<B> {
    incarnation: u64,
    bundles: Vec<Option<Bundle<B>>>,
    by_id: BTreeMap<u32, BundleIndex>,
    /// When bundles want to be woken. An entry that its bundle no longer wants wakes it for
    /// nothing.
    due: BinaryHeap<Reverse<(Time, BundleIndex)>>,
    outputs: VecDeque<Output<B>>,
    /// Messages that name no bundle of this box, or are none.
    strange: u64,
}

impl<B> SendBox<B> {
    /// A box without bundles. No other life of it may have had this `incarnation`.
    pub fn new(incarnation: u64) -> Self {
        Self {
            incarnation,
            bundles: Vec::new(),
            by_id: BTreeMap::new(),
            due: BinaryHeap::new(),
            outputs: VecDeque::new(),
            strange: 0,
        }
    }

    /// Takes charge of a bundle. One with the same `id` is replaced; its packets are let go.
    pub fn add(&mut self, now: Time, settings: Settings) -> BundleIndex {
        if let Some(index) = self.by_id.get(&settings.id) {
            self.remove(now, *index);
        }
        let free = self.bundles.iter().position(Option::is_none);
        let place = free.unwrap_or(self.bundles.len());
        let index = BundleIndex(place as u32);
        self.by_id.insert(settings.id, index);
        let bundle = Bundle::new(now, index, settings, self.incarnation);
        match free {
            Some(_) => self.bundles[place] = Some(bundle),
            None => self.bundles.push(Some(bundle)),
        }
        self.schedule(index);
        index
    }

    /// Gives a bundle up; what waits in it goes on at once.
    pub fn remove(&mut self, now: Time, index: BundleIndex) {
        let Some(mut bundle) = self.bundles.get_mut(index.0 as usize).and_then(Option::take) else {
            return;
        };
        bundle.let_go(now, &mut self.outputs);
        // Another bundle of the same number is another life: its messages are numbered anew.
        self.incarnation += 1;
        self.by_id.retain(|_, other| *other != index);
    }

    /// A packet comes from the site. One of a bundle that is not there goes on as it is.
    pub fn on_packet(&mut self, now: Time, index: BundleIndex, arrival: Arrival<B>) {
        let Some(bundle) = self.bundles.get_mut(index.0 as usize).and_then(Option::as_mut) else {
            let body = arrival.body;
            let forward =
                Output::Forward { bundle: index, body, marked: false, encapsulation: None };
            return self.outputs.push_back(forward);
        };
        bundle.on_packet(now, arrival, &mut self.outputs);
        self.schedule(index);
    }

    /// A datagram has come to the box's port. Whatever is not from a bundle's receivebox is
    /// counted and otherwise ignored.
    pub fn on_message(&mut self, now: Time, payload: &[u8]) {
        let known = message::bundle_of(payload).and_then(|id| self.by_id.get(&id).copied());
        let Some(index) = known else {
            self.strange += 1;
            return;
        };
        if let Some(bundle) = self.bundles[index.0 as usize].as_mut() {
            bundle.on_message(now, payload, &mut self.outputs);
            self.schedule(index);
        }
    }

    /// The next deadline. There may turn out to be nothing to do at it.
    pub fn next_wake(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Meets the deadlines up to `now`.
    pub fn on_wake(&mut self, now: Time) {
        while let Some(Reverse((at, index))) = self.due.peek().copied() {
            if at > now {
                return;
            }
            self.due.pop();
            let bundle = self.bundles.get_mut(index.0 as usize).and_then(Option::as_mut);
            let Some(bundle) = bundle.filter(|bundle| bundle.scheduled == Some(at)) else {
                continue;
            };
            bundle.scheduled = None;
            bundle.on_wake(now, &mut self.outputs);
            self.schedule(index);
        }
    }

    /// The next output, in the order in which they came about.
    pub fn poll(&mut self) -> Option<Output<B>> {
        self.outputs.pop_front()
    }

    /// How a bundle does; `None` if there is none.
    pub fn status(&self, index: BundleIndex) -> Option<Status> {
        let bundle = self.bundles.get(index.0 as usize)?.as_ref()?;
        Some(bundle.status())
    }

    /// The bundles, by their places.
    pub fn bundles(&self) -> impl Iterator<Item = BundleIndex> {
        let places = self.bundles.iter().enumerate();
        places.filter(|(_, bundle)| bundle.is_some()).map(|(place, _)| BundleIndex(place as u32))
    }

    /// The bundle of an identifier.
    pub fn bundle(&self, id: u32) -> Option<BundleIndex> {
        self.by_id.get(&id).copied()
    }

    /// Datagrams that named no bundle of this box.
    pub fn strange_messages(&self) -> u64 {
        self.strange
    }

    fn schedule(&mut self, index: BundleIndex) {
        let Some(bundle) = self.bundles[index.0 as usize].as_mut() else { return };
        let wanted = bundle.deadline();
        if bundle.scheduled.is_none_or(|at| wanted < at) {
            bundle.scheduled = Some(wanted);
            self.due.push(Reverse((wanted, index)));
        }
    }
}

impl<B> Machine for SendBox<B> {
    type In = Input<B>;
    type Out = Output<B>;

    fn handle(&mut self, now: Time, input: Input<B>) {
        match input {
            Input::Packet(bundle, arrival) => self.on_packet(now, bundle, arrival),
            Input::Message(payload) => self.on_message(now, &payload),
        }
    }

    fn next_wake(&self) -> Option<(Time, WakeReason)> {
        Self::next_wake(self).map(|at| (at, WakeReason("a bundle's pacer, tick or heartbeat")))
    }

    fn on_wake(&mut self, now: Time) {
        Self::on_wake(self, now);
    }

    fn poll(&mut self) -> Option<Output<B>> {
        Self::poll(self)
    }
}
