//! Requests that do not wait for earlier responses, over persistent connections.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{RandomStream, Time};

use crate::{Arrivals, Completion, Event, Progress, Report, Side, Sizes, Transport, Workload};

/// Parameters of a flow of requests. Each request uses the connection with the longest idle time,
/// or a new one.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Payload of a request.
    pub request: Sizes,
    /// Payload of a response.
    pub response: Sizes,
    /// Arrivals of requests; an open loop.
    pub arrivals: Arrivals,
    /// Number of requests; `None`: until the end.
    pub count: Option<u64>,
    /// Connections opened at the start.
    pub streams: u32,
}

/// The state of a flow of requests.
#[derive(Debug)]
pub struct RequestsFlow {
    spec: Arc<Requests>,
    /// Remaining requests; `None`: without end.
    left: Option<u64>,
    next: Option<Time>,
    requests: RandomStream,
    responses: RandomStream,
    arrivals: RandomStream,
    /// Connections by index, which is also their tag.
    channels: Vec<Channel>,
    /// Indices of idle connections, the longest idle first.
    idle: VecDeque<u32>,
    /// Indices of failed connections.
    broken: Vec<u32>,
    /// Arrival times of requests without a connection.
    queued: VecDeque<Time>,
    /// Number of incomplete requests, including queued ones.
    open: u64,
    /// Number of requests sent.
    number: u32,
    max_connections: usize,
}

/// A connection and its request.
#[derive(Clone, Copy, Debug)]
struct Channel {
    connection: u32,
    request: Option<Request>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    start: Time,
    /// Size of the response.
    size: u64,
    /// Bytes of the request that the server has not received yet.
    unserved: u64,
    /// Bytes of the response that the client has not received yet.
    missing: u64,
}

impl RequestsFlow {
    /// Opens the first connections.
    pub fn open(spec: &Arc<Requests>, transport: &mut impl Transport) -> Self {
        let mut arrivals = transport.random("arrivals");
        let first = transport.now() + spec.arrivals.first(&mut arrivals);
        let mut flow = Self {
            spec: Arc::clone(spec),
            left: spec.count,
            next: Some(first),
            requests: transport.random("requests"),
            responses: transport.random("responses"),
            arrivals,
            channels: Vec::new(),
            idle: VecDeque::new(),
            broken: Vec::new(),
            queued: VecDeque::new(),
            open: 0,
            number: 0,
            max_connections: transport.max_connections(),
        };
        for _ in 0..(spec.streams as usize).min(flow.max_connections) {
            let place = flow.connect(transport);
            flow.idle.push_back(place);
        }
        flow
    }

    /// Opens a connection and returns its index.
    fn connect(&mut self, transport: &mut impl Transport) -> u32 {
        let place = self.broken.pop().unwrap_or(self.channels.len() as u32);
        let connection = transport.connect(place, None);
        let channel = Channel { connection, request: None };
        match self.channels.get_mut(place as usize) {
            Some(old) => *old = channel,
            None => self.channels.push(channel),
        }
        place
    }

    /// Sends queued requests as far as connections are available.
    fn send_queued(&mut self, transport: &mut impl Transport) {
        while let Some(start) = self.queued.front().copied() {
            let connected = self.channels.len() - self.broken.len();
            let place = match self.idle.pop_front() {
                Some(place) => place,
                None if connected < self.max_connections => self.connect(transport),
                None => return,
            };
            self.queued.pop_front();
            let unserved = self.spec.request.draw(&mut self.requests).max(1);
            let size = self.spec.response.draw(&mut self.responses).max(1);
            let channel = &mut self.channels[place as usize];
            channel.request = Some(Request { start, size, unserved, missing: size });
            let number = self.number;
            self.number = number.wrapping_add(1);
            transport.request(channel.connection, number, unserved);
        }
    }

    fn answered(&mut self, transport: &mut impl Transport, place: u32) {
        let Some(request) = self.channels[place as usize].request.take() else { return };
        let duration = transport.now().since(request.start);
        transport.report(completion(&request, Some(duration)));
        self.open -= 1;
        self.idle.push_back(place);
        self.send_queued(transport);
    }

    /// Handles a failed connection, whose request fails too.
    fn give_up(&mut self, transport: &mut impl Transport, place: u32) {
        if self.broken.contains(&place) {
            return;
        }
        let channel = &mut self.channels[place as usize];
        transport.forget(channel.connection);
        let request = channel.request.take();
        self.idle.retain(|other| *other != place);
        self.broken.push(place);
        if let Some(request) = request {
            self.open -= 1;
            transport.report(completion(&request, None));
        }
    }

    fn progress(&self, transport: &impl Transport) -> Progress {
        if self.next.is_none() && self.left == Some(0) && self.open == 0 {
            return Progress::Done(transport.now());
        }
        Progress::Going
    }

    /// The connections that have not failed.
    fn connected(&self) -> impl Iterator<Item = &Channel> {
        let channel = |(at, channel)| (!self.broken.contains(&(at as u32))).then_some(channel);
        self.channels.iter().enumerate().filter_map(channel)
    }
}

fn completion(request: &Request, duration: Option<base::Span>) -> Report {
    let Request { start, size, .. } = *request;
    Report::Request(Completion { start, size, duration, retransmits: None })
}

impl Workload for RequestsFlow {
    const RECEIVER: Side = Side::Client;

    fn next_wake(&self) -> Option<Time> {
        self.next
    }

    fn on_wake(&mut self, transport: &mut impl Transport) -> Progress {
        while let Some(start) = self.next.filter(|next| *next <= transport.now()) {
            self.queued.push_back(start);
            self.open += 1;
            transport.report(Report::Started);
            self.left = self.left.map(|left| left.saturating_sub(1));
            let more = self.left != Some(0);
            self.next = more.then(|| start + self.spec.arrivals.gap(&mut self.arrivals));
        }
        self.send_queued(transport);
        self.progress(transport)
    }

    fn on_event(&mut self, transport: &mut impl Transport, event: &Event) -> Progress {
        let Some(place) = transport.tag(event.connection) else { return Progress::Going };
        let Some(channel) = self.channels.get_mut(place as usize) else { return Progress::Going };
        match (event.side, &mut channel.request) {
            (Side::Server, Some(request)) if request.unserved > 0 => {
                request.unserved = request.unserved.saturating_sub(event.bytes);
                if request.unserved == 0 {
                    transport.respond(event.connection, request.size);
                }
            }
            (Side::Client, Some(request)) => {
                request.missing = request.missing.saturating_sub(event.bytes);
                if request.missing == 0 {
                    self.answered(transport, place);
                }
            }
            _ => {}
        }
        if event.closed {
            self.give_up(transport, place);
        }
        self.progress(transport)
    }

    fn connections(&self) -> impl Iterator<Item = u32> {
        self.connected().map(|channel| channel.connection)
    }

    fn close(&mut self, transport: &mut impl Transport) {
        let connected: Vec<Channel> = self.connected().copied().collect();
        for channel in connected {
            if let Some(request) = &channel.request {
                transport.report(completion(request, None));
            }
            transport.reset(channel.connection);
        }
        self.channels.clear();
        self.broken.clear();
        self.idle.clear();
    }
}
