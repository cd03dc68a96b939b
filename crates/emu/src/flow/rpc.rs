//! Request and response over one TCP connection, one at a time.

use std::os::fd::{AsFd, OwnedFd};

use base::{RandomStream, Span, Time};
use lab::plan::{Flow, Traffic};
use outcome::Tally;
use sys::socket::{self, Interest, Readiness};
use transport::workload::{Sizes, Think};

use super::Placed;
use super::meeting::{DOOR, Dial, Meeting};
use super::mptcp::{Others, SubflowMeter};
use super::traffic::{Connections, Endpoints, Progress, Scope, gone};

const CLIENT: u32 = 1;
const SERVER: u32 = 2;

/// Received bytes discarded at once.
const DISCARD: usize = 1 << 20;

/// One end's socket and what it still has to write.
pub(super) struct End {
    pub(super) socket: OwnedFd,
    pub(super) slot: u32,
    pub(super) unwritten: u64,
    /// Whether the queue has been told to wait for room.
    pub(super) wants_room: bool,
}

impl End {
    /// Writes what it can of what is unwritten; answers how much.
    pub(super) fn write(&mut self, scope: &Scope<'_>) -> sys::Result<u64> {
        let mut written = 0;
        while self.unwritten > 0 {
            let most = usize::try_from(self.unwritten).unwrap_or(usize::MAX);
            let data = &scope.payload[..most.min(scope.payload.len())];
            let Some(count) = socket::write(self.socket.as_fd(), data)? else { break };
            self.unwritten -= count as u64;
            written += count as u64;
        }
        let wants_room = self.unwritten > 0;
        if wants_room != self.wants_room {
            self.wants_room = wants_room;
            let interest = if wants_room { Interest::Both } else { Interest::Read };
            scope.modify(&self.socket, self.slot, interest)?;
        }
        Ok(written)
    }

    /// Takes what has arrived; answers how much.
    pub(super) fn read(&self) -> sys::Result<u64> {
        let mut total = 0;
        while let Some(count) = socket::discard(self.socket.as_fd(), DISCARD)? {
            if count == 0 {
                return Err(gone());
            }
            total += count as u64;
            if count < DISCARD {
                break;
            }
        }
        Ok(total)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Connecting,
    /// The server's machine is not as far; another attempt at this time.
    Refused(Time),
    /// So many bytes of the response are still to come.
    Awaiting(u64),
    /// The next request goes out at this time.
    Resting(Time),
}

/// Slot 0 listens, slot 1 is the client, slot 2 the server.
pub(super) struct Rpc {
    client: Option<Client>,
    server: Option<Server>,
    /// Of the client's subflows, if it has several.
    meter: Option<SubflowMeter>,
}

struct Client {
    dial: Dial,
    /// `None` while there is none after a refusal.
    end: Option<End>,
    turn: Turn,
    sizes: Exchanges,
    think: Think,
    thoughts: RandomStream,
    interval: Span,
    /// Requests still to be made.
    left: Option<u64>,
    issued: Time,
}

struct Server {
    listener: OwnedFd,
    /// Once accepted.
    end: Option<End>,
    sizes: Exchanges,
    /// Bytes of the present request that have not arrived, and of its response.
    unasked: u64,
    response: u64,
    /// The client is on another machine.
    is_far: bool,
}

/// Sizes of requests and responses. Both ends draw the same.
pub(super) struct Exchanges {
    sizes: [Sizes; 2],
    random: [RandomStream; 2],
}

impl Exchanges {
    pub(super) fn new(scope: &Scope<'_>, flow: &str, request: &Sizes, response: &Sizes) -> Self {
        let random = ["requests", "responses"].map(|what| scope.random(flow, what));
        Self { sizes: [request.clone(), response.clone()], random }
    }

    /// Of the next request and its response.
    pub(super) fn next(&mut self) -> (u64, u64) {
        let [request, response] = &mut self.random;
        (self.sizes[0].draw(request).max(1), self.sizes[1].draw(response).max(1))
    }
}

impl Rpc {
    pub(super) fn open(
        placed: &Placed,
        meeting: Meeting,
        scope: &mut Scope<'_>,
    ) -> sys::Result<Self> {
        let Flow { traffic, name, .. } = &placed.flow;
        let Traffic::Rpc { request, response, count, interval, think, tcp } = traffic else {
            unreachable!("the driver opens RPC flows with this")
        };
        let others = Others::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        let mut client = Dial::new(placed, meeting.to, tcp, true).map(|dial| Client {
            dial,
            end: None,
            turn: Turn::Connecting,
            sizes: Exchanges::new(scope, name, request, response),
            think: *think,
            thoughts: scope.random(name, "thoughts"),
            interval: *interval,
            left: *count,
            issued: Time::ZERO,
        });
        if let Some(client) = &mut client {
            client.connect(scope)?;
            if let (Some(others), Some(end)) = (&others, &client.end) {
                scope.paths.expect(others, end.socket.as_fd(), client.dial.port())?;
            }
        }
        let server = meeting.door.map(|listener| {
            let mut sizes = Exchanges::new(scope, name, request, response);
            let (unasked, response) = sizes.next();
            let is_far = client.is_none();
            Server { listener, end: None, sizes, unasked, response, is_far }
        });
        Ok(Self { client, server, meter: others.map(|_| SubflowMeter::new(placed)) })
    }
}

impl Client {
    fn connect(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        let socket = self.dial.connect()?;
        scope.add(&socket, CLIENT, Interest::Write)?;
        self.end = Some(End { socket, slot: CLIENT, unwritten: 0, wants_room: true });
        self.turn = Turn::Connecting;
        Ok(())
    }

