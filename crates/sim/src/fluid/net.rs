//! The network as applications see it: streams of bytes, flows of datagrams, timers.

mod queues;
mod streams;

use std::sync::Arc;

use base::{Rank, Span, Time};
use fabric::EventQueue;
use lab::plan::Plan;
use lab::routes::Routes;
use sharing::{Bottleneck, LinkKey, Solver};

use super::deadlines::Deadlines;
use super::ends::Ends;
use super::links::{Link, Links};
use super::route::route;
use super::stream::{Stream, span};
use super::tcp::Manner;
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

impl Event {
    /// Its place among what happens at the same time.
    const fn rank(&self) -> Rank {
        match self {
            Self::Start(_) | Self::Expire { .. } | Self::Wake { .. } => Rank::Timer,
            Self::Ready { .. } | Self::Round { .. } | Self::Arrived { .. } | Self::Queue { .. } => {
                Rank::Arrival
            }
        }
    }
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
    /// What happens in the network.
    arrivals: EventQueue<Event>,
    /// What applications wait for.
    timers: EventQueue<Event>,
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
    /// Links that limit streams now and did not before, or the other way round.
    turned: Vec<LinkKey>,
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
            arrivals: EventQueue::default(),
            timers: EventQueue::default(),
            finishes: Deadlines::default(),
            streams: Vec::new(),
            free: Vec::new(),
            owners: Vec::new(),
            senders: Vec::new(),
            due: None,
            turned: Vec::new(),
            epoch: 0,
            handled: 0,
            trace: Trace::default(),
        }
    }

    /// Has an event happen at `at`.
    pub(super) fn schedule(&mut self, at: Time, event: Event) {
        let events = match event.rank() {
            Rank::Timer => &mut self.timers,
            _ => &mut self.arrivals,
        };
        events.push(at.max(self.now), event);
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Time> {
        let events = [&self.arrivals, &self.timers].map(EventQueue::next_time);
        events.into_iter().chain([self.finishes.next(), self.due]).flatten().min()
    }

    /// The next thing that happens at the present time, if an application should hear of it.
    pub(super) fn poll(&mut self) -> Option<News> {
        loop {
            if let Some(stream) = self.finishes.pop_until(self.now) {
                self.handled += 1;
                self.sent_all(stream);
                continue;
            }
            let arrival = self.arrivals.pop_until(self.now);
            let (_, event) = arrival.or_else(|| self.timers.pop_until(self.now))?;
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
        for forecast in std::mem::take(&mut self.links.forecasts) {
            let event = Event::Queue { link: forecast.link, number: forecast.number };
            self.schedule(forecast.at, event);
        }
        self.solver.solve();
        let solver = &self.solver;
        for key in solver.changed() {
            let id = self.owners[key.0 as usize];
            let stream = &mut self.streams[id as usize];
            stream.settle(self.now);
            stream.rate = solver.rate(*key);
            let manner = &self.ends[stream.flow as usize].manner;
            stream.drops = drops(stream, manner, solver, &self.links);
            self.trace.note(self.now, What::Rate, stream.flow, stream.rate);
            self.finishes.set(id, stream.finish(self.now));
        }
        let mut turned = std::mem::take(&mut self.turned);
        turned.extend(self.solver.turned());
        for link in turned.drain(..) {
            self.follow(link);
        }
        self.turned = turned;
    }

    /// Wire bytes of a flow's datagrams beside UDP's header and the payload.
    pub(super) fn datagram_header(&self, flow: u32) -> f64 {
        self.ends[flow as usize].datagram_header
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
        let way = route(&self.routes, ends.nodes[0], ends.addresses[1], hash);
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
        self.arrivals.memory()
            + self.timers.memory()
            + self.finishes.memory()
            + self.links.memory()
            + (streams + sharing) as u64
    }
}

/// More streams than these are not shared out after each change.
const MANY: u64 = 1000;

/// How long changes are collected, for each stream.
const PATIENCE: Span = Span::from_nanos(100);

/// The share of a stream's segments that is lost.
fn drops(stream: &Stream, manner: &Manner, solver: &Solver, links: &Links) -> f64 {
    let bottleneck = stream.key.map(|key| solver.bottleneck(key));
    match bottleneck {
        Some(Bottleneck::Link(link)) if !stream.slow_start => {
            let full = links.table.get(link.0 as usize).map(|link| manner.drops(link, stream));
            stream.loss + full.unwrap_or(0.0)
        }
        _ => stream.loss,
    }
}
