//! Requests that come whether or not those before have been answered, over connections that stay
//! open.
//!
//! Both ends draw the sizes of all requests and responses. A request says in its first bytes which
//! one it is: its number, little-endian, as far as there is room in four bytes.

mod server;

use std::collections::VecDeque;
use std::os::fd::AsFd;

use base::{Bytes, FlowId, RandomStream, Time};
use lab::plan::{Flow, Traffic};
use outcome::{Ideal, Tally};
use record::Transfer;
use sys::socket::{self, Interest, Readiness};
use transport::workload::Arrivals;

use super::meeting::{DOOR, Dial, Meeting};
use super::rpc::{End, Exchanges};
use super::traffic::{CHUNK, Connections, Endpoints, Progress, Scope, gone};
use super::transfers::MOST_AT_ONCE;
use super::{Observation, Placed};
use server::Server;

/// A request says its number in so many bytes at most.
const NUMBER: usize = 4;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u32,
    start: Time,
    /// Its own size, until it has been begun to be sent.
    unsent: Option<u64>,
    /// Size of the response.
    size: u64,
    /// What the client has yet to get of the response.
    missing: u64,
}

/// A connection and its request, at the client.
struct Channel {
    /// `None` while there is none after a refusal; the next attempt is then.
    end: Option<End>,
    again: Option<Time>,
    connected: bool,
    request: Option<Request>,
}

/// Slot 0 listens; the client's connection n has slot 2 n + 1, the server's 2 n + 2.
pub(super) struct Requests {
    client: Option<Client>,
    server: Option<Server>,
}

struct Client {
    flow: FlowId,
    dial: Dial,
    ideal: Option<Ideal>,
    sizes: Exchanges,
    arrivals: Arrivals,
    time_stream: RandomStream,
    /// Requests still to come.
    left: Option<u64>,
    next: Option<Time>,
    /// The number of the next.
    number: u32,
    channels: Vec<Channel>,
    /// Positions of connections without a request, the longest idle first.
    idle: VecDeque<usize>,
    /// When requests came that have no connection yet.
    waiting: VecDeque<Time>,
    /// Requests without their whole response, those that wait too.
    open: u64,
}

impl Requests {
    pub(super) fn open(placed: &Placed, meeting: Meeting, scope: &Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, name, .. } = &placed.flow;
        let Traffic::Requests { request, response, arrivals, count, streams, tcp } = traffic else {
            unreachable!("the driver opens flows of requests with this")
        };
        let sizes = || Exchanges::new(scope, name, request, response);
        let mut client = Dial::new(placed, meeting.to, tcp, true).map(|dial| {
            let mut time_stream = scope.random(name, "arrivals");
            let first = scope.now() + arrivals.first(&mut time_stream);
            Client {
                flow: placed.id,
                dial,
                ideal: placed.ideal,
                sizes: sizes(),
                arrivals: arrivals.clone(),
                time_stream,
                left: *count,
                next: Some(first),
                number: 0,
                channels: Vec::new(),
                idle: VecDeque::new(),
                waiting: VecDeque::new(),
                open: 0,
            }
        });
        if let Some(client) = &mut client {
            for _ in 0..(*streams as usize).min(MOST_AT_ONCE) {
                let place = client.connect(scope)?;
                client.idle.push_back(place);
            }
        }
        let is_far = client.is_none();
        let server = meeting.door.map(|listener| Server::new(listener, sizes(), is_far));
        Ok(Self { client, server })
    }
}

impl Client {
    /// Opens a connection and gives its position.
    fn connect(&mut self, scope: &Scope<'_>) -> sys::Result<usize> {
        let place = self.channels.len();
        let end = Some(self.dial(scope, place)?);
        self.channels.push(Channel { end, again: None, connected: false, request: None });
        Ok(place)
    }

    fn dial(&self, scope: &Scope<'_>, place: usize) -> sys::Result<End> {
        let socket = self.dial.connect()?;
        let slot = place as u32 * 2 + 1;
        scope.add(&socket, slot, Interest::Write)?;
        Ok(End { socket, slot, unwritten: 0, wants_room: true })
    }

