//! Request and response over one TCP connection, one at a time.

use std::os::fd::{AsFd, OwnedFd};

use base::{RandomStream, Span, Time};
use lab::plan::{Flow, Traffic};
use outcome::Tally;
use sys::socket::{self, Interest, Readiness};
use transport::workload::{Sizes, Think};

use super::mptcp::{Others, SubflowMeter};
use super::traffic::{Connections, Endpoints, Progress, Scope, gone};
use super::{Placed, enter};

const LISTENER: u32 = 0;
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
    /// So many bytes of the response are still to come.
    Awaiting(u64),
    /// The next request goes out at this time.
    Resting(Time),
}

/// Slot 0 listens, slot 1 is the client, slot 2 the server.
pub(super) struct Rpc {
    listener: OwnedFd,
    client: End,
    server: Option<End>,
    turn: Turn,
    requests: Drawn,
    responses: Drawn,
    think: Think,
    thoughts: RandomStream,
    interval: Span,
    /// Requests still to be made.
    left: Option<u64>,
    issued: Time,
    /// Bytes of the present request that have not reached the server, and of its response.
    unasked: u64,
    response: u64,
    /// Of the client's subflows, if it has several.
    meter: Option<SubflowMeter>,
}

/// Sizes and what they are drawn from.
struct Drawn {
    sizes: Sizes,
    random: RandomStream,
}

impl Drawn {
    fn next(&mut self) -> u64 {
        self.sizes.draw(&mut self.random).max(1)
    }
}

impl Rpc {
    pub(super) fn open(placed: &Placed, scope: &mut Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, dscp, .. } = &placed.flow;
        let Traffic::Rpc { request, response, count, interval, think, tcp } = traffic else {
            unreachable!("the driver opens RPC flows with this")
        };
        let options = super::tcp_options(tcp, true, *dscp);
        let others = Others::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        let random = |what| scope.random(&placed.flow.name, what);
        let drawn = |sizes: &Sizes, what| Drawn { sizes: sizes.clone(), random: random(what) };
        let (requests, responses) = (drawn(request, "requests"), drawn(response, "responses"));
        let thoughts = random("thoughts");
        enter(&placed.netns[1])?;
        let (listener, at) = super::listen(placed, options)?;
        scope.add(&listener, LISTENER, Interest::Read)?;
        enter(&placed.netns[0])?;
        let socket = socket::connect(placed.addresses[0], at, options)?;
        scope.add(&socket, CLIENT, Interest::Write)?;
        if let Some(others) = &others {
            scope.paths.expect(others, socket.as_fd(), at.port())?;
        }
        let client = End { socket, slot: CLIENT, unwritten: 0, wants_room: true };
        Ok(Self {
            listener,
            client,
            server: None,
            turn: Turn::Connecting,
            requests,
            responses,
            think: *think,
            thoughts,
            interval: *interval,
            left: *count,
            issued: Time::ZERO,
            unasked: 0,
            response: 0,
            meter: others.map(|_| SubflowMeter::new(placed)),
        })
    }

    fn issue(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if self.left == Some(0) {
            return Ok(Progress::Done(scope.now()));
        }
        self.left = self.left.map(|left| left - 1);
        self.issued = scope.now();
        self.unasked = self.requests.next();
        self.response = self.responses.next();
        self.turn = Turn::Awaiting(self.response);
        self.client.unwritten = self.unasked;
        scope.tally.sent += self.client.write(scope)?;
        Ok(Progress::Going)
    }

    fn on_client(&mut self, scope: &mut Scope<'_>, readiness: Readiness) -> sys::Result<Progress> {
        if readiness.failed {
            socket::pending_error(self.client.socket.as_fd())?;
            return Err(gone());
        }
        if self.turn == Turn::Connecting {
            return self.issue(scope);
        }
        if readiness.writable {
            scope.tally.sent += self.client.write(scope)?;
        }
        if !readiness.readable {
            return Ok(Progress::Going);
        }
        let got = self.client.read()?;
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

    fn on_server(&mut self, scope: &Scope<'_>, readiness: Readiness) -> sys::Result<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        if readiness.failed {
            socket::pending_error(server.socket.as_fd())?;
            return Err(gone());
        }
        if readiness.readable {
            let missing = self.unasked;
            self.unasked = missing.saturating_sub(server.read()?);
            if missing > 0 && self.unasked == 0 {
                server.unwritten += self.response;
            }
        }
        server.write(scope)?;
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
        match slot {
            LISTENER => {
                if let Some(socket) = socket::accept(self.listener.as_fd())? {
                    scope.add(&socket, SERVER, Interest::Read)?;
                    let end = End { socket, slot: SERVER, unwritten: 0, wants_room: false };
                    self.server = Some(end);
                }
            }
            CLIENT => return self.on_client(scope, readiness),
            _ => self.on_server(scope, readiness)?,
        }
        Ok(Progress::Going)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        match self.turn {
            Turn::Resting(until) if scope.now() >= until => self.issue(scope),
            _ => Ok(Progress::Going),
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self.turn {
            Turn::Resting(until) => Some(until),
            _ => None,
        }
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        if let Some(meter) = &mut self.meter {
            let server = self.server.as_ref().map(|server| server.socket.as_fd());
            meter.observe(tally, self.client.socket.as_fd(), server);
        }
        let mut connections = Connections::default();
        connections.add(self.client.socket.as_fd());
        if let Some(server) = &self.server {
            connections.add_retransmits(server.socket.as_fd());
        }
        connections.report(tally);
    }

    fn close(&mut self, _scope: &mut Scope<'_>) {
        for end in [Some(&self.client), self.server.as_ref()].into_iter().flatten() {
            // Where this fails the connection is gone already.
            let _ = socket::reset_on_close(end.socket.as_fd());
        }
    }
}
