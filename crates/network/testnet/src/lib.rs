//! A test network for protocol tests: links of the fabric, timers and a virtual clock.
//!
//! A test keeps its endpoints and calls [`Testnet::step`] in a loop with their earliest deadline.
//! Each step is one event: a message that reaches the other end of a link, a timer of the test, or
//! the deadline. At equal times messages come first, then timers, then the deadline.
//!
//! The crate is in `network/`, not in `base/`, because its links are those of the fabric: rate,
//! queue, loss, jitter, duplication and reordering have one implementation.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use base::{Bandwidth, Bytes, Direction, IfaceId, LinkId, NodeId, Span, Time};
use fabric::{
    Ecn, Fabric, Forwarding, LinkConfig, Network, NodeKind, Output, Packet, Part, QueueConfig,
    QueueLimit, Rate, Wire,
};

/// Maximum number of events at one time; with more, the network reports a livelock.
const MAX_EVENTS_AT_ONE_TIME: u32 = 100_000;

/// What happens to a message at the end of its link, for tests that script single messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Arrives like any other.
    Deliver,
    /// Crosses the link and is lost at its end.
    Drop,
    /// Arrives this much later.
    Late(Span),
    /// Arrives, and once more this much later.
    Twice(Span),
    /// Arrives with a congestion mark.
    Mark,
}

/// The next event for the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A message reaches the end `to` (0 or 1) of a link.
    Arrival {
        /// The link, as numbered in [`Testnet::new`].
        link: usize,
        /// The end that receives it.
        to: usize,
        /// The message as it was sent.
        message: M,
        /// Whether it carries a congestion mark.
        marked: bool,
    },
    /// A timer set by [`Testnet::schedule`] expires.
    Timer(M),
    /// The deadline that was passed to [`Testnet::step`] is reached.
    Deadline,
}

/// A link of constant rate with a drop-tail queue of `queue` bytes. The packet in transmission is
/// not in the queue.
pub fn link(rate: Bandwidth, delay: Span, queue: Bytes) -> LinkConfig {
    LinkConfig {
        rate: Rate::Constant(rate),
        delay,
        queue: QueueConfig { limit: QueueLimit::Bytes(queue), ..QueueConfig::default() },
        ..LinkConfig::default()
    }
}

#[derive(Clone)]
struct Parcel<M> {
    message: M,
    fate: Fate,
}

struct NoRoutes;

impl Forwarding for NoRoutes {
    fn next(&self, _: NodeId, _: IfaceId) -> &[IfaceId] {
        &[]
    }
}

/// Links between pairs of ends, and the virtual clock. Prints its seed if the test panics.
pub struct Testnet<M> {
    fabric: Fabric<Parcel<M>>,
    configs: Vec<LinkConfig>,
    now: Time,
    ready: VecDeque<Event<M>>,
    /// Timers and delayed messages.
    timers: BTreeMap<(Time, u64), Event<M>>,
    scheduled: u64,
    events_now: u32,
    seed: u64,
}