    /// Takes in what is due, sends what has a connection, and tries again what was refused.
    fn begin_due(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        while let Some(start) = self.next.filter(|next| *next <= scope.now()) {
            self.waiting.push_back(start);
            self.open += 1;
            scope.tally.transfers_started += 1;
            self.left = self.left.map(|left| left - 1);
            let more = self.left != Some(0);
            self.next = more.then(|| start + self.arrivals.gap(&mut self.time_stream));
        }
        while let Some(start) = self.waiting.front().copied() {
            let place = match self.idle.pop_front() {
                Some(place) => place,
                None if self.channels.len() < MOST_AT_ONCE => self.connect(scope)?,
                None => break,
            };
            self.waiting.pop_front();
            let (asking, size) = self.sizes.next();
            let (number, unsent) = (self.number, Some(asking));
            self.number = self.number.wrapping_add(1);
            let channel = &mut self.channels[place];
            channel.request = Some(Request { number, start, unsent, size, missing: size });
            channel.write(scope)?;
        }
        let now = scope.now();
        for place in 0..self.channels.len() {
            if self.channels[place].again.is_some_and(|again| again <= now) {
                let end = self.dial(scope, place)?;
                let channel = &mut self.channels[place];
                (channel.end, channel.again) = (Some(end), None);
            }
        }
        Ok(())
    }

    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        place: usize,
        readiness: Readiness,
    ) -> sys::Result<()> {
        let Some(channel) = self.channels.get_mut(place) else { return Ok(()) };
        let Some(end) = &channel.end else { return Ok(()) };
        if readiness.failed {
            let error = socket::pending_error(end.socket.as_fd()).err().unwrap_or_else(gone);
            if channel.connected {
                return Err(error);
            }
            (channel.end, channel.again) = (None, Some(self.dial.again(error, scope.now())?));
            return Ok(());
        }
        if readiness.writable {
            if !channel.connected {
                channel.connected = true;
                self.dial.connected();
            }
            channel.write(scope)?;
        }
        let Some(end) = channel.end.as_ref().filter(|_| readiness.readable) else {
            return Ok(());
        };
        let got = end.read()?;
        scope.tally.received += got;
        let Some(request) = &mut channel.request else { return Ok(()) };
        request.missing = request.missing.saturating_sub(got);
        if request.missing == 0 {
            let request = *request;
            channel.request = None;
            let transfer = self.transfer(&request, Some(scope.now()));
            scope.tally.responses += 1;
            scope.tally.transfer(&transfer);
            (scope.sink)(Observation::Transfer(transfer));
            self.open -= 1;
            self.idle.push_back(place);
            self.begin_due(scope)?;
        }
        Ok(())
    }

    fn transfer(&self, request: &Request, end: Option<Time>) -> Transfer {
        let size = Bytes::new(request.size);
        Transfer {
            flow: self.flow,
            start: request.start,
            size,
            completion: end.map(|end| end.since(request.start)),
            ideal: self.ideal.map(|ideal| ideal.answer(size)),
            retransmits: None,
        }
    }
}

impl Channel {
    /// Writes what it can of its request, once there is a connection.
    fn write(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        let Some(end) = self.end.as_mut().filter(|_| self.connected) else { return Ok(()) };
        if let Some(request) = &mut self.request
            && let Some(size) = request.unsent
        {
            let data = &mut scope.scratch[..usize::try_from(size).unwrap_or(CHUNK).min(CHUNK)];
            let number = request.number.to_le_bytes();
            let told = number.len().min(data.len());
            data[..told].copy_from_slice(&number[..told]);
            if let Some(count) = socket::write(end.socket.as_fd(), data)? {
                request.unsent = None;
                end.unwritten = size - count as u64;
                scope.tally.sent += count as u64;
            }
        }
        scope.tally.sent += end.write(scope)?;
        Ok(())
    }
}

impl Endpoints for Requests {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        let place = slot.saturating_sub(1) as usize / 2;
        match (slot, &mut self.client, &mut self.server) {
            (DOOR, _, Some(server)) => server.accept(scope)?,
            (_, Some(client), _) if slot % 2 == 1 => client.on_ready(scope, place, readiness)?,
            (_, _, Some(server)) => return server.on_ready(scope, place, readiness),
            _ => {}
        }
        Ok(self.progress(scope))
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if let Some(client) = &mut self.client {
            client.begin_due(scope)?;
        }
        Ok(self.progress(scope))
    }

    fn deadline(&self) -> Option<Time> {
        let client = self.client.as_ref()?;
        client.channels.iter().filter_map(|channel| channel.again).chain(client.next).min()
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let mut connections = Connections::default();
        for channel in self.client.iter().flat_map(|client| &client.channels) {
            channel.end.iter().for_each(|end| connections.add(end.socket.as_fd()));
        }
        for end in self.server.iter().flat_map(Server::ends) {
            connections.add_retransmits(end.socket.as_fd());
        }
        connections.report(tally);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        if let Some(client) = &mut self.client {
            for channel in std::mem::take(&mut client.channels) {
                if let Some(request) = &channel.request {
                    (scope.sink)(Observation::Transfer(client.transfer(request, None)));
                }
                // Where this fails the connection is gone already.
                let reset = |end: End| drop(socket::reset_on_close(end.socket.as_fd()));
                channel.end.into_iter().for_each(reset);
            }
        }
        for end in self.server.iter().flat_map(Server::ends) {
            // As above.
            let _ = socket::reset_on_close(end.socket.as_fd());
        }
    }
}

impl Requests {
    fn progress(&self, scope: &Scope<'_>) -> Progress {
        match &self.client {
            Some(client) if client.left == Some(0) && client.open == 0 => {
                Progress::Done(scope.now())
            }
            _ => Progress::Going,
        }
    }
}
