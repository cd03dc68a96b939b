//! The network as applications see it: streams of bytes, flows of datagrams, timers.

use std::sync::Arc;

use base::{Span, Time};
use fabric::{EventQueue, LinkStats, QueueLevel};
use lab::plan::Plan;
use lab::routes::Routes;
use sharing::{LinkKey, Solver};

use super::deadlines::Deadlines;
use super::ends::Ends;
use super::links::{Link, Links};
use super::route::{Route, route};
use super::stream::{Stream, span};
use super::tcp::{FLOOR, Manner};
use super::trace::{Trace, What};

/// What is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A flow of the plan begins.
    Start(u32),
    /// The duration of a flow's run is over.
    Expire { flow: u32, run: u32 },
    /// An application asked for it.
    Wake { flow: u32, run: u32 },
    /// A stream's handshake is over.
    Ready { stream: u32, life: u32 },
    /// A round trip of slow start is over.
    Round { stream: u32, round: u32 },
    /// All that was given to a stream has arrived.
    Arrived { stream: u32, life: u32 },
    /// A queue of datagrams is full or empty.
    Queue { link: u32, number: u32 },
}

/// What an application hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Start(u32),
    Expire {
        flow: u32,
        run: u32,
    },
    Wake {
        flow: u32,
        run: u32,
    },
    /// The stream can carry data.
    Ready {
        stream: u32,
    },
    /// All that was given to the stream has arrived.
    Arrived {
        stream: u32,
    },
}

/// All that moves.
pub(super) struct Net {
    pub(super) now: Time,
    pub(super) plan: Arc<Plan>,
    pub(super) routes: Routes,
    pub(super) ends: Vec<Ends>,
    solver: Solver,
    links: Links,
    /// A link without capacity, the way of what has no route.
    nowhere: LinkKey,
    events: EventQueue<Event>,
    /// When streams will have sent all.
    finishes: Deadlines,
    streams: Vec<Stream>,
    free: Vec<u32>,
    /// Streams by the solver's flows.
    owners: Vec<u32>,
    /// Flows of the plan by datagram flow, with their hash.
    senders: Vec<(u32, u32)>,
    /// When changes that are being collected are worked in.
    due: Option<Time>,
    /// How often shares were worked out.
    epoch: u32,
    pub(super) handled: u64,
    pub(super) trace: Trace,
}

impl Net {
    pub(super) fn new(plan: Arc<Plan>, routes: Routes, ends: Vec<Ends>, tolerance: f64) -> Self {
        let mut solver = Solver::with_tolerance(tolerance);
        let mut links = Links::default();
        for link in &plan.links {
            for config in &link.directions {
                let link = Link::new(config, link.up, plan.overhead.count());
                solver.add_link(link.capacity());
                links.add(link);
            }
        }
        let nowhere = solver.add_link(0.0);
        Self {
            now: Time::ZERO,
            plan,
            routes,
            ends,
            solver,
            links,
            nowhere,
            events: EventQueue::default(),
            finishes: Deadlines::default(),
            streams: Vec::new(),
            free: Vec::new(),
            owners: Vec::new(),
            senders: Vec::new(),
            due: None,
            epoch: 0,
            handled: 0,
            trace: Trace::default(),
        }
    }