impl<M: Clone + 'static> Testnet<M> {
    /// A network of these links, numbered from 0; both directions have the same properties.
    ///
    /// # Panics
    /// If the fabric rejects a link.
    pub fn new(seed: u64, links: &[LinkConfig]) -> Self {
        let wires = links.iter().enumerate().map(|(at, config)| Wire {
            name: format!("link{at}"),
            ends: [NodeId::at(2 * at), NodeId::at(2 * at + 1)],
            directions: [config.clone(), config.clone()],
            up: true,
        });
        let network = Network {
            nodes: vec![NodeKind::Edge; 2 * links.len()],
            links: wires.collect(),
            overhead: Bytes::ZERO,
            collapsed: None,
        };
        let fabric = Fabric::try_new(&network, Box::new(NoRoutes), seed);
        Self {
            fabric: fabric.unwrap_or_else(|error| panic!("test network: {error}")),
            configs: links.to_vec(),
            now: Time::ZERO,
            ready: VecDeque::new(),
            timers: BTreeMap::new(),
            scheduled: 0,
            events_now: 0,
            seed,
        }
    }

    /// Time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sends a message of `bytes` from an end (0 or 1) of a link to the other.
    pub fn send(&mut self, link: usize, from: usize, bytes: u32, message: M) {
        self.send_with(link, from, bytes, message, Fate::Deliver);
    }

    /// Like [`Self::send`], with a fate in addition to the link's own behaviour.
    pub fn send_with(&mut self, link: usize, from: usize, bytes: u32, message: M, fate: Fate) {
        let packet = Packet {
            body: Parcel { message, fate },
            first: 0,
            count: 1,
            to: None,
            link_scope: false,
            flow: 0,
            segment: bytes,
            last: bytes,
            ttl: 64,
            dscp: 0,
            ecn: Ecn::NotCapable,
            corrupt: None,
            mirrors: 0,
            part: Part::Datagram,
            tag: 0,
            entered: self.now,
        };
        self.fabric.inject(self.now, IfaceId::at(2 * link + from), packet);
    }

    /// Sets a timer of the test, not before now.
    pub fn schedule(&mut self, at: Time, message: M) {
        self.hold(at, Event::Timer(message));
    }

    fn hold(&mut self, at: Time, event: Event<M>) {
        self.scheduled += 1;
        self.timers.insert((at.max(self.now), self.scheduled), event);
    }

    /// Changes both directions of a link now.
    ///
    /// # Panics
    /// If the fabric rejects the link.
    pub fn configure(&mut self, link: usize, change: impl FnOnce(&mut LinkConfig)) {
        change(&mut self.configs[link]);
        for direction in Direction::BOTH {
            let config = self.configs[link].clone();
            let done = self.fabric.configure(self.now, LinkId::at(link), direction, config);
            done.unwrap_or_else(|error| panic!("test network: {error}"));
        }
    }

    /// Takes a link down or up now. Messages on it are lost when it goes down.
    ///
    /// # Panics
    /// If the link does not exist.
    pub fn set_up(&mut self, link: usize, up: bool) {
        let done = self.fabric.set_up(self.now, LinkId::at(link), up);
        done.unwrap_or_else(|error| panic!("test network: {error}"));
    }

    /// The properties of a link.
    pub fn config(&self, link: usize) -> &LinkConfig {
        &self.configs[link]
    }

    /// Advances to the next event. `deadline` is the earliest deadline of the test itself. `None`:
    /// no event up to `until`; the present time is then `until`, unless that is [`Time::MAX`].
    ///
    /// # Panics
    /// If events never end at one time, because an endpoint's deadline does not advance.
    pub fn step(&mut self, deadline: Option<Time>, until: Time) -> Option<Event<M>> {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        let due = [deadline, timer].into_iter().flatten().min();
        let horizon = due.unwrap_or(Time::MAX).min(until).max(self.now);
        while self.ready.is_empty() && self.fabric.advance_to_output(horizon) {
            self.collect();
        }
        if let Some(event) = self.ready.pop_front() {
            return Some(self.reach(self.fabric.now(), event));
        }
        if timer.is_some_and(|at| at <= horizon)
            && let Some(((at, _), event)) = self.timers.pop_first()
        {
            return Some(self.reach(at, event));
        }
        if let Some(at) = deadline.filter(|at| *at <= until) {
            return Some(self.reach(at, Event::Deadline));
        }
        if until < Time::MAX {
            self.now = self.now.max(until);
        }
        None
    }

    fn reach(&mut self, at: Time, event: Event<M>) -> Event<M> {
        self.events_now = if at > self.now { 0 } else { self.events_now + 1 };
        assert!(self.events_now < MAX_EVENTS_AT_ONE_TIME, "no progress at {}", self.now);
        self.now = self.now.max(at);
        event
    }

    /// Collects the output of the fabric.
    fn collect(&mut self) {
        while let Some(output) = self.fabric.poll() {
            let Output::Deliver { iface, packet, at } = output else { continue };
            let (link, to) = (iface.index() / 2, iface.index() % 2);
            let Parcel { message, fate } = packet.body;
            let marked = fate == Fate::Mark;
            let arrival = |message| Event::Arrival { link, to, message, marked };
            match fate {
                Fate::Drop => {}
                Fate::Deliver | Fate::Mark => self.ready.push_back(arrival(message)),
                Fate::Late(span) => self.hold(at + span, arrival(message)),
                Fate::Twice(span) => {
                    self.hold(at + span, arrival(message.clone()));
                    self.ready.push_back(arrival(message));
                }
            }
        }
    }
}

impl<M> Drop for Testnet<M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("test network: seed {}, failed at {}", self.seed, self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// 1 Mbit/s: 125 bytes take 1 ms.
    fn network(seed: u64) -> Testnet<u32> {
        let rate = Bandwidth::from_mbits_per_sec(1);
        Testnet::new(seed, &[link(rate, Span::from_millis(10), Bytes::new(250))])
    }

    fn arrivals(net: &mut Testnet<u32>) -> Vec<(Time, u32)> {
        let mut found = Vec::new();
        while let Some(event) = net.step(None, Time::MAX) {
            if let Event::Arrival { message, .. } = event {
                found.push((net.now(), message));
            }
        }
        found
    }

    #[test]
    fn serialises_queues_and_drops() {
        let mut net = network(1);
        (0..5).for_each(|message| net.send(0, 0, 125, message));
        assert_eq!(arrivals(&mut net), [(at(11), 0), (at(12), 1), (at(13), 2)]);
    }

    #[test]
    fn applies_fates_after_the_link() {
        let mut net = network(1);
        net.send_with(0, 1, 125, 0, Fate::Late(Span::from_millis(5)));
        net.send_with(0, 1, 125, 1, Fate::Twice(Span::from_millis(1)));
        net.send_with(0, 1, 125, 2, Fate::Drop);
        assert_eq!(arrivals(&mut net), [(at(12), 1), (at(13), 1), (at(16), 0)]);
    }

    #[test]
    fn orders_arrivals_before_timers_before_deadlines() {
        let mut net = network(1);
        net.send(0, 0, 125, 7);
        net.schedule(at(11), 8);
        let deadline = Some(at(11));
        let arrival = Event::Arrival { link: 0, to: 1, message: 7, marked: false };
        assert_eq!(net.step(deadline, at(20)), Some(arrival));
        assert_eq!(net.step(deadline, at(20)), Some(Event::Timer(8)));
        assert_eq!(net.step(deadline, at(20)), Some(Event::Deadline));
        assert_eq!((net.now(), net.step(None, at(20)), net.now()), (at(11), None, at(20)));
    }

    #[test]
    fn drops_what_is_on_a_link_that_goes_down() {
        let mut net = network(1);
        net.send(0, 0, 125, 1);
        net.set_up(0, false);
        net.send(0, 0, 125, 2);
        net.set_up(0, true);
        net.configure(0, |link| link.delay = Span::from_millis(20));
        net.send(0, 0, 125, 3);
        assert_eq!(arrivals(&mut net), [(at(21), 3)]);
    }
}
