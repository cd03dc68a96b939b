//! The sendbox, which holds a site's queue.
//!
//! ```text
//! packet → scheduler → pacer → counters, epochs → out
//!                        ↑ rate
//! congestion ACK → measurement → state, congestion control
//! ```

mod bundle;
mod guard;
mod pacer;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod tick;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use base::{StateMachine, Time};

use crate::message;
pub use crate::receivebox::BundleIndex;
use crate::settings::Settings;
use bundle::Bundle;
pub use bundle::{Arrival, Output};
pub use state::{Cause, Reason, State, Transition};
pub use status::{Counters, Status};

/// Inputs of the sendbox.
#[derive(Clone, Debug)]
pub enum Input<B> {
    /// A packet of a bundle.
    Packet(BundleIndex, Arrival<B>),
    /// The payload of a datagram to the sendbox's port, from any sender.
    Message(Vec<u8>),
}

/// The gateway that queues and paces bundles; see the module documentation.
#[derive(Debug)]
pub struct SendBox<B> {
    incarnation: u64,
    bundles: Vec<Option<Bundle<B>>>,
    by_id: BTreeMap<u32, BundleIndex>,
    /// Deadlines of bundles. An outdated entry causes a call without effect.
    due: BinaryHeap<Reverse<(Time, BundleIndex)>>,
    outputs: VecDeque<Output<B>>,
    /// Number of invalid messages, or messages without a known bundle.
    strange: u64,
}

impl<B> SendBox<B> {
    /// A sendbox without bundles. `incarnation` must differ from all earlier ones.
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

    /// Adds a bundle. One with the same `id` is replaced; its packets are sent at once.
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

    /// Removes a bundle; its queued packets are sent at once.
    pub fn remove(&mut self, now: Time, index: BundleIndex) {
        let Some(mut bundle) = self.bundles.get_mut(index.0 as usize).and_then(Option::take) else {
            return;
        };
        bundle.let_go(now, &mut self.outputs);
        // A new bundle with the same number needs another incarnation, because its messages are
        // numbered from 1.
        self.incarnation += 1;
        self.by_id.retain(|_, other| *other != index);
    }

    /// Processes a packet from the site. A packet of an unknown bundle is sent unchanged.
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

    /// Processes a datagram to the sendbox's port. A datagram that is not from a bundle's
    /// receivebox is counted and ignored.
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

    /// The next deadline, at which there may be no work.
    pub fn next_wake(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Handles the deadlines up to `now`.
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

    /// The next output, in the order of creation.
    pub fn poll(&mut self) -> Option<Output<B>> {
        self.outputs.pop_front()
    }

    /// Status of a bundle; `None` if it does not exist.
    pub fn status(&self, index: BundleIndex) -> Option<Status> {
        let bundle = self.bundles.get(index.0 as usize)?.as_ref()?;
        Some(bundle.status())
    }

    /// Indices of all bundles.
    pub fn bundles(&self) -> impl Iterator<Item = BundleIndex> {
        let places = self.bundles.iter().enumerate();
        places.filter(|(_, bundle)| bundle.is_some()).map(|(place, _)| BundleIndex(place as u32))
    }

    /// The bundle with this identifier.
    pub fn bundle(&self, id: u32) -> Option<BundleIndex> {
        self.by_id.get(&id).copied()
    }

    /// Number of datagrams without a known bundle.
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

impl<B> StateMachine for SendBox<B> {
    type Input = Input<B>;
    type Output = Output<B>;

    fn handle(&mut self, now: Time, input: Input<B>) {
        match input {
            Input::Packet(bundle, arrival) => self.on_packet(now, bundle, arrival),
            Input::Message(payload) => self.on_message(now, &payload),
        }
    }

    fn next_wake(&self) -> Option<Time> {
        Self::next_wake(self)
    }

    fn on_wake(&mut self, now: Time) {
        Self::on_wake(self, now);
    }

    fn poll(&mut self) -> Option<Output<B>> {
        Self::poll(self)
    }
}