    fn issue(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if self.left == Some(0) {
            return Ok(Progress::Done(scope.now()));
        }
        let Some(end) = &mut self.end else { return Ok(Progress::Going) };
        self.left = self.left.map(|left| left - 1);
        self.issued = scope.now();
        let (request, response) = self.sizes.next();
        self.turn = Turn::Awaiting(response);
        end.unwritten = request;
        scope.tally.sent += end.write(scope)?;
        Ok(Progress::Going)
    }

    fn on_ready(&mut self, scope: &mut Scope<'_>, readiness: Readiness) -> sys::Result<Progress> {
        let Some(end) = &mut self.end else { return Ok(Progress::Going) };
        if readiness.failed {
            let error = socket::pending_error(end.socket.as_fd()).err().unwrap_or_else(gone);
            if self.turn != Turn::Connecting {
                return Err(error);
            }
            self.turn = Turn::Refused(self.dial.again(error, scope.now())?);
            self.end = None;
            return Ok(Progress::Going);
        }
        if readiness.writable && self.turn == Turn::Connecting {
            return self.issue(scope);
        }
        scope.tally.sent += end.write(scope)?;
        if !readiness.readable {
            return Ok(Progress::Going);
        }
        let got = end.read()?;
        scope.tally.received += got;
        let Turn::Awaiting(missing) = self.turn else { return Ok(Progress::Going) };
        let missing = missing.saturating_sub(got);
        self.turn = Turn::Awaiting(missing);
        if missing > 0 {
            return Ok(Progress::Going);
        }
        let now = scope.now();
        scope.tally.responses += 1;
        scope.tally.record_latency(now.since(self.issued).as_nanos());
        let next = (self.issued + self.interval).max(now + self.think.draw(&mut self.thoughts));
        if self.left == Some(0) {
            return Ok(Progress::Done(now));
        }
        if next > now {
            self.turn = Turn::Resting(next);
            return Ok(Progress::Going);
        }
        self.issue(scope)
    }
}

impl Server {
    fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        if let Some(socket) = socket::accept(self.listener.as_fd())? {
            scope.add(&socket, SERVER, Interest::Read)?;
            self.end = Some(End { socket, slot: SERVER, unwritten: 0, wants_room: false });
        }
        Ok(())
    }

    fn on_ready(&mut self, scope: &Scope<'_>, readiness: Readiness) -> sys::Result<Progress> {
        match self.answer(scope, readiness) {
            // A client on another machine tells of its end by going.
            Err(_) if self.is_far => {
                self.end = None;
                Ok(Progress::Done(scope.now()))
            }
            other => other.map(|()| Progress::Going),
        }
    }

    fn answer(&mut self, scope: &Scope<'_>, readiness: Readiness) -> sys::Result<()> {
        let Some(end) = &mut self.end else { return Ok(()) };
        if readiness.failed {
            socket::pending_error(end.socket.as_fd())?;
            return Err(gone());
        }
        if readiness.readable {
            self.unasked = self.unasked.saturating_sub(end.read()?);
            if self.unasked == 0 {
                end.unwritten += self.response;
                (self.unasked, self.response) = self.sizes.next();
            }
        }
        end.write(scope)?;
        Ok(())
    }
}

impl Endpoints for Rpc {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        match (slot, &mut self.client, &mut self.server) {
            (DOOR, _, Some(server)) => server.accept(scope)?,
            (CLIENT, Some(client), _) => return client.on_ready(scope, readiness),
            (SERVER, _, Some(server)) => return server.on_ready(scope, readiness),
            _ => {}
        }
        Ok(Progress::Going)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let Some(client) = &mut self.client else { return Ok(Progress::Going) };
        match client.turn {
            Turn::Resting(until) if scope.now() >= until => return client.issue(scope),
            Turn::Refused(again) if scope.now() >= again => client.connect(scope)?,
            _ => {}
        }
        Ok(Progress::Going)
    }

    fn deadline(&self) -> Option<Time> {
        match self.client.as_ref()?.turn {
            Turn::Resting(until) | Turn::Refused(until) => Some(until),
            _ => None,
        }
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let client = self.client.as_ref().and_then(|client| client.end.as_ref());
        let server = self.server.as_ref().and_then(|server| server.end.as_ref());
        let server = server.map(|end| end.socket.as_fd());
        if let (Some(meter), Some(client)) = (&mut self.meter, client) {
            meter.observe(tally, client.socket.as_fd(), server);
        }
        let mut connections = Connections::default();
        if let Some(client) = client {
            connections.add(client.socket.as_fd());
        }
        if let Some(server) = server {
            connections.add_retransmits(server);
        }
        connections.report(tally);
    }

    fn close(&mut self, _scope: &mut Scope<'_>) {
        let client = self.client.as_ref().and_then(|client| client.end.as_ref());
        let server = self.server.as_ref().and_then(|server| server.end.as_ref());
        for end in [client, server].into_iter().flatten() {
            // Where this fails the connection is gone already.
            let _ = socket::reset_on_close(end.socket.as_fd());
        }
    }
}