    /// Has an event happen at `at`.
    pub(super) fn schedule(&mut self, at: Time, event: Event) {
        self.events.push(at.max(self.now), event);
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Time> {
        [self.events.next_time(), self.finishes.next(), self.due].into_iter().flatten().min()
    }

    /// The next thing that happens at the present time, if an application should hear of it.
    pub(super) fn poll(&mut self) -> Option<News> {
        loop {
            if let Some(stream) = self.finishes.pop_until(self.now) {
                self.handled += 1;
                self.sent_all(stream);
                continue;
            }
            let (_, event) = self.events.pop_until(self.now)?;
            self.handled += 1;
            if let Some(news) = self.on_event(event) {
                return Some(news);
            }
        }
    }

    fn on_event(&mut self, event: Event) -> Option<News> {
        match event {
            Event::Start(flow) => Some(News::Start(flow)),
            Event::Expire { flow, run } => Some(News::Expire { flow, run }),
            Event::Wake { flow, run } => Some(News::Wake { flow, run }),
            Event::Ready { stream, life } => {
                self.lives(stream, life).then_some(News::Ready { stream })
            }
            Event::Arrived { stream, life } => {
                let lives = self.lives(stream, life);
                if lives {
                    let Stream { flow, given, .. } = self.streams[stream as usize];
                    self.trace.note(self.now, What::Arrived, flow, given);
                }
                lives.then_some(News::Arrived { stream })
            }
            Event::Round { stream, round } => {
                let entry = &self.streams[stream as usize];
                if entry.alive && entry.round_number == round {
                    self.next_round(stream);
                }
                None
            }
            Event::Queue { link, number } => {
                if let Some(queue) = self.links.on_forecast(self.now, link, number) {
                    self.trace.note(self.now, What::Queue, link, queue);
                }
                None
            }
        }
    }

    fn lives(&self, stream: u32, life: u32) -> bool {
        let entry = &self.streams[stream as usize];
        entry.alive && entry.life == life
    }

    /// Works in what happened at the present time, or has it wait for more.
    pub(super) fn settle_in_time(&mut self) {
        let streams = self.solver.len() as u64;
        if streams <= MANY {
            self.settle();
            return;
        }
        let due = *self.due.get_or_insert(self.now + PATIENCE * streams);
        if due <= self.now {
            self.settle();
        }
    }

    /// Shares links anew.
    fn settle(&mut self) {
        self.due = None;
        self.epoch = self.epoch.wrapping_add(1);
        self.solver.advance(self.now.as_secs_f64());
        self.links.propagate(self.now, &mut self.solver);
        for forecast in self.links.forecasts.drain(..) {
            let event = Event::Queue { link: forecast.link, number: forecast.number };
            self.events.push(forecast.at, event);
        }
        self.solver.solve();
        let solver = &self.solver;
        for key in solver.changed() {
            let id = self.owners[key.0 as usize];
            let stream = &mut self.streams[id as usize];
            stream.settle(self.now);
            stream.rate = solver.rate(*key);
            self.trace.note(self.now, What::Rate, stream.flow, stream.rate);
            self.finishes.set(id, stream.finish(self.now));
        }
    }

    /// Opens a connection of a flow; its streams there and back. The first is told to be
    /// [`News::Ready`] after the handshake.
    pub(super) fn connect(&mut self, flow: u32, hash: u32, tag: u32, both: bool) -> [u32; 2] {
        let there = self.open(flow, hash, tag, 0);
        let back = if both { self.open(flow, hash, tag, 1) } else { there };
        let stream = &self.streams[there as usize];
        let (rtt, life) = (stream.rtt, stream.life);
        if stream.routed(self.nowhere) {
            let wait = self.waiting(there);
            let at = self.now + span(rtt + wait);
            self.schedule(at, Event::Ready { stream: there, life });
        }
        [there, back]
    }

    fn open(&mut self, flow: u32, hash: u32, tag: u32, side: u8) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.streams.push(Stream::vacant());
            self.streams.len() as u32 - 1
        });
        let manner = self.ends[flow as usize].manner;
        let life = self.streams[id as usize].life.wrapping_add(1);
        let round_number = self.streams[id as usize].round_number;
        self.streams[id as usize] = Stream {
            flow,
            tag,
            side,
            hash,
            life,
            round_number,
            alive: true,
            slow_start: true,
            window: manner.first_window().min(manner.window_limit()),
            since: self.now,
            ..Stream::vacant()
        };
        self.find_way(id);
        id
    }

    /// Computes a stream's way and what follows from it.
    fn find_way(&mut self, id: u32) {
        let stream = &self.streams[id as usize];
        let ends = &self.ends[stream.flow as usize];
        let (here, there) = (usize::from(stream.side), 1 - usize::from(stream.side));
        // The hash of a packet also tells its direction.
        let hash = |side: usize| crate::net::mix(stream.hash, side as u32);
        let way = |from: usize, to: usize| {
            let (node, address) = (ends.nodes[from], ends.addresses[to]);
            route(&self.plan, &self.routes, node, address, hash(from))
        };
        let (forth, back) = (way(here, there), way(there, here));
        let segment = ends.manner.segment_bits();
        let (Some(forth), Some(back)) = (forth, back) else {
            self.streams[id as usize].route = Route { links: Box::new([self.nowhere]) };
            return;
        };
        let one_way = self.links.measure(&forth.links, segment);
        // Acknowledgements carry no payload.
        let ack = segment - ends.manner.mss * 8.0;
        let return_way = self.links.measure(&back.links, ack);
        let queueing = one_way
            .slowest
            .map_or(0.0, |link| Manner::sharing_delay(&self.links.table[link.0 as usize]));
        let manner = ends.manner;
        let stream = &mut self.streams[id as usize];
        stream.narrowest = one_way.narrowest;
        stream.loss = one_way.loss;
        stream.latency = one_way.delay + one_way.transmission - segment / one_way.narrowest;
        let there_and_back =
            one_way.delay + one_way.transmission + return_way.delay + return_way.transmission;
        stream.rtt = there_and_back.max(FLOOR);
        stream.weight = manner.weight(stream.rtt + queueing);
        stream.route = forth;
    }

    /// Gives a stream payload to send (infinite: without end).
    pub(super) fn send(&mut self, id: u32, payload: f64) {
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        self.trace.note(self.now, What::Given, stream.flow, payload);
        stream.settle(self.now);
        stream.given += payload;
        stream.left += manner.wire_bits(payload);
        stream.burst = stream.left;
        if stream.key.is_none() {
            stream.round = self.now;
            self.begin(id);
        } else {
            let finish = self.streams[id as usize].finish(self.now);
            self.finishes.set(id, finish);
        }
    }

    /// Enters a stream that has something to send into the sharing of links.
    fn begin(&mut self, id: u32) {
        let wait = self.waiting(id);
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        let rtt = stream.rtt + wait;
        stream.rate = 0.0;
        stream.since = self.now;
        stream.wait = wait;
        stream.epoch = self.epoch;
        stream.cap = stream.limit(&manner, rtt);
        let key = self.solver.add_flow(&stream.route.links, stream.weight, stream.cap);
        stream.key = Some(key);
        if self.owners.len() <= key.0 as usize {
            self.owners.resize(key.0 as usize + 1, 0);
        }
        self.owners[key.0 as usize] = id;
        if stream.slow_start {
            stream.round_number = stream.round_number.wrapping_add(1);
            let event = Event::Round { stream: id, round: stream.round_number };
            self.events.push(self.now + span(rtt), event);
        }
    }

    /// A round trip of slow start is over.
    fn next_round(&mut self, id: u32) {
        let wait = self.waiting(id);
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        let Some(key) = stream.key else { return };
        stream.settle(self.now);
        let rtt = stream.rtt + wait;
        if stream.epoch == self.epoch {
            // It has not been given its share yet.
            let event = Event::Round { stream: id, round: stream.round_number };
            self.events.push(self.now + span(rtt), event);
            return;
        }
        stream.epoch = self.epoch;
        if stream.at_cap() && stream.window < manner.window_limit() {
            stream.window = (2.0 * stream.window).min(manner.window_limit());
            let event = Event::Round { stream: id, round: stream.round_number };
            self.events.push(self.now + span(rtt), event);
        } else {
            stream.slow_start = false;
        }
        stream.round = self.now;
        stream.burst = stream.left;
        stream.cap = stream.limit(&manner, rtt);
        self.solver.set_demand(key, stream.weight, stream.cap);
        let finish = stream.finish(self.now);
        self.finishes.set(id, finish);
    }

    /// A stream has sent all that it was given.
    fn sent_all(&mut self, id: u32) {
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        // The last round's burst went out faster than its average.
        let missing = std::mem::replace(&mut stream.left, 0.0);
        stream.sent += missing;
        self.links.add_burst(&stream.route.links, missing);
        if stream.slow_start && 2.0 * stream.burst > stream.window {
            stream.window += stream.burst.min(stream.window);
        }
        stream.round_number = stream.round_number.wrapping_add(1);
        let event = Event::Arrived { stream: id, life: stream.life };
        let at = self.now + span(stream.latency + stream.wait);
        if let Some(key) = stream.key.take() {
            self.solver.advance(self.now.as_secs_f64());
            self.solver.remove_flow(key);
        }
        self.events.push(at, event);
    }

    /// Seconds in queues on a stream's way.
    fn waiting(&self, id: u32) -> f64 {
        let links = &self.streams[id as usize].route.links;
        links.iter().map(|link| self.wait_at(*link)).sum()
    }

    /// Seconds that a packet waits at a link.
    fn wait_at(&self, link: LinkKey) -> f64 {
        let Some(entry) = self.links.table.get(link.0 as usize) else { return 0.0 };
        let elastic = self.standing(link);
        let capacity = entry.capacity();
        entry.wait() + if elastic > 0.0 && capacity > 0.0 { elastic / capacity } else { 0.0 }
    }

    /// Bits of elastic traffic that wait at a link: as the flows that it limits have them, the
    /// first few of them at most.
    fn standing(&self, link: LinkKey) -> f64 {
        if !self.solver.is_bottleneck(link) || link == self.nowhere {
            return 0.0;
        }
        let (mut sum, mut count) = (0.0, 0.0f64);
        for key in self.solver.limited_by(link).take(SAMPLE) {
            let stream = &self.streams[self.owners[key.0 as usize] as usize];
            count += 1.0;
            if !stream.slow_start {
                let manner = &self.ends[stream.flow as usize].manner;
                sum += manner.standing_queue(&self.links.table[link.0 as usize], stream.rtt);
            }
        }
        sum / count.max(1.0)
    }

    /// Forgets a stream.
    pub(super) fn close(&mut self, id: u32) {
        let stream = &mut self.streams[id as usize];
        if !std::mem::replace(&mut stream.alive, false) {
            return;
        }
        stream.settle(self.now);
        stream.life = stream.life.wrapping_add(1);
        stream.round_number = stream.round_number.wrapping_add(1);
        stream.route = Route::default();
        if let Some(key) = stream.key.take() {
            self.solver.advance(self.now.as_secs_f64());
            self.solver.remove_flow(key);
        }
        self.finishes.set(id, None);
        self.free.push(id);
    }

    /// Gives a stream another tag.
    pub(super) fn set_tag(&mut self, id: u32, tag: u32) {
        self.streams[id as usize].tag = tag;
    }

    /// Wire bytes of a flow's datagrams beside UDP's header and the payload.
    pub(super) fn datagram_header(&self, flow: u32) -> f64 {
        self.ends[flow as usize].datagram_header
    }

    /// The flow and tag of a stream.
    pub(super) fn stream(&self, id: u32) -> (u32, u32) {
        let stream = &self.streams[id as usize];
        (stream.flow, stream.tag)
    }

    /// Payload bytes that have arrived since this was last asked; all that is missing if `all`.
    pub(super) fn arrived(&mut self, id: u32, all: bool) -> u64 {
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        let total = if all {
            stream.given
        } else {
            let flying = stream.rate * stream.latency;
            let bytes = (stream.sent - flying).max(0.0) * manner.payload_per_bit();
            bytes.min(stream.given)
        };
        let new = (total.floor() - stream.credited).max(0.0);
        stream.credited += new;
        new as u64
    }

    /// Payload bytes that a stream has sent.
    pub(super) fn sent(&mut self, id: u32) -> u64 {
        let manner = self.ends[self.streams[id as usize].flow as usize].manner;
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        (stream.sent * manner.payload_per_bit()).min(stream.given) as u64
    }

    /// A stream's round-trip time with the present queues, and its window in bytes of payload.
    pub(super) fn observe(&self, id: u32) -> (Span, u64) {
        let stream = &self.streams[id as usize];
        let rtt = stream.rtt + self.waiting(id);
        let manner = &self.ends[stream.flow as usize].manner;
        let window = if stream.slow_start { stream.window } else { stream.rate * rtt };
        (span(rtt), (window * manner.payload_per_bit()) as u64)
    }

    /// Adds the datagrams of a flow, of `packet` wire bits.
    pub(super) fn add_datagrams(&mut self, flow: u32, packet: f64, hash: u32) -> u32 {
        let id = self.links.add_stream(packet);
        self.senders.push((flow, hash));
        self.find_datagrams_way(id);
        id
    }

    fn find_datagrams_way(&mut self, id: u32) {
        let (flow, hash) = self.senders[id as usize];
        let ends = &self.ends[flow as usize];
        let way = route(&self.plan, &self.routes, ends.nodes[0], ends.addresses[1], hash);
        self.links.reroute(self.now, id, way.map(|way| way.links));
    }

    /// Wire bit/s of a flow of datagrams from now on.
    pub(super) fn set_rate(&mut self, id: u32, rate: f64) {
        self.trace.note(self.now, What::Datagrams, self.senders[id as usize].0, rate);
        self.links.set_rate(self.now, id, rate);
    }

    /// Wire bits of datagrams sent, and of those that have arrived or will.
    pub(super) fn datagrams(&mut self, id: u32) -> (f64, f64) {
        self.links.progress(self.now, id)
    }

    /// How long a datagram takes now.
    pub(super) fn datagram_delay(&self, id: u32) -> Span {
        let stream = &self.links.datagrams[id as usize];
        let way = self.links.measure(&stream.links, stream.packet());
        let waits: f64 = stream.links.iter().map(|link| self.wait_at(*link)).sum();
        span(way.delay + way.transmission + waits)
    }

    /// New properties of a link direction.
    pub(super) fn configure(&mut self, link: u32, config: &fabric::LinkConfig) {
        let up = self.links.table[link as usize].up;
        let new = Link::new(config, up, self.plan.overhead.count());
        self.links.configure(self.now, link, |entry| entry.adopt(&new));
    }

    /// Takes a link out of service or back.
    pub(super) fn set_up(&mut self, link: usize, up: bool) {
        for direction in [2 * link, 2 * link + 1] {
            self.links.configure(self.now, direction as u32, |entry| entry.up = up);
        }
    }

    /// Other routes from now on.
    pub(super) fn reroute(&mut self, routes: Routes) {
        self.routes = routes;
        for id in 0..self.senders.len() as u32 {
            self.find_datagrams_way(id);
        }
        for id in 0..self.streams.len() as u32 {
            if self.streams[id as usize].alive {
                self.reroute_stream(id);
            }
        }
    }

    fn reroute_stream(&mut self, id: u32) {
        let before = self.streams[id as usize].route.clone();
        self.find_way(id);
        if before == self.streams[id as usize].route {
            return;
        }
        let lost = before.links.first() == Some(&self.nowhere);
        let stream = &mut self.streams[id as usize];
        stream.settle(self.now);
        if let Some(key) = stream.key.take() {
            self.solver.advance(self.now.as_secs_f64());
            self.solver.remove_flow(key);
            self.finishes.set(id, None);
            self.begin(id);
        } else if lost && stream.given == 0.0 && stream.routed(self.nowhere) {
            // It could not be opened until now.
            let event = Event::Ready { stream: id, life: stream.life };
            let at = self.now + span(stream.rtt);
            self.events.push(at, event);
        }
    }

    /// Counters of all link directions, in the order of interfaces.
    pub(super) fn counters(&mut self) -> Vec<(LinkStats, QueueLevel)> {
        self.solver.advance(self.now.as_secs_f64());
        (0..self.links.table.len() as u32)
            .map(|link| {
                let elastic = self.solver.carried(LinkKey(link));
                let waiting = self.standing(LinkKey(link));
                self.links.counters(self.now, link, (elastic, waiting))
            })
            .collect()
    }

    /// Packets that links have sent, full ones where streams sent them.
    pub(super) fn packet_hops(&self) -> u64 {
        let links = (0..self.links.table.len() as u32).map(LinkKey);
        let packets = links.map(|link| self.links.packets(link.0, self.solver.carried(link)));
        packets.sum::<f64>() as u64
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> u64 {
        let streams = self.streams.capacity() * (size_of::<Stream>() + 160);
        let sharing = self.solver.len() * 300 + self.links.table.len() * 200;
        self.events.memory()
            + self.finishes.memory()
            + self.links.memory()
            + (streams + sharing) as u64
    }
}

/// More streams than these are not shared out after each change.
const MANY: u64 = 1000;

/// How long changes are collected, for each stream.
const PATIENCE: Span = Span::from_nanos(100);

/// Flows whose view of a queue is asked for.
const SAMPLE: usize = 8;
