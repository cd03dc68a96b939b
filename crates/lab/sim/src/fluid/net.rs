//! The network as applications use it: streams of bytes, flows of datagrams, timers.

mod queues;
mod streams;

use std::sync::Arc;

use base::{Span, Time};
use fabric::EventQueue;
use lab::plan::Plan;
use lab::routes::Routes;
use sharing::{Bottleneck, LinkKey, Solver};
use timeline::{NextWakes, Rank};

use super::deadlines::Deadlines;
use super::ends::Ends;
use super::links::{Link, Links};
use super::route::route;
use super::stream::{Stream, span};
use super::tcp::Manner;
use crate::trace::{FlowEvent, Trace};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A flow of the plan begins.
    Start(u32),
    /// The duration of a flow's run is over.
    Expire { flow: u32, run: u32 },
    /// A wake-up that an application has requested.
    Wake { flow: u32, run: u32 },
    /// The handshake of a stream is complete.
    Ready { stream: u32, life: u32 },
    /// A slow-start round of a stream is over.
    Round { stream: u32, round: u32 },
    /// All payload given to a stream has arrived.
    Arrived { stream: u32, life: u32 },
    /// A queue of datagrams is full or empty.
    Queue { link: u32, number: u32 },
}

impl Event {
    /// Its rank among events of the same time.
    const fn rank(&self) -> Rank {
        match self {
            Self::Start(_) | Self::Expire { .. } | Self::Wake { .. } => Rank::Timer,
            Self::Ready { .. } | Self::Round { .. } | Self::Arrived { .. } | Self::Queue { .. } => {
                Rank::Arrival
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notification {
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
    /// All payload given to the stream has arrived.
    Arrived {
        stream: u32,
    },
}

/// The network and its pending events.
pub(super) struct Net {
    pub(super) now: Time,
    pub(super) plan: Arc<Plan>,
    pub(super) routes: Arc<Routes>,
    pub(super) ends: Vec<Ends>,
    solver: Solver,
    links: Links,
    /// A link without capacity: the path of streams without a route.
    nowhere: LinkKey,
    /// Events of the network.
    arrivals: EventQueue<Event>,
    /// Timers of applications.
    timers: EventQueue<Event>,
    /// Times at which streams will have sent everything.
    finishes: Deadlines,
    streams: Vec<Stream>,
    free: Vec<u32>,
    /// Streams by the solver's flow keys.
    owners: Vec<u32>,
    /// Flows of the plan by datagram flow, with their hashes.
    senders: Vec<(u32, u32)>,
    /// Time at which the shares for the collected changes are computed.
    due: Option<Time>,
    /// Whether the shares must be computed, or the time for it must be set.
    is_unsettled: bool,
    /// Links that have started or stopped limiting streams.
    turned: Vec<LinkKey>,
    /// Number of computations of shares.
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
            routes: Arc::new(routes),
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
            is_unsettled: false,
            turned: Vec::new(),
            epoch: 0,
            handled: 0,
            trace: Trace::default(),
        }
    }

    pub(super) fn schedule(&mut self, at: Time, event: Event) {
        let events = match event.rank() {
            Rank::Timer => &mut self.timers,
            _ => &mut self.arrivals,
        };
        events.push(at.max(self.now), event);
    }

    /// The next deadlines of all components except lab events.
    pub(super) fn next_wakes(&self) -> NextWakes {
        let arrivals = self.arrivals.next_time();
        NextWakes {
            arrival: arrivals.into_iter().chain(self.finishes.next_wake()).min(),
            timer: self.timers.next_time(),
            agreement: if self.is_unsettled { Some(self.now) } else { self.due },
            ..NextWakes::default()
        }
    }

    /// Whether all shares have been computed, or the time for it has been set.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_unsettled
    }

    /// Sets the present time, at which something changes.
    pub(super) fn advance_to(&mut self, now: Time) {
        self.now = now;
        self.is_unsettled = true;
    }

    /// Handles the next event of the network, which is due at `now`. Returns the notification for
    /// an application, if there is one.
    pub(super) fn on_arrival(&mut self, now: Time) -> Option<Notification> {
        self.advance_to(now);
        self.handled += 1;
        if let Some(stream) = self.finishes.pop_until(now) {
            self.sent_all(stream);
            return None;
        }
        let (_, event) = self.arrivals.pop_until(now)?;
        self.on_event(event)
    }

    /// Handles the next timer in the same way.
    pub(super) fn on_timer(&mut self, now: Time) -> Option<Notification> {
        self.advance_to(now);
        let (_, event) = self.timers.pop_until(now)?;
        self.handled += 1;
        self.on_event(event)
    }

    fn on_event(&mut self, event: Event) -> Option<Notification> {
        match event {
            Event::Start(flow) => Some(Notification::Start(flow)),
            Event::Expire { flow, run } => Some(Notification::Expire { flow, run }),
            Event::Wake { flow, run } => Some(Notification::Wake { flow, run }),
            Event::Ready { stream, life } => {
                let lives = self.lives(stream, life);
                if lives {
                    let first = std::mem::take(&mut self.streams[stream as usize].first);
                    if first > 0.0 {
                        self.send(stream, first);
                    }
                }
                lives.then_some(Notification::Ready { stream })
            }
            Event::Arrived { stream, life } => {
                let lives = self.lives(stream, life);
                if lives {
                    let Stream { flow, parameters, .. } = self.streams[stream as usize];
                    self.trace.note(self.now, FlowEvent::Arrived as u8, flow, parameters.to_bits());
                }
                lives.then_some(Notification::Arrived { stream })
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
                    self.trace.note(self.now, FlowEvent::Queue as u8, link, queue.to_bits());
                }
                None
            }
        }
    }

    fn lives(&self, stream: u32, life: u32) -> bool {
        let entry = &self.streams[stream as usize];
        entry.alive && entry.life == life
    }

    /// Computes the shares for the changes up to `now`, or sets the time for it.
    pub(super) fn on_settlement(&mut self, now: Time) {
        self.now = now;
        self.is_unsettled = false;
        let streams = self.solver.len() as u64;
        if streams <= MAX_EXACT_STREAMS {
            self.settle();
            return;
        }
        let due = *self.due.get_or_insert(now + COLLECTION_TIME * streams);
        if due <= now {
            self.settle();
        }
    }

    /// Computes the shares of links.
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
            self.trace.note(self.now, FlowEvent::Rate as u8, stream.flow, stream.rate.to_bits());
            self.finishes.set(id, stream.finish(self.now));
        }
        let mut turned = std::mem::take(&mut self.turned);
        turned.extend(self.solver.turned());
        for link in turned.drain(..) {
            self.follow(link);
        }
        self.turned = turned;
    }

    /// Wire bytes of a flow's datagrams beside the UDP header and the payload.
    pub(super) fn datagram_header(&self, flow: u32) -> f64 {
        self.ends[flow as usize].datagram_header
    }

    /// Adds the datagram flow of a flow, with packets of `packet` wire bits.
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

    /// Sets the rate of a datagram flow, in wire bit/s.
    pub(super) fn set_rate(&mut self, id: u32, rate: f64) {
        self.trace.note(
            self.now,
            FlowEvent::Datagrams as u8,
            self.senders[id as usize].0,
            rate.to_bits(),
        );
        self.links.set_rate(self.now, id, rate);
    }

    /// Wire bits of datagrams sent, and of those that have arrived or will arrive.
    pub(super) fn datagrams(&mut self, id: u32) -> (f64, f64) {
        self.links.progress(self.now, id)
    }

    /// Current one-way delay of a datagram.
    pub(super) fn datagram_delay(&self, id: u32) -> Span {
        let stream = &self.links.datagrams[id as usize];
        let way = self.links.measure(&stream.links, stream.packet());
        let waits: f64 = stream.links.iter().map(|link| self.wait_at(*link)).sum();
        span(way.delay + way.transmission + waits)
    }

    /// Changes the properties of a directed link.
    pub(super) fn configure(&mut self, link: u32, config: &fabric::LinkConfig) {
        let up = self.links.table[link as usize].up;
        let new = Link::new(config, up, self.plan.overhead.count());
        self.links.configure(self.now, link, |entry| entry.adopt(&new));
    }

    pub(super) fn set_up(&mut self, link: usize, up: bool) {
        for direction in [2 * link, 2 * link + 1] {
            self.links.configure(self.now, direction as u32, |entry| entry.up = up);
        }
    }

    pub(super) fn reroute(&mut self, routes: Arc<Routes>) {
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

    /// Packets sent by links; streams count as full packets.
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

/// With more streams than this, changes are collected before shares are computed.
const MAX_EXACT_STREAMS: u64 = 1000;

/// Collection time of changes, per stream.
const COLLECTION_TIME: Span = Span::from_nanos(100);

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
